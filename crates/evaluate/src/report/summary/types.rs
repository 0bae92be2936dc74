//! The summary's types. Durations are in µs and named so.

use serde::Serialize;

use super::{Added, Against, Busy, FoundKnee, Judging, Promised};
use crate::environment::Environment;
use crate::figures::{Beside, ClaimVerdict, Requirement};
use crate::network;
use crate::rtt::{ArmKind, Options};
use crate::run::{Cell, Counters, Run, Skipped};
use crate::stats::{Check, Determinism, Estimate, Interval, Knee, LoadPoint, Outcome, Trend};

/// All that raw files of one experiment say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Which experiment: `rtt` or `knee`.
    pub experiment: String,
    /// The raw files.
    pub runs: Vec<RunFacts>,
    /// Systems measured.
    pub arms: Vec<ArmFacts>,
    /// Points of the sweep, each with its arms.
    pub cells: Vec<CellSummary>,
    /// Parameters that were varied.
    pub sweeps: Vec<Sweep>,
    /// Knees that were searched, by run and arm; empty where none was.
    pub knees: Vec<FoundKnee>,
    /// The paper's figures beside ours.
    pub figures: Vec<Beside>,
    /// The paper's claims, tested for shape.
    pub claims: Vec<ClaimVerdict>,
    /// Arms that could not be measured.
    pub skipped: Vec<Skipped>,
    /// By what all this was judged.
    pub judging: Judging,
}

/// A raw file, without its blocks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFacts {
    /// Seed of schedules and order.
    pub seed: u64,
    /// Hash of the schedules.
    pub schedule_hash: String,
    /// Options it was started with.
    pub options: Options,
    /// The machine.
    pub environment: Environment,
    /// Its loads.
    pub cells: Vec<Cell>,
    /// The emulated network, set against got; absent where all ran on this machine.
    pub network: Option<network::Cell>,
}

impl RunFacts {
    /// Those of `run`.
    pub(super) fn of(run: &Run) -> RunFacts {
        RunFacts {
            seed: run.seed,
            schedule_hash: run.schedule_hash.clone(),
            options: run.options.clone(),
            environment: run.environment.clone(),
            cells: run.cells.clone(),
            network: run.network.clone(),
        }
    }
}

/// A system under test.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmFacts {
    /// Name on the command line.
    pub name: String,
    /// Version and settings, in words.
    pub label: String,
    /// Whether the others are compared with it.
    pub baseline: bool,
    /// Index of the arm that it repeats, on an A/A arm.
    pub again_of: Option<usize>,
    /// From start to the first answer, in ms.
    pub ready_ms: Option<f64>,
    /// Resident memory before the first client, in bytes.
    pub idle_rss_bytes: Option<u64>,
}

impl ArmFacts {
    /// Which model or system it is, a repetition being what it repeats.
    fn kind(&self) -> Option<ArmKind> {
        self.name.strip_suffix("-again").unwrap_or(&self.name).parse().ok()
    }

    /// Whether it is one of the first paper's models.
    pub fn is_model(&self) -> bool {
        self.kind().is_some_and(|kind| kind.is_model())
    }

    /// Whether its messages go over the line between edge and cloud.
    pub fn crosses_line(&self) -> bool {
        self.kind().is_some_and(|kind| kind.crosses_line())
    }
}

/// One point of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellSummary {
    /// The load.
    pub cell: Cell,
    /// What each arm did under it.
    pub arms: Vec<ArmResult>,
    /// The noise of the machine: an arm against itself; absent without an A/A arm.
    pub noise: Option<Against>,
    /// What an edge and its link add to the way to the cloud; empty without both models.
    pub added: Vec<Added>,
    /// What was promised under this load.
    pub promises: Vec<Promised>,
}

impl CellSummary {
    /// The result of an arm, if it was measured here.
    pub fn arm(&self, arm: usize) -> Option<&ArmResult> {
        self.arms.iter().find(|result| result.arm == arm)
    }
}

/// One arm under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArmResult {
    /// Index in [`Summary::arms`].
    pub arm: usize,
    /// Blocks that count.
    pub blocks: usize,
    /// Blocks that were set aside because the generator was late in their round.
    pub set_aside: usize,
    /// Blocks whose warm-up did not settle before its bound.
    pub unsettled: usize,
    /// Why blocks ended before their time.
    pub failures: Vec<String>,
    /// Sums over the blocks.
    pub counts: Counters,
    /// From intended send to answer: the headline (rule 2).
    pub response: Latency,
    /// From actual send to answer (rule 2).
    pub service: Figures,
    /// The first paper's full-stack round trip (Eq. 1), where the responder said its own time.
    pub paper: Option<Figures>,
    /// p99 of actual − intended send, in µs.
    pub send_lag_p99_us: f64,
    /// Rates and costs.
    pub load: Load,
    /// What was busy.
    pub busy: Busy,
    /// Buffering, as a slope in µs a message; absent with too few messages.
    pub trend: Option<Trend>,
    /// Deadline that [`ArmResult::determinism`] was judged by, in µs.
    pub deadline_us: f64,
    /// Deterministic or not (rule 7).
    pub determinism: Determinism,
    /// What it is good for (rule 12).
    pub requirements: Vec<RequirementVerdict>,
    /// Sanity laws (rules 2 and 10).
    pub laws: Vec<LawResult>,
    /// Against the baseline; absent on the baseline itself.
    pub against: Option<Against>,
    /// What the plots draw.
    pub shapes: Shapes,
}

