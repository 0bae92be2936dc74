//! What is logged, what waits for it, what comes back after a crash, and what is given up.

use broker::{Dropped, Limits, Position, Record};
use mqtt::{Connect, Version};

use crate::world::{World, clean, lasting, message, retained};

/// A publisher (1) and subscribers (2, 3, …) at QoS 2 for "a"; everything so far is written.
fn world(publisher: &Connect<'_>, subscribers: &[Connect<'_>]) -> World {
    world_with(Limits::default(), publisher, subscribers)
}

fn world_with(limits: Limits, publisher: &Connect<'_>, subscribers: &[Connect<'_>]) -> World {
    let mut world = World::with(limits);
    world.connect(1, publisher);
    for (conn, subscriber) in (2..).zip(subscribers) {
        world.connect(conn, subscriber);
        world.subscribe(conn, "a", 2);
        world.got(conn);
    }
    world.got(1);
    world.commit();
    world
}

#[test]
fn traffic_between_clean_sessions_is_not_logged() {
    let mut world = world(&clean("publisher"), &[clean("subscriber")]);
    world.publish(1, &message("a", "x", 1));
    assert_eq!((world.out.log.len(), world.out.last_after), (0, Position(0)));
}

#[test]
fn an_acknowledgement_waits_for_what_it_promises() {
    let mut world = World::default();
    world.connect(1, &lasting("a"));
    assert_eq!(world.out.last_after, Position(1), "CONNACK for the session");
    world.subscribe(1, "a", 1);
    assert_eq!(world.out.last_after, Position(2), "SUBACK for the subscription");
    world.publish(1, &message("a", "x", 1));
    assert_eq!(world.out.last_after, Position(3), "PUBACK for the message");
    world.publish(1, &retained("b", "x", 1));
    assert_eq!(world.out.last_after, Position(4), "PUBACK for the retained message");
    world.publish(1, &message("a", "x", 2));
    assert_eq!(
        world.out.last_after,
        Position(6),
        "PUBREC for the identifier and the message"
    );
    world.pubrel(1, 1);
    assert_eq!(
        world.out.last_after,
        Position(7),
        "PUBCOMP for the end of the identifier"
    );
    world.unsubscribe(1, "a");
    assert_eq!(
        world.out.last_after,
        Position(8),
        "UNSUBACK for the end of the subscription"
    );
}

#[test]
fn a_message_that_all_have_acknowledged_in_time_is_never_written() {
    let mut world = world(&clean("publisher"), &[lasting("s2"), lasting("s3")]);
    world.publish(1, &message("a", "x", 1));
    let before = world.out.log.len();
    world.puback(2, 1);
    assert!(!world.out.log[before - 1].is_cancelled, "the other may still need it");
    world.puback(3, 1);
    assert!(world.out.log[before - 1].is_cancelled);
}

#[test]
fn a_message_that_is_written_gets_a_tombstone_for_each_that_acknowledged() {
    let mut world = world(&clean("publisher"), &[lasting("s2"), lasting("s3")]);
    let before = world.live_records();
    world.publish(1, &message("a", "x", 1));
    world.commit();
    world.puback(2, 1);
    assert_eq!(world.live_records(), before + 1);
    world.puback(3, 1);
    assert_eq!(world.live_records(), before);
    world.restart();
    assert_eq!(world.broker.statistics().queued_messages, 0);
}

#[test]
fn a_restart_brings_queues_back_with_their_identifiers_and_order() {
    let mut world = world(&clean("publisher"), &[lasting("subscriber")]);
    world.publish(1, &message("a", "1", 1));
    world.publish(1, &message("a", "2", 1));
    world.puback(2, 1);
    world.cut(2);
    world.publish(1, &message("a", "3", 1));
    world.restart();
    world.connect(4, &lasting("subscriber"));
    world.load();
    assert_eq!(world.got(4), ["CONNACK present", "a=2 qos1 id2 dup", "a=3 qos1 id3"]);
}

#[test]
fn an_owed_pubrel_and_a_received_identifier_outlast_a_restart() {
    let mut world = world(&lasting("publisher"), &[lasting("subscriber")]);
    world.publish(1, &message("a", "1", 2));
    world.commit();
    world.pubrec(2, 1);
    world.restart();
    world.connect(3, &lasting("publisher"));
    world.connect(4, &lasting("subscriber"));
    world.publish(3, &message("a", "1", 2));
    world.load();
    world.commit();
    assert_eq!(world.got(4), ["CONNACK present", "PUBREL 1"]);
    assert_eq!(world.got(3), ["CONNACK present", "PUBREC 1"]);
}

