//! An owner of a log, as small as can be.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use store::{Durability, Event, Kind, Log, Options, Position, Recovery, Refused, Report};

/// Every wait of a test ends by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Small files, so that little data makes many of them.
pub(crate) fn small(durability: Durability) -> Options {
    Options {
        durability,
        segment_bytes: 64 << 10,
        pending_bytes: 16 << 10,
        limit_bytes: 4 << 20,
        garbage_bytes: 128 << 10,
    }
}

/// A record as a test remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) position: Position,
    pub(crate) tombstone: bool,
    pub(crate) meta: Vec<u8>,
    pub(crate) body_len: usize,
}

/// Everything in the log.
pub(crate) fn replay(recovery: Recovery) -> (Vec<Seen>, Report) {
    let mut seen = Vec::new();
    let report = recovery
        .replay(|record| {
            seen.push(Seen {
                position: record.position,
                tombstone: record.tombstone,
                meta: record.meta.to_vec(),
                body_len: record.body_len,
            });
        })
        .expect("the files can be read");
    (seen, report)
}

/// Appends, waiting while the disk is behind.
pub(crate) fn append(log: &mut Log, kind: Kind, meta: &[u8], body: &[u8]) -> Position {
    loop {
        match log.append(kind, meta, body) {
            Ok(position) => return position,
            Err(Refused::Behind) => drop(wait_until(log, |log, _| log.usage().pending_bytes == 0)),
            Err(refused) => panic!("{refused}: {:?}", log.usage()),
        }
    }
}

/// Submits until `position` is durable; returns the events on the way.
pub(crate) fn wait_durable(log: &mut Log, position: Position) -> Vec<Event> {
    wait_until(log, |log, _| log.durable() >= position)
}

/// Waits for `done`, submitting and collecting events.
pub(crate) fn wait_until(log: &mut Log, done: impl Fn(&Log, &[Event]) -> bool) -> Vec<Event> {
    let (start, mut events) = (Instant::now(), Vec::new());
    loop {
        log.poll(&mut events);
        log.submit();
        if done(log, &events) {
            return events;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "still not there; {:?}, last event {:?}",
            log.usage(),
            events.last()
        );
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: 5_000_000,
        };
        let bell = log.event_fd();
        rustix::event::poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&wait)).expect("an eventfd can be polled");
        // Empty if the time was up.
        _ = rustix::io::read(bell, &mut [0; 8]);
    }
}
