//! The order of things: every block does each case of each group once, in a seeded random order (rule 9).

use std::time::Instant;

use super::EXPERIMENT;
use super::board::Board;
use super::cells::{jobs, shuffled};
use super::options::Options;
use super::record::{Done, FORMAT, InterferenceRun, Job, Seen};
use super::stand::Stand;
use crate::arms::Helper;
use crate::environment;
use crate::gateway::left;
use crate::interrupt;
use crate::privacy::without_paths;
use crate::rtt::{Progress, Step};

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
    keep: &mut dyn FnMut(&InterferenceRun) -> Result<(), String>,
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
    let (stand, programs, missing) = Stand::start(&options, helper, &boards, directory.path())?;
    for reason in &missing {
        progress.say(&format!("Left out: {reason}"));
    }
    let seed = before.as_ref().map(|run| run.seed).or(options.seed);
    let run = InterferenceRun {
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
    let mut bench = Bench {
        stand,
        started,
        run,
        left_out: Vec::new(),
        board: None,
    };
    let result = bench.blocks(progress, keep);
    let Bench { stand, mut run, .. } = bench;
    drop(stand);
    if let (Err(_), Some(told)) = (&result, interrupt::told()) {
        return Err(format!(
            "{told}{}; what {} jobs gave is kept, and --resume goes on with it",
            left(directory),
            run.done.len()
        ));
    }
    result?;
    run.environment = environment::conclude(run.environment, None, started.elapsed());
    keep(&run)?;
    progress.done();
    Ok(run)
}

struct Bench {
    stand: Stand,
    started: Instant,
    run: InterferenceRun,
    /// Jobs that failed once are not tried again.
    left_out: Vec<Job>,
    /// The one that stands round all now.
    board: Option<Board>,
}

impl Bench {
    fn blocks(
        &mut self,
        progress: &mut dyn Progress,
        keep: &mut dyn FnMut(&InterferenceRun) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut jobs = jobs(&self.run.options);
        jobs.retain(|job| self.stand.has(job.runtime));
        let (blocks, mut done) = (self.run.options.blocks, 0);
        for block in 0..blocks {
            for job in shuffled(&jobs, self.run.seed, block) {
                progress.block(&Step {
                    done,
                    total: jobs.len() * blocks as usize,
                    arm: &name(job),
                    block: block + 1,
                    blocks,
                });
                done += 1;
                interrupt::check()?;
                if self.attempt(job, block, progress)? {
                    keep(&self.run)?;
                }
            }
        }
        Ok(())
    }

    /// Does a job that is not done yet and has not failed; whether there is something new to keep.
    ///
    /// # Errors
    /// The run was told to end; what the job has seen until then is not kept.
    fn attempt(&mut self, job: Job, block: u32, progress: &mut dyn Progress) -> Result<bool, String> {
        let is_done = self.run.done.iter().any(|one| one.block == block && one.job == job);
        if is_done || self.left_out.contains(&job) {
            return Ok(false);
        }
        let started_s = self.started.elapsed().as_secs_f64();
        let performed = self.perform(job);
        interrupt::check()?;
        match performed {
            Ok(seen) => {
                self.run.done.push(Done {
                    block,
                    job,
                    started_s,
                    seen,
                });
                Ok(true)
            }
            Err(reason) => {
                let said = format!("{}: left out from here on: {reason}", name(job));
                progress.say(&said);
                self.run.skipped.push(without_paths(&said));
                self.left_out.push(job);
                Ok(false)
            }
        }
    }

    fn perform(&mut self, job: Job) -> Result<Seen, String> {
        let board = self.run.boards.iter().find(|board| board.profile == job.profile);
        let board = *board.ok_or("the board is not known")?;
        if self.board != Some(board) {
            self.stand.put_round(&board)?;
            self.board = Some(board);
        }
        self.stand.perform(job, &board, self.run.options.measure())
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
