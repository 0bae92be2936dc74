//! Shared subscriptions, section 4.8.2.

use mqtt::{Connect, QoS, SubscriptionOptions};

use crate::world::{World, clean, id, lasting, message};

/// A publisher (1) and members of a group (2, 3, …) at QoS 2 for "a".
fn group(members: &[Connect<'_>]) -> World {
    let mut world = World::default();
    world.connect(1, &clean("publisher"));
    for (conn, member) in (2..).zip(members) {
        world.connect(conn, member);
        world.subscribe(conn, "$share/g/a", 2);
        world.got(conn);
    }
    world
}

#[test]
fn members_take_turns() {
    let mut world = group(&[clean("m2"), clean("m3")]);
    for payload in ["1", "2", "3"] {
        world.publish(1, &message("a", payload, 0));
    }
    assert_eq!(
        (world.got(2), world.got(3)),
        (vec!["a=1".into(), "a=3".into()], vec!["a=2".to_string()])
    );
}

#[test]
fn a_member_without_room_is_passed_over() {
    let mut world = group(&[
        Connect {
            receive_maximum: Some(id(1)),
            ..clean("m2")
        },
        clean("m3"),
        clean("m4"),
    ]);
    world.block(4);
    for payload in ["1", "2", "3", "4"] {
        world.publish(1, &message("a", payload, 1));
    }
    assert_eq!(world.got(2).len(), 1);
    assert_eq!(world.got(3).len(), 3);
}

#[test]
fn what_a_dead_member_did_not_acknowledge_goes_to_another_as_new() {
    for member in [clean("m2"), lasting("m2")] {
        let mut world = group(&[member, lasting("m3")]);
        world.publish(1, &message("a", "1", 1));
        assert_eq!(world.got(2), ["a=1 qos1 id1"]);
        world.cut(2);
        assert_eq!(world.got(3), ["a=1 qos1 id1"]);
    }
}

#[test]
fn what_a_session_leaves_when_it_ends_waits_for_a_member_that_is_away() {
    let mut world = group(&[lasting("m2"), lasting("m3")]);
    world.publish(1, &message("a", "1", 1));
    world.cut(3);
    world.cut(2);
    world.connect(
        4,
        &Connect {
            clean_start: true,
            ..lasting("m2")
        },
    );
    world.connect(5, &lasting("m3"));
    assert_eq!(world.got(5), ["CONNACK present", "a=1 qos1 id1"]);
}

/// Two members, and messages for them that only the log has: they came before a restart.
fn group_in_the_log() -> World {
    let mut world = group(&[lasting("m2"), lasting("m3")]);
    world.cut(2);
    world.cut(3);
    for payload in ["1", "2", "3", "4"] {
        world.publish(1, &message("a", payload, 1));
    }
    world.restart();
    world
}

/// Topic and payload of the messages that a connection got.
fn payloads(world: &mut World, conn: u64) -> Vec<String> {
    let got = world.got(conn).into_iter().filter(|words| words.contains('='));
    got.map(|words| words.split(' ').next().unwrap_or_default().into())
        .collect()
}

#[test]
fn what_only_the_log_has_of_a_member_that_leaves_is_read_back_and_passed_on() {
    let mut world = group_in_the_log();
    world.connect(3, &lasting("m3"));
    world.load();
    assert_eq!(payloads(&mut world, 3), ["a=2", "a=4"]);
    world.connect(2, &lasting("m2"));
    world.cut(2);
    world.load();
    assert_eq!(payloads(&mut world, 3), ["a=1", "a=3"]);
    world.connect(4, &lasting("m2"));
    world.load();
    assert_eq!(payloads(&mut world, 4), [""; 0]);
}

#[test]
fn what_only_the_log_has_of_a_member_whose_session_ends_is_passed_on_even_after_a_crash() {
    for crashes in [false, true] {
        let mut world = group_in_the_log();
        let anew = Connect {
            clean_start: true,
            ..lasting("m2")
        };
        world.connect(2, &anew);
        assert_eq!(world.got(2), ["CONNACK"]);
        if crashes {
            world.restart();
        }
        let names: Vec<_> = world
            .broker
            .sessions()
            .map(|session| session.client_id.to_owned())
            .collect();
        assert_eq!(names.len(), 2, "{names:?}");
        world.load();
        world.connect(3, &lasting("m3"));
        world.load();
        assert_eq!(payloads(&mut world, 3), ["a=2", "a=4", "a=1", "a=3"]);
        for id in [1, 2, 3, 4] {
            world.puback(3, id);
        }
        assert_eq!(world.broker.statistics().in_flight, 0);
        assert_eq!(world.live_records(), 2 + 1, "two sessions, one subscription");
    }
}

#[test]
fn qos_2_that_was_sent_waits_for_its_member() {
    let mut world = group(&[lasting("m2"), lasting("m3")]);
    world.publish(1, &message("a", "1", 2));
    world.got(2);
    world.cut(2);
    assert_eq!(world.got(3), [""; 0], "MQTT-4.8.2-4");
    world.connect(4, &lasting("m2"));
    assert_eq!(world.got(4), ["CONNACK present", "a=1 qos2 id1 dup"]);
}

#[test]
fn what_a_lasting_member_keeps_is_not_given_to_one_that_keeps_it_less_well() {
    let mut world = group(&[lasting("m2"), clean("m3")]);
    world.connect(4, &lasting("m4"));
    let options = SubscriptionOptions {
        qos: QoS::AtMostOnce,
        ..SubscriptionOptions::default()
    };
    world.subscribe_with(4, "$share/g/a", options, None);
    world.got(4);
    world.publish(1, &message("a", "1", 1));
    world.cut(2);
    assert_eq!((world.got(3).len(), world.got(4).len()), (0, 0));
    world.connect(5, &lasting("m2"));
    assert_eq!(world.got(5), ["CONNACK present", "a=1 qos1 id1 dup"]);
}

#[test]
fn a_message_waits_for_a_group_whose_members_are_all_away() {
    let mut world = group(&[lasting("m2")]);
    world.cut(2);
    world.publish(1, &message("a", "1", 1));
    world.connect(3, &lasting("m2"));
    assert_eq!(world.got(3), ["CONNACK present", "a=1 qos1 id1"]);
}

#[test]
fn a_session_s_own_subscription_brings_a_copy_beside_the_group_s() {
    let mut world = group(&[clean("m2")]);
    world.subscribe(2, "a", 1);
    world.got(2);
    world.publish(1, &message("a", "1", 1));
    assert_eq!(world.got(2), ["a=1 qos1 id1", "a=1 qos1 id2"]);
}

#[test]
fn what_is_passed_on_before_it_is_safe_is_acknowledged_once_its_new_record_is() {
    let mut world = group(&[lasting("m2"), lasting("m3")]);
    world.block(3);
    let after = world.publish(1, &message("a", "1", 1)).after;
    world.cut(2);
    let at = after.0 as usize;
    assert!(
        !world.out.log[at - 1].is_cancelled,
        "its publisher would be told before it is safe"
    );
    world.restart_after(at);
    assert_eq!(
        world.live_records(),
        2 + 2 + 1,
        "two sessions, two subscriptions, and the message"
    );
}
