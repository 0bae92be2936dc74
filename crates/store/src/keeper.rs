//! The keeper thread: reads bodies, seals segments, reads what is left of the oldest, and makes the files of segments
//! to come.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::disk::{Disk, is_full};
use crate::emptying::{Emptying, Offer};
use crate::error::stopped;
use crate::reader::{Reader, lost};
use crate::retries::{Retries, is_given_up};
use crate::scan::{End, scan};
use crate::segment::{self, SpareFile};
use crate::shared::{Note, Shared, lock};
use crate::{DamageKind, Durability, Event, Fault, Position, Stopped};

/// How long after a refusal a spare is asked for again.
const SPARE_RETRY: Duration = Duration::from_millis(250);
/// Segments kept open for reading.
const OPEN_MAX: usize = 8;
/// Bodies that were read and are not yet handed over, at most.
const READ_MAX: usize = 64;

/// What the keeper is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Job {
    /// Read a body from segment `number`.
    Load { position: Position, number: u64 },
    /// Write the index of segment `number`, whose records end at `end` of the log.
    Seal { number: u64, end: u64 },
    /// Read values of a segment that is being emptied.
    Offer(Offer),
    /// Make this file, or try until there is space for it.
    Spare(SpareFile),
    /// Remove a file.
    Remove(Removal),
}

/// The file of a segment that nobody needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    pub(crate) number: u64,
    /// As the log's owner counted them.
    pub(crate) file_bytes: u64,
}

/// The keeper's jobs. Bounded by what asks for them: loads have a limit, of all else there is one at a time, or one for
/// each segment.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    queue: Mutex<VecDeque<Job>>,
    wake: Condvar,
}

impl Jobs {
    pub(crate) fn push(&self, job: Job) {
        self.extend([job]);
    }

