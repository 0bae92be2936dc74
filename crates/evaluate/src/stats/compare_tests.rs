use super::*;
use crate::stats::test_numbers::{Numbers, assert_close};
use crate::stats::{Bootstrap, Interval, Method, difference, ratio, ratio_of_costs};

type Blocks = Vec<(Vec<f64>, Vec<f64>)>;

/// Blocks that differ by half among themselves, in which the arm takes `factor` of the baseline's time.
fn blocks(count: usize, factor: f64, seed: u64) -> Blocks {
    let mut numbers = Numbers(seed);
    let mut block = || {
        let level = 100.0 + 50.0 * numbers.next();
        let mut side = |level: f64| {
            (0..200)
                .map(|_| level * (1.0 + 0.1 * numbers.next()))
                .collect::<Vec<f64>>()
        };
        (side(factor * level), side(level))
    };
    (0..count).map(|_| block()).collect()
}

fn ratio_of(runs: &[Blocks], q: f64) -> Result<Estimate, Undecided> {
    let runs: Vec<Vec<(&[f64], &[f64])>> = runs
        .iter()
        .map(|run| run.iter().map(|(arm, baseline)| (&arm[..], &baseline[..])).collect())
        .collect();
    ratio(&runs, q, &mut Bootstrap::new(1, 0, Bootstrap::RESAMPLES))
}

/// The same bootstrap written in numpy with 20,000 resamples: p50 0.847739 (0.84465 … 0.85502), p95 0.849442
/// (0.84809 … 0.85089).
#[test]
fn ratios_within_blocks_have_numpys_median_and_interval() {
    let run = [blocks(9, 0.85, 23)];
    for (q, value, low, high) in [
        (0.5, 0.847_739_141_362_072, 0.844_65, 0.855_02),
        (0.95, 0.849_441_626_283_032_3, 0.848_09, 0.850_89),
    ] {
        let found = ratio_of(&run, q).unwrap();
        assert_close(found.value, value, 1e-12);
        assert_close(found.interval.low, low, 0.001);
        assert_close(found.interval.high, high, 0.001);
    }
}

#[test]
fn what_blocks_differ_by_does_not_widen_the_ratio() {
    let found = ratio_of(&[blocks(9, 0.85, 23)], 0.5).unwrap().interval;
    assert!(
        found.high - found.low < 0.02,
        "blocks differ by half, the ratio by {found:?}"
    );
}

#[test]
fn several_runs_are_the_unit_of_the_interval() {
    let three: Vec<Blocks> = (1..=3u32)
        .map(|run| blocks(5, 0.8 + 0.05 * f64::from(run), run.into()))
        .collect();
    let found = ratio_of(&three, 0.5).unwrap();
    assert_eq!(found.interval.method, Method::Range);
    assert!(found.interval.low < 0.86 && found.interval.high > 0.94, "{found:?}");
}

#[test]
fn runs_and_their_blocks_are_the_two_levels_of_several_runs() {
    // Each run's ratio is 0.8 in all of its blocks, whatever their messages do: nothing is left to be uncertain of.
    let exact = || (0..5u64).map(|seed| blocks(1, 1.0, seed).remove(0));
    let same = |(_, baseline): (Vec<f64>, Vec<f64>)| {
        let arm = baseline.iter().map(|sample| 0.8 * sample).collect();
        (arm, baseline)
    };
    let runs: Vec<Blocks> = (0..6).map(|_| exact().map(same).collect()).collect();
    let found = ratio_of(&runs, 0.5).unwrap();
    assert_close(found.interval.high - found.interval.low, 0.0, 1e-12);
}

#[test]
fn too_few_messages_have_no_ratio() {
    let few = vec![(vec![1.0; 71], vec![1.0; 72])];
    assert_eq!(ratio_of(&[few], 0.95), Err(Undecided::TooFewMessages));
}

#[test]
fn a_quantile_lost_in_both_arms_has_no_ratio() {
    let lost = vec![(vec![f64::INFINITY; 80], vec![f64::INFINITY; 80]); 6];
    assert_eq!(ratio_of(&[lost], 0.5), Err(Undecided::LostInBoth));
}

