//! The index of a segment: of each record where it is, how long it is, and its meta; no body.
//!
//! An entry is: offset from the segment's base in units of 8 bytes (4 bytes), length of the body (4), whether it is a
//! tombstone (1), length of the meta (3), the meta.

use std::io;

use crate::disk::File;
use crate::live::Live;
use crate::position::{ALIGN, Position};
use crate::record::{HEADER_BYTES, Header, Tag, record_len};
use crate::recovery::Recovered;
use crate::segment::{FOOTER_BYTES, Footer, SegmentHeader};

const ENTRY_BYTES: usize = 12;

/// Bytes that a record with a meta of so many bytes takes in the index.
pub(crate) fn entry_len(meta_len: usize) -> usize {
    ENTRY_BYTES + meta_len
}

/// The index of a segment, in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    entries: Vec<u8>,
    /// All values in it.
    live: Live,
}

/// How much of an index there was at some time, to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    entries: usize,
    live: Live,
}

impl Index {
    pub(crate) fn push(&mut self, base: u64, offset: u64, header: &Header, meta: &[u8]) {
        let units = ((offset - base) / ALIGN) as u32;
        self.entries.extend_from_slice(&units.to_le_bytes());
        self.entries.extend_from_slice(&(header.body_len as u32).to_le_bytes());
        self.entries.push(u8::from(header.tag == Tag::Tombstone));
        self.entries.extend_from_slice(&(meta.len() as u32).to_le_bytes()[..3]);
        self.entries.extend_from_slice(meta);
        if header.tag == Tag::Value {
            self.live.add(Position::of(offset, header.record_len()));
        }
    }

    pub(crate) fn length(&self) -> Length {
        Length {
            entries: self.entries.len(),
            live: self.live,
        }
    }

    pub(crate) fn cut(&mut self, to: Length) {
        self.entries.truncate(to.entries);
        self.live = to.live;
    }

    pub(crate) fn live(&self) -> Live {
        self.live
    }

    pub(crate) fn entries(&self) -> &[u8] {
        &self.entries
    }

    pub(crate) fn into_entries(self) -> Vec<u8> {
        self.entries
    }

    /// Writes the index and the footer behind the records, which end at `end` of the log, and cuts off the rest of
    /// the file. Returns the file's new length.
    pub(crate) fn write(&self, file: &dyn File, segment: &SegmentHeader, end: u64) -> io::Result<u64> {
        // Behind the mark at the end of the records, which the commit thread may be about to write.
        let index_at = segment.file_offset(end) + HEADER_BYTES as u64;
        let footer = Footer {
            index_at,
            index_len: self.entries.len() as u64,
            end,
            live: self.live,
            index_sum: crc32c::crc32c(&self.entries),
        };
        let footer_at = index_at + footer.index_len;
        file.write_at(&self.entries, index_at)?;
        file.write_at(&footer.encode(segment.seed()), footer_at)?;
        let bytes = footer_at + FOOTER_BYTES as u64;
        file.truncate(bytes)?;
        Ok(bytes)
    }
}

/// Reads the entries that `footer` describes into `buffer`. False if they are damaged.
pub(crate) fn read_entries(file: &dyn File, footer: &Footer, buffer: &mut Vec<u8>) -> io::Result<bool> {
    buffer.resize(footer.index_len as usize, 0);
    let read = file.read_at(buffer, footer.index_at)?;
    Ok(read == buffer.len() && crc32c::crc32c(buffer) == footer.index_sum)
}

/// The records that the entries describe, from the entry at byte `*at`, which moves on.
#[inline]
pub(crate) fn next_entry<'a>(entries: &'a [u8], at: &mut usize, base: u64) -> Option<Recovered<'a>> {
    let head: &[u8; ENTRY_BYTES] = entries.get(*at..)?.first_chunk()?;
    let units = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    let body_len = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let meta_len = u32::from_le_bytes([head[9], head[10], head[11], 0]) as usize;
    let meta_at = *at + ENTRY_BYTES;
    let meta = entries.get(meta_at..meta_at + meta_len)?;
    *at = meta_at + meta_len;
    let position = Position::of(base + u64::from(units) * ALIGN, record_len(meta_len, body_len));
    Some(Recovered {
        position,
        tombstone: head[8] != 0,
        meta,
        body_len,
    })
}
