//! Sections 3.4 to 3.7: PUBACK, PUBREC, PUBREL, PUBCOMP; 3.14: DISCONNECT; 3.15: AUTH; and the reason codes of all.

use mqtt::{Packet, PacketType, ReasonCode, Version};

use crate::{accepted, decode, refused};

refused! {
    a_puback_has_a_packet_identifier: V5, 0x40, b"\0\0" => ProtocolError, "MQTT-2.2.1-3";
    a_pubrec_has_a_packet_identifier: V311, 0x50, b"\0\0" => ProtocolError, "MQTT-2.2.1-3";
    a_pubrel_has_a_packet_identifier: V311, 0x62, b"\0\0" => ProtocolError, "MQTT-2.2.1-3";
    a_pubcomp_has_a_packet_identifier: V311, 0x70, b"\0\0" => ProtocolError, "MQTT-2.2.1-3";
    a_packet_identifier_has_two_bytes: V311, 0x40, b"\0" => MalformedPacket, "section 2.1.4";
    a_puback_has_a_reason_code_of_its_own: V5, 0x40, b"\0\x01\x92" => ProtocolError, "MQTT-3.4.2-1";
    a_pubrec_has_a_reason_code_of_its_own: V5, 0x50, b"\0\x01\x92" => ProtocolError, "MQTT-3.5.2-1";
    a_pubrel_has_a_reason_code_of_its_own: V5, 0x62, b"\0\x01\x10" => ProtocolError, "MQTT-3.6.2-1";
    a_pubcomp_has_a_reason_code_of_its_own: V5, 0x70, b"\0\x01\x80" => ProtocolError, "MQTT-3.7.2-1";
    a_puback_has_no_reason_code_before_version_5: V311, 0x40, b"\0\x01\0" => MalformedPacket, "section 2.1.4";
    nothing_follows_a_puback: V5, 0x40, b"\0\x01\0\0x" => MalformedPacket, "section 2.1.4";
    a_disconnect_has_a_reason_code_of_its_own: V5, 0xE0, b"\x01" => ProtocolError, "MQTT-3.14.2-1";
    a_disconnect_has_no_content_before_version_5: V311, 0xE0, b"\0" => MalformedPacket, "section 2.1.4";
    nothing_follows_a_disconnect: V5, 0xE0, b"\0\0x" => MalformedPacket, "section 2.1.4";
    an_auth_has_a_reason_code_of_its_own: V5, 0xF0, b"\x80\0" => ProtocolError, "MQTT-3.15.2-1";
    an_auth_has_properties: V5, 0xF0, b"\x18" => MalformedPacket, "section 2.1.4";
    an_auth_has_a_method: V5, 0xF0, b"\x18\0" => ProtocolError, "section 3.15.2.2.2";
    nothing_follows_an_auth: V5, 0xF0, b"\x18\x04\x15\0\x01mx" => MalformedPacket, "section 2.1.4";
}

accepted! {
    a_puback_may_end_behind_its_packet_identifier: V5, 0x40, b"\0\x01";
    a_puback_may_end_behind_its_reason_code: V5, 0x40, b"\0\x01\x10";
    a_puback_may_have_empty_properties: V5, 0x40, b"\0\x01\0\0";
    a_disconnect_may_have_no_content: V5, 0xE0, b"";
    a_disconnect_may_end_behind_its_reason_code: V5, 0xE0, b"\x04";
    an_auth_may_have_no_content: V5, 0xF0, b"";
}

