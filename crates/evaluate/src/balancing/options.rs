//! What a person may ask of `evaluate balancing`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::record::Arm;

/// Blocks where `--quick` is given: enough for a range, not for an interval.
const QUICK_BLOCKS: u32 = 2;
const QUICK_MEASURE_MS: u32 = 1_000;
const QUICK_WARM_UP_MS: u32 = 500;

const BLOCKS: u32 = 5;
const MEASURE_MS: u32 = 3_000;
/// As long as a door takes to learn how fast answers are, and to forget what it knew (two seconds, decision 49).
const WARM_UP_MS: u32 = 1_000;
/// The paper's: 139 answers a second of one client.
const SERVICE_MS: u32 = 8;
/// The paper's 1 to 16.
const CLIENTS: [u32; 6] = [1, 2, 4, 8, 12, 16];
const QUICK_CLIENTS: [u32; 2] = [4, 16];

/// What is measured, and how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub struct Options {
    /// Parts to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL, value_name = "PART")]
    pub parts: Vec<Part>,
    /// Who leads requests, of those that a part has
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Arm::value_variants().to_vec(), value_name = "ARM")]
    pub arms: Vec<Arm>,
    /// Blocks: every cell once for each arm, in random order; five or more give an interval
    #[arg(long, default_value_t = BLOCKS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub blocks: u32,
    /// Clients at a time of `pods` and `delay`
    #[arg(long, value_delimiter = ',', default_values_t = CLIENTS, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub clients: Vec<u32>,
    /// Milliseconds of each measurement
    #[arg(long, default_value_t = MEASURE_MS, value_name = "MS", value_parser = clap::value_parser!(u32).range(100..=600_000))]
    pub measure_ms: u32,
    /// Milliseconds before it that are not counted
    #[arg(long, default_value_t = WARM_UP_MS, value_name = "MS", value_parser = clap::value_parser!(u32).range(0..=60_000))]
    pub warm_up_ms: u32,
    /// Milliseconds that a pod takes for a request, one at a time
    #[arg(long, default_value_t = SERVICE_MS, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub service_ms: u32,
    /// What pods are; containers where runc is there, else processes
    #[arg(long, value_enum, value_name = "RUNTIME")]
    pub runtime: Option<Runtime>,
    /// Two blocks of some cells and short measurements: to see that everything works, within ten minutes
    #[arg(long)]
    pub quick: bool,
    /// Seed of the order; drawn and recorded if absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Selvedge's program, if not the one beside this
    #[arg(long = "selvedge", value_name = "FILE")]
    pub selvedge_program: Option<PathBuf>,
}

/// What runs pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// Containers, by runc, each with a network of its own
    Oci,
    /// Programs of their node, each at a port of its own
    Process,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// One node with 1, 2 and 4 pods (the paper's 5.2)
    Pods,
    /// Distributions of twelve pods and delays between nodes, all asked of the first node (5.3)
    Delay,
    /// Traffic at all three nodes (5.4)
    Policies,
    /// Open loop: the first node is asked for twice what its own pods can do, while its neighbours are idle
    Overload,
    /// Open loop: a node is cut off, returns after half the time or is slow, or traffic moves to another one
    Faults,
    /// Pods that use the processor instead of waiting: one at each of two nodes
    Calculate,
    /// What the door of a node takes for a request to a pod of its own that answers at once, beside nginx and HAProxy
    Proxy,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 7] = [
        Part::Pods,
        Part::Delay,
        Part::Policies,
        Part::Overload,
        Part::Faults,
        Part::Calculate,
        Part::Proxy,
    ];

    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Part::Pods => "pods of one node (5.2)",
            Part::Delay => "pod distribution and delay (5.3)",
            Part::Policies => "traffic at all nodes (5.4)",
            Part::Overload => "open loop, twice what the node can do",
            Part::Faults => "what happens in the middle",
            Part::Calculate => "pods that calculate",
            Part::Proxy => "what a proxy takes",
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parts: Part::ALL.to_vec(),
            arms: Arm::value_variants().to_vec(),
            blocks: BLOCKS,
            clients: CLIENTS.to_vec(),
            measure_ms: MEASURE_MS,
            warm_up_ms: WARM_UP_MS,
            service_ms: SERVICE_MS,
            runtime: None,
            quick: false,
            seed: None,
            selvedge_program: None,
        }
    }
}

impl Options {
    /// How long what counts of a job takes.
    pub(super) fn measure(&self) -> Duration {
        Duration::from_millis(self.measure_ms.into())
    }

    /// What does not count before it.
    pub(super) fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm_up_ms.into())
    }

    /// Of one request.
    pub(super) fn service(&self) -> Duration {
        Duration::from_millis(self.service_ms.into())
    }

    /// As much of it as `--quick` leaves; the cells that it leaves out are not listed.
    #[must_use]
    pub fn effective(mut self) -> Options {
        if self.quick {
            self.blocks = self.blocks.min(QUICK_BLOCKS);
            self.measure_ms = self.measure_ms.min(QUICK_MEASURE_MS);
            self.warm_up_ms = self.warm_up_ms.min(QUICK_WARM_UP_MS);
            if self.clients == CLIENTS {
                self.clients = QUICK_CLIENTS.to_vec();
            }
        }
        self
    }
}
