//! Reading a segment record by record, where it has no index or a damaged one.
//!
//! What a crash left incomplete must be told from what was damaged later. A record that starts a batch says that
//! everything before it was durable when it was written, and so does the next segment: bytes before such a witness
//! that are no record were damaged, they alone are lost. Bytes after the last witness are of a batch that no sync had
//! covered: the log ends at the first of them that is no record, or at the start of the group that it belongs to.

use std::io;
use std::ops::Range;

use crate::disk::File;
use crate::index::{Index, Length};
use crate::position::ALIGN;
use crate::record::{
    FOLLOWS_PAD, GROUP_GOES_ON, HEADER_BYTES, Header, STARTS_BATCH, Tag, body_is_whole, head_is_whole,
};
use crate::segment::{RECORDS_AT, SegmentHeader};

/// Bytes read at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// Zeros skipped at once while looking for the next record.
const ZEROS_BYTES: usize = 4096;

/// What a scan found.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) index: Index,
    /// Offset in the log at which the segment's records end.
    pub(crate) end: u64,
    /// Ranges of the file that were durable and are no record any more.
    pub(crate) damage: Vec<Range<u64>>,
    /// Whole records that were dropped behind an incomplete one.
    pub(crate) torn_records: u64,
}

/// Where the records of a segment must end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    /// At this offset of the log, as the next segment says.
    At(u64),
    /// Unknown: it is the last segment.
    Open,
}

/// Reads the records of `file`.
pub(crate) fn scan(file: &dyn File, segment: &SegmentHeader, end: End) -> io::Result<Scan> {
    let file_bytes = file.len()?;
    let limit = match end {
        End::At(offset) => segment.file_offset(offset).min(file_bytes),
        End::Open => file_bytes,
    };
    let window = Window {
        file,
        bytes: Vec::new(),
        start: 0,
        limit,
    };
    let mut scanner = Scanner::new(segment, window);
    match end {
        End::Open => scanner.run_to_end_mark().map(|()| scanner.cut()),
        End::At(offset) => scanner
            .run(false)
            .map(|()| scanner.complete(segment.file_offset(offset))),
    }
}

/// Offset in the log, from `from` on, behind which `file` holds nothing but zeros.
pub(crate) fn used_to(file: &dyn File, segment: &SegmentHeader, from: u64) -> io::Result<u64> {
    let start = segment.file_offset(from);
    let mut window = vec![0; WINDOW_BYTES as usize];
    let mut end = file.len()?;
    while end > start {
        let at = end.saturating_sub(WINDOW_BYTES).max(start);
        let read = file.read_at(&mut window[..(end - at) as usize], at)?;
        if let Some(last) = window[..read].iter().rposition(|byte| *byte != 0) {
            return Ok(segment.log_offset((at + last as u64 + 1).next_multiple_of(ALIGN)));
        }
        end = at;
    }
    Ok(from)
}

#[derive(Debug)]
struct Scanner<'a> {
    segment: &'a SegmentHeader,
    window: Window<'a>,
    index: Index,
    /// Where the next record is looked for, in the file.
    at: u64,
    /// End of the last whole record.
    whole_to: u64,
    /// Where the group that is open began.
    group: Option<Place>,
    /// Ranges that are no record and have no witness yet.
    doubts: Vec<Range<u64>>,
    /// Where the log ends if the first of `doubts` gets no witness.
    cut: Option<Place>,
    /// Where the pad was that the last batch follows, if it is not there: written with the batch, it was lost alone.
    lost_pad: Option<Range<u64>>,
    /// Whole records since the first of `doubts`.
    records_in_doubt: u64,
    damage: Vec<Range<u64>>,
}

/// A place that the scan can be cut back to.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    length: Length,
}

