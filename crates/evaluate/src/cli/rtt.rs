//! `selvedge evaluate rtt`: from options to raw files.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use super::Failure;
use super::outcome::Outcome;
use crate::raw::Raw;
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
    #[command(flatten)]
    outcome: Outcome,
}

impl Rtt {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let runs = measure_all(self.options, prefix, &self.outcome.out, progress().as_mut())?;
        self.outcome.report(runs)
    }
}

/// Every run that the options ask for, each with its raw file.
pub(super) fn measure_all(
    options: Options,
    prefix: &[&str],
    out: &Path,
    progress: &mut dyn Progress,
) -> Result<Vec<Raw>, Failure> {
    let trace = data_set(&options, progress)?;
    let plan = Plan::new(options, trace)?;
    progress.say(&announcement(&plan));
    let mut runs = Vec::new();
    for number in 0..plan.runs() {
        let plan = plan.clone().with_seed(plan.seed().wrapping_add(u64::from(number)));
        let run = measure(&plan, prefix, out, progress)?;
        runs.push(Raw::RoundTrip(Box::new(run)));
    }
    Ok(runs)
}

/// The data set that the options name, if any.
pub(super) fn data_set(options: &Options, progress: &mut dyn Progress) -> Result<Option<Trace>, Failure> {
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
pub(super) fn measure(plan: &Plan, prefix: &[&str], out: &Path, progress: &mut dyn Progress) -> Result<Run, Failure> {
    let helper = Helper::this_program(prefix)?;
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let run = run(plan, &helper, progress)?;
    let stamp = run.environment.started_at.replace([':', '-'], "");
    let path = out.join(format!("{}-{stamp}-{:016x}.json", run.experiment, run.seed));
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
    let (cells, arms, blocks, runs) = (plan.cells().len(), plan.arms().len() + 1, plan.blocks(), plan.runs());
    let seconds = plan.estimate().as_secs() * u64::from(runs);
    let time = if seconds < 180 {
        format!("{seconds} s")
    } else {
        format!("{} min", seconds.div_ceil(60))
    };
    let size = [
        (cells, "load"),
        (arms, "arm"),
        (blocks as usize, "block"),
        (runs as usize, "run"),
    ];
    let size = size.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    format!("Measuring the full-stack round trip: {}, about {time}", size.join(", "))
}
