//! Every crash that a recorded log could have met.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::owner::{Found, History, Owner, check, contents, small};
use crate::disk::Disk;
use crate::disk::simulated::{Change, Crash, SimulatedDisk, after_crash};
use crate::recovery::find;
use crate::{DamageKind, Durability, Options, Position};

const TURNS: usize = 90;
/// Seeds of the recorded logs.
const SEEDS: std::ops::Range<u64> = 1..3;
/// Shares of the unsynced sectors that survive, tried in turn.
const SHARES: [f64; 4] = [0.0, 0.5, 0.9, 0.97];

/// Collection begins early, so that it is part of a short log.
fn options(durability: Durability) -> Options {
    Options {
        garbage_bytes: 48 << 10,
        ..small(durability)
    }
}

fn record(durability: Durability, seed: u64) -> (Vec<Change>, History) {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, options(durability), seed);
    for _ in 0..TURNS {
        owner.turn();
    }
    // Collection is part of what is recorded; how soon it comes is up to the threads.
    let removed = |disk: &SimulatedDisk| {
        disk.changes()
            .iter()
            .any(|change| matches!(change, Change::Remove { .. }))
    };
    for _ in (0..10 * TURNS).take_while(|_| !removed(&disk)) {
        owner.turn();
        owner.settle();
    }
    owner.settle();
    let history = owner.history.clone();
    assert!(!owner.has_stopped(), "{:?}", owner.events.last());
    drop(owner);
    assert!(removed(&disk), "nothing was collected");
    (disk.changes(), history)
}

/// The last position that was reported durable before the crash.
fn promised(changes: &[Change]) -> Position {
    let reported = changes.iter().rev().find_map(|change| match change {
        Change::Durable(position) => Some(*position),
        _ => None,
    });
    reported.unwrap_or_default()
}

fn assert_kept(found: &Found, history: &History, promised: Position, place: &str) {
    let damage: Vec<_> = found
        .damage
        .iter()
        .filter(|damage| damage.kind != DamageKind::Index)
        .collect();
    assert!(damage.is_empty(), "{place}: {damage:?}");
    assert_eq!(found.lost, [], "{place}");
    let (first, last) = (
        found.positions.first().copied(),
        found.positions.last().copied().unwrap_or_default(),
    );
    let owed = history
        .range(..=promised)
        .next_back()
        .map_or(Position::NONE, |(position, _)| *position);
    assert!(last >= owed, "{place}: {owed:?} was durable, the log ends at {last:?}");
    let between = history
        .range(first.unwrap_or_default()..=last)
        .map(|(position, _)| *position);
    assert!(
        found.positions.iter().copied().eq(between),
        "{place}: a record is missing between others"
    );
    assert_eq!(found.contents, contents(history, last), "{place}");
    assert_groups_are_whole(history, last, place);
}

fn assert_groups_are_whole(history: &History, last: Position, place: &str) {
    let mut ends = BTreeMap::new();
    for (position, written) in history {
        if let Some(group) = written.group {
            let (start, end) = ends.entry(group).or_insert((*position, *position));
            (*start, *end) = ((*start).min(*position), (*end).max(*position));
        }
    }
    for (start, end) in ends.values() {
        assert!(
            last < *start || last >= *end,
            "{place}: the group {start:?} to {end:?} ends at {last:?}"
        );
    }
}

#[test]
fn a_kill_at_any_write_or_within_it_loses_nothing_durable() {
    for seed in SEEDS {
        let (changes, history) = record(Durability::Os, seed);
        for at in 0..=changes.len() {
            let before = &changes[..at];
            let last_write_bytes = match before.last() {
                Some(Change::Write { bytes, .. }) => (at * 7919) % (bytes.len() + 1),
                _ => 0,
            };
            let found = check(&after_crash(before, Crash::Kill { last_write_bytes }), &history);
            assert_kept(&found, &history, promised(before), &format!("seed {seed}, change {at}"));
        }
    }
}

#[test]
fn a_power_cut_that_keeps_any_of_the_unsynced_sectors_loses_nothing_durable() {
    for seed in SEEDS {
        let (changes, history) = record(Durability::Disk, seed);
        let mut random = StdRng::seed_from_u64(seed);
        for at in 0..=changes.len() {
            let before = &changes[..at];
            let share = SHARES[at % SHARES.len()];
            let disk = after_crash(
                before,
                Crash::PowerCut {
                    share,
                    random: &mut random,
                },
            );
            let found = check(&disk, &history);
            assert_kept(
                &found,
                &history,
                promised(before),
                &format!("seed {seed}, change {at}, share {share}"),
            );
        }
    }
}

#[test]
fn a_log_goes_on_after_a_torn_tail_and_never_shows_what_was_torn() {
    let (changes, _) = record(Durability::Disk, 9);
    let mut random = StdRng::seed_from_u64(9);
    for at in (0..changes.len()).step_by(41) {
        let disk = after_crash(
            &changes[..at],
            Crash::PowerCut {
                share: 0.7,
                random: &mut random,
            },
        );
        let (mut positions, mut before) = (Vec::new(), 0);
        for round in 0..3 {
            let mut owner = Owner::new(&disk, options(Durability::Disk), round);
            let position = owner.put_key(round as u8, 100).unwrap();
            owner.settle();
            positions.push(position);
            drop(owner);
            let mut seen = Vec::new();
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let found = find(&shared, Path::new("simulated")).unwrap();
            let report = found.recovery.replay(|record| seen.push(record.position)).unwrap();
            assert!(
                report.damage.iter().all(|damage| damage.kind == DamageKind::Index),
                "{at}: {report:?}"
            );
            assert!(seen.is_sorted() && seen.ends_with(&positions), "{at}: {positions:?}");
            assert!(before == 0 || seen.len() == before + 1, "{at}: torn records came back");
            before = seen.len();
        }
    }
}
