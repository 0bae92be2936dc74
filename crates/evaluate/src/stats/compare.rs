//! A against B in one run (rule 9): ratios within blocks, judged against the noise of the machine.

use rand::Rng;
use serde::Serialize;

use super::{Bootstrap, Estimate, Pool, Units, log_median, samples_needed};

/// Quantiles that a block is resampled to, from which the bootstrap of ratios draws.
const RESAMPLES_OF_BLOCK: usize = 100;

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

/// One block's ratio and what resampling its segments makes of it, where they are resampled.
struct BlockRatio {
    value: f64,
    resampled: Vec<f64>,
}

/// The ratio of `q` of arm to baseline: `runs` hold pairs of blocks (arm, baseline) measured together. The interval is
/// over runs and their blocks where there are several runs, else over the blocks of the one and their segments.
///
/// # Errors
/// Why there is none: too few messages, or losses that reach the quantile in both arms of a block, whose ratio is then
/// anybody's guess.
pub fn ratio(runs: &[Vec<(&[f64], &[f64])>], q: f64, bootstrap: &mut Bootstrap) -> Result<Estimate, Undecided> {
    let enough =
        |side: fn(&(&[f64], &[f64])) -> usize| runs.iter().flatten().map(side).sum::<usize>() >= samples_needed(q);
    if !enough(|pair| pair.0.len()) || !enough(|pair| pair.1.len()) {
        return Err(Undecided::TooFewMessages);
    }
    let runs: Vec<_> = runs.iter().filter(|run| !run.is_empty()).collect();
    // Two levels of repetition: what blocks differ by holds already what their segments do.
    let resamples = if runs.len() == 1 { RESAMPLES_OF_BLOCK } else { 0 };
    let ratios_of = |run: &Vec<_>| {
        let blocks = run
            .iter()
            .map(|pair| block_ratio(*pair, q, resamples, &mut bootstrap.rng));
        blocks.collect::<Option<Vec<_>>>()
    };
    let units: Option<Vec<_>> = runs.into_iter().map(ratios_of).collect();
    estimate(units.ok_or(Undecided::LostInBoth)?, bootstrap).ok_or(Undecided::LostInBoth)
}

/// The ratio of a cost that each block has once, of arm to baseline; over runs and blocks as [`ratio`].
///
/// # Errors
/// There is no block with both.
pub fn ratio_of_costs(runs: &[Vec<(f64, f64)>], bootstrap: &mut Bootstrap) -> Result<Estimate, Undecided> {
    let block = |(arm, baseline): &(f64, f64)| {
        let value = defined(arm / baseline)?;
        Some(BlockRatio::exact(value))
    };
    let ratios_of = |run: &Vec<_>| run.iter().filter_map(block).collect::<Vec<_>>();
    let units: Vec<_> = runs.iter().map(ratios_of).filter(|run| !run.is_empty()).collect();
    estimate(units, bootstrap).ok_or(Undecided::TooFewBlocks)
}

impl BlockRatio {
    /// One that is drawn as it is.
    fn exact(value: f64) -> BlockRatio {
        BlockRatio {
            value,
            resampled: vec![value],
        }
    }
}

fn block_ratio((arm, baseline): (&[f64], &[f64]), q: f64, resamples: usize, rng: &mut impl Rng) -> Option<BlockRatio> {
    let arm = Pool::new(&Units::of_block(arm));
    let baseline = Pool::new(&Units::of_block(baseline));
    let value = defined(arm.value(q)? / baseline.value(q)?)?;
    if resamples == 0 {
        return Some(BlockRatio::exact(value));
    }
    let above = arm.resampled(q, resamples, rng);
    let below = baseline.resampled(q, resamples, rng);
    let resampled: Vec<f64> = above.iter().zip(below).filter_map(|(a, b)| defined(a / b)).collect();
    (!resampled.is_empty()).then_some(BlockRatio { value, resampled })
}

/// A loss has no ratio to a loss.
fn defined(ratio: f64) -> Option<f64> {
    (!ratio.is_nan()).then_some(ratio)
}

/// Over the runs, or over the blocks of the only one.
fn estimate(mut units: Vec<Vec<BlockRatio>>, bootstrap: &mut Bootstrap) -> Option<Estimate> {
    if let [_] = units[..] {
        units = units.remove(0).into_iter().map(|block| vec![block]).collect();
    }
    let of = |blocks: &[BlockRatio]| log_median(&blocks.iter().map(|block| block.value).collect::<Vec<_>>());
    let each = units.iter().map(|unit| of(unit)).collect::<Option<Vec<f64>>>()?;
    let all: Vec<f64> = units.iter().flatten().map(|block| block.value).collect();
    let value = log_median(&all)?;
    let resampled = (0..bootstrap.resamples)
        .map(|_| log_median(&draw(&units, &mut bootstrap.rng)))
        .collect::<Option<Vec<f64>>>()?;
    Some(Estimate::over_units(value, &each, || resampled))
}

fn draw(units: &[Vec<BlockRatio>], rng: &mut impl Rng) -> Vec<f64> {
    let mut drawn = Vec::new();
    for _ in 0..units.len() {
        let blocks = &units[rng.random_range(0..units.len())];
        for _ in 0..blocks.len() {
            let block = &blocks[rng.random_range(0..blocks.len())];
            drawn.push(block.resampled[rng.random_range(0..block.resampled.len())]);
        }
    }
    drawn
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
