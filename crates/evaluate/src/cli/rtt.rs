//! `selvedge evaluate rtt`: from options to raw files.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use super::Failure;
use super::outcome::Outcome;
use crate::rtt::{Bar, Helper, Lines, Options, Plan, Progress, run};
use crate::run::Run;

/// Measure the full-stack round trip
#[derive(Debug, clap::Args)]
pub struct Rtt {
    #[command(flatten)]
    options: Options,
    /// Whole runs, each with its servers started anew and the next seed; five or more give an interval
    #[arg(long, default_value_t = 1, value_name = "N")]
    runs: u64,
    #[command(flatten)]
    outcome: Outcome,
}

/// Repeat a run from its raw file
#[derive(Debug, clap::Args)]
pub struct Replay {
    /// The raw file of the run
    raw_file: PathBuf,
    #[command(flatten)]
    outcome: Outcome,
}

impl Rtt {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let plan = Plan::new(self.options, None)?;
        let mut progress = progress();
        let mut runs = Vec::new();
        for number in 0..self.runs {
            let plan = plan.clone().with_seed(plan.seed().wrapping_add(number));
            runs.push(measure(&plan, prefix, &self.outcome.out, progress.as_mut())?);
        }
        self.outcome.report(&runs)
    }
}

impl Replay {
    /// The same options and seed; says so where they no longer make the same schedule.
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let before = Run::read(&self.raw_file)?;
        let plan = Plan::new(before.options, None)?.with_seed(before.seed);
        let mut progress = progress();
        let again = measure(&plan, prefix, &self.outcome.out, progress.as_mut())?;
        if again.schedule_hash != before.schedule_hash {
            return Err("the schedule differs from the first run's: it was made by another version".into());
        }
        self.outcome.report(&[again])
    }
}

/// One run and its raw file.
fn measure(plan: &Plan, prefix: &[&str], out: &Path, progress: &mut dyn Progress) -> Result<Run, Failure> {
    let helper = Helper::this_program(prefix)?;
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    progress.say(&announcement(plan));
    let run = run(plan, &helper, progress)?;
    let stamp = run.environment.started_at.replace([':', '-'], "");
    let path = out.join(format!("rtt-{stamp}-{:016x}.json", run.seed));
    run.write(&path)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    progress.say(&format!("  raw file {}", path.display()));
    Ok(run)
}

fn progress() -> Box<dyn Progress> {
    let terminal = std::io::stderr();
    if terminal.is_terminal() {
        Box::new(Bar::new(terminal))
    } else {
        Box::new(Lines::new(terminal))
    }
}

fn announcement(plan: &Plan) -> String {
    let (cells, arms, blocks) = (plan.cells().len(), plan.arms().len() + 1, plan.blocks());
    let seconds = plan.estimate().as_secs();
    format!("Measuring the full-stack round trip: {cells} cells, {arms} arms, {blocks} blocks, about {seconds} s")
}
