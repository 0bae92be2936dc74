//! Verdicts: what it is good for, determinism, sanity, and what it cost.

use super::page::{Cell, Page, originals};
use super::words::{self, count};
use crate::report::{ArmResult, CellSummary, LawResult, Summary};
use crate::stats::Outcome;

/// Rows of a table shown unfolded.
const UNFOLDED: usize = 16;

pub(super) fn sections(page: &mut Page, summary: &Summary) {
    page.heading("verdicts", "Verdicts");
    requirements(page, summary);
    determinism(page, summary);
    sanity(page, summary);
    costs(page, summary);
}

fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "yes",
        Outcome::Fail => "no",
        Outcome::Undecided => "undecided",
    }
}

fn requirements(page: &mut Page, summary: &Summary) {
    page.subheading("What it is good for");
    page.paragraph(
        "Requirements as the paper collects them. Yes: the whole interval of p99 lies below the bound; no: it lies \
         above; undecided: it holds the bound, or there are too few messages. Beside it the messages that were later \
         than the bound or lost.",
    );
    for (number, cell) in summary.cells.iter().enumerate() {
        page.folded(&words::cell(&cell.cell), number == 0, |page| {
            requirement_table(page, summary, cell);
        });
    }
}

fn requirement_table(page: &mut Page, summary: &Summary, cell: &CellSummary) {
    let results: Vec<&ArmResult> = originals(summary).filter_map(|(arm, _)| cell.arm(arm)).collect();
    let Some(first) = results.first() else { return };
    let columns: Vec<&str> = ["", "bound"]
        .into_iter()
        .chain(results.iter().map(|r| summary.arms[r.arm].name.as_str()))
        .collect();
    let row = |(place, verdict): (usize, &crate::report::RequirementVerdict)| {
        let mut cells = vec![
            Cell::text(&verdict.requirement.name),
            Cell::text(verdict.requirement.bound()),
        ];
        cells.extend(results.iter().map(|result| requirement(result, place)));
        cells
    };
    let rows: Vec<Vec<Cell>> = first.requirements.iter().enumerate().map(row).collect();
    page.table("", &columns, &rows);
}

fn requirement(result: &ArmResult, place: usize) -> Cell {
    if !result.is_valid() {
        return Cell::judged("invalid", "invalid", "");
    }
    let verdict = &result.requirements[place];
    let missed = format!("{} of {}", count(verdict.missed as u64), count(verdict.messages as u64));
    Cell::judged(class(verdict.outcome), words::outcome(verdict.outcome), &missed)
}

fn determinism(page: &mut Page, summary: &Summary) {
    page.subheading("Deterministic or not");
    let thresholds = &summary.judging.determinism;
    page.paragraph(&format!(
        "Deterministic means: the round trip does not rise over the message index (slope above zero by its interval, \
         and more than {} % of p50 over a block), p99 − p50 is at most {} × p50, and at most {} in 1,000 messages miss \
         the deadline, which is {}.",
        words::round(thresholds.rise_of_p50 * 100.0),
        words::round(thresholds.spread_of_p50),
        words::round(thresholds.missed * 1000.0),
        summary.judging.deadline_us.map_or_else(
            || "the next message of the device, over a line at least twice its delay, or in a closed loop the timeout"
                .to_owned(),
            words::duration
        )
    ));
    let columns = [
        "load",
        "arm",
        "verdict",
        "slope (interval), ms a message",
        "p99 − p50",
        "later than the deadline",
    ];
    let rows: Vec<Vec<Cell>> = each_result(summary)
        .map(|(cell, result)| determinism_row(summary, cell, result))
        .collect();
    page.folded(
        &format!("{} results judged", rows.len()),
        rows.len() <= UNFOLDED,
        |page| {
            page.table("", &columns, &rows);
        },
    );
}

fn each_result(summary: &Summary) -> impl Iterator<Item = (&CellSummary, &ArmResult)> {
    let results = summary
        .cells
        .iter()
        .flat_map(|cell| cell.arms.iter().map(move |result| (cell, result)));
    results.filter(|(_, result)| summary.arms[result.arm].again_of.is_none())
}

fn determinism_row(summary: &Summary, cell: &CellSummary, result: &ArmResult) -> Vec<Cell> {
    let judged = &result.determinism;
    let outcome = judged.outcome();
    let deadline = words::duration(result.deadline_us);
    let slope = result
        .trend
        .as_ref()
        .map_or_else(|| "too few".to_owned(), words::slope_figures);
    vec![
        Cell::text(words::cell(&cell.cell)),
        Cell::arm(result.arm, &summary.arms[result.arm].name),
        Cell::judged(class(outcome), words::outcome(outcome), ""),
        Cell::judged(class(judged.no_buffering), &slope, ""),
        Cell::judged(
            class(judged.narrow),
            &judged.spread.map_or_else(|| "too few".to_owned(), words::duration),
            "",
        ),
        Cell::judged(
            class(judged.punctual),
            &count(judged.missed as u64),
            &format!("of {}, {deadline}", count(judged.messages as u64)),
        ),
    ]
}

