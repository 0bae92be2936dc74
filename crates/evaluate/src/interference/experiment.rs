//! The order of things: every block does each case of each group once, in a seeded random order (rule 9).

use std::time::Instant;

use super::EXPERIMENT;
use super::board::Board;
use super::cells::{jobs, shuffled};
use super::options::Options;
use super::record::{Done, FORMAT, InterferenceRun, Job, Seen};
use super::stand::Stand;
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
    before: Option<InterferenceRun>,
    progress: &mut dyn Progress,
    keep: Keep<'_, InterferenceRun>,
) -> Result<InterferenceRun, String> {
    interrupt::listen().map_err(|error| format!("SIGINT and SIGTERM: {error}"))?;
    let options = options.clone().effective();
    let (started, observed) = (Instant::now(), environment::observe(Vec::new()));
    let directory = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let boards: Vec<Board> = options
        .profiles
        .iter()
        .map(|profile| Board::here(*profile, options.divisor))
        .collect();
    for board in &boards {
        progress.say(&board.words());
    }
    let (mut stand, programs, missing) = Stand::start(&options, helper, &boards, directory.path())?;
    for reason in &missing {
        progress.say(&format!("Left out: {reason}"));
    }
    let seed = before.as_ref().map(|run| run.seed).or(options.seed);
    let mut run = InterferenceRun {
        format: FORMAT,
        experiment: EXPERIMENT.to_owned(),
        options,
        seed: seed.unwrap_or_else(rand::random),
        programs,
        boards,
        done: before.map_or_else(Vec::new, |run| run.done),
        skipped: missing.iter().map(|reason| without_paths(reason)).collect(),
        environment: observed,
    };
    let mut jobs = jobs(&run.options);
    jobs.retain(|job| stand.has(job.runtime));
    let (seed, blocks, measure) = (run.seed, run.options.blocks, run.options.measure());
    let result = blocks::each(
        (&mut run, started),
        (blocks, |block| shuffled(&jobs, seed, block)),
        name,
        |run, job| stand.perform(job, board(run, job)?, measure),
        (progress, keep),
    );
    drop(stand);
    blocks::conclude((run, started), result, directory, (progress, keep))
}

fn board(run: &InterferenceRun, job: Job) -> Result<Board, String> {
    let board = run.boards.iter().find(|board| board.profile == job.profile);
    board.copied().ok_or_else(|| "the board is not known".to_owned())
}

impl Record for InterferenceRun {
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

/// In the words of progress.
fn name(job: Job) -> String {
    format!(
        "{}, {}, {}, {}",
        job.group.name(),
        job.case.name(),
        job.profile.name(),
        job.runtime.name()
    )
}
