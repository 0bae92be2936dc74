//! The terminal table: within 100 columns (rule 15).

use std::fmt::Write as _;

use super::sentences::sentences;
use super::words::{self, count};
use super::{ArmFacts, ArmResult, CellSummary, Summary};
use crate::stats::Comparison;

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
