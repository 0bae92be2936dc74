//! The log as its owner sees it: memory only, no call here waits for a disk.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::batch::{Batch, appended_len};
use crate::collect::Collection;
use crate::commit::{self, Committer, Order};
use crate::directory::{self, Lock};
use crate::disk::{Disk, RealDisk, is_full};
use crate::error::io_error;
use crate::keeper::{Job, Jobs, Keeper};
use crate::record::META_BYTES_MAX;
use crate::recovery::{self, Found};
use crate::segment::{RECORDS_AT, SPARE, SegmentHeader};
use crate::shared::{Note, Shared};
use crate::space::{Segment, Space};
use crate::{Damage, DamageKind, Event, OpenError, Options, Position, Recovery, Refused, Stopped};

/// Bodies that may be asked for at once.
pub const LOADS_MAX: usize = 1024;

/// How often [`Log::close`] looks whether the disk has space.
const CLOSE_POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// What a record is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something that must be found again until it is released. Refused when the log is full.
    Value,
    /// A value that takes the place of one at least as large, which is then released. May use the reserve.
    Replacement,
    /// Undoes earlier values and is never released itself: it goes with its segment. May use the reserve.
    Tombstone,
}

/// What a log holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Segment files, the one in reserve not counted.
    pub segments: usize,
    /// Bytes in them.
    pub total_bytes: u64,
    /// Bytes of values not yet released, rounded down by less than 2 %.
    pub live_bytes: u64,
    /// Bytes that wait in memory for the commit thread.
    pub pending_bytes: usize,
    /// Whether values are refused because the disk or the limit is full.
    pub full: bool,
}

/// The file that becomes the next segment. While it is not there, the newest segment's rest is the reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    Ready,
    /// The keeper is making it.
    Coming,
    /// There is no space for it.
    Refused,
}

/// An append-only log, open for appending by one thread.
#[derive(Debug)]
pub struct Log {
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: Arc<Jobs>,
    pub(crate) space: Space,
    pub(crate) batch: Batch,
    pub(crate) spare: Spare,
    pub(crate) collection: Collection,
    /// Segments to be removed once all that was appended so far is durable.
    pub(crate) removals: Vec<u64>,
    /// Replacements refused so far.
    pub(crate) replacements_refused: u64,
    /// Whether the newest segment was begun by this process, and is written to.
    pub(crate) newest_is_open: bool,
    /// Start of the batch that the commit thread has: all before it is durable.
    in_flight_from: u64,
    /// Whether something changed that may let segments be removed.
    changed: bool,
    stopped: Option<Stopped>,
    /// Bodies asked for that have not come.
    loads: usize,
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

    /// Opens the log on `disk`, which is known as `dir` in errors.
    pub(crate) fn start(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        options: Options,
        lock: Option<Lock>,
    ) -> Result<(Log, Recovery), OpenError> {
        let found = recovery::find(disk.as_ref(), dir)?;
        let end = found.end();
        let Found {
            recovery,
            segments,
            unsealed,
        } = found;
        let shared = Arc::new(Shared::new(end).map_err(io_error(dir, "making an eventfd"))?);
        let mut log = Log {
            space: Space::new(segments),
            batch: Batch::new(end),
            jobs: Arc::default(),
            spare: Spare::Coming,
            collection: Collection::default(),
            removals: Vec::new(),
            replacements_refused: 0,
            newest_is_open: false,
            in_flight_from: end,
            changed: true,
            stopped: None,
            loads: 0,
            deferred_loads: VecDeque::new(),
            threads: Vec::new(),
            _lock: lock,
            shared,
            options,
        };
        log.find_spare(disk.as_ref())
            .map_err(io_error(&dir.join(SPARE), "allocating a segment"))?;
        for segment in unsealed {
            log.jobs.push(Job::Seal {
                number: segment.number,
                end: segment.end,
            });
        }
        log.start_threads(disk).map_err(io_error(dir, "starting a thread"))?;
        Ok((log, recovery))
    }

    /// The spare that the last run left, or a new one.
    fn find_spare(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let bytes = self.options.segment_bytes;
        let left = disk.open(SPARE).and_then(|file| file.len());
        if left.is_ok_and(|len| len >= bytes) {
            self.spare = Spare::Ready;
            return Ok(());
        }
        self.request_spare_with(|| disk.create(SPARE, bytes).map(|_| ()))
    }

