//! Promised figures in one list: what was promised, what was found, and whether it is kept.

use std::fmt::Write as _;

use serde::Serialize;

use super::findings::{Balancing, Capacity, Gateway};
use super::summary::{Aim, Promised, Quantity, Summary};
use super::words::{self, count};
use crate::balancing::{self, Judged};
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
pub(super) fn lines(
    experiments: &[Summary],
    capacity: &[Capacity],
    gateways: &[Gateway],
    balancing: &[Balancing],
) -> Vec<Line> {
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
        .chain(balancing.iter().flat_map(of_balancing))
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

/// What `local-first` is held against: beside the other policies the worst of all cells, each bound for itself.
fn of_balancing(found: &Balancing) -> Vec<Line> {
    let all = found
        .cells
        .iter()
        .flat_map(|summary| summary.judged.iter().map(move |judged| (&summary.cell, judged)));
    let (beside_others, bounds): (Vec<_>, Vec<_>) = all.partition(|(_, judged)| judged.against.is_some());
    let worst = ["throughput", "mean", "p99"].into_iter().filter_map(|what| {
        let all: Vec<_> = beside_others.iter().filter(|(_, judged)| judged.what == what).collect();
        let badness = |judged: &Judged| match judged.outcome {
            Outcome::Fail => 2,
            Outcome::Undecided => 1,
            Outcome::Pass => 0,
        };
        let figure = |judged: &Judged| judged.figure.map_or(0.0, |figure| figure.value);
        let worst = all.iter().max_by(|(_, one), (_, other)| {
            badness(one)
                .cmp(&badness(other))
                .then(figure(one).total_cmp(&figure(other)))
        });
        let (cell, judged) = worst?;
        let kept = all.iter().filter(|(_, judged)| judged.outcome == Outcome::Pass).count();
        Some(Line {
            under: format!(
                "{what}, kept in {kept} of {} cells; the worst: {}",
                all.len(),
                in_short(cell)
            ),
            promise: format!("local-first × {}", judged.against.unwrap_or_default()),
            aim: format!("≤ {:.2}", judged.most),
            figure: judged.figure.as_ref().map(words::ratio).unwrap_or_default(),
            outcome: Some(judged.outcome),
            why: judged.why.map(words::aim),
        })
    });
    worst
        .chain(bounds.into_iter().map(|(cell, judged)| of_bound(cell, judged)))
        .collect()
}

fn of_bound(cell: &balancing::Cell, judged: &Judged) -> Line {
    let is_count = judged.what == "lost";
    let shown = |value: f64| {
        if is_count {
            count(value as u64)
        } else {
            words::duration(value)
        }
    };
    let figure = |figure: Estimate| match is_count {
        true => shown(figure.value),
        false => format!(
            "{} ({}…{})",
            shown(figure.value),
            shown(figure.interval.low),
            shown(figure.interval.high)
        ),
    };
    let why = || match judged.figure?.interval.method {
        Method::Range => Some(Undecided::TooFewBlocks),
        _ => Some(Undecided::Interval),
    };
    let is_open = judged.outcome == Outcome::Undecided;
    Line {
        under: format!("which node answers: {}", in_short(cell)),
        promise: format!("local-first: {}", judged.what),
        aim: format!("≤ {}", shown(judged.most)),
        figure: judged.figure.map(figure).unwrap_or_default(),
        outcome: Some(judged.outcome),
        why: judged.why.or_else(why).filter(|_| is_open).map(words::aim),
    }
}

/// `4-4-4 pods, round trip 30 ms, …`.
fn in_short(cell: &balancing::Cell) -> String {
    format!("{} pods, {}", cell.pods_words(), balancing::cell_name(cell))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancing::{Arm, Cell, Load, Part, Seen, Work, run_of, summarise};

    #[test]
    fn of_which_node_answers_the_worst_cell_beside_the_others_is_a_line_and_each_bound() {
        let closed = Cell {
            part: Part::Delay,
            pods: [4, 4, 4],
            round_trip_ms: 30,
            load: Load::Closed([16, 0, 0]),
            event: None,
            work: Work::Wait,
        };
        let open = Cell {
            part: Part::Overload,
            round_trip_ms: 15,
            load: Load::Open(1_000),
            ..closed
        };
        let seen = |us: u32| {
            let count = 1_000_000 / us;
            let seen = Seen {
                wall_s: 1.0,
                answered: count.into(),
                answers_us: vec![Some(us); count as usize],
                ..Seen::default()
            };
            [seen, Seen::default(), Seen::default()]
        };
        let mut run = run_of(closed, &[(Arm::Local, seen(1_000)), (Arm::LocalFirst, seen(2_000))], 2);
        run.done.extend(run_of(open, &[(Arm::LocalFirst, seen(1_000))], 2).done);
        run.done.last_mut().unwrap().seen = seen(2_000);
        let found = Balancing {
            cells: summarise(&run),
            claims: Vec::new(),
            run,
        };
        let lines = of_balancing(&found);
        let promises: Vec<&str> = lines.iter().map(|line| line.promise.as_str()).collect();
        assert_eq!(promises[..3], ["local-first × local"; 3]);
        assert_eq!(promises[3..], ["local-first: lost", "local-first: p99"]);
        assert!(
            lines[0]
                .under
                .starts_with("throughput, kept in 0 of 1 cells; the worst: 4-4-4 pods")
        );
        assert_eq!(lines[3].outcome, Some(Outcome::Pass));
        // Two blocks give a range, and no interval.
        assert_eq!(lines[4].why, Some(words::aim(Undecided::TooFewBlocks)));
    }
}
