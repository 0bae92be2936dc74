//! Segments that are emptied while their owner writes, where reads fail, and where the owner miscounts.

use std::ops::{Range, RangeInclusive};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::owner::{Owner, check, contents, segments, small};
use crate::disk::Disk;
use crate::disk::simulated::SimulatedDisk;
use crate::record::record_len;
use crate::segment::{FOOTER_BYTES, RECORDS_AT};
use crate::{Damage, DamageKind, Durability, Event, Fault, Options, Position};

/// Keys that random turns do not touch: what is put there stays in the oldest segment until that is emptied.
const KEPT_KEYS: RangeInclusive<u8> = 200..=219;
/// The first of them.
const KEPT: u8 = *KEPT_KEYS.start();
const KEPT_BYTES: usize = 500;
const EVERYTHING: Range<u64> = 0..u64::MAX;

fn early() -> Options {
    Options {
        garbage_bytes: 16 << 10,
        ..small(Durability::Os)
    }
}

/// An owner whose oldest segment holds what is kept, behind what some turns wrote.
fn with_kept_keys(disk: &SimulatedDisk, options: Options, turns: usize, seed: u64) -> Owner {
    let mut owner = Owner::new(disk, options, seed);
    for _ in 0..turns {
        owner.turn();
        owner.settle();
    }
    for key in KEPT_KEYS {
        owner.put_key_in_time(key, KEPT_BYTES);
    }
    owner.submit();
    owner
}

/// The byte of a file that says which form its index has.
fn form_of_index(content: &mut [u8]) -> Option<&mut u8> {
    let footer = content.last_chunk_mut::<FOOTER_BYTES>()?;
    footer.starts_with(b"SELVIDX").then_some(&mut footer[7])
}

fn is_sealed(disk: &SimulatedDisk, name: &str) -> bool {
    disk.with_content(name, |content| form_of_index(content) == Some(&mut b'2'))
}

/// An owner whose oldest segment begins with what is kept, and has its index; long before it is emptied.
fn with_a_full_segment(disk: &SimulatedDisk, seed: u64) -> Owner {
    let mut owner = with_kept_keys(disk, small(Durability::Os), 0, seed);
    while owner.log.usage().segments < 2 {
        owner.turn();
        owner.settle();
    }
    let first = segments(disk).remove(0);
    owner.wait_until(|_| is_sealed(disk, &first));
    owner
}

fn turn_until(owner: &mut Owner, done: impl Fn(&Owner) -> bool) {
    for _ in 0..10_000 {
        if done(owner) {
            return;
        }
        owner.turn();
        owner.settle();
    }
    panic!("still not there: {:?}, {:?}", owner.log.usage(), owner.faults().last());
}

fn assert_all_is_there(owner: &mut Owner, disk: &SimulatedDisk) {
    owner.settle();
    let last = *owner.history.keys().next_back().unwrap();
    // Of one moment, since the log goes on.
    let found = check(&disk.copy(), &owner.history);
    assert_eq!((found.damage, found.lost), (vec![], vec![]));
    assert_eq!(found.contents, contents(&owner.history, last));
    assert!(KEPT_KEYS.into_iter().all(|key| found.contents.contains_key(&key)));
}

fn is_gone(disk: &SimulatedDisk, name: &str) -> bool {
    !segments(disk).iter().any(|other| other == name)
}

#[test]
fn a_segment_that_cannot_be_read_stays_and_is_emptied_once_it_can() {
    let disk = SimulatedDisk::default();
    let mut owner = with_a_full_segment(&disk, 31);
    let first = segments(&disk).remove(0);
    disk.make_unreadable(&first, EVERYTHING);
    turn_until(&mut owner, |owner| owner.faults().next().is_some());
    owner.wait_until(|owner| owner.faults().count() >= 5);
    let named = |fault: &Fault| matches!(fault, Fault::Unreadable { file, .. } if *file == first);
    assert!(owner.faults().all(named), "{:?}", owner.faults().last());
    assert!(!is_gone(&disk, &first));
    assert!(owner.log.usage().faults >= 5);
    disk.make_readable();
    owner.wait_until(|_| is_gone(&disk, &first));
    assert_all_is_there(&mut owner, &disk);
}

