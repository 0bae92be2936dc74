//! Heads of plain requests and of their answers, as they are passed on.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Status};

use super::body::Body;
use crate::door::http::{BUSY, FAILED};

/// Fields of a head, as many as hyper takes.
const MAX_FIELDS: usize = 100;
/// What is of one connection, and not of the answer (RFC 9110, 7.6.1).
const OF_CONNECTION: [&str; 6] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];
/// Methods of which nobody is told twice what to do: who has not answered may be asked again (RFC 9110, 9.2.2).
const METHODS: [&str; 4] = ["GET", "HEAD", "OPTIONS", "DELETE"];
/// What makes of a request more than its head, or asks something of who passes it on.
const NOT_PLAIN: [&str; 11] = [
    "content-length",
    "expect",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What somebody who asks has said so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// The beginning of a head.
    Unfinished,
    /// A plain request, in so many bytes.
    Plain { bytes: usize, is_for_head: bool },
    /// Something else, or what two could read differently.
    Other,
}

/// Reads the head of a request, and if it is plain writes it to `out` as it is passed on.
pub(super) fn asked(said: &[u8], out: &mut Vec<u8>) -> Asked {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    let bytes = match ParserConfig::default().parse_request_with_uninit_headers(&mut head, said, &mut fields) {
        Ok(Status::Complete(bytes)) => bytes,
        Ok(Status::Partial) => return Asked::Unfinished,
        Err(_) => return Asked::Other,
    };
    let (Some(method), Some(path), Some(1)) = (head.method, head.path, head.version) else {
        return Asked::Other;
    };
    if !METHODS.contains(&method) || !is_path(path) {
        return Asked::Other;
    }
    out.clear();
    for part in [method, " ", path, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    let mut hosts = 0;
    for field in &*head.headers {
        if is(field, "connection") {
            // What it could name beside is seldom said.
            if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                return Asked::Other;
            }
            continue;
        }
        if NOT_PLAIN.iter().any(|name| is(field, name)) {
            return Asked::Other;
        }
        hosts += usize::from(is(field, "host"));
        put(out, field);
    }
    out.extend_from_slice(b"\r\n");
    match hosts {
        1 => Asked::Plain {
            bytes,
            is_for_head: method == "HEAD",
        },
        _ => Asked::Other,
    }
}

/// Characters that a path and a query have (RFC 3986, 3.3), and those that callers use beside them.
fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b'#')
}

/// The head of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// Its own.
    pub(super) bytes: usize,
    pub(super) status: u16,
    pub(super) body: Body,
    /// The connection takes another request after it.
    pub(super) stays: bool,
    /// What a node says of others' requests there.
    pub(super) busy: Option<u32>,
    /// What it says of why it has no answer itself.
    pub(super) failed: Option<Vec<u8>>,
}

/// Reads the head of an answer, which is the one of a request for a head or not, and writes it to `out` as it is passed
/// on, but for its end; `None`: it is not all there.
///
/// # Errors
/// Why it is none.
pub(super) fn answered(said: &[u8], is_for_head: bool, out: &mut Vec<u8>) -> Result<Option<Answered>, String> {
    let mut from = 0;
    loop {
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut head = httparse::Response::new(&mut []);
        let config = ParserConfig::default();
        let parsed = config.parse_response_with_uninit_headers(&mut head, &said[from..], &mut fields);
        let Status::Complete(bytes) = parsed.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let status = head.code.ok_or("it has no status")?;
        match status {
            101 => return Err("it speaks another protocol than it was asked by".to_owned()),
            // Others follow (RFC 9110, 15.2).
            100..200 => from += bytes,
            200..1000 => {
                let mut answered = passed_on(&head, is_for_head, out)?;
                answered.bytes = from + bytes;
                return Ok(Some(answered));
            }
            _ => return Err(format!("{status} is no status")),
        }
    }
}

