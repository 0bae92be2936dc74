//! A full log whose oldest segment is not empty: what may still be written, and that it never stays full for good.

use std::ops::RangeInclusive;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::owner::{Owner, check, contents, segments, small, wait_for_news};
use crate::disk::Disk;
use crate::disk::simulated::SimulatedDisk;
use crate::{Durability, Event, Kind, Log, Options, Position, Refused};

/// Keys that random turns do not touch: two thirds of a segment, and they are never taken back.
const KEPT_KEYS: RangeInclusive<u8> = 200..=219;
const KEPT_BYTES: usize = 2000;
const SEGMENT_BYTES: u64 = 64 << 10;
/// Waits of 2 ms for room, at most.
const WAITS_MAX: usize = 2000;

/// What bounds the files of a log.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Disk,
    Limit,
}

/// An owner whose oldest segment is mostly live, on a disk or with a limit of eight segments.
fn with_a_dense_segment(disk: &SimulatedDisk, options: Options, bound: Bound, seed: u64) -> Owner {
    let mut owner = Owner::new(disk, options, seed);
    for key in KEPT_KEYS {
        owner.put_key_in_time(key, KEPT_BYTES);
    }
    if let Bound::Disk = bound {
        disk.set_capacity(Some(8 * SEGMENT_BYTES));
    }
    owner
}

fn options(bound: Bound) -> Options {
    let small = small(Durability::Disk);
    match bound {
        Bound::Disk => small,
        Bound::Limit => Options {
            limit_bytes: 8 * SEGMENT_BYTES,
            ..small
        },
    }
}

/// Puts values in the place of others until no more are taken.
fn fill(owner: &mut Owner) {
    for _ in 0..10_000 {
        match owner.put() {
            Ok(_) => owner.submit(),
            Err(Refused::Full) => return owner.settle(),
            Err(_) => owner.settle(),
        }
    }
    panic!("it never got full: {:?}", owner.log.usage());
}

/// Writes tombstones, which kill nothing, until no more are taken.
fn use_up_the_newest_segment(owner: &mut Owner) {
    for _ in 0..100_000 {
        match owner.remove_key(0) {
            Ok(_) => owner.submit(),
            Err(Refused::Full) => return owner.settle(),
            Err(_) => owner.settle(),
        }
    }
    panic!("tombstones have no end: {:?}", owner.log.usage());
}

fn assert_recovers(owner: &mut Owner, disk: &SimulatedDisk, first: &str) {
    owner.wait_until(|owner| !owner.log.usage().full);
    owner.wait_until(|_| !segments(disk).iter().any(|name| name == first));
    owner.put_key_in_time(1, 3000);
    assert_all_is_there(owner, disk);
}

fn assert_all_is_there(owner: &mut Owner, disk: &SimulatedDisk) {
    owner.settle();
    let last = *owner.history.keys().next_back().unwrap();
    let found = check(&disk.copy(), &owner.history);
    assert_eq!((found.damage, found.lost), (vec![], vec![]));
    assert_eq!(found.contents, contents(&owner.history, last));
    assert!(KEPT_KEYS.into_iter().all(|key| found.contents.contains_key(&key)));
}

#[test]
fn a_full_log_recovers_once_its_oldest_segment_can_be_read_however_many_tombstones_came_meanwhile() {
    for (bound, seed) in [(Bound::Disk, 61), (Bound::Limit, 62)] {
        let disk = SimulatedDisk::default();
        let mut owner = with_a_dense_segment(&disk, options(bound), bound, seed);
        let first = segments(&disk).remove(0);
        disk.make_unreadable(&first, 0..u64::MAX);
        fill(&mut owner);
        use_up_the_newest_segment(&mut owner);
        owner.wait_until(|owner| owner.faults().next().is_some());
        assert!(owner.log.usage().full, "{bound:?}");
        disk.make_readable();
        assert_recovers(&mut owner, &disk, &first);
    }
}

#[test]
fn a_full_log_that_was_killed_while_its_reserve_was_in_use_recovers() {
    for (bound, seed) in [(Bound::Disk, 63), (Bound::Limit, 64)] {
        let disk = SimulatedDisk::default();
        let mut owner = with_a_dense_segment(&disk, options(bound), bound, seed);
        let first = segments(&disk).remove(0);
        disk.make_unreadable(&first, 0..u64::MAX);
        fill(&mut owner);
        use_up_the_newest_segment(&mut owner);
        disk.make_readable();
        // It may have begun to move what is kept, or not.
        owner.wait_until(|owner| owner.events.iter().any(|event| matches!(event, Event::Relocate { .. })));
        let mut owner = owner.restarted(options(bound), true);
        assert_recovers(&mut owner, &disk, &first);
    }
}

#[test]
fn a_full_log_is_emptied_of_garbage_behind_a_segment_that_is_mostly_live() {
    for (bound, seed) in [(Bound::Disk, 65), (Bound::Limit, 66)] {
        let disk = SimulatedDisk::default();
        // Garbage is collected late: only a full log needs it gone.
        let late = Options {
            garbage_bytes: 1 << 30,
            ..options(bound)
        };
        let mut owner = with_a_dense_segment(&disk, late, bound, seed);
        let first = segments(&disk).remove(0);
        fill(&mut owner);
        assert_recovers(&mut owner, &disk, &first);
    }
}

/// Asserts that the disk has every value that the owner knows, but for those that were told as lost.
fn assert_nothing_is_lost_silently(owner: &mut Owner, disk: &SimulatedDisk, place: &str) {
    owner.settle();
    let found = check(&disk.copy(), &owner.history);
    let is_told = |position: &Position| {
        let is_it = |event: &Event| matches!(event, Event::Lost { position: lost, .. } if lost == position);
        owner.events.iter().any(is_it)
    };
    for (key, position) in owner.current.iter().filter(|(_, position)| !is_told(position)) {
        let number = owner.history[position].number;
        assert_eq!(found.contents.get(key), Some(&number), "{place}: key {key}");
    }
}

