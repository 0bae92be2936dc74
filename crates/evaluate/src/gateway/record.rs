//! What was seen, and nothing that was concluded.

use serde::{Deserialize, Serialize};

use super::options::{Options, Part, Runtime};
use crate::environment::Environment;

/// Version of the layout, raised when a reader of the older one would misread it.
pub(crate) const FORMAT: u32 = 1;

/// One run with all its blocks; while it goes on, those that are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayRun {
    /// Version of the layout.
    pub format: u32,
    /// Which experiment: `gateway`.
    pub experiment: String,
    /// What was asked for, `--quick` worked in.
    pub options: Options,
    /// Seed of the order.
    pub seed: u64,
    /// The programs.
    pub programs: Vec<About>,
    /// What its day is made of, where one was replayed.
    #[serde(default)]
    pub day: Option<DayTraffic>,
    /// What was done, in the order of time.
    pub done: Vec<Done>,
    /// What could not be measured, with the reason.
    pub skipped: Vec<String>,
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// A program that took part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its name.
    pub name: String,
    /// What it says of its version.
    pub version: String,
    /// What was set, in words.
    pub settings: String,
}

/// Where the requests of a day come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayTraffic {
    /// The file, or what is built in.
    pub source: String,
    /// SHA-256 of the file, or of what is built in.
    pub sha256: String,
    /// The day of the file that was taken.
    pub date: Option<String>,
    /// Applications, and how often each is asked.
    pub requests: Vec<(String, u32)>,
}

/// A job of one block, with what it gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Number of the block; jobs of one block belong together.
    pub block: u32,
    /// What was done.
    pub job: Job,
    /// When it began, in seconds since the run's start; of a run that was resumed, since it was.
    pub started_s: f64,
    /// What was seen.
    pub samples: Vec<Sample>,
}

/// One figure of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What it is.
    pub figure: Figure,
    /// In the order of time, in the unit that the figure's name ends in; none = lost: the answer never came.
    pub values: Vec<Option<f64>>,
}

/// One task for one arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// What is done.
    pub task: Task,
    /// By whom.
    pub arm: Arm,
}

/// What jobs have given that are done together, or which of them has failed, and why.
pub(super) type Measured = Result<Vec<(Job, Vec<Sample>)>, (Job, String)>;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Task {
    /// First requests to a web server that does not run, one after the other.
    Activation(Mode),
    /// Requests after that: through the edge's port and past it, in turn.
    Throughput,
    /// Many first requests at once.
    Burst,
    /// An edge at rest, without applications and with containers that run.
    Running,
    /// The same with applications that sleep.
    Sleeping,
    /// Services that have been asked, beside the containers that answer.
    Services,
    /// From the command that applies it to the first answer.
    Apply,
    /// A benchmark program, so many at a time.
    Cost(Benchmark, u32),
    /// A web server, a database and an orchestrator, started by the first packet of a sensor.
    Work,
    /// Applications over a day of requests, replayed faster.
    Day,
}

/// A benchmark program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Benchmark {
    /// sysbench: primes.
    Cpu,
    /// mbw: copies of arrays.
    Memory,
    /// fio: a file, written and read from its beginning to its end; in a volume, or in the container's own root file
    /// system.
    Disk,
    /// iperf3: 90 Mbit/s of UDP each way.
    Udp,
}

impl Benchmark {
    /// All of them.
    pub const ALL: [Benchmark; 4] = [Benchmark::Cpu, Benchmark::Memory, Benchmark::Disk, Benchmark::Udp];
}

