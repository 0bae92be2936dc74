//! A checked, complete experiment: what options become before anything runs.

use std::path::PathBuf;
use std::time::Duration;

use super::arm_kind::ArmKind;
use super::options::{Options, Preset};
use super::presets::{Defaults, Sweep, defaults};
use super::trace::Trace;
use crate::generator::payload::Payloads;
use crate::run::{Cell, LoadModel};

/// Least messages of a block, so that five blocks hold a 95th percentile (rule 5).
const LEAST_MESSAGES: u64 = 15;
const MOST_DEVICES: u32 = 20_000;
const PAYLOAD_BYTES: std::ops::RangeInclusive<u32> = 8..=1_000_000;
/// Most messages of a block: each is kept until the run is written.
const MOST_MESSAGES: u64 = 20_000_000;
const KNEE_P99_US: u64 = 10_000;
const KNEE_LOST: f64 = 0.001;
/// Blocks of a search, as a multiple of those of one step.
const KNEE_STEPS: u32 = 12;
const WARM_UP_GUESS: Duration = Duration::from_millis(100);
/// Of one client: large fleets are connected anew for each block.
const CONNECT_GUESS: Duration = Duration::from_micros(300);

/// An option that cannot be what it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

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
    options: Options,
    seed: u64,
    arms: Vec<ArmKind>,
    baseline: usize,
    cells: Vec<Cell>,
    runs: u32,
    blocks: u32,
    trace: Option<Trace>,
}

impl Plan {
    /// Completes options from their preset and checks them. `trace` is the data set that `options.replay` names, read.
    ///
    /// # Errors
    /// The first option that cannot be, with its value and what would be right.
    pub fn new(options: Options, trace: Option<Trace>) -> Result<Plan, PlanError> {
        let defaults = defaults(options.preset);
        let arms = arms(&options, &defaults);
        let baseline = baseline(&options, &defaults, &arms);
        check_trace(&options, trace.as_ref())?;
        let cells = cells(&options, &defaults, trace.as_ref())?;
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

    /// The data set that is replayed, if any.
    pub fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref()
    }

    /// Bounds of the knee, if it is one that is searched.
    pub fn knee(&self) -> Option<KneeBounds> {
        (self.options.preset == Preset::Knee).then(|| KneeBounds::of(&self.options))
    }

    /// Paths of programs that a person named: `selvedge` and `mosquitto`.
    pub(crate) fn programs(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        (
            self.options.selvedge_program.clone(),
            self.options.mosquitto_program.clone(),
        )
    }

    /// About how long one of the runs takes.
    pub fn estimate(&self) -> Duration {
        let round: Duration = self
            .cells
            .iter()
            .map(|cell| Duration::from_micros(cell.duration_us) + WARM_UP_GUESS + CONNECT_GUESS * cell.devices)
            .sum();
        let arms = self.arms.len() as u32 + 1;
        let steps = if self.knee().is_some() { KNEE_STEPS } else { 1 };
        round * arms * self.blocks * steps
    }
}

fn refused(words: impl Into<String>) -> PlanError {
    PlanError(words.into())
}

fn arms(options: &Options, defaults: &Defaults) -> Vec<ArmKind> {
    let named = if options.arms.is_empty() {
        &defaults.arms
    } else {
        &options.arms
    };
    let mut arms: Vec<ArmKind> = Vec::new();
    for kind in named.iter().chain(&options.target).chain(&options.baseline) {
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
        _ if options.preset != Preset::Knee => Ok(()),
        [one] if one.interval_us.is_some() => Ok(()),
        [_] => Err(refused("--preset knee searches for a rate: --load periodic or poisson")),
        several => Err(refused(format!(
            "--preset knee searches under one load, not {}: one --payload, --devices and --qos, and no --interval",
            several.len()
        ))),
    }
}

fn cells(options: &Options, defaults: &Defaults, trace: Option<&Trace>) -> Result<Vec<Cell>, PlanError> {
    let mut cells = Vec::new();
    for sweep in &defaults.sweeps {
        for cell in sweep_cells(&changed(sweep, options), options, defaults, trace)? {
            if !cells.contains(&cell) {
                cells.push(cell);
            }
        }
    }
    Ok(cells)
}

