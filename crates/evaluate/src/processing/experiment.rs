//! The order of things: every block does each cell once, in a seeded random order (rule 9).

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::EXPERIMENT;
use super::options::Options;
use super::record::{Done, FORMAT, Job, Model, Place, ProcessingRun, Seen, Task};
use super::stand::{Stand, Started, board};
use crate::arms::Helper;
use crate::blocks::{self, Keep, Record};
use crate::environment::{self, Environment};
use crate::interrupt;
use crate::privacy::without_paths;
use crate::rtt::Progress;

/// Measures. `before`: an earlier run that was ended, with which this one goes on; `keep` is given what there is after
/// each job.
///
/// # Errors
/// The machine refuses what every job needs, or what was measured cannot be kept, in words; or SIGINT or SIGTERM has
/// ended it, with what is left of what it had started: nothing, if all went well.
pub fn run(
    options: &Options,
    helper: &Helper,
    before: Option<ProcessingRun>,
    progress: &mut dyn Progress,
    keep: Keep<'_, ProcessingRun>,
) -> Result<ProcessingRun, String> {
    interrupt::listen().map_err(|error| format!("SIGINT and SIGTERM: {error}"))?;
    let options = options.clone().effective();
    let data = std::fs::read(&options.data).map_err(|error| format!("--data {}: {error}", options.data.display()))?;
    let hash = environment::hexadecimal(ring::digest::digest(&ring::digest::SHA256, &data).as_ref());
    let file = options
        .data
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let (started, observed) = (Instant::now(), environment::observe(vec![(file, hash)]));
    let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    progress.say("Starting an edge, and making its image");
    let Started {
        mut stand,
        programs,
        missing,
        image_bytes,
    } = Stand::start(&options, helper, directory.path())?;
    for reason in &missing {
        progress.say(&format!("Left out: {reason}"));
    }
    let seed = before.as_ref().map(|run| run.seed).or(options.seed);
    let mut run = ProcessingRun {
        format: FORMAT,
        experiment: EXPERIMENT.to_owned(),
        options,
        seed: seed.unwrap_or_else(rand::random),
        programs,
        board: board(),
        image_bytes,
        done: before.map_or_else(Vec::new, |run| run.done),
        skipped: missing.iter().map(|reason| without_paths(reason)).collect(),
        environment: observed,
    };
    let mut jobs = jobs(&run.options);
    jobs.retain(|job| stand.has(job.place));
    let (seed, blocks) = (run.seed, run.options.blocks);
    let result = blocks::each(
        (&mut run, started),
        (blocks, |block| shuffled(&jobs, seed, block)),
        name,
        |run, job| stand.perform(job, &run.options),
        (progress, keep),
    );
    drop(stand);
    blocks::conclude((run, started), result, directory, (progress, keep))
}

impl Record for ProcessingRun {
    type Job = Job;
    type Seen = Seen;

    fn has(&self, block: u32, job: Job) -> bool {
        self.done.iter().any(|done| done.block == block && done.job == job)
    }

    fn add(&mut self, block: u32, job: Job, started_s: f64, seen: Seen) {
        self.done.push(Done {
            block,
            job,
            started_s,
            seen,
        });
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

/// Every job of a block; the host once more, beside itself.
pub(super) fn jobs(options: &Options) -> Vec<Job> {
    let mut jobs = Vec::new();
    for model in &options.models {
        for task in &options.tasks {
            let again = options.places.contains(&Place::Host).then_some(Place::HostAgain);
            let places = options.places.iter().copied().chain(again);
            jobs.extend(places.map(|place| Job {
                model: *model,
                task: *task,
                place,
            }));
        }
    }
    jobs
}

/// About how long it takes.
#[must_use]
pub fn estimate(options: &Options) -> Duration {
    const IMAGE: Duration = Duration::from_secs(60);
    let options = options.clone().effective();
    let block: Duration = jobs(&options).iter().map(|job| takes(*job, &options)).sum();
    IMAGE + block * options.blocks
}

/// As seen on a machine of two cores.
fn takes(job: Job, options: &Options) -> Duration {
    let start = match (job.model, job.place) {
        (Model::Regression, Place::Cloud) => 2,
        (Model::Regression, _) => 5,
        (_, Place::Cloud) => 6,
        _ => 14,
    };
    let turn = match (job.model, job.task) {
        (Model::LstmEd, Task::Training) => 10 + 8 * options.epochs,
        (Model::Autoencoder, Task::Training) => 4 + options.epochs,
        _ => 1,
    };
    Duration::from_secs(u64::from(start + options.measure_s.max(turn)))
}

/// Models and tasks in random order, and within each the places, so that what is compared stays close in time.
fn shuffled(jobs: &[Job], seed: u64, block: u32) -> Vec<Job> {
    let mut order = ChaCha8Rng::seed_from_u64(seed);
    order.set_stream(u64::from(block));
    let mut jobs = jobs.to_vec();
    jobs.shuffle(&mut order);
    let mut cells: Vec<(Model, Task)> = Vec::new();
    for job in &jobs {
        if !cells.contains(&(job.model, job.task)) {
            cells.push((job.model, job.task));
        }
    }
    jobs.sort_by_key(|job| cells.iter().position(|cell| *cell == (job.model, job.task)));
    jobs
}

/// In the words of progress.
fn name(job: Job) -> String {
    format!("{}, {}, {}", job.model.name(), job.task.name(), job.place.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_the_same_order_again_another_block_another_and_places_of_a_cell_stay_together() {
        let jobs = jobs(&Options::default());
        assert_eq!(jobs.len(), 3 * 2 * 6);
        let first = shuffled(&jobs, 7, 0);
        assert_eq!(first, shuffled(&jobs, 7, 0));
        assert_ne!(first, shuffled(&jobs, 7, 1));
        let cell = |job: &Job| (job.model, job.task);
        let changes = first.windows(2).filter(|pair| cell(&pair[0]) != cell(&pair[1])).count();
        assert_eq!(changes, 5);
    }

    #[test]
    fn the_short_run_ends_within_ten_minutes() {
        let quick = Options {
            quick: true,
            ..Options::default()
        };
        assert!(estimate(&quick) < Duration::from_secs(600), "{:?}", estimate(&quick));
    }
}
