//! Handing the waiting batch to the commit thread, with the segment that it begins.

use super::{COMMIT_THREAD, Log};
use crate::batch::Batch;
use crate::commit::{Order, Roll};
use crate::live::Live;
use crate::segment::SegmentHeader;
use crate::space::Segment;

/// No segment has room for the batch and no spare is there.
struct NoSpace;

impl Log {
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

    /// The segment that the batch begins, if it does not fit into the newest or is the first. Without a spare only
    /// moved values came to more than fits.
    fn next_segment(&mut self) -> Result<Option<Roll>, NoSpace> {
        if self.batch_fits_newest() {
            return Ok(None);
        }
        let from = self.spares.take().ok_or(NoSpace)?;
        Ok(Some(Roll {
            header: self.begin_segment(),
            from,
        }))
    }

    fn begin_segment(&mut self) -> SegmentHeader {
        let newest = self.space.newest().copied();
        let base = self.batch.start();
        let number = self.next_number;
        self.next_number += 1;
        let file_bytes = self.options.segment_bytes;
        self.space.push(Segment {
            number,
            base,
            end: base,
            live: Live::default(),
            index_bytes: 0,
            file_bytes,
        });
        self.newest_is_open = true;
        let previous_end = newest.map_or(base, |newest| newest.end);
        SegmentHeader {
            nonce: nonce(),
            number,
            base,
            previous_end,
        }
    }

    /// The batch to be written, accounted to the newest segment.
    fn take_batch(&mut self) -> Batch {
        let end = self.batch.end();
        let batch = std::mem::replace(&mut self.batch, Batch::new(end));
        let newest = self.space.newest_mut().expect("next_segment made one");
        newest.end = end;
        newest.live.add_all(batch.live());
        newest.index_bytes += batch.index_bytes();
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
