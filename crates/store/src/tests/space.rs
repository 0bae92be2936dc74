//! A full disk, and files that stay bounded.

use std::path::Path;
use std::sync::Arc;

use super::owner::{Owner, check, contents, segments, small};
use crate::disk::Disk;
use crate::disk::simulated::SimulatedDisk;
use crate::{Durability, Event, Kind, Log, Options, Refused};

fn fill(owner: &mut Owner) {
    for key in 0..=u8::MAX {
        loop {
            match owner.put_key(key, 3000) {
                Ok(_) => break,
                Err(Refused::Behind) => owner.settle(),
                Err(Refused::Full) => return owner.settle(),
                Err(refused) => panic!("{refused}"),
            }
            owner.submit();
        }
    }
    panic!("it never got full: {:?}", owner.log.usage());
}

fn remove_all(owner: &mut Owner) {
    let keys: Vec<u8> = owner.current.keys().copied().collect();
    for key in keys {
        let position = owner
            .log
            .append(Kind::Tombstone, &[key, 0, 0, 0, 0], b"")
            .expect("the reserve takes it");
        let written = super::owner::Written {
            key,
            number: 0,
            tombstone: true,
            body: Vec::new(),
            group: None,
        };
        owner.history.insert(position, written);
        owner.log.release(owner.current.remove(&key).unwrap());
        owner.submit();
    }
    owner.settle();
}

fn assert_recovers(owner: &mut Owner, disk: &SimulatedDisk) {
    assert!(owner.log.usage().full);
    assert_eq!(owner.put_key(1, 3000), Err(Refused::Full));
    remove_all(owner);
    owner.wait_until(|owner| owner.events.contains(&Event::Room) && !owner.log.usage().full);
    owner.put_key(1, 3000).expect("there is space again");
    owner.settle();
    let last = *owner.history.keys().next_back().unwrap();
    assert_eq!(check(disk, &owner.history).contents, contents(&owner.history, last));
}

#[test]
fn a_full_disk_refuses_values_takes_tombstones_and_recovers_when_segments_go() {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, small(Durability::Disk), 21);
    disk.set_capacity(Some(6 * (64 << 10)));
    fill(&mut owner);
    assert_recovers(&mut owner, &disk);
}

#[test]
fn the_limit_of_the_log_is_kept_and_behaves_like_a_full_disk() {
    let disk = SimulatedDisk::default();
    let options = Options {
        limit_bytes: 5 * (64 << 10),
        ..small(Durability::Disk)
    };
    let mut owner = Owner::new(&disk, options, 22);
    fill(&mut owner);
    assert!(disk.used_bytes() <= 5 * (64 << 10), "{} bytes", disk.used_bytes());
    assert_recovers(&mut owner, &disk);
}

#[test]
fn the_reserve_of_a_full_disk_outlasts_a_stop_and_a_kill() {
    for is_killed in [false, true] {
        let disk = SimulatedDisk::default();
        let mut owner = Owner::new(&disk, small(Durability::Disk), 26);
        disk.set_capacity(Some(6 * (64 << 10)));
        fill(&mut owner);
        // A second one finds what the first one wrote on, as it left it.
        let owner = owner.restarted(small(Durability::Disk), is_killed);
        let mut owner = owner.restarted(small(Durability::Disk), is_killed);
        assert_recovers(&mut owner, &disk);
    }
}

#[test]
fn a_full_log_moves_what_is_live_out_of_the_oldest_segment() {
    let disk = SimulatedDisk::default();
    let options = Options {
        limit_bytes: 6 * (64 << 10),
        ..small(Durability::Disk)
    };
    let mut owner = Owner::new(&disk, options, 23);
    fill(&mut owner);
    let keys: Vec<u8> = owner.current.keys().copied().skip(1).collect();
    for key in keys {
        owner
            .log
            .append(Kind::Tombstone, &[key, 0, 0, 0, 0], b"")
            .expect("the reserve takes it");
        owner.log.release(owner.current.remove(&key).unwrap());
    }
    owner.wait_until(|owner| !owner.log.usage().full && owner.log.usage().segments <= 2);
    assert!(owner.events.iter().any(|event| matches!(event, Event::Relocate { .. })));
}

#[test]
fn one_idle_record_does_not_keep_the_files_behind_it() {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, small(Durability::Os), 24);
    owner.put_key(200, 3000).unwrap();
    owner.settle();
    let first = owner.current[&200];
    for _ in 0..1500 {
        owner.turn();
        // Collection begins at 128 KiB of garbage; a few segments are on their way in and out.
        assert!(disk.used_bytes() < 16 * (64 << 10), "{:?}", owner.log.usage());
    }
    assert!(owner.current[&200] > first, "it was moved");
    owner.settle();
    let last = *owner.history.keys().next_back().unwrap();
    let found = check(&disk.copy(), &owner.history);
    assert_eq!(found.contents, contents(&owner.history, last));
    assert_eq!(found.contents[&200], 1);
}

#[test]
fn many_restarts_do_not_leave_many_files() {
    let disk = SimulatedDisk::default();
    for round in 0..60 {
        let mut owner = Owner::new(&disk, small(Durability::Os), round);
        owner.put_key(1, 10).unwrap();
        owner.settle();
        owner.wait_until(|owner| owner.log.usage().segments <= 20);
    }
}

#[test]
fn a_log_in_which_all_is_dead_starts_anew_and_keeps_what_comes_next() {
    let disk = SimulatedDisk::default();
    let mut owner = Owner::new(&disk, small(Durability::Disk), 25);
    owner.put_key(1, 100).unwrap();
    owner.settle();
    drop(owner);
    for number in 2..5 {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (mut log, recovery) = Log::start(&shared, Path::new("simulated"), small(Durability::Disk), None).unwrap();
        let report = recovery.replay(|record| log.release(record.position)).unwrap();
        assert_eq!(report.records, 1, "round {number}");
        log.append(Kind::Value, &[number], b"").unwrap();
        log.close().unwrap();
        assert_eq!(segments(&disk).len(), 1);
    }
}
