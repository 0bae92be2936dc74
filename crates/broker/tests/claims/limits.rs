//! Bounds, each with what happens at it; topic aliases and packet sizes.

use std::num::NonZeroU16;

use broker::{Dropped, Keep, Limits, QueuePolicy};
use mqtt::{Connect, Publish, PublishProperties, ReasonCode, Version, Will};

use crate::world::{World, clean, id, lasting, message, retained};

fn aliased<'a>(topic: &'a str, payload: &'a str, alias: u16) -> Publish<'a> {
    let properties = PublishProperties {
        topic_alias: NonZeroU16::new(alias),
        ..PublishProperties::default()
    };
    Publish {
        properties,
        ..message(topic, payload, 0)
    }
}

fn expiring<'a>(payload: &'a str, qos: u8, interval_s: u32) -> Publish<'a> {
    let properties = PublishProperties {
        message_expiry_interval_s: Some(interval_s),
        ..PublishProperties::default()
    };
    Publish {
        properties,
        ..message("a", payload, qos)
    }
}

fn pair(limits: Limits, subscriber: &Connect<'_>) -> World {
    let mut world = World::with(limits);
    world.connect(1, &clean("publisher"));
    world.connect(2, subscriber);
    world.subscribe(2, "#", 1);
    world.got(1);
    world.got(2);
    world
}

#[test]
fn an_alias_from_the_client_stands_for_the_topic_it_came_with() {
    let mut world = pair(Limits::default(), &clean("subscriber"));
    world.publish(1, &aliased("a", "1", 1));
    world.publish(1, &aliased("", "2", 1));
    world.publish(1, &aliased("b", "3", 1));
    world.publish(1, &aliased("", "4", 1));
    assert_eq!(world.got(2), ["a=1", "a=2", "b=3", "b=4"]);
}

#[test]
fn an_alias_that_is_unknown_or_too_large_ends_the_connection() {
    for (alias, reason) in [(2, ReasonCode::ProtocolError), (17, ReasonCode::TopicAliasInvalid)] {
        let mut world = pair(Limits::default(), &clean("subscriber"));
        world.publish(1, &aliased("", "x", alias));
        assert_eq!(world.out.closed, [(1, reason)]);
    }
}

#[test]
fn a_subscription_identifier_from_a_client_is_a_protocol_error() {
    let mut world = pair(Limits::default(), &clean("subscriber"));
    let properties = PublishProperties {
        subscription_ids: (&[1][..]).into(),
        ..PublishProperties::default()
    };
    world.publish(
        1,
        &Publish {
            properties,
            ..message("a", "x", 0)
        },
    );
    assert_eq!(world.out.closed, [(1, ReasonCode::ProtocolError)]);
}

#[test]
fn the_first_topics_to_a_client_get_the_aliases_that_it_takes() {
    let mut world = pair(
        Limits::default(),
        &Connect {
            topic_alias_maximum: 2,
            ..clean("subscriber")
        },
    );
    for topic in ["a", "b", "c", "b", "a", "c"] {
        world.publish(1, &message(topic, "", 0));
    }
    assert_eq!(
        world.got(2),
        ["a= alias1", "b= alias2", "c=", "= alias2", "= alias1", "c="]
    );
}

#[test]
fn a_packet_over_the_client_s_maximum_is_dropped_and_counted() {
    let mut world = pair(
        Limits::default(),
        &Connect {
            maximum_packet_size: Some(11),
            ..lasting("subscriber")
        },
    );
    world.publish(1, &message("a", "123", 1));
    world.publish(1, &message("a", "1234", 1));
    world.publish(1, &message("a", "123456", 0));
    assert_eq!(world.got(2), ["a=123 qos1 id1"]);
    assert_eq!(world.drops(), [Dropped::TooLarge, Dropped::TooLarge]);
    world.puback(2, 1);
    assert_eq!(world.broker.statistics().memory_bytes, 0);
}

