//! What the three models can promise: one page in plain words, with the gap to what industry asks for.

use super::page::{Cell, Page, class};
use super::words;
use crate::report::plain::{self, Standing};
use crate::report::plot::{Gap, gaps};
use crate::report::{Added, CellSummary, Summary, Sweep, Swept};
use crate::stats::Outcome;

/// What the paper's Fig. 8 shows of its own systems: name, round trip and sending interval in ms, nodes (Sec. VI).
const PAPER: [(&str, f64, f64, f64); 3] = [
    ("paper: D-C", 114.0, 200.0, 20.0),
    ("paper: D-E-C", 136.0, 200.0, 15.0),
    // Of its nodes there is no figure: each makes it slower.
    ("paper: D-E", 123.0, 200.0, f64::NAN),
];
/// What industry asks for at least, by the factors of the paper's Fig. 8: 12 in the round trip, 20 in the interval; and
/// the nodes of its Sec. VI-C.
const ASKED: (f64, f64, f64) = (10.0, 10.0, 50.0);

pub(super) fn section(page: &mut Page, summary: &Summary) {
    if plain::models(summary).is_empty() {
        return;
    }
    verdicts(page, summary);
    added(page, summary);
    busy(page, summary);
    gap(page, summary);
}

fn names(summary: &Summary) -> Vec<&str> {
    plain::models(summary)
        .into_iter()
        .map(|arm| summary.arms[arm].name.as_str())
        .collect()
}

/// Each parameter that was swept, model by model.
fn verdicts(page: &mut Page, summary: &Summary) {
    let row = |sweep: &Sweep| {
        let cell = |arm| Cell::judged_lines(&Standing::of(summary, arm, sweep).judged());
        let cells = plain::models(summary).into_iter().map(cell);
        std::iter::once(Cell::text(words::swept(sweep.swept)))
            .chain(cells)
            .collect()
    };
    let rows: Vec<Vec<Cell>> = plain::parameters(summary).map(row).collect();
    if rows.is_empty() {
        return;
    }
    let columns: Vec<&str> = ["varied"].into_iter().chain(names(summary)).collect();
    page.table(
        "Deterministic? One parameter varied, the others as in the paper",
        &columns,
        &rows,
    );
}

/// What the edge adds, load by load.
fn added(page: &mut Page, summary: &Summary) {
    let all: Vec<(&CellSummary, &Added)> = summary
        .cells
        .iter()
        .flat_map(|cell| cell.added.iter().map(move |added| (cell, added)))
        .collect();
    if all.is_empty() {
        return;
    }
    let row = |(cell, added): &(&CellSummary, &Added)| {
        let arm = &summary.arms[added.arm];
        let what = match arm.again_of {
            Some(original) => format!("{} against itself", summary.arms[original].name),
            None => arm.name.clone(),
        };
        let figure = |estimate: Option<_>| match estimate {
            Some(estimate) => Cell::number(words::difference(&estimate)),
            None => Cell::no_figure("too few"),
        };
        vec![
            Cell::text(words::unusual(&cell.cell)),
            Cell::arm(added.arm, &what),
            figure(added.p50_us),
            figure(added.p99_us),
        ]
    };
    let rows: Vec<Vec<Cell>> = all.iter().map(row).collect();
    page.folded(
        "What edge and link add to the way to the cloud",
        rows.len() <= 8,
        |page| {
            page.paragraph(
            "A load is the paper's defaults (64 B, QoS 1, every 200 ms, one device, a line of 30 ms) but for what is named. Less d-c, within blocks measured together, with the interval: the line's own delay, and what the emulator \
             adds to it, are in both. The same model against itself is the noise of this machine.",
        );
            page.table("", &["load", "model", "p50", "p99"], &rows);
        },
    );
}

