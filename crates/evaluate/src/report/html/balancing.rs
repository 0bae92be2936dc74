//! Which node of a site answers, by every policy.

use std::collections::BTreeMap;

use super::page::{Cell, Page, class, keyed};
use super::{papers, record, words};
use crate::balancing::{Arm, CellSummary, Judged, Part, Row, by_node_words, cell_name, cpu_words, judged_words, notes};
use crate::figures::local_scheduling;
use crate::report::Balancing;
use crate::report::plot::{Bar, Kind, Line, Lines, Stroke, Upwards, lines, ratios};
use crate::stats::{Estimate, Outcome};

const COLUMNS: [&str; 9] = [
    "",
    "answers a second",
    "mean",
    "p50",
    "p99",
    "here",
    "lost",
    "predicted",
    "paper",
];

pub(super) fn section(page: &mut Page, found: &Balancing) {
    page.heading("balancing", "Balancing: which node of a site answers");
    for note in notes(&found.run, &found.cells) {
        page.paragraph(&note);
    }
    for curves in curves(&found.cells) {
        curves.draw(page);
    }
    for what in ["throughput", "mean", "p99"] {
        beside_best(page, &found.cells, what);
    }
    for summary in &found.cells {
        cell(page, summary);
    }
    let paper = local_scheduling();
    page.subheading("The paper beside ours");
    page.paragraph(&format!(
        "“{}”, measured on {}. Its figures stand beside the cells that they are of; other machines give others, and of a claim \
         its shape is tested.",
        paper.title, paper.machine
    ));
    papers::claims(page, &found.claims);
    let title = format!("The run, seed {}", found.run.seed);
    page.folded(&title, false, |page| record::balancing(page, &found.run));
}

/// How many times worse local-first is than the best of the others, cell by cell.
fn beside_best(page: &mut Page, cells: &[CellSummary], what: &str) {
    let bar = |summary: &CellSummary| {
        let judged = summary.judged.iter().find(|judged| judged.what == what)?;
        if summary.cell.part == Part::Proxy {
            return None;
        }
        judged.against?;
        let pods = summary.cell.pods_words();
        let clients = summary.cell.clients()?.map(|count| count.to_string()).join(":");
        Some(Bar {
            label: format!("{pods}, {} ms, {clients}", summary.cell.round_trip_ms),
            class: class(0),
            ratio: judged.figure?,
            verdict: words::outcome(judged.outcome).to_owned(),
            noise: None,
        })
    };
    let bars: Vec<Bar> = cells.iter().filter_map(bar).collect();
    if let Some(svg) = ratios(&bars) {
        let words = format!(
            "Local-first, {what}: how many times worse than the best of the other policies, by pods, round trip and clients of \
             each node; below 1 it is better."
        );
        page.figure(&svg, "", &words);
    }
}

fn cell(page: &mut Page, summary: &CellSummary) {
    let rows: Vec<Vec<Cell>> = summary.rows.iter().map(row).collect();
    let pods = summary.cell.pods_words();
    let caption = format!(
        "{}: {pods} pods, {}",
        summary.cell.part.name(),
        cell_name(&summary.cell)
    );
    page.table(&caption, &COLUMNS, &rows);
    for words in [by_node_words(summary), cpu_words(summary)].into_iter().flatten() {
        page.paragraph(&words);
    }
    if !summary.judged.is_empty() {
        let rows: Vec<Vec<Cell>> = summary.judged.iter().map(judged).collect();
        page.table("", &["aim", ""], &rows);
    }
}