/// Table of section 2.4: reason codes and the packets that carry them.
const TABLE: &[(u8, &[PacketType])] = {
    use PacketType::*;
    &[
        (
            0x00,
            &[
                ConnAck, PubAck, PubRec, PubRel, PubComp, SubAck, UnsubAck, Disconnect, Auth,
            ],
        ),
        (0x01, &[SubAck]),
        (0x02, &[SubAck]),
        (0x04, &[Disconnect]),
        (0x10, &[PubAck, PubRec]),
        (0x11, &[UnsubAck]),
        (0x18, &[Auth]),
        (0x19, &[Auth]),
        (0x80, &[ConnAck, PubAck, PubRec, SubAck, UnsubAck, Disconnect]),
        (0x81, &[ConnAck, Disconnect]),
        (0x82, &[ConnAck, Disconnect]),
        (0x83, &[ConnAck, PubAck, PubRec, SubAck, UnsubAck, Disconnect]),
        (0x84, &[ConnAck]),
        (0x85, &[ConnAck]),
        (0x86, &[ConnAck]),
        (0x87, &[ConnAck, PubAck, PubRec, SubAck, UnsubAck, Disconnect]),
        (0x88, &[ConnAck]),
        (0x89, &[ConnAck, Disconnect]),
        (0x8A, &[ConnAck]),
        (0x8B, &[Disconnect]),
        (0x8C, &[ConnAck, Disconnect]),
        (0x8D, &[Disconnect]),
        (0x8E, &[Disconnect]),
        (0x8F, &[SubAck, UnsubAck, Disconnect]),
        (0x90, &[ConnAck, PubAck, PubRec, Disconnect]),
        (0x91, &[PubAck, PubRec, SubAck, UnsubAck]),
        (0x92, &[PubRel, PubComp]),
        (0x93, &[Disconnect]),
        (0x94, &[Disconnect]),
        (0x95, &[ConnAck, Disconnect]),
        (0x96, &[Disconnect]),
        (0x97, &[ConnAck, PubAck, PubRec, SubAck, Disconnect]),
        (0x98, &[Disconnect]),
        (0x99, &[ConnAck, PubAck, PubRec, Disconnect]),
        (0x9A, &[ConnAck, Disconnect]),
        (0x9B, &[ConnAck, Disconnect]),
        (0x9C, &[ConnAck, Disconnect]),
        (0x9D, &[ConnAck, Disconnect]),
        (0x9E, &[SubAck, Disconnect]),
        (0x9F, &[ConnAck, Disconnect]),
        (0xA0, &[Disconnect]),
        (0xA1, &[SubAck, Disconnect]),
        (0xA2, &[SubAck, Disconnect]),
    ]
};

#[test]
fn a_reason_code_is_let_in_exactly_where_the_table_has_it() {
    for code in 0..=u8::MAX {
        let row = TABLE.iter().find(|(number, _)| *number == code);
        assert_eq!(ReasonCode::try_from(code).is_ok(), row.is_some(), "{code:#04x}");
        for packet in PacketType::ALL {
            let Some((first, body)) = with_reason(packet, code) else {
                continue;
            };
            let expected = row.is_some_and(|(_, packets)| packets.contains(&packet));
            assert_eq!(
                decode(Version::V5, first, &body).is_ok(),
                expected,
                "{code:#04x} in {packet}"
            );
        }
    }
}

/// First byte and body of a packet with this reason code, if packets of the type have one.
fn with_reason(packet: PacketType, code: u8) -> Option<(u8, Vec<u8>)> {
    Some(match packet {
        PacketType::ConnAck => (0x20, vec![0, code, 0]),
        PacketType::PubAck => (0x40, vec![0, 1, code]),
        PacketType::PubRec => (0x50, vec![0, 1, code]),
        PacketType::PubRel => (0x62, vec![0, 1, code]),
        PacketType::PubComp => (0x70, vec![0, 1, code]),
        PacketType::SubAck => (0x90, vec![0, 1, 0, code]),
        PacketType::UnsubAck => (0xB0, vec![0, 1, 0, code]),
        PacketType::Disconnect => (0xE0, vec![code]),
        PacketType::Auth => (0xF0, vec![code, 4, 0x15, 0, 1, b'm']),
        _ => return None,
    })
}

#[test]
fn what_is_left_out_of_an_acknowledgement_is_success() {
    let Ok(Packet::PubRec(ack)) = decode(Version::V5, 0x50, b"\0\x01") else {
        panic!("section 3.5.2.1")
    };
    assert_eq!(ack.reason, ReasonCode::Success);
    let Ok(Packet::Disconnect(disconnect)) = decode(Version::V5, 0xE0, b"") else {
        panic!("section 3.14.2.1")
    };
    assert_eq!(disconnect.reason, ReasonCode::Success);
}
