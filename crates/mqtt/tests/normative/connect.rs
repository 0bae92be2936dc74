//! Section 3.1: CONNECT.

use mqtt::{Connect, Packet, ReasonCode, Version};

use crate::{accepted, decode, refused};

/// A CONNECT of version 5 with these flags; behind the keep-alive, `rest`.
fn v5(flags: u8, rest: &[u8]) -> Vec<u8> {
    [b"\0\x04MQTT\x05", [flags].as_slice(), b"\0\x3c", rest].concat()
}

fn v311(flags: u8, rest: &[u8]) -> Vec<u8> {
    [b"\0\x04MQTT\x04", [flags].as_slice(), b"\0\x3c", rest].concat()
}

fn v31(flags: u8, rest: &[u8]) -> Vec<u8> {
    [b"\0\x06MQIsdp\x03", [flags].as_slice(), b"\0\x3c", rest].concat()
}

/// A CONNECT of version 5 with these properties.
fn with(properties: &[u8]) -> Vec<u8> {
    v5(
        0x02,
        &[[properties.len() as u8].as_slice(), properties, b"\0\x01c"].concat(),
    )
}

refused! {
    the_protocol_name_is_mqtt: V5, 0x10, b"\0\x04mqtt\x05\x02\0\0\0\0\0" => UnsupportedProtocolVersion, "MQTT-3.1.2-1";
    the_protocol_name_may_be_any_bytes: V5, 0x10, b"\0\x01\xff\x05" => UnsupportedProtocolVersion, "MQTT-3.1.2-1";
    a_level_above_5_is_unknown: V5, 0x10, b"\0\x04MQTT\x06\x02\0\0" => UnsupportedProtocolVersion, "MQTT-3.1.2-2";
    a_level_of_a_bridge_is_unknown: V5, 0x10, b"\0\x04MQTT\x84\x02" => UnsupportedProtocolVersion, "MQTT-3.1.2-2";
    level_3_goes_with_mqisdp: V5, 0x10, b"\0\x04MQTT\x03\x02\0\0" => UnsupportedProtocolVersion, "MQTT-3.1.2-2";
    mqisdp_goes_with_level_3: V5, 0x10, b"\0\x06MQIsdp\x04\x02" => UnsupportedProtocolVersion, "MQTT-3.1.2-2";
    the_reserved_flag_is_0: V5, 0x10, v5(0x03, b"\0\0\x01c") => MalformedPacket, "MQTT-3.1.2-3";
    the_reserved_flag_is_0_in_3_1_1: V5, 0x10, v311(0x03, b"\0\x01c") => MalformedPacket, "MQTT-3.1.2-3";
    a_will_has_its_topic: V5, 0x10, v5(0x06, b"\0\0\x01c\0") => MalformedPacket, "section 2.1.4";
    a_will_has_its_payload: V5, 0x10, v5(0x06, b"\0\0\x01c\0\0\x01w") => MalformedPacket, "section 2.1.4";
    will_qos_needs_a_will: V5, 0x10, v5(0x0A, b"\0\0\x01c") => MalformedPacket, "MQTT-3.1.2-11";
    will_qos_is_not_3: V5, 0x10, v5(0x1E, b"\0\0\x01c\0\0\x01w\0\0") => MalformedPacket, "MQTT-3.1.2-12";
    will_retain_needs_a_will: V5, 0x10, v5(0x22, b"\0\0\x01c") => MalformedPacket, "MQTT-3.1.2-13";
    will_retain_needs_a_will_in_3_1_1: V5, 0x10, v311(0x22, b"\0\x01c") => MalformedPacket, "MQTT-3.1.2-13";
    a_user_name_needs_its_flag: V5, 0x10, v5(0x02, b"\0\0\x01c\0\x01u") => MalformedPacket, "section 2.1.4";
    a_user_name_flag_needs_its_name: V5, 0x10, v5(0x82, b"\0\0\x01c") => MalformedPacket, "section 2.1.4";
    a_password_needs_its_flag: V5, 0x10, v5(0x82, b"\0\0\x01c\0\x01u\0\x01p") => MalformedPacket, "section 2.1.4";
    a_password_flag_needs_its_password: V5, 0x10, v5(0x42, b"\0\0\x01c") => MalformedPacket, "section 2.1.4";
    a_password_flag_needs_its_password_in_3_1_1:
        V5, 0x10, v311(0xC2, b"\0\x01c\0\x01u") => MalformedPacket, "section 2.1.4";
    a_password_needs_a_user_name_in_3_1_1:
        V5, 0x10, v311(0x42, b"\0\x01c\0\x01p") => MalformedPacket, "MQTT 3.1.1 MQTT-3.1.2-22";
    a_password_needs_a_user_name_in_3_1:
        V5, 0x10, v31(0x42, b"\0\x01c\0\x01p") => MalformedPacket, "MQTT 3.1.1 MQTT-3.1.2-22";
    the_client_identifier_is_there: V5, 0x10, v5(0x02, b"\0") => MalformedPacket, "section 2.1.4";
    the_client_identifier_is_utf8: V5, 0x10, v5(0x02, b"\0\0\x01\xff") => MalformedPacket, "MQTT-1.5.4-1";
    the_client_identifier_has_no_nul: V5, 0x10, v5(0x02, b"\0\0\x01\0") => MalformedPacket, "MQTT-1.5.4-2";
    the_will_topic_is_utf8: V5, 0x10, v5(0x06, b"\0\0\x01c\0\0\x01\xff\0\0") => MalformedPacket, "MQTT-1.5.4-1";
    the_will_topic_is_not_empty: V5, 0x10, v5(0x06, b"\0\0\x01c\0\0\0\0\0") => MalformedPacket, "MQTT-4.7.3-1";
    the_will_topic_has_no_wildcard: V5, 0x10, v5(0x06, b"\0\0\x01c\0\0\x01#\0\0") => MalformedPacket, "MQTT-4.7.0-1";
    the_user_name_is_utf8: V5, 0x10, v5(0x82, b"\0\0\x01c\0\x01\xff") => MalformedPacket, "MQTT-1.5.4-1";
    nothing_follows_a_connect: V5, 0x10, v5(0x02, b"\0\0\x01cx") => MalformedPacket, "section 2.1.4";
    a_connect_has_flags: V5, 0x10, b"\0\x04MQTT\x05" => MalformedPacket, "section 2.1.4";
    a_connect_has_a_keep_alive: V5, 0x10, b"\0\x04MQTT\x05\x02\0" => MalformedPacket, "section 2.1.4";
    receive_maximum_is_not_0: V5, 0x10, with(b"\x21\0\0") => ProtocolError, "section 3.1.2.11.3";
    maximum_packet_size_is_not_0: V5, 0x10, with(b"\x27\0\0\0\0") => ProtocolError, "section 3.1.2.11.4";
    request_response_information_is_0_or_1: V5, 0x10, with(b"\x19\x02") => ProtocolError, "section 2.2.2.2";
    request_problem_information_is_0_or_1: V5, 0x10, with(b"\x17\xff") => ProtocolError, "section 2.2.2.2";
    authentication_data_needs_a_method: V5, 0x10, with(b"\x16\0\0") => ProtocolError, "section 3.1.2.11.10";
}

