//! An arm as a multiple of another under the same load.

use serde::Serialize;

use super::gather::Group;
use super::{ArmResult, Judging};
use crate::run::Cell;
use crate::stats::{self, Bootstrap, Comparison, Conditions, Estimate, Undecided};

/// Comparisons of durations below this are held against the send lag (rule 2), in µs.
const FINE_BELOW_US: f64 = 1000.0;

/// What two arms are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Median of the response time.
    P50,
    /// Its 99th percentile.
    P99,
    /// CPU time of the server a round trip.
    ServerCpu,
}

/// An arm as a multiple of another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Against {
    /// Index of the other arm.
    pub other: usize,
    /// By p50.
    pub p50: Comparison,
    /// By p99.
    pub p99: Comparison,
    /// By the server's CPU time a round trip; absent where one of the servers was not started by us.
    pub server_cpu: Option<Comparison>,
}

impl Against {
    fn of(&self, quantity: Quantity) -> Option<Comparison> {
        match quantity {
            Quantity::P50 => Some(self.p50),
            Quantity::P99 => Some(self.p99),
            Quantity::ServerCpu => self.server_cpu,
        }
    }
}

/// Two arms under one load.
pub(super) struct Pair<'a> {
    pub(super) groups: (&'a Group<'a>, &'a Group<'a>),
    pub(super) results: (&'a ArmResult, &'a ArmResult),
    pub(super) cell: &'a Cell,
    /// The machine against itself.
    pub(super) noise: Option<Against>,
    /// First of the random streams of this load, which its comparisons have to themselves.
    pub(super) stream: u64,
}

impl Pair<'_> {
    /// The first arm as a multiple of the second.
    pub(super) fn against(&self, judging: &Judging) -> Against {
        let by = |quantity| {
            let ratio = self.ratio(quantity, judging);
            stats::compare(ratio, self.values(quantity), &self.conditions(quantity, judging))
        };
        let (p50, p99) = (by(Quantity::P50), by(Quantity::P99));
        let (ours, theirs) = self.values(Quantity::ServerCpu);
        Against {
            other: self.groups.1.arm,
            p50,
            p99,
            server_cpu: (ours.is_finite() && theirs.is_finite()).then(|| by(Quantity::ServerCpu)),
        }
    }

    /// Median of the ratios within blocks; the same whenever it is asked for.
    pub(super) fn ratio(&self, quantity: Quantity, judging: &Judging) -> Result<Estimate, Undecided> {
        let bootstrap = &mut self.bootstrap(quantity, judging);
        if !self.results.0.is_valid() || !self.results.1.is_valid() {
            return Err(Undecided::Invalid);
        }
        match quantity {
            Quantity::P50 => stats::ratio(&self.groups.0.paired(self.groups.1), 0.5, bootstrap),
            Quantity::P99 => stats::ratio(&self.groups.0.paired(self.groups.1), 0.99, bootstrap),
            Quantity::ServerCpu => stats::ratio_of_costs(&self.groups.0.paired_costs(self.groups.1), bootstrap),
        }
    }

    /// By how much the first arm's quantile is more than the second's, in µs; the same whenever it is asked for.
    pub(super) fn difference(&self, quantity: Quantity, judging: &Judging) -> Result<Estimate, Undecided> {
        if !self.results.0.is_valid() || !self.results.1.is_valid() {
            return Err(Undecided::Invalid);
        }
        let q = if quantity == Quantity::P99 { 0.99 } else { 0.5 };
        super::added::difference(self.groups, q, (self.stream, quantity), judging)
    }

    /// A random stream of its own for each pair and quantity.
    fn bootstrap(&self, quantity: Quantity, judging: &Judging) -> Bootstrap {
        let (ours, theirs) = (self.groups.0.arm as u64, self.groups.1.arm as u64);
        let stream = self.stream + (ours << 16 | theirs << 4 | quantity as u64);
        Bootstrap::new(judging.seed, stream, judging.resamples)
    }

    /// Of both arms, in µs; infinite where there is none.
    pub(super) fn values(&self, quantity: Quantity) -> (f64, f64) {
        let of = |result: &ArmResult| match quantity {
            Quantity::P50 => result.response.p50.map(|p50| p50.value),
            Quantity::P99 => result.response.p99.map(|p99| p99.value),
            Quantity::ServerCpu => result.load.server_cpu_us,
        };
        let (ours, theirs) = self.results;
        (of(ours).unwrap_or(f64::INFINITY), of(theirs).unwrap_or(f64::INFINITY))
    }

    /// What a ratio is judged by. The send lag is no part of a closed loop's time, nor of any CPU time.
    pub(super) fn conditions(&self, quantity: Quantity, judging: &Judging) -> Conditions {
        let (ours, theirs) = self.results;
        let lag_matters = !self.cell.load.is_closed() && quantity != Quantity::ServerCpu;
        Conditions {
            margin: judging.equivalence_margin,
            noise: self.noise.and_then(|noise| noise.of(quantity)?.ratio),
            send_lag_p99: lag_matters.then(|| ours.send_lag_p99_us.max(theirs.send_lag_p99_us)),
            fine_below: FINE_BELOW_US,
        }
    }
}
