//! Reads that failed, to be tried again: a disk or a network under it may come back, and so may file descriptors.

use std::time::{Duration, Instant};

use crate::Position;
use crate::keeper::Job;

/// How long after its first failure a read is tried again; each failure doubles it.
const WAIT_MIN: Duration = Duration::from_millis(if cfg!(test) { 4 } else { 250 });
/// The longest time between two tries.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// A record that after so many failures, which are about a minute, fails again counts as lost.
const RECORD_FAILURES_MAX: u32 = 8;

/// Whether a record is given up that fails after so many failures in a row.
pub(crate) fn is_given_up(failures: u32) -> bool {
    failures >= RECORD_FAILURES_MAX
}

/// Jobs that failed, each to be tried again at some time. Bounded by what asks for them, as the jobs are.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    waiting: Vec<Retry>,
}

#[derive(Debug)]
struct Retry {
    due: Instant,
    job: Job,
    /// How often it has failed in a row.
    failures: u32,
}

impl Retries {
    /// Puts off a job that has now failed so many times in a row.
    pub(crate) fn put_off(&mut self, job: Job, failures: u32) {
        let wait = WAIT_MIN
            .saturating_mul(2_u32.saturating_pow(failures - 1))
            .min(WAIT_MAX);
        let due = Instant::now() + wait;
        self.waiting.push(Retry { due, job, failures });
    }

    /// How long it is until the next try; `None` if nothing waits.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let due = self.waiting.iter().map(|retry| retry.due).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// A job that is to be tried again now, and how often it has failed.
    pub(crate) fn take_due(&mut self) -> Option<(Job, u32)> {
        let now = Instant::now();
        let at = self.waiting.iter().position(|retry| retry.due <= now)?;
        let Retry { job, failures, .. } = self.waiting.swap_remove(at);
        Some((job, failures))
    }

    /// Gives up emptying segment `number`, which is removed, and returns what else was to be read of it, each with how
    /// often it has failed.
    pub(crate) fn take_those_of(&mut self, number: u64) -> Vec<(Position, u32)> {
        let of_it = self.waiting.extract_if(.., |retry| match retry.job {
            Job::Load { number: of, .. } => of == number,
            Job::Offer(offer) => offer.number == number,
            _ => false,
        });
        let loads = of_it.filter_map(|retry| match retry.job {
            Job::Load { position, .. } => Some((position, retry.failures)),
            _ => None,
        });
        loads.collect()
    }
}
