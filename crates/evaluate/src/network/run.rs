//! Measures the emulator itself: each setting on a network of its own, device to cloud, the line between edge and cloud
//! emulated.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{
    Bandwidth, Counters, LinePlan, Means, Measured, Network, NetworkError, Place, Plan, Settings, Span, measure,
};
use crate::environment::{self, Environment};
use crate::rtt::{Progress, units};

/// Version of the layout, raised when a reader of the older one would misread it.
pub(crate) const FORMAT: u32 = 1;

/// Bandwidths of the first paper's Table 2 and Fig. 5 (e), from the thinnest, and none.
const BANDWIDTHS: [Bandwidth; 6] = [
    Bandwidth::of(8_000),
    Bandwidth::of(32_000),
    Bandwidth::of(128_000),
    Bandwidth::of(1_000_000),
    Bandwidth::of(10_000_000),
    Bandwidth::UNSHAPED,
];

/// What is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct Options {
    /// Bandwidths of each direction, such as 128kbit, 10mbit or unshaped
    #[arg(long = "bandwidth", value_delimiter = ',', default_values_t = BANDWIDTHS, value_name = "RATE")]
    pub bandwidth_bit_per_s: Vec<Bandwidth>,
    /// Delays that the line adds to a round trip
    #[arg(long = "rtt", value_delimiter = ',', default_value = "30ms", value_name = "TIME", value_parser = units::duration_us)]
    pub round_trip_us: Vec<u64>,
    /// The most by which a round trip's delay differs from that
    #[arg(long = "jitter", default_value = "0ms", value_name = "TIME", value_parser = units::duration_us)]
    pub jitter_us: u64,
    /// Share of the packets that is lost in each direction
    #[arg(long, default_value = "0", value_name = "SHARE", value_parser = units::share)]
    pub loss: f64,
    /// What emulates; netem where the kernel has it, else relay, if absent
    #[arg(long, value_enum)]
    pub means: Option<Means>,
    /// Seed of jitter and loss; drawn and recorded if absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// One run with all its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkRun {
    /// Version of the layout, raised when a reader of the older one would misread it.
    pub format: u32,
    /// Which experiment: `network`.
    pub experiment: String,
    /// What was asked for.
    pub options: Options,
    /// Seed of jitter and loss.
    pub seed: u64,
    /// Three hosts with nothing emulated: what is in every figure.
    pub plain: Cell,
    /// One for each bandwidth and delay; none where nothing can be varied.
    pub cells: Vec<Cell>,
    /// What this machine does not let us vary, and why.
    pub not_varied: Option<String>,
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// One setting, and what was got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was set.
    pub settings: Settings,
    /// What emulated it; none = nothing was emulated.
    pub means: Option<Means>,
    /// Whether our relay ran before all ordinary threads.
    pub runs_first: Option<bool>,
    /// What was got.
    pub measured: Measured,
    /// What our relay counted, towards the cloud and back.
    pub counters: Option<[Counters; 2]>,
}

/// Measures all that the options ask for.
///
/// # Errors
/// A setting that no line can have, or a network that cannot be made or measured though this machine allows it.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<NetworkRun, NetworkError> {
    let (started, before) = (Instant::now(), environment::observe(Vec::new()));
    let seed = options.seed.unwrap_or_else(rand::random);
    let settings = options.settings();
    settings.iter().try_for_each(Settings::check)?;
    progress.say("Measuring three hosts with nothing between them");
    let plain_plan = Plan {
        edge_cloud: LinePlan::Plain,
        ..Plan::wan(Settings::default(), seed)
    };
    let (plain, plain_not_varied) = cell(&plain_plan, Settings::default())?;
    let (mut cells, mut not_varied) = (Vec::new(), plain_not_varied);
    for settings in settings {
        let plan = Plan {
            means: options.means,
            ..Plan::wan(settings, seed)
        };
        progress.say(&format!("Measuring {settings}"));
        let (cell, obstacle) = cell(&plan, settings)?;
        if obstacle.is_some() {
            not_varied = obstacle;
            break;
        }
        cells.push(cell);
    }
    Ok(NetworkRun {
        format: FORMAT,
        experiment: "network".to_owned(),
        options: options.clone(),
        seed,
        plain,
        cells,
        not_varied,
        environment: environment::conclude(before, None, started.elapsed()),
    })
}

/// With what this machine did not let us vary.
fn cell(plan: &Plan, settings: Settings) -> Result<(Cell, Option<String>), NetworkError> {
    let network = Network::build(plan)?;
    let line = network.line(Span::EdgeCloud);
    let not_varied = network.not_varied().map(str::to_owned);
    let got = if not_varied.is_some() {
        Settings::default()
    } else {
        settings
    };
    let cell = Cell {
        settings: got,
        means: line.means(),
        runs_first: line.runs_first(),
        measured: measure(&network, (Place::Device, Place::Cloud), &got)?,
        counters: line.counters()?,
    };
    Ok((cell, not_varied))
}

impl Options {
    fn settings(&self) -> Vec<Settings> {
        let settings = |round_trip_us, bandwidth_bit_per_s| Settings {
            bandwidth_bit_per_s,
            round_trip_us,
            jitter_us: self.jitter_us,
            loss: self.loss,
        };
        let of_delay = |us: &u64| {
            self.bandwidth_bit_per_s
                .iter()
                .map(|rate| settings(*us, *rate))
                .collect::<Vec<_>>()
        };
        self.round_trip_us.iter().flat_map(of_delay).collect()
    }
}