#[test]
fn a_full_log_never_stays_full_whatever_could_not_be_read_for_a_while() {
    for seed in 70..82 {
        let bound = if seed % 2 == 0 { Bound::Disk } else { Bound::Limit };
        let disk = SimulatedDisk::default();
        let mut random = StdRng::seed_from_u64(seed);
        let mut owner = with_a_dense_segment(&disk, options(bound), bound, seed);
        for round in 0..12 {
            disk.make_oldest_unreadable();
            for _ in 0..random.random_range(0..300) {
                owner.turn();
            }
            if owner.log.usage().full {
                use_up_the_newest_segment(&mut owner);
            }
            disk.make_readable();
            let place = format!("seed {seed}, round {round}");
            assert_nothing_is_lost_silently(&mut owner, &disk, &place);
            if random.random_bool(0.5) {
                owner = owner.restarted(options(bound), random.random());
            }
            owner.wait_until(|owner| !owner.log.usage().full);
            let used_bytes = disk.used_bytes();
            assert!(
                used_bytes <= 8 * SEGMENT_BYTES,
                "{place}: {used_bytes} bytes, {:?}",
                segments(&disk)
            );
        }
        assert_nothing_is_lost_silently(&mut owner, &disk, &format!("seed {seed}"));
    }
}

#[test]
fn a_record_longer_than_what_may_wait_by_now_still_moves() {
    let disk = SimulatedDisk::default();
    let options = |pending_bytes| Options {
        pending_bytes,
        ..small(Durability::Os)
    };
    let mut owner = Owner::new(&disk, options(32 << 10), 67);
    for key in KEPT_KEYS.take(2) {
        owner.put_key_in_time(key, 20_000);
    }
    let first = segments(&disk).remove(0);
    let mut owner = owner.restarted(options(8 << 10), false);
    assert_eq!(owner.put_key(1, 20_000), Err(Refused::TooLarge));
    for _ in (0..10_000).take_while(|_| segments(&disk).contains(&first)) {
        owner.turn();
        owner.settle();
    }
    assert!(!segments(&disk).contains(&first), "{:?}", owner.log.usage());
    let last = *owner.history.keys().next_back().unwrap();
    assert_eq!(
        check(&disk.copy(), &owner.history).contents,
        contents(&owner.history, last)
    );
}

/// An owner of small values that wait in a line, by their numbers.
struct Line {
    log: Log,
    waiting: BTreeMap<u32, Position>,
}

impl Line {
    /// Puts values until no more are taken.
    fn fill(disk: &SimulatedDisk, options: Options) -> Line {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let (log, recovery) = Log::start(&disk, Path::new("simulated"), options, None).unwrap();
        recovery.replay(|_| ()).unwrap();
        let mut line = Line {
            log,
            waiting: BTreeMap::new(),
        };
        for number in 0.. {
            match line.append(Kind::Value, number) {
                Ok(position) => line.waiting.insert(number, position),
                Err(_) => break,
            };
        }
        line
    }

    /// Appends unless the log is full, whatever else it waits for.
    fn append(&mut self, kind: Kind, number: u32) -> Result<Position, Refused> {
        for _ in 0..WAITS_MAX {
            match self.log.append(kind, &number.to_le_bytes(), b"") {
                Err(Refused::Behind) => self.wait(),
                outcome => return outcome,
            }
        }
        panic!("the log is behind for good: {:?}", self.log.usage());
    }

    /// Ends the need of a value, when the log takes that.
    fn bury(&mut self, number: u32) {
        for _ in 0..WAITS_MAX {
            if self.append(Kind::Tombstone, number).is_ok() {
                let position = self.waiting.remove(&number).unwrap();
                return self.log.release(position);
            }
            self.wait();
        }
        panic!("the log is full for good: {:?}", self.log.usage());
    }

    fn wait_for_room(&mut self) {
        for _ in 0..WAITS_MAX {
            if !self.log.usage().full {
                return;
            }
            self.wait();
        }
    }

    /// A turn that answers what is offered, after news or a while.
    fn wait(&mut self) {
        self.log.submit();
        wait_for_news(&self.log);
        let mut events = Vec::new();
        self.log.poll(&mut events);
        for event in events {
            let Event::Relocate { position, meta, .. } = event else {
                continue;
            };
            let number = u32::from_le_bytes(meta[..].try_into().unwrap());
            if self.waiting.get(&number) == Some(&position)
                && let Ok(moved) = self.log.append(Kind::Moved, &meta, b"")
            {
                self.log.release(position);
                self.waiting.insert(number, moved);
            }
        }
        self.log.submit();
    }
}

#[test]
fn a_log_full_of_values_no_longer_than_their_tombstones_can_be_drained_in_any_order() {
    for (bound, seed) in [(Bound::Disk, 91), (Bound::Limit, 92)] {
        for is_in_order in [true, false] {
            let disk = SimulatedDisk::default();
            disk.set_capacity(Some(8 * SEGMENT_BYTES));
            let mut line = Line::fill(&disk, options(bound));
            let mut numbers: Vec<u32> = line.waiting.keys().copied().collect();
            assert!(numbers.len() > 5000, "{} values", numbers.len());
            if !is_in_order {
                numbers.shuffle(&mut StdRng::seed_from_u64(seed));
            }
            numbers.into_iter().for_each(|number| line.bury(number));
            line.wait_for_room();
            line.append(Kind::Value, 0).expect("there is room again");
        }
    }
}