    fn request_spare_with(&mut self, create: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.spare = Spare::Refused;
        if !self.spare_is_within_limit() {
            return Ok(());
        }
        match create() {
            Ok(()) => self.spare = Spare::Ready,
            Err(error) if is_full(&error) => self.jobs.push(Job::Spare),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn start_threads(&mut self, disk: &Arc<dyn Disk>) -> io::Result<()> {
        let Options {
            durability,
            segment_bytes,
            ..
        } = self.options;
        let committer = Committer::new(Arc::clone(disk), durability, segment_bytes);
        self.threads.push(commit::spawn(committer, Arc::clone(&self.shared))?);
        let keeper = Keeper::new(Arc::clone(disk), Arc::clone(&self.shared), segment_bytes);
        self.threads.push(keeper.spawn(Arc::clone(&self.jobs))?);
        Ok(())
    }

    /// Adds a record to the batch that waits in memory.
    ///
    /// # Errors
    /// See [`Refused`]; the log is then unchanged.
    pub fn append(&mut self, kind: Kind, meta: &[u8], body: &[u8]) -> Result<Position, Refused> {
        if meta.len() > META_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        match self.room(kind, appended_len(meta, body)) {
            Ok(()) => Ok(self.batch.append(kind, meta, body)),
            Err(refused) => {
                self.replacements_refused += u64::from(kind == Kind::Replacement);
                Err(refused)
            }
        }
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
        if self.batch.is_idle() && !self.changed {
            return;
        }
        if self.stopped.is_none() {
            self.collect();
            self.hand_over();
        }
        self.changed = !self.removals.is_empty() || self.collection.waits_for_owner();
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

    /// Asks for a record's body, which comes as [`Event::Loaded`] or [`Event::Lost`] once the record is durable. False
    /// if as many as may wait ([`LOADS_MAX`]) wait already: ask again after the next events.
    pub fn load(&mut self, position: Position) -> bool {
        let takes_more = self.loads < LOADS_MAX;
        if takes_more {
            self.loads += 1;
            self.deferred_loads.push_back(position);
            self.dispatch_loads();
        }
        takes_more
    }

    /// Moves what has happened since the last call to the end of `events`.
    pub fn poll(&mut self, events: &mut Vec<Event>) {
        for note in self.shared.take_notes() {
            self.take_note(note, events);
        }
        self.dispatch_loads();
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
            live_bytes: self.space.live_bytes() + self.batch.live_bytes(),
            pending_bytes: self.batch.len(),
            full: self.spare == Spare::Refused,
        }
    }

    /// Makes all that was appended durable, writes the index of the last segment, and ends the threads. Waits for the
    /// disk. A log that is dropped instead keeps what was handed over, and opens a little slower.
    ///
    /// # Errors
    /// Why the log had stopped, or that there is no space for what waits.
    pub fn close(mut self) -> Result<(), Stopped> {
        self.collection.disable();
        self.flush()?;
        if let Some(newest) = self.space.newest().filter(|_| self.newest_is_open) {
            self.jobs.push(Job::Seal {
                number: newest.number,
                end: newest.end,
            });
        }
        self.end_threads();
        let mut events = Vec::new();
        self.poll(&mut events);
        self.stopped.take().map_or(Ok(()), Err)
    }

    fn flush(&mut self) -> Result<(), Stopped> {
        let mut events = Vec::new();
        loop {
            self.poll(&mut events);
            self.changed = true;
            self.submit();
            if let Some(stopped) = self.stopped.take() {
                return Err(stopped);
            }
            if self.batch.is_idle() && self.removals.is_empty() && self.shared.is_idle() {
                return Ok(());
            }
            if self.spare == Spare::Refused && self.shared.is_idle() {
                let reason = format!("no space for {} bytes", self.batch.len());
                return Err(Stopped {
                    file: SPARE.to_owned(),
                    doing: "flush",
                    reason,
                });
            }
            let bell = self.shared.event_fd();
            // Whether it timed out or failed: the loop looks again.
            let _ = rustix::event::poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&CLOSE_POLL));
        }
    }

    /// Whether a record of `len` bytes may be appended.
    pub(crate) fn room(&self, kind: Kind, len: usize) -> Result<(), Refused> {
        if self.stopped.is_some() {
            return Err(Refused::Stopped);
        }
        if len > self.options.pending_bytes {
            return Err(Refused::TooLarge);
        }
        if self.batch.len() + len > self.options.pending_bytes {
            return Err(Refused::Behind);
        }
        let reserve = if kind == Kind::Value {
            self.options.segment_bytes / 4
        } else {
            0
        };
        match self.spare {
            Spare::Ready => Ok(()),
            _ if len as u64 + reserve <= self.free_bytes() => Ok(()),
            Spare::Coming => Err(Refused::Behind),
            Spare::Refused => Err(Refused::Full),
        }
    }

    /// Bytes that the newest segment takes beside the waiting batch.
    pub(crate) fn free_bytes(&self) -> u64 {
        match self.space.newest() {
            Some(newest) if self.newest_is_open => self.capacity().saturating_sub(self.batch.end() - newest.base),
            _ => 0,
        }
    }

    /// Bytes of records in a segment.
    fn capacity(&self) -> u64 {
        self.options.segment_bytes - RECORDS_AT
    }

