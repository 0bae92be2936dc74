//! The keeper thread: reads bodies, seals segments, reads what is left of the oldest, and keeps a spare.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::disk::{Disk, File, is_full};
use crate::error::stopped;
use crate::index::{next_entry, read_entries};
use crate::record::{HEADER_BYTES, Header, body_is_whole, head_is_whole};
use crate::scan::{End, scan};
use crate::segment::{self, Footer, SPARE, SegmentHeader};
use crate::shared::{Note, Shared, lock};
use crate::{Damage, DamageKind, Durability, Event, Position, Stopped};

/// How long after a refusal a spare is asked for again.
const SPARE_RETRY: Duration = Duration::from_millis(250);
/// Segments kept open for reading.
const OPEN_MAX: usize = 8;

/// What the keeper is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// Read a body from segment `number`.
    Load { position: Position, number: u64 },
    /// Write the index of segment `number`, whose records end at `end` of the log.
    Seal { number: u64, end: u64 },
    /// Read about `bytes` of values of segment `number`, which ends at `end` of the log, from byte `from` of its index.
    Offer {
        number: u64,
        end: u64,
        from: usize,
        bytes: usize,
    },
    /// Make a spare.
    Spare,
    /// Remove the file of segment `number`.
    Remove { number: u64 },
}

/// The keeper's jobs. Bounded by what asks for them: loads have a limit, of all else there is one at a time.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    queue: Mutex<VecDeque<Job>>,
    wake: Condvar,
}

impl Jobs {
    pub(crate) fn push(&self, job: Job) {
        lock(&self.queue).push_back(job);
        self.wake.notify_one();
    }

    pub(crate) fn clear(&self) {
        lock(&self.queue).clear();
    }

    /// Lets a keeper that waits see that the log ends.
    pub(crate) fn wake(&self) {
        let _queue = lock(&self.queue);
        self.wake.notify_one();
    }

    /// The next job; `None` if there is none within `patience`, or none at all and the log ends.
    fn next(&self, shared: &Shared, patience: Option<Duration>) -> Option<Job> {
        let queue = lock(&self.queue);
        let waits = |queue: &mut VecDeque<Job>| queue.is_empty() && !shared.is_stopping();
        let mut queue = match patience {
            None => self
                .wake
                .wait_while(queue, waits)
                .unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                self.wake
                    .wait_timeout_while(queue, time, waits)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        };
        queue.pop_front()
    }
}

/// The keeper thread's state.
#[derive(Debug)]
pub(crate) struct Keeper {
    disk: Arc<dyn Disk>,
    shared: Arc<Shared>,
    durability: Durability,
    segment_bytes: u64,
    /// Segments open for reading, the one used last at the end.
    open: VecDeque<Arc<Reader>>,
    /// Index of the segment that is being emptied.
    offered: Option<(u64, Vec<u8>)>,
    /// Whether a spare was refused and is to be tried again.
    spare_is_due: bool,
}

/// A segment that is open for reading.
#[derive(Debug)]
struct Reader {
    header: SegmentHeader,
    file: Box<dyn File>,
}

impl Keeper {
    pub(crate) fn new(disk: Arc<dyn Disk>, shared: Arc<Shared>, durability: Durability, segment_bytes: u64) -> Keeper {
        Keeper {
            disk,
            shared,
            durability,
            segment_bytes,
            open: VecDeque::new(),
            offered: None,
            spare_is_due: false,
        }
    }