#[test]
fn a_segment_whose_header_is_damaged_stays_and_is_emptied_once_it_is_whole() {
    let disk = SimulatedDisk::default();
    // Not open yet in this run: else its header is known.
    let mut owner = with_a_full_segment(&disk, 32).restarted(small(Durability::Os), false);
    let first = segments(&disk).remove(0);
    let flip = |content: &mut Vec<u8>| content[..RECORDS_AT as usize].iter_mut().for_each(|byte| *byte ^= 1);
    disk.with_content(&first, flip);
    turn_until(&mut owner, |owner| owner.faults().next().is_some());
    owner.wait_until(|owner| owner.faults().count() >= 3);
    let said = owner.faults().next().unwrap().to_string();
    assert!(said.contains(&first) && said.contains("header"), "{said}");
    assert!(!is_gone(&disk, &first));
    disk.with_content(&first, flip);
    owner.wait_until(|_| is_gone(&disk, &first));
    assert_all_is_there(&mut owner, &disk);
}

#[test]
fn a_segment_whose_index_cannot_be_read_is_emptied_from_its_records() {
    let disk = SimulatedDisk::default();
    let mut owner = with_a_full_segment(&disk, 33);
    let first = segments(&disk).remove(0);
    let bytes = disk.open(&first).unwrap().len().unwrap();
    disk.make_unreadable(&first, bytes - 100..bytes);
    turn_until(&mut owner, |_| is_gone(&disk, &first));
    assert_all_is_there(&mut owner, &disk);
}

fn place(damage: &Damage) -> Range<u64> {
    damage.offset..damage.offset + damage.bytes
}

/// Bytes of the file that the record of `position`, the first of its segment, takes.
fn first_record(owner: &Owner, position: Position) -> Range<u64> {
    let written = &owner.history[&position];
    RECORDS_AT..RECORDS_AT + record_len(written.meta().len(), written.body.len())
}

#[test]
fn a_record_that_cannot_be_read_for_long_is_told_as_lost_and_costs_no_other() {
    let disk = SimulatedDisk::default();
    let mut owner = with_a_full_segment(&disk, 34);
    let first = segments(&disk).remove(0);
    let position = owner.current[&KEPT];
    disk.make_unreadable(&first, first_record(&owner, position));
    turn_until(&mut owner, |owner| owner.faults().next().is_some());
    owner.wait_until(|_| is_gone(&disk, &first));
    let lost: Vec<_> = owner
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Lost { position, damage } => Some((*position, damage.kind)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(position, DamageKind::Unreadable)]);
    assert!(owner.faults().count() > 3, "it was tried again before");
    owner.settle();
    let found = check(&disk.copy(), &owner.history).contents;
    assert!(!found.contains_key(&KEPT));
    assert!(KEPT_KEYS.skip(1).all(|key| found.contains_key(&key)));
}

#[test]
fn a_record_that_can_be_read_again_in_time_is_not_lost() {
    let disk = SimulatedDisk::default();
    let mut owner = with_a_full_segment(&disk, 35);
    let first = segments(&disk).remove(0);
    let position = owner.current[&KEPT];
    disk.make_unreadable(&first, first_record(&owner, position));
    turn_until(&mut owner, |owner| owner.faults().next().is_some());
    assert!(owner.log.load(position));
    // One try more of the offer: the load has been tried as well by then.
    let faults = owner.faults().count();
    owner.wait_until(|owner| owner.faults().count() >= faults + 2);
    disk.make_readable();
    owner.wait_until(|_| is_gone(&disk, &first));
    let loaded = |event: &Event| matches!(event, Event::Loaded { position: of, .. } if *of == position);
    owner.wait_until(|owner| owner.events.iter().any(loaded));
    assert_all_is_there(&mut owner, &disk);
}

