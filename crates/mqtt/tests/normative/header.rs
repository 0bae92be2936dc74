//! Section 2.1: the fixed header.

use mqtt::{FixedHeader, Packet, ReasonCode, Version, fixed_header};

use crate::{accepted, refused};

refused! {
    packet_type_0_is_reserved: V5, 0x00, b"" => MalformedPacket, "section 2.1.2";
    packet_type_15_is_reserved_before_version_5: V311, 0xF0, b"" => MalformedPacket, "section 2.1.2";
    connect_flags_are_reserved: V5, 0x11, b"" => MalformedPacket, "MQTT-2.1.3-1";
    connack_flags_are_reserved: V5, 0x28, b"" => MalformedPacket, "MQTT-2.1.3-1";
    puback_flags_are_reserved: V311, 0x42, b"\0\x01" => MalformedPacket, "MQTT-2.1.3-1";
    pubrec_flags_are_reserved: V311, 0x52, b"\0\x01" => MalformedPacket, "MQTT-2.1.3-1";
    pubcomp_flags_are_reserved: V311, 0x72, b"\0\x01" => MalformedPacket, "MQTT-2.1.3-1";
    suback_flags_are_reserved: V311, 0x92, b"\0\x01\0" => MalformedPacket, "MQTT-2.1.3-1";
    unsuback_flags_are_reserved: V311, 0xB2, b"\0\x01" => MalformedPacket, "MQTT-2.1.3-1";
    pingreq_flags_are_reserved: V311, 0xC1, b"" => MalformedPacket, "MQTT-2.1.3-1";
    pingresp_flags_are_reserved: V311, 0xD1, b"" => MalformedPacket, "MQTT-2.1.3-1";
    pubrel_flags_are_0010: V5, 0x60, b"\0\x01" => MalformedPacket, "MQTT-3.6.1-1";
    pubrel_has_no_dup_since_3_1_1: V311, 0x6A, b"\0\x01" => MalformedPacket, "MQTT-3.6.1-1";
    subscribe_flags_are_0010: V5, 0x80, b"\0\x01\0\0\x01a\0" => MalformedPacket, "MQTT-3.8.1-1";
    subscribe_has_no_dup_since_3_1_1: V311, 0x8A, b"\0\x01\0\x01a\0" => MalformedPacket, "MQTT-3.8.1-1";
    unsubscribe_flags_are_0010: V5, 0xA3, b"\0\x01\0\0\x01a" => MalformedPacket, "MQTT-3.10.1-1";
    disconnect_flags_are_reserved: V5, 0xE1, b"" => MalformedPacket, "MQTT-3.14.1-1";
    auth_flags_are_reserved: V5, 0xF2, b"" => MalformedPacket, "MQTT-3.15.1-1";
    publish_has_no_qos_3: V5, 0x36, b"\0\x01t\0\x01\0" => MalformedPacket, "MQTT-3.3.1-4";
    publish_has_no_qos_3_before_version_5: V311, 0x37, b"\0\x01t\0\x01" => MalformedPacket, "MQTT-3.3.1-4";
    dup_is_0_at_qos_0: V5, 0x38, b"\0\x01t\0" => MalformedPacket, "MQTT-3.3.1-2";
    pingreq_has_no_content: V5, 0xC0, b"x" => MalformedPacket, "section 2.1.4";
    pingresp_has_no_content: V5, 0xD0, b"x" => MalformedPacket, "section 2.1.4";
}

accepted! {
    pubrel_may_have_dup_in_3_1: V31, 0x6A, b"\0\x01";
    subscribe_may_have_dup_in_3_1: V31, 0x8A, b"\0\x01\0\x01a\0";
    unsubscribe_may_have_dup_in_3_1: V31, 0xAA, b"\0\x01\0\x01a";
    a_publish_may_be_a_duplicate_above_qos_0: V5, 0x3A, b"\0\x01t\0\x01\0";
}

#[test]
fn a_remaining_length_of_five_bytes_is_malformed() {
    let error = fixed_header(b"\x30\xff\xff\xff\xff\x01", usize::MAX).unwrap_err();
    assert_eq!(
        (error.reason, error.clause),
        (ReasonCode::MalformedPacket, "section 1.5.5")
    );
    fixed_header(b"\x30\xff\xff\xff\xff", usize::MAX).expect_err("the fourth byte already says it");
}

#[test]
fn a_remaining_length_has_up_to_four_bytes() {
    let read = |bytes| fixed_header(bytes, usize::MAX).unwrap().unwrap();
    assert_eq!(
        read(b"\xc0\0"),
        FixedHeader {
            first: 0xC0,
            header_len: 2,
            body_len: 0
        }
    );
    assert_eq!(
        read(b"\x30\x7f"),
        FixedHeader {
            first: 0x30,
            header_len: 2,
            body_len: 127
        }
    );
    assert_eq!(
        read(b"\x30\x80\x01"),
        FixedHeader {
            first: 0x30,
            header_len: 3,
            body_len: 128
        }
    );
    assert_eq!(
        read(b"\x30\xff\xff\xff\x7f"),
        FixedHeader {
            first: 0x30,
            header_len: 5,
            body_len: 268_435_455
        }
    );
}

#[test]
fn a_header_that_is_not_all_there_is_waited_for() {
    for bytes in [
        b"".as_slice(),
        b"\x30",
        b"\x30\x80",
        b"\x30\x80\x80",
        b"\x30\x80\x80\x80",
    ] {
        assert_eq!(fixed_header(bytes, usize::MAX), Ok(None));
    }
}

#[test]
fn a_type_that_no_packet_has_is_refused_by_its_first_byte() {
    fixed_header(b"\x00", usize::MAX).expect_err("type 0");
    fixed_header(b"\x36", usize::MAX).expect_err("QoS 3");
}

#[test]
fn a_packet_over_the_limit_is_refused_before_its_body_comes() {
    let error = fixed_header(b"\x30\xff\xff\xff\x7f", 1_000_000).unwrap_err();
    assert_eq!(
        (error.reason, error.clause),
        (ReasonCode::PacketTooLarge, "MQTT-3.2.2-15")
    );
    assert!(
        error.message.contains("268435460") && error.message.contains("1000000"),
        "{error}"
    );
}

#[test]
fn the_limit_counts_the_whole_packet() {
    assert!(fixed_header(b"\x30\x08", 10).is_ok());
    assert_eq!(
        fixed_header(b"\x30\x09", 10).unwrap_err().reason,
        ReasonCode::PacketTooLarge
    );
}

#[test]
fn a_remaining_length_uses_the_fewest_bytes_in_version_5() {
    let error = Packet::read(b"\xc0\x80\0", Version::V5, 100).unwrap_err();
    assert_eq!(
        (error.reason, error.clause),
        (ReasonCode::MalformedPacket, "MQTT-1.5.5-1")
    );
    assert_eq!(
        Packet::read(b"\xc0\x80\0", Version::V311, 100),
        Ok(Some((Packet::PingReq, 3)))
    );
    assert_eq!(
        Packet::read(b"\xc0\x80\x80\0", Version::V311, 100),
        Ok(Some((Packet::PingReq, 4)))
    );
}

#[test]
fn a_packet_that_is_not_all_there_is_waited_for() {
    assert_eq!(Packet::read(b"\x30\x03\0\x01", Version::V311, 100), Ok(None));
}
