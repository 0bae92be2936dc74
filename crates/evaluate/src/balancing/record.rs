//! What was seen, and nothing that was concluded.

use balance::Policy;
use serde::{Deserialize, Serialize};

use super::NODES;
use super::options::{Options, Part};
use crate::environment::Environment;
use crate::gateway::About;

/// Version of the layout, raised when a reader of the older one would misread it.
pub(crate) const FORMAT: u32 = 1;

/// One run with all its blocks; while it goes on, those jobs that are done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BalancingRun {
    /// Version of the layout.
    pub format: u32,
    /// Which experiment: `balancing`.
    pub experiment: String,
    /// What was asked for, `--quick` worked in.
    pub options: Options,
    /// Seed of the order.
    pub seed: u64,
    /// The programs.
    pub programs: Vec<About>,
    /// What was done, in the order of time.
    pub done: Vec<Done>,
    /// What could not be measured, with the reason.
    pub skipped: Vec<String>,
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// A job of one block, with what its clients saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Number of the block; jobs of one block belong together.
    pub block: u32,
    /// What was done.
    pub job: Job,
    /// When it began, in seconds since the run's start; of a run that was resumed, since it was.
    pub started_s: f64,
    /// Of each node, what those saw who asked there.
    pub seen: [Seen; NODES],
}

/// What the clients of a node saw in the time that counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// How long that was, in seconds.
    pub wall_s: f64,
    /// Answers that came in that time.
    pub answered: u64,
    /// Of each request how long its answer took, in microseconds; none = lost: no answer with 200 came in time. Closed
    /// loop: of those that were answered in that time. Open loop: of those that were to be sent in it, from when they were
    /// to be sent.
    pub answers_us: Vec<Option<u32>>,
    /// Of them, those that the node's own pods have answered.
    pub here: u64,
    /// In an open loop, how much later than they were to be requests were sent for which a client was free, at the 99th
    /// percentile, in microseconds.
    pub send_lag_p99_us: Option<u32>,
    /// Processor seconds of who led these requests there, the edge or a proxy; none where that is not looked at.
    #[serde(default)]
    pub cpu_s: Option<f64>,
}

/// A cell for one arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Job {
    /// What is asked of whom.
    pub cell: Cell,
    /// Who leads requests.
    pub arm: Arm,
}

/// What is the same for all arms that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// What it is of.
    pub part: Part,
    /// Pods of each node.
    pub pods: [u32; NODES],
    /// Round trip between any two nodes (rule 11).
    pub round_trip_ms: u32,
    /// What is asked.
    pub load: Load,
    /// What happens as the time that counts begins.
    pub event: Option<Event>,
    /// What pods do for a request.
    pub work: Work,
}

/// What a pod does for as long as it has a request for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Nothing: it takes no processor, so that many fit a small machine.
    #[default]
    Wait,
    /// It uses the processor for so long.
    Calculate,
    /// It answers at once.
    None,
}

/// Something that happens in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The second node is cut off from the others, as if it had died: nobody is told.
    CutOff,
    /// The same for the first half of the time that counts: then it is there again.
    Returns,
    /// Pods of the second node take ten times as long.
    Slow,
    /// From then on the second node is asked, and the first one no more.
    Moves,
}

/// What the nodes are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Closed loop: of each node so many clients, each of which asks again once it is answered.
    Closed([u32; NODES]),
    /// Open loop: the first node is asked so often a second, at times of chance (Poisson).
    Open(u32),
}

/// Who leads requests to pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    /// The site: every pod in turn (the paper's).
    RoundRobin,
    /// The site: any pod.
    Random,
    /// The site: the node's own pods (the paper's).
    Local,
    /// The site: where a pod has the fewest requests.
    LeastRequest,
    /// The site: here while that is fast, else where it is faster.
    LocalFirst,
    /// The same once more: the noise of the machine.
    LocalFirstAgain,
    /// nginx before all pods: each in turn.
    NginxRoundRobin,
    /// nginx: fewest connections.
    NginxLeastConnections,
    /// HAProxy: fewest connections.
    Haproxy,
    /// Nobody: the first pod is asked itself.
    Direct,
}

impl Arm {
    /// All that choose.
    pub const ALL: [Arm; 9] = [
        Arm::RoundRobin,
        Arm::Random,
        Arm::Local,
        Arm::LeastRequest,
        Arm::LocalFirst,
        Arm::LocalFirstAgain,
        Arm::NginxRoundRobin,
        Arm::NginxLeastConnections,
        Arm::Haproxy,
    ];

    /// In the words of a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Arm::LocalFirstAgain => "local-first, again",
            Arm::NginxRoundRobin => "nginx, round robin",
            Arm::NginxLeastConnections => "nginx, least conn.",
            Arm::Haproxy => "HAProxy, least conn.",
            Arm::Direct => "the pod itself",
            of_site => of_site.policy().map_or("", Policy::name),
        }
    }

    /// By what a site leads; none: it is no site.
    #[must_use]
    pub fn policy(self) -> Option<Policy> {
        match self {
            Arm::RoundRobin => Some(Policy::RoundRobin),
            Arm::Random => Some(Policy::Random),
            Arm::Local => Some(Policy::Local),
            Arm::LeastRequest => Some(Policy::LeastRequest),
            Arm::LocalFirst | Arm::LocalFirstAgain => Some(Policy::LocalFirst),
            Arm::NginxRoundRobin | Arm::NginxLeastConnections | Arm::Haproxy | Arm::Direct => None,
        }
    }
}

impl Cell {
    /// Of each node: `10-1-1`.
    pub(crate) fn pods_words(&self) -> String {
        self.pods.map(|count| count.to_string()).join("-")
    }

    /// How many ask each node at once; none where nobody waits for answers.
    pub(crate) fn clients(&self) -> Option<[u32; NODES]> {
        match self.load {
            Load::Closed(clients) => Some(clients),
            Load::Open(_) => None,
        }
    }
}
