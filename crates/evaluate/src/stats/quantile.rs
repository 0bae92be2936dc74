//! Quantiles by rank with intervals from order statistics; too few samples give no figure.

use statrs::distribution::{Binomial, DiscreteCDF};

use super::{Estimate, Interval, Method};

/// Probability left out on each side of a two-sided 95 % interval.
const TAIL: f64 = 0.025;

/// Samples ordered, the lost last.
///
/// # Panics
/// Where one is not a number: a duration always is.
pub fn sorted(samples: &[f64]) -> Vec<f64> {
    assert!(
        samples.iter().all(|s| !s.is_nan()),
        "a sample is a duration or infinite, never NaN"
    );
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The rank, from 1, of quantile `q` among `n` samples: the least with at least `q·n` samples up to it.
pub fn rank(n: usize, q: f64) -> usize {
    // What floating point adds to 0.99 · 100 must not move the rank.
    let exact = q * n as f64;
    ((exact - exact * 1e-12).ceil() as usize).clamp(1, n.max(1))
}

/// The least number of samples for which quantile `q` has a two-sided 95 % interval: p50 6, p95 72, p99 368, p99.9
/// 3,688.
pub fn samples_needed(q: f64) -> usize {
    let rarer = q.max(1.0 - q);
    (TAIL.ln() / rarer.ln()).ceil() as usize
}

/// Quantile `q` of one run's ordered samples with its order-statistic interval; `None` means too few.
pub fn quantile(sorted: &[f64], q: f64) -> Option<Estimate> {
    let interval = order_statistic_interval(sorted, q)?;
    Some(Estimate {
        value: sorted[rank(sorted.len(), q) - 1],
        interval,
    })
}

/// The two-sided 95 % interval of quantile `q`, each side missing it with at most 2.5 %; `None` means too few samples.
///
/// Of `n` independent samples, Binomial(n, q) lie below the quantile, whatever their distribution.
fn order_statistic_interval(sorted: &[f64], q: f64) -> Option<Interval> {
    let n = sorted.len() as u64;
    if sorted.len() < samples_needed(q) {
        return None;
    }
    let below = Binomial::new(q, n).expect("q is a probability");
    // The lower rank l misses where fewer than l samples lie below: P(B ≤ l − 1) ≤ 2.5 %.
    let low = first(n, |l| below.cdf(l) > TAIL);
    // The upper rank u misses where u or more lie below: P(B ≥ u) ≤ 2.5 %.
    let high = first(n, |u| below.sf(u - 1) <= TAIL);
    let at = |rank: u64| sorted[rank as usize - 1];
    Some(Interval {
        low: at(low),
        high: at(high),
        method: Method::OrderStatistic,
    })
}

/// The least of `1..=n` for which `holds`, which once true stays so; `n + 1` where none.
fn first(n: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (1, n + 1);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
#[path = "quantile_tests.rs"]
mod tests;
