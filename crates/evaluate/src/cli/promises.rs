//! `selvedge evaluate promises`: every experiment that a promised figure comes from, and one list of what became of
//! them.

use std::path::PathBuf;
use std::time::Duration;

use super::Failure;
use super::capacity::{FILE, measure};
use super::kept::Kept;
use super::outcome::Outcome;
use super::resume;
use super::rtt::{about, measure_all, progress};
use crate::balancing::{
    BalancingRun, Options as BalancingOptions, Part as BalancingPart, estimate as estimate_balancing,
};
use crate::capacity;
use crate::gateway::{GatewayRun, Options as GatewayOptions, Part, Runtime, estimate};
use crate::interrupt;
use crate::raw::Raw;
use crate::rtt::{ArmKind, Options, Plan, Preset, Progress};

/// Blocks of the only run where `--quick` is given: enough to see that everything works, not for an interval.
const QUICK_BLOCKS: u32 = 2;

/// What five blocks of `evaluate capacity` take: what all of it was seen to take, less the round trips. Most of it is
/// no time that is set.
const CAPACITY_GUESS: Duration = Duration::from_secs(44 * 60);
/// Enough for an interval, and activations for a 99th percentile.
const GATEWAY_BLOCKS: u32 = 5;
const GATEWAY_ACTIVATIONS: u32 = 74;
/// Fewer than the paper has, and shorter: as many answers of each as p99 takes, in all blocks together.
const BALANCING_CLIENTS: [u32; 2] = [4, 16];
const BALANCING_MEASURE_MS: u32 = 1_000;
/// The share of it that `--quick` takes, about.
const QUICK_SHARE: u32 = 10;

/// Measure every promised figure
#[derive(Debug, clap::Args)]
pub struct Promises {
    /// Experiments to do
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Experiment::ALL, value_name = "EXPERIMENT")]
    only: Vec<Experiment>,
    /// One run of two blocks each: to see that everything works
    #[arg(long)]
    quick: bool,
    /// Path of the `selvedge` program, if it is not this one
    #[arg(long = "selvedge", value_name = "PATH")]
    selvedge_program: Option<PathBuf>,
    /// Path of the `mosquitto` program, if it is not found
    #[arg(long = "mosquitto", value_name = "PATH")]
    mosquitto_program: Option<PathBuf>,
    #[command(flatten)]
    outcome: Outcome,
}

/// Where promised figures come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Experiment {
    /// Round trips in a closed loop
    Closed,
    /// The same under TLS
    ClosedTls,
    /// 200 devices
    Fleet,
    /// 10,000 devices
    Crowd,
    /// Round trips of a hub by an edge, as a program of the host and in a container, beside the same on the host; as
    /// root
    Contained,
    /// D-E-C against D-C
    Link,
    /// Memory, time until ready, durability, and an edge with its cloud
    Capacity,
    /// What containers cost, and activation on demand; as root
    Gateway,
    /// Which node of a site answers, by every policy; as root
    Balancing,
}

impl Experiment {
    const ALL: [Experiment; 9] = [
        Experiment::Closed,
        Experiment::ClosedTls,
        Experiment::Fleet,
        Experiment::Crowd,
        Experiment::Contained,
        Experiment::Link,
        Experiment::Capacity,
        Experiment::Gateway,
        Experiment::Balancing,
    ];

    fn preset(self) -> Option<Preset> {
        match self {
            Experiment::Closed | Experiment::Contained => Some(Preset::Closed),
            Experiment::ClosedTls => Some(Preset::ClosedTls),
            Experiment::Fleet => Some(Preset::Fleet),
            Experiment::Crowd => Some(Preset::Crowd),
            Experiment::Link => Some(Preset::Link),
            Experiment::Capacity | Experiment::Gateway | Experiment::Balancing => None,
        }
    }
}

impl Promises {
    pub(super) fn run(self, prefix: &[&str]) -> Result<(), Failure> {
        let mut progress = progress();
        progress.say(&format!(
            "In all {}, longer where others use the machine",
            about(self.estimate()?)
        ));
        let mut raw = Vec::new();
        for experiment in &self.only {
            let measured = match (experiment, self.options(*experiment)) {
                (_, Some(options)) => self.round_trips(options, prefix, progress.as_mut()),
                (Experiment::Gateway, None) => self.gateway(prefix, progress.as_mut()).map(|run| vec![run]),
                (Experiment::Balancing, None) => self.balancing(prefix, progress.as_mut()).map(|run| vec![run]),
                (_, None) => self.capacity(prefix, progress.as_mut()).map(|run| vec![run]),
            };
            match (experiment, measured) {
                (_, Ok(runs)) => raw.extend(runs),
                (_, Err(reason)) if interrupt::told().is_some() => return Err(reason),
                // Who is not root still gets the other figures.
                (Experiment::Contained, Err(reason)) => {
                    progress.say(&format!("The hub by an edge is left out: {reason}"));
                }
                (Experiment::Gateway, Err(reason)) => progress.say(&format!("The gateway is left out: {reason}")),
                (Experiment::Balancing, Err(reason)) => {
                    progress.say(&format!("Which node answers is left out: {reason}"));
                }
                (_, Err(reason)) => return Err(reason),
            }
        }
        self.outcome.report(raw)
    }

