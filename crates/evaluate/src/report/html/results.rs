//! Figures in tables, and the ratios between arms.

use super::page::{Cell, Page, class, legend, originals};
use super::words::{self, count};
use crate::report::plot::{Bar, ratios};
use crate::report::{Against, ArmResult, CellSummary, Summary};
use crate::stats::{Comparison, Estimate, Verdict};

/// Loads shown unfolded.
const UNFOLDED: usize = 3;

pub(super) fn sections(page: &mut Page, summary: &Summary) {
    page.heading("results", "Results");
    page.paragraph(
        "Response time: from the moment the schedule wanted the message sent until its answer came, so that a sender \
         held up is counted too. Lost messages count as infinitely late. Below a figure stands its interval. CPU is the \
         server's time a round trip.",
    );
    systems(page, summary);
    if summary.cells.len() > UNFOLDED {
        overview(page, summary);
    }
    for (number, cell) in summary.cells.iter().enumerate() {
        page.folded(&words::cell(&cell.cell), number < UNFOLDED, |page| {
            cell_table(page, summary, cell);
        });
    }
    ratio_section(page, summary);
}

/// What was measured: versions and settings.
fn systems(page: &mut Page, summary: &Summary) {
    let rows: Vec<Vec<Cell>> = originals(summary)
        .map(|(number, arm)| vec![Cell::arm(number, &arm.name), Cell::text(&arm.label)])
        .collect();
    page.table("", &["arm", "version and settings"], &rows);
}

/// All loads in one table.
fn overview(page: &mut Page, summary: &Summary) {
    let arms: Vec<(usize, &str)> = originals(summary)
        .map(|(number, arm)| (number, arm.name.as_str()))
        .collect();
    let columns: Vec<&str> = [""].into_iter().chain(arms.iter().map(|(_, name)| *name)).collect();
    let row = |cell: &CellSummary| {
        let figures = |(arm, _): &(usize, &str)| match cell.arm(*arm) {
            Some(result) if result.is_valid() => {
                let (p50, p99) = (result.response.p50, result.response.p99);
                Cell::figure(
                    &words::micros(p50.as_ref()),
                    &format!("p99 {}", words::micros(p99.as_ref())),
                )
            }
            Some(_) => Cell::figure("invalid", ""),
            None => Cell::figure("", ""),
        };
        [Cell::text(words::cell(&cell.cell))]
            .into_iter()
            .chain(arms.iter().map(figures))
            .collect()
    };
    let rows: Vec<Vec<Cell>> = summary.cells.iter().map(row).collect();
    page.table("All loads: p50 in µs, below it p99", &columns, &rows);
}

fn cell_table(page: &mut Page, summary: &Summary, cell: &CellSummary) {
    let against = words::baseline(&summary.arms).map_or(String::new(), |arm| format!("× {}", arm.name));
    let columns = [
        "",
        "p50 µs",
        "p95 µs",
        "p99 µs",
        "p99.9 µs",
        "lost",
        "CPU µs",
        &format!("p50 {against}"),
        &format!("p99 {against}"),
        &format!("CPU {against}"),
    ];
    let mut rows: Vec<Vec<Cell>> = cell
        .arms
        .iter()
        .filter(|result| summary.arms[result.arm].again_of.is_none())
        .map(|result| row(summary, result))
        .collect();
    rows.extend(cell.noise.map(|noise| noise_row(summary, &noise)));
    page.table("", &columns, &rows);
    other_readings(page, summary, cell);
}

/// The same messages by the other two definitions of a round trip.
fn other_readings(page: &mut Page, summary: &Summary, cell: &CellSummary) {
    let micros = |us: Option<f64>| Cell::number(us.map_or("lost".to_owned(), words::micros_of));
    let row = |result: &ArmResult| {
        let mut cells = vec![Cell::arm(result.arm, &summary.arms[result.arm].name)];
        cells.push(micros(result.response.mean_us));
        cells.extend([result.service.mean_us, result.service.p50_us, result.service.p99_us].map(micros));
        match result.paper {
            Some(paper) => cells.extend([paper.mean_us, paper.p50_us, paper.p99_us].map(micros)),
            None => cells.extend((0..3).map(|_| Cell::number("not said"))),
        }
        cells
    };
    let originals = cell
        .arms
        .iter()
        .filter(|result| summary.arms[result.arm].again_of.is_none());
    let columns = [
        "",
        "mean µs",
        "service mean",
        "p50",
        "p99",
        "paper's Eq. 1 mean",
        "p50",
        "p99",
    ];
    page.table(
        "Service time (from the actual send) and the paper's round trip (less the responder's own time), in µs",
        &columns,
        &originals.map(row).collect::<Vec<_>>(),
    );
}

