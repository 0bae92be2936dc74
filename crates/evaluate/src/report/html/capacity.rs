//! Memory, time until ready and durability, beside Mosquitto; and an edge with its cloud.

use super::page::{Cell, Page};
use super::record;
use super::words;
use crate::capacity::{Promise, Row, Unit, notes, shown};
use crate::report::Capacity;
use crate::stats::{Estimate, Outcome};

pub(super) fn section(page: &mut Page, found: &Capacity) {
    page.heading(
        "capacity",
        "Capacity: memory, time until ready, what survives kill -9, what a link carries",
    );
    let rows: Vec<Vec<Cell>> = found.rows.iter().map(row).collect();
    let columns = ["", "selvedge", "mosquitto", "× mosquitto", "promise"];
    page.table("", &columns, &rows);
    for note in notes(&found.run) {
        page.paragraph(&note);
    }
    let title = format!("The run, seed {}", found.run.seed);
    page.folded(&title, false, |page| record::capacity(page, &found.run));
}

fn row(row: &Row) -> Vec<Cell> {
    let ratio = row.ratio.as_ref().map(words::ratio).unwrap_or_default();
    vec![
        Cell::text(&row.label),
        figure(row.selvedge.as_ref(), row.unit),
        figure(row.mosquitto.as_ref(), row.unit),
        Cell::number(ratio),
        promise(row),
    ]
}

fn figure(estimate: Option<&Estimate>, unit: Unit) -> Cell {
    let Some(Estimate { value, interval }) = estimate else {
        return Cell::number("–");
    };
    let ends = if interval.low == interval.high {
        String::new()
    } else {
        format!("{} … {}", shown(interval.low, unit), shown(interval.high, unit))
    };
    Cell::figure(&shown(*value, unit), &ends)
}

fn promise(row: &Row) -> Cell {
    let Some(verdict) = row.verdict else {
        return Cell::text("");
    };
    let bound = match verdict.promise {
        Promise::AtMost(bound) => format!("≤ {}", shown(bound, row.unit)),
        Promise::AtLeast(bound) => format!("≥ {}", shown(bound, row.unit)),
    };
    match verdict.outcome {
        Outcome::Pass => Cell::judged("yes", "met", &bound),
        Outcome::Fail => Cell::judged("no", "missed", &bound),
        Outcome::Undecided => Cell::judged("undecided", "undecided", &bound),
    }
}