/// What was busy, as the paper's Fig. 5 (j).
fn busy(page: &mut Page, summary: &Summary) {
    let percent = |share: Option<f64>| share.map_or(String::new(), |share| format!("{:.0} %", share * 100.0));
    let row = |cell: &CellSummary, arm: usize| {
        let result = cell.arm(arm)?;
        let limit = result.limit().map_or("nothing".to_owned(), words::limit);
        Some(vec![
            Cell::text(words::unusual(&cell.cell)),
            Cell::arm(arm, &summary.arms[arm].name),
            Cell::number(percent(result.busy.cpu)),
            Cell::number(percent(result.busy.edge_cpu)),
            Cell::number(percent(result.busy.line)),
            Cell::number(words::count(result.busy.dropped_packets)),
            Cell::text(limit),
        ])
    };
    let models = plain::models(summary);
    let rows = summary
        .cells
        .iter()
        .flat_map(|cell| models.iter().filter_map(move |arm| row(cell, *arm)));
    let rows: Vec<Vec<Cell>> = rows.collect();
    page.folded(
        "What was busy, and what was the limit (Fig. 5 j)",
        rows.len() <= 8,
        |page| {
            page.table(
                "",
                &[
                    "load",
                    "model",
                    "servers' core",
                    "edge's CPU",
                    "line",
                    "dropped at its queue",
                    "limit",
                ],
                &rows,
            );
        },
    );
}

/// As the paper's Fig. 8: its systems and ours against what industry asks for.
fn gap(page: &mut Page, summary: &Summary) {
    page.subheading("The gap to what industry asks for (Fig. 8)");
    let (round_trip, interval, nodes) = ASKED;
    let charts = [
        (
            "Mean round trip at the paper's defaults (log): the shorter the better",
            rows(summary, |paper| paper.1, words::millis, mean_ms),
            round_trip,
            format!("asked for: {round_trip} ms"),
        ),
        (
            "Shortest interval from which on no longer one fails to be deterministic (log): the shorter the better",
            rows(summary, |paper| paper.2, words::millis, shortest_interval_ms),
            interval,
            format!("asked for: {interval} ms"),
        ),
        (
            "Most devices without loss or trend, of those tried (log): the more the better",
            rows(
                summary,
                |paper| paper.3,
                |nodes| words::count(nodes as u64),
                most_devices,
            ),
            nodes,
            format!("asked for: {nodes} nodes"),
        ),
    ];
    for (caption, rows, asked, words) in charts {
        if let Some(svg) = gaps(&rows, asked, &words) {
            page.figure(&svg, "", caption);
        }
    }
}

fn rows(
    summary: &Summary,
    of_paper: fn(&(&str, f64, f64, f64)) -> f64,
    words: fn(f64) -> String,
    of_ours: impl Fn(&Summary, usize) -> Option<f64>,
) -> Vec<Gap> {
    let paper = PAPER.iter().map(|paper| Gap {
        label: paper.0.to_owned(),
        class: "a7".to_owned(),
        value: of_paper(paper),
        words: words(of_paper(paper)),
    });
    let ours = super::page::originals(summary).filter_map(|(arm, facts)| {
        let value = of_ours(summary, arm)?;
        Some(Gap {
            label: format!("here: {}", facts.name),
            class: class(arm),
            value,
            words: words(value),
        })
    });
    paper.chain(ours).collect()
}

fn mean_ms(summary: &Summary, arm: usize) -> Option<f64> {
    let result = summary.cells.first()?.arm(arm).filter(|result| result.is_valid())?;
    result.response.mean_us.map(|us| us / 1e3)
}

/// From the longest interval down to the first that fails; undecided ones do not.
fn shortest_interval_ms(summary: &Summary, arm: usize) -> Option<f64> {
    let cells = &plain::sweep(summary, Swept::Interval)?.cells;
    let downwards = cells.iter().rev().map(|cell| &summary.cells[*cell]);
    let holds = |cell: &&CellSummary| {
        let result = cell.arm(arm).filter(|result| result.is_valid());
        result.is_some_and(|result| result.determinism.outcome() != Outcome::Fail)
    };
    let last = downwards.take_while(holds).last()?;
    Some(last.cell.interval_us? as f64 / 1e3)
}

fn most_devices(summary: &Summary, arm: usize) -> Option<f64> {
    let cells = plain::sweep(summary, Swept::Devices)?
        .cells
        .iter()
        .map(|cell| &summary.cells[*cell]);
    let holds = |cell: &&CellSummary| {
        let result = cell.arm(arm).filter(|result| result.is_valid());
        let kept = |result: &crate::report::ArmResult| {
            result.counts.lost + result.counts.unsent == 0 && result.determinism.no_buffering != Outcome::Fail
        };
        result.is_some_and(kept)
    };
    let last = cells.take_while(holds).last()?;
    Some(f64::from(last.cell.devices))
}
