//! What containers cost a gateway, and activation on demand.

mod plots;

use super::page::{Cell, Page};
use super::{papers, record, words};
use crate::figures::gateway_as_a_service;
use crate::gateway::{Row, aimed, cells, notes, with_interval};
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
    plots::section(page, &found.run);
    for note in notes(&found.run) {
        page.paragraph(&note);
    }
    paper(page, found);
    let cells = cells(&found.run);
    page.folded(&cells.heading, false, |page| {
        cells.lines.iter().for_each(|line| page.paragraph(line));
    });
    let title = format!("The run, seed {}", found.run.seed);
    page.folded(&title, false, |page| record::gateway(page, &found.run));
}

fn paper(page: &mut Page, found: &Gateway) {
    let paper = gateway_as_a_service();
    page.subheading("The paper beside ours");
    page.paragraph(&format!(
        "“{}”, measured on {}. Other hardware gives other figures; what a container adds or loses is beside the same program \
         without one, and of a claim its shape is tested.",
        paper.title, paper.machine
    ));
    papers::claims(page, &found.claims);
    papers::beside(page, &found.figures);
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
        Cell::unbroken(&row.label),
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
    match verdict.outcome {
        Outcome::Pass => Cell::judged("yes", "met", &bound),
        Outcome::Fail => Cell::judged("no", "missed", &bound),
        Outcome::Undecided => {
            let why = verdict
                .why
                .map_or(String::new(), |why| format!(": {}", words::aim(why)));
            Cell::judged_with_reason("undecided", "undecided", Some(&format!("{bound}{why}")))
        }
    }
}
