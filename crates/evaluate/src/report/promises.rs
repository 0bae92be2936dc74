//! Promised figures in one list: what was promised, what was found, and whether it is kept.

use std::fmt::Write as _;

use serde::Serialize;

use super::findings::{Capacity, Gateway};
use super::summary::{Aim, Promised, Quantity, Summary};
use super::words::{self, count};
use crate::capacity::{self, Promise};
use crate::gateway;
use crate::stats::{Estimate, Method, Outcome, Undecided};

const LABEL: usize = 46;
const AIM: usize = 11;
const FIGURE: usize = 27;

/// One promise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Under which load, or of which part.
    pub under: String,
    /// Of whom and what.
    pub promise: String,
    /// What was promised, in words; empty where only the figure was.
    pub aim: String,
    /// What was found, with its interval.
    pub figure: String,
    /// Whether it is kept; absent where only the figure was promised.
    pub outcome: Option<Outcome>,
    /// Why that is undecided.
    pub why: Option<&'static str>,
}

/// Of all experiments.
pub(super) fn lines(experiments: &[Summary], capacity: &[Capacity], gateways: &[Gateway]) -> Vec<Line> {
    let cells = experiments.iter().flat_map(|summary| &summary.cells);
    let round_trips = cells.flat_map(|cell| {
        let under = words::cell(&cell.cell);
        cell.promises.iter().map(move |promised| round_trip(&under, promised))
    });
    let of_gateways = gateways
        .iter()
        .flat_map(|gateway| gateway.rows.iter().filter_map(of_gateway));
    round_trips
        .chain(capacity.iter().flat_map(of_capacity))
        .chain(of_gateways)
        .collect()
}

fn round_trip(under: &str, promised: &Promised) -> Line {
    let against = |quantity, other| format!("{}: {} × {other}", promised.arm, name(quantity));
    let more = |quantity, other| format!("{}: {} more than {other}", promised.arm, name(quantity));
    let (promise, aim) = match promised.aim {
        Aim::AtMost { quantity, other, times } => (against(quantity, other), format!("≤ {times:.2}")),
        Aim::Same {
            quantity,
            other,
            within,
        } => (
            against(quantity, other),
            format!("same ±{} %", words::round(within * 100.0)),
        ),
        Aim::Printed { quantity, other } => (against(quantity, other), String::new()),
        Aim::NoneLost => (format!("{}: messages lost", promised.arm), "0".to_owned()),
        Aim::AddsAtMost { quantity, other, us } => (more(quantity, other), format!("≤ {}", words::duration(us))),
        Aim::AddedPrinted { quantity, other } => (more(quantity, other), String::new()),
        Aim::NoTrend => (
            format!("{}: trend over the message index", promised.arm),
            "none".to_owned(),
        ),
        Aim::Deterministic => (format!("{}: deterministic", promised.arm), "yes".to_owned()),
    };
    let ratio = promised.ratio.as_ref().map(words::ratio);
    let difference = promised.difference_us.as_ref().map(words::difference);
    let figure = ratio.or(difference).or(promised.lost.map(count));
    Line {
        under: under.to_owned(),
        promise,
        aim,
        figure: figure.unwrap_or_default(),
        outcome: promised.outcome,
        why: promised.why.map(words::aim),
    }
}

fn name(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::P50 => "p50",
        Quantity::P99 => "p99",
        Quantity::ServerCpu => "server CPU",
    }
}

/// A row of a gateway, if it holds an aim: of the figure, or of the ratio.
fn of_gateway(row: &gateway::Row) -> Option<Line> {
    let verdict = row.verdict?;
    let ratio = row.comparison.and_then(|comparison| comparison.ratio);
    let (promise, figure) = match verdict.aim {
        gateway::Aim::AtMost(_) => {
            let figure = row
                .figure
                .as_ref()
                .map(|figure| gateway::with_interval(figure, row.unit));
            (row.label.clone(), figure)
        }
        _ => (
            format!("{} × {}", row.label, row.against.unwrap_or_default()),
            ratio.as_ref().map(words::ratio),
        ),
    };
    let why = if row.values == 0 {
        Some("it was not measured: the notes say why")
    } else {
        verdict.why.map(words::aim)
    };
    Some(Line {
        under: format!("gateway: {}", row.section),
        promise,
        aim: gateway::aimed(verdict.aim, row.unit),
        figure: figure.unwrap_or_default(),
        outcome: Some(verdict.outcome),
        why,
    })
}

