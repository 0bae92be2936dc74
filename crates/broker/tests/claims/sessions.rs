//! How sessions begin, go on, change hands and end: sections 3.1, 3.14 and 4.1.

use broker::{ConnId, Limits, Position};
use mqtt::{Connect, Disconnect, Packet, QoS, ReasonCode, Version};

use crate::world::{World, clean, id, lasting, message};

fn old(client_id: &str, clean_start: bool) -> Connect<'_> {
    Connect {
        clean_start,
        ..Connect::new(Version::V311, client_id)
    }
}

#[test]
fn a_session_ends_with_its_connection_unless_it_was_asked_to_stay() {
    for (first, expected) in [
        (
            Connect {
                clean_start: false,
                ..clean("a")
            },
            "CONNACK",
        ),
        (lasting("a"), "CONNACK present"),
        (old("a", true), "CONNACK"),
        (old("a", false), "CONNACK present"),
    ] {
        let mut world = World::default();
        world.connect(1, &first);
        world.cut(1);
        world.connect(
            2,
            &Connect {
                clean_start: false,
                ..first.clone()
            },
        );
        assert_eq!(world.got(2), [expected], "{first:?}");
    }
}

#[test]
fn response_information_is_for_those_who_ask_for_it() {
    let mut world = World::default();
    let asking = Connect {
        request_response_information: true,
        ..clean("a")
    };
    world.connect(1, &asking);
    assert_eq!(world.got(1), ["CONNACK responses=answers"]);
}

#[test]
fn a_session_is_there_until_its_expiry_interval_is_over() {
    for (away_ms, expected) in [(599_999, "CONNACK present"), (600_000, "CONNACK")] {
        let mut world = World::default();
        world.connect(1, &lasting("a"));
        world.cut(1);
        world.pass(away_ms);
        world.connect(2, &lasting("a"));
        assert_eq!(world.got(2), [expected], "after {away_ms} ms");
    }
}

#[test]
fn a_session_of_3_1_1_never_expires() {
    let mut world = World::default();
    world.connect(1, &old("a", false));
    world.cut(1);
    world.pass(u64::from(u32::MAX) * 2000);
    world.connect(2, &old("a", false));
    assert_eq!(world.got(2), ["CONNACK present"]);
}

#[test]
fn clean_start_ends_the_session_before() {
    let mut world = World::default();
    world.connect(1, &lasting("a"));
    world.subscribe(1, "x", 1);
    world.cut(1);
    world.connect(
        2,
        &Connect {
            clean_start: true,
            ..lasting("a")
        },
    );
    assert_eq!(world.got(2), ["CONNACK"]);
    assert_eq!(world.broker.statistics().subscriptions, 0);
}

#[test]
fn the_connack_of_a_clean_start_waits_until_no_crash_brings_the_old_session_back() {
    let mut world = World::default();
    world.connect(1, &lasting("a"));
    world.cut(1);
    world.connect(
        2,
        &Connect {
            clean_start: true,
            ..clean("a")
        },
    );
    assert_eq!(world.got(2), ["CONNACK"]);
    let written = world.out.last_after.0 as usize;
    world.restart_after(written);
    world.connect(3, &lasting("a"));
    assert_eq!(world.got(3), ["CONNACK"]);
}

#[test]
fn a_second_connection_takes_the_session_over() {
    let mut world = World::default();
    world.connect(1, &lasting("a"));
    world.subscribe(1, "x", 1);
    world.connect(2, &lasting("a"));
    assert_eq!(world.out.closed, [(1, ReasonCode::SessionTakenOver)]);
    world.got(1);
    world.connect(3, &clean("publisher"));
    world.publish(3, &message("x", "1", 1));
    assert_eq!(world.got(2), ["CONNACK present", "x=1 qos1 id1"]);
    world.cut(1);
    world.puback(1, 1);
    assert_eq!(
        world.broker.statistics().in_flight,
        1,
        "the old connection has no say any more"
    );
}

#[test]
fn a_client_id_in_a_tight_loop_leaves_one_session() {
    let mut world = World::default();
    (1..=1000).for_each(|conn| {
        world.connect(conn, &lasting("a"));
    });
    let statistics = world.broker.statistics();
    assert_eq!((statistics.sessions, statistics.connected), (1, 1));
    assert_eq!(world.live_records(), 1);
}

#[test]
fn nobody_takes_over_another_owner_s_session() {
    let mut world = World::default();
    world.connect_as(1, "press", &lasting("a"));
    world.connect_as(2, "thief", &lasting("a"));
    assert_eq!(world.got(2), ["CONNACK"]);
    assert!(world.out.closed.is_empty());
    assert_eq!(world.broker.statistics().sessions, 2);
}

#[test]
fn disconnect_may_change_the_expiry_but_not_from_nothing() {
    let leave = |connect: &Connect<'_>, expiry_s| {
        let mut world = World::default();
        world.connect(1, connect);
        let leave = Disconnect {
            session_expiry_interval_s: Some(expiry_s),
            ..Disconnect::new(ReasonCode::Success)
        };
        world.broker.disconnect(world.now, ConnId(1), &leave, &mut world.out);
        world
    };
    assert_eq!(leave(&lasting("a"), 0).broker.statistics().sessions, 0);
    let mut world = leave(&lasting("a"), 1000);
    world.pass(999_000);
    assert_eq!(world.broker.statistics().sessions, 1);
    assert_eq!(leave(&clean("a"), 5).out.closed, [(1, ReasonCode::ProtocolError)]);
}

