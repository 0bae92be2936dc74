//! What the three models can promise, in plain words: for the terminal and for one page of the report.

use super::words::{self, duration};
use super::{Added, ArmResult, CellSummary, Summary, Sweep, Swept};
use crate::stats::Outcome;

/// Parameters as the first paper varies them, then ours.
const PARAMETERS: [Swept; 6] = [
    Swept::Interval,
    Swept::Payload,
    Swept::Bandwidth,
    Swept::Delay,
    Swept::Devices,
    Swept::Qos,
];

/// Models, by number of their arm, in the order of the run.
pub(super) fn models(summary: &Summary) -> Vec<usize> {
    let arms = summary.arms.iter().enumerate();
    let models = arms.filter(|(_, arm)| arm.again_of.is_none() && arm.is_model());
    models.map(|(number, _)| number).collect()
}

/// What follows for who has to build something, one line each; empty without a model.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let models = models(summary);
    if models.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<String> = models.iter().filter_map(|arm| good_for(summary, *arm)).collect();
    lines.extend(added(summary));
    lines.extend(models.iter().filter_map(|arm| deterministic(summary, *arm)));
    lines.extend(models.iter().filter_map(|arm| limits(summary, *arm)));
    lines.extend(distance(summary));
    lines
}

/// The load at the paper's defaults, the first of a run, if it has p99; else the one of the sweep over intervals
/// nearest to it that has.
pub(super) fn reference(summary: &Summary, arm: usize) -> Option<(&CellSummary, &ArmResult)> {
    let first = summary.cells.first()?;
    let with_p99 = |cell: &&CellSummary| {
        let result = cell.arm(arm).filter(|result| result.is_valid());
        result.is_some_and(|result| result.response.p99.is_some())
    };
    let sweep = sweep(summary, Swept::Interval).map_or(&[][..], |sweep| &sweep.cells);
    let usual_us = first.cell.interval_us.unwrap_or(0);
    let apart = |cell: &&CellSummary| cell.cell.interval_us.unwrap_or(0).abs_diff(usual_us);
    let others = sweep.iter().map(|cell| &summary.cells[*cell]);
    let nearest = others.filter(with_p99).min_by_key(apart);
    let cell = Some(first).filter(with_p99).or(nearest).unwrap_or(first);
    Some((cell, cell.arm(arm)?))
}

/// The sweep over a parameter that begins with the paper's defaults, else the first.
pub(super) fn sweep(summary: &Summary, swept: Swept) -> Option<&Sweep> {
    let of = || summary.sweeps.iter().filter(|sweep| sweep.swept == swept);
    of().find(|sweep| sweep.cells.contains(&0)).or_else(|| of().next())
}

fn good_for(summary: &Summary, arm: usize) -> Option<String> {
    let (cell, result) = reference(summary, arm)?;
    let name = &summary.arms[arm].name;
    let load = words::unusual(&cell.cell);
    if !result.is_valid() {
        return Some(format!("{name}: no result ({load}): the instrument was late"));
    }
    let (p50, p99) = (result.response.p50?, result.response.p99);
    let p99 = p99.map_or("p99 too few messages".to_owned(), |p99| {
        format!("p99 {}", duration(p99.value))
    });
    let mut demanding: Vec<_> = result.requirements.iter().collect();
    demanding.sort_by(|a, b| a.requirement.bound_ms.total_cmp(&b.requirement.bound_ms));
    let named = |outcome: Outcome| {
        let found = demanding.iter().filter(|verdict| verdict.outcome == outcome);
        let names = found.map(|verdict| format!("{} ({})", verdict.requirement.name, verdict.requirement.bound()));
        names.collect::<Vec<_>>()
    };
    let (good, bad) = (named(Outcome::Pass), named(Outcome::Fail));
    let good = good
        .first()
        .map_or("too few messages for a verdict on any class".to_owned(), |first| {
            format!("good for {first} and all that ask for less")
        });
    let bad = bad.last().map_or(String::new(), |last| format!("; not for {last}"));
    Some(format!(
        "{name}: p50 {}, {p99} ({load}): {good}{bad}",
        duration(p50.value)
    ))
}

/// What the way through the edge adds, under the first load that says it best.
fn added(summary: &Summary) -> Vec<String> {
    let known = |cell: &&CellSummary| cell.added.iter().any(|added| added.p99_us.is_some());
    let cell = summary.cells.iter().find(known).or(summary.cells.first());
    let Some(cell) = cell else { return Vec::new() };
    let line = |added: &Added| {
        let arm = &summary.arms[added.arm];
        let baseline = summary.arms.iter().find(|arm| arm.baseline)?;
        let p50 = words::difference(&added.p50_us?);
        let p99 = added
            .p99_us
            .map_or("too few messages".to_owned(), |p99| words::difference(&p99));
        let what = if arm.again_of.is_some() {
            format!("{} against itself (the noise of this machine)", baseline.name)
        } else {
            format!("{} against {}", arm.name, baseline.name)
        };
        Some(format!("{what}: p50 {p50}, p99 {p99} ({})", words::unusual(&cell.cell)))
    };
    cell.added.iter().filter_map(line).collect()
}

