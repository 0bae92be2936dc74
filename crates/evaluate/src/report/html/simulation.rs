//! Which node would answer, under simulated time.

use balance::Policy;

use super::page::{Cell, Page, class, keyed};
use super::{record, words};
use crate::report::Simulation;
use crate::report::plot::{Kind, Line, Lines, Stroke, Upwards, lines};
use crate::simulation::{
    self, CellSummary, Row, Traffic, Winner, Winners, answers, cell_name, maps, notes, traffic_name,
};
use crate::stats::Estimate;

pub(super) fn section(page: &mut Page, found: &Simulation) {
    page.heading("simulation", "Simulation: which node would answer");
    for note in notes(&found.run) {
        page.paragraph(&note);
    }
    page.subheading("What follows");
    for answer in answers(&found.cells, &found.worst) {
        page.paragraph(&answer);
    }
    for map in maps(&found.cells) {
        let columns: Vec<String> = map.loads_percent.iter().map(|percent| format!("{percent} %")).collect();
        let columns: Vec<&str> = std::iter::once("").chain(columns.iter().map(String::as_str)).collect();
        let row = |(round_trip_ms, winners): &(u32, Vec<Winners>)| {
            let first = Cell::unbroken(&format!("{round_trip_ms} ms"));
            std::iter::once(first)
                .chain(winners.iter().map(won))
                .collect::<Vec<_>>()
        };
        let rows: Vec<Vec<Cell>> = map.rows.iter().map(row).collect();
        page.table(&map.title, &columns, &rows);
    }
    for traffic in [Traffic::Even, Traffic::Day, Traffic::Crowd] {
        over_nodes(page, &found.cells, traffic);
    }
    for summary in found.cells.iter().filter(|summary| is_scale(summary)) {
        let asked = words::number_set(summary.asked_per_s);
        let caption = format!("{}, {asked} requests a second of a site", cell_name(summary.cell));
        let rows: Vec<Vec<Cell>> = summary.rows.iter().map(row).collect();
        page.table(
            &caption,
            &["", "answers a second", "mean", "p99", "here", "lost"],
            &rows,
        );
    }
    let title = format!("The run, seed {}", found.run.seed);
    page.folded(&title, false, |page| record::simulation(page, &found.run));
}

fn is_scale(summary: &CellSummary) -> bool {
    matches!(summary.cell, simulation::Cell::Scale { .. })
}

/// Each in the colour that it has elsewhere, the best first.
fn won(winners: &Winners) -> Cell {
    if winners.0.is_empty() {
        return Cell::judged("undecided", "nobody keeps up", "");
    }
    let words = |winner: &Winner| {
        let open = if winner.is_sure { "" } else { "?" };
        (place(winner.policy), format!("{}{open}", winner.policy.name()))
    };
    Cell::arms(winners.0.iter().map(words))
}

fn place(policy: Policy) -> usize {
    Policy::ALL
        .iter()
        .position(|other| *other == policy)
        .unwrap_or_default()
}

fn row(row: &Row) -> Vec<Cell> {
    let time = |estimate: Option<Estimate>| match estimate {
        Some(Estimate { value, interval }) => {
            let ends = format!("{} … {}", words::duration(interval.low), words::duration(interval.high));
            Cell::figure(&words::duration(value), &ends)
        }
        None => Cell::no_figure("too few, or lost"),
    };
    let behind = if row.keeps_up { "" } else { "does not keep up" };
    vec![
        Cell::arm(place(row.policy), row.policy.name()),
        Cell::figure(&words::number_set(row.per_s.value), behind),
        time(row.mean_us),
        time(row.p99_us),
        Cell::number(format!("{:.0} %", row.here_share * 100.0)),
        Cell::number(words::count(row.lost)),
    ]
}

/// p99 of those that keep up, as there are more nodes.
fn over_nodes(page: &mut Page, cells: &[CellSummary], traffic: Traffic) {
    let of_policy = |policy: &Policy| {
        let points = cells.iter().filter_map(|summary| match summary.cell {
            simulation::Cell::Scale { nodes, traffic: of } if of == traffic => {
                let mut rows = summary.rows.iter();
                let row = rows.find(|row| row.policy == *policy && row.keeps_up)?;
                Some((f64::from(nodes), row.p99_us?.value))
            }
            _ => None,
        });
        Line {
            class: class(place(*policy)),
            stroke: Stroke::Solid,
            points: points.collect(),
            marked: true,
            knee: None,
        }
    };
    let plot = Lines {
        lines: Policy::ALL
            .iter()
            .map(of_policy)
            .filter(|line| line.points.len() > 1)
            .collect(),
        across: Kind::Log,
        label: "nodes",
        upwards: Upwards::durations("p99 of response time"),
        tick: words::number_set,
        height: 280.0,
    };
    let keys = Policy::ALL
        .iter()
        .map(|policy| (place(*policy), policy.name().to_owned()));
    if let Some(svg) = lines(&plot) {
        page.figure(
            &svg,
            &keyed(keys),
            &format!("{}: p99 over nodes, of policies that keep up.", traffic_name(traffic)),
        );
    }
}
