//! A file system that is full, which takes a real one: a small tmpfs, where the test may mount it.

use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use store::{Durability, Event, Kind, Log, Position, Refused};

use crate::owner::{replay, small, wait_until};

/// A mounted file system, until it is dropped.
struct Mounted<'p>(&'p Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        unmount(self.0, UnmountFlags::DETACH).expect("what was mounted can be unmounted");
    }
}

/// `None` where mounting is not permitted: the tests on a simulated disk then stand alone.
fn mount_tmpfs<'p>(at: &'p Path, options: &std::ffi::CStr) -> Option<Mounted<'p>> {
    match mount("tmpfs", at, "tmpfs", MountFlags::empty(), options) {
        Ok(()) => Some(Mounted(at)),
        Err(Errno::PERM | Errno::ACCESS) => {
            eprintln!("not permitted to mount a tmpfs here");
            None
        }
        Err(error) => panic!("mounting a tmpfs: {error}"),
    }
}

/// Ends the need of `position`. The newest segment has room for many tombstones, and more once files of what is dead
/// have gone.
fn bury(log: &mut Log, position: Position, events: &mut Vec<Event>) {
    let before = log.usage().segments;
    while log.append(Kind::Tombstone, &[3; 20], b"") == Err(Refused::Full) {
        events.extend(wait_until(log, |log, _| {
            !log.usage().full || log.usage().segments < before
        }));
    }
    log.release(position);
    events.extend(wait_until(log, |_, _| true));
}

#[test]
fn a_full_file_system_refuses_values_takes_tombstones_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mounted) = mount_tmpfs(dir.path(), c"size=512k") else {
        return;
    };
    let (mut log, _) = Log::open(dir.path(), small(Durability::Disk)).unwrap();
    let mut live = Vec::new();
    loop {
        match log.append(Kind::Value, &[1; 20], &[2; 1000]) {
            Ok(position) => live.push(position),
            Err(Refused::Behind) => drop(wait_until(&mut log, |log, _| log.usage().pending_bytes == 0)),
            Err(refused) => break assert_eq!(refused, Refused::Full),
        }
    }
    assert!(live.len() > 200, "{} records were taken", live.len());
    let mut events = Vec::new();
    for position in live.drain(..) {
        bury(&mut log, position, &mut events);
    }
    events.extend(wait_until(&mut log, |log, _| !log.usage().full));
    assert!(events.contains(&Event::Room));
    let position = log
        .append(Kind::Value, b"again", &[4; 1000])
        .expect("there is space again");
    wait_until(&mut log, |log, _| log.durable() >= position);
    log.close().unwrap();
    let (_log, recovery) = Log::open(dir.path(), small(Durability::Disk)).unwrap();
    let (seen, report) = replay(recovery);
    assert_eq!(
        (seen.last().unwrap().meta.as_slice(), report.damage),
        (&b"again"[..], vec![])
    );
}