fn row(summary: &Summary, result: &ArmResult) -> Vec<Cell> {
    let arm = &summary.arms[result.arm];
    let response = &result.response;
    let mut cells = vec![Cell::arm(result.arm, &arm.name)];
    cells.extend([response.p50, response.p95, response.p99, response.p999].map(figure));
    cells.push(Cell::number(count(result.counts.lost + result.counts.unsent)));
    cells.push(Cell::number(
        result.load.server_cpu_us.map_or(String::new(), words::number),
    ));
    if !result.is_valid() {
        cells.extend([
            Cell::judged("invalid", "invalid", ""),
            Cell::text("see Verdicts"),
            Cell::text(""),
        ]);
        return cells;
    }
    let shown = |comparison: Option<Comparison>, verdict: fn(&Verdict) -> String| match comparison {
        Some(comparison) => compared(&comparison, verdict),
        None => Cell::text(if arm.baseline { "1" } else { "" }),
    };
    let against = result.against;
    cells.push(shown(against.map(|against| against.p50), words::verdict));
    cells.push(shown(against.map(|against| against.p99), words::verdict));
    cells.push(shown(
        against.and_then(|against| against.server_cpu),
        words::cost_verdict,
    ));
    cells
}

fn noise_row(summary: &Summary, noise: &Against) -> Vec<Cell> {
    let name = &summary.arms[noise.other].name;
    let mut cells = vec![Cell::text(format!("noise: {name} against itself"))];
    cells.extend((0..6).map(|_| Cell::text("")));
    let ratio = |comparison: Comparison| comparison.ratio.as_ref().map(words::ratio);
    let ratios = [Some(noise.p50), Some(noise.p99), noise.server_cpu];
    cells.extend(ratios.map(|comparison| {
        let ratio = comparison.and_then(ratio).unwrap_or_default();
        Cell::judged("interval", &ratio, "")
    }));
    cells
}

fn figure(estimate: Option<Estimate>) -> Cell {
    let Some(Estimate { value, interval }) = estimate else {
        return Cell::no_figure("too few");
    };
    let interval = format!(
        "{} … {}",
        words::micros_of(interval.low),
        words::micros_of(interval.high)
    );
    Cell::figure(&words::micros_of(value), &interval)
}

fn compared(comparison: &Comparison, verdict: fn(&Verdict) -> String) -> Cell {
    let ratio = comparison.ratio.as_ref().map_or(String::new(), words::ratio);
    let class = match comparison.verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent { .. } => "",
        Verdict::Undecided(_) => "undecided",
    };
    Cell::judged_below(class, &verdict(&comparison.verdict), &ratio)
}

fn ratio_section(page: &mut Page, summary: &Summary) {
    page.heading("ratios", "Ratios to the baseline");
    let mut drawn = 0;
    for cell in &summary.cells {
        let bars: Vec<Bar> = cell
            .arms
            .iter()
            .flat_map(|result| bars(summary, cell, result))
            .collect();
        let Some(svg) = ratios(&bars) else { continue };
        page.folded(&words::cell(&cell.cell), drawn < UNFOLDED, |page| {
            page.figure(&svg, &legend(summary), &caption(summary));
        });
        drawn += 1;
    }
    if drawn == 0 {
        page.paragraph("None: no other arm and the baseline have valid results under the same load.");
    }
}

fn caption(summary: &Summary) -> String {
    let name = words::baseline(&summary.arms).map_or("the baseline", |arm| arm.name.as_str());
    format!(
        "Median of the ratios to {name} within blocks measured together, with its interval; CPU is the server's time a \
         round trip. An interval left of 1 and a dot outside the shaded noise is faster; within ±{} % of 1 is the same.",
        words::round(summary.judging.equivalence_margin * 100.0)
    )
}

fn bars(summary: &Summary, cell: &CellSummary, result: &ArmResult) -> Vec<Bar> {
    let arm = &summary.arms[result.arm];
    let Some(against) = result.against.filter(|_| arm.again_of.is_none()) else {
        return Vec::new();
    };
    let bar = |name: &str, of: fn(&Against) -> Option<Comparison>, verdict: fn(&Verdict) -> String| {
        let comparison = of(&against)?;
        let noise = cell.noise.as_ref().and_then(of).and_then(|noise| noise.ratio);
        comparison.ratio.map(|ratio| Bar {
            label: format!("{} {name}", arm.name),
            class: class(result.arm),
            ratio,
            verdict: verdict(&comparison.verdict),
            noise: noise.map(|ratio| ratio.interval),
        })
    };
    let bars = [
        bar("p50", |against| Some(against.p50), words::verdict),
        bar("p99", |against| Some(against.p99), words::verdict),
        bar("CPU", |against| against.server_cpu, words::cost_verdict),
    ];
    bars.into_iter().flatten().collect()
}
