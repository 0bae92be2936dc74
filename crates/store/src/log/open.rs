//! Opening: from files to a log with its threads.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::collect::Collection;
use super::{Log, Spare};
use crate::batch::Batch;
use crate::commit::{self, Committer};
use crate::directory::Lock;
use crate::disk::{Disk, is_full};
use crate::error::io_error;
use crate::keeper::{Job, Keeper};
use crate::recovery::{self, Found};
use crate::segment::SPARE;
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
        let end = found.end();
        let Found {
            recovery,
            segments,
            unsealed,
        } = found;
        let shared = Arc::new(Shared::new(end).map_err(io_error(dir, "making an eventfd"))?);
        let mut log = Log {
            batch: Batch::new(end),
            jobs: Arc::default(),
            spare: Spare::Coming,
            collection: Collection::default(),
            removals: VecDeque::new(),
            next_number: segments.last().map_or(1, |newest| newest.number + 1),
            space: Space::new(segments),
            replacements_refused: 0,
            newest_is_open: false,
            in_flight_from: end,
            changed: true,
            stopped: None,
            loads: 0,
            deferred_loads: VecDeque::new(),
            threads: Vec::new(),
            _lock: lock,
            shared,
            options,
        };
        log.find_spare(disk.as_ref())
            .map_err(io_error(&dir.join(SPARE), "allocating a segment"))?;
        for segment in unsealed {
            log.jobs.push(Job::Seal {
                number: segment.number,
                end: segment.end,
            });
        }
        log.start_threads(disk).map_err(io_error(dir, "starting a thread"))?;
        Ok((log, recovery))
    }

    /// The spare that the last run left, or a new one.
    fn find_spare(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let bytes = self.options.segment_bytes;
        let left = disk.open(SPARE).and_then(|file| file.len());
        if left.is_ok_and(|len| len >= bytes) {
            self.spare = Spare::Ready;
            return Ok(());
        }
        self.request_spare_with(|| disk.create(SPARE, bytes).map(|_| ()))
    }

    fn request_spare_with(&mut self, create: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.spare = Spare::Refused;
        if !self.spare_is_within_limit() {
            return Ok(());
        }
        match create() {
            Ok(()) => self.spare = Spare::Ready,
            Err(error) if is_full(&error) => self.jobs.push(Job::Spare),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn start_threads(&mut self, disk: &Arc<dyn Disk>) -> io::Result<()> {
        let Options {
            durability,
            segment_bytes,
            ..
        } = self.options;
        let committer = Committer::new(Arc::clone(disk), durability, segment_bytes);
        self.threads.push(commit::spawn(committer, Arc::clone(&self.shared))?);
        let keeper = Keeper::new(Arc::clone(disk), Arc::clone(&self.shared), durability, segment_bytes);
        self.threads.push(keeper.spawn(Arc::clone(&self.jobs))?);
        Ok(())
    }
}
