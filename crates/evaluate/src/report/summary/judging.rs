//! By what a result is judged; printed with it.

use serde::Serialize;

use crate::rtt::{KneeBounds, Options};
use crate::run::Run;
use crate::stats::{Bootstrap, Thresholds};

/// Thresholds of all verdicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judging {
    /// What counts as deterministic (rule 7).
    pub determinism: Thresholds,
    /// Deadline of a message in µs; absent is the interval, so that an answer comes before the next message, or, in a
    /// closed loop, the timeout.
    pub deadline_us: Option<f64>,
    /// Ratios this near to 1 are equivalent (rule 9).
    pub equivalence_margin: f64,
    /// Bound of p99 at the knee (rule 8 b), in µs.
    pub knee_p99_us: f64,
    /// Greatest share of messages lost at the knee (rule 8 b).
    pub knee_lost: f64,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Resamples of the bootstrap.
    pub resamples: usize,
}

impl Judging {
    /// By the bounds that a run was made with.
    pub(super) fn of(run: &Run) -> Judging {
        let bounds = KneeBounds::of(&run.options);
        Judging {
            seed: run.seed,
            knee_p99_us: bounds.p99_us as f64,
            knee_lost: bounds.lost,
            ..Judging::default()
        }
    }
}

impl Default for Judging {
    fn default() -> Self {
        let knee = KneeBounds::of(&Options::default());
        Judging {
            determinism: Thresholds::default(),
            deadline_us: None,
            equivalence_margin: 0.05,
            knee_p99_us: knee.p99_us as f64,
            knee_lost: knee.lost,
            seed: 0,
            resamples: Bootstrap::RESAMPLES,
        }
    }
}
