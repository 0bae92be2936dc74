//! What was promised, and what became of it.

use super::page::{Cell, Page};
use crate::report::promises::{Line, verdict};
use crate::stats::Outcome;

pub(super) fn section(page: &mut Page, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    page.heading("promises", "Promises");
    page.paragraph(
        "Met: the whole interval keeps the aim; missed: the whole interval is beyond it. Undecided otherwise, and where \
         the figure is as near to the aim as the machine is to itself, or as the generator was late.",
    );
    let mut under = "";
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for line in lines {
        let shown = if line.under == under { "" } else { &line.under };
        under = &line.under;
        rows.push(row(shown, line));
    }
    page.table("", &["under", "promise", "aim", "figure", "verdict"], &rows);
}

fn row(under: &str, line: &Line) -> Vec<Cell> {
    let class = match line.outcome {
        Some(Outcome::Pass) => "yes",
        Some(Outcome::Fail) => "no",
        Some(Outcome::Undecided) => "undecided",
        None => "soft",
    };
    vec![
        Cell::text(under),
        Cell::text(&line.promise),
        Cell::text(&line.aim),
        Cell::text(&line.figure),
        Cell::judged_below(class, verdict(line), line.why.unwrap_or_default()),
    ]
}