impl<'a> Scanner<'a> {
    fn new(segment: &'a SegmentHeader, window: Window<'a>) -> Scanner<'a> {
        Scanner {
            segment,
            window,
            index: Index::default(),
            at: RECORDS_AT,
            whole_to: RECORDS_AT,
            group: None,
            doubts: Vec::new(),
            cut: None,
            lost_pad: None,
            records_in_doubt: 0,
            damage: Vec::new(),
        }
    }

    fn run_to_end_mark(&mut self) -> io::Result<()> {
        self.run(true)
    }

    fn run(&mut self, stop_at_end_mark: bool) -> io::Result<()> {
        while self.at < self.window.limit {
            let Some(header) = self.window.header(self.segment, self.at)? else {
                let next = self.window.next_header(self.segment, self.at + ALIGN)?;
                self.doubt(self.at..next);
                self.at = next;
                continue;
            };
            if header.has(STARTS_BATCH) {
                self.witness(header.has(FOLLOWS_PAD));
            }
            if stop_at_end_mark && header.is_end_mark() {
                break;
            }
            self.take(&header)?;
        }
        Ok(())
    }

    /// Takes the whole header at `self.at`, whose body may yet be damaged.
    fn take(&mut self, header: &Header) -> io::Result<()> {
        let next = self.at + header.record_len();
        if header.has(GROUP_GOES_ON) && self.group.is_none() {
            self.group = Some(self.place());
        }
        if header.tag != Tag::Pad {
            let offset = self.segment.log_offset(self.at);
            let record = self.window.get(self.at, header.record_len())?;
            if body_is_whole(record, header, self.segment.seed(), offset) {
                let meta = &record[HEADER_BYTES..HEADER_BYTES + header.meta_len];
                self.index.push(self.segment.base, offset, header, meta);
                self.records_in_doubt += u64::from(self.cut.is_some());
                self.whole_to = next;
            } else {
                self.doubt(self.at..next);
            }
        } else {
            self.whole_to = next;
        }
        if !header.has(GROUP_GOES_ON) {
            self.group = None;
        }
        self.at = next;
        Ok(())
    }

    fn doubt(&mut self, range: Range<u64>) {
        if self.cut.is_none() {
            self.cut = Some(self.group.unwrap_or(self.place()));
        }
        self.doubts.push(range);
    }

    /// A batch starts at `self.at`: what was in doubt before it was durable, and is damaged.
    fn witness(&mut self, follows_pad: bool) {
        let at = self.at;
        self.lost_pad = self.doubts.pop_if(|range| follows_pad && range.end == at);
        self.damage.append(&mut self.doubts);
        self.cut = None;
        self.group = None;
        self.records_in_doubt = 0;
    }

    /// The next record's, and with a batch goes its pad.
    fn place(&self) -> Place {
        let pad = self.lost_pad.as_ref().filter(|pad| pad.end == self.at);
        Place {
            at: pad.map_or(self.at, |pad| pad.start),
            length: self.index.length(),
        }
    }

    /// The last segment: what no witness speaks for is dropped from the first doubt on.
    fn cut(&mut self) -> Scan {
        let whole_to = Place {
            at: self.whole_to,
            length: self.index.length(),
        };
        let end = self.cut.or(self.group).unwrap_or(whole_to);
        self.index.cut(end.length);
        self.finish(end.at, self.records_in_doubt)
    }

    /// Any other segment: the next one is the witness for all of it, up to `end`.
    fn complete(&mut self, end: u64) -> Scan {
        self.damage.append(&mut self.doubts);
        if self.window.limit < end {
            self.damage.push(self.window.limit..end);
        }
        self.finish(end, 0)
    }

    fn finish(&mut self, end: u64, torn_records: u64) -> Scan {
        Scan {
            index: std::mem::take(&mut self.index),
            end: self.segment.log_offset(end),
            damage: std::mem::take(&mut self.damage),
            torn_records,
        }
    }
}

/// A part of a file in memory that moves forward.
#[derive(Debug)]
struct Window<'f> {
    file: &'f dyn File,
    bytes: Vec<u8>,
    start: u64,
    limit: u64,
}

impl Window<'_> {
    /// `len` bytes at `at`, which must end before the limit.
    fn get(&mut self, at: u64, len: u64) -> io::Result<&[u8]> {
        let end = self.start + self.bytes.len() as u64;
        if at < self.start || at + len > end {
            let wanted = len.max(WINDOW_BYTES).min(self.limit - at);
            self.bytes.resize(wanted as usize, 0);
            let read = self.file.read_at(&mut self.bytes, at)?;
            self.bytes.truncate(read);
            self.start = at;
        }
        let from = (at - self.start) as usize;
        self.bytes
            .get(from..from + len as usize)
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// The header at `at` if one is there, whole, and its record ends before the limit.
    fn header(&mut self, segment: &SegmentHeader, at: u64) -> io::Result<Option<Header>> {
        if at + HEADER_BYTES as u64 > self.limit {
            return Ok(None);
        }
        let bytes = self.get(at, HEADER_BYTES as u64)?;
        let Some(header) = bytes.first_chunk().and_then(Header::decode) else {
            return Ok(None);
        };
        if at + header.record_len() > self.limit {
            return Ok(None);
        }
        let head = self.get(at, (HEADER_BYTES + header.meta_len) as u64)?;
        Ok(head_is_whole(head, &header, segment.seed(), segment.log_offset(at)).then_some(header))
    }

    /// The first place from `at` on with a whole header; the limit if there is none.
    fn next_header(&mut self, segment: &SegmentHeader, mut at: u64) -> io::Result<u64> {
        while at + HEADER_BYTES as u64 <= self.limit {
            if self.is_zero(at)? {
                at += ZEROS_BYTES as u64 - HEADER_BYTES as u64;
            } else if self.header(segment, at)?.is_some() {
                return Ok(at);
            } else {
                at += ALIGN;
            }
        }
        Ok(self.limit)
    }

    fn is_zero(&mut self, at: u64) -> io::Result<bool> {
        if at + ZEROS_BYTES as u64 > self.limit {
            return Ok(false);
        }
        Ok(self.get(at, ZEROS_BYTES as u64)?.iter().all(|byte| *byte == 0))
    }
}
