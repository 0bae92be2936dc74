//! The commit thread: writes a batch, syncs it, says so.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::batch::Batch;
use crate::disk::{Disk, File, is_full};
use crate::error::stopped;
use crate::record::{HEADER_BYTES, Header, STARTS_BATCH, Seed, put_sums};
use crate::schedule;
use crate::segment::{self, SegmentHeader, SpareFile};
use crate::shared::{Note, Shared};
use crate::{Durability, Stopped};

/// How long a write waits for space before it is tried again.
const SPACE_RETRY: Duration = Duration::from_millis(100);

/// What the commit thread is to do, in this order.
#[derive(Debug)]
pub(crate) struct Order {
    /// Begin a segment first.
    pub(crate) roll: Option<Roll>,
    /// Write these records to the newest segment.
    pub(crate) batch: Batch,
}

/// A segment that begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roll {
    pub(crate) header: SegmentHeader,
    /// The file that becomes it.
    pub(crate) from: SpareFile,
}

/// Runs orders until the log ends or an order fails.
pub(crate) fn run(mut committer: Committer, shared: &Shared) {
    schedule::run_soon();
    loop {
        let outcome = match shared.take_order() {
            Some(order) => committer.carry_out(order, shared),
            None if shared.is_stopping() => return,
            None => {
                thread::park();
                Ok(())
            }
        };
        if let Err(stopped) = outcome {
            return shared.note(Note::Stopped(stopped));
        }
    }
}

/// Writes orders to files.
#[derive(Debug)]
pub(crate) struct Committer {
    disk: Arc<dyn Disk>,
    durability: Durability,
    segment_bytes: u64,
    newest: Option<Newest>,
}

/// The segment that is being written.
#[derive(Debug)]
struct Newest {
    header: SegmentHeader,
    seed: Seed,
    file: Box<dyn File>,
    name: String,
    /// Offset in the log behind the last batch.
    end: u64,
    /// What a crash tore lies behind that, and must be hidden before anything else is written.
    is_torn: bool,
}

/// A segment that an earlier run left, to be written on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resumed {
    pub(crate) header: SegmentHeader,
    /// Offset in the log behind its last record.
    pub(crate) end: u64,
    /// Offset in the log behind all that a crash may have left there: the next batch starts here.
    pub(crate) used_to: u64,
}

impl Committer {
    pub(crate) fn new(disk: Arc<dyn Disk>, durability: Durability, segment_bytes: u64) -> Committer {
        Committer {
            disk,
            durability,
            segment_bytes,
            newest: None,
        }
    }

    /// Goes on with a segment of an earlier run.
    pub(crate) fn resume(&mut self, resumed: Resumed) -> io::Result<()> {
        let Resumed { header, end, used_to } = resumed;
        let name = segment::name(header.number);
        self.newest = Some(Newest {
            header,
            seed: header.seed(),
            file: self.disk.open(&name)?,
            name,
            end,
            is_torn: used_to > end,
        });
        Ok(())
    }

    /// Does what `order` says and reports it.
    pub(crate) fn carry_out(&mut self, order: Order, shared: &Shared) -> Result<(), Stopped> {
        let Order { roll, mut batch } = order;
        let before = self.newest.as_ref().map(|before| (before.header.number, before.end));
        if let Some(roll) = roll {
            self.begin_segment(roll)?;
        }
        self.write(&mut batch, shared)?;
        self.sync()?;
        if let Some(Roll { from, .. }) = roll {
            self.name_segment(from)?;
            shared.note(Note::Rolled { from, sealable: before });
        }
        shared.done(batch.end(), batch.into_buffer());
        if shared.has_order() {
            Ok(())
        } else {
            self.mark_end(shared)
        }
    }

    /// Writes the header into the file. It keeps its name until the first batch is safe, so that no crash leaves a
    /// segment without a whole header.
    fn begin_segment(&mut self, roll: Roll) -> Result<(), Stopped> {
        let Roll { header, from } = roll;
        let name = from.name();
        let file = self.disk.open(name).map_err(stopped(name, "open"))?;
        file.write_at(&header.encode(), 0).map_err(stopped(name, "write"))?;
        self.newest = Some(Newest {
            header,
            seed: header.seed(),
            file,
            name: name.to_owned(),
            end: header.base,
            is_torn: false,
        });
        Ok(())
    }

    fn write(&mut self, batch: &mut Batch, shared: &Shared) -> Result<(), Stopped> {
        let newest = self.newest.as_mut().expect("the owner rolls before the first batch");
        let follows_pad = batch.start() > newest.end;
        let ranges = batch.seal(newest.seed, follows_pad);
        if follows_pad {
            let pad = newest.pad(batch.start() - newest.end, 0);
            newest.write_at(&pad, newest.end, shared)?;
            if std::mem::take(&mut newest.is_torn) && self.durability == Durability::Disk {
                // Else a power cut might keep the batch without the pad, and whole records of the torn one come back.
                newest.file.sync().map_err(stopped(&newest.name, "sync"))?;
            }
        }
        for range in ranges {
            let offset = batch.start() + range.start as u64;
            newest.write_at(&batch.bytes()[range], offset, shared)?;
        }
        newest.end = batch.end();
        Ok(())
    }

    fn sync(&self) -> Result<(), Stopped> {
        let newest = self.newest.as_ref().expect("a batch was just written");
        match self.durability {
            Durability::Os => Ok(()),
            Durability::Disk => newest.file.sync().map_err(stopped(&newest.name, "sync")),
        }
    }

    fn name_segment(&mut self, from: SpareFile) -> Result<(), Stopped> {
        let newest = self.newest.as_mut().expect("a segment was just begun");
        newest.name = segment::name(newest.header.number);
        self.disk
            .rename(from.name(), &newest.name)
            .map_err(stopped(from.name(), "rename"))?;
        self.durability.sync_directory(self.disk.as_ref())
    }

    /// Says in the file that all so far is durable, where no next batch is about to. The next one overwrites it.
    fn mark_end(&self, shared: &Shared) -> Result<(), Stopped> {
        let newest = self.newest.as_ref().expect("a batch was just written");
        let fits = newest.header.file_offset(newest.end) + HEADER_BYTES as u64 <= self.segment_bytes;
        if fits {
            newest.write_at(&newest.pad(HEADER_BYTES as u64, STARTS_BATCH), newest.end, shared)?;
        }
        Ok(())
    }
}

impl Newest {
    /// Writes at `offset` of the log. Waits for space where the file system turns out to have none after all.
    fn write_at(&self, bytes: &[u8], offset: u64, shared: &Shared) -> Result<(), Stopped> {
        let at = self.header.file_offset(offset);
        loop {
            match self.file.write_at(bytes, at) {
                Err(error) if is_full(&error) && !shared.is_stopping() => thread::park_timeout(SPACE_RETRY),
                other => return other.map_err(stopped(&self.name, "write")),
            }
        }
    }

    /// The pad of `bytes` in all that stands where this segment ends.
    fn pad(&self, bytes: u64, flags: u8) -> [u8; HEADER_BYTES] {
        let header = Header::pad(bytes, flags);
        let mut pad = header.encode();
        put_sums(&mut pad, &header, self.seed, self.end);
        pad
    }
}

/// A name for the sake of the thread list.
pub(crate) fn spawn(committer: Committer, shared: Arc<Shared>) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name("log-commit".into())
        .spawn(move || run(committer, &shared))
}
