//! `selvedge evaluate rtt`: from options to raw files.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Failure;
use super::outcome::Outcome;
use crate::replay::{self, Machine, Pace, record};
use crate::rtt::{Bar, Helper, Lines, Options, Plan, Progress, Trace, run};
use crate::run::Run;

/// Stands for a file: readings of the machine itself.
const THIS_MACHINE: &str = "machine";
const MACHINE_READINGS: u32 = 100;
const MACHINE_READING_EVERY: Duration = Duration::from_millis(20);

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
        let mut progress = progress();
        let trace = data_set(&self.options, progress.as_mut())?;
        let plan = Plan::new(self.options, trace)?;
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
        let mut progress = progress();
        let trace = data_set(&before.options, progress.as_mut())?;
        let plan = Plan::new(before.options, trace)?.with_seed(before.seed);
        let again = measure(&plan, prefix, &self.outcome.out, progress.as_mut())?;
        if again.schedule_hash != before.schedule_hash {
            return Err("the schedule differs from the first run's: it was made by another version".into());
        }
        self.outcome.report(&[again])
    }
}

/// The data set that the options name, if any.
fn data_set(options: &Options, progress: &mut dyn Progress) -> Result<Option<Trace>, Failure> {
    let Some(path) = &options.replay else { return Ok(None) };
    let pace = Pace {
        devices: options.most_devices(),
        speed: options.replay_speed.unwrap_or(1.0),
    };
    if path.as_os_str() == THIS_MACHINE {
        progress.say("Reading this machine's CPU, memory, disks, network and temperatures …");
        let mut machine = Machine::new(Path::new("/"));
        return Ok(Some(record(
            &mut machine,
            MACHINE_READINGS,
            MACHINE_READING_EVERY,
            pace,
        )));
    }
    let replay = replay::read(path, pace)?;
    progress.say(&format!(
        "{} readings of {}",
        replay.trace.readings.len(),
        replay.trace.source
    ));
    if replay.rejected.count > 0 {
        let first = replay
            .rejected
            .named
            .first()
            .map_or(String::new(), |(line, why)| format!(": line {line}: {why}"));
        progress.say(&format!("{} rows left out, the first{first}", replay.rejected.count));
    }
    Ok(Some(replay.trace))
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

/// A bar on a terminal, else lines.
pub(super) fn progress() -> Box<dyn Progress> {
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