#[test]
fn at_the_bound_of_a_queue_the_newest_is_dropped_and_counted() {
    let by_messages = Limits {
        queue_messages: 2,
        ..Limits::default()
    };
    let by_bytes = Limits {
        queue_bytes: 10,
        ..Limits::default()
    };
    for limits in [by_messages, by_bytes] {
        let mut world = pair(limits, &lasting("subscriber"));
        world.cut(2);
        for payload in ["1", "2", "3"] {
            world.publish(1, &message("a", payload, 1));
        }
        assert_eq!(world.drops(), [Dropped::QueueFull]);
        world.connect(3, &lasting("subscriber"));
        assert_eq!(world.got(3), ["CONNACK present", "a=1 qos1 id1", "a=2 qos1 id2"]);
    }
}

/// A session that is away with room for one message, and neighbours: 3 is connected, "away" is not.
fn refusing(publisher: &Connect<'_>) -> World {
    let limits = Limits {
        queue_messages: 1,
        queue_policy: QueuePolicy::Refuse,
        ..Limits::default()
    };
    let mut world = World::with(limits);
    world.connect(1, publisher);
    for (conn, name) in [(2, "full"), (3, "neighbour"), (4, "away")] {
        world.connect(conn, &lasting(name));
        world.subscribe(conn, if name == "full" { "#" } else { "a" }, 2);
        world.got(conn);
    }
    world.cut(2);
    world.cut(4);
    world.got(1);
    world.publish(1, &message("b", "1", 1));
    assert_eq!(world.got(1), ["PUBACK 1"]);
    world
}

#[test]
fn a_full_queue_that_is_to_refuse_is_told_to_the_publisher_and_delays_nobody_else() {
    let mut world = refusing(&clean("publisher"));
    world.publish(1, &retained("a", "2", 1));
    assert_eq!(world.got(1), ["PUBACK 1 QuotaExceeded"]);
    assert_eq!(
        world.drops(),
        [Dropped::QueueFull, Dropped::QueueFull],
        "that of \"full\" and of \"away\""
    );
    assert_eq!(world.got(3), ["a=2 qos1 id1"]);
    assert_eq!(world.broker.statistics().retained_messages, 0);
    world.connect(5, &lasting("full"));
    assert_eq!(world.got(5), ["CONNACK present", "b=1 qos1 id1"]);
    world.publish(1, &message("a", "2", 1));
    assert_eq!(world.got(1), ["PUBACK 1"]);
}

#[test]
fn a_full_queue_that_is_to_refuse_lets_nobody_have_qos_2_before_it_comes_again() {
    let mut world = refusing(&clean("publisher"));
    world.publish(1, &message("a", "2", 2));
    assert_eq!(world.got(1), ["PUBREC 1 QuotaExceeded"]);
    assert_eq!(world.got(3), [""; 0]);
    world.connect(5, &lasting("full"));
    world.publish(1, &message("a", "2", 2));
    assert_eq!(world.got(3), ["a=2 qos2 id2"]);
}

#[test]
fn a_full_queue_that_is_to_refuse_closes_on_a_publisher_of_3_1_1() {
    for qos in [1, 2] {
        let mut world = refusing(&Connect {
            version: Version::V311,
            ..clean("publisher")
        });
        world.publish(1, &message("a", "2", qos));
        assert_eq!(world.got(1), [""; 0], "no acknowledgement");
        assert_eq!(world.out.closed, [(1, ReasonCode::QuotaExceeded)]);
    }
}

#[test]
fn nobody_is_told_of_a_full_queue_where_nobody_waits_for_an_answer() {
    let mut world = refusing(&clean("publisher"));
    let published = world.send(None, &message("a", "2", 1), Keep::Always);
    assert!(!published.refused);
    assert_eq!(world.drops(), [Dropped::QueueFull]);
    assert_eq!(world.got(3), ["a=2 qos1 id1"]);
}

