//! What was seen, and nothing that was concluded: the raw part of the experiment's JSON.

use serde::{Deserialize, Serialize};

use super::contender::Contender;
use super::options::{Options, Part};
use crate::environment::Environment;

/// Version of the layout, raised when a reader of the older one would misread it.
pub(crate) const FORMAT: u32 = 1;

/// One run with all its blocks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CapacityRun {
    /// Version of the layout, raised when a reader of the older one would misread it.
    pub format: u32,
    /// Which experiment: `capacity`.
    pub experiment: String,
    /// What was asked for, `--quick` worked in.
    pub options: Options,
    /// Seed of the order.
    pub seed: u64,
    /// The programs.
    pub programs: Vec<About>,
    /// All figures, in the order of time.
    pub samples: Vec<Sample>,
    /// What could not be measured, with the reason.
    pub skipped: Vec<String>,
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// A program that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The settings in which it takes part.
    pub contenders: Vec<Contender>,
    /// What it says of its version.
    pub version: String,
    /// What was set, in words.
    pub settings: String,
    /// Size of its file, without the libraries that it loads.
    pub binary_bytes: u64,
}

/// One figure of one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of the block; figures of one block belong together.
    pub block: u32,
    /// Part of the experiment that it comes from.
    pub part: Part,
    /// Whose.
    pub contender: Contender,
    /// What it is.
    pub figure: Figure,
    /// Size of the payload, where one is published.
    pub payload_bytes: Option<u32>,
    /// How much, in the unit that the figure's name ends in; absent where too few messages give no quantile.
    pub value: Option<f64>,
}

/// What can be measured. The unit is last in each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Resident memory of the process before the first client stays.
    IdleRssBytes,
    /// Its proportional share.
    IdlePssBytes,
    /// Proportional share added by each idle connection.
    ConnectionBytes,
    /// From the start to the answer to the first CONNECT, the data directory empty.
    ReadyEmptyMs,
    /// The same with a data directory that was used and left by a clean stop.
    ReadyUsedMs,
    /// The same with messages queued, after a clean stop.
    ReadyAfterStopMs,
    /// The same, after `kill -9`.
    ReadyAfterKillMs,
    /// From the start, after `kill -9`, to the first queued message at its subscriber.
    FirstMessageAfterKillMs,
    /// Messages queued and acknowledged that are not there after all starts, stops and kills.
    QueueLostMessages,
    /// Acknowledged messages a second.
    AcknowledgedPerS,
    /// Median of the time from sending to acknowledgement.
    LatencyP50Us,
    /// Its 99th percentile.
    LatencyP99Us,
    /// The same at a fixed rate, in an open loop: from the intended sending. Absent where the generator was late.
    PacedLatencyP99Us,
    /// Acknowledged messages of the block.
    AcknowledgedMessages,
    /// Those of them that do not come out of the session after `kill -9`.
    LostMessages,
    /// Deliveries after `kill -9` beyond the first of a message.
    DuplicateMessages,
    /// Messages of a backlog that a cloud had a second, durable.
    DrainedPerS,
    /// Those that its database had.
    StoredPerS,
    /// 99th percentile of the time from a device at an edge to an application in the cloud, from the intended sending.
    LiveP99Us,
    /// The same while a backlog drains.
    LiveDrainP99Us,
    /// The second as a multiple of the first.
    LiveDrainRatio,
    /// CPU time of the generator while it published, as a share of the time on the wall (rule 10).
    GeneratorCpuShare,
}
