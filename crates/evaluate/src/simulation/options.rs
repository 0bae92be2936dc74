//! What a person may ask of `evaluate simulate`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

const SEEDS: u32 = 5;
const QUICK_SEEDS: u32 = 2;
const NODES: [u32; 4] = [10, 100, 1_000, 10_000];
const QUICK_NODES: [u32; 2] = [10, 100];
/// As `evaluate balancing` has them.
const SERVICE_MS: u32 = 8;

/// What is simulated, and how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub struct Options {
    /// Parts to simulate
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL, value_name = "PART")]
    pub parts: Vec<Part>,
    /// Seeds of each cell; five or more give an interval
    #[arg(long, default_value_t = SEEDS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub seeds: u32,
    /// Nodes of `scale`; more than 250 are several sites, as even as they can be, that know nothing of each other
    #[arg(long, value_delimiter = ',', default_values_t = NODES, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub nodes: Vec<u32>,
    /// Milliseconds that an endpoint takes for a request, one at a time
    #[arg(long, default_value_t = SERVICE_MS, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub service_ms: u32,
    /// Readings of an office whose first whole day the traffic of `day` follows; a built-in profile if absent
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// Two seeds of some cells, and of 10 and 100 nodes where --nodes says nothing else: some ten seconds
    #[arg(long)]
    pub quick: bool,
    /// Seed of all chance; drawn and recorded if absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// One of ten nodes is asked for more and more, by distance, by what the others are asked, and by kind of service
    Map,
    /// Sites of more and more nodes in places and regions, with traffic that stays, that follows a day, or that comes all at
    /// one place
    Scale,
}

impl Part {
    /// Both.
    pub const ALL: [Part; 2] = [Part::Map, Part::Scale];
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parts: Part::ALL.to_vec(),
            seeds: SEEDS,
            nodes: NODES.to_vec(),
            service_ms: SERVICE_MS,
            replay: None,
            quick: false,
            seed: None,
        }
    }
}

impl Options {
    /// As much of it as `--quick` leaves, each part and number of nodes once; the cells that it leaves out are not listed.
    #[must_use]
    pub fn effective(mut self) -> Options {
        self.nodes.sort_unstable();
        self.nodes.dedup();
        self.parts.sort_unstable();
        self.parts.dedup();
        if self.quick {
            self.seeds = self.seeds.min(QUICK_SEEDS);
            if self.nodes == NODES {
                self.nodes = QUICK_NODES.to_vec();
            }
        }
        self
    }
}
