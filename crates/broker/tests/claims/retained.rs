//! Retained messages, sections 3.3.1.3 and 3.8.3.1.

use broker::{ConnId, Dropped, Keep, Limits};
use mqtt::{Connect, PublishProperties, RetainHandling, Subscribe, SubscriptionOptions};

use crate::world::{World, clean, id, lasting, message, retained};

/// A publisher (1) that has retained `topics` at QoS 1, and a client (2).
fn world(topics: &[&str]) -> World {
    let mut world = World::default();
    world.connect(1, &clean("publisher"));
    for topic in topics {
        world.publish(1, &retained(topic, "x", 1));
    }
    world.connect(2, &clean("subscriber"));
    world.got(2);
    world
}

#[test]
fn the_last_retained_message_of_each_matching_topic_goes_to_a_new_subscriber() {
    let mut world = world(&["a", "a/b", "b", "$x"]);
    world.publish(1, &retained("a", "y", 0));
    world.subscribe(2, "#", 1);
    assert_eq!(
        world.got(2),
        [
            "SUBACK [GrantedQoS1]",
            "a=y retain",
            "a/b=x qos1 id1 retain",
            "b=x qos1 id2 retain"
        ]
    );
}

#[test]
fn an_empty_payload_takes_the_retained_message_away() {
    let mut world = world(&["a"]);
    world.publish(1, &retained("a", "", 1));
    world.subscribe(2, "#", 1);
    assert_eq!(world.got(2), ["SUBACK [GrantedQoS1]"]);
    let left = world.broker.statistics();
    assert_eq!((left.retained_messages, left.retained_bytes), (0, 0));
    assert_eq!((left.kept_bytes, left.memory_bytes), (0, 0));
}

#[test]
fn retain_handling_says_when_retained_messages_are_sent() {
    use RetainHandling::{DoNotSend, Send, SendIfNew};
    for (handling, first, second) in [(Send, 1, 1), (SendIfNew, 1, 0), (DoNotSend, 0, 0)] {
        let mut world = world(&["a"]);
        let options = SubscriptionOptions {
            retain_handling: handling,
            ..SubscriptionOptions::default()
        };
        for expected in [first, second] {
            world.subscribe_with(2, "a", options, None);
            assert_eq!(world.got(2).len() - 1, expected, "{handling:?}");
        }
    }
}

#[test]
fn a_live_message_keeps_its_retain_flag_only_where_asked_to() {
    for (retain_as_published, expected) in [(false, "a=x"), (true, "a=x retain")] {
        let mut world = world(&[]);
        let options = SubscriptionOptions {
            retain_as_published,
            ..SubscriptionOptions::default()
        };
        world.subscribe_with(2, "a", options, None);
        world.got(2);
        world.publish(1, &retained("a", "x", 0));
        assert_eq!(world.got(2), [expected]);
    }
}

#[test]
fn a_retained_message_expires_and_says_how_long_it_has_left() {
    let mut world = world(&[]);
    let properties = PublishProperties {
        message_expiry_interval_s: Some(10),
        ..PublishProperties::default()
    };
    world.publish(
        1,
        &mqtt::Publish {
            properties,
            ..retained("a", "x", 0)
        },
    );
    world.pass(3_500);
    world.subscribe(2, "a", 0);
    assert_eq!(world.got(2), ["SUBACK [Success]", "a=x retain expires7"]);
    world.pass(6_500);
    world.subscribe(2, "a", 0);
    assert_eq!(world.got(2), ["SUBACK [Success]"]);
    assert_eq!(world.broker.statistics().retained_messages, 0);
}

#[test]
fn a_slow_subscriber_gets_all_retained_messages_in_its_own_time() {
    let mut world = world(&["a", "b", "c"]);
    world.cut(2);
    world.connect(
        3,
        &Connect {
            receive_maximum: Some(id(1)),
            ..clean("subscriber")
        },
    );
    world.got(3);
    world.subscribe(3, "#", 1);
    assert_eq!(world.got(3), ["SUBACK [GrantedQoS1]", "a=x qos1 id1 retain"]);
    world.block(3);
    world.puback(3, 1);
    assert_eq!(world.got(3), [""; 0]);
    world.unblock(3);
    world.puback(3, 2);
    assert_eq!(world.got(3), ["b=x qos1 id2 retain", "c=x qos1 id3 retain"]);
}

#[test]
fn over_the_bound_a_message_is_delivered_but_not_retained() {
    for limits in [
        Limits {
            retained_messages: 1,
            ..Limits::default()
        },
        Limits {
            retained_bytes: 8,
            ..Limits::default()
        },
    ] {
        let mut world = World::with(limits);
        world.connect(1, &clean("publisher"));
        world.subscribe(1, "#", 0);
        world.got(1);
        world.publish(1, &retained("a", "1", 0));
        world.publish(1, &retained("a", "2", 0));
        world.publish(1, &retained("b", "3", 0));
        assert_eq!(world.got(1), ["a=1", "a=2", "b=3"]);
        assert_eq!(
            (world.broker.statistics().retained_messages, world.drops()),
            (1, vec![Dropped::RetainedFull])
        );
    }
}

