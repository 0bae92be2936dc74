//! What raw files say, before anything is drawn.

mod added;
mod against;
mod arm_result;
mod busy;
mod gather;
mod judging;
mod knees;
mod laws;
mod promises;
mod shapes;
mod sweep;
mod types;

use crate::figures::{self, Requirement};
use crate::run::Run;

pub use added::Added;
pub use against::{Against, Quantity};
pub use busy::{Busy, Limit};
pub use judging::Judging;
pub use knees::FoundKnee;
pub use promises::{Aim, Promised};
pub(crate) use shapes::boxed;
pub use types::*;

/// By what all results are judged, and what they have in common.
struct Terms<'a> {
    requirements: &'a [Requirement],
    judging: &'a Judging,
    /// Whether devices of the models connected under TLS.
    tls: bool,
    /// CPUs of the machine.
    cpus: usize,
}

/// Judges raw files by the default thresholds.
///
/// # Panics
/// Where `runs` is empty: there is nothing to report.
pub fn summarise(runs: &[Run]) -> Summary {
    summarise_by(runs, &runs.first().map_or_else(Judging::default, Judging::of))
}

/// Judges raw files by thresholds of one's own.
///
/// # Panics
/// Where `runs` is empty: there is nothing to report.
pub fn summarise_by(runs: &[Run], judging: &Judging) -> Summary {
    assert!(!runs.is_empty(), "a report needs a raw file");
    let paper = figures::client_perspective();
    let arms = gather::arms(runs);
    let cells = gather::cells(runs, &arms);
    let terms = Terms {
        requirements: &paper.requirements,
        judging,
        tls: runs[0].options.has_tls(),
        cpus: runs[0].environment.cpus,
    };
    let cells: Vec<CellSummary> = cells
        .into_iter()
        .enumerate()
        .map(|(number, cell)| arm_result::cell(number, &cell, &arms, &terms))
        .collect();
    let knees = knees::knees(runs, &cells, &arms, judging);
    let mut sweeps = sweep::sweeps(&cells, &arms, judging);
    knees::into_sweeps(&knees, &mut sweeps);
    let mut summary = Summary {
        experiment: runs[0].experiment.clone(),
        runs: runs.iter().map(RunFacts::of).collect(),
        skipped: gather::skipped(runs),
        sweeps,
        knees,
        judging: judging.clone(),
        arms,
        cells,
        figures: Vec::new(),
        claims: Vec::new(),
    };
    summary.figures = figures::beside(&paper, &summary);
    summary.claims = figures::claims(&paper, &summary);
    summary
}
