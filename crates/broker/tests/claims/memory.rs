//! What waits in memory is bounded over all sessions, whether the log has it as well or not.

use broker::{Dropped, Limits, QueuePolicy};
use mqtt::Connect;

use crate::world::{World, clean, id, lasting, message, retained};

const BOUND: u64 = 1_000;

/// A publisher, 1, and subscribers from 2 on, each to its own topic and to "all".
fn world(policy: QueuePolicy, subscribers: &[Connect<'_>]) -> World {
    let mut world = World::with(Limits {
        memory_bytes: BOUND,
        queue_policy: policy,
        ..Limits::default()
    });
    world.connect(1, &clean("publisher"));
    world.got(1);
    for (conn, connect) in (2..).zip(subscribers) {
        world.connect(conn, connect);
        for filter in [topic(conn), "all".into()] {
            world.subscribe(conn, &filter, 1);
        }
        world.got(conn);
    }
    world
}

fn topic(conn: u64) -> String {
    format!("to/{conn}")
}

/// Publishes `count` messages of about 50 bytes; how many of them were dropped for want of memory.
fn publish(world: &mut World, topic: &str, count: usize) -> usize {
    for _ in 0..count {
        world.publish(1, &message(topic, &"x".repeat(44), 1));
    }
    let drops = world.drops();
    assert!(drops.iter().all(|why| *why == Dropped::MemoryFull), "{drops:?}");
    drops.len()
}

fn memory_bytes(world: &World) -> u64 {
    world.broker.statistics().memory_bytes
}

#[test]
fn consumers_that_hang_take_no_more_memory_than_all_sessions_may() {
    let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let subscribers: Vec<_> = names.iter().map(|name| clean(name)).collect();
    let mut world = world(QueuePolicy::DropNewest, &subscribers);
    for conn in 2..22 {
        world.block(conn);
        publish(&mut world, &topic(conn), 100);
        assert!(memory_bytes(&world) <= BOUND);
    }
    assert!(memory_bytes(&world) > BOUND / 2);
    for conn in 2..22 {
        world.unblock(conn);
        assert!(
            !world.got(conn).is_empty() || conn > 4,
            "{conn} had room when it began to wait"
        );
    }
    assert_eq!(memory_bytes(&world), 0);
}

#[test]
fn one_that_hangs_leaves_room_for_another_that_has_to_wait() {
    let mut world = world(QueuePolicy::DropNewest, &[clean("hangs"), clean("waits")]);
    world.block(2);
    assert!(
        publish(&mut world, &topic(2), 50) > 30,
        "half of the memory is ten of them"
    );
    world.block(3);
    assert_eq!(publish(&mut world, &topic(3), 4), 0);
    world.unblock(3);
    assert_eq!(world.got(3).len(), 4);
}

#[test]
fn what_many_wait_for_is_in_memory_once() {
    let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let subscribers: Vec<_> = names.iter().map(|name| clean(name)).collect();
    let mut world = world(QueuePolicy::DropNewest, &subscribers);
    (2..22).for_each(|conn| world.block(conn));
    assert_eq!(publish(&mut world, "all", 8), 0);
    assert!(memory_bytes(&world) <= 500);
}

#[test]
fn a_message_that_finds_no_memory_is_refused_where_the_queue_policy_says_so() {
    let mut world = world(QueuePolicy::Refuse, &[clean("hangs"), lasting("lasts")]);
    world.block(2);
    let dropped = publish(&mut world, "all", 20);
    let answers = world.got(1);
    let refused = answers
        .iter()
        .filter(|answer| *answer == "PUBACK 1 QuotaExceeded")
        .count();
    assert!(0 < dropped && dropped == refused && refused < 20, "{answers:?}");
    assert_eq!(world.got(3).len(), 20, "who is connected gets it all the same");
}

#[test]
fn retained_messages_have_a_bound_of_their_own() {
    let mut world = world(QueuePolicy::DropNewest, &[clean("waits")]);
    for number in 0..5 {
        world.publish(1, &retained(&format!("kept/{number}"), &"x".repeat(400), 1));
    }
    assert!(memory_bytes(&world) > BOUND);
    world.block(2);
    assert_eq!(publish(&mut world, &topic(2), 4), 0);
}

#[test]
fn messages_that_a_full_log_refuses_do_not_fill_the_memory() {
    let mut world = world(QueuePolicy::DropNewest, &[lasting("a"), lasting("b")]);
    world.out.is_full = true;
    for conn in [2, 3] {
        world.block(conn);
        for _ in 0..50 {
            world.publish(1, &message(&topic(conn), &"x".repeat(44), 1));
        }
    }
    assert!(memory_bytes(&world) <= BOUND, "{}", memory_bytes(&world));
    let drops = world.drops();
    assert!(
        drops.len() > 60 && drops.iter().all(|why| *why == Dropped::LogFull),
        "{drops:?}"
    );
    world.unblock(2);
    assert!(!world.got(2).is_empty());
}

#[test]
fn deep_queues_are_read_back_as_far_as_there_is_memory_and_every_one_goes_on() {
    let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let subscribers: Vec<_> = names.iter().map(|name| lasting(name)).collect();
    let mut world = world(QueuePolicy::DropNewest, &subscribers);
    for conn in 2..22 {
        world.cut(conn);
        assert_eq!(publish(&mut world, &topic(conn), 50), 0);
    }
    world.restart();
    let window = Some(id(40));
    for (conn, connect) in (102..).zip(&subscribers) {
        world.connect(
            conn,
            &Connect {
                receive_maximum: window,
                ..connect.clone()
            },
        );
        // Half of the bound, and one message for each.
        assert!(memory_bytes(&world) <= BOUND / 2 + 20 * 60, "{}", memory_bytes(&world));
    }
    world.load();
    assert!(memory_bytes(&world) <= BOUND / 2 + 60, "{}", memory_bytes(&world));
    for conn in 102..122 {
        assert_eq!(world.got(conn).len(), 1 + 40, "the window of {conn} is full");
        for packet_id in 1..=40 {
            world.puback(conn, packet_id);
        }
        world.load();
        assert_eq!(world.got(conn).len(), 10);
    }
}

#[test]
fn a_message_that_memory_has_lost_since_it_was_sent_is_read_back_and_sent_again() {
    let mut world = world(QueuePolicy::DropNewest, &[lasting("away")]);
    world.cut(2);
    publish(&mut world, &topic(2), 20);
    world.restart();
    world.connect(3, &lasting("away"));
    world.load();
    let first = world.got(3);
    world.cut(3);
    world.connect(4, &lasting("away"));
    world.load();
    let again = world.got(4);
    assert_eq!((first.len(), again.len()), (21, 21));
    assert!(again[1..].iter().all(|words| words.contains("dup")), "{again:?}");
}
