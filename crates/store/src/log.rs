//! The log as its owner sees it: memory only, no call here waits for a disk.

mod close;
mod collect;
mod hand_over;
mod notes;
mod open;
mod room;
mod spares;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use self::collect::Collection;
use self::spares::Spares;
use crate::batch::{Batch, appended_len};
use crate::directory::{self, Lock};
use crate::disk::{Disk, RealDisk};
use crate::error::io_error;
use crate::index::entry_len;
use crate::keeper::{Jobs, Removal};
use crate::record::{META_BYTES_MAX, record_len};
use crate::shared::Shared;
use crate::space::Space;
use crate::{Event, OpenError, Options, Position, Recovery, Refused, Stopped};

/// Bodies that may be asked for at once.
pub const LOADS_MAX: usize = 1024;

/// Index of the commit thread in [`Log::threads`].
const COMMIT_THREAD: usize = 0;

/// What a record is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something that must be found again until it is released. Refused when the log is full.
    Value,
    /// A value that takes the place of one at least as large, which is then released. A full log takes it while the
    /// newest segment has room.
    Replacement,
    /// Undoes earlier values and is never released itself: it goes with its segment. A full log takes it while the
    /// newest segment has room.
    Tombstone,
    /// The answer to [`Event::Relocate`]: the present value of what was offered, about as large. It alone may use the
    /// reserve.
    Moved,
}

/// What a log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Segment files; the spare and the reserve are not counted.
    pub segments: usize,
    /// Bytes of their files, and of files about to be removed.
    pub total_bytes: u64,
    /// Bytes of values not yet released, rounded down by less than 2 %.
    pub live_bytes: u64,
    /// Bytes that wait in memory for the commit thread.
    pub pending_bytes: usize,
    /// Whether values are refused because the disk or the limit is full.
    pub full: bool,
    /// [`Event::Lost`] and [`Event::Fault`] so far.
    pub faults: u64,
}

/// An append-only log, open for appending by one thread.
#[derive(Debug)]
pub struct Log {
    options: Options,
    shared: Arc<Shared>,
    jobs: Arc<Jobs>,
    space: Space,
    batch: Batch,
    spares: Spares,
    collection: Collection,
    /// Files to be removed, each once the position with it is durable.
    removals: VecDeque<(Position, Removal)>,
    /// Number of the next segment. No number is used twice while files of that name may yet be removed.
    next_number: u64,
    /// Values of [`Kind::Moved`] refused so far.
    moves_refused: u64,
    /// Whether the newest segment was begun by this process, and is written to.
    newest_is_open: bool,
    /// Start of the batch that the commit thread has: all before it is durable.
    in_flight_from: u64,
    /// Whether something changed that may let segments be removed.
    changed: bool,
    stopped: Option<Stopped>,
    /// Bodies asked for that have not come.
    loads: usize,
    /// Events so far that told of a fault.
    faults: u64,
    /// Those of them whose records are not durable yet.
    deferred_loads: VecDeque<Position>,
    threads: Vec<JoinHandle<()>>,
    _lock: Option<Lock>,
}

impl Log {
    /// Opens the log in `dir`, which is created if it is not there, and starts its two threads. Replay the
    /// [`Recovery`], releasing what later records undo, before the first [`Log::submit`].
    ///
    /// # Errors
    /// See [`OpenError`]. Damaged records are no error: they are skipped and named in the recovery's report.
    pub fn open(dir: &Path, options: Options) -> Result<(Log, Recovery), OpenError> {
        options.check().map_err(OpenError::Options)?;
        let lock = directory::prepare(dir)?;
        let disk = RealDisk::open(dir).map_err(io_error(dir, "opening the directory"))?;
        let disk: Arc<dyn Disk> = Arc::new(disk);
        Log::start(&disk, dir, options, Some(lock))
    }

    /// Adds a record to the batch that waits in memory.
    ///
    /// # Errors
    /// See [`Refused`]; the log is then unchanged.
    pub fn append(&mut self, kind: Kind, meta: &[u8], body: &[u8]) -> Result<Position, Refused> {
        if meta.len() > META_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        match self.room(kind, appended_len(meta, body), entry_len(meta.len())) {
            Ok(()) => Ok(self.batch.append(kind, meta, body)),
            Err(refused) => {
                self.moves_refused += u64::from(kind == Kind::Moved);
                Err(refused)
            }
        }
    }

