//! The PROXY protocol, versions 1 and 2: how a load balancer in front says where a connection really comes from
//! (<https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt};

const SIGNATURE_V2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Longest header of version 1 with its line end.
const V1_MAX_BYTES: usize = 107;
/// Longest address block of version 2 accepted here, with its extensions.
const V2_MAX_BYTES: usize = 536;

/// Reads the header, byte by byte where its length is not known, so that nothing behind it is taken.
/// `None`: the proxy speaks for itself (a health check) or does not know.
///
/// # Errors
/// `InvalidData` if what arrives is no header.
pub(crate) async fn read_header(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut start = [0; 12];
    stream.read_exact(&mut start).await?;
    if &start == SIGNATURE_V2 {
        return read_v2(stream).await;
    }
    if !start.starts_with(b"PROXY ") {
        return Err(invalid("no PROXY protocol header"));
    }
    let mut line = start.to_vec();
    while !line.ends_with(b"\r\n") {
        if line.len() == V1_MAX_BYTES {
            return Err(invalid("PROXY protocol line without end"));
        }
        line.push(stream.read_u8().await?);
    }
    parse_v1(&line[..line.len() - 2])
}

fn parse_v1(line: &[u8]) -> io::Result<Option<SocketAddr>> {
    let line = std::str::from_utf8(line).map_err(|_| invalid("PROXY protocol line"))?;
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["PROXY", "UNKNOWN", ..] => Ok(None),
        ["PROXY", "TCP4" | "TCP6", source, _, port, _] => {
            let address = source.parse().map_err(|_| invalid("PROXY protocol address"))?;
            let port = port.parse().map_err(|_| invalid("PROXY protocol port"))?;
            Ok(Some(SocketAddr::new(address, port)))
        }
        _ => Err(invalid("PROXY protocol line")),
    }
}

async fn read_v2(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let [command, family] = [stream.read_u8().await?, stream.read_u8().await?];
    let length = usize::from(stream.read_u16().await?);
    if length > V2_MAX_BYTES {
        return Err(invalid("PROXY protocol header too long"));
    }
    let mut block = vec![0; length];
    stream.read_exact(&mut block).await?;
    match (command, family) {
        (0x20, _) => Ok(None),
        (0x21, 0x11) if length >= 12 => {
            let source: [u8; 4] = block[..4].try_into().expect("four bytes");
            Ok(Some(
                (Ipv4Addr::from(source), u16::from_be_bytes([block[8], block[9]])).into(),
            ))
        }
        (0x21, 0x21) if length >= 36 => {
            let source: [u8; 16] = block[..16].try_into().expect("sixteen bytes");
            Ok(Some(
                (Ipv6Addr::from(source), u16::from_be_bytes([block[32], block[33]])).into(),
            ))
        }
        (0x21, 0x00 | 0x31) => Ok(None),
        _ => Err(invalid("PROXY protocol command or family")),
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(bytes: &[u8], expected: Option<Option<&str>>) {
        let mut stream = [bytes, b"rest"].concat();
        let mut reader = &stream.split_off(0)[..];
        let got = read_header(&mut reader).await;
        match expected {
            Some(address) => {
                assert_eq!(got.unwrap(), address.map(|a| a.parse().unwrap()), "{bytes:?}");
                assert_eq!(reader, b"rest");
            }
            None => assert!(got.is_err(), "{bytes:?}"),
        }
    }

    #[tokio::test]
    async fn headers_of_both_versions_are_read_to_their_end_and_no_further() {
        check(
            b"PROXY TCP4 192.0.2.1 192.0.2.2 5612 1883\r\n",
            Some(Some("192.0.2.1:5612")),
        )
        .await;
        check(
            b"PROXY TCP6 2001:db8::1 ::1 5612 1883\r\n",
            Some(Some("[2001:db8::1]:5612")),
        )
        .await;
        check(b"PROXY UNKNOWN\r\n", Some(None)).await;
        let v4 = [
            &SIGNATURE_V2[..],
            &[0x21, 0x11, 0, 12, 192, 0, 2, 1, 192, 0, 2, 2, 21, 236, 7, 91],
        ]
        .concat();
        check(&v4, Some(Some("192.0.2.1:5612"))).await;
        check(&[&SIGNATURE_V2[..], &[0x20, 0, 0, 0]].concat(), Some(None)).await;
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused() {
        check(b"\x10\x0e\0\x04MQTT\x04\x02\0\0\0\x02ab", None).await;
        check(b"PROXY TCP4 nowhere 192.0.2.2 5612 1883\r\n", None).await;
        check(&[&b"PROXY TCP4 "[..], &[b'1'; 200]].concat(), None).await;
        check(&[&SIGNATURE_V2[..], &[0x21, 0x11, 255, 255]].concat(), None).await;
        check(&[&SIGNATURE_V2[..], &[0x21, 0x11, 0, 4, 1, 2, 3, 4]].concat(), None).await;
    }
}
