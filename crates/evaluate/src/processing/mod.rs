//! What it costs to train and to run models at the edge: the first paper's second experiment.
//!
//! Three models are trained, and predict, as a program of the host, by the edge as a process and in containers, within a
//! board that is scaled to the machine, and beside that with all of the machine: the cloud side.

mod experiment;
mod looking;
mod options;
mod paper;
mod python;
mod record;
mod stand;
mod summary;
mod table;

pub use experiment::{estimate, run};
pub use options::Options;
pub(crate) use paper::{Column, column};
pub(crate) use record::FORMAT;
pub use record::{Done, Job, Limits, Look, Model, Place, ProcessingRun, Seen, Task};
#[cfg(test)]
pub(crate) use summary::tests::trainings;
pub use summary::{Row, summarise};
pub use table::table;
pub(crate) use table::{cells, figures, heading, notes};

/// What [`ProcessingRun::experiment`] says.
pub(crate) const EXPERIMENT: &str = "processing";
