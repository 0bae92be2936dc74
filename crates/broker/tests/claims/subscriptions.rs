//! Subscriptions, their options and identifiers: sections 3.8, 3.10 and 4.7.

use broker::{ConnId, Limits, RefusedFilter};
use mqtt::{Connect, PacketId, QoS, ReasonCode, Subscribe, SubscriptionOptions};

use crate::world::{World, clean, lasting, message, qos_of};

fn world(limits: Limits) -> World {
    let mut world = World::with(limits);
    world.connect(1, &clean("publisher"));
    world.connect(2, &clean("subscriber"));
    world.got(1);
    world.got(2);
    world
}

fn at(qos: u8) -> SubscriptionOptions {
    SubscriptionOptions {
        qos: qos_of(qos),
        ..SubscriptionOptions::default()
    }
}

#[test]
fn overlapping_subscriptions_bring_one_copy_at_the_highest_qos_with_all_identifiers() {
    let mut world = world(Limits::default());
    world.subscribe_with(2, "a/#", at(0), Some(3));
    world.subscribe_with(2, "a/+", at(2), Some(1));
    world.subscribe_with(2, "a/b", at(1), None);
    world.got(2);
    world.publish(1, &message("a/b", "x", 2));
    assert_eq!(world.got(2), ["a/b=x qos2 id1 sub[1, 3]"]);
}

#[test]
fn a_subscription_with_the_same_filter_replaces_the_one_before() {
    let mut world = world(Limits::default());
    world.subscribe_with(2, "a", at(2), Some(1));
    world.subscribe_with(2, "a", at(0), Some(2));
    world.got(2);
    world.publish(1, &message("a", "x", 2));
    assert_eq!(world.got(2), ["a=x sub[2]"]);
    assert_eq!(world.broker.subscriptions("plant", "subscriber").count(), 1);
}

#[test]
fn no_local_keeps_a_client_s_own_messages_from_it() {
    let mut world = world(Limits::default());
    let options = SubscriptionOptions {
        no_local: true,
        ..at(0)
    };
    world.subscribe_with(1, "a", options, None);
    world.subscribe_with(2, "a", options, None);
    world.got(1);
    world.got(2);
    world.publish(1, &message("a", "x", 0));
    assert_eq!((world.got(1).len(), world.got(2).len()), (0, 1));
}

#[test]
fn no_local_on_a_shared_subscription_is_a_protocol_error() {
    let mut world = world(Limits::default());
    world.subscribe_with(
        2,
        "$share/g/a",
        SubscriptionOptions {
            no_local: true,
            ..at(0)
        },
        None,
    );
    assert_eq!(world.out.closed, [(2, ReasonCode::ProtocolError)]);
}

#[test]
fn topics_with_a_dollar_are_hidden_from_wildcards_in_the_first_level() {
    for (filter, is_met) in [("#", false), ("+/a", false), ("$SYS/#", true), ("$SYS/+", true)] {
        let mut world = world(Limits::default());
        world.subscribe(2, filter, 0);
        world.got(2);
        world.publish(1, &message("$SYS/a", "x", 0));
        assert_eq!(!world.got(2).is_empty(), is_met, "{filter}");
    }
}

#[test]
fn each_filter_gets_its_own_answer() {
    let mut world = world(Limits {
        subscriptions_per_session: 2,
        topic_levels: 3,
        ..Limits::default()
    });
    let filters = [
        "a",
        "secret",
        "$share/g/secret",
        "a/#/b",
        "$share//a",
        "1/2/3/4",
        "b",
        "c",
        "a",
    ];
    let subscribe = Subscribe::new(PacketId::MIN, filters.map(|filter| (filter, at(1))).into());
    let mut allowed = |filter: &str| filter != "secret";
    world
        .broker
        .subscribe(world.now, ConnId(2), &subscribe, &mut allowed, &mut world.out);
    let expected = "SUBACK [GrantedQoS1, NotAuthorized, NotAuthorized, TopicFilterInvalid, TopicFilterInvalid, \
                    TopicFilterInvalid, GrantedQoS1, QuotaExceeded, GrantedQoS1]";
    assert_eq!(world.got(2), [expected]);
    use RefusedFilter::{Invalid, NotAuthorized, SessionFull};
    let why = [NotAuthorized, NotAuthorized, Invalid, Invalid, Invalid, SessionFull];
    assert_eq!(world.refused_filters(), why);
}

