//! What one arm is to another within blocks that were measured together (rule 9): their ratio, or their difference.

use rand::Rng;

use super::{Bootstrap, Estimate, Pool, Undecided, Units, log_median, median, samples_needed};

/// Quantiles that a block is resampled to, from which the bootstrap draws.
const RESAMPLES_OF_BLOCK: usize = 100;

/// How two figures of a block become one, and those of several blocks.
#[derive(Clone, Copy)]
struct Scale {
    of: fn(f64, f64) -> f64,
    middle: fn(&[f64]) -> Option<f64>,
}

const RATIO: Scale = Scale {
    of: |arm, baseline| arm / baseline,
    middle: log_median,
};
const DIFFERENCE: Scale = Scale {
    of: |arm, baseline| arm - baseline,
    middle: median,
};

/// What a block says and what resampling its segments makes of it, where they are resampled.
struct BlockValue {
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
    paired(runs, q, RATIO, bootstrap)
}

/// By how much `q` of arm is more than that of baseline, in the samples' unit; else as [`ratio`].
///
/// # Errors
/// As [`ratio`].
pub fn difference(runs: &[Vec<(&[f64], &[f64])>], q: f64, bootstrap: &mut Bootstrap) -> Result<Estimate, Undecided> {
    paired(runs, q, DIFFERENCE, bootstrap)
}

fn paired(
    runs: &[Vec<(&[f64], &[f64])>],
    q: f64,
    scale: Scale,
    bootstrap: &mut Bootstrap,
) -> Result<Estimate, Undecided> {
    let enough =
        |side: fn(&(&[f64], &[f64])) -> usize| runs.iter().flatten().map(side).sum::<usize>() >= samples_needed(q);
    if !enough(|pair| pair.0.len()) || !enough(|pair| pair.1.len()) {
        return Err(Undecided::TooFewMessages);
    }
    let runs: Vec<_> = runs.iter().filter(|run| !run.is_empty()).collect();
    // Two levels of repetition: what blocks differ by holds already what their segments do.
    let resamples = if runs.len() == 1 { RESAMPLES_OF_BLOCK } else { 0 };
    let values_of = |run: &Vec<_>| {
        let blocks = run
            .iter()
            .map(|pair| block_value(*pair, (q, scale), resamples, &mut bootstrap.rng));
        blocks.collect::<Option<Vec<_>>>()
    };
    let units: Option<Vec<_>> = runs.into_iter().map(values_of).collect();
    estimate(units.ok_or(Undecided::LostInBoth)?, scale, bootstrap).ok_or(Undecided::LostInBoth)
}

/// The ratio of a cost that each block has once, of arm to baseline; over runs and blocks as [`ratio`].
///
/// # Errors
/// There is no block with both.
pub fn ratio_of_costs(runs: &[Vec<(f64, f64)>], bootstrap: &mut Bootstrap) -> Result<Estimate, Undecided> {
    let block = |(arm, baseline): &(f64, f64)| {
        let value = defined(arm / baseline)?;
        Some(BlockValue::exact(value))
    };
    let ratios_of = |run: &Vec<_>| run.iter().filter_map(block).collect::<Vec<_>>();
    let units: Vec<_> = runs.iter().map(ratios_of).filter(|run| !run.is_empty()).collect();
    estimate(units, RATIO, bootstrap).ok_or(Undecided::TooFewBlocks)
}

impl BlockValue {
    /// One that is drawn as it is.
    fn exact(value: f64) -> BlockValue {
        BlockValue {
            value,
            resampled: vec![value],
        }
    }
}

fn block_value(
    (arm, baseline): (&[f64], &[f64]),
    (q, scale): (f64, Scale),
    resamples: usize,
    rng: &mut impl Rng,
) -> Option<BlockValue> {
    let arm = Pool::new(&Units::of_block(arm));
    let baseline = Pool::new(&Units::of_block(baseline));
    let value = defined((scale.of)(arm.value(q)?, baseline.value(q)?))?;
    if resamples == 0 {
        return Some(BlockValue::exact(value));
    }
    let ours = arm.resampled(q, resamples, rng);
    let theirs = baseline.resampled(q, resamples, rng);
    let pairs = ours.iter().zip(theirs);
    let resampled: Vec<f64> = pairs.filter_map(|(a, b)| defined((scale.of)(*a, b))).collect();
    (!resampled.is_empty()).then_some(BlockValue { value, resampled })
}

/// A loss is nothing to a loss.
fn defined(value: f64) -> Option<f64> {
    (!value.is_nan()).then_some(value)
}

/// Over the runs, or over the blocks of the only one.
fn estimate(mut units: Vec<Vec<BlockValue>>, scale: Scale, bootstrap: &mut Bootstrap) -> Option<Estimate> {
    if let [_] = units[..] {
        units = units.remove(0).into_iter().map(|block| vec![block]).collect();
    }
    let of = |blocks: &[BlockValue]| (scale.middle)(&blocks.iter().map(|block| block.value).collect::<Vec<_>>());
    let each = units.iter().map(|unit| of(unit)).collect::<Option<Vec<f64>>>()?;
    let all: Vec<f64> = units.iter().flatten().map(|block| block.value).collect();
    let value = (scale.middle)(&all)?;
    let resampled = (0..bootstrap.resamples)
        .map(|_| (scale.middle)(&draw(&units, &mut bootstrap.rng)))
        .collect::<Option<Vec<f64>>>()?;
    Some(Estimate::over_units(value, &each, || resampled))
}

fn draw(units: &[Vec<BlockValue>], rng: &mut impl Rng) -> Vec<f64> {
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
