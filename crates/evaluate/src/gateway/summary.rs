//! What the samples say: each figure with its interval, its ratio within blocks to a baseline, and whether an aim is
//! kept.

mod day;
mod sources;

use serde::Serialize;

use super::record::{Arm, GatewayRun, Job};
use crate::capacity::{Promise, Unit, outcome};
use crate::stats::{
    Bootstrap, Comparison, Conditions, Estimate, Interval, Method, Outcome, Pool, Undecided, Units, compare,
    equivalent, keeps, median, ratio, ratio_of_costs,
};
use sources::{Source, sources};

/// What is aimed at, of the row's figure or its ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    /// The figure is no more than this.
    AtMost(f64),
    /// The ratio is no more than this.
    TimesAtMost(f64),
    /// The ratio is no less than this.
    TimesAtLeast(f64),
    /// The ratio is within this share of 1 (rule 9).
    Equivalent(f64),
}

/// An aim with its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What is aimed at.
    pub aim: Aim,
    /// Whether it is kept.
    pub outcome: Outcome,
    /// Why that is undecided.
    pub why: Option<Undecided>,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What the rows around it are about.
    pub section: &'static str,
    /// What was measured.
    pub label: String,
    /// Unit of the figure.
    pub unit: Unit,
    /// The figure with its interval; absent where there are too few values.
    pub figure: Option<Estimate>,
    /// Values that it is made of.
    pub values: usize,
    /// What the ratio is of.
    pub against: Option<&'static str>,
    /// To that baseline, within blocks (rule 9), with what follows from it alone.
    pub comparison: Option<Comparison>,
    /// What is aimed at, if anything.
    pub verdict: Option<Verdict>,
}

/// What of a job's values is the figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    /// A quantile of all values.
    Quantile(f64),
    /// The median of what blocks say, each by its mean.
    Blocks,
    /// The sum of all values.
    Sum,
    /// The greatest of all values.
    Most,
    /// The median of what blocks say of a whole day.
    WholeDay,
}

/// Every row that was measured, and those with an aim that was asked for and could not be measured.
pub fn summarise(run: &GatewayRun) -> Vec<Row> {
    sources(run).iter().filter_map(|source| row(run, source)).collect()
}

fn row(run: &GatewayRun, source: &Source) -> Option<Row> {
    let bootstrap = &mut Bootstrap::new(run.seed, 0, Bootstrap::RESAMPLES);
    let blocks_of = |job, figure| match source.of {
        Of::WholeDay => day::of_whole_day(run, job, figure),
        _ => run.blocks_of(job, figure),
    };
    let blocks = blocks_of(source.job, source.figure);
    let figure = figure(&blocks, source.of, bootstrap);
    let found = source.against.map(|(_, job, figure)| {
        let baseline = blocks_of(job, figure);
        let noise = again(job).and_then(|again| times(&blocks_of(again, figure), &baseline, source.of, bootstrap).ok());
        (times(&blocks, &baseline, source.of, bootstrap), baseline, noise)
    });
    let conditions = Conditions {
        margin: match source.aim {
            Some(Aim::Equivalent(margin)) => margin,
            _ => MARGIN,
        },
        noise: found.as_ref().and_then(|(_, _, noise)| *noise),
        ..Conditions::default()
    };
    let is_wanted = source.aim.is_some() && run.options.has(source.job.arm.runtime());
    if blocks.is_empty() && !is_wanted {
        return None;
    }
    let comparison = found.as_ref().map(|(ratio, baseline, _)| {
        let middle = |blocks: &[(u32, Vec<f64>)]| middle(blocks).unwrap_or_default();
        compare(*ratio, (middle(&blocks), middle(baseline)), &conditions)
    });
    Some(Row {
        section: source.section,
        label: source.label.clone(),
        unit: source.unit,
        values: blocks.iter().map(|(_, values)| values.len()).sum(),
        against: source.against.map(|(name, ..)| name),
        verdict: source
            .aim
            .map(|aim| verdict(aim, figure.as_ref(), comparison.as_ref(), &conditions)),
        figure,
        comparison,
    })
}

/// A ratio this near to 1 counts as no difference where nothing else is aimed at.
const MARGIN: f64 = 0.05;

