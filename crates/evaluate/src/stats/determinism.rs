//! Deterministic or not (rule 7), by thresholds that are printed and can be set.

use serde::{Deserialize, Serialize};

use super::{Outcome, Trend};

/// What still counts as deterministic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thresholds {
    /// A rise over a block up to this share of p50 is no buffering.
    pub rise_of_p50: f64,
    /// Greatest p99 − p50 as a share of p50.
    pub spread_of_p50: f64,
    /// Greatest share of messages that miss the deadline.
    pub missed: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            rise_of_p50: 0.1,
            spread_of_p50: 1.0,
            missed: 0.001,
        }
    }
}

/// Whether an arm is deterministic, and each part of the judgement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Determinism {
    /// Fails where the round trip rises over the message index.
    pub no_buffering: Outcome,
    /// p99 − p50, in the samples' unit; absent with too few messages.
    #[serde(serialize_with = "super::estimate::option_or_lost")]
    pub spread: Option<f64>,
    /// Whether that is within p50.
    pub narrow: Outcome,
    /// Messages answered after the deadline or never.
    pub missed: usize,
    /// Messages in all.
    pub messages: usize,
    /// Whether few enough were.
    pub punctual: Outcome,
}

impl Determinism {
    /// All parts together: one failure fails, one undecided part leaves it undecided.
    pub fn outcome(&self) -> Outcome {
        self.no_buffering.and(self.narrow).and(self.punctual)
    }
}

/// Judges samples by their trend, by p50 and p99 (absent where there are too few) and by their deadline.
pub fn determinism(
    samples: impl Iterator<Item = f64>,
    deadline: f64,
    trend: Option<&Trend>,
    quantiles: Option<(f64, f64)>,
    thresholds: &Thresholds,
) -> Determinism {
    let (messages, missed) = samples.fold((0, 0), |(messages, missed), sample| {
        (messages + 1, missed + usize::from(sample > deadline))
    });
    let buffering = |(p50, _): (f64, f64)| trend.map(|t| t.is_rising() && t.rise > thresholds.rise_of_p50 * p50);
    let spread = quantiles.map(|(p50, p99)| if p50.is_finite() { p99 - p50 } else { f64::INFINITY });
    let narrow = quantiles
        .zip(spread)
        .map(|((p50, _), spread)| spread <= thresholds.spread_of_p50 * p50);
    let punctual = messages > 0 && missed as f64 <= thresholds.missed * messages as f64;
    Determinism {
        no_buffering: Outcome::of(quantiles.and_then(buffering).map(|buffers| !buffers)),
        spread,
        narrow: Outcome::of(narrow),
        missed,
        messages,
        punctual: Outcome::of((messages > 0).then_some(punctual)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Estimate, Interval, Method};
    use super::*;

    fn slope(low: f64, value: f64, rise: f64) -> Trend {
        let interval = Interval {
            low,
            high: 2.0 * value,
            method: Method::Rank,
        };
        Trend {
            slope_per_message: Estimate { value, interval },
            rise,
        }
    }

    fn judge(trend: &Trend, p50: f64, p99: f64, missed: usize) -> Determinism {
        let samples = (0..10_000).map(move |i| if i < missed { f64::INFINITY } else { p50 });
        determinism(samples, 1000.0, Some(trend), Some((p50, p99)), &Thresholds::default())
    }

    #[test]
    fn a_flat_narrow_and_punctual_round_trip_is_deterministic() {
        let judged = judge(&slope(-0.01, 0.0, 0.0), 100.0, 200.0, 10);
        assert_eq!(judged.outcome(), Outcome::Pass);
        assert_eq!(
            (judged.spread, judged.missed, judged.messages),
            (Some(100.0), 10, 10_000)
        );
    }

    #[test]
    fn buffering_needs_a_slope_above_zero_and_a_rise_that_matters() {
        assert_eq!(
            judge(&slope(0.001, 0.002, 11.0), 100.0, 150.0, 0).no_buffering,
            Outcome::Fail
        );
        assert_eq!(
            judge(&slope(0.001, 0.002, 9.0), 100.0, 150.0, 0).no_buffering,
            Outcome::Pass
        );
        assert_eq!(
            judge(&slope(-0.001, 0.002, 11.0), 100.0, 150.0, 0).no_buffering,
            Outcome::Pass
        );
    }

    #[test]
    fn p99_over_twice_p50_is_not_deterministic() {
        assert_eq!(judge(&slope(-0.01, 0.0, 0.0), 100.0, 201.0, 0).outcome(), Outcome::Fail);
    }

    #[test]
    fn eleven_of_ten_thousand_missed_are_too_many() {
        assert_eq!(judge(&slope(-0.01, 0.0, 0.0), 100.0, 150.0, 11).punctual, Outcome::Fail);
    }

    #[test]
    fn too_few_messages_leave_it_undecided() {
        let few = determinism([1.0; 5].into_iter(), 10.0, None, None, &Thresholds::default());
        assert_eq!(few.outcome(), Outcome::Undecided);
    }
}
