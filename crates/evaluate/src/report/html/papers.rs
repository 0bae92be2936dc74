//! The paper's figures and claims beside ours.

use super::page::{Cell, Page};
use crate::figures::{self, ClaimVerdict, Finding, Shape};
use crate::report::Summary;

pub(super) fn section(page: &mut Page, summary: &Summary) {
    let paper = figures::client_perspective();
    page.heading("paper", "The paper beside ours");
    page.paragraph(&format!(
        "“{}”, measured on {}. Other hardware gives other figures: only the shape of a claim is expected to hold, and \
         that is what is tested.",
        paper.title, paper.machine
    ));
    claims(page, &summary.claims);
    beside(page, &summary.figures);
}

/// A paper's claims with what was found of each.
pub(super) fn claims(page: &mut Page, all: &[ClaimVerdict]) {
    let rows: Vec<Vec<Cell>> = all.iter().flat_map(claim_rows).collect();
    page.table(
        "Claims, tested for shape",
        &["claim", "place", "arm", "here", "figures"],
        &rows,
    );
}

/// The paper's figures with what of this run stands beside them, and those that have nothing.
pub(super) fn beside(page: &mut Page, all: &[figures::Beside]) {
    let row = |beside: &figures::Beside| {
        let ours = beside
            .ours
            .as_deref()
            .map_or_else(|| Cell::judged("soft", "not measured in this run", ""), Cell::text);
        vec![
            Cell::text(&beside.what),
            Cell::text(&beside.place),
            Cell::number(&beside.reported),
            ours,
        ]
    };
    let (ours, others): (Vec<_>, Vec<_>) = all.iter().partition(|beside| beside.ours.is_some());
    let columns = ["figure", "place", "paper", "ours"];
    if !ours.is_empty() {
        page.table(
            "Figures with a counterpart",
            &columns,
            &ours.into_iter().map(row).collect::<Vec<_>>(),
        );
    }
    page.folded(
        &format!("{} figures that this run has no counterpart for", others.len()),
        false,
        |page| {
            page.table("", &columns, &others.into_iter().map(row).collect::<Vec<_>>());
        },
    );
}

fn claim_rows(claim: &ClaimVerdict) -> Vec<Vec<Cell>> {
    let row = |(place, finding): (usize, &Finding)| {
        let (statement, section) = if place == 0 {
            (claim.statement.as_str(), claim.place.as_str())
        } else {
            ("", "")
        };
        let (class, word) = match finding.shape {
            Shape::Agrees => ("agrees", "holds"),
            Shape::Differs => ("other", "does not hold"),
            Shape::Undecided => ("soft", "undecided"),
            Shape::NotMeasured => ("soft", "not measured"),
        };
        vec![
            Cell::text(statement),
            Cell::text(section),
            Cell::text(finding.arm.as_deref().unwrap_or("")),
            Cell::judged(class, word, ""),
            Cell::text(&finding.words),
        ]
    };
    claim.findings.iter().enumerate().map(row).collect()
}