impl ArmResult {
    /// Whether every sanity law holds: else this is not a result.
    pub fn is_valid(&self) -> bool {
        self.laws.iter().all(|law| law.broken == 0)
    }
}

/// A distribution of durations in µs; lost messages count as infinite.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Mean of the answered.
    pub mean_us: Option<f64>,
    /// Longest of the answered.
    pub worst_us: Option<f64>,
    /// p50; absent means too few messages.
    pub p50: Option<Estimate>,
    /// p95; absent means too few messages.
    pub p95: Option<Estimate>,
    /// p99; absent means too few messages.
    pub p99: Option<Estimate>,
    /// p99.9; absent means too few messages.
    pub p999: Option<Estimate>,
}

/// Figures of a distribution in µs without intervals, however few the messages; absent where they fall among the
/// losses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Mean of the answered.
    pub mean_us: Option<f64>,
    /// p50.
    pub p50_us: Option<f64>,
    /// p99.
    pub p99_us: Option<f64>,
}

/// Rates and costs of an arm under a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Messages that the load model asked for, a second.
    pub offered_per_s: f64,
    /// Messages answered, a second.
    pub answered_per_s: f64,
    /// CPU time of the server a round trip, in µs.
    pub server_cpu_us: Option<f64>,
    /// Largest resident memory of the server at a block's end, in bytes.
    pub server_rss_bytes: Option<u64>,
}

/// Whether a class of applications could be served.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequirementVerdict {
    /// The class and its bound.
    pub requirement: Requirement,
    /// By the interval of p99.
    pub outcome: Outcome,
    /// Messages answered later than the bound or never.
    pub missed: usize,
    /// Messages in all.
    pub messages: usize,
}

/// A sanity law over all blocks: tested in each, or once over all together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LawResult {
    /// Which.
    pub law: &'static str,
    /// How often it was tested: as often as there are blocks, or once.
    pub tested: usize,
    /// How often it does not hold.
    pub broken: usize,
    /// The values of the first test that it fails, else of the first.
    pub detail: String,
}

impl LawResult {
    /// One law's checks of all blocks; `None` without any.
    pub(super) fn of(checks: &[Check]) -> Option<LawResult> {
        let shown = checks.iter().find(|check| !check.holds).or(checks.first())?;
        let broken = checks.iter().filter(|check| !check.holds).count();
        Some(LawResult {
            law: shown.law,
            tested: checks.len(),
            broken,
            detail: shown.detail.clone(),
        })
    }
}

/// What the plots draw of an arm's response times, in µs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shapes {
    /// For the box plot; absent without answers.
    pub boxed: Option<BoxStatistics>,
    /// Percentile spectrum: quantile and duration, up to where the losses begin.
    pub spectrum: Vec<(f64, f64)>,
    /// Round trip over message index: index, median and p95 of the answered around it.
    pub over_index: Vec<(f64, f64, f64)>,
    /// Percentile spectrum of the send lag.
    pub send_lag: Vec<(f64, f64)>,
}

/// A box as in the papers' figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoxStatistics {
    /// First quartile.
    pub lower_us: f64,
    /// Median: the notch's line.
    pub median_us: f64,
    /// Third quartile.
    pub upper_us: f64,
    /// Least within 1.5 times the quartiles' distance below the box.
    pub low_us: f64,
    /// Greatest within 1.5 times the quartiles' distance above the box.
    pub high_us: f64,
    /// The average circle, of the answered.
    pub mean_us: f64,
    /// The notch: interval of the median.
    pub notch: Option<Interval>,
    /// Messages beyond the whiskers, all of them.
    pub outliers: usize,
    /// Some of them, thinned evenly by rank, the extreme ones kept.
    pub dots_us: Vec<f64>,
}

/// A parameter that was varied with all others equal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// Which.
    pub swept: Swept,
    /// Indices in [`Summary::cells`], in the order of the parameter.
    pub cells: Vec<usize>,
    /// Where a load was swept: what each arm makes of it.
    pub knees: Vec<SweepKnees>,
}

/// Parameters of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Swept {
    /// Time between two messages of a device.
    Interval,
    /// Bytes of a message.
    Payload,
    /// Devices connected.
    Devices,
    /// MQTT quality of service.
    Qos,
    /// Messages out at once in a closed loop.
    Concurrency,
    /// Bits a second of the line between edge and cloud.
    Bandwidth,
    /// Delay that this line adds to a round trip.
    Delay,
}

/// Load against latency of an arm (rule 8).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepKnees {
    /// Index in [`Summary::arms`].
    pub arm: usize,
    /// In the order of the load.
    pub points: Vec<LoadPoint>,
    /// (a) most messages answered.
    pub optimum: Option<Knee>,
    /// (b) p99 and losses within their bounds.
    pub bounded: Option<Knee>,
}
