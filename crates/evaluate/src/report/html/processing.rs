//! What models cost at the edge.

use super::page::{Cell, Page, class};
use super::{papers, record, words};
use crate::figures::client_perspective;
use crate::processing::{Column, Place, Row, cells, column, figures, heading, notes};
use crate::report::Processing;
use crate::report::plot::{Bar, ratios};

pub(super) fn section(page: &mut Page, found: &Processing) {
    page.heading("processing", "Processing: what models cost at the edge");
    for (model, task) in cells(&found.run) {
        let rows = found.rows.iter();
        let rows: Vec<&Row> = rows
            .filter(|row| (row.job.model, row.job.task) == (model, task))
            .collect();
        if rows.is_empty() {
            continue;
        }
        let lines: Vec<Vec<Cell>> = rows.iter().map(|row| line(row)).collect();
        let columns = [
            "",
            "one takes",
            "p99",
            "× host",
            "",
            "CPU %, most and mean",
            "of the machine",
            "memory MB",
            "of the machine",
            "start s",
            "CPU of one",
        ];
        page.table(&heading(model, task), &columns, &lines);
        let noise = rows.iter().find(|row| row.job.place == Place::HostAgain);
        let noise = noise
            .and_then(|row| row.against_host?.ratio)
            .map(|ratio| ratio.interval);
        let bar = |row: &&Row| {
            let comparison = row.against_host.filter(|_| row.job.place != Place::HostAgain)?;
            Some(Bar {
                label: row.job.place.name().to_owned(),
                class: class(
                    Place::ASKED
                        .iter()
                        .position(|place| *place == row.job.place)
                        .unwrap_or(0),
                ),
                ratio: comparison.ratio?,
                verdict: words::verdict(&comparison.verdict),
                noise,
            })
        };
        let bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
        if let Some(svg) = ratios(&bars) {
            let words = format!(
                "{}: mean time of one as a multiple of the host's.",
                heading(model, task)
            );
            page.figure(&svg, "", &words);
        }
    }
    for note in notes(&found.run, &found.rows) {
        page.paragraph(&note);
    }
    paper(page, found);
    let title = format!("The run, seed {}", found.run.seed);
    page.folded(&title, false, |page| record::processing(page, &found.run));
}

/// Table III, with ours beside, and what it concludes.
fn paper(page: &mut Page, found: &Processing) {
    let paper = client_perspective();
    page.subheading("The paper beside ours");
    page.paragraph(&format!(
        "“{}”, measured on {}. Other hardware and other models of the same names give other figures; of a claim its shape is tested.",
        paper.title, paper.machine
    ));
    papers::claims(page, &found.claims);
    let rows = found.rows.iter().filter_map(|row| Some(beside(row, column(row.job)?)));
    let rows: Vec<Vec<Cell>> = rows.collect();
    let columns = [
        "",
        "time",
        "ours",
        "CPU %: peak, average, system",
        "ours",
        "memory %: peak, average, system",
        "ours, MB",
    ];
    page.table("Table III", &columns, &rows);
}

fn beside(row: &Row, column: Column) -> Vec<Cell> {
    let percent = |all: [f64; 3]| all.map(words::round).join(", ");
    let ours = |[most, mean]: [f64; 2], [_, system]: [f64; 2], scale: f64| {
        [most, mean, system].map(|value| words::round(value * scale)).join(", ")
    };
    let time = column.time_ms.map_or_else(|| "not legible".to_owned(), words::millis);
    vec![
        Cell::unbroken(&format!(
            "{}, {}",
            heading(row.job.model, row.job.task),
            row.job.place.name()
        )),
        Cell::number(time),
        Cell::number(
            row.p50_us
                .map_or_else(|| "–".to_owned(), |p50| words::duration(p50.value)),
        ),
        Cell::number(percent(column.cpu_percent)),
        Cell::number(ours(row.cpu_share, row.system_cpu_share, 100.0)),
        Cell::number(percent(column.memory_percent)),
        Cell::number(ours(row.memory_bytes, row.system_memory_bytes, 1e-6)),
    ]
}

fn line(row: &Row) -> Vec<Cell> {
    let [place, one, host, cpu, memory, start, each] = figures(row);
    let verdict = row.against_host.map(|comparison| words::verdict(&comparison.verdict));
    let percent = row
        .system_cpu_share
        .map(|share| format!("{:.0}", share * 100.0))
        .join(", ");
    let of_machine = row
        .system_memory_bytes
        .map(|bytes| format!("{:.0}", bytes / 1e6))
        .join(", ");
    let p99 = row
        .p99_us
        .map_or_else(|| "too few".to_owned(), |p99| words::duration(p99.value));
    vec![
        Cell::unbroken(&place),
        Cell::number(one),
        Cell::number(p99),
        Cell::number(host),
        Cell::text(verdict.unwrap_or_default()),
        Cell::number(cpu),
        Cell::number(percent),
        Cell::number(memory),
        Cell::number(of_machine),
        Cell::number(start),
        Cell::number(each),
    ]
}
