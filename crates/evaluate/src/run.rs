//! The raw file of one run: everything that was seen, nothing that was concluded.
//!
//! A report is a pure function of such files (rule 15). All times of a [`Block`] are nanoseconds of the client's
//! monotonic clock since the block's start, so that no second clock takes part in a round trip (rule 4).

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::network;
use crate::rtt::Options;

/// Version of the file's layout, raised when a reader of the older one would misread it.
pub const FORMAT: u32 = 1;

/// One run: every arm's server started once, every cell measured in interleaved blocks (rule 9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Which experiment: `rtt` or `knee`.
    pub experiment: String,
    /// The options it was started with; with `seed` they make the run again (rule 14).
    pub options: Options,
    /// Seed of schedules and of the order of arms.
    pub seed: u64,
    /// SHA-256 over the schedules of all blocks, in hexadecimal; equal for equal options and seed.
    pub schedule_hash: String,
    /// The arms, in the order in which they were asked for.
    pub arms: Vec<Arm>,
    /// The points of the sweep.
    pub cells: Vec<Cell>,
    /// What was measured, in the order of time.
    pub blocks: Vec<Block>,
    /// How a search for knees went, in the order of time; empty where none was searched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub search: Vec<SearchStep>,
    /// Arms that could not be measured, with the reason.
    pub skipped: Vec<Skipped>,
    /// The emulated network that it used, with what was set and what probes from device to cloud got before the first
    /// block (throughput was not measured); none where all ran on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<network::Cell>,
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// One system under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// As on the command line: `selvedge`, `mosquitto-tls`, `relay` …; the second instance of an A/A pair ends in
    /// `-again`.
    pub name: String,
    /// The comparison's denominator; exactly one arm of a run has it.
    pub baseline: bool,
    /// Set on an A/A arm: the index in [`Run::arms`] of the arm that it repeats. Its ratio is the noise of the machine.
    pub again_of: Option<usize>,
    /// What it says of its version, such as `mosquitto 2.0.11`.
    pub version: String,
    /// What was switched on or set, in words for a reader of the report.
    pub settings: String,
    /// From start to the first answer, in milliseconds; absent for a server that we did not start.
    pub ready_ms: Option<f64>,
    /// Resident memory before the first client came, in bytes.
    pub idle_rss_bytes: Option<u64>,
    /// CPU that the server was pinned to.
    pub server_cpu: Option<usize>,
}

/// How the times of sending come about (rule 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LoadModel {
    /// Open loop: each device at a fixed interval, the phases spread evenly over it and drawn from the seed within
    /// that.
    Periodic,
    /// Open loop: each device with exponential gaps of the interval's mean.
    Poisson,
    /// Open loop: the times of a recorded data set.
    Trace,
    /// Closed loop: a fixed number of messages out at once, each sent a think time after an answer.
    Closed,
}

impl LoadModel {
    /// Whether the sender waits for answers.
    pub fn is_closed(self) -> bool {
        self == LoadModel::Closed
    }
}

/// One point of a sweep: what an arm was loaded with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Open or closed loop, and how.
    pub load: LoadModel,
    /// Microseconds between two messages of one device; absent in a closed loop and for a trace.
    pub interval_us: Option<u64>,
    /// Bytes of a message's payload; for a trace that of its median row.
    pub payload_bytes: u32,
    /// Devices connected, each with its own connection.
    pub devices: u32,
    /// MQTT quality of service of every PUBLISH and subscription; has no meaning for arms without MQTT.
    pub qos: u8,
    /// Messages out at once in a closed loop; 0 in an open one.
    pub concurrency: u32,
    /// Microseconds from the end of one message to the start of the next in a closed loop.
    pub think_us: u64,
    /// Length of a block's sending, in microseconds.
    pub duration_us: u64,
    /// A message not answered this long after it was sent is lost (rule 3), in microseconds.
    pub timeout_us: u64,
    /// The line between edge and cloud; none where there is no such line, or nothing of it can be varied here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wan: Option<network::Settings>,
}

/// One arm under one cell for a short while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Index in [`Run::cells`].
    pub cell: usize,
    /// Index in [`Run::arms`].
    pub arm: usize,
    /// Number of the block within its cell, from 0. Blocks of one cell and number belong together: all arms had the
    /// same schedule, in a random order.
    pub index: u32,
    /// When it began, in seconds since the run's start.
    pub started_s: f64,
    /// How the warm-up went that came before the first sample.
    pub warm_up: WarmUp,
    /// Every message, in the order of sending.
    pub samples: Samples,
    /// Sums, kept apart from the samples so that each can check the other (rule 10).
    pub counters: Counters,
    /// What it cost.
    pub usage: Usage,
    /// What the line between edge and cloud carried meanwhile, towards the cloud and back, where our relay is the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<[network::Counters; 2]>,
    /// Why the block ended before its time, if it did; its unanswered messages are then lost.
    pub failure: Option<String>,
    /// Why the block is no result and was measured again; it counts only where no block of its kind is left without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<String>,
}

/// Warm-up of a block: closed-loop windows until two medians in a row agree (rule 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WarmUp {
    /// Round trips made.
    pub messages: u32,
    /// Windows that they made up.
    pub windows: u32,
    /// Whether the last two medians agreed before the bound on windows or time.
    pub settled: bool,
}

