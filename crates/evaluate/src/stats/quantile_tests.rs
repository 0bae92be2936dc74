use proptest::prelude::*;

use super::*;
use crate::stats::test_numbers::Numbers;

/// Samples 1, 2, … n: a value is its own rank.
fn ranks(n: usize) -> Vec<f64> {
    (1..=n).map(|i| i as f64).collect()
}

#[test]
fn the_sample_sizes_of_rule_5_are_needed() {
    let needed: Vec<usize> = [0.5, 0.95, 0.99, 0.999].map(samples_needed).to_vec();
    assert_eq!(needed, [6, 72, 368, 3688]);
}

#[test]
fn one_sample_less_is_too_few() {
    for (q, n) in [(0.5, 6), (0.95, 72), (0.99, 368), (0.999, 3688)] {
        assert!(quantile(&ranks(n), q).is_some(), "p{q} of {n}");
        assert!(quantile(&ranks(n - 1), q).is_none(), "p{q} of {}", n - 1);
    }
}

/// Ranks by scipy 1.x: the largest l with `binom.cdf(l - 1, n, q) <= 0.025`, the smallest u with `binom.sf(u - 1, n, q)
/// <= 0.025`.
#[test]
fn interval_ranks_are_those_of_the_binomial_distribution() {
    let known = [
        (6, 0.5, 1, 6),
        (10, 0.5, 2, 9),
        (100, 0.5, 40, 61),
        (1000, 0.5, 469, 532),
        (72, 0.95, 64, 72),
        (100, 0.95, 90, 100),
        (368, 0.99, 360, 368),
        (1000, 0.99, 983, 997),
        (12_000, 0.99, 11_858, 11_902),
        (3688, 0.999, 3680, 3688),
        (10_000, 0.999, 9983, 9997),
        (1_000_000, 0.99, 989_805, 990_196),
    ];
    for (n, q, low, high) in known {
        let interval = quantile(&ranks(n), q).unwrap().interval;
        assert_eq!(
            (interval.low, interval.high),
            (f64::from(low), f64::from(high)),
            "p{q} of {n}"
        );
    }
}

/// `numpy.quantile(z, q, method="inverted_cdf")` of 1,000 numbers from seed 3.
#[test]
fn quantiles_are_numpys_inverted_cdf() {
    let samples = sorted(&Numbers(3).take(1000));
    for (q, expected) in [
        (0.5, 0.514_193_200_455_229_8),
        (0.95, 0.950_537_601_419_601_4),
        (0.99, 0.991_102_647_509_479_7),
    ] {
        assert_eq!(quantile(&samples, q).unwrap().value, expected);
    }
}

#[test]
fn a_rank_is_not_moved_by_rounding() {
    // 0.55 · 100 is 55.000000000000007 in floating point.
    assert_eq!(rank(100, 0.55), 55);
    assert_eq!(rank(1000, 0.999), 999);
    assert_eq!((rank(7, 0.0), rank(7, 1.0)), (1, 7));
}

#[test]
fn two_percent_lost_make_p99_infinite_and_leave_p50() {
    let mut samples = vec![5.0; 980];
    samples.extend([f64::INFINITY; 20]);
    let p99 = quantile(&samples, 0.99).unwrap();
    assert_eq!((p99.value, p99.interval.high), (f64::INFINITY, f64::INFINITY));
    assert_eq!(quantile(&samples, 0.5).unwrap().value, 5.0);
}

#[test]
#[should_panic(expected = "never NaN")]
fn a_sample_that_is_no_number_is_refused() {
    sorted(&[1.0, f64::NAN]);
}

proptest! {
    #[test]
    fn an_interval_holds_its_quantile(samples in prop::collection::vec(0.0..1e6f64, 6..600), q in 0.05..0.99f64) {
        let samples = sorted(&samples);
        if let Some(found) = quantile(&samples, q) {
            prop_assert!(found.interval.low <= found.value && found.value <= found.interval.high);
            prop_assert!(samples.contains(&found.value));
        }
    }

    #[test]
    fn a_quantile_has_its_share_of_samples_up_to_it(samples in prop::collection::vec(0.0..1e6f64, 72..400), q in 0.05..0.95f64) {
        let samples = sorted(&samples);
        let found = quantile(&samples, q).unwrap().value;
        let upto = samples.iter().filter(|sample| **sample <= found).count() as f64;
        let below = samples.iter().filter(|sample| **sample < found).count() as f64;
        let share = q * samples.len() as f64;
        prop_assert!(upto >= share - 1e-6 && below < share + 1e-6);
    }
}
