//! Section 3.3: PUBLISH.

use mqtt::{Packet, Version};

use crate::{accepted, decode, refused};

/// A PUBLISH at QoS 0 to `t` with these properties.
fn with(properties: &[u8]) -> Vec<u8> {
    [b"\0\x01t", [properties.len() as u8].as_slice(), properties].concat()
}

refused! {
    a_publish_has_a_topic: V311, 0x30, b"" => MalformedPacket, "section 2.1.4";
    a_topic_name_is_not_empty: V311, 0x30, b"\0\0" => MalformedPacket, "MQTT-4.7.3-1";
    an_empty_topic_name_needs_an_alias: V5, 0x30, b"\0\0\0" => ProtocolError, "section 3.3.2.1";
    a_topic_name_has_no_hash: V5, 0x30, b"\0\x03a/#\0" => MalformedPacket, "MQTT-3.3.2-2";
    a_topic_name_has_no_plus: V311, 0x30, b"\0\x03a+b" => MalformedPacket, "MQTT-3.3.2-2";
    a_packet_identifier_is_there_at_qos_1: V311, 0x32, b"\0\x01t" => MalformedPacket, "section 2.1.4";
    a_packet_identifier_is_not_0: V311, 0x32, b"\0\x01t\0\0" => ProtocolError, "MQTT-2.2.1-3";
    a_packet_identifier_is_not_0_at_qos_2: V5, 0x34, b"\0\x01t\0\0\0" => ProtocolError, "MQTT-2.2.1-3";
    a_publish_has_properties: V5, 0x30, b"\0\x01t" => MalformedPacket, "section 2.1.4";
    properties_end_inside_the_packet: V5, 0x30, b"\0\x01t\x05\x01\x01" => MalformedPacket, "section 2.1.4";
    a_payload_format_is_0_or_1: V5, 0x30, with(b"\x01\x02") => ProtocolError, "section 2.2.2.2";
    a_message_expiry_has_four_bytes: V5, 0x30, with(b"\x02\0\0\0") => MalformedPacket, "section 2.1.4";
    a_topic_alias_is_not_0: V5, 0x30, with(b"\x23\0\0") => TopicAliasInvalid, "MQTT-3.3.2-8";
    a_response_topic_has_no_hash: V5, 0x30, with(b"\x08\0\x01#") => MalformedPacket, "MQTT-3.3.2-14";
    a_response_topic_has_no_plus: V5, 0x30, with(b"\x08\0\x01+") => MalformedPacket, "MQTT-3.3.2-14";
    a_response_topic_is_utf8: V5, 0x30, with(b"\x08\0\x01\xff") => MalformedPacket, "MQTT-1.5.4-1";
    a_response_topic_is_not_empty: V5, 0x30, with(b"\x08\0\0") => MalformedPacket, "MQTT-4.7.3-1";
    a_content_type_is_utf8: V5, 0x30, with(b"\x03\0\x01\xff") => MalformedPacket, "MQTT-1.5.4-1";
    a_subscription_identifier_is_not_0: V5, 0x30, with(b"\x0b\0") => ProtocolError, "section 3.8.2.1.2";
}

accepted! {
    a_topic_alias_stands_for_a_topic: V5, 0x30, b"\0\0\x03\x23\0\x01";
    a_topic_may_start_with_a_dollar: V311, 0x30, b"\0\x02$a";
    a_topic_may_be_a_separator: V311, 0x30, b"\0\x01/";
    a_payload_may_be_empty: V5, 0x30, with(b"");
}

#[test]
fn a_publish_at_qos_0_has_no_packet_identifier() {
    let Ok(Packet::Publish(publish)) = decode(Version::V311, 0x30, b"\0\x01t\0\x07") else {
        panic!("MQTT-2.2.1-2")
    };
    assert_eq!((publish.packet_id, publish.payload), (None, b"\0\x07".as_slice()));
}

#[test]
fn subscription_identifiers_may_repeat_in_a_publish() {
    let body = with(b"\x0b\x01\x0b\xff\xff\xff\x7f\x0b\x01");
    let Ok(Packet::Publish(publish)) = decode(Version::V5, 0x30, &body) else {
        panic!("section 3.3.2.3.8")
    };
    assert_eq!(*publish.properties.subscription_ids, [1, 268_435_455, 1]);
}

#[test]
fn a_payload_and_its_properties_are_where_they_were_read() {
    let body = [b"\0\x01t\x07\x26\0\x01k\0\x01v".as_slice(), b"payload"].concat();
    let Ok(Packet::Publish(publish)) = decode(Version::V5, 0x30, &body) else {
        panic!("is let in")
    };
    assert_eq!(publish.payload.as_ptr(), body[body.len() - 7..].as_ptr());
    let (name, _) = publish.properties.user_properties.iter().next().expect("is there");
    assert_eq!(name.as_ptr(), body[7..].as_ptr());
}
