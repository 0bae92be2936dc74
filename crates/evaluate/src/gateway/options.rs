//! What a person may ask of `evaluate gateway`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Blocks where `--quick` is given: enough for a range, not for an interval.
const QUICK_BLOCKS: u32 = 2;
const QUICK_ACTIVATIONS: u32 = 5;
const QUICK_THROUGHPUT_MS: u32 = 400;
const QUICK_APPLIES: u32 = 3;
const QUICK_REST_MS: u32 = 3_000;
const QUICK_DIVISOR: u32 = 4;
const QUICK_SPEED: u32 = 240;
const QUICK_DAY_SPEED: u32 = 1_440;

const BLOCKS: u32 = 10;
/// Ten blocks of them are enough for p99, which needs 368.
const ACTIVATIONS: u32 = 40;
const BURST: u32 = 1_000;
const THROUGHPUT_MS: u32 = 2_000;
const APPLIES: u32 = 10;
const REST_MS: u32 = 20_000;
/// What is promised is of as many.
pub(super) const SERVICES: u32 = 100;
const QUICK_SERVICES: u32 = 10;
/// As the paper has it.
const INSTANCES: [u32; 4] = [1, 2, 3, 4];
const EVENTS: u32 = 2_000;
const UDP_S: u32 = 4;
const SPEED: u32 = 60;
/// Of the paper's test.
const WORK_S: u32 = 62 * 60;
/// Six minutes a day.
const DAY_SPEED: u32 = 240;
pub(super) const DAY_S: u32 = 24 * 60 * 60;

/// What is measured, and how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub struct Options {
    /// Parts to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL, value_name = "PART")]
    pub parts: Vec<Part>,
    /// What runs the applications
    #[arg(long = "runtime", value_enum, value_delimiter = ',', default_values_t = Runtime::ALL, value_name = "RUNTIME")]
    pub runtimes: Vec<Runtime>,
    /// Blocks: every task once for each arm, in random order; five or more give an interval
    #[arg(long, default_value_t = BLOCKS, value_name = "N")]
    pub blocks: u32,
    /// Activations of each kind and arm in a block; 368 in all give a 99th percentile
    #[arg(long, default_value_t = ACTIVATIONS, value_name = "N")]
    pub activations: u32,
    /// First requests at once to one that sleeps
    #[arg(long, default_value_t = BURST, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_000))]
    pub burst: u32,
    /// Milliseconds of each of four measurements of throughput
    #[arg(long, default_value_t = THROUGHPUT_MS, value_name = "MS")]
    pub throughput_ms: u32,
    /// Applications that are applied one after the other in a block, for each arm
    #[arg(long, default_value_t = APPLIES, value_name = "N")]
    pub applies: u32,
    /// Milliseconds of each measurement of an edge at rest
    #[arg(long, default_value_t = REST_MS, value_name = "MS")]
    pub rest_ms: u32,
    /// Services whose memory is measured, each with ten containers
    #[arg(long, default_value_t = SERVICES, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub services: u32,
    /// Instances of a benchmark program at a time
    #[arg(long, value_delimiter = ',', default_values_t = INSTANCES, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=16))]
    pub instances: Vec<u32>,
    /// Events of sysbench, each the primes up to 20,000
    #[arg(long, default_value_t = EVENTS, value_name = "N")]
    pub events: u32,
    /// Seconds of UDP each way
    #[arg(long, default_value_t = UDP_S, value_name = "S")]
    pub udp_s: u32,
    /// Benchmark programs do this part of their work
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=50))]
    pub cost_divisor: u32,
    /// How much faster than in the paper a sensor sends: there 13 bytes every 60 s, for 62 min
    #[arg(long, default_value_t = SPEED, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub speed: u32,
    /// Readings of an office, whose times and values say when the applications of `day` are asked: a file as those of
    /// the Occupancy Detection data set, of which the first whole day is taken; without it a built-in profile of an
    /// office's hours
    #[arg(long, value_name = "FILE")]
    pub day: Option<PathBuf>,
    /// How much faster than it was the day goes by
    #[arg(long, default_value_t = DAY_SPEED, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_800))]
    pub day_speed: u32,
    /// Two blocks of a few activations and short measurements: to see that everything works, within ten minutes; the
    /// day only by itself (`--parts day`)
    #[arg(long)]
    pub quick: bool,
    /// Seed of the order; drawn and recorded if absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Selvedge's program, if not the one beside this
    #[arg(long = "selvedge", value_name = "FILE")]
    pub selvedge_program: Option<PathBuf>,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// How long the first request to a sleeping web server takes, throughput after it, many first requests at once
    Activation,
    /// Memory and processor at rest with 20 running containers and with 100 sleeping applications, and `apply` to
    /// answering
    Footprint,
    /// CPU, memory, disk and network of benchmark programs: natively, as programs of the host, and in containers
    Cost,
    /// A web server, a database and an orchestrator, started by the first packet of a sensor: CPU and memory over time
    Work,
    /// Applications that sleep until they are asked beside the same that always run, over a day: memory, CPU, energy,
    /// answers
    Day,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 5] = [Part::Activation, Part::Footprint, Part::Cost, Part::Work, Part::Day];
}

