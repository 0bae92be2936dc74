//! What an edge and its link add to the way from a device to the cloud: D-E-C less D-C, within blocks.

use serde::Serialize;

use super::gather::{Gathered, Group};
use super::{ArmFacts, Judging, Quantity};
use crate::stats::{self, Bootstrap, Estimate, Undecided};

/// First of the random streams of differences within those of a load's comparisons.
const STREAMS: u64 = 1 << 30;

/// An arm's response time less the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Added {
    /// Index of the arm; its repetition among them, which is the noise of the machine.
    pub arm: usize,
    /// Of p50 in µs; absent with too few messages, or losses in both.
    pub p50_us: Option<Estimate>,
    /// Of p99 in µs.
    pub p99_us: Option<Estimate>,
}

/// Of every arm that goes the same way as the baseline.
pub(super) fn added(gathered: &Gathered<'_>, arms: &[ArmFacts], stream: u64, judging: &Judging) -> Vec<Added> {
    let crosses = |group: &&Group<'_>| arms[group.arm].crosses_line();
    let Some(baseline) = gathered
        .groups
        .iter()
        .filter(crosses)
        .find(|group| arms[group.arm].baseline)
    else {
        return Vec::new();
    };
    let others = gathered
        .groups
        .iter()
        .filter(crosses)
        .filter(|group| group.arm != baseline.arm);
    others
        .map(|group| {
            let of = |q, quantity| difference((group, baseline), q, (stream, quantity), judging).ok();
            Added {
                arm: group.arm,
                p50_us: of(0.5, Quantity::P50),
                p99_us: of(0.99, Quantity::P99),
            }
        })
        .collect()
}

/// The same whenever it is asked for.
pub(super) fn difference(
    (ours, theirs): (&Group<'_>, &Group<'_>),
    q: f64,
    (stream, quantity): (u64, Quantity),
    judging: &Judging,
) -> Result<Estimate, Undecided> {
    let stream = stream + STREAMS + ((ours.arm as u64) << 16 | (theirs.arm as u64) << 4 | quantity as u64);
    let bootstrap = &mut Bootstrap::new(judging.seed, stream, judging.resamples);
    stats::difference(&ours.paired(theirs), q, bootstrap)
}
