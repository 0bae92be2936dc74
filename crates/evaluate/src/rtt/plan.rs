//! A checked, complete experiment: what options become before anything runs.

use std::path::PathBuf;

use super::arm_kind::ArmKind;
use super::cells::cells;
use super::options::{Options, Preset};
use super::presets::{Defaults, defaults};
use super::trace::Trace;
use crate::run::{Cell, LoadModel};

const KNEE_P99_US: u64 = 10_000;
const KNEE_LOST: f64 = 0.001;

/// An option that cannot be what it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(pub(super) String);

/// By what a rate holds in the search for a knee (rule 8 b).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct KneeBounds {
    /// Longest p99 of the response time, in µs.
    pub p99_us: u64,
    /// Greatest share of messages lost.
    pub lost: f64,
}

impl KneeBounds {
    /// Those that options ask for.
    pub(crate) fn of(options: &Options) -> KneeBounds {
        KneeBounds {
            p99_us: options.knee_p99_us.unwrap_or(KNEE_P99_US),
            lost: options.knee_lost.unwrap_or(KNEE_LOST),
        }
    }
}

/// An experiment that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) options: Options,
    pub(super) seed: u64,
    pub(super) arms: Vec<ArmKind>,
    pub(super) baseline: usize,
    pub(super) cells: Vec<Cell>,
    pub(super) runs: u32,
    pub(super) blocks: u32,
    pub(super) repeats: f64,
    pub(super) trace: Option<Trace>,
}

impl Plan {
    /// Completes options from their preset and checks them. `trace` is the data set that `options.replay` names, read.
    ///
    /// # Errors
    /// The first option that cannot be, with its value and what would be right.
    pub fn new(options: Options, trace: Option<Trace>) -> Result<Plan, PlanError> {
        let defaults = loads_named(defaults(options.preset()), &options);
        let arms = arms(&options, &defaults);
        check_line(&options, &arms)?;
        let baseline = baseline(&options, &defaults, &arms);
        check_trace(&options, trace.as_ref())?;
        let cells = cells(&options, &defaults, (&arms, trace.as_ref()))?;
        check_knee(&options, &cells)?;
        let (runs, blocks) = (
            options.runs.unwrap_or(defaults.runs),
            options.blocks.unwrap_or(defaults.blocks),
        );
        for (name, count) in [("--runs", runs), ("--blocks", blocks)] {
            if count == 0 {
                return Err(refused(format!("{name} 0 measures nothing: at least 1")));
            }
        }
        let seed = options.seed.unwrap_or_else(rand::random);
        Ok(Plan {
            options,
            seed,
            arms,
            baseline,
            cells,
            runs,
            blocks,
            repeats: defaults.repeats,
            trace,
        })
    }

    /// The options, as given.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The seed, given or drawn.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same plan with another seed, for the next of several runs.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Plan {
        Plan { seed, ..self }
    }

    /// The arms; a second instance of the baseline joins them.
    pub fn arms(&self) -> &[ArmKind] {
        &self.arms
    }

    /// Index of the arm that the others are compared with.
    pub fn baseline(&self) -> usize {
        self.baseline
    }

    /// Whether another arm may be the baseline where this one is not installed: nobody asked for it by name.
    pub(crate) fn baseline_may_change(&self) -> bool {
        self.options.baseline.is_none()
    }

    /// The points of the sweep.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Whole runs, each with its servers started anew and the next seed.
    pub fn runs(&self) -> u32 {
        self.runs
    }

    /// Blocks of every arm and cell in a run.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Rounds that may be measured again because the generator was late.
    pub(crate) fn repeats(&self) -> usize {
        let rounds = self.blocks as usize * self.cells.len();
        (rounds as f64 * self.repeats).ceil() as usize
    }

    /// Whether there is hardly time to measure again, and none to wait.
    pub(crate) fn is_hasty(&self) -> bool {
        self.repeats < 1.0
    }

    /// Whether arms run on an emulated network.
    pub fn has_network(&self) -> bool {
        self.arms.iter().any(ArmKind::is_model)
    }

    /// The data set that is replayed, if any.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// Bounds of the knee, if it is one that is searched.
    pub fn knee(&self) -> Option<KneeBounds> {
        (self.options.preset() == Preset::Knee).then(|| KneeBounds::of(&self.options))
    }

    /// Paths of programs that a person named: `selvedge` and `mosquitto`.
    pub(crate) fn programs(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        (
            self.options.selvedge_program.clone(),
            self.options.mosquitto_program.clone(),
        )
    }
}

pub(super) fn refused(words: impl Into<String>) -> PlanError {
    PlanError(words.into())
}

fn arms(options: &Options, defaults: &Defaults) -> Vec<ArmKind> {
    let named = options.model.iter().chain(&options.arms);
    let usual = defaults.arms.iter().filter(|_| options.arms.is_empty());
    // Those that a preset has beside the models stay beside the models that are named.
    let usual = usual.filter(|kind| options.model.is_empty() || !kind.is_model());
    let mut arms: Vec<ArmKind> = Vec::new();
    for kind in named.chain(usual).chain(&options.target).chain(&options.baseline) {
        if !arms.contains(kind) {
            arms.push(kind.clone());
        }
    }
    arms
}

/// The arm asked for, else the preset's, else the first.
fn baseline(options: &Options, defaults: &Defaults, arms: &[ArmKind]) -> usize {
    let wanted = options.baseline.as_ref().unwrap_or(&defaults.baseline);
    arms.iter().position(|kind| kind == wanted).unwrap_or(0)
}

/// A whole experiment, or of the models the loads that were named, the rest of each as in the paper.
fn loads_named(defaults: Defaults, options: &Options) -> Defaults {
    if !options.names_loads_of_models() {
        return defaults;
    }
    let sweeps = defaults.sweeps.into_iter().take(1).collect();
    let arms = options.model.clone();
    Defaults {
        arms,
        sweeps,
        ..defaults
    }
}

/// What is about the network needs one.
fn check_line(options: &Options, arms: &[ArmKind]) -> Result<(), PlanError> {
    let said = [
        ("--bandwidth", !options.bandwidth_bit_per_s.is_empty()),
        ("--wan-rtt", !options.wan_round_trip_us.is_empty()),
        ("--tls", options.tls),
    ];
    match said.into_iter().find(|(_, said)| *said) {
        Some((option, _)) if !arms.iter().any(ArmKind::is_model) => Err(refused(format!(
            "{option} is about the network of the models: add --model d-c,d-e-c,d-e"
        ))),
        _ => Ok(()),
    }
}

fn check_trace(options: &Options, trace: Option<&Trace>) -> Result<(), PlanError> {
    match (&options.replay, trace) {
        (Some(path), None) => Err(refused(format!(
            "--replay {}: the data set was not read",
            path.display()
        ))),
        (_, Some(trace)) if trace.readings.is_empty() => Err(refused(format!("{} holds no readings", trace.source))),
        (None, None) if options.load == Some(LoadModel::Trace) => {
            Err(refused("--load trace needs the times of a data set: add --replay FILE"))
        }
        _ => Ok(()),
    }
}

/// One load is varied in its rate alone, and what paces it must have a rate.
fn check_knee(options: &Options, cells: &[Cell]) -> Result<(), PlanError> {
    match cells {
        _ if options.preset() != Preset::Knee => Ok(()),
        [one] if one.interval_us.is_some() => Ok(()),
        [_] => Err(refused("--preset knee searches for a rate: --load periodic or poisson")),
        several => Err(refused(format!(
            "--preset knee searches under one load, not {}: one --payload, --devices and --qos, and no --interval",
            several.len()
        ))),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