#[test]
fn what_the_hub_retains_is_its_own_matter_and_takes_no_room_of_the_clients() {
    for limits in [
        Limits {
            retained_messages: 1,
            ..Limits::default()
        },
        Limits {
            retained_bytes: 8,
            ..Limits::default()
        },
        Limits {
            kept_bytes: 8,
            ..Limits::default()
        },
    ] {
        let mut world = World::with(limits);
        world.connect(1, &clean("publisher"));
        for state in ["1", "2"] {
            world.send(None, &retained("h", state, 1), Keep::Memory);
        }
        world.publish(1, &retained("h", "", 1));
        world.publish(1, &retained("a", "3", 1));
        world.send(None, &retained("h", "4", 1), Keep::Memory);
        world.got(1);
        world.subscribe(1, "#", 0);
        assert_eq!(world.got(1), ["SUBACK [Success]", "a=3 retain", "h=4 retain"]);
        assert_eq!(world.drops(), []);
    }
}

#[test]
fn retained_messages_outlast_a_restart_but_those_of_memory_do_not() {
    let mut world = world(&["a", "b"]);
    world.publish(1, &retained("b", "", 1));
    world.send(None, &retained("$SYS/uptime", "7", 0), Keep::Memory);
    world.restart();
    world.connect(3, &clean("new"));
    world.subscribe(3, "#", 0);
    world.subscribe(3, "$SYS/#", 0);
    world.load();
    assert_eq!(
        world.got(3),
        ["CONNACK", "SUBACK [Success]", "SUBACK [Success]", "a=x retain"]
    );
}

#[test]
fn a_retained_message_given_to_a_lasting_session_is_given_again_until_acknowledged() {
    let mut world = world(&["a"]);
    world.connect(3, &lasting("lasting"));
    world.subscribe(3, "a", 1);
    world.restart();
    world.connect(4, &lasting("lasting"));
    world.load();
    assert_eq!(world.got(4), ["CONNACK present", "a=x qos1 id1 dup retain"]);
}

#[test]
fn a_message_to_nobody_is_told_so() {
    let mut world = world(&[]);
    let published = world.publish(1, &message("nobody", "x", 1));
    assert_eq!(published.reason(), mqtt::ReasonCode::NoMatchingSubscribers);
}

/// A hundred subscriptions in one SUBSCRIBE of client 2 that match nothing, and none of whose levels can be leapt over.
fn search_for_nothing(world: &mut World) {
    let filters: Vec<String> = (0..100).map(|number| format!("+/x{number}")).collect();
    let filters = filters.iter().map(|filter| (&**filter, SubscriptionOptions::default()));
    let subscribe = Subscribe::new(id(1), filters.collect());
    let (now, conn) = (world.now, ConnId(2));
    world
        .broker
        .subscribe(now, conn, &subscribe, &mut |_| true, &mut world.out);
    assert!(world.got(2)[0].starts_with("SUBACK"));
}

#[test]
fn a_long_search_for_retained_messages_goes_on_turn_by_turn_and_lets_others_go_between() {
    let topics: Vec<String> = (0..3_000).map(|number| format!("{number}/temp")).collect();
    let mut world = world(&topics.iter().map(String::as_str).collect::<Vec<_>>());
    world.connect(3, &clean("other"));
    search_for_nothing(&mut world);
    world.subscribe(2, "+/temp", 0);
    assert_eq!(
        world.broker.next_deadline(),
        Some(0),
        "it goes on at once, but not in this turn"
    );
    world.got(3);
    world.subscribe(3, "7/temp", 0);
    world.pass(0);
    world.pass(0);
    assert_eq!(world.got(3).last().map(String::as_str), Some("7/temp=x retain"));
    let turns = (0..1_000).take_while(|_| {
        world.broker.next_deadline() == Some(0) && {
            world.pass(0);
            true
        }
    });
    let turns = turns.count();
    // Each of 3,000 topics is looked at a hundred times, 4,096 in a turn.
    assert!((65..100).contains(&turns), "{turns}");
    assert_eq!(world.got(2).len(), 1 + 3_000);
}

#[test]
fn a_search_that_is_not_over_ends_with_its_subscription() {
    let topics: Vec<String> = (0..5_000).map(|number| format!("{number}/temp")).collect();
    let mut world = world(&topics.iter().map(String::as_str).collect::<Vec<_>>());
    search_for_nothing(&mut world);
    world.subscribe(2, "1/temp", 0);
    world.got(2);
    for number in 0..100 {
        world.unsubscribe(2, &format!("+/x{number}"));
    }
    world.pass(0);
    assert_eq!(world.got(2).last().map(String::as_str), Some("1/temp=x retain"));
    assert_ne!(world.broker.next_deadline(), Some(0));
}

#[test]
fn a_withdrawal_of_what_was_just_withdrawn_waits_until_that_is_safe() {
    let mut world = World::with(Limits::default());
    world.connect(1, &clean("one"));
    world.connect(2, &clean("other"));
    world.publish(1, &retained("a", "1", 1));
    world.commit();
    let first = world.publish(1, &retained("a", "", 1)).after;
    assert_eq!(world.publish(2, &retained("a", "", 1)).after, first);
    assert!(first.0 as usize > world.out.durable);
}