/// What an application on demand is while nobody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing of it runs (`when-idle: stop`).
    Cold,
    /// Its time stands still (`when-idle: pause`).
    Paused,
    /// A new one is ready, and its time stands still (`when-idle: renew`).
    Warm,
}

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// A program of the host, without an edge.
    Native,
    /// The same once more: the noise of the machine.
    NativeAgain,
    /// A program of the host, by the edge.
    Process,
    /// A container, by the edge.
    Oci,
    /// A container of a Docker Engine, by the edge.
    Docker,
    /// A container, by the edge, with its files in its own root file system instead of a volume.
    OciRoot,
    /// The same of a Docker Engine.
    DockerRoot,
    /// The command `docker start`.
    DockerStart,
    /// The same once more: the noise of the machine.
    DockerStartAgain,
    /// What that command asks of the engine, without the command.
    DockerEngine,
    /// The command `docker unpause`.
    DockerUnpause,
    /// The same once more: the noise of the machine.
    DockerUnpauseAgain,
    /// What that command asks of the engine, without the command.
    DockerUnpauseEngine,
    /// The command `docker run`.
    DockerRun,
    /// The same once more: the noise of the machine.
    DockerRunAgain,
    /// The command `runc run`, on the host's network.
    RuncRun,
    /// The same once more: the noise of the machine.
    RuncRunAgain,
    /// Containers by the edge that run all the time.
    AlwaysOn,
    /// The same once more: the noise of the machine.
    AlwaysOnAgain,
    /// The same containers, asleep while nobody asks.
    OnDemand,
}

/// What can be seen. The unit is last in each name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// From the first request, or the start of the command, to the end of the answer.
    AnswerMs,
    /// Answers a second through the edge's port.
    ThroughPerS,
    /// The same past it.
    DirectPerS,
    /// Bytes a second of a large file through the edge's port.
    ThroughBytesPerS,
    /// The same past it.
    DirectBytesPerS,
    /// Requests of a burst without a whole answer.
    BurstLostRequests,
    /// Starts that it came to.
    BurstStarts,
    /// From the first of its requests to the last answer.
    BurstMs,
    /// Proportional share of memory of the edge and of what it has beside containers, without applications.
    EdgePssBytes,
    /// The same with them.
    WithPssBytes,
    /// The second less the first.
    AddedPssBytes,
    /// The same of resident memory, in which what processes share counts for each.
    AddedRssBytes,
    /// Processor time of the edge and of what it has beside containers, as a share of a core, without applications.
    EdgeCpuShare,
    /// The same with them.
    WithCpuShare,
    /// Execution time of sysbench.
    CpuS,
    /// mbw by `memcpy`.
    MemcpyBytesPerS,
    /// mbw word by word.
    DumbBytesPerS,
    /// mbw by blocks.
    McblockBytesPerS,
    /// fio, writing, with the sync at its end.
    WriteBytesPerS,
    /// fio, reading.
    ReadBytesPerS,
    /// Processor time of an iperf3 that receives, as a share of a core.
    UdpReceiveCpuShare,
    /// Packets that did not reach it.
    UdpReceiveLostShare,
    /// The same of one that sends.
    UdpSendCpuShare,
    /// Packets of it that did not arrive.
    UdpSendLostShare,
    /// Of the processor's packages meanwhile.
    PowerW,
    /// From the first packet of the sensor, which starts all, to its answer.
    FirstPacketMs,
    /// The same of later packets.
    PacketMs,
    /// Packets whose reading is not in the database in the end.
    PacketsLost,
    /// Processor time of the web server over time, as a share of a core.
    WebCpuShare,
    /// Of the database.
    DatabaseCpuShare,
    /// Of the orchestrator.
    OrchestratorCpuShare,
    /// Of the three together.
    AllCpuShare,
    /// Memory of the web server over time.
    WebMemoryBytes,
    /// Of the database.
    DatabaseMemoryBytes,
    /// Of the orchestrator.
    OrchestratorMemoryBytes,
    /// When it was looked what is taken over time, since the beginning.
    LookS,
    /// Proportional share of memory of the edge, of what it has beside containers, and of their processes, look by
    /// look.
    DayMemoryBytes,
    /// What of it is more than that edge took before it had applications.
    DayAddedMemoryBytes,
    /// Of the time, how much each application ran, in their order.
    DayAwakeShare,
    /// Processor time of all of them over the replay.
    DayCpuS,
    /// Energy of the processor's packages over the replay.
    DayEnergyJ,
    /// How long the replay took.
    DayReplayS,
    /// Processor time of all of them before it, with all applications running and nobody asking, as a share of a core.
    DayAwakeCpuShare,
    /// What of that the containers of each application use, in their order.
    DayAppCpuShare,
    /// Of the processor's packages meanwhile.
    DayAwakePowerW,
    /// Processor time of all of them with all applications asleep.
    DayAsleepCpuShare,
    /// Of the processor's packages meanwhile.
    DayAsleepPowerW,
    /// From when a request was due to the end of the answer.
    DayAnswerMs,
    /// From when it was due until it was sent.
    DayLateMs,
    /// Requests without an answer, and readings that were answered and are not in the database.
    DayLostRequests,
    /// Starts of containers meanwhile.
    DayStarts,
}

