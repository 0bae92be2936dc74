//! What the owner's thread and the log's own threads say to each other.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use crate::commit::Order;
use crate::segment::SpareFile;
use crate::{Event, Fault, Stopped};

/// What one of the log's threads reports.
#[derive(Debug)]
pub(crate) enum Note {
    /// What a load came to.
    Loaded(Event),
    /// To be handed on as it is.
    Fault(Fault),
    /// Records of the segment that is being emptied; the next ones begin at byte `next` of its index.
    Offered {
        number: u64,
        records: Vec<Event>,
        next: Option<usize>,
    },
    /// The segment has its index and this length.
    Sealed { number: u64, file_bytes: u64 },
    /// The commit thread made `from` a new segment: the one before is to be sealed, and another spare to be made.
    Rolled {
        from: SpareFile,
        sealable: Option<(u64, u64)>,
    },
    /// A segment's file of so many bytes was removed.
    Removed { file_bytes: u64 },
    /// The file is there.
    SpareReady(SpareFile),
    /// There is no space for the file that was asked for, for now.
    SpareRefused,
    /// The log has stopped.
    Stopped(Stopped),
}

/// What the threads of a log share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Offset in the log behind the last durable record.
    committed: AtomicU64,
    /// Whether the commit thread takes an order.
    idle: AtomicBool,
    /// Whether the threads are to end.
    stop: AtomicBool,
    order: Mutex<Option<Order>>,
    /// The buffer of the last batch, to be used again.
    buffer: Mutex<Vec<u8>>,
    has_notes: AtomicBool,
    notes: Mutex<Vec<Note>>,
    bell: OwnedFd,
}

impl Shared {
    pub(crate) fn new(committed: u64) -> io::Result<Shared> {
        Ok(Shared {
            committed: AtomicU64::new(committed),
            idle: AtomicBool::new(true),
            stop: AtomicBool::new(false),
            order: Mutex::new(None),
            buffer: Mutex::new(Vec::new()),
            has_notes: AtomicBool::new(false),
            notes: Mutex::new(Vec::new()),
            bell: rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    pub(crate) fn event_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(crate) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.idle.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn set_stopping(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Leaves an order for the commit thread, which is idle, and takes the last batch's buffer.
    pub(crate) fn put_order(&self, order: Order) -> Vec<u8> {
        debug_assert!(self.is_idle());
        self.idle.store(false, Ordering::Release);
        *lock(&self.order) = Some(order);
        std::mem::take(&mut *lock(&self.buffer))
    }

    pub(crate) fn has_order(&self) -> bool {
        !self.is_idle()
    }

    pub(crate) fn take_order(&self) -> Option<Order> {
        lock(&self.order).take()
    }

    /// The commit thread is done with an order: all before `committed` is durable.
    pub(crate) fn done(&self, committed: u64, buffer: Vec<u8>) {
        *lock(&self.buffer) = buffer;
        self.committed.fetch_max(committed, Ordering::AcqRel);
        self.idle.store(true, Ordering::Release);
        self.ring();
    }

    pub(crate) fn note(&self, note: Note) {
        self.note_all(&mut vec![note]);
    }

    /// Empties `notes`.
    pub(crate) fn note_all(&self, notes: &mut Vec<Note>) {
        if notes.is_empty() {
            return;
        }
        lock(&self.notes).append(notes);
        // Else the owner has not yet come for those before, for which the bell rang, and takes this one with them.
        if !self.has_notes.swap(true, Ordering::AcqRel) {
            self.ring();
        }
    }

    /// The notes since the last call; costs a load where there are none.
    pub(crate) fn take_notes(&self) -> Vec<Note> {
        if !self.has_notes.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *lock(&self.notes))
    }

    /// Waits for news, or until the time is up.
    pub(crate) fn wait(&self, time: &Timespec) {
        // Whether it timed out, was interrupted or is empty: the caller looks again.
        let _ = rustix::event::poll(&mut [PollFd::new(&self.bell, PollFlags::IN)], Some(time));
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
    }

    fn ring(&self) {
        // It fails only when the counter is at its end, after 2^64 - 2 rings: readable in any case.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// No code that holds these locks can panic half way.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
