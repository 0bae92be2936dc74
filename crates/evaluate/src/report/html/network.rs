//! The emulated network: what was set against what was got.

use super::page::{Cell, Page};
use super::record;
use crate::network::{COLUMNS, NetworkRun, notes, rows};

pub(super) fn section(page: &mut Page, run: &NetworkRun) {
    page.heading("network", "Emulated network: what was set, and what was got");
    let cells = |[label, figures @ ..]: [String; 10]| {
        std::iter::once(Cell::text(label))
            .chain(figures.map(Cell::number))
            .collect::<Vec<_>>()
    };
    let rows: Vec<Vec<Cell>> = rows(run).into_iter().map(cells).collect();
    page.table("", &COLUMNS, &rows);
    for note in notes(run) {
        page.paragraph(&note);
    }
    let title = format!("The run, seed {}", run.seed);
    page.folded(&title, false, |page| record::network(page, run));
}
