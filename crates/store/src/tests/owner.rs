//! An owner of a log that keeps a map in it, and remembers all that it wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::disk::Disk;
use crate::disk::simulated::SimulatedDisk;
use crate::keeper::Keeper;
use crate::recovery;
use crate::segment;
use crate::shared::Shared;
use crate::{Damage, Durability, Event, Fault, Kind, Log, Options, Position, Refused};

/// Every wait ends by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// A key of which every put is taken back.
const CANCELLED_KEY: u8 = 99;

/// A put or a removal of `key`, by its running number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) key: u8,
    pub(super) number: u32,
    pub(super) tombstone: bool,
    pub(super) body: Vec<u8>,
    /// The group that it belongs to.
    pub(super) group: Option<u32>,
}

impl Written {
    pub(super) fn meta(&self) -> Vec<u8> {
        let mut meta = vec![self.key];
        meta.extend_from_slice(&self.number.to_le_bytes());
        meta
    }
}

/// Key and running number in a meta.
pub(super) fn parse(meta: &[u8]) -> (u8, u32) {
    (meta[0], u32::from_le_bytes(meta[1..5].try_into().unwrap()))
}

/// All records ever written and not cancelled.
pub(super) type History = BTreeMap<Position, Written>;
/// Of each key that is there the running number of its put.
pub(super) type Contents = BTreeMap<u8, u32>;

pub(super) fn small(durability: Durability) -> Options {
    Options {
        durability,
        segment_bytes: 64 << 10,
        pending_bytes: 16 << 10,
        limit_bytes: 4 << 20,
        garbage_bytes: 128 << 10,
    }
}

#[derive(Debug)]
pub(super) struct Owner {
    pub(super) log: Log,
    disk: SimulatedDisk,
    random: StdRng,
    pub(super) current: BTreeMap<u8, Position>,
    pub(super) history: History,
    /// Appended since the last submit, so that they may still be cancelled.
    pending: Vec<Position>,
    pub(super) events: Vec<Event>,
    number: u32,
    group: Option<u32>,
    /// Releases what is offered and not needed, though it was released before.
    pub(super) is_careless: bool,
}

impl Owner {
    pub(super) fn new(disk: &SimulatedDisk, options: Options, seed: u64) -> Owner {
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (log, recovery) = Log::start(&shared, Path::new("simulated"), options, None).unwrap();
        recovery.replay(|_| ()).unwrap();
        Owner {
            log,
            disk: disk.clone(),
            random: StdRng::seed_from_u64(seed),
            current: BTreeMap::new(),
            history: History::new(),
            pending: Vec::new(),
            events: Vec::new(),
            number: 0,
            group: None,
            is_careless: false,
        }
    }

    /// The next process, after a clean end or a kill: it knows what the log tells, and the history up to there.
    pub(super) fn restarted(self, options: Options, is_killed: bool) -> Owner {
        let Owner { log, disk, .. } = self;
        let mut history = self.history;
        if is_killed {
            drop(log);
        } else {
            log.close().unwrap();
        }
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let (mut log, recovery) = Log::start(&shared, Path::new("simulated"), options, None).unwrap();
        let (mut current, mut last) = (BTreeMap::new(), Position::NONE);
        let replayed = recovery.replay(|record| {
            last = record.position;
            let (key, _) = parse(record.meta);
            let before = if record.tombstone {
                current.remove(&key)
            } else {
                current.insert(key, record.position)
            };
            if let Some(before) = before {
                log.release(before);
            }
        });
        assert_eq!(replayed.unwrap().damage, []);
        history.retain(|position, _| *position <= last);
        Owner {
            log,
            disk,
            random: self.random,
            current,
            history,
            pending: Vec::new(),
            events: Vec::new(),
            number: self.number,
            group: None,
            is_careless: self.is_careless,
        }
    }

