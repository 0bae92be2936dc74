//! The records that wait in memory to be written together.

use std::ops::Range;

use crate::index::entry_len;
use crate::live::Live;
use crate::log::Kind;
use crate::position::Position;
use crate::record::{FOLLOWS_PAD, GROUP_GOES_ON, HEADER_BYTES, Header, STARTS_BATCH, Seed, Tag, put_sums, record_len};

/// A pad of fewer bytes is written like a record; a longer one is skipped, at the cost of one more write.
const SKIPPED_PAD_BYTES: u64 = 4096;

/// A buffer of which little was used is given back down to this.
const BUFFER_KEPT_BYTES: usize = 64 << 10;

/// The records that wait in memory to be written together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Offset in the log of the first byte.
    start: u64,
    bytes: Vec<u8>,
    /// Records that were not cancelled.
    records: usize,
    /// Values neither cancelled nor released.
    live: Live,
    /// Bytes that the records take in the index of their segment.
    index_bytes: u64,
    group_is_open: bool,
    /// Where in `bytes` the open group's last record begins.
    group_last: Option<usize>,
}

impl Batch {
    /// An empty batch at `start`.
    pub(crate) fn new(start: u64) -> Batch {
        Batch {
            start,
            ..Batch::default()
        }
    }

    /// Lets an empty batch fill a buffer that is used again.
    pub(crate) fn use_buffer(&mut self, mut buffer: Vec<u8>) {
        debug_assert!(self.bytes.is_empty());
        if buffer.len() < buffer.capacity() / 4 {
            buffer.shrink_to(BUFFER_KEPT_BYTES.max(2 * buffer.len()));
        }
        buffer.clear();
        self.bytes = buffer;
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// Offset in the log of the next record.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn live(&self) -> Live {
        self.live
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        self.index_bytes
    }

    /// Whether nothing in it need be written.
    pub(crate) fn is_idle(&self) -> bool {
        self.records == 0
    }

    pub(crate) fn group_is_open(&self) -> bool {
        self.group_is_open
    }

    pub(crate) fn append(&mut self, kind: Kind, meta: &[u8], body: &[u8]) -> Position {
        self.skip_cancelled();
        let tag = if kind == Kind::Tombstone {
            Tag::Tombstone
        } else {
            Tag::Value
        };
        let flags = if self.group_is_open { GROUP_GOES_ON } else { 0 };
        let header = Header {
            tag,
            flags,
            meta_len: meta.len(),
            body_len: body.len(),
        };
        let position = Position::of(self.end(), header.record_len());
        if self.group_is_open {
            self.group_last = Some(self.bytes.len());
        }
        let next = self.bytes.len() + header.record_len() as usize;
        self.bytes.extend_from_slice(&header.encode());
        self.bytes.extend_from_slice(meta);
        self.bytes.extend_from_slice(body);
        self.bytes.resize(next, 0);
        self.records += 1;
        self.index_bytes += entry_len(meta.len()) as u64;
        if tag == Tag::Value {
            self.live.add(position);
        }
        position
    }

    /// Makes the record nothing. False if it is not in this batch.
    pub(crate) fn cancel(&mut self, position: Position) -> bool {
        let Some(at) = self.index_of(position) else {
            return false;
        };
        let header = self.header_at(at);
        if header.tag != Tag::Pad {
            let pad = Header::pad(header.record_len(), header.flags);
            self.bytes[at..at + HEADER_BYTES].copy_from_slice(&pad.encode());
            self.records -= 1;
            self.index_bytes -= entry_len(header.meta_len) as u64;
        }
        if header.tag == Tag::Value {
            self.live.subtract(position);
        }
        true
    }

    /// Counts the record as garbage. False if it is not in this batch.
    pub(crate) fn release(&mut self, position: Position) -> bool {
        let inside = self.index_of(position).is_some();
        if inside {
            self.live.subtract(position);
        }
        inside
    }

    pub(crate) fn begin_group(&mut self) {
        self.group_is_open = true;
        self.group_last = None;
    }

    pub(crate) fn end_group(&mut self) {
        self.group_is_open = false;
        if let Some(at) = self.group_last.take() {
            let mut header = self.header_at(at);
            header.flags &= !GROUP_GOES_ON;
            self.bytes[at + 8..at + HEADER_BYTES].copy_from_slice(&header.encode()[8..]);
        }
    }

    /// Forgets the bytes of a batch in which everything was cancelled; its positions are not used again.
    pub(crate) fn skip_cancelled(&mut self) {
        if self.records == 0 && !self.bytes.is_empty() {
            self.start = self.end();
            self.bytes.clear();
            self.group_last = None;
        }
    }

    /// Computes the checksums and returns which ranges of [`Batch::bytes`] are to be written.
    pub(crate) fn seal(&mut self, seed: Seed, follows_pad: bool) -> Vec<Range<usize>> {
        let mut ranges = Vec::with_capacity(1);
        let (mut at, mut from) = (0, 0);
        while at < self.bytes.len() {
            let mut header = self.merged_pad(at);
            if at == 0 {
                header.flags |= STARTS_BATCH | if follows_pad { FOLLOWS_PAD } else { 0 };
            }
            let next = at + header.record_len() as usize;
            let offset = self.start + at as u64;
            self.bytes[at + 8..at + HEADER_BYTES].copy_from_slice(&header.encode()[8..]);
            put_sums(&mut self.bytes[at..next], &header, seed, offset);
            if header.tag == Tag::Pad && header.record_len() >= SKIPPED_PAD_BYTES {
                ranges.push(from..at + HEADER_BYTES);
                from = next;
            }
            at = next;
        }
        if from < at {
            ranges.push(from..at);
        }
        ranges
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.bytes
    }

    /// The record at `at`, or if it is a pad, one pad for all that follow one another.
    fn merged_pad(&self, at: usize) -> Header {
        let mut header = self.header_at(at);
        while header.tag == Tag::Pad {
            let next = at + header.record_len() as usize;
            if next == self.bytes.len() || self.header_at(next).tag != Tag::Pad {
                break;
            }
            let following = self.header_at(next);
            header = Header::pad(header.record_len() + following.record_len(), following.flags);
        }
        header
    }

    fn index_of(&self, position: Position) -> Option<usize> {
        let offset = position.offset();
        (self.start..self.end())
            .contains(&offset)
            .then(|| (offset - self.start) as usize)
    }

    fn header_at(&self, at: usize) -> Header {
        let bytes = self.bytes[at..]
            .first_chunk()
            .expect("a record is never shorter than its header");
        Header::decode(bytes).expect("the batch wrote this header")
    }
}

/// Bytes that a record of these parts adds to a batch.
pub(crate) fn appended_len(meta: &[u8], body: &[u8]) -> usize {
    record_len(meta.len(), body.len()) as usize
}
