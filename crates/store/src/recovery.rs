//! What was found in the log's files when it was opened.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, File};
use crate::error::io_error;
use crate::index::{next_entry, read_entries};
use crate::live::Live;
use crate::position::ALIGN;
use crate::scan::{End, Scan, scan};
use crate::segment::{self, Footer, SegmentHeader};
use crate::space::Segment;
use crate::{Damage, DamageKind, OpenError, Position};

/// A record as it is replayed: its body is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered<'a> {
    /// Where it stands.
    pub position: Position,
    /// Whether it is a tombstone. Only the others are to be released.
    pub tombstone: bool,
    /// As it was appended.
    pub meta: &'a [u8],
    /// Bytes of its body, which [`Log::load`](crate::Log::load) reads.
    pub body_len: usize,
}

/// What a replay found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records replayed.
    pub records: u64,
    /// Everything that did not read back as it was written.
    pub damage: Vec<Damage>,
    /// Records at the end of the log that were dropped because one before them, of the same batch, was incomplete:
    /// none of them had become durable.
    pub torn_records: u64,
}

/// The records of a log that was opened, to be replayed once.
#[derive(Debug)]
pub struct Recovery {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    sources: Vec<Source>,
    report: Report,
}

/// Where the entries of one segment come from.
#[derive(Debug)]
struct Source {
    header: SegmentHeader,
    end: u64,
    entries: Entries,
}

#[derive(Debug)]
enum Entries {
    InFile(Footer),
    Read(Vec<u8>),
}

impl Entries {
    fn len(&self) -> u64 {
        match self {
            Entries::InFile(footer) => footer.index_len,
            Entries::Read(entries) => entries.len() as u64,
        }
    }
}

/// Where the first record of a new log stands: not at zero, which is before all records.
const FIRST_OFFSET: u64 = 4096;

/// So many of the segments that are missing in one place are named.
const MISSING_NAMED_MAX: usize = 16;

/// A segment found at opening that has no index yet.
#[derive(Debug)]
pub(crate) struct Unsealed {
    pub(crate) header: SegmentHeader,
    pub(crate) end: u64,
}

/// The log's files as they were found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) recovery: Recovery,
    pub(crate) segments: Vec<Segment>,
    pub(crate) unsealed: Vec<Unsealed>,
}

