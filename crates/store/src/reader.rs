//! Reading single records of a segment.

use std::io;

use crate::disk::{Disk, File};
use crate::record::{HEADER_BYTES, Header, body_is_whole, head_is_whole};
use crate::segment::{self, SegmentHeader};
use crate::{Damage, DamageKind, Event, Position};

/// There is memory for so long a record whether it is there or not: the file is not asked.
const BELIEVED_BYTES: u64 = 64 << 10;

/// A segment that is open for reading.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) header: SegmentHeader,
    pub(crate) file: Box<dyn File>,
}

impl Reader {
    /// Opens segment `number`; `None` if its header is damaged.
    pub(crate) fn open(disk: &dyn Disk, number: u64) -> io::Result<Option<Reader>> {
        let file = disk.open(&segment::name(number))?;
        let header = SegmentHeader::read(file.as_ref(), number)?;
        Ok(header.map(|header| Reader { header, file }))
    }

    /// Meta and body of the record at `position`; `None` if they are damaged.
    pub(crate) fn record(&self, position: Position) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let offset = position.offset();
        let at = self.header.file_offset(offset);
        // What an index says of great lengths is believed no further than the file goes.
        let bytes = match position.len_max() {
            bytes if bytes <= BELIEVED_BYTES => bytes,
            bytes => bytes.min(self.file.len()?.saturating_sub(at)),
        };
        let mut record = vec![0; bytes as usize];
        let read = self.file.read_at(&mut record, at)?;
        record.truncate(read);
        let Some(header) = record.first_chunk().and_then(Header::decode) else {
            return Ok(None);
        };
        let meta_end = HEADER_BYTES + header.meta_len;
        let fits = header.record_len() <= record.len() as u64;
        let seed = self.header.seed();
        let is_whole =
            fits && head_is_whole(&record, &header, seed, offset) && body_is_whole(&record, &header, seed, offset);
        if !is_whole {
            return Ok(None);
        }
        let meta = record[HEADER_BYTES..meta_end].to_vec();
        record.truncate(meta_end + header.body_len);
        record.drain(..meta_end);
        Ok(Some((meta, record)))
    }

    /// The event for a record of this segment that cannot be had.
    pub(crate) fn lost(&self, position: Position, kind: DamageKind) -> Event {
        let at = self.header.file_offset(position.offset());
        lost(self.header.number, at, position, kind)
    }
}

/// The event for a record that cannot be had, at byte `offset` of segment `number`.
pub(crate) fn lost(number: u64, offset: u64, position: Position, kind: DamageKind) -> Event {
    Event::Lost {
        position,
        damage: Damage {
            file: segment::name(number),
            offset,
            bytes: position.rounded_len(),
            kind,
        },
    }
}
