//! The order of an experiment whose blocks do each of its jobs once (rule 9): what is done already is not done again, what
//! has failed is not tried again, and what there is is kept after each job.

use std::time::Instant;

use tempfile::TempDir;

use crate::environment::{self, Environment};
use crate::gateway::left;
use crate::interrupt;
use crate::privacy::without_paths;
use crate::rtt::{Progress, Step};

/// What a run keeps of its jobs.
pub(crate) trait Record {
    /// What is done.
    type Job: Copy + PartialEq;
    /// What comes of it.
    type Seen;

    /// Whether a job of a block is done.
    fn has(&self, block: u32, job: Self::Job) -> bool;

    /// Takes what came of a job, which began so long after the run.
    fn add(&mut self, block: u32, job: Self::Job, started_s: f64, seen: Self::Seen);

    /// Takes why something is not measured.
    fn skip(&mut self, reason: String);

    /// Jobs of all blocks that are done.
    fn jobs_done(&self) -> usize;

    /// The machine, before and after.
    fn environment(&mut self) -> &mut Environment;
}

/// Keeps what there is.
pub(crate) type Keep<'a, R> = &'a mut dyn FnMut(&R) -> Result<(), String>;

/// Does so many blocks. `order` is that of the jobs of a block, `name` one's in the words of progress.
///
/// # Errors
/// The run was told to end, or what was measured cannot be kept; what a job has seen until then is not kept.
pub(crate) fn each<R: Record>(
    (record, started): (&mut R, Instant),
    (blocks, order): (u32, impl Fn(u32) -> Vec<R::Job>),
    name: impl Fn(R::Job) -> String,
    mut perform: impl FnMut(&R, R::Job) -> Result<R::Seen, String>,
    (progress, keep): (&mut dyn Progress, Keep<'_, R>),
) -> Result<(), String> {
    let mut left_out: Vec<R::Job> = Vec::new();
    for block in 0..blocks {
        let jobs = order(block);
        let total = jobs.len() * blocks as usize;
        for (place, job) in jobs.into_iter().enumerate() {
            progress.block(&Step {
                done: total / blocks as usize * block as usize + place,
                total,
                arm: &name(job),
                block: block + 1,
                blocks,
            });
            interrupt::check()?;
            if record.has(block, job) || left_out.contains(&job) {
                continue;
            }
            let started_s = started.elapsed().as_secs_f64();
            let performed = perform(record, job);
            interrupt::check()?;
            match performed {
                Ok(seen) => {
                    record.add(block, job, started_s, seen);
                    keep(record)?;
                }
                Err(reason) => {
                    let said = format!("{}: left out from here on: {reason}", name(job));
                    progress.say(&said);
                    record.skip(without_paths(&said));
                    left_out.push(job);
                }
            }
        }
    }
    Ok(())
}

/// The end of a run whose files are in a directory, once all that it had started is ended.
///
/// # Errors
/// Why its blocks ended; of a run that was told to end, with what is left of what it had started.
pub(crate) fn conclude<R: Record>(
    (mut record, started): (R, Instant),
    result: Result<(), String>,
    directory: TempDir,
    (progress, keep): (&mut dyn Progress, Keep<'_, R>),
) -> Result<R, String> {
    if let (Err(_), Some(told)) = (&result, interrupt::told()) {
        return Err(format!(
            "{told}{}; what {} jobs gave is kept, and --resume goes on with it",
            left(directory),
            record.jobs_done()
        ));
    }
    result?;
    let observed = std::mem::take(record.environment());
    *record.environment() = environment::conclude(observed, None, started.elapsed());
    keep(&record)?;
    progress.done();
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept {
        done: Vec<(u32, u32, u32)>,
        skipped: Vec<String>,
        environment: Environment,
    }

    impl Record for Kept {
        type Job = u32;
        type Seen = u32;

        fn has(&self, block: u32, job: u32) -> bool {
            self.done.iter().any(|(b, j, _)| (*b, *j) == (block, job))
        }

        fn add(&mut self, block: u32, job: u32, _: f64, seen: u32) {
            self.done.push((block, job, seen));
        }

        fn skip(&mut self, reason: String) {
            self.skipped.push(reason);
        }

        fn jobs_done(&self) -> usize {
            self.done.len()
        }

        fn environment(&mut self) -> &mut Environment {
            &mut self.environment
        }
    }

    struct Silent(Vec<(usize, usize)>);

    impl Progress for Silent {
        fn say(&mut self, _: &str) {}
        fn block(&mut self, step: &Step<'_>) {
            self.0.push((step.done, step.total));
        }
        fn measuring(&mut self) {}
        fn done(&mut self) {}
    }

    #[test]
    fn what_is_done_is_not_done_again_what_fails_is_not_tried_again_and_all_else_is_kept_one_by_one() {
        let mut record = Kept {
            done: vec![(0, 1, 9)],
            ..Kept::default()
        };
        let (mut performed, mut kept) = (Vec::new(), Vec::new());
        let mut progress = Silent(Vec::new());
        let result = each(
            (&mut record, Instant::now()),
            (2, |block| if block == 0 { vec![1, 2, 3] } else { vec![3, 2, 1] }),
            |job| format!("job {job}"),
            |_, job| {
                performed.push(job);
                if job == 3 {
                    Err("it fails".to_owned())
                } else {
                    Ok(job * 10)
                }
            },
            (&mut progress, &mut |record: &Kept| {
                kept.push(record.jobs_done());
                Ok(())
            }),
        );
        assert_eq!(result, Ok(()));
        assert_eq!(performed, [2, 3, 2, 1]);
        assert_eq!(record.done, [(0, 1, 9), (0, 2, 20), (1, 2, 20), (1, 1, 10)]);
        assert_eq!(record.skipped, ["job 3: left out from here on: it fails"]);
        assert_eq!(kept, [2, 3, 4]);
        assert_eq!(progress.0, [(0, 6), (1, 6), (2, 6), (3, 6), (4, 6), (5, 6)]);
    }
}
