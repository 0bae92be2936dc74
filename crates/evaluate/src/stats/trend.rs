//! Buffering (rule 7): does the round trip rise over the message index?

use serde::Serialize;

use super::{Estimate, Interval, Method, median};

/// Stretches that a block is cut into; their medians keep neither outliers nor what correlates neighbours.
const STRETCHES_PER_BLOCK: usize = 40;
/// Half width of a two-sided 95 % interval in standard deviations.
const Z: f64 = 1.959_963_984_540_054;

/// How a duration changes from message to message within blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Trend {
    /// Theil–Sen slope, in the samples' unit a message.
    pub slope_per_message: Estimate,
    /// Median rise from a block's first message to its last, in the samples' unit.
    #[serde(serialize_with = "super::estimate::number_or_lost")]
    pub rise: f64,
}

impl Trend {
    /// Whether the slope's whole interval lies above zero.
    pub fn is_rising(&self) -> bool {
        self.slope_per_message.interval.low > 0.0
    }
}

/// Points of one block: middle message index and median of each stretch.
type Curve = Vec<(f64, f64)>;

/// The slope common to all blocks: median of the slopes between pairs of the same block (Theil–Sen, stratified as in
/// the seasonal Kendall slope), its interval from the ranks that Kendall's variance allows. `None` means too few
/// messages.
pub fn trend(blocks: &[&[f64]]) -> Option<Trend> {
    let curves: Vec<Curve> = blocks.iter().map(|block| curve(block)).collect();
    let mut slopes: Vec<f64> = curves.iter().flat_map(|curve| slopes(curve)).collect();
    slopes.sort_by(f64::total_cmp);
    let variance: f64 = curves.iter().map(|curve| kendall_variance(curve)).sum();
    let value = median(&slopes)?;
    let interval = interval(&slopes, variance);
    let messages = median(&blocks.iter().map(|block| block.len() as f64).collect::<Vec<_>>())?;
    Some(Trend {
        slope_per_message: Estimate { value, interval },
        rise: value * messages,
    })
}

fn curve(block: &[f64]) -> Curve {
    let count = block.len().min(STRETCHES_PER_BLOCK);
    let bounds = |i: usize| i * block.len() / count;
    let point = |i: usize| {
        let stretch = &block[bounds(i)..bounds(i + 1)];
        let middle = (bounds(i) + bounds(i + 1) - 1) as f64 / 2.0;
        (middle, median(stretch).expect("a stretch has a message"))
    };
    (0..count).map(point).collect()
}

fn slopes(curve: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(curve.len() * curve.len() / 2);
    for (i, (x, y)) in curve.iter().enumerate() {
        // Two stretches that were both mostly lost do not differ.
        slopes.extend(
            curve[i + 1..]
                .iter()
                .map(|(x2, y2)| if y2 == y { 0.0 } else { (y2 - y) / (x2 - x) }),
        );
    }
    slopes
}

fn interval(slopes: &[f64], variance: f64) -> Interval {
    let half = Z * variance.sqrt();
    let pairs = slopes.len() as f64;
    let last = slopes.len() - 1;
    let low = (((pairs - half) / 2.0).round() - 1.0).max(0.0) as usize;
    let high = (((pairs + half) / 2.0).round() as usize).min(last);
    Interval {
        low: slopes[low],
        high: slopes[high],
        method: Method::Rank,
    }
}

/// Variance of Kendall's S without a trend, corrected for ties.
fn kendall_variance(curve: &[(f64, f64)]) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
    let mut values: Vec<f64> = curve.iter().map(|point| point.1).collect();
    values.sort_by(f64::total_cmp);
    let ties: f64 = values.chunk_by(|a, b| a == b).map(|tied| term(tied.len() as f64)).sum();
    term(curve.len() as f64) - ties
}

#[cfg(test)]
#[path = "trend_tests.rs"]
mod tests;