impl Task {
    /// The part that it belongs to.
    #[must_use]
    pub fn part(self) -> Part {
        match self {
            Task::Activation(_) | Task::Throughput | Task::Burst => Part::Activation,
            Task::Running | Task::Sleeping | Task::Services | Task::Apply => Part::Footprint,
            Task::Cost(..) => Part::Cost,
            Task::Work => Part::Work,
            Task::Day => Part::Day,
        }
    }
}

impl Arm {
    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Arm::Native => "native",
            Arm::NativeAgain => "native, again",
            Arm::Process => "process",
            Arm::Oci => "oci",
            Arm::Docker => "docker",
            Arm::OciRoot => "oci, own root",
            Arm::DockerRoot => "docker, own root",
            Arm::DockerStart => "docker start",
            Arm::DockerStartAgain => "docker start, again",
            Arm::DockerEngine => "docker start, by its API",
            Arm::DockerUnpause => "docker unpause",
            Arm::DockerUnpauseAgain => "docker unpause, again",
            Arm::DockerUnpauseEngine => "docker unpause, by its API",
            Arm::DockerRun => "docker run",
            Arm::DockerRunAgain => "docker run, again",
            Arm::RuncRun => "runc run",
            Arm::RuncRunAgain => "runc run, again",
            Arm::AlwaysOn => "always on",
            Arm::AlwaysOnAgain => "always on, again",
            Arm::OnDemand => "on demand",
        }
    }

    /// Whether it takes no edge.
    pub(super) fn is_native(self) -> bool {
        matches!(self, Arm::Native | Arm::NativeAgain)
    }

    /// What has to be there for it.
    pub(super) fn runtime(self) -> Runtime {
        match self {
            Arm::Process | Arm::Native | Arm::NativeAgain => Runtime::Process,
            Arm::Oci | Arm::OciRoot | Arm::RuncRun | Arm::RuncRunAgain => Runtime::Oci,
            Arm::AlwaysOn | Arm::AlwaysOnAgain | Arm::OnDemand => Runtime::Oci,
            Arm::Docker | Arm::DockerRoot => Runtime::Docker,
            Arm::DockerUnpause | Arm::DockerUnpauseAgain | Arm::DockerUnpauseEngine => Runtime::Docker,
            Arm::DockerStart | Arm::DockerStartAgain | Arm::DockerEngine => Runtime::Docker,
            Arm::DockerRun | Arm::DockerRunAgain => Runtime::Docker,
        }
    }
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Cold, Mode::Paused, Mode::Warm];

    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Cold => "cold",
            Mode::Paused => "paused",
            Mode::Warm => "warm",
        }
    }
}

impl GatewayRun {
    /// Whether a figure was seen of anything.
    pub(super) fn has(&self, figure: Figure) -> bool {
        let mut samples = self.done.iter().flat_map(|done| &done.samples);
        samples.any(|sample| sample.figure == figure)
    }

    /// Values of a figure of a job, block by block; lost ones infinite.
    pub(super) fn blocks_of(&self, job: Job, figure: Figure) -> Vec<(u32, Vec<f64>)> {
        let of_job = self.done.iter().filter(|done| done.job == job);
        let found = of_job.filter_map(|done| {
            let sample = done.samples.iter().find(|sample| sample.figure == figure)?;
            let values = sample.values.iter().map(|value| value.unwrap_or(f64::INFINITY));
            Some((done.block, values.collect::<Vec<f64>>()))
        });
        found.filter(|(_, values)| !values.is_empty()).collect()
    }
}