accepted! {
    a_password_may_come_alone_in_version_5: V5, 0x10, v5(0x42, b"\0\0\x01c\0\x01p");
    an_empty_client_identifier_may_come: V5, 0x10, v5(0x02, b"\0\0\0");
    a_long_client_identifier_may_come: V5, 0x10, v311(0x02, b"\0\x1eabcdefghijklmnopqrstuvwxyz0123");
    the_reserved_flag_is_unused_in_3_1: V5, 0x10, v31(0x03, b"\0\x01c");
    will_flags_count_only_with_a_will_in_3_1: V5, 0x10, v31(0x3A, b"\0\x01c");
    an_empty_will_payload_may_come: V5, 0x10, v5(0x06, b"\0\0\x01c\0\0\x01w\0\0");
}

#[test]
fn a_connect_of_3_1_may_lack_the_user_name_and_password_of_its_flags() {
    for (rest, user_name) in [(b"\0\x01c".as_slice(), None), (b"\0\x01c\0\x01u", Some("u"))] {
        let body = v31(0xC2, rest);
        let Ok(Packet::Connect(connect)) = decode(Version::V5, 0x10, &body) else {
            panic!("3.1, section 3.1")
        };
        assert_eq!((connect.user_name, connect.password), (user_name, None));
    }
}

#[test]
fn the_version_of_a_malformed_connect_can_be_told() {
    assert_eq!(Connect::announced_version(&v5(0xFF, b"")), Ok(Version::V5));
    assert_eq!(Connect::announced_version(&v311(0x01, b"")), Ok(Version::V311));
    assert_eq!(Connect::announced_version(&v31(0x01, b"")), Ok(Version::V31));
    let error = Connect::announced_version(b"\0\x04MQTT\x09").unwrap_err();
    assert_eq!(error.reason, ReasonCode::UnsupportedProtocolVersion);
}