fn row(row: &Row) -> Vec<Cell> {
    let paper = |per_s: f64| {
        let mean = row
            .paper_mean_ms
            .map_or(String::new(), |ms| format!(", {} ms", words::round(ms)));
        format!("{}/s{mean}", words::number_set(per_s))
    };
    let predicted = row.predicted.map_or_else(
        || Cell::text(""),
        |predicted| {
            let off = |measured: Option<f64>, predicted: f64| {
                let share = measured.map(|measured| (measured / predicted - 1.0) * 100.0);
                share.map_or_else(|| "–".to_owned(), |percent| format!("{percent:+.1}"))
            };
            let figures = format!(
                "{}/s, {}",
                words::number_set(predicted.per_s),
                words::duration(predicted.mean_us)
            );
            let apart = format!(
                "{}, {}, {} %",
                off(Some(row.per_s.value), predicted.per_s),
                off(row.mean_us.map(|mean| mean.value), predicted.mean_us),
                off(row.p99_us.map(|p99| p99.value), predicted.p99_us)
            );
            Cell::figure(&figures, &apart)
        },
    );
    let mark = match &row.law {
        Some(law) if !law.holds => format!("invalid: {} ({})", row.arm.name(), law.detail),
        _ => row.arm.name().to_owned(),
    };
    vec![
        Cell::unbroken(&mark),
        per_s(&row.per_s),
        time(row.mean_us.as_ref()),
        time(row.p50_us.as_ref()),
        time(row.p99_us.as_ref()),
        Cell::number(format!("{:.0} %", row.here_share * 100.0)),
        Cell::number(words::count(row.lost)),
        predicted,
        Cell::number(row.paper_per_s.map_or(String::new(), paper)),
    ]
}

fn per_s(Estimate { value, interval }: &Estimate) -> Cell {
    let ends = format!(
        "{} … {}",
        words::number_set(interval.low),
        words::number_set(interval.high)
    );
    Cell::figure(&words::number_set(*value), &ends)
}

fn time(estimate: Option<&Estimate>) -> Cell {
    let Some(Estimate { value, interval }) = estimate else {
        return Cell::number("too few");
    };
    let ends = format!("{} … {}", words::duration(interval.low), words::duration(interval.high));
    Cell::figure(&words::duration(*value), &ends)
}

fn judged(judged: &Judged) -> Vec<Cell> {
    let words = judged_words(judged);
    let cell = match judged.outcome {
        Outcome::Pass => Cell::judged("yes", "met", ""),
        Outcome::Fail => Cell::judged("no", "missed", ""),
        Outcome::Undecided => Cell::judged("undecided", "undecided", ""),
    };
    vec![Cell::text(words), cell]
}

/// Load curves of cells that differ in their clients alone.
struct Curves {
    title: String,
    /// Clients, answers a second and mean in µs of each arm.
    arms: BTreeMap<usize, Vec<(f64, f64, f64)>>,
}

fn curves(cells: &[CellSummary]) -> Vec<Curves> {
    let mut all: Vec<Curves> = Vec::new();
    for summary in cells {
        let Some([clients, 0, 0]) = summary.cell.clients() else {
            continue;
        };
        let pods = summary.cell.pods_words();
        let title = format!("{pods} pods, round trip {} ms", summary.cell.round_trip_ms);
        if all.last().is_none_or(|last| last.title != title) {
            all.push(Curves {
                title,
                arms: BTreeMap::new(),
            });
        }
        let Some(curves) = all.last_mut() else { continue };
        for row in &summary.rows {
            let place = Arm::ALL.iter().position(|arm| *arm == row.arm);
            if let (Some(place), Some(mean_us)) = (place, row.mean_us) {
                let point = (f64::from(clients), row.per_s.value, mean_us.value);
                curves.arms.entry(place).or_default().push(point);
            }
        }
    }
    all.retain(|curves| curves.arms.values().any(|points| points.len() > 1));
    all
}

impl Curves {
    fn draw(&self, page: &mut Page) {
        let throughput = Upwards::amounts("answers a second", words::number_set);
        let mean = Upwards::durations("mean response time");
        self.plot(page, throughput, |(_, per_s, _)| per_s, "answers a second");
        self.plot(page, mean, |(_, _, mean_us)| mean_us, "mean response time");
    }

    fn plot(&self, page: &mut Page, upwards: Upwards<'_>, of: fn((f64, f64, f64)) -> f64, what: &str) {
        let line = |(place, points): (&usize, &Vec<(f64, f64, f64)>)| Line {
            class: class(*place),
            stroke: Stroke::Solid,
            points: points.iter().map(|point| (point.0, of(*point))).collect(),
            marked: true,
            knee: None,
        };
        let plot = Lines {
            lines: self.arms.iter().map(line).collect(),
            across: Kind::Linear,
            label: "clients of the first node",
            upwards,
            tick: words::number_set,
            height: 280.0,
        };
        let keys = self
            .arms
            .keys()
            .map(|place| (*place, Arm::ALL[*place].name().to_owned()));
        if let Some(svg) = lines(&plot) {
            page.figure(&svg, &keyed(keys), &format!("{}: {what} over clients.", self.title));
        }
    }
}