fn passed_on(head: &httparse::Response<'_, '_>, is_for_head: bool, out: &mut Vec<u8>) -> Result<Answered, String> {
    let status = head.code.unwrap_or_default();
    let fields = &*head.headers;
    let connection = || {
        let values = fields.iter().filter(|field| is(field, "connection"));
        let words = values.flat_map(|field| field.value.split(|byte| *byte == b','));
        words.map(<[u8]>::trim_ascii)
    };
    let names = |word: &str| connection().any(|other| other.eq_ignore_ascii_case(word.as_bytes()));
    // Where the body ends is said to whoever reads it, whatever that names.
    let is_named = |field: &Header<'_>| names(field.name) && !is(field, "content-length");
    let is_of_connection = |field: &Header<'_>| OF_CONNECTION.iter().any(|name| is(field, name)) || is_named(field);
    let is_1_0 = head.version == Some(0);
    let mut answered = Answered {
        bytes: 0,
        status,
        body: Body::of(is_for_head, status, is_1_0, fields)?,
        stays: !names("close") && (!is_1_0 || names("keep-alive")),
        busy: None,
        failed: None,
    };
    let reason = head.reason.unwrap_or_default();
    out.clear();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&[status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8));
    out.push(b' ');
    out.extend_from_slice(reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    for field in fields {
        if is(field, BUSY.as_str()) {
            let text = std::str::from_utf8(field.value);
            answered.busy = text.ok().and_then(|text| text.parse().ok());
        } else if is(field, FAILED.as_str()) {
            answered.failed = Some(field.value.to_vec());
        } else if !is_of_connection(field) {
            put(out, field);
        }
    }
    if matches!(answered.body, Body::Chunked(_)) {
        out.extend_from_slice(b"transfer-encoding: chunked\r\n");
    }
    Ok(answered)
}

/// Whether that is the name of a field.
pub(super) fn is(field: &Header<'_>, name: &str) -> bool {
    field.name.eq_ignore_ascii_case(name)
}

