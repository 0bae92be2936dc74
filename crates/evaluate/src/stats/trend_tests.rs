use proptest::prelude::*;

use super::*;
use crate::stats::test_numbers::{Numbers, assert_close};

/// `scipy.stats.theilslopes(y, arange(30), 0.95)` of 100 + 0.5·i + 10·u: slope 0.567276 (0.450697 … 0.689279).
#[test]
fn the_slope_of_one_block_is_scipys_theil_sen() {
    let noise = Numbers(1).take(30);
    let block: Vec<f64> = noise
        .iter()
        .enumerate()
        .map(|(i, u)| 100.0 + 0.5 * i as f64 + 10.0 * u)
        .collect();
    let found = trend(&[&block]).unwrap();
    assert_close(found.slope_per_message.value, 0.567_276_056_307_942_4, 1e-9);
    assert_close(found.slope_per_message.interval.low, 0.450_696_651_300_041_4, 1e-9);
    assert_close(found.slope_per_message.interval.high, 0.689_279_196_936_799_8, 1e-9);
    assert_close(found.rise, 30.0 * 0.567_276_056_307_942_4, 1e-9);
    assert!(found.is_rising());
}

/// The same rounded to fours, 30 values with ties: slope 0.153846 (0.125 … 0.178571).
#[test]
fn ties_narrow_the_interval_as_in_scipy() {
    let noise = Numbers(1).take(30);
    let value = |(i, u): (usize, &f64)| ((100.0 + 0.5 * i as f64 + 10.0 * u) / 4.0).round();
    let block: Vec<f64> = noise.iter().enumerate().map(value).collect();
    let Estimate { value, interval } = trend(&[&block]).unwrap().slope_per_message;
    assert_close(value, 0.153_846_153_846_153_85, 1e-9);
    assert_close(interval.low, 0.125, 1e-9);
    assert_close(interval.high, 0.178_571_428_571_428_57, 1e-9);
}

/// Noise alone, 40 values from seed 7: slope −0.051354 (−0.129542 … 0.035869).
#[test]
fn noise_has_no_trend() {
    let block: Vec<f64> = Numbers(7).take(40).iter().map(|u| 100.0 + 10.0 * u).collect();
    let found = trend(&[&block]).unwrap();
    assert_close(found.slope_per_message.value, -0.051_353_682_728_010_44, 1e-9);
    assert_close(found.slope_per_message.interval.low, -0.129_541_932_290_786_42, 1e-9);
    assert_close(found.slope_per_message.interval.high, 0.035_869_197_084_225_34, 1e-9);
    assert!(!found.is_rising());
}

#[test]
fn blocks_on_different_levels_that_do_not_rise_are_no_trend() {
    let mut numbers = Numbers(5);
    let blocks: Vec<Vec<f64>> = (0..5)
        .map(|level| {
            (0..500)
                .map(|_| 100.0 * f64::from(level + 1) + numbers.next())
                .collect()
        })
        .collect();
    let found = trend(&blocks.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    assert!(!found.is_rising(), "{found:?}");
}

#[test]
fn outliers_make_no_trend() {
    let mut block = Numbers(9).take(4000);
    block[3900..3920].fill(1e6);
    assert!(!trend(&[&block]).unwrap().is_rising());
}

#[test]
fn losing_all_from_the_middle_on_rises_without_bound() {
    let mut block = vec![1.0; 400];
    block[200..].fill(f64::INFINITY);
    let found = trend(&[&block]).unwrap();
    assert_eq!(found.slope_per_message.value, f64::INFINITY);
}

#[test]
fn one_message_has_no_trend() {
    assert_eq!(trend(&[&[1.0]]), None);
    assert_eq!(trend(&[]), None);
}

proptest! {
    #[test]
    fn a_steady_rise_is_found_whatever_its_level(slope in 0.01..10.0f64, level in 0.0..1e4f64, n in 50usize..2000) {
        let block: Vec<f64> = (0..n).map(|i| level + slope * i as f64).collect();
        let found = trend(&[&block]).unwrap();
        prop_assert!((found.slope_per_message.value / slope - 1.0).abs() < 1e-6);
        prop_assert!(found.is_rising());
    }
}
