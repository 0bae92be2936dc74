//! What came of it, and nothing that was concluded.

use balance::Policy;
use serde::{Deserialize, Serialize};

use super::options::Options;
use crate::environment::Environment;
use crate::gateway::DayTraffic;

/// Version of the layout, raised when a reader of the older one would misread it.
pub(crate) const FORMAT: u32 = 1;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationRun {
    /// Version of the layout.
    pub format: u32,
    /// Which experiment: `simulation`.
    pub experiment: String,
    /// What was asked for, `--quick` worked in.
    pub options: Options,
    /// Of all chance in it.
    pub seed: u64,
    /// What the traffic of `day` follows.
    pub day: DayTraffic,
    /// What was simulated, in the order of the cells.
    pub done: Vec<Done>,
    /// The machine, before and after (rule 14).
    pub environment: Environment,
}

/// A site of a cell under a policy, with one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Which cell.
    pub cell: Cell,
    /// Of all proxies.
    #[serde(with = "by_name")]
    pub policy: Policy,
    /// Number of the site: of the same number, the same requests were asked of every policy.
    pub unit: u32,
    /// What came of it.
    pub figures: Figures,
}

/// What is the same for all policies that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// One of ten nodes is asked more or less, the others alike, in an open loop.
    Map {
        /// How long its endpoints take.
        law: Law,
        /// What each of the other nodes is asked, in percent of what its own endpoints can do.
        neighbours_percent: u32,
        /// Round trip between any two nodes.
        round_trip_ms: u32,
        /// What the node is asked, in percent of what its own endpoints can do.
        load_percent: u32,
    },
    /// All nodes are asked, in an open loop.
    Scale {
        /// Of them.
        nodes: u32,
        /// When.
        traffic: Traffic,
    },
}

/// How long an endpoint takes for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Always as long.
    Constant,
    /// Exponential: some take long.
    Exponential,
}

/// When requests come to the nodes of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// All nodes are asked alike, at all times.
    Even,
    /// Each region has its day, some hours after the one before it.
    Day,
    /// The first place of each region has a crowd for some of the time.
    Crowd,
}

/// What clients saw of the requests that came in the time that counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests a second.
    pub asked_per_s: f64,
    /// Answers a second.
    pub per_s: f64,
    /// Of the requests, those without an answer when the time was over: in a map, of the node that has the most.
    pub late_share: f64,
    /// Those that had none five seconds later.
    pub lost: u64,
    /// How long answers took on average, in microseconds; none: there were none.
    pub mean_us: Option<f64>,
    /// The 99th percentile, lost ones being longer than any answer; none: it is one of those, or there are too few (rule 5).
    pub p99_us: Option<f64>,
    /// Of the answers, those by the node that was asked.
    pub here_share: f64,
}

pub(super) mod by_name {
    use balance::Policy;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::simulation) fn serialize<S: Serializer>(policy: &Policy, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(policy.name())
    }

    pub(in crate::simulation) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Policy, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}
