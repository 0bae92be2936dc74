//! QoS 0, 1 and 2 in both directions, section 4.3, and what a session keeps, sections 4.1, 4.4 and 4.6.

use crate::world::{World, clean, id, lasting, message};
use broker::Dropped;
use mqtt::{Connect, ReasonCode, Version};

/// A subscriber (2) at `qos` for "a" and a publisher (1), both connected.
fn pair(subscriber: &Connect<'_>, qos: u8) -> World {
    let mut world = World::default();
    world.connect(1, &clean("publisher"));
    world.connect(2, subscriber);
    world.subscribe(2, "a", qos);
    world.got(1);
    world.got(2);
    world
}

#[test]
fn a_message_is_delivered_at_the_lower_qos_of_publisher_and_subscription() {
    for (published, subscribed, expected) in [
        (0, 2, "a=x"),
        (1, 0, "a=x"),
        (1, 2, "a=x qos1 id1"),
        (2, 1, "a=x qos1 id1"),
    ] {
        let mut world = pair(&clean("subscriber"), subscribed);
        world.publish(1, &message("a", "x", published));
        assert_eq!(
            world.got(2),
            [expected],
            "published at {published}, subscribed at {subscribed}"
        );
    }
}

#[test]
fn qos_1_is_acknowledged_to_the_publisher() {
    let mut world = pair(&clean("subscriber"), 1);
    world.publish(1, &message("a", "x", 1));
    assert_eq!(world.got(1), ["PUBACK 1"]);
}

#[test]
fn qos_2_is_delivered_once_however_often_it_is_sent_before_pubrel() {
    let mut world = pair(&clean("subscriber"), 2);
    world.publish(1, &message("a", "x", 2));
    world.publish(
        1,
        &mqtt::Publish {
            dup: true,
            ..message("a", "x", 2)
        },
    );
    assert_eq!(world.got(1), ["PUBREC 1", "PUBREC 1"]);
    assert_eq!(world.got(2), ["a=x qos2 id1"]);
    world.pubrel(1, 1);
    world.publish(1, &message("a", "y", 2));
    assert_eq!(world.got(1), ["PUBCOMP 1", "PUBREC 1"]);
    assert_eq!(
        world.got(2),
        ["a=y qos2 id2"],
        "after PUBREL the identifier is another message's"
    );
}

#[test]
fn qos_2_to_a_subscriber_goes_from_publish_over_pubrel_to_pubcomp() {
    let mut world = pair(&clean("subscriber"), 2);
    world.publish(1, &message("a", "x", 2));
    world.pubrec(2, 1);
    world.pubrec(2, 1);
    assert_eq!(world.got(2), ["a=x qos2 id1", "PUBREL 1", "PUBREL 1"]);
    world.pubcomp(2, 1);
    assert_eq!(world.broker.statistics().in_flight, 0);
}

#[test]
fn what_was_not_acknowledged_comes_again_with_dup_and_in_order() {
    let mut world = pair(&lasting("subscriber"), 2);
    for payload in ["1", "2", "3", "4"] {
        world.publish(1, &message("a", payload, if payload == "3" { 2 } else { 1 }));
        world.pubrel(1, 1);
    }
    world.puback(2, 1);
    world.cut(2);
    world.publish(1, &message("a", "5", 1));
    world.got(2);
    world.connect(3, &lasting("subscriber"));
    let expected = [
        "CONNACK present",
        "a=2 qos1 id2 dup",
        "a=3 qos2 id3 dup",
        "a=4 qos1 id4 dup",
        "a=5 qos1 id5",
    ];
    assert_eq!(world.got(3), expected);
}

#[test]
fn an_owed_pubrel_comes_again_instead_of_the_message() {
    let mut world = pair(&lasting("subscriber"), 2);
    world.publish(1, &message("a", "x", 2));
    world.pubrec(2, 1);
    world.cut(2);
    world.connect(3, &lasting("subscriber"));
    assert_eq!(world.got(3), ["CONNACK present", "PUBREL 1"]);
    world.pubcomp(3, 1);
    assert_eq!(world.broker.statistics().in_flight, 0);
}

#[test]
fn no_more_is_in_flight_than_the_client_s_receive_maximum() {
    let mut world = pair(
        &Connect {
            receive_maximum: Some(id(2)),
            ..clean("subscriber")
        },
        1,
    );
    for payload in ["1", "2", "3", "4"] {
        world.publish(1, &message("a", payload, 1));
    }
    assert_eq!(world.got(2), ["a=1 qos1 id1", "a=2 qos1 id2"]);
    world.puback(2, 2);
    assert_eq!(world.got(2), ["a=3 qos1 id3"]);
    world.puback(2, 1);
    assert_eq!(world.got(2), ["a=4 qos1 id4"]);
}

#[test]
fn a_message_does_not_overtake_those_that_wait() {
    let mut world = pair(&clean("subscriber"), 1);
    world.block(2);
    world.publish(1, &message("a", "1", 1));
    world.out.without_room.clear();
    world.publish(1, &message("a", "2", 1));
    assert_eq!(world.got(2), [""; 0], "room is used when it is told");
    world.unblock(2);
    assert_eq!(world.got(2), ["a=1 qos1 id1", "a=2 qos1 id2"]);
}

#[test]
fn a_slow_reader_loses_qos_0_and_gets_the_rest_later() {
    let mut world = pair(&clean("subscriber"), 1);
    world.block(2);
    world.publish(1, &message("a", "0", 0));
    world.publish(1, &message("a", "1", 1));
    assert_eq!(world.got(2), [""; 0]);
    assert_eq!(world.drops(), [Dropped::SlowReader]);
    world.unblock(2);
    assert_eq!(world.got(2), ["a=1 qos1 id1"]);
}

#[test]
fn an_acknowledgement_of_the_wrong_kind_is_a_protocol_error() {
    for (published, acknowledge) in [
        (2, World::puback as fn(&mut World, u64, u16)),
        (1, World::pubrec),
        (2, World::pubcomp),
    ] {
        let mut world = pair(&clean("subscriber"), 2);
        world.publish(1, &message("a", "x", published));
        acknowledge(&mut world, 2, 1);
        assert_eq!(world.out.closed, [(2, ReasonCode::ProtocolError)]);
    }
}

#[test]
fn an_unknown_packet_identifier_is_answered_and_harmless() {
    let mut world = pair(&clean("subscriber"), 2);
    world.puback(2, 9);
    world.pubrec(2, 9);
    world.pubrel(2, 9);
    world.pubcomp(2, 9);
    let expected = [
        "PUBREL 9 PacketIdentifierNotFound",
        "PUBCOMP 9 PacketIdentifierNotFound",
    ];
    assert_eq!(world.got(2), expected);
    assert!(world.out.closed.is_empty());
    world.connect(3, &Connect::new(Version::V311, "old"));
    world.pubrel(3, 9);
    assert_eq!(world.got(3), ["CONNACK", "PUBCOMP 9"], "3.1.1 has no reason for it");
}

#[test]
fn a_client_that_holds_too_many_qos_2_identifiers_is_disconnected() {
    let mut world = World::with(broker::Limits {
        receive_maximum: id(2),
        ..broker::Limits::default()
    });
    world.connect(1, &clean("publisher"));
    for packet_id in 1..=3 {
        world.publish(
            1,
            &mqtt::Publish {
                packet_id: Some(id(packet_id)),
                ..message("a", "x", 2)
            },
        );
    }
    assert_eq!(world.out.closed, [(1, ReasonCode::ReceiveMaximumExceeded)]);
}
