//! What follows from the figures, in words: the same on the terminal and at the head of the page.

use super::plain;
use super::words::{self, count};
use super::{ArmFacts, ArmResult, CellSummary, FoundKnee, LawResult, Summary};
use crate::stats::{Comparison, Knee, Outcome, Undecided, Verdict};

/// What follows from the figures, one line each.
pub(super) fn sentences(summary: &Summary) -> Vec<String> {
    if !summary.knees.is_empty() {
        return of_search(summary);
    }
    let of_models = plain::lines(summary);
    let has_models = !of_models.is_empty();
    let mut lines = of_models;
    lines.extend(headline(summary).filter(|_| !has_models));
    lines.extend(broken_laws(summary));
    lines.extend(undecided(summary));
    lines.extend(measured_again(summary));
    lines.extend(disturbed(summary));
    if has_models {
        lines.extend(not_varied(summary));
        lines.extend(skipped(summary));
        return lines;
    }
    for (number, arm) in summary
        .arms
        .iter()
        .enumerate()
        .filter(|(_, arm)| arm.again_of.is_none())
    {
        let results: Vec<(&CellSummary, &ArmResult)> = summary
            .cells
            .iter()
            .filter_map(|cell| Some((cell, cell.arm(number)?)))
            .filter(|(_, r)| r.is_valid())
            .collect();
        lines.extend(determinism(arm, &results));
    }
    lines.extend(good_for(summary));
    lines.extend(skipped(summary));
    lines
}

/// What of the network this machine did not let us vary.
fn not_varied(summary: &Summary) -> Option<String> {
    let networks = summary.runs.iter().filter_map(|run| run.network.as_ref());
    let words = networks.filter_map(|cell| cell.network.not_varied.as_ref()).next()?;
    Some(format!("Not varied: {words}"))
}

fn skipped(summary: &Summary) -> impl Iterator<Item = String> {
    summary
        .skipped
        .iter()
        .map(|skip| format!("Not measured: {}: {}", skip.arm, skip.reason))
}

/// What a search for knees has found.
fn of_search(summary: &Summary) -> Vec<String> {
    let line = |found: &FoundKnee| {
        let name = &summary.arms[found.arm].name;
        let Some(knee) = &found.knee else {
            return format!("{name}: no knee: at every rate that was tried the generator was the limit");
        };
        let rate = words::knee(Some(knee));
        let repeated = summary.arms[found.arm].again_of.is_some();
        let noise = if repeated {
            " (the same once more: the noise of this machine)"
        } else {
            ""
        };
        if !found.confirmed {
            return format!("{name}: knee {rate}{noise}; no rate held twice");
        }
        let (lost, messages) = (count(found.lost as u64), count(found.messages as u64));
        let p99 = found
            .p99
            .map_or("too few messages".to_owned(), |p99| words::duration(p99.value));
        format!("{name}: knee {rate}{noise}; confirmed with p99 {p99}, {lost} of {messages} messages lost")
    };
    let edge = "A knee is not reached where the next rate could not be measured: the generator was the limit, or the \
                search ends there.";
    let reached = |found: &FoundKnee| !matches!(found.knee, Some(Knee::NotReached { .. }));
    let edge = (!summary.knees.iter().all(reached)).then(|| edge.to_owned());
    summary
        .knees
        .iter()
        .map(line)
        .chain(edge)
        .chain(skipped(summary))
        .collect()
}

/// Our arm against the baseline under the first load.
fn headline(summary: &Summary) -> Option<String> {
    let cell = summary.cells.first()?;
    let result = cell.arm(headline_arm(summary))?;
    let against = result.against?;
    let (ours, theirs) = (&summary.arms[result.arm].name, &summary.arms[against.other].name);
    let ratio = |quantile: &str, comparison: &Comparison| format!("{quantile} {}", words::comparison(comparison));
    Some(format!(
        "{ours} against {theirs}, {}: {}, {}",
        words::cell(&cell.cell),
        ratio("p50", &against.p50),
        ratio("p99", &against.p99)
    ))
}

/// Ours where it was measured, else the first that is not the baseline.
fn headline_arm(summary: &Summary) -> usize {
    let ours = summary.arms.iter().position(|arm| arm.name == "selvedge");
    ours.or_else(|| summary.arms.iter().position(|arm| !arm.baseline))
        .unwrap_or(0)
}

/// Each law that is broken anywhere, with the first result that breaks it.
fn broken_laws(summary: &Summary) -> Vec<String> {
    let results = || {
        summary
            .cells
            .iter()
            .flat_map(|cell| cell.arms.iter().map(move |result| (cell, result)))
    };
    let broken = results().flat_map(|(cell, result)| result.laws.iter().map(move |law| (cell, result, law)));
    let mut first: Vec<(&CellSummary, &ArmResult, &LawResult, usize)> = Vec::new();
    for (cell, result, law) in broken.filter(|(_, _, law)| law.broken > 0) {
        match first.iter_mut().find(|(_, _, known, _)| known.law == law.law) {
            Some((.., count)) => *count += 1,
            None => first.push((cell, result, law, 1)),
        }
    }
    let all = results().count();
    let line = |(cell, result, law, broken): (&CellSummary, &ArmResult, &LawResult, usize)| {
        let place = format!("{}, {}", summary.arms[result.arm].name, words::cell(&cell.cell));
        format!(
            "Invalid: {} of {all} results break “{}”, the first being {place}: {}",
            broken, law.law, law.detail
        )
    };
    first.into_iter().map(line).collect()
}

