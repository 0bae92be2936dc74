//! Section 3.2: CONNACK.

use mqtt::{Packet, ReasonCode, Version};

use crate::{accepted, decode, refused};

refused! {
    acknowledge_flags_are_reserved: V5, 0x20, b"\x02\0\0" => MalformedPacket, "MQTT-3.2.2-1";
    acknowledge_flags_are_reserved_in_3_1_1: V311, 0x20, b"\x80\0" => MalformedPacket, "MQTT-3.2.2-1";
    a_refused_client_has_no_session: V5, 0x20, b"\x01\x87\0" => ProtocolError, "MQTT-3.2.2-6";
    a_refused_client_has_no_session_in_3_1_1: V311, 0x20, b"\x01\x05" => ProtocolError, "MQTT-3.2.2-6";
    a_connack_has_a_reason_code_of_its_own: V5, 0x20, b"\0\x10\0" => ProtocolError, "MQTT-3.2.2-8";
    a_connack_has_a_known_reason_code: V5, 0x20, b"\0\x03\0" => ProtocolError, "MQTT-3.2.2-8";
    a_connack_has_one_of_six_return_codes: V311, 0x20, b"\0\x06" => ProtocolError, "MQTT 3.1.1 section 3.2.2.3";
    a_connack_has_properties: V5, 0x20, b"\0\0" => MalformedPacket, "section 2.1.4";
    a_connack_has_a_return_code: V311, 0x20, b"\0" => MalformedPacket, "section 2.1.4";
    nothing_follows_a_connack: V311, 0x20, b"\0\0\0" => MalformedPacket, "section 2.1.4";
    maximum_qos_is_0_or_1: V5, 0x20, b"\0\0\x02\x24\x02" => ProtocolError, "section 2.2.2.2";
    retain_available_is_0_or_1: V5, 0x20, b"\0\0\x02\x25\x02" => ProtocolError, "section 2.2.2.2";
    wildcard_subscription_available_is_0_or_1: V5, 0x20, b"\0\0\x02\x28\x02" => ProtocolError, "section 2.2.2.2";
    subscription_identifier_available_is_0_or_1: V5, 0x20, b"\0\0\x02\x29\x02" => ProtocolError, "section 2.2.2.2";
    shared_subscription_available_is_0_or_1: V5, 0x20, b"\0\0\x02\x2a\x02" => ProtocolError, "section 2.2.2.2";
    the_servers_receive_maximum_is_not_0: V5, 0x20, b"\0\0\x03\x21\0\0" => ProtocolError, "section 3.1.2.11.3";
    the_servers_packet_size_is_not_0: V5, 0x20, b"\0\0\x05\x27\0\0\0\0" => ProtocolError, "section 3.1.2.11.4";
    the_servers_data_needs_a_method: V5, 0x20, b"\0\0\x03\x16\0\0" => ProtocolError, "section 3.1.2.11.10";
}

accepted! {
    the_flags_of_a_connack_are_unused_in_3_1: V31, 0x20, b"\xff\0";
}

#[test]
fn every_return_code_has_its_reason() {
    use ReasonCode::*;
    let reasons = [
        Success,
        UnsupportedProtocolVersion,
        ClientIdentifierNotValid,
        ServerUnavailable,
        BadUserNameOrPassword,
        NotAuthorized,
    ];
    for (code, reason) in (0_u8..).zip(reasons) {
        let body = [0, code];
        let Ok(Packet::ConnAck(connack)) = decode(Version::V311, 0x20, &body) else {
            panic!("return code {code}")
        };
        assert_eq!((connack.reason, reason.connack_return_code()), (reason, code));
    }
}

#[test]
fn every_reason_comes_down_to_a_return_code_before_version_5() {
    for reason in ReasonCode::ALL.into_iter().filter(|reason| reason.is_error()) {
        assert!((1..=5).contains(&reason.connack_return_code()), "{reason}");
        assert_eq!(reason.suback_return_code(), 0x80, "{reason}");
    }
}
