//! What raw files say, before anything is drawn.

mod against;
mod arm_result;
mod gather;
mod judging;
mod laws;
mod promises;
mod shapes;
mod sweep;
mod types;

use crate::figures;
use crate::run::Run;

pub use against::{Against, Quantity};
pub use judging::Judging;
pub use promises::{Aim, Promised};
pub use types::*;

/// Judges raw files by the default thresholds.
///
/// # Panics
/// Where `runs` is empty: there is nothing to report.
pub fn summarise(runs: &[Run]) -> Summary {
    let seed = runs.first().map_or(0, |run| run.seed);
    summarise_by(
        runs,
        &Judging {
            seed,
            ..Judging::default()
        },
    )
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
    let cells: Vec<CellSummary> = cells
        .into_iter()
        .enumerate()
        .map(|(number, cell)| arm_result::cell(number, &cell, &arms, &paper.requirements, judging))
        .collect();
    let mut summary = Summary {
        experiment: runs[0].experiment.clone(),
        runs: runs.iter().map(RunFacts::of).collect(),
        skipped: gather::skipped(runs),
        sweeps: sweep::sweeps(&cells, &arms, judging),
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