fn sanity(page: &mut Page, summary: &Summary) {
    page.subheading("Sanity laws");
    let results = || {
        summary
            .cells
            .iter()
            .flat_map(|cell| cell.arms.iter().map(move |result| (cell, result)))
    };
    let invalid = results().filter(|(_, result)| !result.is_valid()).count();
    let all = results().count();
    page.paragraph(&match invalid {
        0 => format!("All hold in all {all} results: each is a result."),
        invalid => format!("{invalid} of {all} results break a law and are no results."),
    });
    page.paragraph(
        "Each block has to account for all its messages, with clocks that run forward and, in a closed loop, by \
         Little's law. Over all blocks of a load together, p99 of the send lag has to stay within the larger of 100 µs \
         and a tenth of p50, and the generator busy for less than 80 % of the time: busy is the CPU time of its \
         thread without what it spent spinning for a due time or, in a closed loop, for an answer. Of the packets of an \
         emulated line at most one in ten may be more than 100 µs late.",
    );
    let laws = results().flat_map(|(cell, result)| result.laws.iter().map(move |law| (cell, result, law)));
    let (broken, kept): (Vec<_>, Vec<_>) = laws.partition(|(_, _, law)| law.broken > 0);
    let rows = |laws: Vec<(&CellSummary, &ArmResult, &LawResult)>| -> Vec<Vec<Cell>> {
        laws.into_iter()
            .map(|(cell, result, law)| law_row(summary, cell, result, law))
            .collect()
    };
    if !broken.is_empty() {
        page.table(
            "",
            &["load", "arm", "law", "verdict", "the first that breaks it"],
            &rows(broken),
        );
    }
    page.folded(&format!("{} laws that hold", kept.len()), false, |page| {
        page.table("", &["load", "arm", "law", "verdict", "the first"], &rows(kept));
    });
}

fn law_row(summary: &Summary, cell: &CellSummary, result: &ArmResult, law: &LawResult) -> Vec<Cell> {
    let (class, word) = if law.broken == 0 {
        ("yes", "holds")
    } else {
        ("no", "broken")
    };
    let times = if law.broken == 0 { law.tested } else { law.broken };
    let where_ = if law.tested == 1 {
        "over all blocks".to_owned()
    } else {
        format!("in {times} of {} blocks", law.tested)
    };
    vec![
        Cell::text(words::cell(&cell.cell)),
        Cell::arm(result.arm, &summary.arms[result.arm].name),
        Cell::text(law.law),
        Cell::judged(class, word, &where_),
        Cell::text(&law.detail),
    ]
}

fn costs(page: &mut Page, summary: &Summary) {
    page.subheading("What it cost, and where the messages went");
    let columns = [
        "load",
        "arm",
        "server CPU a round trip",
        "memory",
        "messages/s answered",
        "sent",
        "answered",
        "lost",
        "not sent",
        "again",
        "out of order",
        "p99 send lag",
    ];
    let rows: Vec<Vec<Cell>> = each_result(summary)
        .map(|(cell, result)| cost_row(summary, cell, result))
        .collect();
    page.folded(&format!("{} results", rows.len()), rows.len() <= UNFOLDED, |page| {
        page.table("", &columns, &rows);
    });
    let idle = originals(summary).filter(|(_, arm)| arm.ready_ms.is_some() || arm.idle_rss_bytes.is_some());
    let rows: Vec<Vec<Cell>> = idle
        .map(|(number, arm)| {
            let ready = arm.ready_ms.map_or(String::new(), |ms| words::duration(ms * 1e3));
            let memory = arm
                .idle_rss_bytes
                .map_or(String::new(), |bytes| words::bytes(bytes as f64));
            vec![Cell::arm(number, &arm.label), Cell::number(ready), Cell::number(memory)]
        })
        .collect();
    page.table("Before the first client", &["", "ready after", "memory"], &rows);
}

fn cost_row(summary: &Summary, cell: &CellSummary, result: &ArmResult) -> Vec<Cell> {
    let counts = &result.counts;
    let mut cells = vec![
        Cell::text(words::cell(&cell.cell)),
        Cell::arm(result.arm, &summary.arms[result.arm].name),
        Cell::number(result.load.server_cpu_us.map_or(String::new(), words::duration)),
        Cell::number(
            result
                .load
                .server_rss_bytes
                .map_or(String::new(), |bytes| words::bytes(bytes as f64)),
        ),
        Cell::number(words::number(result.load.answered_per_s)),
    ];
    let counted = [
        counts.sent,
        counts.answered,
        counts.lost,
        counts.unsent,
        counts.duplicates,
        counts.reordered,
    ];
    cells.extend(counted.map(|number| Cell::number(count(number))));
    cells.push(Cell::number(words::duration(result.send_lag_p99_us)));
    cells
}