    fn hand_over(&mut self) {
        if !self.shared.is_idle() || (self.batch.is_idle() && self.removals.is_empty()) {
            return;
        }
        let roll = match self.next_segment() {
            Ok(roll) => roll,
            Err(NoSpace) => return,
        };
        let batch = self.take_batch();
        let remove = std::mem::take(&mut self.removals);
        let buffer = self.shared.put_order(Order { roll, batch, remove });
        if self.batch.len() == 0 {
            self.batch.use_buffer(buffer);
        }
        self.threads[COMMIT_THREAD].thread().unpark();
    }

    /// The segment that the batch begins, if it does not fit into the newest or is the first.
    fn next_segment(&mut self) -> Result<Option<SegmentHeader>, NoSpace> {
        let newest = self.space.newest().copied();
        let fits =
            self.newest_is_open && newest.is_some_and(|newest| self.batch.end() - newest.base <= self.capacity());
        if self.batch.is_idle() || fits {
            return Ok(None);
        }
        if self.spare != Spare::Ready {
            return Err(NoSpace);
        }
        self.spare = Spare::Coming;
        let base = self.batch.start();
        let number = newest.map_or(1, |newest| newest.number + 1);
        let file_bytes = self.options.segment_bytes;
        self.space.push(Segment {
            number,
            base,
            end: base,
            live_bytes: 0,
            file_bytes,
        });
        self.newest_is_open = true;
        let previous_end = newest.map_or(base, |newest| newest.end);
        Ok(Some(SegmentHeader {
            nonce: nonce(),
            number,
            base,
            previous_end,
        }))
    }

    /// The batch to be written, accounted to the newest segment; an empty one if nothing is to be written.
    fn take_batch(&mut self) -> Batch {
        if self.batch.is_idle() {
            return Batch::default();
        }
        let end = self.batch.end();
        let batch = std::mem::replace(&mut self.batch, Batch::new(end));
        let newest = self.space.newest_mut().expect("next_segment made one");
        newest.end = end;
        newest.live_bytes += batch.live_bytes();
        self.in_flight_from = batch.start();
        batch
    }

    fn take_note(&mut self, note: Note, events: &mut Vec<Event>) {
        self.changed = true;
        match note {
            Note::Event(event) => {
                self.loads -= 1;
                events.push(event);
            }
            Note::Offered { number, records, next } => self.take_offer(number, records, next, events),
            Note::Sealed { number, file_bytes } => {
                self.space.set_file_bytes(number, file_bytes);
                self.retry_spare();
            }
            Note::Rolled { sealable } => {
                self.request_spare();
                if let Some((number, end)) = sealable {
                    self.jobs.push(Job::Seal { number, end });
                }
            }
            Note::Removed => self.retry_spare(),
            Note::SpareReady => {
                if self.spare == Spare::Refused {
                    events.push(Event::Room);
                }
                self.spare = Spare::Ready;
            }
            Note::SpareRefused => self.spare = Spare::Refused,
            Note::Stopped(stopped) => {
                events.push(Event::Stopped(stopped.clone()));
                self.stopped.get_or_insert(stopped);
            }
        }
    }

    /// Asks again for a spare that the log's own limit refused; what the disk refused, the keeper tries by itself.
    fn retry_spare(&mut self) {
        if self.spare == Spare::Refused && self.spare_is_within_limit() {
            self.jobs.push(Job::Spare);
        }
    }

    fn request_spare(&mut self) {
        if self.spare_is_within_limit() {
            self.jobs.push(Job::Spare);
        } else {
            self.spare = Spare::Refused;
        }
    }

    fn spare_is_within_limit(&self) -> bool {
        self.space.total_bytes() + self.options.segment_bytes <= self.options.limit_bytes
    }

    fn dispatch_loads(&mut self) {
        let durable = self.durable();
        while let Some(position) = self
            .deferred_loads
            .front()
            .copied()
            .filter(|position| *position <= durable)
        {
            self.deferred_loads.pop_front();
            match self.space.holding(position) {
                Some(segment) => self.jobs.push(Job::Load {
                    position,
                    number: segment.number,
                }),
                None => self.shared.note(Note::Event(lost(position))),
            }
        }
    }

    fn end_threads(&mut self) {
        self.shared.set_stopping();
        self.jobs.wake();
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A thread that panicked has said so; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

/// No segment has room for the batch and no spare is there.
struct NoSpace;

/// Index of the commit thread in [`Log::threads`].
const COMMIT_THREAD: usize = 0;

impl Drop for Log {
    fn drop(&mut self) {
        self.jobs.clear();
        self.end_threads();
    }
}

/// The event for a record of a segment that is gone.
fn lost(position: Position) -> Event {
    let (offset, bytes) = (position.offset(), position.rounded_len());
    Event::Lost {
        position,
        damage: Damage {
            file: String::new(),
            offset,
            bytes,
            kind: DamageKind::MissingSegment,
        },
    }
}

/// A random number for a segment.
fn nonce() -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).expect("the kernel gives eight bytes");
    u64::from_le_bytes(bytes)
}
