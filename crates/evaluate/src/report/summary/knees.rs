//! The knees that a search has found (rule 8 b).

use serde::Serialize;

use super::{ArmFacts, CellSummary, Judging, Sweep};
use crate::run::{Run, SearchStep};
use crate::stats::{Bootstrap, Estimate, Knee, Pool, Units};

/// Where a search has ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundKnee {
    /// Index in the summary's arms.
    pub arm: usize,
    /// The highest rate that held; where the next one could not be measured, it is not reached. Absent where not even
    /// the lowest rate could be measured, the generator being the limit.
    pub knee: Option<Knee>,
    /// Whether it held once more, with blocks of its own; the figures below are those of these blocks.
    pub confirmed: bool,
    /// p99 of the response time in µs.
    pub p99: Option<Estimate>,
    /// Messages.
    pub messages: usize,
    /// Those lost or not sent.
    pub lost: usize,
    /// Rates tried, confirmations among them.
    pub steps: usize,
}

/// Of every arm that was searched, in every run.
pub(super) fn knees(runs: &[Run], cells: &[CellSummary], arms: &[ArmFacts], judging: &Judging) -> Vec<FoundKnee> {
    let of_run = |run| (0..arms.len()).filter_map(move |arm| found(run, cells, (arm, &arms[arm].name), judging));
    runs.iter().flat_map(of_run).collect()
}

fn found(run: &Run, cells: &[CellSummary], (arm, name): (usize, &str), judging: &Judging) -> Option<FoundKnee> {
    let of_arm = |step: &&SearchStep| run.arms[step.arm].name == name;
    let steps: Vec<&SearchStep> = run.search.iter().filter(of_arm).collect();
    let last = steps.last()?;
    let rate = |step: &SearchStep| {
        let cell = cells.iter().find(|summary| summary.cell == run.cells[step.cell]);
        let result = cell.and_then(|cell| cell.arm(arm));
        result.map_or(0.0, |result| result.load.offered_per_s)
    };
    let confirmed = last.confirming && last.held == Some(true);
    let above = steps.iter().filter(|step| rate(step) > rate(last));
    let next = above.min_by(|a, b| rate(a).total_cmp(&rate(b)));
    let per_s = rate(last);
    let knee = match (confirmed, next) {
        (true, Some(next)) if next.held == Some(false) => Some(Knee::At { offered_per_s: per_s }),
        (true, _) => Some(Knee::NotReached { highest_per_s: per_s }),
        (false, _) => last.held.map(|_| Knee::BelowSweep { lowest_per_s: per_s }),
    };
    let blocks: Vec<Vec<f64>> = last
        .blocks
        .iter()
        .map(|number| {
            let block = &run.blocks[*number];
            super::gather::durations_us(block, |message| block.samples.response_ns(message))
        })
        .collect();
    let pool = Pool::new(&Units::new(&[blocks.iter().map(Vec::as_slice).collect()]));
    let bootstrap = &mut Bootstrap::new(judging.seed, u64::MAX - arm as u64, judging.resamples);
    Some(FoundKnee {
        arm,
        knee,
        confirmed,
        p99: pool.quantile(0.99, bootstrap),
        messages: pool.len(),
        lost: pool.sorted().filter(|response| response.is_infinite()).count(),
        steps: steps.len(),
    })
}

/// What was searched counts more than what the pooled points of the sweep happen to show.
pub(super) fn into_sweeps(knees: &[FoundKnee], sweeps: &mut [Sweep]) {
    let loads = sweeps.iter_mut().filter(|sweep| sweep.swept.is_load());
    for points in loads.flat_map(|sweep| &mut sweep.knees) {
        if let Some(found) = knees.iter().find(|found| found.arm == points.arm) {
            points.bounded = found.knee;
        }
    }
}
