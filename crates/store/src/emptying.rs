//! Reading what is in the oldest segment, which is then offered to its owner.
//!
//! What cannot be read is not gone: a segment goes only after all of its records were offered or told as lost. One
//! that cannot be opened, or whose index can be had neither from its end nor from its records, stays, and is tried
//! again for as long as it takes, since nobody could say which records went with it. The files behind it stay as well
//! then, and at its limit the log is full. Once it can be read, the reserve has room for what is live in it.

use std::io;
use std::sync::Arc;

use crate::index::{next_entry, read_entries};
use crate::reader::Reader;
use crate::retries::is_given_up;
use crate::scan::{End, scan};
use crate::segment::{self, Footer};
use crate::{Damage, DamageKind, Event, Fault, Position};

/// What is to be offered of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) number: u64,
    /// Where its records end in the log.
    pub(crate) end: u64,
    /// Byte of its index at which the values to be offered begin.
    pub(crate) from: usize,
    /// Bytes of values to be offered, about.
    pub(crate) bytes: usize,
}

/// The segment that is being emptied.
#[derive(Debug)]
pub(crate) struct Emptying {
    reader: Arc<Reader>,
    /// Its index.
    entries: Vec<u8>,
    /// What the index lacks, not told yet.
    damage: Vec<Damage>,
}

impl Emptying {
    /// Reads the index of the segment, or makes one from its records.
    pub(crate) fn begin(reader: Arc<Reader>, offer: &Offer) -> io::Result<Emptying> {
        if let Ok(Some(entries)) = index_of(&reader) {
            let damage = Vec::new();
            return Ok(Emptying {
                reader,
                entries,
                damage,
            });
        }
        let found = scan(reader.file.as_ref(), &reader.header, End::At(offer.end))?;
        let file = segment::name(offer.number);
        let damage = found.damage.into_iter().map(|range| Damage {
            file: file.clone(),
            offset: range.start,
            bytes: range.end - range.start,
            kind: DamageKind::Record,
        });
        Ok(Emptying {
            damage: damage.collect(),
            entries: found.index.into_entries(),
            reader,
        })
    }

    pub(crate) fn number(&self) -> u64 {
        self.reader.header.number
    }

    /// What is to be offered, after so many `failures` to read it, and the byte of the index at which the rest begins.
    pub(crate) fn read(&mut self, offer: &Offer, failures: u32) -> io::Result<(Vec<Event>, Option<usize>)> {
        let (mut at, mut read, mut events) = (offer.from, 0, Vec::new());
        while read < offer.bytes {
            let Some(entry) = next_entry(&self.entries, &mut at, self.reader.header.base) else {
                break;
            };
            if !entry.tombstone {
                read += entry.position.rounded_len() as usize;
                events.push(self.record(entry.position, failures)?);
            }
        }
        events.extend(self.damage.drain(..).map(|damage| Event::Fault(Fault::Damaged(damage))));
        Ok((events, (at < self.entries.len()).then_some(at)))
    }

    fn record(&self, position: Position, failures: u32) -> io::Result<Event> {
        match self.reader.record(position) {
            Ok(Some((meta, body))) => Ok(Event::Relocate { position, meta, body }),
            Ok(None) => Ok(self.reader.lost(position, DamageKind::Record)),
            Err(_) if is_given_up(failures) => Ok(self.reader.lost(position, DamageKind::Unreadable)),
            Err(error) => Err(error),
        }
    }
}

/// The entries of the segment's own index; `None` if it has none, or that is damaged.
fn index_of(reader: &Reader) -> io::Result<Option<Vec<u8>>> {
    let Some(footer) = Footer::read(reader.file.as_ref(), &reader.header)? else {
        return Ok(None);
    };
    let mut entries = Vec::new();
    let is_whole = read_entries(reader.file.as_ref(), &footer, &mut entries)?;
    Ok(is_whole.then_some(entries))
}
