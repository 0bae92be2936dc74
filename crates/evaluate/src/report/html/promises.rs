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
    let columns = ["promise", "aim", "figure (interval)", "verdict"];
    let mut under = "";
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for line in lines {
        if line.under != under {
            under = &line.under;
            rows.push(vec![Cell::group(under, columns.len())]);
        }
        rows.push(row(line));
    }
    page.table("", &columns, &rows);
}

fn row(line: &Line) -> Vec<Cell> {
    let class = match line.outcome {
        Some(Outcome::Pass) => "yes",
        Some(Outcome::Fail) => "no",
        Some(Outcome::Undecided) => "undecided",
        None => "soft",
    };
    vec![
        Cell::text(&line.promise),
        Cell::unbroken(&line.aim),
        Cell::unbroken(&line.figure),
        Cell::judged_with_reason(class, verdict(line), line.why),
    ]
}
