//! Opening: from files to a log with its threads.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::collect::Collection;
use super::{Log, Spare};
use crate::batch::Batch;
use crate::commit::{self, Committer, Resumed};
use crate::directory::Lock;
use crate::disk::{Disk, is_full};
use crate::error::io_error;
use crate::keeper::{Job, Keeper};
use crate::record::HEADER_BYTES;
use crate::recovery::{self, Found, Unsealed};
use crate::scan::used_to;
use crate::segment::{self, SPARE};
use crate::shared::Shared;
use crate::space::Space;
use crate::{OpenError, Options, Recovery};

impl Log {
    /// Opens the log on `disk`, which is known as `dir` in errors.
    pub(crate) fn start(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        options: Options,
        lock: Option<Lock>,
    ) -> Result<(Log, Recovery), OpenError> {
        let found = recovery::find(disk, dir)?;
        let mut end = found.end();
        let Found {
            recovery,
            segments,
            mut unsealed,
        } = found;
        let space = Space::new(segments);
        let next_number = space.newest().map_or(1, |newest| newest.number + 1);
        let spare = find_spare(disk.as_ref(), &options, &space);
        let spare = spare.map_err(io_error(&dir.join(SPARE), "allocating a segment"))?;
        let mut committer = Committer::new(Arc::clone(disk), options.durability, options.segment_bytes);
        let resumed = match spare {
            Spare::Refused => resume(disk.as_ref(), &options, &space, &mut unsealed),
            _ => Ok(None),
        };
        let resumed = resumed.map_err(io_error(dir, "reading the newest segment"))?;
        if let Some(resumed) = resumed {
            end = resumed.used_to;
            let opened = committer.resume(resumed);
            opened.map_err(io_error(dir, "opening the newest segment"))?;
        }
        let shared = Arc::new(Shared::new(end).map_err(io_error(dir, "making an eventfd"))?);
        let mut log = Log {
            batch: Batch::new(end),
            jobs: Arc::default(),
            spare,
            collection: Collection::default(),
            removals: VecDeque::new(),
            next_number,
            space,
            replacements_refused: 0,
            newest_is_open: resumed.is_some(),
            in_flight_from: end,
            changed: true,
            stopped: None,
            loads: 0,
            faults: 0,
            deferred_loads: VecDeque::new(),
            threads: Vec::new(),
            _lock: lock,
            shared,
            options,
        };
        for segment in unsealed {
            log.jobs.push(Job::Seal {
                number: segment.header.number,
                end: segment.end,
            });
        }
        if spare == Spare::Refused && log.spare_is_within_limit() {
            log.jobs.push(Job::Spare);
        }
        log.start_threads(committer, disk)
            .map_err(io_error(dir, "starting a thread"))?;
        Ok((log, recovery))
    }

    fn start_threads(&mut self, committer: Committer, disk: &Arc<dyn Disk>) -> io::Result<()> {
        let Options {
            durability,
            segment_bytes,
            ..
        } = self.options;
        self.threads.push(commit::spawn(committer, Arc::clone(&self.shared))?);
        let keeper = Keeper::new(Arc::clone(disk), Arc::clone(&self.shared), durability, segment_bytes);
        self.threads.push(keeper.spawn(Arc::clone(&self.jobs))?);
        Ok(())
    }
}

/// The spare that the last run left, or a new one.
fn find_spare(disk: &dyn Disk, options: &Options, space: &Space) -> io::Result<Spare> {
    let bytes = options.segment_bytes;
    let left = disk.open(SPARE).and_then(|file| file.len());
    if left.is_ok_and(|len| len >= bytes) {
        return Ok(Spare::Ready);
    }
    if space.total_bytes() + bytes > options.limit_bytes {
        return Ok(Spare::Refused);
    }
    match disk.create(SPARE, bytes) {
        Ok(_) => Ok(Spare::Ready),
        Err(error) if is_full(&error) => Ok(Spare::Refused),
        Err(error) => Err(error),
    }
}

/// Where no spare can be had, the rest of the newest segment is the reserve, over a restart as well: without it
/// nothing could be appended that frees space. Takes that segment out of those that are to be sealed.
fn resume(
    disk: &dyn Disk,
    options: &Options,
    space: &Space,
    unsealed: &mut Vec<Unsealed>,
) -> io::Result<Option<Resumed>> {
    let newest = space
        .newest()
        .filter(|newest| newest.file_bytes == options.segment_bytes);
    let is_newest = |segment: &mut Unsealed| newest.is_some_and(|newest| newest.number == segment.header.number);
    let Some(Unsealed { header, end }) = unsealed.pop_if(is_newest) else {
        return Ok(None);
    };
    let file = disk.open(&segment::name(header.number))?;
    let used_to = match used_to(file.as_ref(), &header, end)? {
        used_to if used_to == end => end,
        // A pad has to fit in between.
        used_to => used_to.max(end + HEADER_BYTES as u64),
    };
    Ok(Some(Resumed { header, end, used_to }))
}