#[test]
fn what_all_sessions_and_topics_keep_has_one_bound() {
    let limits = Limits {
        kept_bytes: 60,
        ..Limits::default()
    };
    let mut world = pair(limits, &lasting("subscriber"));
    world.cut(2);
    for payload in ["1", "2", "3", "4"] {
        world.publish(1, &message("a", &payload.repeat(15), 1));
    }
    let kept = world.broker.statistics().kept_bytes;
    assert!((30..=60).contains(&kept), "{kept}");
    let drops = world.drops();
    assert!(
        !drops.is_empty() && drops.iter().all(|why| *why == Dropped::TenantFull),
        "{drops:?}"
    );
    world.publish(1, &retained("r", &"r".repeat(60), 0));
    assert!(world.drops().contains(&Dropped::TenantFull));
    assert_eq!(world.broker.statistics().retained_messages, 0);
    world.connect(3, &lasting("subscriber"));
    for id in 1..=(4 - drops.len() as u16) {
        world.puback(3, id);
    }
    assert_eq!(world.broker.statistics().kept_bytes, 0);
    world.publish(1, &retained("r", "r", 0));
    assert_eq!(world.broker.statistics().retained_messages, 1);
}

/// What one session counts as, without a will.
fn session_bytes(client_id: &str) -> u64 {
    let mut world = World::with(Limits::default());
    world.connect(1, &lasting(client_id));
    world.broker.statistics().session_bytes
}

#[test]
fn all_sessions_together_have_one_bound_on_their_bytes_however_short_the_messages() {
    let (publisher, subscriber) = (session_bytes("publisher"), session_bytes("subscriber"));
    let limits = Limits {
        session_bytes: publisher + subscriber + 3 * 320,
        ..Limits::default()
    };
    let mut world = pair(limits, &lasting("subscriber"));
    world.cut(2);
    for payload in ["1", "2", "3", "4", "5"] {
        world.publish(1, &message("a", payload, 1));
    }
    assert_eq!(world.drops(), [Dropped::SessionsFull; 2]);
    world.connect(3, &lasting("subscriber"));
    assert_eq!(
        world.got(3).len(),
        1 + 3,
        "who is known comes in, and has what was kept"
    );
    // It is in flight: there is room for none that waits, but one can leave at once.
    world.publish(1, &message("a", "6", 1));
    assert_eq!(world.drops(), []);
    assert_eq!(world.got(3).len(), 1);
    for id in 1..=4 {
        world.puback(3, id);
    }
    assert_eq!(world.broker.statistics().session_bytes, publisher + subscriber);
}

#[test]
fn a_session_or_a_will_beyond_the_bytes_of_all_is_refused_and_frees_them_as_it_ends() {
    let limits = Limits {
        session_bytes: session_bytes("one") + session_bytes("two"),
        ..Limits::default()
    };
    let mut world = World::with(limits);
    world.connect(1, &lasting("one"));
    let with_will = Connect {
        will: Some(Will::new("w", b"will")),
        ..lasting("two")
    };
    for (conn, connect) in [(2, &with_will), (3, &lasting(&"x".repeat(100)))] {
        world.connect(conn, connect);
        assert_eq!(world.got(conn), ["CONNACK QuotaExceeded"]);
    }
    world.connect(4, &lasting("two"));
    world.connect(5, &clean("three"));
    assert_eq!(world.got(5), ["CONNACK QuotaExceeded"]);
    world.connect(6, &clean("two"));
    world.cut(6);
    world.connect(7, &clean("six"));
    world.cut(7);
    assert_eq!(world.broker.statistics().session_bytes, session_bytes("one"));
}

#[test]
fn identifiers_of_qos_2_count_until_they_are_released() {
    let mut world = World::with(Limits::default());
    world.connect(1, &clean("publisher"));
    let before = world.broker.statistics().session_bytes;
    let publish = Publish {
        packet_id: Some(id(7)),
        ..message("a", "x", 2)
    };
    world.publish(1, &publish);
    assert_eq!(world.broker.statistics().session_bytes, before + 32);
    world.pubrel(1, 7);
    assert_eq!(world.broker.statistics().session_bytes, before);
}

#[test]
fn qos_0_is_not_kept_for_a_session_without_connection() {
    let mut world = pair(Limits::default(), &lasting("subscriber"));
    world.cut(2);
    world.publish(1, &message("a", "1", 0));
    assert_eq!(world.drops(), [Dropped::Offline]);
}

