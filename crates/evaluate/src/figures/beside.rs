//! The paper's figure beside ours (rule 13).

use serde::Serialize;

use super::{Counterpart, Figure, Paper, Statistic};
use crate::report::{ArmResult, CellSummary, Summary, Swept, words};
use crate::run::Cell;
use crate::stats::Outcome;

/// A figure of the paper and what was measured here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// Key of the figure.
    pub id: String,
    /// What was measured, in which model, under which conditions.
    pub what: String,
    /// The paper's value with its unit.
    pub reported: String,
    /// Section, table or figure.
    pub place: String,
    /// Ours, with its unit; absent where this run has none.
    pub ours: Option<String>,
}

/// All figures of a paper beside a run's.
pub fn beside(paper: &Paper, summary: &Summary) -> Vec<Beside> {
    let ours = |figure: &Figure| figure.ours.as_ref().and_then(|ours| counterpart(ours, summary));
    each_beside(paper, ours)
}

/// All figures of a paper, each beside what `ours` has of it.
pub(super) fn each_beside(paper: &Paper, ours: impl Fn(&Figure) -> Option<String>) -> Vec<Beside> {
    let row = |figure: &Figure| Beside {
        id: figure.id.clone(),
        what: what(figure),
        reported: figure.reported(),
        place: figure.place.clone(),
        ours: ours(figure),
    };
    paper.figures.iter().map(row).collect()
}

fn what(figure: &Figure) -> String {
    let parts = [Some(&figure.metric), figure.model.as_ref(), figure.conditions.as_ref()];
    parts
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Of every arm that was measured.
fn counterpart(ours: &Counterpart, summary: &Summary) -> Option<String> {
    let found: Vec<String> = ours.arms.iter().filter_map(|arm| of_arm(ours, arm, summary)).collect();
    (!found.is_empty()).then(|| found.join(", "))
}

fn of_arm(ours: &Counterpart, name: &str, summary: &Summary) -> Option<String> {
    let arm = summary.arms.iter().position(|arm| arm.name == name)?;
    let cells: Vec<(&CellSummary, &ArmResult)> = summary
        .cells
        .iter()
        .filter(|cell| matches(ours, &cell.cell))
        .filter_map(|cell| Some((cell, cell.arm(arm)?)))
        .filter(|(_, result)| result.is_valid())
        .collect();
    let value = match ours.statistic {
        Statistic::Mean => mean(&cells),
        Statistic::Worst => worst(&cells),
        Statistic::Growth => growth(&cells, arm, summary),
        Statistic::DeterministicFrom => deterministic_from(arm, summary),
        Statistic::Added => added(arm, summary),
        Statistic::Narrowed => more(arm, summary, Swept::Bandwidth, (1e7, 128e3)),
        Statistic::Crowded => more(arm, summary, Swept::Devices, (1.0, 20.0)),
    }?;
    Some(format!("{value} ({name})"))
}

fn matches(ours: &Counterpart, cell: &Cell) -> bool {
    let interval_ms = cell.interval_us.map(|us| us as f64 / 1e3);
    let interval = ours
        .interval_ms
        .as_ref()
        .is_none_or(|wanted| interval_ms.is_some_and(|ms| wanted.contains(&ms)));
    interval
        && ours.payload_bytes.is_none_or(|wanted| wanted == cell.payload_bytes)
        && ours.devices.is_none_or(|wanted| wanted == cell.devices)
        && ours
            .bandwidth_bit_per_s
            .is_none_or(|wanted| bandwidth(cell) == Some(wanted))
}

fn bandwidth(cell: &Cell) -> Option<u64> {
    cell.wan?.bandwidth_bit_per_s.bit_per_s
}

/// Under the first load that has it.
fn added(arm: usize, summary: &Summary) -> Option<String> {
    let all = summary.cells.iter().flat_map(|cell| &cell.added);
    let p50_us = all.filter(|added| added.arm == arm).find_map(|added| added.p50_us)?;
    Some(words::difference(&p50_us))
}

/// How much longer the mean is at the second value of a sweep than at the first.
fn more(arm: usize, summary: &Summary, swept: Swept, (from, to): (f64, f64)) -> Option<String> {
    let sweep = summary.sweeps.iter().find(|sweep| sweep.swept == swept)?;
    let mean_us = |value: f64| {
        let cells = sweep.cells.iter().map(|cell| &summary.cells[*cell]);
        let mut at = cells.filter(|cell| swept.value(&cell.cell) == Some(value));
        let result = at.next()?.arm(arm).filter(|result| result.is_valid())?;
        result.response.mean_us
    };
    Some(format!("{:+.0} %", (mean_us(to)? / mean_us(from)? - 1.0) * 100.0))
}

/// Of the first cell that matches: sweeps go from it.
fn mean(cells: &[(&CellSummary, &ArmResult)]) -> Option<String> {
    let (_, result) = cells.first()?;
    result.response.mean_us.map(crate::report::duration)
}

fn worst(cells: &[(&CellSummary, &ArmResult)]) -> Option<String> {
    let lost: u64 = cells
        .iter()
        .map(|(_, result)| result.counts.lost + result.counts.unsent)
        .sum();
    let worst = cells
        .iter()
        .filter_map(|(_, result)| result.response.worst_us)
        .max_by(f64::total_cmp)?;
    let words = crate::report::duration(worst);
    Some(if lost > 0 {
        format!("{words}, {lost} lost")
    } else {
        words
    })
}

fn growth(cells: &[(&CellSummary, &ArmResult)], arm: usize, summary: &Summary) -> Option<String> {
    let (large, result) = cells.first()?;
    let holds = |cells: &[usize]| cells.iter().any(|cell| summary.cells[*cell].cell == large.cell);
    let sweep = summary
        .sweeps
        .iter()
        .find(|sweep| sweep.swept == Swept::Payload && holds(&sweep.cells))?;
    let least = summary.cells[*sweep.cells.first()?].arm(arm)?;
    Some(format!("{:.2} ×", result.response.mean_us? / least.response.mean_us?))
}

/// Over the sweep of intervals: the least from which on every one is deterministic, and those among them of which it is
/// not known.
fn deterministic_from(arm: usize, summary: &Summary) -> Option<String> {
    let sweep = summary.sweeps.iter().find(|sweep| sweep.swept == Swept::Interval)?;
    let results = sweep.cells.iter().rev().filter_map(|cell| {
        let cell = &summary.cells[*cell];
        let interval = crate::report::duration(cell.cell.interval_us? as f64);
        Some((interval, cell.arm(arm)?.determinism.outcome()))
    });
    let from_longest: Vec<_> = results.take_while(|(_, outcome)| *outcome != Outcome::Fail).collect();
    let last = from_longest.iter().rposition(|(_, outcome)| *outcome == Outcome::Pass);
    let Some(last) = last else {
        return Some(match from_longest.as_slice() {
            [] => "at no interval of the sweep".to_owned(),
            _ => "undecided".to_owned(),
        });
    };
    let undecided = from_longest[..last]
        .iter()
        .rev()
        .filter(|(_, outcome)| *outcome == Outcome::Undecided);
    let undecided: Vec<&str> = undecided.map(|(interval, _)| interval.as_str()).collect();
    let from = &from_longest[last].0;
    Some(match undecided.as_slice() {
        [] => from.clone(),
        undecided => format!("{from}, undecided at {}", undecided.join(", ")),
    })
}