/// A preset's sweep with what the person said in place.
fn changed(sweep: &Sweep, options: &Options) -> Sweep {
    fn said<T: Clone>(list: &[T], usual: &[T]) -> Vec<T> {
        if list.is_empty() { usual.to_vec() } else { list.to_vec() }
    }
    Sweep {
        load: options.load.unwrap_or(sweep.load),
        interval_us: said(&options.interval_us, &sweep.interval_us),
        payload_bytes: said(&options.payload_bytes, &sweep.payload_bytes),
        devices: said(&options.devices, &sweep.devices),
        qos: said(&options.qos, &sweep.qos),
        concurrency: said(&options.concurrency, &sweep.concurrency),
    }
}

fn sweep_cells(
    sweep: &Sweep,
    options: &Options,
    defaults: &Defaults,
    trace: Option<&Trace>,
) -> Result<Vec<Cell>, PlanError> {
    // What has no meaning for a load model takes one value, so that no cell is measured twice.
    let has_interval = matches!(sweep.load, LoadModel::Periodic | LoadModel::Poisson);
    let intervals = if has_interval {
        sweep.interval_us.iter().copied().map(Some).collect()
    } else {
        vec![None]
    };
    let concurrency = if sweep.load.is_closed() {
        sweep.concurrency.clone()
    } else {
        vec![0]
    };
    let payloads = trace.map_or_else(
        || sweep.payload_bytes.clone(),
        |trace| vec![Payloads::rows(trace).median_bytes()],
    );
    let cells = vec![first_cell(sweep, options, defaults)];
    let cells = with_each(&cells, &intervals, |cell, interval_us| cell.interval_us = interval_us);
    let cells = with_each(&cells, &payloads, |cell, bytes| cell.payload_bytes = bytes);
    let cells = with_each(&cells, &sweep.devices, |cell, devices| cell.devices = devices);
    let cells = with_each(&cells, &sweep.qos, |cell, qos| {
        cell.qos = qos;
        cell.think_us = options.think_us.unwrap_or_else(|| (defaults.think_us)(qos));
    });
    let mut cells = with_each(&cells, &concurrency, |cell, concurrency| cell.concurrency = concurrency);
    if options.duration_us.is_none() {
        for cell in &mut cells {
            let rounds = LEAST_MESSAGES.div_ceil(u64::from(cell.devices.max(1)));
            cell.duration_us = cell.duration_us.max(cell.interval_us.unwrap_or(0) * rounds);
        }
    }
    cells.iter().try_for_each(check)?;
    Ok(cells)
}

/// What all cells of a sweep have in common.
fn first_cell(sweep: &Sweep, options: &Options, defaults: &Defaults) -> Cell {
    Cell {
        load: sweep.load,
        interval_us: None,
        payload_bytes: 0,
        devices: 0,
        qos: 0,
        concurrency: 0,
        think_us: 0,
        duration_us: options.duration_us.unwrap_or(defaults.duration_us),
        timeout_us: options.timeout_us.unwrap_or(defaults.timeout_us),
    }
}

/// Every cell with every value: one more factor of a cross product.
fn with_each<T: Copy>(cells: &[Cell], values: &[T], set: impl Fn(&mut Cell, T)) -> Vec<Cell> {
    let changed = |cell: &Cell, value: T| {
        let mut cell = cell.clone();
        set(&mut cell, value);
        cell
    };
    cells
        .iter()
        .flat_map(|cell| values.iter().map(|value| changed(cell, *value)).collect::<Vec<_>>())
        .collect()
}