    /// About how long all of it takes.
    fn estimate(&self) -> Result<Duration, Failure> {
        let capacity = if self.quick {
            CAPACITY_GUESS / QUICK_SHARE
        } else {
            CAPACITY_GUESS
        };
        let mut all = Duration::ZERO;
        for experiment in &self.only {
            all += match (experiment, self.options(*experiment)) {
                (_, Some(options)) => {
                    let plan = Plan::new(options, None)?;
                    plan.estimate() * plan.runs()
                }
                (Experiment::Gateway, None) => estimate(&self.gateway_options()),
                (Experiment::Balancing, None) => estimate_balancing(&self.balancing_options()),
                (_, None) => capacity,
            };
        }
        Ok(all)
    }

    /// Of round trips; `None`: of something else.
    fn options(&self, experiment: Experiment) -> Option<Options> {
        let hub = ArmKind::Selvedge;
        let by_an_edge = |runtime| ArmKind::In(runtime, Box::new(ArmKind::Selvedge));
        let (arms, baseline) = match experiment {
            Experiment::Contained => (
                vec![hub.clone(), by_an_edge(Runtime::Process), by_an_edge(Runtime::Oci)],
                Some(hub),
            ),
            _ => (Vec::new(), None),
        };
        Some(Options {
            preset: Some(experiment.preset()?),
            arms,
            baseline,
            runs: self.quick.then_some(1),
            blocks: self.quick.then_some(QUICK_BLOCKS),
            selvedge_program: self.selvedge_program.clone(),
            mosquitto_program: self.mosquitto_program.clone(),
            ..Options::default()
        })
    }

    fn round_trips(&self, options: Options, prefix: &[&str], progress: &mut dyn Progress) -> Result<Vec<Raw>, Failure> {
        measure_all(options, (prefix, &self.outcome.out), Kept::default(), progress)
    }

    /// What of it a figure is promised of.
    fn gateway_options(&self) -> GatewayOptions {
        GatewayOptions {
            parts: vec![Part::Activation, Part::Footprint, Part::Cost],
            blocks: GATEWAY_BLOCKS,
            activations: GATEWAY_ACTIVATIONS,
            instances: vec![1],
            quick: self.quick,
            selvedge_program: self.selvedge_program.clone(),
            ..GatewayOptions::default()
        }
    }

    fn gateway(&self, prefix: &[&str], progress: &mut dyn Progress) -> Result<Raw, Failure> {
        let path = self.outcome.out.join(resume::file::<GatewayRun>());
        resume::measure::<GatewayRun>(&self.gateway_options(), None, (&path, prefix), progress)
    }

    /// What of it a figure is promised of.
    fn balancing_options(&self) -> BalancingOptions {
        BalancingOptions {
            parts: vec![BalancingPart::Delay, BalancingPart::Policies, BalancingPart::Overload],
            clients: BALANCING_CLIENTS.to_vec(),
            measure_ms: BALANCING_MEASURE_MS,
            quick: self.quick,
            selvedge_program: self.selvedge_program.clone(),
            ..BalancingOptions::default()
        }
    }

    fn balancing(&self, prefix: &[&str], progress: &mut dyn Progress) -> Result<Raw, Failure> {
        let path = self.outcome.out.join(resume::file::<BalancingRun>());
        resume::measure::<BalancingRun>(&self.balancing_options(), None, (&path, prefix), progress)
    }

    fn capacity(&self, prefix: &[&str], progress: &mut dyn Progress) -> Result<Raw, Failure> {
        let options = capacity::Options {
            quick: self.quick,
            selvedge_program: self.selvedge_program.clone(),
            mosquitto_program: self.mosquitto_program.clone(),
            ..capacity::Options::default()
        };
        measure(&options, &self.outcome.out.join(FILE), prefix, progress)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Parser, Subcommand};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        promises: Promises,
    }

    #[test]
    fn it_takes_the_time_that_its_help_says() {
        let estimate = |words: &[&str]| Cli::parse_from(words).promises.estimate().unwrap().as_secs_f64() / 60.0;
        let minutes = estimate(&["promises"]);
        assert!((220.0..250.0).contains(&minutes), "{minutes}");
        assert!(estimate(&["promises", "--quick"]) < minutes / 5.0);
        let all = super::super::Command::augment_subcommands(clap::Command::new("evaluate"));
        let help = all
            .find_subcommand("promises")
            .unwrap()
            .get_about()
            .unwrap()
            .to_string();
        assert!(help.ends_with("about four hours"), "{help}");
    }
}