/// Room for the subscriptions to `a` and `b`, and no more.
fn room_for_two() -> Limits {
    let mut world = world(Limits::default());
    world.subscribe(2, "a", 0);
    world.subscribe(2, "b", 0);
    let subscription_bytes = world.broker.statistics().subscription_bytes;
    Limits {
        subscription_bytes,
        ..Limits::default()
    }
}

#[test]
fn all_subscriptions_together_have_one_bound_on_their_bytes() {
    let mut world = world(room_for_two());
    world.connect(3, &clean("another"));
    world.got(3);
    world.subscribe(3, "a", 0);
    world.subscribe(2, "b", 0);
    world.subscribe(2, "c", 0);
    world.subscribe(3, "$share/g/c", 0);
    assert_eq!(world.refused_filters(), [RefusedFilter::TenantFull; 2]);
    // One that is there may change, whatever it is counted as.
    world.subscribe(2, "b", 1);
    assert_eq!(world.got(2)[1..], ["SUBACK [QuotaExceeded]", "SUBACK [GrantedQoS1]"]);
    world.unsubscribe(2, "b");
    world.subscribe(2, "c", 0);
    world.cut(2);
    world.subscribe(3, "b", 0);
    assert_eq!(world.refused_filters(), []);
    world.cut(3);
    assert_eq!(world.broker.statistics().subscription_bytes, 0);
}

#[test]
fn subscriptions_that_a_log_brings_back_stay_and_are_counted() {
    let mut world = World::with(Limits::default());
    world.connect(2, &lasting("subscriber"));
    world.subscribe(2, "a", 1);
    world.subscribe(2, "$share/g/a", 1);
    let before = world.broker.statistics();
    world.limits.subscription_bytes = 1;
    world.restart();
    let after = world.broker.statistics();
    assert_eq!(
        (after.subscriptions, after.subscription_bytes),
        (before.subscriptions, before.subscription_bytes)
    );
    world.connect(3, &lasting("subscriber"));
    world.subscribe(3, "a", 0);
    world.subscribe(3, "b", 0);
    assert_eq!(world.refused_filters(), [RefusedFilter::TenantFull]);
    world.connect(
        4,
        &Connect {
            clean_start: true,
            ..lasting("subscriber")
        },
    );
    assert_eq!(world.broker.statistics().subscription_bytes, 0);
}

#[test]
fn what_is_unsubscribed_is_delivered_no_more() {
    let mut world = world(Limits::default());
    world.subscribe(2, "a", 0);
    world.subscribe(2, "$share/g/a", 0);
    world.unsubscribe(2, "a");
    world.unsubscribe(2, "$share/g/a");
    world.unsubscribe(2, "a");
    let expected = [
        "SUBACK [Success]",
        "SUBACK [Success]",
        "UNSUBACK [Success]",
        "UNSUBACK [Success]",
    ];
    let got = world.got(2);
    assert_eq!(got[..4], expected);
    assert_eq!(got[4], "UNSUBACK [NoSubscriptionExisted]");
    world.publish(1, &message("a", "x", 0));
    assert_eq!(world.got(2), [""; 0]);
}

#[test]
fn subscriptions_of_a_lasting_session_outlast_a_restart_with_their_options() {
    let mut world = World::default();
    let options = SubscriptionOptions {
        qos: QoS::ExactlyOnce,
        retain_as_published: true,
        ..at(2)
    };
    world.connect(1, &lasting("a"));
    world.subscribe_with(1, "x/#", options, Some(5));
    world.subscribe_with(1, "$share/g/y", at(1), None);
    world.subscribe_with(1, "z", at(1), None);
    world.unsubscribe(1, "z");
    let before: Vec<String> = world
        .broker
        .subscriptions("plant", "a")
        .map(|subscription| format!("{subscription:?}"))
        .collect();
    world.restart();
    let after: Vec<String> = world
        .broker
        .subscriptions("plant", "a")
        .map(|subscription| format!("{subscription:?}"))
        .collect();
    assert_eq!((before.len(), &after), (2, &before));
    world.connect(2, &clean("publisher"));
    world.connect(3, &lasting("a"));
    world.got(3);
    world.publish(2, &message("x/1", "1", 2));
    world.publish(2, &message("y", "2", 1));
    assert_eq!(world.got(3).len(), 2, "and they are met");
}
