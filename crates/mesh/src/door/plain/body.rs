//! Bodies of answers, and where they end (RFC 9112, 6.3).

use httparse::Header;

use super::head::is;

/// Of what is said beside the size of chunks, of a whole body, and of the fields after the last.
const MAX_BESIDE_BYTES: u32 = 16 << 10;
/// Digits of the size of a chunk.
const MAX_DIGITS: u8 = 15;

/// What is left of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// So many bytes.
    Length(u64),
    Chunked(Chunks),
    /// All that comes until the connection ends.
    UntilEnd,
}

impl Body {
    /// The body behind a head.
    ///
    /// # Errors
    /// Why it could be read in two ways.
    pub(super) fn of(is_for_head: bool, status: u16, is_1_0: bool, fields: &[Header<'_>]) -> Result<Body, String> {
        let mut lengths = fields.iter().filter(|field| is(field, "content-length"));
        let mut codings = fields.iter().filter(|field| is(field, "transfer-encoding"));
        let length = lengths.next().map(|field| number(field.value)).transpose()?;
        if lengths.next().is_some() {
            return Err("there is more than one Content-Length".to_owned());
        }
        let coding = codings.next();
        if let Some(coding) = coding {
            let is_chunked = coding.value.eq_ignore_ascii_case(b"chunked");
            if !is_chunked || codings.next().is_some() || is_1_0 {
                return Err("its Transfer-Encoding is not chunked alone".to_owned());
            }
            if length.is_some() {
                return Err("there is a Content-Length beside its Transfer-Encoding".to_owned());
            }
        }
        Ok(match (coding, length) {
            _ if is_for_head || status == 204 || status == 304 => Body::Length(0),
            (Some(_), _) => Body::Chunked(Chunks::default()),
            (None, Some(length)) => Body::Length(length),
            (None, None) => Body::UntilEnd,
        })
    }

    /// Whether who reads it learns of its end by that of the connection.
    pub(super) fn has_no_end(&self) -> bool {
        *self == Body::UntilEnd
    }

    pub(super) fn is_over(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(chunks) => chunks.at == At::End,
            Body::UntilEnd => false,
        }
    }

    /// Passes on what is of the body, to the end of `out`, and says how many bytes that was.
    ///
    /// # Errors
    /// Why it is none.
    pub(super) fn pass(&mut self, said: &[u8], out: &mut Vec<u8>) -> Result<usize, String> {
        match self {
            Body::Length(left) => {
                let bytes = said.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                out.extend_from_slice(&said[..bytes]);
                *left -= bytes as u64;
                Ok(bytes)
            }
            Body::Chunked(chunks) => chunks.pass(said, out),
            Body::UntilEnd => {
                out.extend_from_slice(said);
                Ok(said.len())
            }
        }
    }
}

fn number(digits: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(digits).ok();
    let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| "its Content-Length is no number".to_owned())
}

/// A body in chunks (RFC 9112, 7.1). Extensions and trailers are not passed on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunks {
    at: At,
    /// Of this chunk.
    left: u64,
    digits: u8,
    beside_bytes: u32,
}

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    Extension,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    /// A line of the trailers, of which nothing or something was there.
    Trailer {
        is_empty: bool,
    },
    TrailerLf {
        is_empty: bool,
    },
    End,
}

impl Chunks {
    fn pass(&mut self, said: &[u8], out: &mut Vec<u8>) -> Result<usize, String> {
        let mut read = 0;
        while read < said.len() && self.at != At::End {
            if self.at == At::Data {
                let bytes = (said.len() - read).min(usize::try_from(self.left).unwrap_or(usize::MAX));
                out.extend_from_slice(&said[read..read + bytes]);
                read += bytes;
                self.left -= bytes as u64;
                if self.left == 0 {
                    self.at = At::DataCr;
                }
                continue;
            }
            self.at = self.next(said[read], out)?;
            read += 1;
        }
        Ok(read)
    }

