//! What doors of services have led where, since they were opened. What the kernel leads past them nobody counts.

use std::time::Duration;

/// Upper bounds of [`Histogram::counts`], in seconds; the last count is of those beyond.
pub const BOUNDS_S: [f64; 13] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];

/// How long answers took, from the request to their head.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Of each range between two [`BOUNDS_S`].
    pub counts: [u64; BOUNDS_S.len() + 1],
    /// All of them.
    pub sum_s: f64,
}

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration) {
        let took_s = took.as_secs_f64();
        let place = BOUNDS_S.partition_point(|bound_s| *bound_s < took_s);
        self.counts[place] += 1;
        self.sum_s += took_s;
    }
}

/// Of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfNode {
    /// Its name; `None`: this one.
    pub node: Option<String>,
    /// Requests of HTTP, and connections of all else, that were to go there.
    pub led: u64,
    /// Those of them that nobody there had, or answered.
    pub failed: u64,
    /// Those of HTTP that were answered.
    pub answers: Histogram,
    /// Those that are there or on their way.
    pub in_flight: u32,
}

/// Why one did not stay on this node, each time that it was led to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spilled {
    /// Nobody was ready here.
    pub nobody_ready: u64,
    /// Nobody here had it.
    pub failed: u64,
    /// The policy chose another one.
    pub policy: u64,
}

/// Requests of HTTP that had no answer in time, by who set it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    /// The service (`selvedge.dev/timeout`).
    pub service: u64,
    /// Who asked (`grpc-timeout`).
    pub caller: u64,
}

/// Of one port of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct OfService {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub service: String,
    /// Where it listens.
    pub port: u16,
    /// By what requests are spread.
    pub policy: &'static str,
    /// Of each node, this one first.
    pub nodes: Vec<OfNode>,
    /// Requests that did not stay here.
    pub spilled: Spilled,
    /// Requests and connections that nobody had.
    pub refused: u64,
    /// Requests that had no answer in time.
    pub late: Late,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_counts_in_the_range_that_it_took() {
        let mut answers = Histogram::default();
        for took_us in [500, 501, 10_000, 6_000_000] {
            answers.add(Duration::from_micros(took_us));
        }
        let at = |place: usize| answers.counts[place];
        assert_eq!((at(0), at(1), at(4), at(13)), (1, 1, 1, 1));
        assert!((answers.sum_s - 6.011_001).abs() < 1e-9);
    }
}