#[test]
fn damage_of_a_segment_without_an_index_is_told_when_it_is_emptied() {
    let disk = SimulatedDisk::default();
    let mut owner = with_a_full_segment(&disk, 36);
    let first = segments(&disk).remove(0);
    let position = owner.current[&KEPT];
    let at = first_record(&owner, position);
    disk.with_content(&first, |content| {
        content[at.start as usize] ^= 1;
        *content.last_mut().unwrap() ^= 1;
    });
    turn_until(&mut owner, |_| is_gone(&disk, &first));
    let told: Vec<_> = owner.faults().collect();
    let [Fault::Damaged(damage)] = told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((damage.file.as_str(), place(damage)), (first.as_str(), at));
    owner.settle();
    let found = check(&disk.copy(), &owner.history).contents;
    assert!(KEPT_KEYS.skip(1).all(|key| found.contains_key(&key)));
}

#[test]
fn a_segment_that_is_not_whole_gets_no_index_that_would_hide_it() {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, small(Durability::Os), 37);
    let position = owner.put_key(1, 100).unwrap();
    owner.put_key(2, 100).unwrap();
    owner.settle();
    let at = first_record(&owner, position);
    let first = segments(&disk).remove(0);
    disk.with_content(&first, |content| content[at.start as usize] ^= 1);
    let history = owner.history.clone();
    owner.log.close().unwrap();
    for _ in 0..2 {
        let found = check(&disk, &history);
        let named: Vec<_> = found.damage.iter().map(place).collect();
        assert_eq!((named, found.positions.len()), (vec![at.clone()], 1));
    }
}

#[test]
fn an_index_of_an_older_form_is_made_anew() {
    let disk = SimulatedDisk::default();
    let mut owner = with_a_full_segment(&disk, 38);
    owner.settle();
    let name = segments(&disk).remove(0);
    disk.with_content(&name, |content| *form_of_index(content).unwrap() = b'1');
    let mut owner = owner.restarted(small(Durability::Os), false);
    owner.wait_until(|_| is_sealed(&disk, &name));
    assert_all_is_there(&mut owner, &disk);
}

#[test]
fn an_owner_that_releases_twice_loses_nothing_and_is_told() {
    for seed in 40..44 {
        let disk = SimulatedDisk::default();
        // The dead is offered before the live.
        let mut owner = with_kept_keys(&disk, small(Durability::Os), 15, seed);
        owner.is_careless = true;
        let first = segments(&disk).remove(0);
        turn_until(&mut owner, |_| is_gone(&disk, &first));
        owner.wait_until(|owner| owner.faults().next().is_some());
        let named = |fault: &Fault| matches!(fault, Fault::Miscounted { .. });
        assert!(owner.faults().all(named), "{:?}", owner.faults().last());
        assert_all_is_there(&mut owner, &disk);
    }
}

#[test]
fn the_account_of_what_is_live_is_exact_while_segments_are_emptied_and_over_restarts() {
    for seed in 50..54 {
        let disk = SimulatedDisk::default();
        let mut owner = with_kept_keys(&disk, early(), 0, seed);
        let mut random = StdRng::seed_from_u64(seed);
        let mut offered = 0;
        for _ in 0..400 {
            owner.turn();
            if random.random_bool(0.02) {
                offered += owner
                    .events
                    .iter()
                    .filter(|event| matches!(event, Event::Relocate { .. }))
                    .count();
                assert_eq!((owner.faults().count(), owner.log.usage().faults), (0, 0));
                owner = owner.restarted(early(), random.random());
            }
            let live: u64 = owner.current.values().map(|position| position.rounded_len()).sum();
            assert_eq!(owner.log.usage().live_bytes, live);
        }
        assert!(offered > 100, "only {offered} records were offered");
        assert_all_is_there(&mut owner, &disk);
    }
}
