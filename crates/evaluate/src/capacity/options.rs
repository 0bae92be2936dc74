//! What a person may ask of `evaluate capacity`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rtt::units::duration_us;

/// Blocks where `--quick` is given: enough for a range, not for an interval.
const QUICK_BLOCKS: u32 = 2;
const QUICK_SHARE: u32 = 10;

/// Where nothing else is said.
const BLOCKS: u32 = 5;
const CONNECTIONS: u32 = 10_000;
const QUEUED: u32 = 1_000_000;
const PAYLOAD_BYTES: [u32; 2] = [64, 128];
const IN_FLIGHT: u16 = 1024;
const DURATION_MS: u32 = 3_000;
const THIN_US: u64 = 120_000_000;
const EDGES: u32 = 1_000;
const OUTAGE_US: u64 = 30_000_000;
const CUT_US: u64 = 600_000_000;

/// What is measured, and how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(default)]
pub struct Options {
    /// Parts to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Part::ALL, value_name = "PART")]
    pub parts: Vec<Part>,
    /// Blocks: every part once for each system, in random order; five or more give an interval
    #[arg(long, default_value_t = BLOCKS, value_name = "N")]
    pub blocks: u32,
    /// Connections whose memory is measured
    #[arg(long, default_value_t = CONNECTIONS, value_name = "N")]
    pub connections: u32,
    /// Messages that are queued when the time until ready is measured, and those of a backlog
    #[arg(long, default_value_t = QUEUED, value_name = "N")]
    pub queued: u32,
    /// Values in each reading of a backlog, which are rows of the database
    #[arg(long, value_enum, default_value_t, value_name = "N")]
    pub values: Values,
    /// Sizes of the payloads that are published
    #[arg(long = "payload", value_delimiter = ',', default_values_t = PAYLOAD_BYTES, value_name = "BYTES")]
    pub payload_bytes: Vec<u32>,
    /// Messages out at once
    #[arg(long, default_value_t = IN_FLIGHT, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub in_flight: u16,
    /// Milliseconds of publishing until the server is killed
    #[arg(long, default_value_t = DURATION_MS, value_name = "MS")]
    pub duration_ms: u32,
    /// How long a backlog drains over a line of 8 kbit/s: first alone, then as long beside calls
    #[arg(long = "thin", default_value = "120s", value_parser = duration_us, value_name = "DURATION")]
    pub thin_us: u64,
    /// Edges that reconnect at once
    #[arg(long, default_value_t = EDGES, value_name = "N")]
    pub edges: u32,
    /// How long they are without a line before they do; after 20 s each end has found that out
    #[arg(long = "outage", default_value = "30s", value_parser = duration_us, value_name = "DURATION")]
    pub outage_us: u64,
    /// How long the line of an edge under load is cut
    #[arg(long = "cut", default_value = "600s", value_parser = duration_us, value_name = "DURATION")]
    pub cut_us: u64,
    /// Two blocks, and a tenth of connections, queue, durations and edges
    #[arg(long)]
    pub quick: bool,
    /// PostgreSQL that a backlog goes into, as postgres://user@host/name, if not one that is started for the run
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
    /// Seed of the order; drawn and recorded if absent
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Selvedge's program, if not the one beside this
    #[arg(long = "selvedge", value_name = "FILE")]
    pub selvedge_program: Option<PathBuf>,
    /// Mosquitto's program, if not the installed one
    #[arg(long = "mosquitto", value_name = "FILE")]
    pub mosquitto_program: Option<PathBuf>,
}

/// How many values are in a reading of 100 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Values {
    /// Beside it words on its quality
    #[default]
    #[serde(rename = "1")]
    #[value(name = "1")]
    One,
    /// Numbers and a truth value
    #[serde(rename = "5")]
    #[value(name = "5")]
    Five,
}

/// A part of the experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Memory of the idle process and of idle connections
    Memory,
    /// The same under TLS
    MemoryTls,
    /// Time until ready with an empty and a used data directory
    Ready,
    /// The same with messages queued, after a clean stop and after kill -9
    ReadyQueued,
    /// Acknowledged QoS 1 messages to an offline session, and how many of them survive kill -9
    Durable,
    /// A backlog at an edge goes to its cloud and into the database, while messages come that are live
    Drain,
    /// The same with PostgreSQL as the database: of --database, else one of this machine's programs for the run
    DrainPostgresql,
    /// A backlog goes over a line of 300 ms, and over one without delay; as root
    DrainFar,
    /// A backlog goes over a line of 8 kbit/s: how much of it is readings, and how long a call takes; as root
    Thin,
    /// Many edges reconnect at once, and another one notices nothing; as root
    Storm,
    /// The line of an edge under load is cut, both ends are killed, and each message is in the database once; as root
    Cut,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 11] = [
        Part::Memory,
        Part::MemoryTls,
        Part::Ready,
        Part::ReadyQueued,
        Part::Durable,
        Part::Drain,
        Part::DrainPostgresql,
        Part::DrainFar,
        Part::Thin,
        Part::Storm,
        Part::Cut,
    ];

    /// Whether it is about an edge and its cloud.
    pub(super) fn is_of_link(self) -> bool {
        matches!(self, Part::Drain | Part::DrainPostgresql | Part::DrainFar) || self.is_once()
    }

    /// Whether it is measured in the first block alone: it takes minutes, and promises no time that differs from one
    /// block to the next by more than its aim leaves room for.
    pub(super) fn is_once(self) -> bool {
        matches!(self, Part::Thin | Part::Storm | Part::Cut)
    }

    /// How long one of those takes at least.
    pub(super) fn takes(self, options: &Options) -> Option<Duration> {
        match self {
            Part::Thin => Some(2 * options.thin()),
            Part::Storm => Some(options.outage()),
            Part::Cut => Some(options.cut()),
            _ => None,
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parts: Part::ALL.to_vec(),
            blocks: BLOCKS,
            connections: CONNECTIONS,
            queued: QUEUED,
            values: Values::default(),
            payload_bytes: PAYLOAD_BYTES.to_vec(),
            in_flight: IN_FLIGHT,
            duration_ms: DURATION_MS,
            thin_us: THIN_US,
            edges: EDGES,
            outage_us: OUTAGE_US,
            cut_us: CUT_US,
            quick: false,
            database: None,
            seed: None,
            selvedge_program: None,
            mosquitto_program: None,
        }
    }
}

impl Options {
    /// With `--quick` worked in.
    #[must_use]
    pub fn effective(mut self) -> Options {
        if std::mem::take(&mut self.quick) {
            self.blocks = self.blocks.min(QUICK_BLOCKS);
            for amount in [
                &mut self.connections,
                &mut self.queued,
                &mut self.duration_ms,
                &mut self.edges,
            ] {
                *amount = (*amount / QUICK_SHARE).max(1);
            }
            for time_us in [&mut self.thin_us, &mut self.cut_us] {
                *time_us /= u64::from(QUICK_SHARE);
            }
        }
        self
    }

    pub(super) fn thin(&self) -> Duration {
        Duration::from_micros(self.thin_us)
    }

    pub(super) fn outage(&self) -> Duration {
        Duration::from_micros(self.outage_us)
    }

    pub(super) fn cut(&self) -> Duration {
        Duration::from_micros(self.cut_us)
    }
}