    /// A turn of a loop: some records, then a submit, and sometimes a wait.
    pub(super) fn turn(&mut self) {
        if self.random.random_bool(0.2) {
            self.put_and_cancel();
        }
        for _ in 0..self.random.random_range(1..12) {
            match self.random.random_range(0..100) {
                // A refusal is as good a turn as any.
                0..70 => _ = self.put(),
                70..85 => _ = self.remove(),
                85..92 => self.cancel(),
                _ => self.put_group(),
            }
        }
        self.submit();
        if self.random.random_bool(0.3) {
            self.settle();
        }
    }

    pub(super) fn put(&mut self) -> Result<Position, Refused> {
        let key = self.random.random_range(0..20);
        let len = if self.random.random_bool(0.05) {
            5000
        } else {
            self.random.random_range(0..400)
        };
        self.put_key(key, len)
    }

    pub(super) fn put_key(&mut self, key: u8, len: usize) -> Result<Position, Refused> {
        let body = (0..len).map(|_| self.random.random()).collect();
        self.write(Kind::Value, key, body)
    }

    /// Puts a value once the log has room for it.
    pub(super) fn put_key_in_time(&mut self, key: u8, len: usize) -> Position {
        let start = Instant::now();
        loop {
            match self.put_key(key, len) {
                Err(Refused::Behind) if start.elapsed() < PATIENCE => {
                    self.submit();
                    wait_for_news(&self.log);
                }
                outcome => return outcome.unwrap(),
            }
        }
    }

    pub(super) fn remove(&mut self) -> Result<Position, Refused> {
        let key = self.random.random_range(0..20);
        self.remove_key(key)
    }

    pub(super) fn remove_key(&mut self, key: u8) -> Result<Position, Refused> {
        self.write(Kind::Tombstone, key, Vec::new())
    }

    fn write(&mut self, kind: Kind, key: u8, body: Vec<u8>) -> Result<Position, Refused> {
        let number = self.number + 1;
        let written = Written {
            key,
            number,
            tombstone: kind == Kind::Tombstone,
            body,
            group: self.group,
        };
        let position = self.log.append(kind, &written.meta(), &written.body)?;
        self.number = number;
        self.pending.push(position);
        let before = if written.tombstone {
            self.current.remove(&key)
        } else {
            self.current.insert(key, position)
        };
        if let Some(before) = before {
            self.log.release(before);
        }
        self.history.insert(position, written);
        Ok(position)
    }

    /// Leaves a hole at the start of a batch if nothing else waits.
    pub(super) fn put_and_cancel(&mut self) {
        if let Ok(position) = self.put_key(CANCELLED_KEY, 700) {
            assert!(self.log.cancel(position));
            self.current.remove(&CANCELLED_KEY);
            self.history.remove(&position);
            self.pending.pop();
        }
    }

    /// Takes back the last put, if it put something where nothing was.
    fn cancel(&mut self) {
        let Some(position) = self.pending.last().copied() else {
            return;
        };
        let Some(written) = self.history.get(&position) else {
            return;
        };
        let (key, is_first) = (written.key, !self.has_been(written.key, position));
        if !written.tombstone && is_first && self.log.cancel(position) {
            self.current.remove(&key);
            self.history.remove(&position);
            self.pending.pop();
        }
    }

    /// Whether `key` was in the log before `position`, so that a removal of that must not be undone.
    fn has_been(&self, key: u8, position: Position) -> bool {
        let before = self
            .history
            .range(..position)
            .rev()
            .find(|(_, written)| written.key == key);
        before.is_some_and(|(_, written)| !written.tombstone)
    }

    fn put_group(&mut self) {
        self.group = Some(self.number);
        self.log.begin_group();
        for _ in 0..self.random.random_range(0..4) {
            _ = self.put();
        }
        self.log.end_group();
        self.group = None;
    }

    /// Ends a turn: events, answers, submit; and notes for the checker what is durable.
    pub(super) fn submit(&mut self) {
        let mut events = Vec::new();
        self.log.poll(&mut events);
        for event in &events {
            if let Event::Relocate { position, meta, body } = event {
                self.relocate(*position, meta, body);
            }
        }
        self.events.append(&mut events);
        self.log.submit();
        self.pending.clear();
        self.disk.mark_durable(self.log.durable());
    }