#[test]
fn an_arm_that_loses_the_quantile_is_infinitely_slower() {
    let lossy = vec![(vec![f64::INFINITY; 80], vec![1.0; 80]); 6];
    let found = ratio_of(&[lossy], 0.5).unwrap();
    assert_eq!(found.value, f64::INFINITY);
    let judged = compare(
        Ok(found),
        (f64::INFINITY, 1.0),
        &Conditions {
            margin: 0.05,
            ..Conditions::default()
        },
    );
    assert_eq!(judged.verdict, Verdict::Slower);
}

fn between(low: f64, value: f64, high: f64, method: Method) -> Estimate {
    Estimate {
        value,
        interval: Interval { low, high, method },
    }
}

fn judge(low: f64, high: f64, conditions: &Conditions) -> Verdict {
    let value = (low * high).sqrt();
    compare(
        Ok(between(low, value, high, Method::Bootstrap)),
        (value * 100.0, 100.0),
        conditions,
    )
    .verdict
}

fn conditions() -> Conditions {
    Conditions {
        margin: 0.05,
        fine_below: 1000.0,
        ..Conditions::default()
    }
}

#[test]
fn verdicts_follow_the_interval_and_the_margin() {
    assert_eq!(judge(0.83, 0.87, &conditions()), Verdict::Faster);
    assert_eq!(judge(1.10, 1.20, &conditions()), Verdict::Slower);
    assert_eq!(judge(0.97, 1.03, &conditions()), Verdict::Equivalent { within: 0.05 });
    assert_eq!(
        judge(0.90, 1.02, &conditions()),
        Verdict::Undecided(Undecided::Interval)
    );
}

#[test]
fn a_difference_within_the_machines_noise_is_undecided() {
    let noisy = Conditions {
        noise: Some(between(0.9, 1.0, 1.2, Method::Bootstrap)),
        ..conditions()
    };
    assert_eq!(judge(0.83, 0.87, &noisy), Verdict::Undecided(Undecided::Noise));
    assert_eq!(judge(0.60, 0.70, &noisy), Verdict::Faster);
}

#[test]
fn a_range_of_four_blocks_decides_nothing() {
    let range = between(0.5, 0.5, 0.5, Method::Range);
    let judged = compare(Ok(range), (50.0, 100.0), &conditions());
    assert_eq!(judged.verdict, Verdict::Undecided(Undecided::TooFewBlocks));
}

#[test]
fn below_a_millisecond_a_lag_over_a_quarter_of_the_difference_is_undecided() {
    let late = |lag| Conditions {
        send_lag_p99: Some(lag),
        ..conditions()
    };
    // 20 % of 100 µs: a quarter of the difference is 5 µs.
    assert_eq!(judge(0.8, 0.8, &late(4.9)), Verdict::Faster);
    assert_eq!(judge(0.8, 0.8, &late(5.1)), Verdict::Undecided(Undecided::SendLag));
    // The claim of equivalence within 5 % is one about 5 µs.
    assert_eq!(judge(0.99, 1.01, &late(1.2)), Verdict::Equivalent { within: 0.05 });
    assert_eq!(judge(0.99, 1.01, &late(1.3)), Verdict::Undecided(Undecided::SendLag));
    let slow = Conditions {
        fine_below: 50.0,
        ..late(90.0)
    };
    assert_eq!(
        judge(0.8, 0.8, &slow),
        Verdict::Faster,
        "above a millisecond rule 2's other bound judges the lag"
    );
}

#[test]
fn an_aim_is_kept_by_the_whole_interval_beyond_the_noise_and_with_a_punctual_generator() {
    let ratio = |low: f64, value: f64, high: f64| Estimate {
        value,
        interval: Interval {
            low,
            high,
            method: Method::Bootstrap,
        },
    };
    let quiet = Conditions::default();
    let values = (80.0, 100.0);
    assert_eq!(keeps(&ratio(0.78, 0.8, 0.82), 0.9, values, &quiet), Ok(true));
    assert_eq!(keeps(&ratio(0.92, 0.95, 0.97), 0.9, values, &quiet), Ok(false));
    assert_eq!(
        keeps(&ratio(0.85, 0.88, 0.91), 0.9, values, &quiet),
        Err(Undecided::Interval)
    );
    let noisy = Conditions {
        noise: Some(ratio(0.85, 1.0, 1.1)),
        ..quiet
    };
    assert_eq!(
        keeps(&ratio(0.78, 0.8, 0.82), 0.9, values, &noisy),
        Err(Undecided::Noise)
    );
    assert_eq!(keeps(&ratio(0.48, 0.5, 0.52), 0.9, values, &noisy), Ok(true));
    let late = |lag| Conditions {
        send_lag_p99: Some(lag),
        fine_below: 1000.0,
        ..quiet
    };
    assert_eq!(
        keeps(&ratio(0.78, 0.8, 0.82), 0.9, values, &late(3.0)),
        Err(Undecided::SendLag)
    );
    assert_eq!(keeps(&ratio(0.78, 0.8, 0.82), 0.9, values, &late(2.0)), Ok(true));
}

