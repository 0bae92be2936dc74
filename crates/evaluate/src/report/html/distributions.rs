//! Box plots, percentile spectra, round trip over the message index, load against latency, send lag.

use super::page::keyed;
use super::page::{Cell, Page, class, legend, legend_of, originals};
use super::words;
use crate::report::plain;
use crate::report::plot::{Category, Kind, Line, Lines, Stroke, box_plot, lines};
use crate::report::{
    ArmResult, BoxStatistics, CellSummary, FoundKnee, Shapes, Summary, Sweep, SweepKnees, Swept, knees,
};
use crate::stats::Knee;

pub(super) fn sections(page: &mut Page, summary: &Summary) {
    box_plots(page, summary);
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

/// Boxes over each swept parameter, and of the loads that belong to no sweep.
fn box_plots(page: &mut Page, summary: &Summary) {
    page.heading("boxes", "Box plots");
    page.paragraph(
        "As in the paper's figures: the white circle is the average of the answered, the line in the notch the median, \
         the notch its interval; whiskers reach 1.5 times the box, dots are outliers (at most 40 a box drawn, evenly \
         by rank).",
    );
    for sweep in &summary.sweeps {
        let label = |cell: &CellSummary| words::swept_value(sweep.swept, &cell.cell);
        let cells: Vec<&CellSummary> = sweep.cells.iter().map(|cell| &summary.cells[*cell]).collect();
        page.subheading(&format!(
            "Over {}{}: {}",
            words::swept(sweep.swept),
            figure_of_paper(summary, sweep.swept),
            words::others(sweep.swept, &cells[0].cell)
        ));
        for group in beside(summary) {
            let measured = cells
                .iter()
                .filter(|cell| group.iter().any(|arm| cell.arm(*arm).is_some()));
            if measured.count() >= 2 {
                boxes_of(page, summary, (&cells, &group), label, words::swept(sweep.swept));
            }
        }
    }
    let alone = |number: &usize| !summary.sweeps.iter().any(|sweep| sweep.cells.contains(number));
    for number in (0..summary.cells.len()).filter(alone) {
        let cell = &summary.cells[number];
        for group in beside(summary) {
            boxes_of(
                page,
                summary,
                (&[cell], &group),
                |_| String::new(),
                &words::cell(&cell.cell),
            );
        }
    }
}

/// Over one load the arms stand apart, over several those of one load together.
fn boxes_of(
    page: &mut Page,
    summary: &Summary,
    (cells, arms): (&[&CellSummary], &[usize]),
    label: impl Fn(&CellSummary) -> String,
    axis: &str,
) {
    let categories: Vec<Category<'_>> = match cells {
        [cell] => boxes(summary, cell, arms)
            .map(|boxed| Category {
                label: boxed.1.to_owned(),
                boxes: vec![boxed],
            })
            .collect(),
        cells => {
            let together = |label, cell| Category {
                label,
                boxes: boxes(summary, cell, arms).collect(),
            };
            cells.iter().map(|cell| together(label(cell), cell)).collect()
        }
    };
    if let Some(svg) = box_plot(&categories, axis) {
        page.figure(
            &svg,
            &legend_of(summary, arms),
            "Rest the pointer on a box for its figures.",
        );
    }
}

/// Which figure of the first paper has the models over this parameter.
fn figure_of_paper(summary: &Summary, swept: Swept) -> &'static str {
    if plain::models(summary).is_empty() {
        return "";
    }
    match swept {
        Swept::Interval => " (the paper's Fig. 4 a to e)",
        Swept::Payload => " (Fig. 5 a to d)",
        Swept::Bandwidth => " (Fig. 5 e, f)",
        Swept::Devices => " (Fig. 5 g to i)",
        Swept::Qos => " (Fig. 6)",
        Swept::Concurrency | Swept::Delay => "",
    }
}

/// Arms whose boxes share an axis: all of them, but a model by itself, as in the paper's figures: beside the way to the
/// cloud, that to the edge would be a line at the bottom.
fn beside(summary: &Summary) -> Vec<Vec<usize>> {
    let (models, others): (Vec<usize>, Vec<usize>) = originals(summary)
        .map(|(number, _)| number)
        .partition(|number| summary.arms[*number].is_model());
    let alone = models.into_iter().map(|model| vec![model]);
    alone.chain((!others.is_empty()).then_some(others)).collect()
}

/// Colour class, name and box of these arms.
fn boxes<'a>(
    summary: &'a Summary,
    cell: &'a CellSummary,
    arms: &[usize],
) -> impl Iterator<Item = (String, &'a str, &'a BoxStatistics)> {
    let drawn = cell.arms.iter().filter(|result| arms.contains(&result.arm));
    drawn.filter_map(|result| {
        Some((
            class(result.arm),
            summary.arms[result.arm].name.as_str(),
            result.shapes.boxed.as_ref()?,
        ))
    })
}

/// What the plots of one kind share.
struct Axes {
    across: Kind,
    label: &'static str,
    upwards: &'static str,
    tick: fn(f64) -> String,
}

const SPECTRUM: Axes = Axes {
    across: Kind::Percentile,
    label: "percentile (log of 1/(1 − q))",
    upwards: "round trip",
    tick: percentile,
};
const OVER_INDEX: Axes = Axes {
    across: Kind::Linear,
    label: "message index within a block",
    upwards: "round trip",
    tick: words::number_set,
};
const SEND_LAG: Axes = Axes {
    across: Kind::Percentile,
    label: "percentile (log of 1/(1 − q))",
    upwards: "send lag",
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
            upwards: "round trip",
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
