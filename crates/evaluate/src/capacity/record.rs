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
    /// Messages of a backlog that a cloud had a second, durable, over an emulated line without delay.
    NearDrainedPerS,
    /// The same over one of 300 ms.
    FarDrainedPerS,
    /// The second as a share of the first.
    FarDrainRatio,
    /// Of the bytes that a thin line carried both ways, IP headers counted, those of readings.
    ThinPayloadShare,
    /// The same of the bytes towards the cloud.
    ThinUpPayloadShare,
    /// Of the bytes that it carried both ways, those that came back.
    ThinDownShare,
    /// Of the bytes that it can carry towards the cloud, those that it did.
    ThinUse,
    /// As [`Figure::ThinPayloadShare`], while methods are called.
    ThinCallsPayloadShare,
    /// Median of the time from a due call in the cloud to the answer of the device at the edge.
    CallP50Ms,
    /// The longest of them.
    CallMaxMs,
    /// Calls.
    CallsMessages,
    /// Those of them that the device did not answer.
    CallsLostMessages,
    /// From the line's return until the cloud has a message of each edge that was left there meanwhile.
    LineSyncMs,
    /// Edges that had not come back 3 min after that.
    LineMissingEdges,
    /// From the cloud's restart after `kill -9` until the same.
    CloudSyncMs,
    /// Edges that had not come back 3 min after that.
    CloudMissingEdges,
    /// 99th percentile of the time from a device at another edge to an application in the cloud while the others come
    /// back.
    LiveStormP99Us,
    /// That as a multiple of the one without.
    LiveStormRatio,
    /// Messages of that device that did not arrive.
    LiveLostMessages,
    /// Messages sent to an edge through a cut of its line and crashes of both sides.
    CutSentMessages,
    /// Those that it acknowledged.
    CutAcknowledgedMessages,
    /// Those that were on their way when it crashed: whether it has them, nobody was told.
    CutInDoubtMessages,
    /// Rows in the cloud's database in the end.
    CutRowsMessages,
    /// Acknowledged messages without a row.
    CutLostMessages,
    /// Rows of messages in doubt.
    CutFurtherMessages,
    /// Rows beyond the first of a message, or of a place in the edge's log.
    CutDuplicateMessages,
    /// Rows of messages that were never sent.
    CutUnknownMessages,
    /// Messages that the edge's log took and the database has not, and rows that neither the log nor a message in doubt
    /// accounts for.
    CutUnbalancedMessages,
    /// From the line's return until the database has all.
    CutCaughtUpMs,
    /// CPU time of the generator while it published, as a share of the time on the wall (rule 10).
    GeneratorCpuShare,
}
