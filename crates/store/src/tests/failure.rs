//! A failure of the disk at each step.

use super::owner::{Owner, check, contents, small};
use crate::disk::simulated::SimulatedDisk;
use crate::{Durability, Event, Kind, Position, Refused};

#[test]
fn after_any_failed_step_the_log_stops_says_so_and_has_kept_what_was_durable() {
    let mut doings = std::collections::BTreeSet::new();
    for step in 1.. {
        let disk = SimulatedDisk::default();
        let mut owner = Owner::new(&disk, small(Durability::Disk), 11);
        disk.fail_after(step);
        let mut turns = 0;
        while !owner.has_stopped() && turns < 120 {
            owner.turn();
            owner.settle();
            turns += 1;
        }
        if !owner.has_stopped() {
            break;
        }
        let stopped = owner.events.iter().find_map(|event| match event {
            Event::Stopped(stopped) => Some(stopped.clone()),
            _ => None,
        });
        doings.insert(stopped.unwrap().doing);
        let durable = owner.log.durable();
        assert_eq!(owner.log.append(Kind::Tombstone, b"", b""), Err(Refused::Stopped));
        owner.log.submit();
        assert_eq!(owner.log.durable(), durable, "nothing becomes durable any more");
        let found = check(&disk.copy(), &owner.history);
        assert_eq!(found.damage, [], "step {step}");
        let last = found.positions.last().copied().unwrap_or(Position::NONE);
        let owed = owner
            .history
            .range(..=durable)
            .next_back()
            .map_or(Position::NONE, |(position, _)| *position);
        assert!(last >= owed, "step {step}");
        assert_eq!(found.contents, contents(&owner.history, last), "step {step}");
    }
    let expected = [
        "create",
        "remove",
        "rename",
        "sync",
        "sync of the directory",
        "write",
        "write of the index",
    ];
    assert!(
        expected.iter().all(|doing| doings.contains(doing)),
        "only {doings:?} failed"
    );
}
