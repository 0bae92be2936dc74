//! Which services may share a board, and which need limits: the interference paper's four cases of Linpack, STREAM and
//! Bonnie++ beside each other, and the hub beside each of them.
//!
//! Services run in containers of an edge, within its quotas of a tenant, which stand for the board. Each does its work again
//! and again while the others do; what counts is what a turn gives, in ratio to case 1 within blocks (rule 9).

mod board;
mod cells;
mod experiment;
mod options;
mod record;
mod service;
mod stand;
mod summary;
mod table;

pub use board::{Board, Profile};
pub(crate) use cells::cells;
pub use cells::estimate;
pub use experiment::run;
pub use options::{Options, Pair, Part};
pub(crate) use record::FORMAT;
pub use record::{Case, Done, Figure, Group, InterferenceRun, Job, Kind, RoundTrips, Seen, Turn};
pub(crate) use service::{Files, now_ns, turns};
pub use service::{Service, Sizes};
pub use summary::{Advice, Beside, HubRow, Row, Sharing, Summary, summarise};
pub use table::table;
pub(crate) use table::{advice, hub_cells, lost, notes, places, questions, rows_of, sharing_words, value};

#[cfg(test)]
pub(crate) use summary::tests as tests_of;

/// What [`InterferenceRun::experiment`] says.
pub(crate) const EXPERIMENT: &str = "interference";