    pub(crate) fn spawn(self, jobs: Arc<Jobs>) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new()
            .name("log-keeper".into())
            .spawn(move || self.run(&jobs))
    }

    fn run(mut self, jobs: &Jobs) {
        loop {
            let patience = self.spare_is_due.then_some(SPARE_RETRY);
            let outcome = match jobs.next(&self.shared, patience) {
                Some(job) => self.work(job),
                None if self.shared.is_stopping() => return,
                None => self.make_spare(),
            };
            if let Err(stopped) = outcome {
                self.shared.note(Note::Stopped(stopped));
            }
        }
    }

    fn work(&mut self, job: Job) -> Result<(), Stopped> {
        match job {
            Job::Load { position, number } => {
                let event = self.load(position, number);
                self.shared.note(Note::Event(event));
            }
            Job::Seal { number, end } => return self.seal(number, end),
            Job::Offer {
                number,
                end,
                from,
                bytes,
            } => self.offer(number, end, from, bytes),
            Job::Spare => return self.make_spare(),
            Job::Remove { number } => return self.remove(number),
        }
        Ok(())
    }

    pub(crate) fn load(&mut self, position: Position, number: u64) -> Event {
        match self.read(number, position) {
            Ok((_, body)) => Event::Loaded { position, body },
            Err(damage) => Event::Lost { position, damage },
        }
    }

    /// Meta and body of a record.
    fn read(&mut self, number: u64, position: Position) -> Result<(Vec<u8>, Vec<u8>), Damage> {
        let lost = |offset, bytes| Damage {
            file: segment::name(number),
            offset,
            bytes,
            kind: DamageKind::Record,
        };
        let reader = self
            .reader(number)
            .ok()
            .flatten()
            .ok_or_else(|| lost(0, position.rounded_len()))?;
        let at = reader.header.file_offset(position.offset());
        reader
            .record(position, at)
            .ok()
            .flatten()
            .ok_or_else(|| lost(at, position.rounded_len()))
    }

    /// The segment, open; `None` if its header is damaged.
    fn reader(&mut self, number: u64) -> io::Result<Option<Arc<Reader>>> {
        let known = self.open.iter().position(|reader| reader.header.number == number);
        let reader = match known.and_then(|at| self.open.remove(at)) {
            Some(reader) => reader,
            None => {
                let file = self.disk.open(&segment::name(number))?;
                let Some(header) = SegmentHeader::read(file.as_ref(), number)? else {
                    return Ok(None);
                };
                Arc::new(Reader { header, file })
            }
        };
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back(Arc::clone(&reader));
        Ok(Some(reader))
    }

    /// Writes the index. A segment that cannot be read stays without one.
    fn seal(&mut self, number: u64, end: u64) -> Result<(), Stopped> {
        let name = segment::name(number);
        let reader = match self.reader(number) {
            Ok(Some(reader)) => reader,
            Ok(None) => return Ok(()),
            // All of it was released, and it was removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(stopped(&name, "open")(error)),
        };
        let Ok(found) = scan(reader.file.as_ref(), &reader.header, End::At(end)) else {
            return Ok(());
        };
        match found.index.write(reader.file.as_ref(), &reader.header, end) {
            Ok(file_bytes) => self.shared.note(Note::Sealed { number, file_bytes }),
            Err(error) if is_full(&error) => {}
            Err(error) => return Err(stopped(&name, "write of the index")(error)),
        }
        Ok(())
    }

    /// Reads values of a segment that is being emptied.
    fn offer(&mut self, number: u64, end: u64, from: usize, bytes: usize) {
        if self.offered.as_ref().is_none_or(|(of, _)| *of != number) {
            self.offered = Some((number, self.entries(number, end).unwrap_or_default()));
        }
        let entries = self.offered.take().map(|(_, entries)| entries).unwrap_or_default();
        let base = self
            .reader(number)
            .ok()
            .flatten()
            .map_or(0, |reader| reader.header.base);
        let (mut at, mut read, mut records) = (from, 0, Vec::new());
        while read < bytes {
            let Some(entry) = next_entry(&entries, &mut at, base) else {
                break;
            };
            if !entry.tombstone {
                read += entry.position.rounded_len() as usize;
                records.push(self.offer_of(number, entry.position));
            }
        }
        let next = (at < entries.len()).then_some(at);
        self.offered = next.map(|_| (number, entries));
        self.shared.note(Note::Offered { number, records, next });
    }

    fn offer_of(&mut self, number: u64, position: Position) -> Event {
        match self.read(number, position) {
            Ok((meta, body)) => Event::Relocate { position, meta, body },
            Err(damage) => Event::Lost { position, damage },
        }
    }

    /// The index of a segment: its own, or made from its records.
    fn entries(&mut self, number: u64, end: u64) -> io::Result<Vec<u8>> {
        let Some(reader) = self.reader(number)? else {
            return Ok(Vec::new());
        };
        let file = reader.file.as_ref();
        if let Some(footer) = Footer::read(file, reader.header.seed())? {
            let mut entries = Vec::new();
            if read_entries(file, &footer, &mut entries)? {
                return Ok(entries);
            }
        }
        Ok(scan(file, &reader.header, End::At(end))?.index.entries().to_vec())
    }

    /// Each removal is safe before the next: a segment must not outlive the tombstones behind it.
    fn remove(&mut self, number: u64) -> Result<(), Stopped> {
        self.open.retain(|reader| reader.header.number != number);
        let name = segment::name(number);
        self.disk.remove(&name).map_err(stopped(&name, "remove"))?;
        self.durability.sync_directory(self.disk.as_ref())?;
        self.shared.note(Note::Removed);
        Ok(())
    }

    fn make_spare(&mut self) -> Result<(), Stopped> {
        let made = self.disk.create(SPARE, self.segment_bytes);
        self.spare_is_due = matches!(&made, Err(error) if is_full(error));
        match made {
            Ok(_) => self.shared.note(Note::SpareReady),
            Err(_) if self.spare_is_due => self.shared.note(Note::SpareRefused),
            Err(error) => return Err(stopped(SPARE, "create")(error)),
        }
        Ok(())
    }
}

impl Reader {
    /// Meta and body of the record at `at` in the file; `None` if they are damaged.
    fn record(&self, position: Position, at: u64) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut record = vec![0; position.len_max() as usize];
        let read = self.file.read_at(&mut record, at)?;
        record.truncate(read);
        let Some(header) = record.first_chunk().and_then(Header::decode) else {
            return Ok(None);
        };
        let (meta_end, offset) = (HEADER_BYTES + header.meta_len, position.offset());
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
}