/// Rounds in which the generator was late, load by load.
fn measured_again(summary: &Summary) -> Vec<String> {
    let late = |cell: &CellSummary| cell.arms.iter().map(|result| result.set_aside).max().unwrap_or(0);
    let counting = |cell: &CellSummary| cell.arms.iter().map(|result| result.blocks).max().unwrap_or(0);
    let line = |cell: &CellSummary| {
        let (late, counting) = (late(cell), counting(cell));
        let cell = words::cell(&cell.cell);
        format!(
            "Set aside: {cell}: {late} rounds in which the generator was late and no result could be had; {counting} count"
        )
    };
    summary.cells.iter().filter(|cell| late(cell) > 0).map(line).collect()
}

/// Blocks that ended early or began before the system was warm.
fn disturbed(summary: &Summary) -> Vec<String> {
    let results = summary
        .cells
        .iter()
        .flat_map(|cell| cell.arms.iter().map(move |result| (cell, result)));
    let remark = |(cell, result): (&CellSummary, &ArmResult)| {
        let where_ = format!("{}, {}", summary.arms[result.arm].name, words::cell(&cell.cell));
        let failed = result.failures.first().map(|first| {
            let (failed, all) = (result.failures.len(), result.blocks);
            format!("Ended early: {where_}: {failed} of {all} blocks, the first because {first}")
        });
        let cold = (result.unsettled > 0).then(|| {
            let (cold, all) = (result.unsettled, result.blocks);
            format!("Not warm: {where_}: in {cold} of {all} blocks the warm-up did not settle before its bound")
        });
        [failed, cold].into_iter().flatten()
    };
    results.flat_map(remark).collect()
}

/// Each reason once.
fn undecided(summary: &Summary) -> Vec<String> {
    let against = summary
        .cells
        .iter()
        .flat_map(|cell| &cell.arms)
        .filter_map(|result| result.against);
    let mut reasons: Vec<Undecided> = Vec::new();
    for comparison in against.flat_map(|against| [against.p50, against.p99]) {
        if let Verdict::Undecided(reason) = comparison.verdict
            && !reasons.contains(&reason)
        {
            reasons.push(reason);
        }
    }
    reasons
        .into_iter()
        .map(|reason| format!("Undecided where {}.", words::why(reason)))
        .collect()
}

/// Whether an arm is deterministic under all loads, else the first under which it is not.
fn determinism(arm: &ArmFacts, results: &[(&CellSummary, &ArmResult)]) -> Option<String> {
    let failed: Vec<&(&CellSummary, &ArmResult)> = results
        .iter()
        .filter(|(_, result)| result.determinism.outcome() != Outcome::Pass)
        .collect();
    let Some((cell, result)) = failed.first() else {
        return deterministic(arm, results);
    };
    let which = match (results.len(), failed.len()) {
        (1, _) => String::new(),
        (all, 1) => format!(" under 1 of {all} loads, {}", words::cell(&cell.cell)),
        (all, failed) => format!(
            " under {failed} of {all} loads, the first being {}",
            words::cell(&cell.cell)
        ),
    };
    Some(format!(
        "{}: {}{which}: {}",
        arm.name,
        not_deterministic(result),
        words::determinism(result)
    ))
}

fn deterministic(arm: &ArmFacts, results: &[(&CellSummary, &ArmResult)]) -> Option<String> {
    let spread = results
        .iter()
        .filter_map(|(_, result)| result.determinism.spread)
        .max_by(f64::total_cmp)?;
    let messages: usize = results.iter().map(|(_, result)| result.determinism.messages).sum();
    let (loads, most) = match results.len() {
        1 => (String::new(), "="),
        all => (format!(" under all {all} loads"), "≤"),
    };
    let (messages, spread) = (count(messages as u64), words::duration(spread));
    Some(format!(
        "{}: deterministic{loads} (no trend over {messages} messages; p99 − p50 {most} {spread})",
        arm.name
    ))
}

fn not_deterministic(result: &ArmResult) -> &'static str {
    match result.determinism.outcome() {
        Outcome::Fail => "not deterministic",
        _ => "determinism undecided",
    }
}

/// What the headline arm is good for, under the first load.
fn good_for(summary: &Summary) -> Option<String> {
    let ours = headline_arm(summary);
    let result = summary.cells.first()?.arm(ours).filter(|result| result.is_valid())?;
    let verdicts = result.requirements.iter().take(2).rev().map(|verdict| {
        let missed = format!(
            "{} of {} missed",
            count(verdict.missed as u64),
            count(verdict.messages as u64)
        );
        let said = match verdict.outcome {
            Outcome::Pass => format!("yes on this machine, {missed}"),
            Outcome::Fail => format!("no, {missed}"),
            Outcome::Undecided => format!("undecided, {missed}"),
        };
        format!("{} ({}) {said}", verdict.requirement.name, verdict.requirement.bound())
    });
    let name = &summary.arms[ours].name;
    Some(format!(
        "{name} is good for: {}",
        verdicts.collect::<Vec<_>>().join(" · ")
    ))
}
