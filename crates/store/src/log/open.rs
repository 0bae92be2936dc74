//! Opening: from files to a log with its threads.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::Log;
use super::collect::Collection;
use super::spares::{Spares, State};
use crate::batch::Batch;
use crate::commit::{self, Committer, Resumed};
use crate::directory::Lock;
use crate::disk::{Disk, is_full};
use crate::error::io_error;
use crate::keeper::{Job, Keeper};
use crate::record::HEADER_BYTES;
use crate::recovery::{self, Found, Unsealed};
use crate::scan::used_to;
use crate::segment::{self, SpareFile};
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
        let spares = find_spares(disk.as_ref(), &options, &space);
        let spares = spares.map_err(io_error(dir, "allocating a segment"))?;
        let mut committer = Committer::new(Arc::clone(disk), options.durability, options.segment_bytes);
        let resumed = if spares.is_full {
            resume(disk.as_ref(), &options, &space, &mut unsealed)
        } else {
            Ok(None)
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
            spares,
            collection: Collection::default(),
            removals: VecDeque::new(),
            next_number,
            space,
            moves_refused: 0,
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
        log.request_spares();
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

/// The files that the last run left to become segments, or new ones.
fn find_spares(disk: &dyn Disk, options: &Options, space: &Space) -> io::Result<Spares> {
    let bytes = options.segment_bytes;
    let mut spares = Spares::default();
    for file in SpareFile::ALL {
        let left = disk.open(file.name()).and_then(|file| file.len());
        if left.is_ok_and(|len| len >= bytes) {
            spares.set(file, State::Ready);
        }
    }
    while let Some(file) = spares.wanted() {
        if !options.allow_another(space.total_bytes(), &spares) {
            break;
        }
        match disk.create(file.name(), bytes) {
            Ok(_) => spares.set(file, State::Ready),
            Err(error) if is_full(&error) => break,
            Err(error) => return Err(error),
        }
    }
    spares.is_full = !spares.has_next();
    Ok(spares)
}

/// Where no spare can be had, the log goes on in the rest of the newest segment, over a restart as well: without it
/// no tombstone could be appended. Takes that segment out of those that are to be sealed.
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
