//! Measures the emulator itself: each setting on a network of its own, device to cloud, the line between edge and cloud
//! emulated.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{
    Bandwidth, LinePlan, Means, Measured, Network, NetworkError, NetworkRecord, Place, Plan, Settings, measure,
};
use crate::environment::{self, Environment};
use crate::rtt::{Progress, units};

/// Version of the layout, raised when a reader of the older one would misread it.
pub(crate) const FORMAT: u32 = 1;

pub(crate) const EXPERIMENT: &str = "network";

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
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// One setting, and what was got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What was set, and what emulated it.
    pub network: NetworkRecord,
    /// What was got.
    pub measured: Measured,
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
    let plain = cell(&Plan {
        edge_cloud: LinePlan::Plain,
        ..Plan::wan(Settings::default(), seed)
    })?;
    let mut cells = Vec::new();
    if plain.network.not_varied.is_none() {
        for settings in settings {
            progress.say(&format!("Measuring {settings}"));
            cells.push(cell(&Plan {
                means: options.means,
                ..Plan::wan(settings, seed)
            })?);
        }
    }
    Ok(NetworkRun {
        format: FORMAT,
        experiment: EXPERIMENT.to_owned(),
        options: options.clone(),
        seed,
        plain,
        cells,
        environment: environment::conclude(before, None, started.elapsed()),
    })
}

fn cell(plan: &Plan) -> Result<Cell, NetworkError> {
    let network = Network::build(plan)?;
    let settings = plan.edge_cloud.settings().copied().unwrap_or_default();
    let measured = measure(&network, (Place::Device, Place::Cloud), &settings)?;
    Ok(Cell {
        network: network.record()?,
        measured,
    })
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