impl Recovery {
    /// Hands every record to `each`, in the order of their positions.
    ///
    /// # Errors
    /// [`OpenError::Io`] if a file cannot be read.
    pub fn replay(mut self, mut each: impl FnMut(Recovered<'_>)) -> Result<Report, OpenError> {
        let mut buffer = Vec::new();
        for source in std::mem::take(&mut self.sources) {
            let name = segment::name(source.header.number);
            let entries = match &source.entries {
                Entries::Read(entries) => entries,
                Entries::InFile(footer) => {
                    self.read(&source, footer, &mut buffer)
                        .map_err(io_error(&self.dir.join(&name), "reading the index"))?;
                    &buffer
                }
            };
            let mut at = 0;
            while let Some(record) = next_entry(entries, &mut at, source.header.base) {
                if record.position.offset() >= source.end {
                    // Right by its checksum, and yet of no segment: nobody could wait for such a record.
                    self.report.damage.push(damage(&name, 0..0, DamageKind::Index));
                    break;
                }
                self.report.records += 1;
                each(record);
            }
        }
        Ok(self.report)
    }

    /// Reads the index, or the records if that is damaged.
    fn read(&mut self, source: &Source, footer: &Footer, buffer: &mut Vec<u8>) -> io::Result<()> {
        let name = segment::name(source.header.number);
        let file = self.disk.open(&name)?;
        let file = file.as_ref();
        if read_entries(file, footer, buffer)? {
            return Ok(());
        }
        self.report.damage.push(damage(
            &name,
            footer.index_at..footer.index_at + footer.index_len,
            DamageKind::Index,
        ));
        let found = scan(file, &source.header, End::At(source.end))?;
        self.note(&name, &found);
        buffer.clear();
        buffer.extend_from_slice(found.index.entries());
        Ok(())
    }

    fn note(&mut self, name: &str, found: &Scan) {
        let ranges = found.damage.iter().cloned();
        self.report
            .damage
            .extend(ranges.map(|range| damage(name, range, DamageKind::Record)));
        self.report.torn_records += found.torn_records;
    }
}

/// Reads the headers and footers of all segments, and the records of those that have no index.
pub(crate) fn find(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Found, OpenError> {
    let names = disk.list().map_err(io_error(dir, "listing the directory"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
    numbers.sort_unstable();
    let recovery = Recovery {
        disk: Arc::clone(disk),
        dir: dir.to_owned(),
        sources: Vec::new(),
        report: Report::default(),
    };
    let mut found = Found {
        recovery,
        segments: Vec::new(),
        unsealed: Vec::new(),
    };
    // One at a time: a log may have more segments than a process may have open files.
    let mut opened = numbers
        .into_iter()
        .map(|number| Opened::open(disk.as_ref(), dir, number))
        .peekable();
    while let Some(segment) = opened.next().transpose()? {
        let name = segment::name(segment.number);
        let next = opened
            .peek()
            .and_then(|next| next.as_ref().ok())
            .and_then(|next| next.header);
        found
            .add(segment, next)
            .map_err(io_error(&dir.join(name), "reading the records"))?;
    }
    Ok(found)
}

/// A segment file of which the header has been read.
struct Opened {
    number: u64,
    file: Box<dyn File>,
    file_bytes: u64,
    header: Option<SegmentHeader>,
}

impl Opened {
    fn open(disk: &dyn Disk, dir: &Path, number: u64) -> Result<Opened, OpenError> {
        let name = segment::name(number);
        Opened::read(disk, &name, number).map_err(io_error(&dir.join(name), "reading the header"))
    }

    fn read(disk: &dyn Disk, name: &str, number: u64) -> io::Result<Opened> {
        let file = disk.open(name)?;
        let header = SegmentHeader::read(file.as_ref(), number)?;
        Ok(Opened {
            number,
            file_bytes: file.len()?,
            file,
            header,
        })
    }
}

impl Found {
    /// Offset in the log at which the next record may stand.
    pub(crate) fn end(&self) -> u64 {
        self.segments.last().map_or(FIRST_OFFSET, |segment| segment.end)
    }

    /// Adds the segment that follows all added before.
    fn add(&mut self, opened: Opened, next_header: Option<SegmentHeader>) -> io::Result<()> {
        self.name_missing(opened.number);
        let Opened {
            number,
            file,
            file_bytes,
            header,
        } = opened;
        let Some(header) = header.filter(|header| header.base >= self.end()) else {
            let name = segment::name(number);
            self.recovery
                .report
                .damage
                .push(damage(&name, 0..file_bytes, DamageKind::SegmentHeader));
            let base = self.end();
            let end = next_header.map_or(base + file_bytes.next_multiple_of(ALIGN), |next| next.base.max(base));
            self.segments.push(Segment {
                number,
                base,
                end,
                live: Live::default(),
                index_bytes: 0,
                file_bytes,
            });
            return Ok(());
        };
        let (entries, live, end) = match Footer::read(file.as_ref(), &header)? {
            Some(footer) => (Entries::InFile(footer), footer.live, footer.end),
            None => self.scan(file.as_ref(), &header, next_header)?,
        };
        let index_bytes = entries.len();
        self.segments.push(Segment {
            number,
            base: header.base,
            end,
            live,
            index_bytes,
            file_bytes,
        });
        self.recovery.sources.push(Source { header, end, entries });
        Ok(())
    }

    fn scan(
        &mut self,
        file: &dyn File,
        header: &SegmentHeader,
        next: Option<SegmentHeader>,
    ) -> io::Result<(Entries, Live, u64)> {
        let end = next.map_or(End::Open, |next| End::At(next.previous_end.max(header.base)));
        let found = scan(file, header, end)?;
        self.recovery.note(&segment::name(header.number), &found);
        self.unsealed.push(Unsealed {
            header: *header,
            end: found.end,
        });
        let live = found.index.live();
        Ok((Entries::Read(found.index.into_entries()), live, found.end))
    }

    fn name_missing(&mut self, number: u64) {
        let Some(before) = self.segments.last().map(|segment| segment.number) else {
            return;
        };
        let damage_of = |missing| damage(&segment::name(missing), 0..0, DamageKind::MissingSegment);
        let missing = (before + 1..number).take(MISSING_NAMED_MAX);
        self.recovery.report.damage.extend(missing.map(damage_of));
    }
}

fn damage(file: &str, range: Range<u64>, kind: DamageKind) -> Damage {
    Damage {
        file: file.to_owned(),
        offset: range.start,
        bytes: range.end - range.start,
        kind,
    }
}
