//! Wills, sections 3.1.2.5 and 3.1.3.2.

use broker::ConnId;
use mqtt::{Connect, Disconnect, ReasonCode, Will};

use crate::world::{World, clean, lasting};

fn with_will(client_id: &str, is_lasting: bool, delay_interval_s: u32) -> Connect<'_> {
    let connect = if is_lasting {
        lasting(client_id)
    } else {
        clean(client_id)
    };
    Connect {
        will: Some(Will {
            delay_interval_s,
            ..Will::new("gone", b"a")
        }),
        ..connect
    }
}

#[test]
fn a_will_is_sent_when_the_connection_breaks() {
    let mut world = World::default();
    world.connect(1, &with_will("a", false, 0));
    world.cut(1);
    assert_eq!(world.wills(), ["gone=a"]);
}

#[test]
fn a_will_is_sent_when_the_keep_alive_runs_out() {
    let mut world = World::default();
    world.connect(
        1,
        &Connect {
            keep_alive_s: 1,
            ..with_will("a", false, 0)
        },
    );
    world.pass(1_500);
    assert_eq!(world.wills(), ["gone=a"]);
}

#[test]
fn a_will_is_void_after_a_normal_disconnect_alone() {
    for (reason, expected) in [
        (ReasonCode::Success, vec![]),
        (ReasonCode::DisconnectWithWill, vec!["gone=a"]),
    ] {
        let mut world = World::default();
        world.connect(1, &with_will("a", false, 0));
        world
            .broker
            .disconnect(world.now, ConnId(1), &Disconnect::new(reason), &mut world.out);
        assert_eq!(world.wills(), expected, "{reason:?}");
    }
}

#[test]
fn a_delayed_will_is_sent_once_when_its_delay_is_over() {
    let mut world = World::default();
    world.connect(1, &with_will("a", true, 5));
    world.cut(1);
    world.pass(4_999);
    assert_eq!(world.wills(), [""; 0]);
    world.pass(1);
    assert_eq!(world.wills(), ["gone=a"]);
    world.pass(1_000_000);
    assert_eq!(world.wills(), [""; 0]);
}

#[test]
fn a_client_that_is_back_in_time_is_not_mourned() {
    let mut world = World::default();
    world.connect(1, &with_will("a", true, 5));
    world.cut(1);
    world.pass(4_999);
    world.connect(2, &lasting("a"));
    world.pass(100_000);
    assert_eq!(world.wills(), [""; 0]);
}

#[test]
fn a_will_is_sent_when_its_session_ends_before_its_delay() {
    let mut world = World::default();
    world.connect(
        1,
        &Connect {
            session_expiry_interval_s: Some(2),
            ..with_will("a", true, 5)
        },
    );
    world.cut(1);
    world.pass(2_000);
    assert_eq!(world.wills(), ["gone=a"]);
    world.connect(2, &with_will("b", true, 5));
    world.cut(2);
    world.connect(
        3,
        &Connect {
            clean_start: true,
            ..lasting("b")
        },
    );
    assert_eq!(world.wills(), ["gone=a"], "Clean Start ends the session as well");
}

#[test]
fn a_takeover_ends_the_old_connection_with_its_will() {
    let mut world = World::default();
    world.connect(1, &with_will("a", true, 0));
    world.connect(2, &lasting("a"));
    assert_eq!(world.wills(), ["gone=a"]);
}

#[test]
fn the_will_of_a_lasting_session_is_sent_after_a_crash_that_ended_its_connection() {
    let mut world = World::default();
    world.connect(1, &with_will("a", true, 5));
    world.restart();
    assert_eq!(world.wills(), [""; 0]);
    world.pass(5_000);
    assert_eq!(world.wills(), ["gone=a"]);
    world.restart();
    world.pass(600_000);
    assert_eq!(world.wills(), [""; 0], "it was sent");
}

#[test]
fn a_will_whose_delay_runs_goes_on_after_a_crash_until_its_client_is_back() {
    for is_back in [false, true] {
        let mut world = World::default();
        world.connect(1, &with_will("a", true, 5));
        world.cut(1);
        world.pass(3_000);
        world.restart();
        world.pass(1_999);
        assert_eq!(world.wills(), [""; 0]);
        if is_back {
            world.connect(2, &lasting("a"));
        }
        world.pass(1);
        assert_eq!(world.wills().is_empty(), is_back);
    }
}

#[test]
fn a_will_that_is_void_stays_so_after_a_crash() {
    let mut world = World::default();
    world.connect(1, &with_will("a", true, 0));
    world.broker.disconnect(
        world.now,
        ConnId(1),
        &Disconnect::new(ReasonCode::Success),
        &mut world.out,
    );
    world.connect(2, &with_will("b", false, 0));
    world.restart();
    world.pass(600_000);
    assert_eq!(
        world.wills(),
        [""; 0],
        "one was taken back, of the other session nothing is promised"
    );
}
