//! Whether a record fits, and which segment a batch goes to.

use super::{COMMIT_THREAD, Kind, Log, Spare};
use crate::Refused;
use crate::batch::Batch;
use crate::commit::Order;
use crate::live::Live;
use crate::segment::{RECORDS_AT, SegmentHeader};
use crate::space::Segment;

/// No segment has room for the batch and no spare is there.
struct NoSpace;

impl Log {
    /// Whether a record of `len` bytes may be appended.
    pub(super) fn room(&self, kind: Kind, len: usize) -> Result<(), Refused> {
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
    pub(super) fn free_bytes(&self) -> u64 {
        match self.space.newest() {
            Some(newest) if self.newest_is_open => self.capacity().saturating_sub(self.batch.end() - newest.base),
            _ => 0,
        }
    }

    /// Bytes of records in a segment.
    fn capacity(&self) -> u64 {
        self.options.segment_bytes - RECORDS_AT
    }

    pub(super) fn hand_over(&mut self) {
        if self.batch.is_idle() || !self.shared.is_idle() {
            return;
        }
        let roll = match self.next_segment() {
            Ok(roll) => roll,
            Err(NoSpace) => return,
        };
        let batch = self.take_batch();
        let buffer = self.shared.put_order(Order { roll, batch });
        self.batch.use_buffer(buffer);
        self.threads[COMMIT_THREAD].thread().unpark();
    }

    /// The segment that the batch begins, if it does not fit into the newest or is the first.
    fn next_segment(&mut self) -> Result<Option<SegmentHeader>, NoSpace> {
        let newest = self.space.newest().copied();
        let fits =
            self.newest_is_open && newest.is_some_and(|newest| self.batch.end() - newest.base <= self.capacity());
        if fits {
            return Ok(None);
        }
        if self.spare != Spare::Ready {
            return Err(NoSpace);
        }
        self.spare = Spare::Coming;
        let base = self.batch.start();
        let number = self.next_number;
        self.next_number += 1;
        let file_bytes = self.options.segment_bytes;
        self.space.push(Segment {
            number,
            base,
            end: base,
            live: Live::default(),
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

    /// The batch to be written, accounted to the newest segment.
    fn take_batch(&mut self) -> Batch {
        let end = self.batch.end();
        let batch = std::mem::replace(&mut self.batch, Batch::new(end));
        let newest = self.space.newest_mut().expect("next_segment made one");
        newest.end = end;
        newest.live.add_all(batch.live());
        self.in_flight_from = batch.start();
        batch
    }
}

/// A random number for a segment.
fn nonce() -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).expect("the kernel gives eight bytes");
    u64::from_le_bytes(bytes)
}
