//! Sections 3.8 to 3.11: SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK; 4.7 and 4.8.2: topic filters.

use mqtt::{Packet, QoS, RetainHandling, Version};

use crate::{accepted, decode, field, refused};

fn subscribe(filter: &[u8], options: u8) -> Vec<u8> {
    [b"\0\x01\0".as_slice(), &field(filter), &[options]].concat()
}

fn subscribe_v311(filter: &[u8], options: u8) -> Vec<u8> {
    [b"\0\x01".as_slice(), &field(filter), &[options]].concat()
}

refused! {
    a_subscribe_has_a_packet_identifier: V5, 0x82, b"\0\0\0\0\x01a\0" => ProtocolError, "MQTT-2.2.1-3";
    a_subscribe_has_a_filter: V5, 0x82, b"\0\x01\0" => ProtocolError, "MQTT-3.8.3-2";
    a_subscribe_has_a_filter_in_3_1_1: V311, 0x82, b"\0\x01" => ProtocolError, "MQTT-3.8.3-2";
    a_filter_has_its_options: V5, 0x82, b"\0\x01\0\0\x01a" => MalformedPacket, "section 2.1.4";
    no_local_is_not_for_shared_subscriptions:
        V5, 0x82, subscribe(b"$share/g/a", 0x04) => ProtocolError, "MQTT-3.8.3-4";
    reserved_options_are_0: V5, 0x82, subscribe(b"a", 0x40) => MalformedPacket, "MQTT-3.8.3-5";
    reserved_options_are_0_in_3_1_1: V311, 0x82, subscribe_v311(b"a", 0x04) => MalformedPacket, "MQTT-3.8.3-5";
    a_maximum_qos_is_not_3: V5, 0x82, subscribe(b"a", 0x03) => ProtocolError, "section 3.8.3.1";
    a_maximum_qos_is_not_3_in_3_1_1: V311, 0x82, subscribe_v311(b"a", 0x03) => ProtocolError, "section 3.8.3.1";
    retain_handling_is_not_3: V5, 0x82, subscribe(b"a", 0x30) => ProtocolError, "section 3.8.3.1";
    a_subscription_identifier_to_subscribe_is_not_0:
        V5, 0x82, b"\0\x01\x02\x0b\0\0\x01a\0" => ProtocolError, "section 3.8.2.1.2";
    a_subscription_identifier_comes_once:
        V5, 0x82, b"\0\x01\x04\x0b\x01\x0b\x02\0\x01a\0" => ProtocolError, "section 2.2.2.2";
    an_unsubscribe_has_a_packet_identifier: V5, 0xA2, b"\0\0\0\0\x01a" => ProtocolError, "MQTT-2.2.1-3";
    an_unsubscribe_has_a_filter: V5, 0xA2, b"\0\x01\0" => ProtocolError, "MQTT-3.10.3-2";
    an_unsubscribe_has_a_filter_in_3_1_1: V311, 0xA2, b"\0\x01" => ProtocolError, "MQTT-3.10.3-2";
    a_suback_answers_a_packet: V5, 0x90, b"\0\0\0\0" => ProtocolError, "MQTT-2.2.1-3";
    a_suback_answers_a_filter: V5, 0x90, b"\0\x01\0" => ProtocolError, "MQTT-3.9.3-1";
    a_suback_has_a_reason_code_of_its_own: V5, 0x90, b"\0\x01\0\x03" => ProtocolError, "MQTT-3.9.3-2";
    a_suback_has_a_return_code_of_its_own: V311, 0x90, b"\0\x01\x87" => ProtocolError, "MQTT 3.1.1 MQTT-3.9.3-2";
    an_unsuback_answers_a_packet: V311, 0xB0, b"\0\0" => ProtocolError, "MQTT-2.2.1-3";
    an_unsuback_answers_a_filter: V5, 0xB0, b"\0\x01\0" => ProtocolError, "MQTT-3.11.3-1";
    an_unsuback_has_a_reason_code_of_its_own: V5, 0xB0, b"\0\x01\0\x01" => ProtocolError, "MQTT-3.11.3-2";
    an_unsuback_has_no_return_code_in_3_1_1: V311, 0xB0, b"\0\x01\0" => MalformedPacket, "section 2.1.4";

    a_filter_is_not_empty: V5, 0x82, subscribe(b"", 0) => MalformedPacket, "MQTT-4.7.3-1";
    a_filter_to_unsubscribe_is_not_empty: V311, 0xA2, b"\0\x01\0\0" => MalformedPacket, "MQTT-4.7.3-1";
    a_hash_is_the_last_level: V5, 0x82, subscribe(b"a/#/b", 0) => MalformedPacket, "MQTT-4.7.1-1";
    a_hash_is_alone_in_its_level: V311, 0x82, subscribe_v311(b"a/b#", 0) => MalformedPacket, "MQTT-4.7.1-1";
    a_plus_is_alone_in_its_level: V311, 0x82, subscribe_v311(b"a+/b", 0) => MalformedPacket, "MQTT-4.7.1-2";
    a_filter_to_unsubscribe_is_well_formed: V5, 0xA2, b"\0\x01\0\0\x02++" => MalformedPacket, "MQTT-4.7.1-2";
    a_share_name_is_not_empty: V5, 0x82, subscribe(b"$share//a", 0) => MalformedPacket, "MQTT-4.8.2-1";
    a_share_name_has_no_plus: V5, 0x82, subscribe(b"$share/+/a", 0) => MalformedPacket, "MQTT-4.8.2-2";
    a_share_name_has_no_hash: V5, 0x82, subscribe(b"$share/#", 0) => MalformedPacket, "MQTT-4.8.2-2";
    a_share_name_is_followed_by_a_filter: V5, 0x82, subscribe(b"$share/g", 0) => MalformedPacket, "MQTT-4.8.2-2";
    a_shared_filter_is_not_empty: V5, 0x82, subscribe(b"$share/g/", 0) => MalformedPacket, "MQTT-4.8.2-2";
    a_shared_filter_is_well_formed: V5, 0x82, subscribe(b"$share/g/a#", 0) => MalformedPacket, "MQTT-4.7.1-1";
}

accepted! {
    a_filter_may_be_a_hash: V5, 0x82, subscribe(b"#", 0);
    a_filter_may_be_plusses: V311, 0x82, subscribe_v311(b"+/+/", 2);
    a_shared_filter_may_start_with_a_separator: V5, 0x82, subscribe(b"$share/g//a", 0);
    share_is_a_level_like_others_before_version_5: V311, 0x82, subscribe_v311(b"$share/#", 0);
    upper_option_bits_are_unused_in_3_1: V31, 0x82, subscribe_v311(b"a", 0xFD);
}

#[test]
fn subscription_options_are_all_read() {
    let body = subscribe(b"a", 0x2E);
    let Ok(Packet::Subscribe(subscribe)) = decode(Version::V5, 0x82, &body) else {
        panic!("section 3.8.3.1")
    };
    let (_, options) = subscribe.filters[0];
    assert_eq!(
        (options.qos, options.retain_handling),
        (QoS::ExactlyOnce, RetainHandling::DoNotSend)
    );
    assert!(options.no_local && options.retain_as_published);
}
