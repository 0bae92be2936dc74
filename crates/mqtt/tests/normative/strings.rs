//! Section 1.5: strings and integers, in a field of each kind.

use mqtt::{Packet, Version};

use crate::{accepted, decode, field, refused};

fn content_type(content: &[u8]) -> Vec<u8> {
    let property = [b"\x03", field(content).as_slice()].concat();
    [b"\0\x01t".as_slice(), &[property.len() as u8], &property].concat()
}

fn user_property(name: &[u8], value: &[u8]) -> Vec<u8> {
    let property = [b"\x26", field(name).as_slice(), field(value).as_slice()].concat();
    [b"\0\x01t".as_slice(), &[property.len() as u8], &property].concat()
}

refused! {
    a_string_is_utf8: V5, 0x30, content_type(b"\xff\xfe") => MalformedPacket, "MQTT-1.5.4-1";
    a_string_has_no_surrogates: V5, 0x30, content_type(b"\xed\xa0\x80") => MalformedPacket, "MQTT-1.5.4-1";
    a_string_has_no_overlong_encoding: V5, 0x30, content_type(b"\xc0\x80") => MalformedPacket, "MQTT-1.5.4-1";
    a_string_ends_with_a_whole_character: V5, 0x30, content_type(b"a\xe2\x82") => MalformedPacket, "MQTT-1.5.4-1";
    a_string_has_no_nul: V5, 0x30, content_type(b"a\0b") => MalformedPacket, "MQTT-1.5.4-2";
    a_name_of_a_user_property_is_utf8: V5, 0x30, user_property(b"\xff", b"") => MalformedPacket, "MQTT-1.5.4-1";
    a_value_of_a_user_property_is_utf8: V5, 0x30, user_property(b"", b"\xff") => MalformedPacket, "MQTT-1.5.4-1";
    a_value_of_a_user_property_has_no_nul: V5, 0x30, user_property(b"", b"\0") => MalformedPacket, "MQTT-1.5.4-2";
    a_user_property_has_a_value: V5, 0x30, b"\0\x01t\x04\x26\0\x01a" => MalformedPacket, "section 2.1.4";
    a_topic_name_is_utf8: V311, 0x30, b"\0\x01\xff" => MalformedPacket, "MQTT-1.5.4-1";
    a_topic_name_has_no_nul: V311, 0x30, b"\0\x02a\0" => MalformedPacket, "MQTT-4.7.3-2";
    a_topic_filter_is_utf8: V311, 0x82, b"\0\x01\0\x01\xff\0" => MalformedPacket, "MQTT-1.5.4-1";
    a_topic_filter_has_no_nul: V311, 0x82, b"\0\x01\0\x01\0\0" => MalformedPacket, "MQTT-4.7.3-2";
    a_filter_to_unsubscribe_is_utf8: V311, 0xA2, b"\0\x01\0\x01\xff" => MalformedPacket, "MQTT-1.5.4-1";
    a_string_is_as_long_as_it_says: V311, 0x30, b"\0\x05abc" => MalformedPacket, "section 2.1.4";
    a_length_has_two_bytes: V311, 0x30, b"\0" => MalformedPacket, "section 2.1.4";
    a_property_length_has_four_bytes_at_most:
        V5, 0x30, b"\0\x01t\xff\xff\xff\xff\x01" => MalformedPacket, "section 1.5.5";
    a_property_length_takes_no_more_bytes_than_it_needs:
        V5, 0x30, b"\0\x01t\x80\0" => MalformedPacket, "MQTT-1.5.5-1";
    a_subscription_identifier_takes_no_more_bytes_than_it_needs:
        V5, 0x82, b"\0\x01\x03\x0b\x81\0\0\x01a\0" => MalformedPacket, "MQTT-1.5.5-1";
}

accepted! {
    control_characters_may_pass: V5, 0x30, content_type(b"\x01\x7f\xc2\x80");
    non_characters_may_pass: V5, 0x30, content_type("\u{FFFF}\u{1FFFE}".as_bytes());
    binary_data_holds_anything: V5, 0x30, b"\0\x01t\x06\x09\0\x03\0\xff\xfe";
}

#[test]
fn a_byte_order_mark_stays_in_its_string() {
    let body = field("\u{FEFF}t".as_bytes());
    let Ok(Packet::Publish(publish)) = decode(Version::V311, 0x30, &body) else {
        panic!("MQTT-1.5.4-3")
    };
    assert_eq!(publish.topic, "\u{FEFF}t");
}

#[test]
fn a_topic_may_have_65535_bytes_and_a_thousand_levels() {
    for topic in ["a".repeat(65_535), "a/".repeat(1_000)] {
        let body = field(topic.as_bytes());
        let Ok(Packet::Publish(publish)) = decode(Version::V311, 0x30, &body) else {
            panic!("MQTT-4.7.3-3")
        };
        assert_eq!(publish.topic, topic);
    }
}