/// What runs an application at an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Runtime {
    /// A program of the host
    Process,
    /// A container, by runc and without a daemon
    Oci,
    /// A container of a Docker Engine, which is started for the run
    Docker,
}

impl Runtime {
    /// All of them.
    pub const ALL: [Runtime; 3] = [Runtime::Process, Runtime::Oci, Runtime::Docker];

    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Runtime::Process => "process",
            Runtime::Oci => "oci",
            Runtime::Docker => "docker",
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parts: Part::ALL.to_vec(),
            runtimes: Runtime::ALL.to_vec(),
            blocks: BLOCKS,
            activations: ACTIVATIONS,
            burst: BURST,
            throughput_ms: THROUGHPUT_MS,
            applies: APPLIES,
            rest_ms: REST_MS,
            services: SERVICES,
            instances: INSTANCES.to_vec(),
            events: EVENTS,
            udp_s: UDP_S,
            cost_divisor: 1,
            speed: SPEED,
            day: None,
            day_speed: DAY_SPEED,
            quick: false,
            seed: None,
            selvedge_program: None,
        }
    }
}

impl Options {
    /// With `--quick` worked in.
    #[must_use]
    pub fn effective(mut self) -> Options {
        if std::mem::take(&mut self.quick) {
            if self.parts != [Part::Day] {
                // Beside the others it would not end in time.
                self.parts.retain(|part| *part != Part::Day);
            }
            self.blocks = self.blocks.min(QUICK_BLOCKS);
            self.activations = self.activations.min(QUICK_ACTIVATIONS);
            self.applies = self.applies.min(QUICK_APPLIES);
            self.rest_ms = self.rest_ms.min(QUICK_REST_MS);
            self.services = self.services.min(QUICK_SERVICES);
            self.instances.truncate(1);
            self.speed = self.speed.max(QUICK_SPEED);
            self.day_speed = self.day_speed.max(QUICK_DAY_SPEED);
            self.cost_divisor = self.cost_divisor.max(QUICK_DIVISOR);
            self.throughput_ms = self.throughput_ms.min(QUICK_THROUGHPUT_MS);
        }
        self
    }

    /// How long the sensor sends.
    pub(super) fn work_time(&self) -> Duration {
        Duration::from_secs(u64::from(WORK_S)) / self.speed
    }

    /// How long the day takes.
    pub(super) fn day_time(&self) -> Duration {
        Duration::from_secs(u64::from(DAY_S)) / self.day_speed
    }

    /// Whether an arm is to be run, as far as runtimes go.
    pub(super) fn has(&self, runtime: Runtime) -> bool {
        self.runtimes.contains(&runtime)
    }
}
