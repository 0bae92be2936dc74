//! What does not fit on one machine: the policies' own code ([`balance`]) under simulated time. From which load and
//! distance on does each policy win, what does `local-first` cost at worst, and what becomes of that as a site grows, and
//! with it the number of sites, and as its traffic changes?
//!
//! How near the simulator comes to what is measured is printed by [`crate::balancing`], cell by cell.

mod cells;
mod experiment;
mod options;
mod record;
mod summary;
mod table;
mod traffic;

pub use experiment::run;
pub use options::{Options, Part};
pub(crate) use record::FORMAT;
pub use record::{Cell, Done, Figures, Law, SimulationRun, Traffic};
pub use summary::{CellSummary, Finding, Row, Winner, Winners, summarise, worst};
pub use table::table;
pub(crate) use table::{answers, cell_name, maps, notes, traffic_name};

/// What [`SimulationRun::experiment`] says.
pub(crate) const EXPERIMENT: &str = "simulation";
