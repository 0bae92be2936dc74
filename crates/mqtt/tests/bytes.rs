//! Packets whose bytes are written out by hand.

use mqtt::{Ack, ConnAck, Connect, Packet, PacketId, Publish, QoS, ReasonCode, UserPropertiesBuf, Version, Will};

fn check(packet: &Packet<'_>, version: Version, bytes: &[u8]) {
    let mut encoded = Vec::new();
    packet.encode(version, &mut encoded);
    assert_eq!(encoded, bytes, "{packet:?}");
    assert_eq!(packet.encoded_len(version), bytes.len());
    assert_eq!(
        Packet::read(bytes, version, bytes.len()),
        Ok(Some((packet.clone(), bytes.len())))
    );
}

fn id(value: u16) -> PacketId {
    PacketId::new(value).expect("not zero")
}

#[test]
fn a_connect_of_each_version_has_its_own_name_and_level() {
    let bare = |version| Packet::Connect(Box::new(Connect::new(version, "c")));
    check(
        &bare(Version::V31),
        Version::V5,
        b"\x10\x0f\0\x06MQIsdp\x03\x02\0\0\0\x01c",
    );
    check(
        &bare(Version::V311),
        Version::V5,
        b"\x10\x0d\0\x04MQTT\x04\x02\0\0\0\x01c",
    );
    check(
        &bare(Version::V5),
        Version::V31,
        b"\x10\x0e\0\x04MQTT\x05\x02\0\0\0\0\x01c",
    );
}

#[test]
fn a_connect_has_its_will_and_credentials_in_order() {
    let mut connect = Connect::new(Version::V5, "c");
    let will = Will {
        qos: QoS::AtLeastOnce,
        retain: true,
        delay_interval_s: 2,
        ..Will::new("w", b"bye")
    };
    connect.will = Some(will);
    connect.user_name = Some("u");
    connect.password = Some(b"p");
    connect.session_expiry_interval_s = Some(7);
    let bytes =
        b"\x10\x27\0\x04MQTT\x05\xee\0\0\x05\x11\0\0\0\x07\0\x01c\x05\x18\0\0\0\x02\0\x01w\0\x03bye\0\x01u\0\x01p";
    check(&Packet::Connect(Box::new(connect)), Version::V5, bytes);
}

#[test]
fn a_connack_before_version_5_has_a_return_code() {
    let refused = |reason| Packet::ConnAck(Box::new(ConnAck::new(reason)));
    check(
        &refused(ReasonCode::BadUserNameOrPassword),
        Version::V311,
        b"\x20\x02\0\x04",
    );
    check(&refused(ReasonCode::NotAuthorized), Version::V31, b"\x20\x02\0\x05");
    check(&refused(ReasonCode::QuotaExceeded), Version::V5, b"\x20\x03\0\x97\0");
}

#[test]
fn a_publish_carries_its_properties_and_payload() {
    let user: UserPropertiesBuf = [("k", "v"), ("k", "")].into_iter().collect();
    let mut publish = Publish::new("a/b", QoS::AtLeastOnce, Some(id(10)), b"pay");
    publish.properties.message_expiry_interval_s = Some(1);
    publish.properties.subscription_ids = vec![1, 128].into();
    publish.properties.user_properties = user.as_properties();
    let properties = b"\x0b\x01\x0b\x80\x01\x02\0\0\0\x01\x26\0\x01k\0\x01v\x26\0\x01k\0\0";
    let bytes = [b"\x32\x22\0\x03a/b\0\x0a\x17".as_slice(), properties, b"pay"].concat();
    check(&Packet::Publish(publish.clone()), Version::V5, &bytes);
    publish.properties = Default::default();
    check(&Packet::Publish(publish), Version::V311, b"\x32\x0a\0\x03a/b\0\x0apay");
}

#[test]
fn an_acknowledgement_leaves_out_what_says_nothing() {
    let mut ack = Ack::new(id(1), ReasonCode::Success);
    check(&Packet::PubAck(ack.clone()), Version::V5, b"\x40\x02\0\x01");
    check(&Packet::PubRel(ack.clone()), Version::V311, b"\x62\x02\0\x01");
    ack.reason = ReasonCode::NoMatchingSubscribers;
    check(&Packet::PubRec(ack.clone()), Version::V5, b"\x50\x03\0\x01\x10");
    ack.reason_string = Some("r");
    check(&Packet::PubRec(ack), Version::V5, b"\x50\x08\0\x01\x10\x04\x1f\0\x01r");
}

#[test]
fn user_properties_between_others_are_kept_in_order() {
    let bytes = b"\x30\x14\0\x01t\x0f\x26\0\x01a\0\x01b\x01\x01\x26\0\x01c\0\0z";
    let (packet, _) = Packet::read(bytes, Version::V5, 100).unwrap().unwrap();
    let Packet::Publish(publish) = &packet else {
        panic!("{packet:?}")
    };
    assert!(publish.properties.user_properties.iter().eq([("a", "b"), ("c", "")]));
    assert_eq!(publish.properties.user_properties.get("c"), Some(""));
    let mut encoded = Vec::new();
    packet.encode(Version::V5, &mut encoded);
    assert_eq!(
        encoded,
        b"\x30\x14\0\x01t\x0f\x01\x01\x26\0\x01a\0\x01b\x26\0\x01c\0\0z"
    );
    assert_eq!(Packet::read(&encoded, Version::V5, 100).unwrap().unwrap().0, packet);
}

#[test]
fn a_logged_connect_keeps_its_secrets() {
    let mut connect = Connect::new(Version::V5, "c");
    connect.password = Some(b"hunter2");
    connect.authentication_method = Some("m");
    connect.authentication_data = Some(b"hunter3");
    let logged = format!("{connect:?}");
    assert!(logged.contains("password: Some(\"secret\")"), "{logged}");
    for secret in [b"hunter2", b"hunter3"] {
        assert!(
            !logged.contains("hunter") && !logged.contains(&format!("{secret:?}")),
            "{logged}"
        );
    }
}
