//! A record as it lies in a segment.
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | CRC-32C of the rest of the header and the meta |
//! | 4 | CRC-32C of the body |
//! | 4 | length of the body; of a pad, the bytes to skip after its header |
//! | 1 | kind, and flags |
//! | 3 | length of the meta |
//! | … | meta, body, zeros up to a multiple of 8 |
//!
//! Integers are little-endian. Both checksums begin with the segment's seed and the record's offset in the log, so
//! that neither old content of the disk, nor a payload that looks like a record, nor a record in the wrong place is
//! taken for one.

use crate::position::ALIGN;

/// Bytes of a record before its meta.
pub(crate) const HEADER_BYTES: usize = 16;
/// Bound of a meta: its length has 24 bits.
pub(crate) const META_BYTES_MAX: usize = (1 << 24) - 1;

const KIND_MASK: u8 = 0x0F;

/// The first record of a batch: everything before it was durable when it was written.
pub(crate) const STARTS_BATCH: u8 = 0x10;
/// The group goes on with the next record.
pub(crate) const GROUP_GOES_ON: u8 = 0x20;
/// With [`STARTS_BATCH`]: a pad of the same batch precedes it.
pub(crate) const FOLLOWS_PAD: u8 = 0x40;

/// What a record is, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Value = 1,
    Tombstone = 2,
    /// Nothing: what was cancelled, or with no length the end of what is durable.
    Pad = 3,
}

/// What a segment's checksums begin with, from its random number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn of(nonce: u64) -> Seed {
        Seed(crc32c::crc32c(&nonce.to_le_bytes()))
    }

    /// The checksum of `bytes` that belong at `offset` of the log.
    pub(crate) fn sum(self, offset: u64, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0 ^ (offset / ALIGN) as u32, bytes)
    }
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) tag: Tag,
    pub(crate) flags: u8,
    pub(crate) meta_len: usize,
    pub(crate) body_len: usize,
}

impl Header {
    /// A pad that takes `bytes` in all.
    pub(crate) fn pad(bytes: u64, flags: u8) -> Header {
        Header {
            tag: Tag::Pad,
            flags,
            meta_len: 0,
            body_len: bytes as usize - HEADER_BYTES,
        }
    }

    /// Takes the header apart without looking at its checksum; `None` if no record begins like that.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let body_len = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]) as usize;
        let meta_len = u32::from_le_bytes([bytes[13], bytes[14], bytes[15], 0]) as usize;
        let tag = match bytes[12] & KIND_MASK {
            1 => Tag::Value,
            2 => Tag::Tombstone,
            3 => Tag::Pad,
            _ => return None,
        };
        Some(Header {
            tag,
            flags: bytes[12] & !KIND_MASK,
            meta_len,
            body_len,
        })
    }

    /// The header, its checksums still zero.
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[8..12].copy_from_slice(&(self.body_len as u32).to_le_bytes());
        bytes[13..16].copy_from_slice(&(self.meta_len as u32).to_le_bytes()[..3]);
        bytes[12] = self.tag as u8 | self.flags;
        bytes
    }

    /// Bytes from this record's start to the next one's.
    #[inline]
    pub(crate) fn record_len(&self) -> u64 {
        record_len(self.meta_len, self.body_len)
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Whether it is the mark behind the last durable batch.
    pub(crate) fn is_end_mark(&self) -> bool {
        self.tag == Tag::Pad && self.has(STARTS_BATCH) && self.body_len == 0
    }
}

/// Bytes that a record takes.
pub(crate) fn record_len(meta_len: usize, body_len: usize) -> u64 {
    ((HEADER_BYTES + meta_len + body_len) as u64).next_multiple_of(ALIGN)
}

/// Writes both checksums into `record`, which starts at `offset` of the log and is complete but for them.
pub(crate) fn put_sums(record: &mut [u8], header: &Header, seed: Seed, offset: u64) {
    let meta_end = HEADER_BYTES + header.meta_len;
    if header.tag != Tag::Pad {
        let body_sum = seed.sum(offset, &record[meta_end..meta_end + header.body_len]);
        record[4..8].copy_from_slice(&body_sum.to_le_bytes());
    }
    let header_sum = seed.sum(offset, &record[4..meta_end]);
    record[..4].copy_from_slice(&header_sum.to_le_bytes());
}

/// Whether header and meta, which `bytes` begin with, are what was written at `offset` of the log.
pub(crate) fn head_is_whole(bytes: &[u8], header: &Header, seed: Seed, offset: u64) -> bool {
    let sum = seed.sum(offset, &bytes[4..HEADER_BYTES + header.meta_len]);
    bytes[..4] == sum.to_le_bytes()
}

/// Whether the body is what was written.
pub(crate) fn body_is_whole(record: &[u8], header: &Header, seed: Seed, offset: u64) -> bool {
    let meta_end = HEADER_BYTES + header.meta_len;
    let sum = seed.sum(offset, &record[meta_end..meta_end + header.body_len]);
    record[4..8] == sum.to_le_bytes()
}