    fn next(&mut self, byte: u8, out: &mut Vec<u8>) -> Result<At, String> {
        Ok(match (self.at, byte) {
            (At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if self.digits < MAX_DIGITS => {
                self.digits += 1;
                self.left = self.left << 4 | u64::from(hex(byte));
                At::Size
            }
            (At::Size, b'\r') if self.digits > 0 => At::SizeEnd,
            (At::Size, b';' | b' ' | b'\t') if self.digits > 0 => At::Extension,
            (At::Extension, b'\r') => At::SizeEnd,
            (At::Extension, byte) if byte != b'\n' => {
                self.beside()?;
                At::Extension
            }
            (At::SizeEnd, b'\n') => {
                self.digits = 0;
                out.extend_from_slice(format!("{:x}\r\n", self.left).as_bytes());
                match self.left {
                    0 => At::Trailer { is_empty: true },
                    _ => At::Data,
                }
            }
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => {
                out.extend_from_slice(b"\r\n");
                At::Size
            }
            (At::Trailer { is_empty }, b'\r') => At::TrailerLf { is_empty },
            (At::Trailer { .. }, byte) if byte != b'\n' => {
                self.beside()?;
                At::Trailer { is_empty: false }
            }
            (At::TrailerLf { is_empty: false }, b'\n') => At::Trailer { is_empty: true },
            (At::TrailerLf { is_empty: true }, b'\n') => {
                out.extend_from_slice(b"\r\n");
                At::End
            }
            _ => return Err("its chunks are none".to_owned()),
        })
    }

    fn beside(&mut self) -> Result<(), String> {
        self.beside_bytes += 1;
        match self.beside_bytes > MAX_BESIDE_BYTES {
            true => Err(format!(
                "there are more than {MAX_BESIDE_BYTES} bytes beside its chunks"
            )),
            false => Ok(()),
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn of(fields: &[(&str, &str)]) -> Result<Body, String> {
        let fields: Vec<Header<'_>> = fields
            .iter()
            .map(|(name, value)| Header {
                name,
                value: value.as_bytes(),
            })
            .collect();
        Body::of(false, 200, false, &fields)
    }

    #[test]
    fn a_body_ends_where_its_head_says() {
        assert_eq!(of(&[("Content-Length", "12")]), Ok(Body::Length(12)));
        assert_eq!(
            of(&[("Transfer-Encoding", "Chunked")]),
            Ok(Body::Chunked(Chunks::default()))
        );
        assert_eq!(of(&[]), Ok(Body::UntilEnd));
        for fields in [
            &[("content-length", "1"), ("content-length", "1")][..],
            &[("content-length", "+1")],
            &[("content-length", "1, 1")],
            &[("content-length", "")],
            &[("content-length", "18446744073709551616")],
            &[("transfer-encoding", "gzip, chunked")],
            &[("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")],
            &[("transfer-encoding", "chunked"), ("content-length", "1")],
        ] {
            assert!(of(fields).is_err(), "{fields:?}");
        }
        let length = [Header {
            name: "content-length",
            value: b"3",
        }];
        for (is_for_head, status) in [(true, 200), (false, 204), (false, 304)] {
            assert_eq!(Body::of(is_for_head, status, false, &length), Ok(Body::Length(0)));
        }
    }

    /// What is passed on of a body that comes in pieces of so many bytes, and how much of it was read.
    fn passed(said: &[u8], piece_bytes: usize) -> Result<(Vec<u8>, usize, bool), String> {
        let (mut body, mut out, mut read) = (Body::Chunked(Chunks::default()), Vec::new(), 0);
        for piece in said.chunks(piece_bytes) {
            let bytes = body.pass(piece, &mut out)?;
            read += bytes;
            if bytes < piece.len() {
                break;
            }
        }
        Ok((out, read, body.is_over()))
    }

    #[test]
    fn chunks_are_passed_on_without_what_stands_beside_them_however_they_come() {
        let said = b"4;a=b\r\nWiki\r\n0000A \r\n0123456789\r\n0\r\nX-Sum: 1\r\n\r\n";
        let whole = [&said[..], b"HTTP/1.1 200 OK"].concat();
        for piece_bytes in 1..whole.len() {
            let expected = (b"4\r\nWiki\r\na\r\n0123456789\r\n0\r\n\r\n".to_vec(), said.len(), true);
            assert_eq!(passed(&whole, piece_bytes), Ok(expected), "{piece_bytes}");
        }
        assert_eq!(
            passed(&said[..said.len() - 1], 7).map(|(.., is_over)| is_over),
            Ok(false)
        );
    }

    #[test]
    fn what_is_no_chunk_is_an_error() {
        let long = format!("1;{}\r\n", "a".repeat(MAX_BESIDE_BYTES as usize + 1));
        let trailers = format!("0\r\n{}", "a: b\r\n".repeat(MAX_BESIDE_BYTES as usize / 4 + 1));
        for said in [
            "\r\n",
            "g\r\n",
            "1\n",
            "-1\r\n",
            "1\r\nab\r\n",
            "1\r\na\n",
            ";a\r\n",
            "0\r\n\n",
            "1;\n",
            "1234567890abcdef0\r\n",
            &long,
            &trailers,
        ] {
            assert!(passed(said.as_bytes(), 5).is_err(), "{said:.30}");
        }
    }

    #[test]
    fn whatever_is_said_in_whatever_pieces_the_same_is_passed_on() {
        let mut random = StdRng::seed_from_u64(56);
        let mut over = 0;
        for _ in 0..50_000 {
            let mut said = b"4;a=b\r\nWiki\r\n0A\r\n0123456789\r\n0\r\nX: 1\r\n\r\nrest".to_vec();
            for _ in 0..random.random_range(0..3) {
                let at = random.random_range(0..said.len());
                said[at] = b"\r\n;0aF \t:-g\0"[random.random_range(0..12)];
            }
            let at_once = passed(&said, said.len());
            let in_pieces = passed(&said, random.random_range(1..9));
            assert_eq!(at_once.is_err(), in_pieces.is_err(), "{}", said.escape_ascii());
            if let (Ok(one), Ok(other)) = (at_once, in_pieces) {
                assert_eq!(one, other, "{}", said.escape_ascii());
                over += u32::from(one.2);
            }
        }
        assert!(over > 5_000, "{over}");
    }
}
