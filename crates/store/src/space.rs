//! Which segments there are, how much of each is still needed, and whether another record fits.

use std::collections::VecDeque;

use crate::live::Live;
use crate::position::Position;

/// A segment as the owner accounts for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Offset in the log of its first record.
    pub(crate) base: u64,
    /// Offset in the log behind its last record.
    pub(crate) end: u64,
    /// Its values that are not released.
    pub(crate) live: Live,
    /// Bytes of its index, which lies behind its records once it is sealed.
    pub(crate) index_bytes: u64,
    /// Bytes that its file takes.
    pub(crate) file_bytes: u64,
}

/// All segments, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Space {
    segments: VecDeque<Segment>,
    /// Bytes of files whose segments are no more, but which are not removed yet.
    leaving_bytes: u64,
}

impl Space {
    pub(crate) fn new(segments: Vec<Segment>) -> Space {
        Space {
            segments: segments.into(),
            leaving_bytes: 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.segments.len()
    }

    pub(crate) fn oldest(&self) -> Option<&Segment> {
        self.segments.front()
    }

    pub(crate) fn newest(&self) -> Option<&Segment> {
        self.segments.back()
    }

    pub(crate) fn newest_mut(&mut self) -> Option<&mut Segment> {
        self.segments.back_mut()
    }

    pub(crate) fn push(&mut self, segment: Segment) {
        self.segments.push_back(segment);
    }

    /// Forgets the oldest segment; its file still counts until it is removed.
    pub(crate) fn remove_oldest(&mut self) -> Option<Segment> {
        let oldest = self.segments.pop_front()?;
        self.leaving_bytes += oldest.file_bytes;
        Some(oldest)
    }

    /// A file of so many bytes is removed.
    pub(crate) fn removed(&mut self, file_bytes: u64) {
        self.leaving_bytes -= file_bytes;
    }

    /// The segment that holds the record at `position`.
    pub(crate) fn holding(&self, position: Position) -> Option<&Segment> {
        self.index_of(position).map(|at| &self.segments[at])
    }

    /// Counts the record at `position` as garbage.
    pub(crate) fn release(&mut self, position: Position) {
        if let Some(at) = self.index_of(position) {
            self.segments[at].live.subtract(position);
        }
    }

    pub(crate) fn set_file_bytes(&mut self, number: u64, file_bytes: u64) {
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.number == number) {
            segment.file_bytes = file_bytes;
        }
    }

    /// Whether there are files that nobody needs and that are not removed yet.
    pub(crate) fn is_about_to_shrink(&self) -> bool {
        self.leaving_bytes > 0
    }

    /// Bytes that the files take.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.leaving_bytes + self.segments.iter().map(|segment| segment.file_bytes).sum::<u64>()
    }

    /// Bytes of records, whether needed or not.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end - segment.base).sum()
    }

    pub(crate) fn live_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.live.bytes).sum()
    }

    fn index_of(&self, position: Position) -> Option<usize> {
        let offset = position.offset();
        let at = self
            .segments
            .partition_point(|segment| segment.base <= offset)
            .checked_sub(1)?;
        (offset < self.segments[at].end).then_some(at)
    }
}