    fn relocate(&mut self, position: Position, meta: &[u8], body: &[u8]) {
        let (key, number) = parse(meta);
        if self.current.get(&key) != Some(&position) {
            if self.is_careless {
                self.log.release(position);
            }
            return;
        }
        if let Ok(moved) = self.log.append(Kind::Moved, meta, body) {
            self.log.release(position);
            self.current.insert(key, moved);
            let written = Written {
                key,
                number,
                tombstone: false,
                body: body.to_vec(),
                group: None,
            };
            self.history.insert(moved, written);
        }
    }

    /// Waits until nothing is on its way, or the log has stopped.
    pub(super) fn settle(&mut self) {
        let last = self.history.keys().next_back().copied().unwrap_or_default();
        self.wait_until(|owner| owner.log.durable() >= last || owner.has_stopped());
    }

    pub(super) fn wait_until(&mut self, done: impl Fn(&Owner) -> bool) {
        let start = Instant::now();
        loop {
            self.submit();
            if done(self) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "still not there: {:?}", self.log.usage());
            wait_for_news(&self.log);
        }
    }

    pub(super) fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.events.iter().filter_map(|event| match event {
            Event::Fault(fault) => Some(fault),
            _ => None,
        })
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Stopped(_)))
    }
}

/// Waits until the log has news, 2 ms at most.
pub(super) fn wait_for_news(log: &Log) {
    let bell = log.event_fd();
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: 2_000_000,
    };
    rustix::event::poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&wait)).unwrap();
    // Empty if the time was up.
    _ = rustix::io::read(bell, &mut [0; 8]);
}

/// The map after all of `history` up to `last`.
pub(super) fn contents(history: &History, last: Position) -> Contents {
    let mut contents = Contents::new();
    for written in history.range(..=last).map(|(_, written)| written) {
        if written.tombstone {
            contents.remove(&written.key);
        } else {
            contents.insert(written.key, written.number);
        }
    }
    contents
}

/// What a disk holds.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) positions: BTreeSet<Position>,
    pub(super) contents: Contents,
    pub(super) damage: Vec<Damage>,
    /// Values of which the body could not be read.
    pub(super) lost: Vec<Position>,
}

/// Replays a disk and reads every body; panics at a record that was never written, or not so.
pub(super) fn check(disk: &SimulatedDisk, history: &History) -> Found {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let found = recovery::find(&shared, Path::new("simulated")).unwrap();
    let mut keeper = Keeper::new(shared, Arc::new(Shared::new(0).unwrap()), Durability::Os, 64 << 10);
    let segments = found.segments.clone();
    let (mut positions, mut contents, mut lost) = (BTreeSet::new(), Contents::new(), Vec::new());
    let report = found.recovery.replay(|record| {
        let written = history
            .get(&record.position)
            .unwrap_or_else(|| panic!("never written: {record:?}"));
        assert_eq!(
            (record.meta, record.tombstone),
            (written.meta().as_slice(), written.tombstone)
        );
        assert!(positions.insert(record.position), "twice: {record:?}");
        if record.tombstone {
            contents.remove(&written.key);
        } else {
            contents.insert(written.key, written.number);
        }
        let offset = record.position.offset();
        let segment = segments.iter().rfind(|segment| segment.base <= offset).unwrap();
        match keeper.load(record.position, segment.number).unwrap() {
            Event::Loaded { body, .. } => assert_eq!(body, written.body),
            event => {
                assert!(matches!(event, Event::Lost { .. }));
                lost.push(record.position);
            }
        }
    });
    Found {
        positions,
        contents,
        damage: report.unwrap().damage,
        lost,
    }
}

/// Names of the segment files, the oldest first.
pub(super) fn segments(disk: &SimulatedDisk) -> Vec<String> {
    disk.list()
        .unwrap()
        .into_iter()
        .filter(|name| segment::number(name).is_some())
        .collect()
}
