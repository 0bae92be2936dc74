//! A segment file: header, records, and once it is sealed the index of its records and a footer.
//!
//! The header has a page of its own, so that no append rewrites it, and stands there twice, so that one damaged byte
//! does not cost a segment. Integers are little-endian.

use std::io;

use crate::disk::File;
use crate::live::Live;
use crate::position::ALIGN;
use crate::record::Seed;

/// Where the records of a segment begin in its file.
pub(crate) const RECORDS_AT: u64 = 4096;
/// A file that becomes a segment. What it is for depends on how many there are, not on its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpareFile {
    First,
    Second,
    Third,
}

impl SpareFile {
    /// In the order in which they are made.
    pub(crate) const ALL: [SpareFile; 3] = [SpareFile::First, SpareFile::Second, SpareFile::Third];

    pub(crate) fn name(self) -> &'static str {
        match self {
            SpareFile::First => "reserve-1",
            SpareFile::Second => "reserve-2",
            SpareFile::Third => "spare",
        }
    }
}

const HEADER_MAGIC: [u8; 8] = *b"SELVLOG1";
/// A footer of an older form counts as none: the records are read, and the index is written anew.
const FOOTER_MAGIC: [u8; 8] = *b"SELVIDX2";
const HEADER_BYTES: usize = 48;
/// Where the header stands a second time: in another sector.
const HEADER_COPY_AT: usize = 2048;
/// No log comes to segments and offsets beyond these: what says so is none of its files, or damaged.
const NUMBER_MAX: u64 = 1 << 48;
const OFFSET_MAX: u64 = 1 << 54;
/// Bytes of a footer, the last of a sealed file.
pub(crate) const FOOTER_BYTES: usize = 56;

/// Name of the file of segment `number`.
pub(crate) fn name(number: u64) -> String {
    format!("{number:016x}.log")
}

/// The segment that a file name stands for.
pub(crate) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|number| *number <= NUMBER_MAX)
}

/// What a segment begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    /// Random, so that no other segment's content is taken for this one's.
    pub(crate) nonce: u64,
    /// Segments are numbered without gaps.
    pub(crate) number: u64,
    /// Offset in the log of the first record.
    pub(crate) base: u64,
    /// Offset in the log at which the segment before ended: all before it was durable.
    pub(crate) previous_end: u64,
}

impl SegmentHeader {
    /// Both copies, as the file begins with them.
    pub(crate) fn encode(&self) -> [u8; HEADER_COPY_AT + HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&HEADER_MAGIC);
        put_u64s(
            &mut header[8..40],
            &[self.nonce, self.number, self.base, self.previous_end],
        );
        let sum = crc32c::crc32c(&header[..40]);
        header[40..44].copy_from_slice(&sum.to_le_bytes());
        let mut bytes = [0; HEADER_COPY_AT + HEADER_BYTES];
        bytes[..HEADER_BYTES].copy_from_slice(&header);
        bytes[HEADER_COPY_AT..].copy_from_slice(&header);
        bytes
    }

    /// `None` if neither copy in the file is a header of segment `number`.
    pub(crate) fn read(file: &dyn File, number: u64) -> io::Result<Option<SegmentHeader>> {
        let mut bytes = [0; HEADER_COPY_AT + HEADER_BYTES];
        file.read_at(&mut bytes, 0)?;
        let copies = [&bytes[..HEADER_BYTES], &bytes[HEADER_COPY_AT..]];
        Ok(copies
            .into_iter()
            .filter_map(SegmentHeader::decode)
            .find(|header| header.number == number && header.can_be()))
    }

    fn decode(bytes: &[u8]) -> Option<SegmentHeader> {
        let is_whole = bytes[..8] == HEADER_MAGIC && bytes[40..44] == crc32c::crc32c(&bytes[..40]).to_le_bytes();
        let [nonce, number, base, previous_end] = get_u64s(&bytes[8..40]);
        is_whole.then_some(SegmentHeader {
            nonce,
            number,
            base,
            previous_end,
        })
    }

    fn can_be(&self) -> bool {
        self.base.is_multiple_of(ALIGN) && self.base <= OFFSET_MAX && self.previous_end <= self.base
    }

    pub(crate) fn seed(&self) -> Seed {
        Seed::of(self.nonce)
    }

    /// Where in the file the record at `offset` of the log begins.
    pub(crate) fn file_offset(&self, offset: u64) -> u64 {
        RECORDS_AT + offset - self.base
    }

    /// The log's offset of what begins at `file_offset`.
    pub(crate) fn log_offset(&self, file_offset: u64) -> u64 {
        self.base + file_offset - RECORDS_AT
    }
}

/// What a sealed segment ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Where in the file the index begins.
    pub(crate) index_at: u64,
    /// Bytes of the index.
    pub(crate) index_len: u64,
    /// Offset in the log at which the records end.
    pub(crate) end: u64,
    /// All values.
    pub(crate) live: Live,
    /// CRC-32C of the index.
    pub(crate) index_sum: u32,
}

impl Footer {
    pub(crate) fn encode(&self, seed: Seed) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        bytes[..8].copy_from_slice(&FOOTER_MAGIC);
        put_u64s(
            &mut bytes[8..48],
            &[self.index_at, self.index_len, self.end, self.live.bytes, self.live.sum],
        );
        bytes[48..52].copy_from_slice(&self.index_sum.to_le_bytes());
        let sum = seed.sum(self.index_at, &bytes[..52]);
        bytes[52..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `None` if the segment is not sealed, or its footer is damaged.
    pub(crate) fn read(file: &dyn File, segment: &SegmentHeader) -> io::Result<Option<Footer>> {
        let Some(at) = file.len()?.checked_sub(FOOTER_BYTES as u64) else {
            return Ok(None);
        };
        let mut bytes = [0; FOOTER_BYTES];
        file.read_at(&mut bytes, at)?;
        let [index_at, index_len, end, bytes_live, sum_live] = get_u64s(&bytes[8..48]);
        let index_sum = u32::from_le_bytes([bytes[48], bytes[49], bytes[50], bytes[51]]);
        let sum = segment.seed().sum(index_at, &bytes[..52]);
        let is_whole = bytes[..8] == FOOTER_MAGIC && bytes[52..] == sum.to_le_bytes();
        let footer = Footer {
            index_at,
            index_len,
            end,
            live: Live {
                bytes: bytes_live,
                sum: sum_live,
            },
            index_sum,
        };
        Ok((is_whole && footer.can_be(segment, at)).then_some(footer))
    }

    /// Whether records, index and this footer, which begins at `at`, follow one another.
    fn can_be(&self, segment: &SegmentHeader, at: u64) -> bool {
        let index_ends = self.index_at.checked_add(self.index_len) == Some(at);
        let records = self
            .end
            .checked_sub(segment.base)
            .filter(|bytes| bytes.is_multiple_of(ALIGN));
        let records_fit = records.is_some_and(|bytes| bytes <= self.index_at.saturating_sub(RECORDS_AT));
        index_ends && records_fit && records.is_some_and(|bytes| self.live.bytes <= bytes)
    }
}

fn put_u64s(bytes: &mut [u8], values: &[u64]) {
    for (slot, value) in bytes.chunks_exact_mut(8).zip(values) {
        slot.copy_from_slice(&value.to_le_bytes());
    }
}

fn get_u64s<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|n| {
        let chunk = bytes[n * 8..].first_chunk().expect("integers of eight bytes");
        u64::from_le_bytes(*chunk)
    })
}
