//! Section 2.2.2: which property may stand where, and how often.

use mqtt::{ReasonCode, Version};

use crate::{decode, field, refused};

refused! {
    an_unknown_property_is_malformed: V5, 0x30, b"\0\x01t\x02\x7f\0" => MalformedPacket, "section 2.2.2.2";
    a_property_of_two_bytes_is_unknown: V5, 0x30, b"\0\x01t\x03\x81\x01\x01" => MalformedPacket, "section 2.2.2.2";
    property_0_is_unknown: V5, 0x30, b"\0\x01t\x01\0" => MalformedPacket, "section 2.2.2.2";
    a_property_has_its_value: V5, 0x30, b"\0\x01t\x01\x01" => MalformedPacket, "section 2.1.4";
    an_unsubscribe_has_no_subscription_identifier:
        V5, 0xA2, b"\0\x01\x02\x0b\x01\0\x01a" => MalformedPacket, "section 2.2.2.2";
}

/// A place where properties stand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Connect,
    Will,
    ConnAck,
    Publish,
    PubAck,
    PubRec,
    PubRel,
    PubComp,
    Subscribe,
    SubAck,
    Unsubscribe,
    UnsubAck,
    Disconnect,
    Auth,
}

use Place::*;

const PLACES: [Place; 14] = [
    Connect,
    Will,
    ConnAck,
    Publish,
    PubAck,
    PubRec,
    PubRel,
    PubComp,
    Subscribe,
    SubAck,
    Unsubscribe,
    UnsubAck,
    Disconnect,
    Auth,
];

/// Table 2-4: properties, each with a value, and the places that have them.
const TABLE: &[(&[u8], &[Place])] = &[
    (b"\x01\x01", &[Publish, Will]),
    (b"\x02\0\0\0\x01", &[Publish, Will]),
    (b"\x03\0\x01a", &[Publish, Will]),
    (b"\x08\0\x01a", &[Publish, Will]),
    (b"\x09\0\x01a", &[Publish, Will]),
    (b"\x0b\x01", &[Publish, Subscribe]),
    (b"\x11\0\0\0\x01", &[Connect, ConnAck, Disconnect]),
    (b"\x12\0\x01a", &[ConnAck]),
    (b"\x13\0\x01", &[ConnAck]),
    (b"\x15\0\x01a", &[Connect, ConnAck, Auth]),
    (b"\x16\0\x01a", &[Connect, ConnAck, Auth]),
    (b"\x17\x01", &[Connect]),
    (b"\x18\0\0\0\x01", &[Will]),
    (b"\x19\x01", &[Connect]),
    (b"\x1a\0\x01a", &[ConnAck]),
    (b"\x1c\0\x01a", &[ConnAck, Disconnect]),
    (
        b"\x1f\0\x01a",
        &[
            ConnAck, PubAck, PubRec, PubRel, PubComp, SubAck, UnsubAck, Disconnect, Auth,
        ],
    ),
    (b"\x21\0\x01", &[Connect, ConnAck]),
    (b"\x22\0\x01", &[Connect, ConnAck]),
    (b"\x23\0\x01", &[Publish]),
    (b"\x24\x01", &[ConnAck]),
    (b"\x25\x01", &[ConnAck]),
    (b"\x26\0\x01a\0\x01b", &PLACES),
    (b"\x27\0\0\0\x01", &[Connect, ConnAck]),
    (b"\x28\x01", &[ConnAck]),
    (b"\x29\x01", &[ConnAck]),
    (b"\x2a\x01", &[ConnAck]),
];

/// First byte and body of a packet with these properties, and with the method that Authentication Data needs.
fn packet(place: Place, properties: &[u8]) -> (u8, Vec<u8>) {
    let needs_method = place == Auth || properties[0] == 0x16;
    let method = if needs_method && properties[0] != 0x15 {
        b"\x15\0\x01m".as_slice()
    } else {
        b""
    };
    let block = [[(properties.len() + method.len()) as u8].as_slice(), method, properties].concat();
    let connect = b"\0\x04MQTT\x05".as_slice();
    let (first, before, after): (u8, &[u8], &[u8]) = match place {
        Connect => (0x10, &[connect, b"\x02\0\0"].concat(), b"\0\0"),
        Will => (0x10, &[connect, b"\x06\0\0\0\0\0"].concat(), b"\0\x01w\0\0"),
        ConnAck => (0x20, b"\0\0", b""),
        Publish => (0x30, b"\0\x01t", b"payload"),
        PubAck => (0x40, b"\0\x01\0", b""),
        PubRec => (0x50, b"\0\x01\0", b""),
        PubRel => (0x62, b"\0\x01\0", b""),
        PubComp => (0x70, b"\0\x01\0", b""),
        Subscribe => (0x82, b"\0\x01", b"\0\x01a\0"),
        SubAck => (0x90, b"\0\x01", b"\0"),
        Unsubscribe => (0xA2, b"\0\x01", b"\0\x01a"),
        UnsubAck => (0xB0, b"\0\x01", b"\0"),
        Disconnect => (0xE0, b"\0", b""),
        Auth => (0xF0, b"\x18", b""),
    };
    (first, [before, &block, after].concat())
}

#[test]
fn a_property_is_let_in_exactly_where_the_table_has_it() {
    for (property, places) in TABLE {
        for place in PLACES {
            let (first, body) = packet(place, property);
            let result = decode(Version::V5, first, &body);
            if places.contains(&place) {
                result.unwrap_or_else(|error| panic!("{:#04x} in {place:?}: {error}", property[0]));
            } else {
                let error = result.expect_err("has no place there");
                assert_eq!(
                    (error.reason, error.clause),
                    (ReasonCode::MalformedPacket, "section 2.2.2.2"),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_property_comes_once_but_for_those_that_may_repeat() {
    for (property, places) in TABLE {
        for &place in *places {
            let (first, body) = packet(place, &property.repeat(2));
            let may_repeat = property[0] == 0x26 || (property[0] == 0x0B && place == Publish);
            match decode(Version::V5, first, &body) {
                Ok(_) => assert!(may_repeat, "{:#04x} in {place:?}", property[0]),
                Err(error) => {
                    assert!(!may_repeat, "{:#04x} in {place:?}: {error}", property[0]);
                    assert_eq!(
                        (error.reason, error.clause),
                        (ReasonCode::ProtocolError, "section 2.2.2.2"),
                        "{error}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_property_cut_short_is_malformed() {
    for (property, places) in TABLE {
        for len in 1..property.len() {
            let (first, body) = packet(places[0], &property[..len]);
            let error = decode(Version::V5, first, &body).expect_err("is cut short");
            assert_eq!(error.reason, ReasonCode::MalformedPacket, "{error}");
        }
    }
}

#[test]
fn an_error_names_the_property_and_the_packet() {
    let error = decode(Version::V5, 0x40, b"\0\x01\0\x03\x23\0\x01").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Malformed Packet (0x81): Topic Alias (0x23) has no place in PUBACK [section 2.2.2.2]"
    );
    let body = [b"\0\x01t\x04\x03".as_slice(), &field(b"\xff")].concat();
    let error = decode(Version::V5, 0x30, &body).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Malformed Packet (0x81): Content Type is not UTF-8 from byte 0 [MQTT-1.5.4-1]"
    );
}