fn put(out: &mut Vec<u8>, field: &Header<'_>) {
    for part in [field.name.as_bytes(), b": ", field.value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn asked_of(said: &str) -> (Asked, String) {
        let mut out = Vec::new();
        let asked = asked(said.as_bytes(), &mut out);
        (asked, String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_plain_request_is_passed_on_without_what_is_of_its_connection() {
        let said = "GET /a?b=c HTTP/1.1\r\nHost: web\r\nConnection: Keep-Alive\r\nX-Own:  1 \r\n\r\nGET /next";
        let (asked, out) = asked_of(said);
        let bytes = said.len() - "GET /next".len();
        assert_eq!(
            asked,
            Asked::Plain {
                bytes,
                is_for_head: false
            }
        );
        assert_eq!(out, "GET /a?b=c HTTP/1.1\r\nHost: web\r\nX-Own: 1\r\n\r\n");
        let (asked, _) = asked_of("HEAD / HTTP/1.1\r\nhost: web\r\n\r\n");
        assert!(matches!(asked, Asked::Plain { is_for_head: true, .. }));
        for end in 1..bytes {
            assert_eq!(asked_of(&said[..end]).0, Asked::Unfinished, "{end}");
        }
    }

    #[test]
    fn what_has_a_body_asks_for_more_or_could_be_read_in_two_ways_is_not_plain() {
        for line in [
            "POST / HTTP/1.1",
            "GET / HTTP/1.0",
            "GET http://web/ HTTP/1.1",
            "OPTIONS * HTTP/1.1",
            "GET /# HTTP/1.1",
        ] {
            assert_eq!(
                asked_of(&format!("{line}\r\nHost: web\r\n\r\n")).0,
                Asked::Other,
                "{line}"
            );
        }
        for fields in [
            "",
            "Host: web\r\nHost: web\r\n",
            "Host: web\r\nContent-Length: 0\r\n",
            "Host: web\r\nContent-Length : 3\r\n",
            "Host: web\r\nTransfer-Encoding: chunked\r\n",
            "Host: web\r\ntransfer-encoding:\tidentity\r\n",
            "Host: web\r\nConnection: close\r\n",
            "Host: web\r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\n",
            "Host: web\r\nConnection: upgrade\r\nUpgrade: websocket\r\n",
            "Host: web\r\nExpect: 100-continue\r\n",
            "Host: web\r\nX-Folded: a\r\n b\r\n",
            "Host: web\r\nX-Nul: a\0b\r\n",
            "Host: web\r\nX Y: a\r\n",
        ] {
            assert_eq!(
                asked_of(&format!("GET / HTTP/1.1\r\n{fields}\r\n")).0,
                Asked::Other,
                "{fields:?}"
            );
        }
        let many: String = (0..=MAX_FIELDS).map(|n| format!("x-{n}: 1\r\n")).collect();
        assert_eq!(asked_of(&format!("GET / HTTP/1.1\r\n{many}\r\n")).0, Asked::Other);
    }

    fn answered_of(said: &str, is_for_head: bool) -> Result<Option<(Answered, String)>, String> {
        let mut out = Vec::new();
        let answered = answered(said.as_bytes(), is_for_head, &mut out)?;
        Ok(answered.map(|answered| (answered, String::from_utf8(out).unwrap())))
    }

    #[test]
    fn an_answer_is_passed_on_without_what_is_of_its_connection_and_what_that_names() {
        let said = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 404 Not Found\r\nServer: one\r\n\
                    Connection: x-own, close, content-length\r\nX-Own: 1\r\nKeep-Alive: timeout=5\r\nContent-Length: 4\r\n\
                    selvedge-busy: 7\r\nselvedge-failed: seen\r\n\r\n";
        let (answered, out) = answered_of(&format!("{said}body"), false).unwrap().unwrap();
        assert_eq!(out, "HTTP/1.1 404 Not Found\r\nServer: one\r\nContent-Length: 4\r\n");
        let expected = Answered {
            bytes: said.len(),
            status: 404,
            body: Body::Length(4),
            stays: false,
            busy: Some(7),
            failed: Some(b"seen".to_vec()),
        };
        assert_eq!(answered, expected);
        for end in 0..said.len() {
            assert_eq!(answered_of(&said[..end], false), Ok(None), "{end}");
        }
    }

    #[test]
    fn what_is_no_answer_says_why() {
        for said in [
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/2.0 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n",
            "HTTP/1.1 099 No\r\n\r\n",
            "nothing of the kind\r\n\r\n",
        ] {
            assert!(answered_of(said, false).is_err(), "{said:?}");
        }
    }

    /// What each is made of that is thrown at a decoder.
    const PIECES: [&str; 16] = [
        "GET ",
        "/",
        " HTTP/1.1\r\n",
        "HTTP/1.1 200 OK\r\n",
        "Host: web\r\n",
        "Content-Length: 3\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close, x-own\r\n",
        "X-Own:\t1\r\n",
        "\r\n",
        "\n",
        ":",
        " ",
        "\0",
        "\u{e9}",
        "3;a=b\r\nabc\r\n0\r\n",
    ];

    /// A head with some of its bytes changed, left out, or with pieces of others between them.
    fn mutated(head: &str, random: &mut StdRng) -> Vec<u8> {
        let mut bytes = head.as_bytes().to_vec();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..=bytes.len());
            match random.random_range(0..3) {
                0 if at < bytes.len() => bytes[at] = random.random(),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ => {
                    let piece = PIECES[random.random_range(0..PIECES.len())].bytes();
                    bytes.splice(at..at, piece);
                }
            }
        }
        bytes
    }

    fn ends(head: &[u8]) -> usize {
        head.windows(4).filter(|four| four == b"\r\n\r\n").count()
    }

    #[test]
    fn whatever_is_said_what_is_passed_on_is_one_head_that_is_passed_on_as_it_is() {
        let mut random = StdRng::seed_from_u64(56);
        let (mut plain, mut whole) = (0, 0);
        for _ in 0..100_000 {
            let request = "GET /a?b HTTP/1.1\r\nHost: web\r\nConnection: keep-alive\r\nX-Own: 1\r\n\r\n";
            let said = mutated(request, &mut random);
            let (mut out, mut again) = (Vec::new(), Vec::new());
            if let Asked::Plain { is_for_head, .. } = asked(&said, &mut out) {
                plain += 1;
                let bytes = out.len();
                assert_eq!(asked(&out, &mut again), Asked::Plain { bytes, is_for_head });
                assert_eq!((&out, ends(&out)), (&again, 1), "{}", said.escape_ascii());
            }
            let answer =
                "HTTP/1.1 200 OK\r\nServer: one\r\nContent-Length: 3\r\nConnection: x-own\r\nX-Own: 1\r\n\r\nabc";
            let said = mutated(answer, &mut random);
            if let Ok(Some(head)) = answered(&said, false, &mut out) {
                whole += 1;
                assert!(head.bytes <= said.len());
                out.extend_from_slice(b"\r\n");
                let passed = answered(&out, false, &mut again).unwrap().unwrap();
                again.extend_from_slice(b"\r\n");
                assert_eq!((&passed.body, passed.bytes), (&head.body, out.len()));
                assert_eq!((&out, ends(&out)), (&again, 1), "{}", said.escape_ascii());
            }
        }
        assert!(plain > 10_000 && whole > 10_000, "{plain} and {whole}");
    }
}