/// Rows of capacity that hold a promise. An indented row belongs to the one above it.
fn of_capacity(capacity: &Capacity) -> Vec<Line> {
    let mut above = "";
    let mut lines = Vec::new();
    for row in &capacity.rows {
        let promise = match row.label.strip_prefix("  ") {
            Some(part) => format!("{above}: {part}"),
            None => {
                above = &row.label;
                row.label.clone()
            }
        };
        lines.extend(capacity_line(promise, row));
    }
    lines
}

fn capacity_line(promise: String, row: &capacity::Row) -> Option<Line> {
    let verdict = row.verdict?;
    let aim = match verdict.promise {
        Promise::AtMost(bound) => format!("≤ {}", capacity::shown(bound, row.unit)),
        Promise::AtLeast(bound) => format!("≥ {}", capacity::shown(bound, row.unit)),
    };
    let figure = |Estimate { value, interval }: &Estimate| {
        let value = capacity::shown(*value, row.unit);
        if interval.low == interval.high {
            return value;
        }
        let ends = [interval.low, interval.high].map(|end| without_unit(&capacity::shown(end, row.unit), &value));
        format!("{value} ({}…{})", ends[0], ends[1])
    };
    let why = match row.selvedge {
        None => "it was not measured: the notes on capacity say why",
        Some(found) if found.interval.method == Method::Range => words::why(Undecided::TooFewBlocks),
        Some(_) => words::aim(Undecided::Interval),
    };
    Some(Line {
        under: "capacity".to_owned(),
        promise,
        aim,
        figure: row.selvedge.as_ref().map(figure).unwrap_or_default(),
        outcome: Some(verdict.outcome),
        why: (verdict.outcome == Outcome::Undecided).then_some(why),
    })
}

/// The end of an interval, without its unit where the figure has the same.
fn without_unit(end: &str, figure: &str) -> String {
    let unit = |text: &str| {
        text.trim_start_matches(|c: char| c.is_ascii_digit() || ".,".contains(c))
            .to_owned()
    };
    let suffix = unit(end);
    if suffix == unit(figure) {
        end.trim_end_matches(&suffix).to_owned()
    } else {
        end.to_owned()
    }
}

/// `met`, `missed`, `undecided`.
pub(super) fn verdict(line: &Line) -> &'static str {
    match line.outcome {
        Some(Outcome::Pass) => "met",
        Some(Outcome::Fail) => "missed",
        Some(Outcome::Undecided) => "undecided",
        None => "",
    }
}

/// All lines within 100 columns (rule 15), reasons as numbered notes; empty without a line.
pub(super) fn table(lines: &[Line]) -> String {
    let mut out = String::new();
    if lines.is_empty() {
        return out;
    }
    row(&mut out, ["promise", "aim", "figure (interval)", "verdict"]);
    let mut notes: Vec<&str> = Vec::new();
    let (mut under, mut above) = ("", "");
    for line in lines {
        if line.under != under {
            under = &line.under;
            let _ = writeln!(out, "  {}", words::shortened(under, 98));
        }
        let note = line.why.map_or(String::new(), |why| {
            let place = notes.iter().position(|note| *note == why).unwrap_or_else(|| {
                notes.push(why);
                notes.len() - 1
            });
            format!(" [{}]", place + 1)
        });
        let part = line
            .promise
            .strip_prefix(above)
            .and_then(|rest| rest.strip_prefix(": "));
        let label = match part.filter(|_| !above.is_empty()) {
            Some(part) => format!("    {part}"),
            None => {
                above = &line.promise;
                format!("  {}", line.promise)
            }
        };
        let label = words::shortened(&label, LABEL - 1);
        row(
            &mut out,
            [&label, &line.aim, &line.figure, &format!("{}{note}", verdict(line))],
        );
    }
    for (place, note) in notes.iter().enumerate() {
        let _ = writeln!(out, "  [{}] {note}", place + 1);
    }
    out
}

fn row(out: &mut String, [promise, aim, figure, verdict]: [&str; 4]) {
    let text = format!("  {promise:<LABEL$}{aim:<AIM$}{figure:<FIGURE$} {verdict}");
    let _ = writeln!(out, "{}", text.trim_end());
}
