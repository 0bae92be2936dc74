//! The full-stack round trip of the D-E model: the first paper's experiment 1, at our rules.
//!
//! Here it is measured; what the figures mean is said by [`crate::stats`].

mod arm_kind;
mod bench;
mod calm;
pub(crate) mod knee;
mod options;
pub(crate) mod pacer;
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

pub use arm_kind::ArmKind;
pub use options::{Options, Preset, Protocol};
pub use plan::{KneeBounds, Plan, PlanError};
pub use progress::{Bar, Lines, Progress, Step};
pub use runner::{RunError, run};
pub use target::Target;
pub use trace::{Reading, Trace};

pub use crate::arms::Helper;
