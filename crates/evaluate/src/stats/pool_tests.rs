use super::*;
use crate::stats::Method;
use crate::stats::test_numbers::{Numbers, assert_close};
use proptest::prelude::*;

/// Eight runs of five blocks of 20: what runs and blocks have in common is larger than what messages differ by.
fn nested() -> Vec<Vec<Vec<f64>>> {
    let mut numbers = Numbers(11);
    let block = |run: f64, numbers: &mut Numbers| {
        let block = 10.0 * numbers.next();
        (0..20).map(|_| 100.0 + run + block + 5.0 * numbers.next()).collect()
    };
    let mut run = || {
        let run = 20.0 * numbers.next();
        (0..5).map(|_| block(run, &mut numbers)).collect()
    };
    (0..8).map(|_| run()).collect()
}

fn slices(runs: &[Vec<Vec<f64>>]) -> Vec<Vec<&[f64]>> {
    runs.iter().map(|run| run.iter().map(Vec::as_slice).collect()).collect()
}

/// The same bootstrap written in numpy with 20,000 resamples: p50 120.5508 (112.71 … 124.01), p95 128.7411
/// (125.20 … 130.19).
#[test]
fn the_hierarchical_bootstrap_gives_numpys_interval() {
    let runs = nested();
    let pool = Pool::new(&Units::new(&slices(&runs)));
    let known = [
        (0.5, 120.550_753_226_053_15, 112.714, 124.009),
        (0.95, 128.741_103_692_999_36, 125.203, 130.188),
    ];
    for (q, value, low, high) in known {
        let found = pool
            .quantile(q, &mut Bootstrap::new(1, 0, Bootstrap::RESAMPLES))
            .unwrap();
        assert_eq!((found.value, found.interval.method), (value, Method::Bootstrap));
        assert_close(found.interval.low, low, 0.8);
        assert_close(found.interval.high, high, 0.8);
    }
}

#[test]
fn an_interval_over_runs_is_wider_than_one_that_takes_messages_for_independent() {
    let runs = nested();
    let pool = Pool::new(&Units::new(&slices(&runs)));
    let over_runs = pool
        .quantile(0.5, &mut Bootstrap::new(1, 0, Bootstrap::RESAMPLES))
        .unwrap()
        .interval;
    let naive = crate::stats::quantile(&pool.sorted().collect::<Vec<_>>(), 0.5)
        .unwrap()
        .interval;
    assert!(over_runs.high - over_runs.low > 3.0 * (naive.high - naive.low));
}

#[test]
fn the_same_seed_gives_the_same_interval() {
    let runs = nested();
    let pool = Pool::new(&Units::new(&slices(&runs)));
    let with = |seed| {
        pool.quantile(0.5, &mut Bootstrap::new(seed, 0, Bootstrap::RESAMPLES))
            .unwrap()
    };
    assert_eq!(with(7), with(7));
}

#[test]
fn four_runs_give_the_range_of_their_quantiles() {
    let runs: Vec<Vec<Vec<f64>>> = (1..=4).map(|run| vec![vec![f64::from(run); 10]]).collect();
    let pool = Pool::new(&Units::new(&slices(&runs)));
    let found = pool
        .quantile(0.5, &mut Bootstrap::new(1, 0, Bootstrap::RESAMPLES))
        .unwrap();
    let Estimate { value, interval } = found;
    assert_eq!(
        (value, interval.low, interval.high, interval.method),
        (2.0, 1.0, 4.0, Method::Range)
    );
}

#[test]
fn one_block_gives_the_interval_of_its_order_statistics() {
    let block: Vec<f64> = (1..=100).map(f64::from).collect();
    let found = Pool::new(&Units::of_block(&block))
        .quantile(0.5, &mut Bootstrap::new(1, 0, Bootstrap::RESAMPLES))
        .unwrap();
    assert_eq!((found.interval.low, found.interval.high), (40.0, 61.0));
    assert_eq!(found.interval.method, Method::OrderStatistic);
}

#[test]
fn seventy_one_messages_have_no_p95() {
    let block = [1.0; 71];
    assert_eq!(
        Pool::new(&Units::of_block(&block)).quantile(0.95, &mut Bootstrap::new(1, 0, Bootstrap::RESAMPLES)),
        None
    );
}

proptest! {
    #[test]
    fn a_weighted_quantile_is_that_of_the_parts_written_out(
        parts in prop::collection::vec((prop::collection::vec(0.0..100.0f64, 1..20), 0u64..4), 1..6),
        q in 0.01..0.999f64,
    ) {
        prop_assume!(parts.iter().any(|(_, weight)| *weight > 0));
        let unit: Vec<&[f64]> = parts.iter().map(|(part, _)| part.as_slice()).collect();
        // Two runs, so that parts are kept as they are; the second weighs nothing.
        let pool = Pool::new(&Units::new(&[unit, vec![&[50.0]]]));
        let mut weights: Vec<u64> = parts.iter().map(|(_, weight)| *weight).collect();
        weights.push(0);
        let written: Vec<f64> =
            parts.iter().flat_map(|(part, weight)| part.repeat(*weight as usize)).collect();
        let written = crate::stats::sorted(&written);
        prop_assert_eq!(pool.weighted(&weights, q), written[rank(written.len(), q) - 1]);
    }
}
