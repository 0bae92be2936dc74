//! `selvedge evaluate rtt`: from options to raw files.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use super::Failure;
use super::kept::Kept;
use super::outcome::Outcome;
use crate::gateway::Runtime;
use crate::raw::Raw;
use crate::replay::{self, Machine, Pace, record};
use crate::report::words;
pub(super) use crate::report::words::about;
use crate::rtt::{ArmKind, Bar, Helper, Lines, Options, Plan, Progress, Trace, as_possible_here, run};
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
    /// Of the models and of --runtime: go on with the run that --out holds a part of. What the same program measured
    /// there with the same options is not measured again
    #[arg(long)]
    resume: bool,
    /// What a container costs a message: each system on the host beside the same in each of these runtimes with the
    /// host's network, by an edge; hubs with the generator's responder, and with one that runs where the hub does; as
    /// root
    #[arg(long, value_enum, value_delimiter = ',', value_name = "RUNTIME", conflicts_with_all = ["model", "baseline"])]
    runtime: Vec<Where>,
    #[command(flatten)]
    outcome: Outcome,
}

impl Rtt {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let out = &self.outcome.out;
        let mut progress = progress();
        let experiments = if self.runtime.is_empty() {
            vec![self.options]
        } else {
            let experiments = beside_host(&self.options, &self.runtime);
            let trace = data_set(&self.options, progress.as_mut())?;
            progress.say(&whole(&experiments, trace.as_ref())?);
            experiments
        };
        let mut runs = Vec::new();
        for options in experiments {
            let kept = if self.resume {
                Kept::read(out, &options)?
            } else {
                Kept::default()
            };
            runs.extend(measure_all(options, (prefix, out), kept, progress.as_mut())?);
        }
        self.outcome.report(runs)
    }
}

/// What is measured beside the host, and how long all of it takes.
fn whole(experiments: &[Options], trace: Option<&Trace>) -> Result<String, Failure> {
    let mut time = Duration::ZERO;
    for options in experiments {
        let plan = Plan::new(options.clone(), trace.cloned())?;
        time += plan.estimate() * plan.runs();
    }
    let systems: Vec<String> = experiments
        .iter()
        .filter_map(|one| Some(one.baseline.as_ref()?.to_string()))
        .collect();
    Ok(format!(
        "What a container costs a message, of {}: {} in all; --resume goes on where it was ended",
        systems.join(", "),
        about(time)
    ))
}

/// Where a system runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Where {
    /// On the host, started by this program: what the others are compared with, named or not
    Host,
    /// A program of the host, by an edge
    Process,
    /// A container, by an edge
    Oci,
    /// A container of a Docker Engine, by an edge
    Docker,
}

/// For each system the options of an experiment that has it on the host and in each runtime.
fn beside_host(options: &Options, runtimes: &[Where]) -> Vec<Options> {
    let hubs = [ArmKind::Selvedge, ArmKind::Mosquitto];
    let with_responders = hubs.iter().filter_map(ArmKind::with_responder);
    let mut systems: Vec<ArmKind> = hubs
        .iter()
        .cloned()
        .chain(with_responders)
        .chain([ArmKind::TcpEcho])
        .collect();
    if !options.arms.is_empty() {
        systems.clone_from(&options.arms);
    }
    let within = |system: &ArmKind, place: &Where| {
        let runtime = match place {
            Where::Host => return None,
            Where::Process => Runtime::Process,
            Where::Oci => Runtime::Oci,
            Where::Docker => Runtime::Docker,
        };
        Some(ArmKind::In(runtime, Box::new(system.clone())))
    };
    let experiment = |system: &ArmKind| Options {
        arms: std::iter::once(system.clone())
            .chain(runtimes.iter().filter_map(|place| within(system, place)))
            .collect(),
        baseline: Some(system.clone()),
        ..options.clone()
    };
    systems.iter().map(experiment).collect()
}

/// Every run that the options ask for, each with its raw file, or several: see [`Plan::parts`].
pub(super) fn measure_all(
    options: Options,
    (prefix, out): (&[&str], &Path),
    mut kept: Kept,
    progress: &mut dyn Progress,
) -> Result<Vec<Raw>, Failure> {
    let trace = data_set(&options, progress)?;
    let plan = as_possible_here(Plan::new(options, trace)?, progress)?;
    progress.say(&announcement(&plan));
    let each = (0..plan.runs()).map(|number| plan.clone().with_seed(plan.seed().wrapping_add(u64::from(number))));
    let parts: Vec<Plan> = each.flat_map(|run| run.parts()).collect();
    let mut runs = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        if plan.has_network() {
            progress.say(&heading(&parts, place));
        }
        let run = match kept.take(part) {
            Some(run) => {
                progress.say("  measured before");
                run
            }
            None => measure(part, &name(&plan, place), prefix, out, progress)?,
        };
        runs.push(Raw::RoundTrip(Box::new(run)));
    }
    Ok(runs)
}

/// What a raw file's name begins with: those of the models in the order of the plan.
fn name(plan: &Plan, place: usize) -> String {
    if plan.has_network() {
        format!("rtt-{:03}", place + 1)
    } else if plan.knee().is_some() {
        "knee".to_owned()
    } else {
        "rtt".to_owned()
    }
}

/// Which part is next, and how long it and the rest take.
fn heading(parts: &[Plan], place: usize) -> String {
    let left: Duration = parts[place..].iter().map(Plan::estimate).sum();
    let load = parts[place].cells().first().map_or(String::new(), words::cell);
    let (number, all) = (place + 1, parts.len());
    format!("{number} of {all}: {load}; {} left", about(left))
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

/// One run, or part of one, and its raw file, whose name begins with `name`.
pub(super) fn measure(
    plan: &Plan,
    name: &str,
    prefix: &[&str],
    out: &Path,
    progress: &mut dyn Progress,
) -> Result<Run, Failure> {
    let helper = Helper::this_program(prefix)?;
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    let run = run(plan, &helper, progress)?;
    let stamp = run.environment.started_at.replace([':', '-'], "");
    let path = out.join(format!("{name}-{stamp}-{:016x}.json", run.seed));
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
    let time = about(plan.estimate() * runs);
    let size = [
        (cells, "load"),
        (arms, "arm"),
        (blocks as usize, "block"),
        (runs as usize, "run"),
    ];
    let size = size.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    let resumed = if plan.has_network() {
        "; --resume goes on where it was ended"
    } else {
        ""
    };
    format!(
        "Measuring the full-stack round trip: {}, {time}{resumed}",
        size.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_system_is_compared_with_itself_on_the_host() {
        let found = beside_host(&Options::default(), &[Where::Host, Where::Oci]);
        let arms: Vec<String> = found[1].arms.iter().map(ToString::to_string).collect();
        assert_eq!(arms, ["mosquitto", "mosquitto@oci"]);
        assert_eq!(found[1].baseline, Some(ArmKind::Mosquitto));
        let arms: Vec<String> = found[3].arms.iter().map(ToString::to_string).collect();
        assert_eq!(arms, ["mosquitto+responder", "mosquitto+responder@oci"]);
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn times_are_said_in_units_that_a_person_waits_in() {
        let said = [90, 715, 26_400].map(|seconds| about(Duration::from_secs(seconds)));
        assert_eq!(said, ["about 90 s", "about 12 min", "about 7 h 20 min"]);
    }
}