#[test]
fn qos_2_waits_for_the_log_where_a_crash_would_bring_it_twice() {
    let mut world = world(&lasting("publisher"), &[lasting("s2"), clean("s3")]);
    world.publish(1, &message("a", "1", 2));
    world.publish(1, &message("a", "0", 0));
    assert_eq!(world.got(2), ["a=0"]);
    assert_eq!(
        world.got(3),
        ["a=1 qos2 id1", "a=0"],
        "a clean session is promised nothing across a crash"
    );
    world.commit();
    assert_eq!(world.got(2), ["a=1 qos2 id1"]);
}

#[test]
fn a_crash_swallows_what_was_not_written_and_nothing_else() {
    let mut world = world(&clean("publisher"), &[lasting("subscriber")]);
    world.publish(1, &message("a", "1", 1));
    world.commit();
    world.publish(1, &message("a", "2", 1));
    let written = world.out.durable;
    world.restart_after(written);
    world.connect(3, &lasting("subscriber"));
    world.load();
    assert_eq!(world.got(3), ["CONNACK present", "a=1 qos1 id1 dup"]);
    world.connect(4, &clean("publisher"));
    world.publish(4, &message("a", "3", 2));
    let got = world.got(3);
    assert!(
        got[0].starts_with("a=3 qos2 id40505"),
        "no identifier that the client may still hold: {got:?}"
    );
}

#[test]
fn what_expires_while_the_process_is_away_does_not_come_back() {
    let mut world = world(&clean("publisher"), &[lasting("subscriber")]);
    let properties = mqtt::PublishProperties {
        message_expiry_interval_s: Some(10),
        ..Default::default()
    };
    world.publish(
        1,
        &mqtt::Publish {
            properties: properties.clone(),
            ..message("a", "1", 1)
        },
    );
    world.publish(
        1,
        &mqtt::Publish {
            properties,
            ..retained("r", "1", 1)
        },
    );
    world.now.unix_ms += 10_000;
    world.restart();
    world.connect(3, &lasting("subscriber"));
    world.load();
    assert_eq!(world.got(3), ["CONNACK present"]);
    assert_eq!(world.broker.statistics().retained_messages, 0);
    world.cut(3);
    world.now.unix_ms += 600_000;
    world.restart();
    assert_eq!((world.broker.statistics().sessions, world.live_records()), (0, 0));
}

#[test]
fn a_clock_set_back_during_a_restart_ends_no_session() {
    let mut world = world(&lasting("publisher"), &[lasting("subscriber")]);
    world.cut(2);
    world.now.unix_ms -= 3_600_000;
    world.restart();
    assert_eq!(world.broker.statistics().sessions, 2);
    world.pass(600_000);
    assert_eq!(world.broker.statistics().sessions, 0);
}

#[test]
fn a_clock_set_back_during_a_restart_keeps_no_message_beyond_what_it_had_left() {
    let mut world = world(&clean("publisher"), &[lasting("subscriber")]);
    let properties = mqtt::PublishProperties {
        message_expiry_interval_s: Some(10),
        ..Default::default()
    };
    for message in [message("a", "1", 1), retained("r", "1", 1)] {
        let properties = properties.clone();
        world.publish(1, &mqtt::Publish { properties, ..message });
    }
    world.now.unix_ms -= 3_600_000;
    world.restart();
    assert_eq!(world.broker.statistics().retained_messages, 1);
    world.pass(10_000);
    world.connect(3, &lasting("subscriber"));
    world.load();
    assert_eq!(world.got(3), ["CONNACK present"]);
    assert_eq!(world.broker.statistics().retained_messages, 0);
}

#[test]
fn the_end_of_a_long_queue_is_read_back_from_the_log() {
    let limits = Limits {
        queue_memory_bytes: 10,
        ..Limits::default()
    };
    let mut world = world_with(limits, &clean("publisher"), &[lasting("subscriber")]);
    world.cut(2);
    for payload in ["1", "2", "3", "4", "5"] {
        world.publish(1, &message("a", payload, 1));
    }
    assert!(world.broker.statistics().memory_bytes < 20);
    world.connect(3, &lasting("subscriber"));
    let at_once = world.got(3).len();
    assert!((2..5).contains(&at_once), "{at_once}");
    world.load();
    assert_eq!(world.got(3).last().map(String::as_str), Some("a=5 qos1 id5"));
}

