//! Which node of a site answers: the load-balancing paper's experiments with every policy, beside nginx and HAProxy in
//! front of the same pods, and what the paper leaves out.
//!
//! Each node is a network namespace with an edge of its own and its pods, which are containers; a line joins each pair
//! of nodes, whose delay is set. Clients are threads in the namespaces of the nodes that are asked. Arms of a cell follow
//! each other in random order (rule 9).

mod cells;
mod experiment;
mod load;
mod node;
mod nodes;
mod options;
mod paper;
mod pod;
mod prediction;
mod proxies;
mod record;
mod summary;
mod table;

pub use experiment::{estimate, run};
pub use options::{Options, Part};
pub(crate) use pod::Pod;
pub(crate) use record::FORMAT;
pub use record::{Arm, BalancingRun, Cell, Done, Event, Job, Load, Seen, Work};
#[cfg(test)]
pub(crate) use summary::tests::run_of;
pub use summary::{CellSummary, Judged, Row, summarise};
pub use table::table;
pub(crate) use table::{by_node_words, cell_name, cpu_words, judged_words, notes};

/// What [`BalancingRun::experiment`] says.
pub(crate) const EXPERIMENT: &str = "balancing";
/// Nodes of the site, as in the paper.
pub(crate) const NODES: usize = 3;
