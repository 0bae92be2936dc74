//! Whether a record fits: into memory, into the newest segment, or into one that a file is there for.

use super::{Kind, Log};
use crate::Refused;
use crate::record::HEADER_BYTES;
use crate::segment::{FOOTER_BYTES, RECORDS_AT};
use crate::space::Segment;

impl Log {
    /// Whether a record of `len` bytes, with `entry_len` in the index, may be appended.
    pub(super) fn room(&self, kind: Kind, len: usize, entry_len: usize) -> Result<(), Refused> {
        if self.stopped.is_some() {
            return Err(Refused::Stopped);
        }
        self.room_in_memory(kind, len)?;
        let fits = |kept_back: u64| (len + entry_len) as u64 + kept_back <= self.free_bytes();
        if self.spares.has_next() || !self.waits_for_moving(kind) && fits(self.kept_back(kind)) {
            Ok(())
        } else if !self.spares.is_full {
            Err(Refused::Behind)
        } else if kind == Kind::Moved && self.may_use_reserve() {
            Ok(())
        } else {
            Err(Refused::Full)
        }
    }

    fn room_in_memory(&self, kind: Kind, len: usize) -> Result<(), Refused> {
        let pending = self.options.pending_bytes;
        match kind {
            _ if self.batch.len() + len <= pending => Ok(()),
            // What an earlier run with a higher bound took has to move nevertheless.
            Kind::Moved if self.batch.len() == 0 && len as u64 <= self.capacity() => Ok(()),
            Kind::Moved => Err(Refused::Behind),
            _ if len > pending => Err(Refused::TooLarge),
            _ => Err(Refused::Behind),
        }
    }

    /// Whether such records would take the room that moved values need: while the reserve is in use, until what it was
    /// used for has made room for it again. Replacements go on: they are few, and give room back.
    fn waits_for_moving(&self, kind: Kind) -> bool {
        let is_many = matches!(kind, Kind::Value | Kind::Tombstone);
        is_many && !self.spares.reserve_is_whole() && self.frees_a_full_log()
    }

    /// Bytes of the newest segment that are not for records of this kind while there is no spare: a quarter is for
    /// what frees space, and without a reserve so much is for the oldest segment's values as moving them takes. Where
    /// that is more than there is, nothing is gained by keeping it: what is written may end their need.
    fn kept_back(&self, kind: Kind) -> u64 {
        let moving = self.moving_bytes();
        let for_moving = if self.spares.has_reserve() || moving > self.free_bytes() {
            0
        } else {
            moving
        };
        match kind {
            Kind::Value => for_moving.max(self.options.segment_bytes / 4),
            Kind::Replacement | Kind::Tombstone => for_moving,
            Kind::Moved => 0,
        }
    }

    /// The reserve takes batches of moved values alone.
    fn may_use_reserve(&self) -> bool {
        self.spares.has_reserve() && (self.batch.len() == 0 || !self.batch_fits_newest())
    }

    pub(super) fn batch_fits_newest(&self) -> bool {
        let newest = self.space.newest().filter(|_| self.newest_is_open);
        newest.is_some_and(|newest| self.bytes_with_batch(newest) <= self.capacity())
    }

    /// Bytes that the newest segment takes beside the waiting batch.
    pub(super) fn free_bytes(&self) -> u64 {
        match self.space.newest() {
            Some(newest) if self.newest_is_open => self.capacity().saturating_sub(self.bytes_with_batch(newest)),
            _ => 0,
        }
    }

    /// Bytes of records and their index in the newest segment, once the waiting batch is written to it.
    fn bytes_with_batch(&self, newest: &Segment) -> u64 {
        self.batch.end() - newest.base + newest.index_bytes + self.batch.index_bytes()
    }

    /// Bytes of records and their index in a segment. Its file takes no more once it is sealed.
    fn capacity(&self) -> u64 {
        self.options.segment_bytes - RECORDS_AT - (HEADER_BYTES + FOOTER_BYTES) as u64
    }
}