/// The A/A arm of a baseline.
fn again(job: Job) -> Option<Job> {
    let arm = match job.arm {
        Arm::DockerStart => Arm::DockerStartAgain,
        Arm::DockerUnpause => Arm::DockerUnpauseAgain,
        Arm::RuncRun => Arm::RuncRunAgain,
        Arm::DockerRun => Arm::DockerRunAgain,
        Arm::Native => Arm::NativeAgain,
        Arm::AlwaysOn => Arm::AlwaysOnAgain,
        _ => return None,
    };
    Some(Job { arm, ..job })
}

fn figure(blocks: &[(u32, Vec<f64>)], of: Of, bootstrap: &mut Bootstrap) -> Option<Estimate> {
    let slices: Vec<&[f64]> = blocks.iter().map(|(_, values)| values.as_slice()).collect();
    let all = || slices.iter().copied().flatten().copied();
    match of {
        _ if blocks.is_empty() => None,
        Of::Quantile(q) => Pool::new(&Units::new(&[slices])).quantile(q, bootstrap),
        Of::Blocks | Of::WholeDay => {
            let each: Vec<f64> = slices.iter().map(|values| mean(values)).collect();
            Estimate::median_of(&each, bootstrap)
        }
        Of::Sum => Some(Estimate::exact(all().sum())),
        Of::Most => Some(Estimate::exact(all().fold(0.0, f64::max))),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn middle(blocks: &[(u32, Vec<f64>)]) -> Option<f64> {
    median(&blocks.iter().map(|(_, values)| mean(values)).collect::<Vec<_>>())
}

/// The ratio of what was measured together.
fn times(
    ours: &[(u32, Vec<f64>)],
    theirs: &[(u32, Vec<f64>)],
    of: Of,
    bootstrap: &mut Bootstrap,
) -> Result<Estimate, Undecided> {
    let pairs: Vec<(&[f64], &[f64])> = ours
        .iter()
        .filter_map(|(block, values)| {
            let (_, other) = theirs.iter().find(|(other, _)| other == block)?;
            Some((values.as_slice(), other.as_slice()))
        })
        .collect();
    match of {
        Of::Quantile(q) => ratio(&[pairs], q, bootstrap),
        _ => {
            let costs = pairs.iter().map(|(ours, theirs)| (mean(ours), mean(theirs))).collect();
            ratio_of_costs(&[costs], bootstrap)
        }
    }
}

fn verdict(aim: Aim, figure: Option<&Estimate>, comparison: Option<&Comparison>, conditions: &Conditions) -> Verdict {
    let ratio = comparison.and_then(|comparison| comparison.ratio);
    let missing = comparison.and_then(|comparison| match comparison.verdict {
        crate::stats::Verdict::Undecided(why) => Some(why),
        _ => None,
    });
    let ratio = ratio.ok_or(missing.unwrap_or(Undecided::TooFewMessages));
    let kept = |ratio: Result<Estimate, Undecided>, bound: f64| {
        ratio.and_then(|ratio| keeps(&ratio, bound, (ratio.value, 1.0), conditions))
    };
    let kept = match aim {
        Aim::AtMost(bound) => match outcome(Promise::AtMost(bound), figure) {
            Outcome::Pass => Ok(true),
            Outcome::Fail => Ok(false),
            Outcome::Undecided => Err(match figure {
                None => Undecided::TooFewMessages,
                Some(figure) if figure.interval.method == Method::Range => Undecided::TooFewBlocks,
                Some(_) => Undecided::Interval,
            }),
        },
        Aim::TimesAtMost(bound) => kept(ratio, bound),
        Aim::TimesAtLeast(bound) => kept(ratio.map(inverse), 1.0 / bound),
        Aim::Equivalent(margin) => ratio.and_then(|ratio| equivalent(&ratio, margin)),
    };
    Verdict {
        aim,
        outcome: Outcome::of(kept.ok()),
        why: kept.err(),
    }
}

fn inverse(ratio: Estimate) -> Estimate {
    Estimate {
        value: 1.0 / ratio.value,
        interval: Interval {
            low: 1.0 / ratio.interval.high,
            high: 1.0 / ratio.interval.low,
            ..ratio.interval
        },
    }
}

/// What rows of all parts are called.
#[cfg(test)]
pub(crate) fn every_label() -> Vec<String> {
    let all = sources(&tests::run(Vec::new())).into_iter();
    all.map(|source| source.label).collect()
}

#[cfg(test)]
#[path = "summary_tests.rs"]
pub(super) mod tests;