#[test]
fn one_session_too_many_is_refused_but_none_that_exists() {
    let mut world = World::with(Limits {
        sessions: 1,
        ..Limits::default()
    });
    world.connect(1, &lasting("a"));
    assert!(!world.connect(2, &clean("b")));
    assert_eq!(
        (world.got(2), world.out.closed.clone()),
        (
            vec!["CONNACK QuotaExceeded".into()],
            vec![(2, ReasonCode::QuotaExceeded)]
        )
    );
    assert!(world.connect(3, &lasting("a")));
}

#[test]
fn a_topic_that_is_too_deep_is_refused() {
    let mut world = pair(
        Limits {
            topic_levels: 2,
            ..Limits::default()
        },
        &clean("subscriber"),
    );
    world.publish(1, &message("a/b", "1", 1));
    world.publish(1, &message("a/b/c", "2", 1));
    world.publish(1, &message("a/b/c", "3", 0));
    assert_eq!(world.got(1), ["PUBACK 1", "PUBACK 1 TopicNameInvalid"]);
    assert_eq!(world.got(2), ["a/b=1 qos1 id1"]);
    world.connect(3, &Connect::new(Version::V311, "old"));
    world.publish(3, &message("a/b/c", "2", 1));
    assert_eq!(world.got(3), ["CONNACK", "PUBACK 1"]);
}

#[test]
fn the_expiry_of_a_message_is_counted_down_while_it_waits() {
    let mut world = pair(Limits::default(), &lasting("subscriber"));
    world.publish(1, &expiring("0", 0, 10));
    assert_eq!(world.got(2), ["a=0 expires10"]);
    world.cut(2);
    world.publish(1, &expiring("1", 1, 10));
    world.publish(1, &expiring("2", 1, 2));
    world.pass(2_500);
    world.connect(3, &lasting("subscriber"));
    assert_eq!(world.got(3), ["CONNACK present", "a=1 qos1 id1 expires8"]);
    assert_eq!(world.drops(), [Dropped::Expired]);
}

#[test]
fn a_transient_message_is_for_sessions_that_are_connected_now() {
    let mut world = pair(
        Limits::default(),
        &Connect {
            receive_maximum: Some(id(1)),
            ..lasting("subscriber")
        },
    );
    let keep = Keep::Never {
        until_ms: world.now.monotonic_ms + 1_000,
    };
    for payload in ["1", "2", "3"] {
        world.send(None, &message("a", payload, 1), keep);
    }
    assert_eq!(world.got(2), ["a=1 qos1 id1"]);
    world.puback(2, 1);
    assert_eq!(world.got(2), ["a=2 qos1 id2"]);
    world.pass(1_000);
    world.puback(2, 2);
    assert_eq!((world.got(2).len(), world.drops()), (0, vec![Dropped::Expired]));
    let keep = Keep::Never {
        until_ms: world.now.monotonic_ms + 1_000,
    };
    world.send(None, &message("a", "4", 1), keep);
    world.send(None, &message("a", "5", 1), keep);
    world.cut(2);
    world.send(None, &message("a", "6", 1), keep);
    assert_eq!(world.drops(), [Dropped::Offline, Dropped::Offline]);
    world.got(2);
    world.connect(3, &lasting("subscriber"));
    assert_eq!(world.got(3), ["CONNACK present"]);
    assert_eq!(
        (world.out.log.len(), world.broker.statistics().memory_bytes),
        (4, 0),
        "sessions and subscription alone"
    );
}

#[test]
fn whether_the_addressee_was_reached_is_told() {
    let mut world = pair(Limits::default(), &clean("subscriber"));
    let publish = message("a", "x", 1);
    for (owner, expected) in [("plant", true), ("other", false)] {
        let keep = Keep::Never { until_ms: u64::MAX };
        let message = broker::Message {
            publish: &publish,
            from: None,
            addressees: &["nobody", owner],
            keep,
        };
        let published = world.broker.publish(world.now, &message, &mut world.out);
        assert_eq!(published.addressee_reached, expected, "{owner}");
    }
}
