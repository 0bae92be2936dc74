//! Percentile spectra, round trip over the message index, load against latency, send lag.

use super::boxes;
use super::page::{Cell, Page, class, keyed, legend};
use super::words;
use crate::report::plain;
use crate::report::plot::{Kind, Line, Lines, Stroke, Upwards, lines};
use crate::report::{ArmResult, CellSummary, FoundKnee, Shapes, Summary, Sweep, SweepKnees, Swept, knees};
use crate::stats::Knee;

pub(super) fn sections(page: &mut Page, summary: &Summary) {
    boxes::section(page, summary);
    page.heading("spectra", "Percentiles");
    page.paragraph(
        "How late the latest are: each step to the right leaves out nine of ten messages more. A line that ends early \
         has lost the rest.",
    );
    each_cell(
        page,
        summary,
        |shapes| spectrum(&shapes.spectrum),
        &SPECTRUM,
        "A steep end means that few messages take far longer than most.",
    );
    page.heading("index", "Round trip over the message index");
    page.paragraph("A line that rises is buffering: messages queue up faster than they are answered.");
    index_of_models(page, summary);
    each_cell(
        page,
        summary,
        |shapes| over_index(&shapes.over_index),
        &OVER_INDEX,
        "All blocks laid over each other; solid: median, dashed: p95 of the messages around an index.",
    );
    load(page, summary);
    page.subheading("Send lag: how late the generator was");
    page.paragraph("Actual minus intended time of sending. It is part of the response time, and a result is invalid where it matters.");
    each_cell(
        page,
        summary,
        |shapes| spectrum(&shapes.send_lag),
        &SEND_LAG,
        "The generator's own delay; the lower, the less it takes part in the figures.",
    );
}

/// What the plots of one kind share.
struct Axes {
    across: Kind,
    label: &'static str,
    upwards: Upwards<'static>,
    tick: fn(f64) -> String,
}

const SPECTRUM: Axes = Axes {
    across: Kind::Percentile,
    label: "percentile (log of 1/(1 − q))",
    upwards: Upwards::durations("round trip"),
    tick: percentile,
};
const OVER_INDEX: Axes = Axes {
    across: Kind::Linear,
    label: "message index within a block",
    upwards: Upwards::durations("round trip"),
    tick: words::number_set,
};
const SEND_LAG: Axes = Axes {
    across: Kind::Percentile,
    label: "percentile (log of 1/(1 − q))",
    upwards: Upwards::durations("send lag"),
    tick: percentile,
};

fn percentile(q: f64) -> String {
    match q {
        0.0 => "least".to_owned(),
        q => format!("p{}", words::round_to(q * 100.0, 4)),
    }
}

type Strokes = Vec<(Stroke, Vec<(f64, f64)>)>;

fn spectrum(points: &[(f64, f64)]) -> Strokes {
    vec![(Stroke::Solid, points.to_vec())]
}

fn over_index(points: &[(f64, f64, f64)]) -> Strokes {
    let median = points.iter().map(|(index, median, _)| (*index, *median)).collect();
    let p95 = points.iter().map(|(index, _, p95)| (*index, *p95)).collect();
    vec![(Stroke::Solid, median), (Stroke::Dashed, p95)]
}

fn each_cell(page: &mut Page, summary: &Summary, strokes: impl Fn(&Shapes) -> Strokes, axes: &Axes, caption: &str) {
    for (number, cell) in summary.cells.iter().enumerate() {
        let drawn = cell
            .arms
            .iter()
            .filter(|result| summary.arms[result.arm].again_of.is_none());
        let of_arm = |result: &ArmResult| {
            let class = class(result.arm);
            let line = |(stroke, points)| Line {
                class: class.clone(),
                stroke,
                points,
                marked: false,
                knee: None,
            };
            strokes(&result.shapes).into_iter().map(line).collect::<Vec<Line>>()
        };
        let plot = Lines {
            lines: drawn.flat_map(of_arm).collect(),
            across: axes.across,
            label: axes.label,
            upwards: axes.upwards,
            tick: axes.tick,
            height: 320.0,
        };
        let Some(svg) = lines(&plot) else { continue };
        page.folded(&words::cell(&cell.cell), number == 0, |page| {
            page.figure(&svg, &legend(summary), caption);
        });
    }
}

