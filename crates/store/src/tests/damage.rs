//! One flipped byte, anywhere.

use std::sync::Arc;

use super::owner::{History, Owner, check, segments, small};
use crate::disk::Disk;
use crate::disk::simulated::SimulatedDisk;
use crate::reader::Reader;
use crate::record::{HEADER_BYTES, record_len};
use crate::segment::{self, RECORDS_AT, SegmentHeader};
use crate::{DamageKind, Durability, Kind, Position};

fn written(closes: bool) -> (SimulatedDisk, History) {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, small(Durability::Os), 5);
    for _ in 0..12 {
        owner.turn();
        owner.settle();
    }
    let history = owner.history.clone();
    if closes {
        owner.log.close().unwrap();
    }
    (disk, history)
}

/// Where a byte is flipped: in all of the header's fields, and so often that every record is hit.
fn places(bytes: usize) -> impl Iterator<Item = usize> {
    (0..bytes).step_by(13).chain(0..64)
}

#[test]
fn a_flipped_byte_costs_only_the_record_that_it_hits_and_is_named() {
    for closes in [true, false] {
        let (disk, history) = written(closes);
        let whole = check(&disk, &history);
        assert_eq!((whole.positions.len(), whole.damage.len()), (history.len(), 0));
        for name in segments(&disk) {
            let bytes = disk.with_content(&name, |content| content.len());
            for place in places(bytes) {
                let damaged = disk.copy();
                damaged.with_content(&name, |content| content[place] ^= 0x10);
                let found = check(&damaged, &history);
                let missing = history.len() - found.positions.len() + found.lost.len();
                assert!(missing <= 1, "{closes} {name} {place}: {missing} records are missing");
                // What is hit may also be a record that was cancelled: named, though nobody misses it.
                let named = found
                    .damage
                    .iter()
                    .filter(|damage| damage.kind == DamageKind::Record)
                    .count();
                let told = named + found.lost.len();
                assert!(
                    missing <= told && told <= 1,
                    "{closes} {name} {place}: {:?}",
                    found.damage
                );
            }
        }
    }
}

#[test]
fn a_segment_whose_header_is_gone_is_named_and_costs_no_other() {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, small(Durability::Os), 6);
    while owner.log.usage().segments < 3 {
        owner.turn();
        owner.settle();
    }
    let history = owner.history.clone();
    drop(owner);
    let (names, whole) = (segments(&disk), check(&disk, &history));
    disk.with_content(&names[1], |content| content[..RECORDS_AT as usize].fill(0));
    let found = check(&disk, &history);
    let named: Vec<_> = found
        .damage
        .iter()
        .map(|damage| (damage.file.as_str(), damage.kind))
        .collect();
    assert_eq!(named, [(names[1].as_str(), DamageKind::SegmentHeader)]);
    let lost = whole.positions.len() - found.positions.len();
    assert!(lost > 0 && found.positions.is_subset(&whole.positions), "{lost}");
    assert!(
        found.positions.len() > whole.positions.len() / 3,
        "{lost} of {}",
        whole.positions.len()
    );
}

#[test]
fn a_payload_that_looks_like_records_and_old_content_of_the_disk_are_not_taken_for_records() {
    let (disk, _) = written(false);
    let name = segments(&disk).remove(0);
    let old = disk.with_content(&name, |content| content.clone());

    // A payload made of records, so that they lie where records may lie.
    let meta = [1, 0, 0, 0, 0];
    let mut body = vec![0; 8 - (HEADER_BYTES + meta.len()) % 8];
    body.extend_from_slice(&old[RECORDS_AT as usize..][..8000]);
    let fresh = SimulatedDisk::default();
    let mut owner = Owner::new(&fresh, small(Durability::Os), 7);
    let position = owner.log.append(Kind::Value, &meta, &body).unwrap();
    owner.wait_until(|owner| owner.log.durable() >= position);
    drop(owner);

    // Its header is damaged, so that what follows is searched for records, and old content lies behind it.
    fresh.with_content(&segments(&fresh)[0], |content| {
        let used = RECORDS_AT as usize + record_len(meta.len(), body.len()) as usize;
        content[used..].copy_from_slice(&old[used..]);
        content[RECORDS_AT as usize] ^= 1;
    });
    let found = check(&fresh, &History::new());
    assert!(found.positions.is_empty(), "{:?}", found.positions);
}

#[test]
fn a_missing_segment_is_named() {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, small(Durability::Os), 8);
    while owner.log.usage().segments < 3 {
        owner.turn();
        owner.settle();
    }
    let history = owner.history.clone();
    drop(owner);
    let names = segments(&disk);
    disk.remove(&names[1]).unwrap();
    let found = check(&disk, &history);
    assert_eq!(found.damage.len(), 1);
    assert_eq!(
        (found.damage[0].file.as_str(), found.damage[0].kind),
        (names[1].as_str(), DamageKind::MissingSegment)
    );
}

#[test]
fn a_header_is_not_taken_for_that_of_another_segment() {
    let (disk, _) = written(false);
    let name = segments(&disk).remove(0);
    let file = disk.open(&name).unwrap();
    let file: Arc<dyn crate::disk::File> = file.into();
    assert!(SegmentHeader::read(file.as_ref(), 1).unwrap().is_some());
    assert!(SegmentHeader::read(file.as_ref(), 2).unwrap().is_none());
}

#[test]
fn a_hole_of_cancelled_records_is_no_damage_even_if_the_pad_that_spans_it_was_not_written() {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, small(Durability::Os), 9);
    let first = owner.put_key(1, 100).unwrap();
    owner.settle();
    owner.put_and_cancel();
    owner.put_key(2, 100).unwrap();
    owner.settle();
    let history = owner.history.clone();
    drop(owner);
    disk.with_content(&segments(&disk)[0], |content| {
        let pad = RECORDS_AT as usize + record_len(history[&first].meta().len(), 100) as usize;
        assert_ne!(content[pad..][..HEADER_BYTES], [0; HEADER_BYTES]);
        content[pad..][..HEADER_BYTES].fill(0);
    });
    let found = check(&disk, &history);
    assert_eq!((found.positions.len(), found.damage), (2, vec![]));
}

#[test]
fn a_file_far_from_all_others_costs_no_record_and_is_named_in_a_few_lines() {
    for number in [5000, u64::MAX] {
        let (disk, history) = written(true);
        disk.create(&segment::name(number), 100).unwrap();
        let found = check(&disk, &history);
        assert_eq!(found.positions.len(), history.len());
        assert!(found.damage.len() < 20, "{} lines", found.damage.len());
    }
}

#[test]
fn what_an_index_says_of_lengths_is_believed_no_further_than_the_file_goes() {
    let (disk, history) = written(true);
    let name = segments(&disk).remove(0);
    let reader = Reader::open(&disk, segment::number(&name).unwrap()).unwrap().unwrap();
    let first = history.keys().next().unwrap();
    let position = Position::of(first.offset(), 4 << 30);
    let (_, body) = reader.record(position).unwrap().expect("the record is whole");
    assert!(body.capacity() <= 64 << 10, "{} bytes", body.capacity());
}
