//! A log's directory from anybody who can compute checksums: the log opens or says why not, tells no more records than
//! there are bytes, answers every load, and tells the same when it is opened again.
#![no_main]

use std::fs;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use store::{Durability, Event, Log, Options, Position};

#[path = "store_directory/files.rs"]
mod files;

const OPTIONS: Options = Options {
    durability: Durability::Os,
    segment_bytes: 64 << 10,
    pending_bytes: 16 << 10,
    limit_bytes: 1 << 20,
    garbage_bytes: 64 << 10,
};
/// Bodies that are read of one log.
const LOADS: usize = 32;

/// A record as it was told: where it stands, whether it is a tombstone, meta, bytes of the body.
type Told = (Position, bool, Vec<u8>, usize);

fuzz_target!(|input: &[u8]| {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a file system in memory");
    for (number, content) in files::decode(input) {
        fs::write(directory.path().join(format!("{number:016x}.log")), content).expect("space");
    }
    let Some((mut log, told)) = open(directory.path(), input.len()) else {
        return;
    };
    load(&mut log, &told);
    drop(log);
    let again = open(directory.path(), input.len()).map(|(_, told)| told);
    assert_eq!(again, Some(told));
});

fn open(directory: &Path, bytes: usize) -> Option<(Log, Vec<Told>)> {
    let (log, recovery) = Log::open(directory, OPTIONS).ok()?;
    let mut told = Vec::new();
    let report = recovery
        .replay(|record| told.push((record.position, record.tombstone, record.meta.to_vec(), record.body_len)))
        .expect("the files can be read");
    assert!(
        told.len() <= bytes && report.damage.len() <= bytes,
        "{} and {report:?}",
        told.len()
    );
    Some((log, told))
}

/// Every body is asked for once, and comes or is told as lost.
fn load(log: &mut Log, told: &[Told]) {
    let asked = told
        .iter()
        .take(LOADS)
        .filter(|(position, ..)| log.load(*position))
        .count();
    let (mut answers, mut events) = (0, Vec::new());
    while answers < asked {
        let bell = log.event_fd();
        // Interrupted or not: what there is to know is looked at.
        let _ = rustix::event::poll(
            &mut [rustix::event::PollFd::new(&bell, rustix::event::PollFlags::IN)],
            None,
        );
        log.poll(&mut events);
        let is_answer = |event: &Event| matches!(event, Event::Loaded { .. } | Event::Lost { .. });
        answers += events.drain(..).filter(is_answer).count();
    }
}
