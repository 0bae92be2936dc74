//! The terminal table: within 100 columns (rule 15).

use std::fmt::Write as _;

use super::words::{self, count};
use super::{ArmFacts, ArmResult, CellSummary, Summary};
use crate::stats::{Comparison, Outcome, Undecided, Verdict};

/// Width of the arms' labels.
const LABEL: usize = 41;

/// Every load with its arms, then what follows in sentences.
pub fn table(summary: &Summary) -> String {
    let mut out = String::new();
    for cell in &summary.cells {
        cell_table(&mut out, summary, cell);
        out.push('\n');
    }
    for line in sentences(summary) {
        push_wrapped(&mut out, &line);
    }
    out
}

fn cell_table(out: &mut String, summary: &Summary, cell: &CellSummary) {
    let _ = writeln!(out, "  round trip, {}", words::cell(&cell.cell));
    let against = words::baseline(&summary.arms).map_or(String::new(), |arm| format!("× {}", arm.name));
    let method = words::method(summary);
    line(
        out,
        "",
        ["p50 µs", "p99 µs", "lost"],
        words::shortened(&format!("{against} ({method})"), 30).as_str(),
    );
    for result in &cell.arms {
        let arm = &summary.arms[result.arm];
        if arm.again_of.is_none() {
            arm_rows(out, arm, result);
        }
    }
    if let Some(noise) = cell.noise {
        let label = format!(
            "noise of this machine ({} against itself)",
            summary.arms[noise.other].name
        );
        let ratio = |comparison: &Comparison| {
            comparison
                .ratio
                .as_ref()
                .map_or_else(|| words::verdict(&comparison.verdict), words::ratio)
        };
        line(out, &label, ["", "", ""], &format!("p50 {}", ratio(&noise.p50)));
        line(out, "", ["", "", ""], &format!("p99 {}", ratio(&noise.p99)));
    }
}

fn arm_rows(out: &mut String, arm: &ArmFacts, result: &ArmResult) {
    let (p50, p99) = (
        words::micros(result.response.p50.as_ref()),
        words::micros(result.response.p99.as_ref()),
    );
    let lost = count(result.counts.lost + result.counts.unsent);
    let first = match &result.against {
        Some(against) => format!("p50 {}", words::comparison(&against.p50)),
        None if arm.baseline => "1".to_owned(),
        None => String::new(),
    };
    let label = if result.is_valid() {
        arm.label.clone()
    } else {
        format!("INVALID {}", arm.label)
    };
    line(out, &label, [&p50, &p99, &lost], &first);
    if let Some(against) = &result.against {
        line(
            out,
            "",
            ["", "", ""],
            &format!("p99 {}", words::comparison(&against.p99)),
        );
    }
}

fn line(out: &mut String, label: &str, [p50, p99, lost]: [&str; 3], rest: &str) {
    let label = words::shortened(label, LABEL);
    let text = format!("  {label:<LABEL$}{p50:>9}{p99:>9}{lost:>6}  {rest}");
    let _ = writeln!(out, "{}", text.trim_end());
}

/// What follows from the figures, one line each.
pub(super) fn sentences(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(broken_laws(summary));
    lines.extend(undecided(summary));
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
    lines.extend(
        summary
            .skipped
            .iter()
            .map(|skip| format!("Not measured: {}: {}", skip.arm, skip.reason)),
    );
    lines
}

fn broken_laws(summary: &Summary) -> Vec<String> {
    let results = summary
        .cells
        .iter()
        .flat_map(|cell| cell.arms.iter().map(move |result| (cell, result)));
    let line = |(cell, result): (&CellSummary, &ArmResult)| {
        let broken: Vec<String> = result
            .laws
            .iter()
            .filter(|law| law.broken > 0)
            .map(|law| format!("{}: {}", law.law, law.detail))
            .collect();
        let name = &summary.arms[result.arm].name;
        (!broken.is_empty()).then(|| format!("Invalid: {name}, {}: {}", words::cell(&cell.cell), broken.join("; ")))
    };
    results.filter_map(line).collect()
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

/// The first load from which on all are deterministic, in the order measured, or each that is not.
fn determinism(arm: &ArmFacts, results: &[(&CellSummary, &ArmResult)]) -> Option<String> {
    results.first()?;
    let failed: Vec<&(&CellSummary, &ArmResult)> = results
        .iter()
        .filter(|(_, result)| result.determinism.outcome() != Outcome::Pass)
        .collect();
    let messages: usize = results.iter().map(|(_, result)| result.determinism.messages).sum();
    let loads = if results.len() == 1 {
        String::new()
    } else {
        format!(" under all {} loads", results.len())
    };
    Some(match failed.first() {
        None => {
            let spread = results
                .iter()
                .filter_map(|(_, r)| r.determinism.spread)
                .fold(0.0, f64::max);
            let most = if results.len() == 1 { "" } else { "up to " };
            format!(
                "{}: deterministic{loads} (no trend over {} messages; p99 − p50 = {most}{})",
                arm.name,
                count(messages as u64),
                words::duration(spread)
            )
        }
        Some((cell, result)) => {
            let more = if failed.len() > 1 {
                format!(" and {} more loads", failed.len() - 1)
            } else {
                String::new()
            };
            let which = if results.len() == 1 {
                String::new()
            } else {
                format!(" at {}{more}", words::cell(&cell.cell))
            };
            format!(
                "{}: {}{which}: {}",
                arm.name,
                not_deterministic(result),
                words::determinism(result)
            )
        }
    })
}

fn not_deterministic(result: &ArmResult) -> &'static str {
    match result.determinism.outcome() {
        Outcome::Fail => "not deterministic",
        _ => "determinism undecided",
    }
}

/// What the headline arm is good for: the first that is neither baseline nor a repetition, else the first.
fn good_for(summary: &Summary) -> Option<String> {
    let ours = summary.arms.iter().position(|arm| arm.name == "selvedge").unwrap_or(0);
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

/// Lines of at most 98 characters after an indent of two, four from the second on.
fn push_wrapped(out: &mut String, text: &str) {
    let mut line = String::from(" ");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > 100 {
            out.push_str(&line);
            out.push('\n');
            line = String::from("   ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}