#[test]
fn an_empty_client_identifier_is_replaced_by_one_that_is_unique() {
    let mut world = World::default();
    world.connect(1, &clean(""));
    world.connect(2, &clean(""));
    let (one, other) = (world.got(1), world.got(2));
    assert!(one[0].starts_with("CONNACK assigned=selvedge-"), "{one:?}");
    assert_ne!(one, other);
    assert!(
        !world.connect(3, &old("", false)),
        "3.1.1 keeps no session without a name (MQTT-3.1.3-8)"
    );
    assert_eq!(world.got(3), ["CONNACK ClientIdentifierNotValid"]);
}

#[test]
fn a_silent_client_is_disconnected_after_one_and_a_half_keep_alives() {
    let mut world = World::default();
    world.connect(
        1,
        &Connect {
            keep_alive_s: 10,
            ..clean("a")
        },
    );
    world.pass(14_999);
    world.handle(1, &Packet::PingReq);
    assert_eq!(world.got(1), ["CONNACK", "PINGRESP"]);
    world.pass(14_999);
    assert!(world.out.closed.is_empty());
    assert_eq!(world.broker.next_deadline(), Some(world.now.monotonic_ms + 1));
    world.pass(1);
    assert_eq!(world.out.closed, [(1, ReasonCode::KeepAliveTimeout)]);
    assert_eq!(world.broker.next_deadline(), None);
}

#[test]
fn a_keep_alive_of_zero_is_none() {
    let mut world = World::default();
    world.connect(1, &clean("a"));
    world.pass(1 << 40);
    assert!(world.out.closed.is_empty());
}

#[test]
fn the_server_s_keep_alive_overrides_the_client_s_in_version_5_alone() {
    let limits = Limits {
        keep_alive_s: Some(id(30)),
        ..Limits::default()
    };
    for (asked_s, answer) in [
        (0, "CONNACK keep_alive=30"),
        (31, "CONNACK keep_alive=30"),
        (30, "CONNACK"),
    ] {
        let mut world = World::with(limits.clone());
        world.connect(
            1,
            &Connect {
                keep_alive_s: asked_s,
                ..clean("a")
            },
        );
        assert_eq!(world.got(1), [answer]);
        world.pass(45_000);
        assert_eq!(
            world.out.closed,
            [(1, ReasonCode::KeepAliveTimeout)],
            "asked for {asked_s}"
        );
    }
    let mut world = World::with(limits);
    world.connect(1, &old("a", true));
    world.pass(45_000);
    assert_eq!((world.got(1), world.out.closed.len()), (vec!["CONNACK".to_string()], 0));
}

#[test]
fn connack_tells_what_was_asked_for_and_what_was_cut() {
    let mut world = World::with(Limits {
        session_expiry_s: 60,
        ..Limits::default()
    });
    world.connect(1, &lasting("a"));
    assert_eq!(world.got(1), ["CONNACK expiry=60"]);
}

#[test]
fn the_sessions_of_a_revoked_owner_end() {
    let mut world = World::default();
    world.connect_as(1, "press", &lasting("a"));
    world.connect_as(2, "press", &lasting("b"));
    world.connect_as(3, "lathe", &lasting("a"));
    world.cut(2);
    world
        .broker
        .remove_owner(world.now, "press", ReasonCode::NotAuthorized, &mut world.out);
    assert_eq!(world.out.closed, [(1, ReasonCode::NotAuthorized)]);
    let left: Vec<_> = world.broker.sessions().map(|session| session.owner).collect();
    assert_eq!(left, ["lathe"]);
}

#[test]
fn the_wall_clock_may_jump_without_any_effect() {
    for jump_ms in [-3_600_000_i64, 3_600_000] {
        let mut world = World::default();
        world.connect(1, &lasting("a"));
        world.cut(1);
        world.now.unix_ms = world.now.unix_ms.saturating_add_signed(jump_ms);
        world.pass(599_000);
        assert_eq!(world.broker.statistics().sessions, 1);
        world.pass(1_000);
        assert_eq!(world.broker.statistics().sessions, 0);
    }
}

#[test]
fn what_an_older_owner_of_a_session_asks_for_changes_nothing() {
    let mut world = World::default();
    world.connect(1, &lasting("a"));
    world.subscribe(1, "a", 1);
    world.connect(2, &lasting("a"));
    world.got(2);
    world.publish(2, &message("a", "1", 1));
    assert_eq!(world.got(2), ["a=1 qos1 id1", "PUBACK 1"]);
    let (records, before) = (world.out.log.len(), world.broker.statistics());
    world.got(1);
    world.publish(1, &message("a", "2", 2));
    world.puback(1, 1);
    world.subscribe(1, "b", 1);
    world.unsubscribe(1, "a");
    world.cut(1);
    assert_eq!(world.got(1), [""; 0], "not even an answer");
    assert_eq!((world.out.log.len(), world.broker.statistics()), (records, before));
    let (now, id) = (world.now, id(1));
    let (conn, success) = (ConnId(1), ReasonCode::Success);
    world
        .broker
        .acknowledge(now, conn, id, QoS::AtLeastOnce, success, Position(0), &mut world.out);
    assert_eq!(
        world.got(1),
        [""; 0],
        "what it was promised before is not told to it any more"
    );
}

#[test]
fn an_owner_is_connected_while_any_session_of_it_is() {
    let mut world = World::default();
    world.connect_as(1, "pump", &clean("one"));
    world.connect_as(2, "pump", &lasting("two"));
    assert!(world.broker.is_owner_connected("pump") && !world.broker.is_owner_connected("other"));
    world.cut(1);
    assert!(world.broker.is_owner_connected("pump"));
    world.cut(2);
    assert!(!world.broker.is_owner_connected("pump"));
}