/// At which intervals, and where beside it is not.
fn deterministic(summary: &Summary, arm: usize) -> Option<String> {
    let name = &summary.arms[arm].name;
    let interval = Standing::of(summary, arm, sweep(summary, Swept::Interval)?).words();
    let others = PARAMETERS.iter().filter(|swept| **swept != Swept::Interval);
    let no = others.flat_map(|swept| sweep(summary, *swept).map(|sweep| Standing::of(summary, arm, sweep).no));
    let no: Vec<String> = no.flatten().collect();
    let no = if no.is_empty() {
        String::new()
    } else {
        format!("; nor with {}", no.join(", "))
    };
    (!interval.is_empty()).then(|| format!("{name}: deterministic, by the time between messages: {interval}{no}"))
}

/// What holds a model up first, in each direction that was swept.
fn limits(summary: &Summary, arm: usize) -> Option<String> {
    let results = summary.cells.iter().filter_map(|cell| Some((cell, cell.arm(arm)?)));
    let limited: Vec<String> = results
        .filter(|(_, result)| result.is_valid())
        .filter_map(|(cell, result)| Some((words::unusual(&cell.cell), result.limit()?)))
        .map(|(load, limit)| format!("{load}: {}", words::limit(limit)))
        .collect();
    let name = &summary.arms[arm].name;
    let of_arm = summary.cells.iter().filter_map(|cell| cell.arm(arm));
    if of_arm.filter(|result| result.is_valid()).count() == 0 {
        return None;
    }
    Some(if limited.is_empty() {
        format!("{name}: nothing was full, and nothing queued up, under any load with a result")
    } else {
        format!("{name}: what limits it: {}", limited.join(" · "))
    })
}

/// What no software changes.
fn distance(summary: &Summary) -> Option<String> {
    let delay_us = summary.cells.first()?.cell.wan?.round_trip_us as f64;
    let crosses = models(summary).iter().any(|arm| summary.arms[*arm].crosses_line());
    (delay_us > 0.0 && crosses).then(|| {
        let delay = duration(delay_us);
        format!(
            "The way to the cloud takes {delay} by itself: what needs its answer sooner has to be served by the edge"
        )
    })
}

/// Which values of a parameter a model is deterministic at.
pub(super) struct Standing {
    yes: Vec<String>,
    open: Vec<String>,
    no: Vec<String>,
    /// Where the instrument was late.
    invalid: Vec<String>,
}

impl Standing {
    pub(super) fn of(summary: &Summary, arm: usize, sweep: &Sweep) -> Standing {
        let mut standing = Standing {
            yes: Vec::new(),
            open: Vec::new(),
            no: Vec::new(),
            invalid: Vec::new(),
        };
        for cell in sweep.cells.iter().map(|cell| &summary.cells[*cell]) {
            let Some(result) = cell.arm(arm) else { continue };
            let value = words::swept_named(sweep.swept, &cell.cell);
            match result.determinism.outcome() {
                _ if !result.is_valid() => standing.invalid.push(value),
                Outcome::Pass => standing.yes.push(value),
                Outcome::Undecided => standing.open.push(value),
                Outcome::Fail => standing
                    .no
                    .push(format!("{value} ({})", words::why_not_deterministic(result))),
            }
        }
        standing
    }

    fn parts(&self) -> impl Iterator<Item = (&'static str, &'static str, &Vec<String>)> {
        let parts = [
            ("yes", "yes at", &self.yes),
            ("no", "no at", &self.no),
            ("undecided", "too few messages at", &self.open),
            ("invalid", "no result at", &self.invalid),
        ];
        parts.into_iter().filter(|(_, _, values)| !values.is_empty())
    }

    pub(super) fn words(&self) -> String {
        let parts = self
            .parts()
            .map(|(_, word, values)| format!("{word} {}", values.join(", ")));
        parts.collect::<Vec<_>>().join("; ")
    }

    /// Colour class and words of each part.
    pub(super) fn judged(&self) -> Vec<(&'static str, String)> {
        let parts = self.parts();
        parts
            .map(|(class, word, values)| (class, format!("{word} {}", values.join(", "))))
            .collect()
    }
}

/// Each parameter that was swept, with its name.
pub(super) fn parameters(summary: &Summary) -> impl Iterator<Item = &Sweep> {
    PARAMETERS.into_iter().filter_map(|swept| sweep(summary, swept))
}