    /// What [`Log::append`] would say now of a record with so many bytes of `meta` and none of `body`.
    ///
    /// # Errors
    /// See [`Refused`].
    pub fn would_take(&self, kind: Kind, meta_bytes: usize) -> Result<(), Refused> {
        self.room(kind, record_len(meta_bytes, 0) as usize, entry_len(meta_bytes))
    }

    /// All records appended from here to [`Log::end_group`] are recovered together or not at all. Groups do not nest,
    /// and end before the next [`Log::submit`].
    pub fn begin_group(&mut self) {
        debug_assert!(!self.batch.group_is_open(), "groups do not nest");
        self.batch.begin_group();
    }

    /// Ends the group, which may be empty.
    pub fn end_group(&mut self) {
        self.batch.end_group();
    }

    /// Takes back a record that has not been handed to the commit thread, which then need not be released. False if
    /// it has been handed over.
    pub fn cancel(&mut self, position: Position) -> bool {
        self.batch.cancel(position)
    }

    /// Says that nothing needs the value at `position` any more. Once for each value: what made it so (a tombstone, a
    /// newer value) must have been appended before.
    pub fn release(&mut self, position: Position) {
        if !self.batch.release(position) {
            self.space.release(position);
            self.changed = true;
        }
    }

    /// Hands the waiting batch to the commit thread if that is idle; to be called at the end of every turn, so also
    /// when the [`Log::event_fd`] wakes the owner. Costs nothing if nothing was appended.
    pub fn submit(&mut self) {
        debug_assert!(
            !self.batch.group_is_open(),
            "a group ends before the batch is submitted"
        );
        self.dispatch_loads();
        if self.batch.is_idle() && !self.changed {
            return;
        }
        if self.stopped.is_none() {
            self.collect();
            self.hand_over();
            self.dispatch_removals();
        }
        self.changed = !self.removals.is_empty() || self.collection.waits_for_owner();
    }

    /// Whether records wait in memory for the commit thread.
    pub fn has_pending(&self) -> bool {
        !self.batch.is_idle()
    }

    /// Everything up to and including this position is durable. A cancelled record counts as soon as all before it do.
    pub fn durable(&self) -> Position {
        let committed = self.shared.committed().max(self.in_flight_from);
        let is_idle = self.shared.is_idle();
        let offset = match (is_idle, self.batch.is_idle()) {
            (true, true) => self.batch.end(),
            (true, false) => self.batch.start(),
            (false, _) => committed,
        };
        Position::before(offset)
    }

    /// Asks for a record's body, which comes as [`Event::Loaded`] or [`Event::Lost`] after a turn has ended, with
    /// [`Log::submit`], in which the record is durable. False if as many as may wait ([`LOADS_MAX`]) wait already: ask
    /// again after the next events.
    pub fn load(&mut self, position: Position) -> bool {
        let takes_more = self.loads < LOADS_MAX;
        if takes_more {
            self.loads += 1;
            self.deferred_loads.push_back(position);
        }
        takes_more
    }

    /// Moves what has happened since the last call to the end of `events`.
    pub fn poll(&mut self, events: &mut Vec<Event>) {
        let before = events.len();
        for note in self.shared.take_notes() {
            self.take_note(note, events);
        }
        let is_fault = |event: &&Event| matches!(event, Event::Lost { .. } | Event::Fault(_));
        self.faults += events[before..].iter().filter(is_fault).count() as u64;
    }

    /// Becomes readable whenever [`Log::durable`] or [`Log::poll`] has news. Never read: poll it edge-triggered.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        self.shared.event_fd()
    }

    /// What the log holds.
    pub fn usage(&self) -> Usage {
        Usage {
            segments: self.space.count(),
            total_bytes: self.space.total_bytes(),
            live_bytes: self.space.live_bytes() + self.batch.live().bytes,
            pending_bytes: self.batch.len(),
            full: self.spares.is_full,
            faults: self.faults,
        }
    }
}