/// As the paper's Fig. 4 (f) to (j): a plot a model, a line for each interval.
fn index_of_models(page: &mut Page, summary: &Summary) {
    let Some(sweep) = plain::sweep(summary, Swept::Interval) else {
        return;
    };
    for arm in plain::models(summary) {
        let cells = sweep.cells.iter().map(|cell| &summary.cells[*cell]);
        let of_cell = |(place, cell): (usize, &CellSummary)| {
            let points = &cell.arm(arm)?.shapes.over_index;
            let most = points.last()?.0;
            Some(Line {
                class: class(place),
                stroke: Stroke::Solid,
                points: points
                    .iter()
                    .map(|(index, median, _)| (index / most, *median))
                    .collect(),
                marked: false,
                knee: None,
            })
        };
        let plot = Lines {
            lines: cells.clone().enumerate().filter_map(of_cell).collect(),
            across: OVER_INDEX.across,
            label: "place of the message in its block: 0 the first, 1 the last",
            upwards: OVER_INDEX.upwards,
            tick: OVER_INDEX.tick,
            height: 280.0,
        };
        let keys = cells
            .map(|cell| words::swept_value(Swept::Interval, &cell.cell))
            .enumerate();
        if let Some(svg) = lines(&plot) {
            let name = &summary.arms[arm].name;
            page.figure(
                &svg,
                &keyed(keys),
                &format!("{name}: medians around a place, a line for each interval."),
            );
        }
    }
}

fn load(page: &mut Page, summary: &Summary) {
    page.heading("load", "Load against latency");
    let loads: Vec<&Sweep> = summary.sweeps.iter().filter(|sweep| sweep.swept.is_load()).collect();
    if loads.is_empty() {
        page.paragraph("Not measured in this run: it takes a sweep over interval, devices or concurrency.");
    } else if loads.iter().all(|sweep| sweep.knees.is_empty()) {
        page.paragraph("No arm has valid results, with enough messages for p99, under two loads.");
    }
    if !summary.knees.is_empty() {
        found_knees(page, summary);
    }
    for sweep in loads.into_iter().filter(|sweep| !sweep.knees.is_empty()) {
        page.subheading(&format!("By {}", words::swept(sweep.swept)));
        let plot = Lines {
            lines: sweep.knees.iter().flat_map(load_lines).collect(),
            across: Kind::Log,
            label: "messages offered a second, all devices (log)",
            upwards: Upwards::durations("round trip"),
            tick: words::number_set,
            height: 340.0,
        };
        if let Some(svg) = lines(&plot) {
            page.figure(&svg, &legend(summary), &load_words(summary));
            knee_table(page, summary, sweep);
        }
    }
}

/// What a search has found.
fn found_knees(page: &mut Page, summary: &Summary) {
    page.paragraph(&format!(
        "The search climbs by octaves until p99 is over {} or more than {} % of the messages are lost, halves what lies \
         between down to steps of 9 %, and confirms the highest rate that held with blocks of its own; the figures are \
         theirs.",
        knees::p99_bound(summary),
        knees::lost_bound(summary)
    ));
    let row = |found: &FoundKnee| {
        vec![
            Cell::arm(found.arm, &summary.arms[found.arm].name),
            Cell::number(knees::rate(found)),
            Cell::text(if found.confirmed { "confirmed" } else { "not confirmed" }),
            Cell::number(knees::p99(found)),
            Cell::number(words::count(found.lost as u64)),
            Cell::number(words::count(found.messages as u64)),
            Cell::number(found.steps.to_string()),
        ]
    };
    let columns = [
        "",
        "messages/s",
        "",
        "p99 µs (interval)",
        "lost",
        "of messages",
        "rates tried",
    ];
    page.table("Knees", &columns, &summary.knees.iter().map(row).collect::<Vec<_>>());
}

fn load_lines(knees: &SweepKnees) -> [Line; 2] {
    let knee = knees.bounded.and_then(|knee| match knee {
        Knee::At { offered_per_s } => Some(offered_per_s),
        _ => None,
    });
    let line = |stroke, points, knee| Line {
        class: class(knees.arm),
        stroke,
        points,
        marked: true,
        knee,
    };
    let finite = |points: Vec<(f64, f64)>| points.into_iter().filter(|(_, us)| us.is_finite()).collect();
    let p99 = finite(
        knees
            .points
            .iter()
            .map(|point| (point.offered_per_s, point.p99_us))
            .collect(),
    );
    let p50 = finite(
        knees
            .points
            .iter()
            .map(|point| (point.offered_per_s, point.p50_us))
            .collect(),
    );
    [line(Stroke::Solid, p99, knee), line(Stroke::Dashed, p50, None)]
}

fn load_words(summary: &Summary) -> String {
    format!(
        "Solid: p99, dashed: p50; a ring marks the knee, the highest load with p99 ≤ {} and at most {} % lost.",
        knees::p99_bound(summary),
        knees::lost_bound(summary)
    )
}

fn knee_table(page: &mut Page, summary: &Summary, sweep: &Sweep) {
    let row = |knees: &SweepKnees| {
        vec![
            Cell::arm(knees.arm, &summary.arms[knees.arm].name),
            Cell::text(words::knee(knees.optimum.as_ref())),
            Cell::text(words::knee(knees.bounded.as_ref())),
        ]
    };
    let rows: Vec<Vec<Cell>> = sweep.knees.iter().map(row).collect();
    page.table("", &["", "most messages answered", "knee"], &rows);
}
