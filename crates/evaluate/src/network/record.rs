//! What a raw file says of the network that a run used (rule 14).

use serde::{Deserialize, Serialize};

use super::{Counters, Means, Plan};

/// A network as it was planned and as it became.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NetworkRecord {
    /// What was asked for, with the seed. Changes during the run are the experiment's to record.
    pub plan: Plan,
    /// Between device and edge.
    pub device_edge: LineRecord,
    /// Between edge and cloud.
    pub edge_cloud: LineRecord,
    /// What of the plan this machine did not let us vary, and why.
    pub not_varied: Option<String>,
}

/// What was used for a line, and what became of its packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRecord {
    /// What emulates it; none = nothing is emulated.
    pub means: Option<Means>,
    /// Whether the relay runs before all ordinary threads, so that busy cores delay no packet; none without a relay.
    pub runs_first: Option<bool>,
    /// What the relay counted, towards the cloud and back; none without a relay.
    pub counters: Option<[Counters; 2]>,
}
