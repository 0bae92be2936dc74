//! What a person may ask of `evaluate capacity`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

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

/// What is measured, and how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, clap::Args)]
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
    /// Sizes of the payloads that are published
    #[arg(long = "payload", value_delimiter = ',', default_values_t = PAYLOAD_BYTES, value_name = "BYTES")]
    pub payload_bytes: Vec<u32>,
    /// Messages out at once
    #[arg(long, default_value_t = IN_FLIGHT, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub in_flight: u16,
    /// Milliseconds of publishing until the server is killed
    #[arg(long, default_value_t = DURATION_MS, value_name = "MS")]
    pub duration_ms: u32,
    /// Two blocks, and a tenth of connections, queue and duration
    #[arg(long)]
    pub quick: bool,
    /// PostgreSQL that a backlog goes into, as postgres://user@host/name, if not the embedded database
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
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 6] = [
        Part::Memory,
        Part::MemoryTls,
        Part::Ready,
        Part::ReadyQueued,
        Part::Durable,
        Part::Drain,
    ];
}

impl Default for Options {
    fn default() -> Options {
        Options {
            parts: Part::ALL.to_vec(),
            blocks: BLOCKS,
            connections: CONNECTIONS,
            queued: QUEUED,
            payload_bytes: PAYLOAD_BYTES.to_vec(),
            in_flight: IN_FLIGHT,
            duration_ms: DURATION_MS,
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
            for amount in [&mut self.connections, &mut self.queued, &mut self.duration_ms] {
                *amount = (*amount / QUICK_SHARE).max(1);
            }
        }
        self
    }
}
