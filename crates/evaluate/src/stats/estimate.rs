//! A figure with its uncertainty, and how that was found.

use serde::{Serialize, Serializer};

use super::Bootstrap;

/// How an interval was found, printed with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Two-sided 95 % interval from the order statistics of one run, messages taken as independent.
    OrderStatistic,
    /// Percentiles 2.5 and 97.5 of a hierarchical bootstrap over the units of [`super::Units`].
    Bootstrap,
    /// Least and greatest of the units: four or fewer say no more.
    Range,
    /// Ranks of the pairwise slopes (Theil–Sen, Kendall), 95 %.
    Rank,
}

impl Method {
    /// In the words of a table's heading.
    pub fn words(self) -> &'static str {
        match self {
            Method::OrderStatistic => "95 % interval within one block",
            Method::Bootstrap => "95 % interval",
            Method::Range => "range",
            Method::Rank => "95 % interval",
        }
    }
}

/// Where the true value lies, as far as the data tell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Lower end.
    #[serde(serialize_with = "number_or_lost")]
    pub low: f64,
    /// Upper end; infinite where losses reach it.
    #[serde(serialize_with = "number_or_lost")]
    pub high: f64,
    /// How both were found.
    pub method: Method,
}

/// A figure and its interval, in the unit of its samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure; infinite where it falls among the losses.
    #[serde(serialize_with = "number_or_lost")]
    pub value: f64,
    /// Its uncertainty.
    pub interval: Interval,
}

impl Estimate {
    /// Of what was counted, which has no uncertainty.
    pub(crate) fn exact(value: f64) -> Estimate {
        Estimate {
            value,
            interval: Interval {
                low: value,
                high: value,
                method: Method::Range,
            },
        }
    }

    /// From the units' own values: their range where they are four or fewer, else the bootstrap's percentiles.
    pub(crate) fn over_units(value: f64, units: &[f64], resampled: impl FnOnce() -> Vec<f64>) -> Estimate {
        let interval = if units.len() <= 4 {
            range(units)
        } else {
            percentile_interval(resampled())
        };
        Estimate { value, interval }
    }

    /// The median of units with its interval; `None` where there are none.
    pub(crate) fn median_of(units: &[f64], bootstrap: &mut Bootstrap) -> Option<Estimate> {
        let value = median(units)?;
        Some(Estimate::over_units(value, units, || bootstrap.of(units, median)))
    }
}

fn range(units: &[f64]) -> Interval {
    let low = units.iter().copied().fold(f64::INFINITY, f64::min);
    let high = units.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Interval {
        low,
        high,
        method: Method::Range,
    }
}

/// The middle 95 % of a statistic's resampled values.
///
/// # Panics
/// Where there are none.
pub(crate) fn percentile_interval(mut resampled: Vec<f64>) -> Interval {
    assert!(!resampled.is_empty(), "an interval needs resampled values");
    resampled.sort_by(f64::total_cmp);
    let at = |q: f64| resampled[super::rank(resampled.len(), q) - 1];
    Interval {
        low: at(0.025),
        high: at(0.975),
        method: Method::Bootstrap,
    }
}

/// The middle value; of an even number the mean of the two in the middle. Empty gives `None`.
pub fn median(values: &[f64]) -> Option<f64> {
    middle(
        values,
        |low, high| if low == high { low } else { f64::midpoint(low, high) },
    )
}

/// The middle value of ratios; of an even number the geometric mean of the two in the middle, so that the median of the
/// inverse ratios is the inverse of the median. Empty, or undefined, gives `None`.
pub fn log_median(ratios: &[f64]) -> Option<f64> {
    middle(ratios, |low, high| if low == high { low } else { (low * high).sqrt() }).filter(|m| !m.is_nan())
}

fn middle(values: &[f64], mean: impl Fn(f64, f64) -> f64) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let high = *values.get(upper)?;
    Some(if values.len() % 2 == 1 {
        high
    } else {
        mean(values[upper - 1], high)
    })
}

/// JSON has no infinity: a figure among the losses is the word `"lost"`.
pub(crate) fn number_or_lost<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    if value.is_infinite() {
        to.serialize_str("lost")
    } else {
        to.serialize_f64(*value)
    }
}

/// The same of a figure that may be absent.
#[allow(clippy::ref_option, reason = "serde passes the field by reference")]
pub(crate) fn option_or_lost<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => number_or_lost(value, to),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_inverse_ratios_is_the_inverse_of_the_median() {
        let ratios = [0.5, 0.8, 1.25, 4.0];
        let inverse: Vec<f64> = ratios.iter().map(|r| 1.0 / r).collect();
        let product = log_median(&ratios).unwrap() * log_median(&inverse).unwrap();
        assert!((product - 1.0).abs() < 1e-12, "{product}");
    }

    #[test]
    fn four_units_give_their_range_and_five_an_interval() {
        let four = Estimate::over_units(2.0, &[1.0, 2.0, 2.0, 9.0], || {
            unreachable!("four units are not resampled")
        });
        assert_eq!(
            four.interval,
            Interval {
                low: 1.0,
                high: 9.0,
                method: Method::Range
            }
        );
        let five = Estimate::over_units(2.0, &[1.0, 2.0, 2.0, 2.0, 9.0], || vec![1.5, 2.0, 2.5]);
        assert_eq!(five.interval.method, Method::Bootstrap);
    }

    #[test]
    fn a_figure_among_the_losses_is_written_as_lost() {
        let interval = Interval {
            low: 3.5,
            high: f64::INFINITY,
            method: Method::Range,
        };
        let json = serde_json::to_string(&interval).unwrap();
        assert_eq!(json, r#"{"low":3.5,"high":"lost","method":"range"}"#);
    }
}