fn check(cell: &Cell) -> Result<(), PlanError> {
    if !PAYLOAD_BYTES.contains(&cell.payload_bytes) {
        let (least, most) = (PAYLOAD_BYTES.start(), PAYLOAD_BYTES.end());
        return Err(refused(format!(
            "--payload {}: from {least} (the message's number) to {most} bytes",
            cell.payload_bytes
        )));
    }
    if !(1..=MOST_DEVICES).contains(&cell.devices) {
        return Err(refused(format!("--devices {}: from 1 to {MOST_DEVICES}", cell.devices)));
    }
    if cell.qos > 2 {
        return Err(refused(format!("--qos {}: 0, 1 or 2", cell.qos)));
    }
    if cell.interval_us == Some(0) {
        return Err(refused(
            "--interval 0: at least 1us; to send without a pause use --load closed",
        ));
    }
    if cell.load.is_closed() && !(1..=1_000_000).contains(&cell.concurrency) {
        return Err(refused(format!(
            "--concurrency {}: from 1 to 1000000",
            cell.concurrency
        )));
    }
    if cell.duration_us == 0 || cell.timeout_us == 0 {
        return Err(refused("--duration and --timeout: at least 1us"));
    }
    let messages = cell
        .interval_us
        .map_or(0, |us| cell.duration_us / us * u64::from(cell.devices));
    if messages > MOST_MESSAGES {
        let words = format!("{messages} messages a block, where {MOST_MESSAGES} can be kept: shorten --duration");
        return Err(refused(words));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtt::Preset;

    fn plan(options: Options) -> Result<Plan, PlanError> {
        Plan::new(options, None)
    }

    #[test]
    fn the_baseline_is_the_arm_asked_for_else_mosquitto_else_the_first() {
        let baseline = |arms: &[ArmKind], baseline: Option<ArmKind>| {
            let plan = plan(Options {
                arms: arms.to_vec(),
                baseline,
                ..Options::default()
            })
            .unwrap();
            plan.arms()[plan.baseline()].clone()
        };
        let brokers = [ArmKind::Selvedge, ArmKind::Mosquitto];
        assert_eq!(baseline(&brokers, None), ArmKind::Mosquitto);
        assert_eq!(baseline(&brokers, Some(ArmKind::Relay)), ArmKind::Relay);
        assert_eq!(baseline(&[ArmKind::TcpEcho], None), ArmKind::TcpEcho);
    }

    #[test]
    fn the_demo_takes_about_ninety_seconds() {
        let plan = plan(Options {
            preset: Preset::Demo,
            ..Options::default()
        })
        .unwrap();
        assert!((75..100).contains(&plan.estimate().as_secs()), "{:?}", plan.estimate());
    }

    #[test]
    fn presets_take_the_time_that_their_help_says() {
        let cases = [
            (Preset::Closed, 5),
            (Preset::ClosedTls, 3),
            (Preset::Fleet, 4),
            (Preset::Crowd, 5),
            (Preset::Knee, 3),
            (Preset::Paper, 65),
        ];
        for (preset, minutes) in cases {
            let plan = plan(Options {
                preset,
                ..Options::default()
            })
            .unwrap();
            let found = plan.estimate().as_secs_f64() * f64::from(plan.runs()) / 60.0;
            assert!(
                (found - f64::from(minutes)).abs() <= 1.5,
                "{preset:?} takes {found:.1} min"
            );
        }
    }

    #[test]
    fn lists_are_swept_as_their_cross_product_and_no_cell_twice() {
        let options = Options {
            qos: vec![0, 1],
            payload_bytes: vec![64, 1_000],
            ..Options::default()
        };
        assert_eq!(plan(options).unwrap().cells().len(), 4);
        let one = Options {
            preset: Preset::Paper,
            interval_us: vec![200_000],
            qos: vec![1],
            ..Options::default()
        };
        let (all, cells) = (plan(one.clone()).unwrap(), plan(one).unwrap());
        assert!(
            all.cells()
                .iter()
                .enumerate()
                .all(|(i, cell)| !cells.cells()[..i].contains(cell))
        );
    }

    #[test]
    fn a_long_interval_lengthens_the_block_to_fifteen_messages() {
        let options = Options {
            interval_us: vec![5_000_000],
            devices: vec![1],
            ..Options::default()
        };
        assert_eq!(plan(options).unwrap().cells()[0].duration_us, 75_000_000);
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_value() {
        let cases = [
            (
                Options {
                    payload_bytes: vec![4],
                    ..Options::default()
                },
                "--payload 4",
            ),
            (
                Options {
                    devices: vec![0],
                    ..Options::default()
                },
                "--devices 0",
            ),
            (
                Options {
                    qos: vec![3],
                    ..Options::default()
                },
                "--qos 3",
            ),
            (
                Options {
                    blocks: Some(0),
                    ..Options::default()
                },
                "--blocks 0",
            ),
            (
                Options {
                    load: Some(LoadModel::Trace),
                    ..Options::default()
                },
                "--replay",
            ),
            (
                Options {
                    interval_us: vec![0],
                    ..Options::default()
                },
                "--interval 0",
            ),
        ];
        for (options, words) in cases {
            let error = plan(options).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
