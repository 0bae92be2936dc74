//! Every crash that a recorded log could have met.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::owner::{Found, History, Owner, check, contents, small};
use crate::disk::Disk;
use crate::disk::simulated::{Change, Crash, SimulatedDisk, after_crash, after_crash_of};
use crate::recovery::find;
use crate::segment::SpareFile;
use crate::{DamageKind, Durability, Kind, Options, Position};

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

/// Lets the log find no room for another segment.
fn fill(disk: &SimulatedDisk) {
    // It may have been used for a segment meanwhile.
    _ = disk.remove(SpareFile::Third.name());
    disk.set_capacity(Some(disk.used_bytes()));
}

#[test]
fn a_log_goes_on_after_a_torn_tail_and_never_shows_what_was_torn() {
    let (changes, _) = record(Durability::Disk, 9);
    let mut random = StdRng::seed_from_u64(9);
    for (is_full, step) in [(false, 41), (true, 13)] {
        let mut went_on = 0;
        for at in (0..changes.len()).step_by(step) {
            let share = 0.7;
            let random = &mut random;
            let disk = after_crash(&changes[..at], Crash::PowerCut { share, random });
            let (mut positions, mut before) = (Vec::new(), 0);
            for round in 0..3 {
                if is_full {
                    fill(&disk);
                }
                let mut owner = Owner::new(&disk, options(Durability::Disk), round);
                let Ok(position) = owner
                    .log
                    .append(Kind::Replacement, &[round as u8, 0, 0, 0, 0], &[7; 100])
                else {
                    assert!(is_full);
                    break;
                };
                owner.wait_until(|owner| owner.log.durable() >= position);
                positions.push(position);
                drop(owner);
                let seen = replayed(&disk, at);
                assert!(seen.is_sorted() && seen.ends_with(&positions), "{at}: {positions:?}");
                assert!(before == 0 || seen.len() == before + 1, "{at}: torn records came back");
                before = seen.len();
            }
            went_on += usize::from(positions.len() == 3);
        }
        assert!(went_on > 5, "full {is_full}: only {went_on} of the logs went on");
    }
}

fn replayed(disk: &SimulatedDisk, at: usize) -> Vec<Position> {
    let mut seen = Vec::new();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let found = find(&shared, Path::new("simulated")).unwrap();
    let report = found.recovery.replay(|record| seen.push(record.position)).unwrap();
    assert!(
        report.damage.iter().all(|damage| damage.kind == DamageKind::Index),
        "{at}: {report:?}"
    );
    seen
}

#[test]
fn a_batch_torn_behind_a_pad_that_was_lost_is_no_damage() {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, options(Durability::Disk), 1);
    owner.put_key_in_time(1, 100);
    owner.settle();
    owner.put_and_cancel();
    owner.put_key_in_time(2, 3000);
    owner.settle();
    drop(owner);
    let changes = disk.changes();
    let last_sync = changes.iter().rposition(|change| matches!(change, Change::Sync { .. }));
    let before = &changes[..last_sync.unwrap()];
    let mut random = StdRng::seed_from_u64(1);
    for at in 0..100 {
        let (share, random) = (0.5, &mut random);
        let disk = after_crash(before, Crash::PowerCut { share, random });
        let mut owner = Owner::new(&disk, options(Durability::Disk), 1);
        owner.put_key_in_time(3, 100);
        owner.settle();
        drop(owner);
        replayed(&disk, at);
    }
}

#[test]
fn a_second_power_cut_while_the_log_writes_behind_a_torn_tail_brings_nothing_back() {
    let (changes, _) = record(Durability::Disk, 10);
    let mut random = StdRng::seed_from_u64(10);
    let mut went_on = 0;
    for at in (0..changes.len()).step_by(17) {
        let (share, random) = (0.8, &mut random);
        let disk = after_crash(&changes[..at], Crash::PowerCut { share, random });
        fill(&disk);
        let before = replayed(&disk, at);
        let torn = disk.copy();
        let mut owner = Owner::new(&disk, options(Durability::Disk), 1);
        let Ok(position) = owner.log.append(Kind::Replacement, &[1, 0, 0, 0, 0], &[7; 100]) else {
            continue;
        };
        went_on += 1;
        owner.wait_until(|owner| owner.log.durable() >= position);
        drop(owner);
        let since = disk.changes().split_off(torn.changes().len());
        for end in 0..=since.len() {
            let disk = after_crash_of(&torn, &since[..end], Crash::PowerCut { share, random });
            let seen = replayed(&disk, at);
            let (kept, new) = seen.split_at(before.len().min(seen.len()));
            assert_eq!(kept, before, "{at}, {end}");
            assert!(new.is_empty() || new == [position], "{at}, {end}: {new:?}");
            assert!(
                new == [position] || promised(&since[..end]) < position,
                "{at}, {end}: it was durable"
            );
        }
    }
    assert!(went_on > 5, "only {went_on} of the logs went on");
}
