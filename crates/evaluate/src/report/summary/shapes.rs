//! What the plots draw: distributions reduced to some dozen points.

use super::{BoxStatistics, Shapes};
use crate::stats::{Estimate, Pool, median, quantile, rank, sorted};

/// Dots drawn for the outliers of one box.
const DOTS: usize = 40;
/// Points of a spectrum for each factor of ten in 1/(1 − q).
const POINTS_PER_DECADE: usize = 12;
/// Points of a curve over the message index.
const INDEX_POINTS: usize = 60;

/// All shapes of one arm. `blocks` hold the response times in the order of sending, `lag` the send lags.
pub(super) fn shapes(pool: &Pool, p50: Option<&Estimate>, blocks: &[&[f64]], lag: &[f64]) -> Shapes {
    let ordered: Vec<f64> = pool.sorted().collect();
    Shapes {
        boxed: boxed(&ordered, p50),
        spectrum: spectrum(&ordered),
        over_index: over_index(blocks),
        send_lag: spectrum(&sorted(lag)),
    }
}

/// The box of values in ascending order, of which infinite ones are lost; none where all are.
pub(crate) fn boxed(ordered: &[f64], p50: Option<&Estimate>) -> Option<BoxStatistics> {
    let answered = &ordered[..ordered.partition_point(|sample| sample.is_finite())];
    let mean_us = super::arm_result::mean(answered.iter().copied())?;
    let at = |q: f64| answered[rank(answered.len(), q) - 1];
    let (lower_us, upper_us) = (at(0.25), at(0.75));
    let reach = 1.5 * (upper_us - lower_us);
    let first = answered.partition_point(|sample| *sample < lower_us - reach);
    let last = answered.partition_point(|sample| *sample <= upper_us + reach);
    let beyond: Vec<f64> = answered[..first].iter().chain(&answered[last..]).copied().collect();
    Some(BoxStatistics {
        lower_us,
        median_us: at(0.5),
        upper_us,
        low_us: answered[first],
        high_us: answered[last - 1],
        mean_us,
        notch: p50.map(|p50| p50.interval).filter(|notch| notch.high.is_finite()),
        outliers: beyond.len(),
        dots_us: thinned(&beyond, DOTS),
    })
}

/// At most `count` of `values`, evenly by rank, first and last among them.
fn thinned(values: &[f64], count: usize) -> Vec<f64> {
    if values.len() <= count {
        return values.to_vec();
    }
    (0..count)
        .map(|i| values[i * (values.len() - 1) / (count - 1)])
        .collect()
}

fn spectrum(ordered: &[f64]) -> Vec<(f64, f64)> {
    let n = ordered.len();
    let decades = (n.max(2) as f64).log10();
    let points = (decades * POINTS_PER_DECADE as f64).ceil() as usize;
    let point = |i: usize| {
        let q = 1.0 - 10f64.powf(-decades * i as f64 / points as f64);
        ordered.get(rank(n, q).saturating_sub(1)).map(|value| (q, *value))
    };
    (0..=points)
        .filter_map(point)
        .take_while(|(_, value)| value.is_finite())
        .collect()
}

fn over_index(blocks: &[&[f64]]) -> Vec<(f64, f64, f64)> {
    let Some(longest) = blocks.iter().map(|block| block.len()).max() else {
        return Vec::new();
    };
    let points = longest.min(INDEX_POINTS);
    let point = |i: usize| {
        let (from, to) = (i * longest / points, (i + 1) * longest / points);
        let around = blocks
            .iter()
            .flat_map(|block| &block[from.min(block.len())..to.min(block.len())]);
        let around: Vec<f64> = around.copied().filter(|sample| sample.is_finite()).collect();
        let ordered = sorted(&around);
        let p95 = quantile(&ordered, 0.95)
            .map(|p95| p95.value)
            .or(ordered.last().copied())?;
        Some(((from + to) as f64 / 2.0, median(&around)?, p95))
    };
    (0..points).filter_map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Units;

    #[test]
    fn a_box_has_tukeys_whiskers_and_counts_what_lies_beyond() {
        let mut block: Vec<f64> = (1..=100).map(f64::from).collect();
        block.extend([500.0, 900.0, f64::INFINITY]);
        let found = boxed(&sorted(&block), None).unwrap();
        assert_eq!((found.lower_us, found.median_us, found.upper_us), (26.0, 51.0, 77.0));
        assert_eq!((found.low_us, found.high_us), (1.0, 100.0));
        assert_eq!((found.outliers, found.dots_us), (2, vec![500.0, 900.0]));
        assert_eq!(found.mean_us, (5050.0 + 1400.0) / 102.0);
    }

    #[test]
    fn thinned_dots_keep_the_extremes() {
        let many: Vec<f64> = (0..1000).map(f64::from).collect();
        let dots = thinned(&many, DOTS);
        assert_eq!((dots.len(), dots[0], dots[DOTS - 1]), (DOTS, 0.0, 999.0));
    }

    #[test]
    fn a_spectrum_ends_where_the_losses_begin() {
        let mut block: Vec<f64> = (1..=990).map(f64::from).collect();
        block.extend([f64::INFINITY; 10]);
        let pool = Pool::new(&Units::of_block(&block));
        let (q, value) = *shapes(&pool, None, &[&block], &block).spectrum.last().unwrap();
        assert!(q <= 0.99 && value <= 990.0, "p{q} is {value}");
    }

    #[test]
    fn a_curve_over_the_index_pools_the_blocks_and_leaves_out_losses() {
        let rising: Vec<f64> = (0..600).map(f64::from).collect();
        let lossy: Vec<f64> = rising
            .iter()
            .map(|x| if x % 2.0 == 0.0 { f64::INFINITY } else { *x })
            .collect();
        let curve = over_index(&[&rising, &lossy]);
        assert_eq!(curve.len(), INDEX_POINTS);
        assert!(curve.windows(2).all(|pair| pair[0].1 < pair[1].1));
    }
}
