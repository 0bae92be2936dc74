//! The full-stack round trip, of one hub or of the first paper's three models: its experiment 1, at our rules.
//!
//! Here it is measured; what the figures mean is said by [`crate::stats`].

mod arm_kind;
mod bench;
mod calm;
mod cells;
pub(crate) mod knee;
mod options;
pub(crate) mod pacer;
mod parts;
mod plan;
pub(crate) mod presets;
mod progress;
pub(crate) mod recorder;
mod runner;
mod schedule;
mod stand;
mod target;
mod trace;
pub(crate) mod units;
mod uplink;

pub use arm_kind::ArmKind;
pub use options::{Options, Preset, Protocol};
pub(crate) use pacer::Pacer;
pub use plan::{KneeBounds, Plan, PlanError};
pub use progress::{Bar, Lines, Progress, Step};
pub(crate) use recorder::Recorder;
pub use runner::{RunError, as_possible_here, run};
pub(crate) use schedule::Due;
pub use target::Target;
pub use trace::{Reading, Trace};

pub use crate::arms::Helper;
