//! What containers cost a gateway, and activation on demand.

use super::page::{Cell, Page};
use super::record;
use super::words;
use crate::gateway::{Row, aimed, notes, with_interval};
use crate::report::Gateway;
use crate::stats::Outcome;

pub(super) fn section(page: &mut Page, found: &Gateway) {
    page.heading("gateway", "The gateway: what containers cost, and activation on demand");
    let mut rest = found.rows.as_slice();
    while let Some(first) = rest.first() {
        let end = rest
            .iter()
            .position(|row| row.section != first.section)
            .unwrap_or(rest.len());
        let rows: Vec<Vec<Cell>> = rest[..end].iter().map(row).collect();
        page.table(first.section, &["", "figure", "values", "× baseline", "aim"], &rows);
        rest = &rest[end..];
    }
    for note in notes(&found.run) {
        page.paragraph(&note);
    }
    let title = format!("The run, seed {}", found.run.seed);
    page.folded(&title, false, |page| record::gateway(page, &found.run));
}

fn row(row: &Row) -> Vec<Cell> {
    let figure = row
        .figure
        .as_ref()
        .map_or_else(|| "–".to_owned(), |figure| with_interval(figure, row.unit));
    let ratio = row.comparison.and_then(|comparison| comparison.ratio);
    let ratio = ratio
        .zip(row.against)
        .map(|(ratio, name)| format!("{} × {name}", words::ratio(&ratio)));
    vec![
        Cell::text(&row.label),
        Cell::number(figure),
        Cell::number(words::count(row.values as u64)),
        Cell::number(ratio.unwrap_or_default()),
        aim(row),
    ]
}

fn aim(row: &Row) -> Cell {
    let Some(verdict) = row.verdict else {
        return Cell::text("");
    };
    let bound = aimed(verdict.aim, row.unit);
    let why = verdict
        .why
        .map_or(String::new(), |why| format!(": {}", words::aim(why)));
    match verdict.outcome {
        Outcome::Pass => Cell::judged("yes", "met", &bound),
        Outcome::Fail => Cell::judged("no", "missed", &bound),
        Outcome::Undecided => Cell::judged("undecided", "undecided", &format!("{bound}{why}")),
    }
}
