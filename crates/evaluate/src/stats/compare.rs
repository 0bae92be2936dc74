//! A against B in one run (rule 9): ratios within blocks, judged against the noise of the machine.

use serde::Serialize;

use super::Estimate;

/// What a comparison concludes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The ratio's whole interval lies below 1, and the ratio beyond the noise of the machine.
    Faster,
    /// The ratio's whole interval lies above 1, and the ratio beyond the noise of the machine.
    Slower,
    /// The ratio's whole interval lies within this share of 1.
    Equivalent {
        /// The margin, such as 0.05.
        within: f64,
    },
    /// None of them could be shown.
    Undecided(Undecided),
}

/// Why a comparison concludes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// One of the arms broke a sanity law or the generator was its limit: there is no result to compare.
    Invalid,
    /// Too few messages for the quantile.
    TooFewMessages,
    /// Fewer than five blocks or runs: a range carries no confidence.
    TooFewBlocks,
    /// More was lost than the quantile leaves out, in both arms.
    LostInBoth,
    /// The generator was late by more than a quarter of the difference (rule 2).
    SendLag,
    /// The interval holds 1 and more than the margin around it.
    Interval,
    /// The machine differs from itself by as much.
    Noise,
}

/// What a ratio is judged by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// A ratio this near to 1 counts as no difference, such as 0.05.
    pub margin: f64,
    /// Ratio of an arm to itself in the same run, where one was measured.
    pub noise: Option<Estimate>,
    /// p99 of the send lag, the worse of both arms, in the samples' unit; absent in a closed loop.
    pub send_lag_p99: Option<f64>,
    /// Below this duration the send lag is held against the difference (rule 2): 1 ms in the samples' unit.
    pub fine_below: f64,
}

/// An arm's quantile as a multiple of the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Median of the ratios within blocks; absent where there are too few messages or losses make it undefined.
    pub ratio: Option<Estimate>,
    /// What follows from it.
    pub verdict: Verdict,
}

/// Judges a ratio (rule 9). `values` are the quantile of arm and baseline, in the samples' unit.
pub fn compare(ratio: Result<Estimate, Undecided>, values: (f64, f64), conditions: &Conditions) -> Comparison {
    match ratio {
        Err(why) => Comparison {
            ratio: None,
            verdict: Verdict::Undecided(why),
        },
        Ok(ratio) => Comparison {
            ratio: Some(ratio),
            verdict: verdict(&ratio, values, conditions),
        },
    }
}

fn verdict(ratio: &Estimate, values: (f64, f64), conditions: &Conditions) -> Verdict {
    let (low, high) = (ratio.interval.low, ratio.interval.high);
    let equivalent = low >= 1.0 / (1.0 + conditions.margin) && high <= 1.0 + conditions.margin;
    if ratio.interval.method == super::Method::Range {
        return Verdict::Undecided(Undecided::TooFewBlocks);
    }
    if !equivalent && low <= 1.0 && high >= 1.0 {
        return Verdict::Undecided(Undecided::Interval);
    }
    let claimed = if equivalent {
        conditions.margin * values.1
    } else {
        (values.0 - values.1).abs()
    };
    if lag_hides(claimed, values, conditions) {
        return Verdict::Undecided(Undecided::SendLag);
    }
    if equivalent {
        return Verdict::Equivalent {
            within: conditions.margin,
        };
    }
    match ratio.value.ln() {
        difference if difference.abs() <= noise(conditions) => Verdict::Undecided(Undecided::Noise),
        difference if difference < 0.0 => Verdict::Faster,
        _ => Verdict::Slower,
    }
}

/// Whether a ratio is at most `aim`: decided as a verdict is, with `aim` in the place of 1.
///
/// # Errors
/// Why that cannot be said.
pub fn keeps(ratio: &Estimate, aim: f64, values: (f64, f64), conditions: &Conditions) -> Result<bool, Undecided> {
    let Estimate { value, interval } = *ratio;
    if interval.method == super::Method::Range {
        return Err(Undecided::TooFewBlocks);
    }
    if interval.low <= aim && interval.high > aim {
        return Err(Undecided::Interval);
    }
    if lag_hides((value - aim).abs() * values.1, values, conditions) {
        return Err(Undecided::SendLag);
    }
    if (value / aim).ln().abs() <= noise(conditions) {
        return Err(Undecided::Noise);
    }
    Ok(interval.high <= aim)
}

/// Whether all of the interval lies within the `margin` around 1; not where all of it lies beyond.
///
/// # Errors
/// Why that cannot be said.
pub fn equivalent(ratio: &Estimate, margin: f64) -> Result<bool, Undecided> {
    let (interval, least, most) = (ratio.interval, 1.0 / (1.0 + margin), 1.0 + margin);
    match interval {
        _ if interval.method == super::Method::Range => Err(Undecided::TooFewBlocks),
        _ if interval.low >= least && interval.high <= most => Ok(true),
        _ if interval.low > most || interval.high < least => Ok(false),
        _ => Err(Undecided::Interval),
    }
}

/// Whether a difference is at most `aim`, both in the unit of `conditions`. `noise`: of the machine from itself.
///
/// # Errors
/// Why that cannot be said.
pub fn adds_at_most(
    difference: &Estimate,
    aim: f64,
    noise: Option<Estimate>,
    conditions: &Conditions,
) -> Result<bool, Undecided> {
    let Estimate { value, interval } = *difference;
    if interval.method == super::Method::Range {
        return Err(Undecided::TooFewBlocks);
    }
    if interval.low <= aim && interval.high > aim {
        return Err(Undecided::Interval);
    }
    let distance = (value - aim).abs();
    let fine = distance < conditions.fine_below;
    if fine && conditions.send_lag_p99.is_some_and(|lag| lag > distance / 4.0) {
        return Err(Undecided::SendLag);
    }
    // Whatever it is in truth: a machine that differs from itself by nothing has no noise.
    if noise.is_some_and(|noise| noise.value.abs() >= distance) {
        return Err(Undecided::Noise);
    }
    Ok(interval.high <= aim)
}

/// How far the machine is from itself, as the logarithm of a ratio.
fn noise(conditions: &Conditions) -> f64 {
    conditions.noise.map_or(0.0, |noise| {
        noise.interval.low.ln().abs().max(noise.interval.high.ln().abs())
    })
}

/// Rule 2: below 1 ms a send lag over a quarter of the claimed difference leaves the comparison undecided.
fn lag_hides(claimed: f64, values: (f64, f64), conditions: &Conditions) -> bool {
    let fine = values.0.max(values.1) < conditions.fine_below;
    fine && conditions.send_lag_p99.is_some_and(|lag| lag > claimed / 4.0)
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
