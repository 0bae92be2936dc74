//! The terminal table: within 100 columns (rule 15).

use std::fmt::Write as _;

use super::words::{self, count};
use super::{ArmFacts, ArmResult, CellSummary, Summary};
use crate::stats::{Comparison, Outcome, Undecided, Verdict};

/// Width of the arms' labels.
const LABEL: usize = 41;
/// Width of the label and the figures beside it.
const FIGURES: usize = LABEL + 24;

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
            let ratio = comparison.ratio.as_ref();
            ratio.map_or_else(|| words::verdict(&comparison.verdict), words::ratio)
        };
        let _ = writeln!(
            out,
            "  {:<FIGURES$}  p50 {}",
            words::shortened(&label, FIGURES),
            ratio(&noise.p50)
        );
        line(out, "", ["", "", ""], &format!("p99 {}", ratio(&noise.p99)));
    }
}

fn arm_rows(out: &mut String, arm: &ArmFacts, result: &ArmResult) {
    let (p50, p99) = (
        words::micros(result.response.p50.as_ref()),
        words::micros(result.response.p99.as_ref()),
    );
    let lost = count(result.counts.lost + result.counts.unsent);
    let mark = if result.is_valid() { "" } else { "INVALID " };
    let (label, rest) = folded(&format!("{mark}{}", arm.label));
    let [first, second] = match &result.against {
        Some(against) => {
            [("p50", &against.p50), ("p99", &against.p99)].map(|(q, c)| format!("{q} {}", words::comparison(c)))
        }
        None if arm.baseline => ["1".to_owned(), String::new()],
        None => [String::new(), String::new()],
    };
    line(out, &label, [&p50, &p99, &lost], &first);
    if !rest.is_empty() || !second.is_empty() {
        line(out, &rest, ["", "", ""], &second);
    }
}

/// A label in two lines where it is too long for one.
fn folded(label: &str) -> (String, String) {
    if label.chars().count() <= LABEL {
        return (label.to_owned(), String::new());
    }
    let fits = label.char_indices().nth(LABEL).map_or(label.len(), |(at, _)| at);
    let at = label[..fits].rfind(' ').unwrap_or(fits);
    let rest = label[at..].trim_start();
    (label[..at].to_owned(), words::shortened(&format!("  {rest}"), LABEL))
}

fn line(out: &mut String, label: &str, [p50, p99, lost]: [&str; 3], rest: &str) {
    let text = format!("  {label:<LABEL$}{p50:>9}{p99:>9}{lost:>6}  {rest}");
    let _ = writeln!(out, "{}", text.trim_end());
}

/// What follows from the figures, one line each.
pub(super) fn sentences(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(headline(summary));
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
