//! Pass, fail or undecided (rule 12).

use serde::Serialize;

use super::Estimate;

/// Whether a bound is kept, as far as the interval tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is.
    Pass,
    /// It is not.
    Fail,
    /// The interval holds both, or there are too few messages.
    Undecided,
}

impl Outcome {
    /// From what is known.
    pub fn of(holds: Option<bool>) -> Outcome {
        match holds {
            Some(true) => Outcome::Pass,
            Some(false) => Outcome::Fail,
            None => Outcome::Undecided,
        }
    }

    /// Both: a failure fails, else an undecided part leaves it undecided.
    #[must_use]
    pub fn and(self, other: Outcome) -> Outcome {
        match (self, other) {
            (Outcome::Fail, _) | (_, Outcome::Fail) => Outcome::Fail,
            (Outcome::Pass, Outcome::Pass) => Outcome::Pass,
            _ => Outcome::Undecided,
        }
    }
}

/// Whether a figure stays below `bound`: the whole interval below passes, the whole interval at or above fails.
pub fn at_most(figure: Option<&Estimate>, bound: f64) -> Outcome {
    Outcome::of(figure.and_then(|figure| match figure.interval {
        interval if interval.high < bound => Some(true),
        interval if interval.low >= bound => Some(false),
        _ => None,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::{Interval, Method};
    use super::*;

    fn between(low: f64, high: f64) -> Estimate {
        Estimate {
            value: f64::midpoint(low, high),
            interval: Interval {
                low,
                high,
                method: Method::Bootstrap,
            },
        }
    }

    #[test]
    fn the_interval_decides_and_not_the_figure() {
        assert_eq!(at_most(Some(&between(1.0, 1.9)), 2.0), Outcome::Pass);
        assert_eq!(at_most(Some(&between(1.0, 2.5)), 2.0), Outcome::Undecided);
        assert_eq!(at_most(Some(&between(2.0, 2.5)), 2.0), Outcome::Fail);
        assert_eq!(at_most(None, 2.0), Outcome::Undecided);
    }

    #[test]
    fn losses_at_the_upper_end_never_pass() {
        assert_eq!(at_most(Some(&between(1.0, f64::INFINITY)), 1e9), Outcome::Undecided);
    }

    #[test]
    fn one_failure_fails_the_whole() {
        assert_eq!(Outcome::Undecided.and(Outcome::Fail), Outcome::Fail);
        assert_eq!(Outcome::Undecided.and(Outcome::Pass), Outcome::Undecided);
    }
}