/// Messages of a block as columns of equal length, index = order of sending.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Number of the device, from 0.
    pub device: Vec<u32>,
    /// Number of the message among those of its device, from 0.
    pub sequence: Vec<u32>,
    /// When the schedule wanted it sent. In a closed loop: when the client was free to send it.
    pub intended_ns: Vec<u64>,
    /// When it was sent; none = it could not be (connection gone or its buffer full), which counts as a loss.
    pub sent_ns: Vec<Option<u64>>,
    /// When its answer came; none = lost, or still in flight at the end.
    pub received_ns: Vec<Option<u64>>,
    /// From receiving to answering on the responder's own clock (`T_Server` of the first paper, Eq. 1), where it said
    /// so.
    pub server_ns: Vec<Option<u64>>,
}

impl Samples {
    /// Messages, lost ones among them.
    pub fn len(&self) -> usize {
        self.intended_ns.len()
    }

    /// Whether nothing was sent.
    pub fn is_empty(&self) -> bool {
        self.intended_ns.is_empty()
    }

    /// Receive − intended send in nanoseconds, the headline (rule 2); none = infinite.
    pub fn response_ns(&self, message: usize) -> Option<u64> {
        self.received_ns[message].map(|at| at.saturating_sub(self.intended_ns[message]))
    }

    /// Receive − actual send in nanoseconds (rule 2); none = infinite.
    pub fn service_ns(&self, message: usize) -> Option<u64> {
        self.received_ns[message]
            .zip(self.sent_ns[message])
            .map(|(received, sent)| received.saturating_sub(sent))
    }

    /// Actual − intended send in nanoseconds (rule 2); none = never sent.
    pub fn send_lag_ns(&self, message: usize) -> Option<u64> {
        self.sent_ns[message].map(|at| at.saturating_sub(self.intended_ns[message]))
    }

    /// The first paper's full-stack round trip (Eq. 1) in nanoseconds: service time less the responder's own time.
    pub fn paper_ns(&self, message: usize) -> Option<u64> {
        self.service_ns(message)
            .zip(self.server_ns[message])
            .map(|(whole, server)| whole.saturating_sub(server))
    }
}

/// Sums of a block. `scheduled = sent + unsent` and `sent = answered + lost + in_flight` (rule 10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Messages that the load model asked for.
    pub scheduled: u64,
    /// Messages that left the client.
    pub sent: u64,
    /// Messages that could not leave: connection gone, its buffer full or its packet ids used up.
    pub unsent: u64,
    /// Messages answered within the timeout.
    pub answered: u64,
    /// Messages not answered within the timeout.
    pub lost: u64,
    /// Messages neither answered nor timed out when the block ended.
    pub in_flight: u64,
    /// Answers that came after their message was counted as lost.
    pub late: u64,
    /// Answers that came again.
    pub duplicates: u64,
    /// Answers that came behind a later one of the same device.
    pub reordered: u64,
}

/// What a block cost, from its first to its last message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds on the wall.
    pub wall_s: f64,
    /// CPU seconds of the generator's thread, its spinning included.
    pub generator_cpu_s: f64,
    /// CPU seconds of those that the generator spent spinning for a due time or, in a closed loop, for an answer, which
    /// is no work (rule 2).
    pub generator_spin_s: f64,
    /// Seconds that answered messages spent in the client, from their answer to the moment at which the next could go:
    /// the client's own part of a closed loop's think time, without which Little's law is not whole.
    pub client_s: f64,
    /// CPU seconds of the server's threads, user and system; absent for a server that we did not start.
    pub server_cpu_s: Option<f64>,
    /// Those of them that were used on the edge's host, where there are hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_cpu_s: Option<f64>,
    /// Resident memory of the server at the block's end, in bytes.
    pub server_rss_bytes: Option<u64>,
    /// Seconds that the hypervisor took from this machine's CPUs, all of them together.
    pub steal_s: f64,
}

/// One rate that was tried in the search for an arm's knee (rule 8 b).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchStep {
    /// Index in [`Run::arms`].
    pub arm: usize,
    /// Index in [`Run::cells`]: the rate.
    pub cell: usize,
    /// Whether the rate held before, and was tried once more with new blocks.
    pub confirming: bool,
    /// Indices in [`Run::blocks`].
    pub blocks: Vec<usize>,
    /// Whether p99 and losses of these blocks were within the bounds, by which the search went on; absent where the
    /// generator was the limit.
    pub held: Option<bool>,
}

/// An arm that was asked for and could not be measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub arm: String,
    /// Why, and what would help.
    pub reason: String,
}

impl Run {
    /// Reads a raw file.
    ///
    /// # Errors
    /// The file cannot be read, is no raw file, or is one of another [`FORMAT`].
    pub fn read(path: &Path) -> std::io::Result<Run> {
        let named = |error: std::io::Error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let bytes = std::fs::read(path).map_err(named)?;
        let run: Run = serde_json::from_slice(&bytes).map_err(|error| named(error.into()))?;
        if run.format == FORMAT {
            return Ok(run);
        }
        let words = format!("raw format {} where this program reads {FORMAT}", run.format);
        Err(named(std::io::Error::new(std::io::ErrorKind::InvalidData, words)))
    }

    /// Writes the raw file, whole or not at all.
    ///
    /// # Errors
    /// The directory cannot be written to.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let unfinished = path.with_extension("partial");
        let file = std::io::BufWriter::new(std::fs::File::create(&unfinished)?);
        serde_json::to_writer(file, self)?;
        std::fs::rename(unfinished, path)
    }
}
