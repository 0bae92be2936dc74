//! The normative statements of the standard that concern bytes: what is refused, with which reason and by which
//! statement, and what must be let in. Numbers are those of MQTT 5.0.

mod acks;
mod connack;
mod connect;
mod header;
mod properties;
mod publish;
mod strings;
mod subscribe;

use mqtt::{DecodeError, Packet, ReasonCode, Version};

/// A test for each row: version, first byte and body of a packet, the reason code and the statement it is refused by.
macro_rules! refused {
    ($($name:ident: $version:ident, $first:literal, $body:expr => $reason:ident, $clause:literal;)*) => {$(
        #[test]
        fn $name() {
            crate::assert_refused(mqtt::Version::$version, $first, &$body[..], mqtt::ReasonCode::$reason, $clause);
        }
    )*};
}

/// A test for each row: version, first byte and body of a packet that is let in.
macro_rules! accepted {
    ($($name:ident: $version:ident, $first:literal, $body:expr;)*) => {$(
        #[test]
        fn $name() {
            crate::decode(mqtt::Version::$version, $first, &$body[..]).expect("is let in");
        }
    )*};
}

use {accepted, refused};

fn decode(version: Version, first: u8, body: &[u8]) -> Result<Packet<'_>, DecodeError> {
    Packet::decode(first, body, version)
}

fn assert_refused(version: Version, first: u8, body: &[u8], reason: ReasonCode, clause: &str) {
    let error = decode(version, first, body).expect_err("is refused");
    assert_eq!((error.reason, error.clause), (reason, clause), "{error}");
    let bytes = framed(first, body);
    let error = Packet::read(&bytes, version, bytes.len()).expect_err("is refused in a stream");
    assert_eq!((error.reason, error.clause), (reason, clause), "{error}");
}

/// A whole packet of these parts.
fn framed(first: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    let mut left = body.len();
    while left > 0x7F {
        bytes.push(left as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes.extend_from_slice(body);
    bytes
}

/// A string or binary field.
fn field(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes(), content].concat()
}