#[test]
fn a_damaged_message_is_dropped_and_those_behind_it_are_not() {
    let mut world = world(&clean("publisher"), &[lasting("subscriber")]);
    world.cut(2);
    world.publish(1, &message("a", "1", 1));
    world.publish(1, &message("a", "2", 1));
    world.restart();
    world.connect(3, &lasting("subscriber"));
    let damaged = world.out.loads.remove(0);
    world.broker.loaded(world.now, damaged, None, &mut world.out);
    world.load();
    assert_eq!(world.got(3), ["CONNACK present", "a=2 qos1 id2"]);
    assert_eq!(world.drops(), [Dropped::Damaged]);
}

#[test]
fn a_full_log_goes_on_delivering_and_refuses_promises() {
    let mut world = world(&clean("publisher"), &[lasting("s2"), clean("s3"), lasting("s4")]);
    world.cut(4);
    world.out.is_full = true;
    world.publish(1, &message("a", "1", 1));
    assert_eq!((world.got(2).len(), world.got(3).len()), (1, 1));
    assert_eq!(
        (world.got(1), world.drops()),
        (vec!["PUBACK 1 QuotaExceeded".into()], vec![Dropped::LogFull])
    );
    world.publish(1, &message("a", "2", 2));
    assert_eq!(
        (world.got(2).len(), world.got(3).len()),
        (0, 0),
        "QoS 2 will come again"
    );
    assert_eq!(world.got(1), ["PUBREC 1 QuotaExceeded"]);
    world.connect(5, &Connect::new(Version::V311, "old"));
    world.publish(5, &message("a", "3", 1));
    assert_eq!(
        (world.got(5), world.out.closed.len()),
        (vec!["CONNACK".to_string()], 1),
        "3.x keeps its message"
    );
    assert!(!world.connect(6, &lasting("new")));
    world.got(2);
    world.subscribe(2, "b", 1);
    assert_eq!(world.got(2), ["SUBACK [QuotaExceeded]"]);
    world.puback(2, 1);
    assert!(
        world.out.closed.len() == 2,
        "acknowledgements are taken: only the refused connections ended"
    );
}

#[test]
fn what_is_moved_to_the_head_of_the_log_is_what_counts() {
    let mut world = world(&lasting("publisher"), &[lasting("s2"), lasting("s3")]);
    world.publish(1, &retained("a", "1", 2));
    world.publish(1, &message("a", "2", 1));
    world.commit();
    world.pubrec(2, 1);
    world.puback(3, 2);
    world.commit();
    for at in 0..world.out.log.len() {
        let entry = world.out.log[at].clone();
        if !entry.is_released && !entry.is_cancelled {
            let record = Record::decode(&entry.meta, &entry.body).expect("what was logged");
            world
                .broker
                .relocate(world.now, Position(at as u64 + 1), &record, &mut world.out)
                .expect("not full");
            assert!(world.out.log[at].is_released);
        }
        world.out.log[at].is_cancelled = true;
    }
    world.restart();
    world.connect(4, &lasting("s2"));
    world.connect(5, &lasting("s3"));
    world.load();
    assert_eq!(world.got(4), ["CONNACK present", "PUBREL 1", "a=2 qos1 id2 dup"]);
    assert_eq!(world.got(5), ["CONNACK present", "a=1 qos2 id1 dup"]);
    world.subscribe(5, "+", 0);
    world.load();
    assert_eq!(world.got(5), ["SUBACK [Success]", "a=1 retain"]);
}

#[test]
fn nothing_is_left_in_the_log_of_a_session_that_has_ended() {
    let mut world = world(&lasting("publisher"), &[lasting("subscriber")]);
    world.publish(1, &message("a", "1", 2));
    world.publish(1, &message("a", "2", 1));
    world.cut(1);
    world.cut(2);
    world.pass(600_000);
    assert_eq!(world.live_records(), 0);
    assert_eq!(world.broker.statistics(), broker::Statistics::default());
}
