//! The three hosts of the papers on one machine: device, edge and cloud, each a network namespace of its own, with a
//! line between device and edge and one between edge and cloud whose bandwidth, delay, jitter and loss are set.
//!
//! In the first paper's D-C model "the edge device only functions as a router": device and cloud reach each other only
//! through the edge's namespace. The namespaces have no names. They live as long as this process holds them, so that
//! nothing is left behind however it ends, and two runs cannot meet. Nothing of the machine's own network is touched
//! (`docs/decisions/0012-emulated-network.md`).

mod bandwidth;
mod build;
mod error;
mod figures;
mod host;
mod joined;
mod line;
mod measure;
mod namespace;
mod netem;
mod plan;
mod record;
mod relay;
mod run;
mod table;

pub use bandwidth::Bandwidth;
pub use error::NetworkError;
pub(crate) use figures::{COLUMNS, notes, rows, set_against_got};
pub use host::{Host, Place};
pub(crate) use joined::Joined;
pub use line::{Counters, Line, Span};
pub(crate) use measure::round_trips;
pub use measure::{Measured, Way, measure};
pub(crate) use namespace::join_at;
pub use plan::{LinePlan, Means, Plan, Settings};
pub use record::{LineRecord, NetworkRecord};
pub use run::{Cell, NetworkRun, Options, run};
pub(crate) use run::{EXPERIMENT, FORMAT};
pub(crate) use table::table;

/// Three hosts and two lines. Dropping it ends the lines; the hosts' namespaces end with their last user.
pub struct Network {
    plan: Plan,
    hosts: [Host; 3],
    lines: [Line; 2],
    not_varied: Option<String>,
}

impl Network {
    /// Makes the hosts and lines of a plan. Where this machine does not let us, all hosts are 127.0.0.1 and
    /// [`Network::not_varied`] says what is therefore not as planned, and why.
    ///
    /// The threads of a line may run where the calling thread may: build before the generator is pinned.
    ///
    /// # Errors
    /// A setting is out of its bounds, or making hosts is allowed and yet failed.
    pub fn build(plan: &Plan) -> Result<Network, NetworkError> {
        plan.check()?;
        match build::try_out(plan) {
            Ok(means) => build::namespaces(plan, means),
            Err(obstacle) => Ok(build::loopback(plan, &obstacle)),
        }
    }

    /// One of the three hosts.
    pub fn host(&self, place: Place) -> &Host {
        &self.hosts[place as usize]
    }

    /// One of the two lines.
    pub fn line(&self, span: Span) -> &Line {
        &self.lines[span as usize]
    }

    /// What a raw file keeps of it.
    ///
    /// # Errors
    /// A relay has ended.
    pub fn record(&self) -> Result<NetworkRecord, NetworkError> {
        Ok(NetworkRecord {
            plan: self.plan.clone(),
            device_edge: self.line(Span::DeviceEdge).record()?,
            edge_cloud: self.line(Span::EdgeCloud).record()?,
            not_varied: self.not_varied.clone(),
        })
    }

    /// What of the plan this machine does not let us vary, and why, in a sentence; none where all is as planned.
    pub fn not_varied(&self) -> Option<&str> {
        self.not_varied.as_deref()
    }
}