#[test]
fn costs_have_one_ratio_a_block_and_an_interval_over_them() {
    let blocks: Vec<(f64, f64)> = (1..=9)
        .map(|level| (0.8 * f64::from(level), f64::from(level)))
        .collect();
    let found = ratio_of_costs(&[blocks], &mut Bootstrap::new(1, 0, 200)).unwrap();
    assert_close(found.value, 0.8, 1e-12);
    assert_eq!(found.interval.method, Method::Bootstrap);
    assert_eq!(
        ratio_of_costs(&[Vec::new()], &mut Bootstrap::new(1, 0, 200)),
        Err(Undecided::TooFewBlocks)
    );
}

/// Blocks in which the arm takes `more` longer than the baseline, whatever the block's level.
fn longer(count: usize, more: f64) -> Blocks {
    let shifted = |(_, baseline): (Vec<f64>, Vec<f64>)| {
        let arm = baseline.iter().map(|sample| sample + more).collect();
        (arm, baseline)
    };
    blocks(count, 1.0, 5).into_iter().map(shifted).collect()
}

fn difference_of(run: &Blocks, q: f64) -> Result<Estimate, Undecided> {
    let pairs = run.iter().map(|(arm, baseline)| (&arm[..], &baseline[..])).collect();
    difference(&[pairs], q, &mut Bootstrap::new(1, 0, 200))
}

#[test]
fn a_difference_within_blocks_is_found_however_much_the_blocks_differ() {
    let found = difference_of(&longer(9, 7.0), 0.5).unwrap();
    assert_close(found.value, 7.0, 1e-9);
    assert!(found.interval.low > 4.0 && found.interval.high < 10.0, "{found:?}");
}

#[test]
fn a_quantile_that_is_lost_in_both_has_no_difference() {
    let lost = vec![(vec![f64::INFINITY; 400], vec![f64::INFINITY; 400]); 5];
    assert_eq!(difference_of(&lost, 0.5), Err(Undecided::LostInBoth));
}

#[test]
fn an_aim_for_a_difference_is_kept_missed_or_open_by_interval_lag_and_noise() {
    let estimate = |low: f64, high: f64| Estimate {
        value: f64::midpoint(low, high),
        interval: Interval {
            low,
            high,
            method: Method::Bootstrap,
        },
    };
    let conditions = |lag: f64| Conditions {
        send_lag_p99: Some(lag),
        fine_below: 1000.0,
        ..Conditions::default()
    };
    let judged = |difference, noise: Option<Estimate>, lag| adds_at_most(&difference, 150.0, noise, &conditions(lag));
    assert_eq!(judged(estimate(80.0, 100.0), None, 5.0), Ok(true));
    assert_eq!(judged(estimate(200.0, 220.0), None, 5.0), Ok(false));
    assert_eq!(judged(estimate(140.0, 160.0), None, 0.0), Err(Undecided::Interval));
    assert_eq!(judged(estimate(80.0, 100.0), None, 16.0), Err(Undecided::SendLag));
    let noise = Some(estimate(-70.0, -50.0));
    assert_eq!(judged(estimate(80.0, 100.0), noise, 5.0), Err(Undecided::Noise));
}

#[test]
fn equivalence_takes_an_interval_within_the_margin_and_is_refuted_by_one_beyond() {
    let ratio = |low: f64, high: f64, method| Estimate {
        value: f64::midpoint(low, high),
        interval: Interval { low, high, method },
    };
    let found = |low, high| equivalent(&ratio(low, high, Method::Bootstrap), 0.02);
    assert_eq!(found(0.99, 1.015), Ok(true));
    assert_eq!(found(1.01, 1.03), Err(Undecided::Interval));
    assert_eq!(found(1.03, 1.05), Ok(false));
    let of_few = ratio(0.99, 1.015, Method::Range);
    assert_eq!(equivalent(&of_few, 0.02), Err(Undecided::TooFewBlocks));
}