    /// Wakes the keeper once for all of them.
    pub(crate) fn extend(&self, jobs: impl IntoIterator<Item = Job>) {
        lock(&self.queue).extend(jobs);
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

    /// What there is to do; nothing if nothing comes within `patience`, or the log ends.
    fn take(&self, shared: &Shared, patience: Option<Duration>) -> VecDeque<Job> {
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
        std::mem::take(&mut queue)
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
    /// The segment that is being emptied.
    emptying: Option<Emptying>,
    /// What could not be read.
    retries: Retries,
    /// What was read and is to be handed over: the owner wakes once for some of them.
    read: Vec<Note>,
    /// The file for which there was no space.
    spare_due: Option<SpareFile>,
}

impl Keeper {
    pub(crate) fn new(disk: Arc<dyn Disk>, shared: Arc<Shared>, durability: Durability, segment_bytes: u64) -> Keeper {
        Keeper {
            disk,
            shared,
            durability,
            segment_bytes,
            open: VecDeque::new(),
            emptying: None,
            retries: Retries::default(),
            read: Vec::new(),
            spare_due: None,
        }
    }

    pub(crate) fn spawn(self, jobs: Arc<Jobs>) -> io::Result<thread::JoinHandle<()>> {
        thread::Builder::new()
            .name("log-keeper".into())
            .spawn(move || self.run(&jobs))
    }

    fn run(mut self, jobs: &Jobs) {
        loop {
            let todo = jobs.take(&self.shared, self.patience());
            if todo.is_empty() {
                if self.shared.is_stopping() {
                    return;
                }
                self.try_again().unwrap_or_else(|stopped| self.stop(stopped));
            }
            for job in todo {
                let takes_long = !matches!(job, Job::Load { .. });
                if takes_long || self.read.len() == READ_MAX {
                    self.hand_over();
                }
                self.work(job, 0).unwrap_or_else(|stopped| self.stop(stopped));
            }
            self.hand_over();
        }
    }

    fn stop(&mut self, stopped: Stopped) {
        self.shared.note(Note::Stopped(stopped));
    }

    fn hand_over(&mut self) {
        self.shared.note_all(&mut self.read);
    }

    /// How long the next job is waited for, at most.
    fn patience(&self) -> Option<Duration> {
        let spare = self.spare_due.map(|_| SPARE_RETRY);
        [spare, self.retries.wait()].into_iter().flatten().min()
    }

    fn try_again(&mut self) -> Result<(), Stopped> {
        if let Some((job, failures)) = self.retries.take_due() {
            self.work(job, failures)?;
        }
        self.make_due_spare()
    }

    /// Does a job that has failed so often so far.
    fn work(&mut self, job: Job, failures: u32) -> Result<(), Stopped> {
        match job {
            Job::Load { position, number } => self.load_or_put_off(position, number, failures),
            Job::Seal { number, end } => return self.seal(number, end),
            Job::Offer(offer) => self.offer(offer, failures),
            Job::Spare(file) => return self.make_spare(file),
            Job::Remove(removal) => return self.remove(removal),
        }
        Ok(())
    }

    fn load_or_put_off(&mut self, position: Position, number: u64, failures: u32) {
        let event = match self.load(position, number) {
            Ok(event) => event,
            // It was relocated or released, and its segment removed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                lost(number, 0, position, DamageKind::MissingSegment)
            }
            Err(_) if is_given_up(failures) => lost(number, 0, position, DamageKind::Unreadable),
            Err(_) => return self.retries.put_off(Job::Load { position, number }, failures + 1),
        };
        self.read.push(Note::Loaded(event));
    }

    /// Reads a body.
    pub(crate) fn load(&mut self, position: Position, number: u64) -> io::Result<Event> {
        let Some(reader) = self.reader(number)? else {
            return Ok(lost(number, 0, position, DamageKind::Record));
        };
        Ok(match reader.record(position)? {
            Some((_, body)) => Event::Loaded { position, body },
            None => reader.lost(position, DamageKind::Record),
        })
    }

    /// The segment, open; `None` if its header is damaged.
    fn reader(&mut self, number: u64) -> io::Result<Option<Arc<Reader>>> {
        let known = self.open.iter().position(|reader| reader.header.number == number);
        let reader = match known.and_then(|at| self.open.remove(at)) {
            Some(reader) => reader,
            None => match Reader::open(self.disk.as_ref(), number)? {
                Some(reader) => Arc::new(reader),
                None => return Ok(None),
            },
        };
        if self.open.len() == OPEN_MAX {
            self.open.pop_front();
        }
        self.open.push_back(Arc::clone(&reader));
        Ok(Some(reader))
    }

    /// Writes the index. A segment that cannot be read, or not whole, stays without one: whoever reads its records
    /// sees what they lack.
    fn seal(&mut self, number: u64, end: u64) -> Result<(), Stopped> {
        let Ok(Some(reader)) = self.reader(number) else {
            return Ok(());
        };
        let Ok(found) = scan(reader.file.as_ref(), &reader.header, End::At(end)) else {
            return Ok(());
        };
        if !found.damage.is_empty() {
            return Ok(());
        }
        match found.index.write(reader.file.as_ref(), &reader.header, end) {
            Ok(file_bytes) => self.shared.note(Note::Sealed { number, file_bytes }),
            Err(error) if is_full(&error) => {}
            Err(error) => return Err(stopped(&segment::name(number), "write of the index")(error)),
        }
        Ok(())
    }

    /// Reads values of the segment that is being emptied, now or later.
    fn offer(&mut self, offer: Offer, failures: u32) {
        let number = offer.number;
        match self.read_offer(&offer, failures) {
            Ok((records, next)) => self.shared.note(Note::Offered { number, records, next }),
            Err(error) => {
                self.shared.note(Note::Fault(Fault::Unreadable {
                    file: segment::name(number),
                    reason: error.to_string(),
                }));
                self.retries.put_off(Job::Offer(offer), failures + 1);
            }
        }
    }

    fn read_offer(&mut self, offer: &Offer, failures: u32) -> io::Result<(Vec<Event>, Option<usize>)> {
        let emptying = self
            .emptying
            .take()
            .filter(|emptying| emptying.number() == offer.number);
        let emptying = match emptying {
            Some(emptying) => emptying,
            None => {
                let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its header is damaged");
                Emptying::begin(self.reader(offer.number)?.ok_or_else(damaged)?, offer)?
            }
        };
        self.emptying.insert(emptying).read(offer, failures)
    }

    /// Each removal is safe before the next: a segment must not outlive the tombstones behind it. What was to be read
    /// of it is tried a last time.
    fn remove(&mut self, removal: Removal) -> Result<(), Stopped> {
        let Removal { number, file_bytes } = removal;
        for (position, failures) in self.retries.take_those_of(number) {
            self.load_or_put_off(position, number, failures);
        }
        self.open.retain(|reader| reader.header.number != number);
        self.emptying.take_if(|emptying| emptying.number() == number);
        let name = segment::name(number);
        self.disk.remove(&name).map_err(stopped(&name, "remove"))?;
        self.durability.sync_directory(self.disk.as_ref())?;
        self.shared.note(Note::Removed { file_bytes });
        self.make_due_spare()
    }

    fn make_due_spare(&mut self) -> Result<(), Stopped> {
        self.spare_due.take().map_or(Ok(()), |file| self.make_spare(file))
    }

    fn make_spare(&mut self, file: SpareFile) -> Result<(), Stopped> {
        let made = self.disk.create(file.name(), self.segment_bytes);
        self.spare_due = matches!(&made, Err(error) if is_full(error)).then_some(file);
        match made {
            Ok(_) => self.shared.note(Note::SpareReady(file)),
            Err(_) if self.spare_due.is_some() => self.shared.note(Note::SpareRefused),
            Err(error) => return Err(stopped(file.name(), "create")(error)),
        }
        Ok(())
    }
}
