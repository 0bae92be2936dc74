//! Which services may share a board.

use super::page::{Cell, Page, class};
use super::{papers, record, words};
use crate::figures::microservice_interference;
use crate::gateway::Runtime;
use crate::interference::{
    Case, Figure, Group, HubRow, Kind, Profile, Row, Sharing, advice, cells, hub_cells, lost, notes, places, questions,
    rows_of, sharing_words, value,
};
use crate::report::Interference;
use crate::report::plot::{Bar, ratios};

pub(super) fn section(page: &mut Page, found: &Interference) {
    page.heading("interference", "Interference: which services may share a board");
    for place in places(&found.run) {
        matrix(page, found, place);
        for kind in Kind::ALL {
            for figure in kind.figures() {
                table(page, found, place, (kind, *figure));
            }
        }
        hub(page, found, place);
    }
    page.subheading("The paper's three questions");
    for (question, answer) in questions(&found.found) {
        page.paragraph(&format!("{question} {answer}"));
    }
    for note in notes(&found.run) {
        page.paragraph(&note);
    }
    let paper = microservice_interference();
    page.subheading("The paper beside ours");
    page.paragraph(&format!(
        "“{}”, measured on {}. Other hardware gives other figures; what is lost is beside the same service alone on the same board, \
         and of a claim its shape is tested.",
        paper.title, paper.machine
    ));
    papers::claims(page, &found.claims);
    papers::beside(page, &found.figures);
    let cells = cells(&found.run);
    page.folded(&cells.heading, false, |page| {
        cells.lines.iter().for_each(|line| page.paragraph(line));
    });
    let title = format!("The run, seed {}", found.run.seed);
    page.folded(&title, false, |page| record::interference(page, &found.run));
}

/// Who goes with whom, in words.
fn matrix(page: &mut Page, found: &Interference, (profile, runtime): (Profile, Runtime)) {
    let ours = found.found.sharing.iter();
    let ours: Vec<&Sharing> = ours
        .filter(|one| (one.profile, one.runtime) == (profile, runtime))
        .collect();
    if ours.is_empty() {
        return;
    }
    page.subheading(&format!("On {}, by {}", profile.name(), runtime.name()));
    let cell = |one: Kind, other: Kind| {
        let pair = [Group::Pair(one, other), Group::Pair(other, one)];
        let sharing = ours.iter().find(|sharing| pair.contains(&sharing.group));
        sharing.map_or_else(
            || Cell::text("–"),
            |sharing| {
                let sure = if sharing.is_sure { "" } else { " (by the medians)" };
                Cell::text(format!("{}{sure}", advice(sharing.advice)))
            },
        )
    };
    let row = |one: Kind| {
        let cells = Kind::ALL.map(|other| cell(one, other));
        std::iter::once(Cell::unbroken(one.name())).chain(cells).collect()
    };
    let rows: Vec<Vec<Cell>> = Kind::ALL.map(row).into();
    let names = Kind::ALL.map(Kind::name);
    page.table(
        "Which services go together on this machine",
        &["", names[0], names[1], names[2]],
        &rows,
    );
    for line in sharing_words(&found.found, (profile, runtime)) {
        page.paragraph(line.trim());
    }
}

/// A figure in every group and case, and how many times slower than alone.
fn table(page: &mut Page, found: &Interference, place: (Profile, Runtime), (kind, figure): (Kind, Figure)) {
    let rows: Vec<&Row> = rows_of(&found.found, place, (kind, figure)).collect();
    let Some(alone) = rows.iter().find(|row| row.job.case == Case::Alone) else {
        return;
    };
    let title = format!(
        "{}, {} ({}, {})",
        kind.name(),
        figure.name(),
        place.0.name(),
        place.1.name()
    );
    let cells = |row: &&&Row| {
        let slower = row.slower.as_ref();
        vec![
            Cell::unbroken(&format!("{}, {}", row.job.group.name(), row.job.case.name())),
            Cell::number(value(row.value, figure)),
            Cell::number(words::count(row.turns as u64)),
            Cell::number(slower.map(lost).unwrap_or_default()),
            Cell::text(slower.map(|slower| words::verdict(&slower.verdict)).unwrap_or_default()),
        ]
    };
    let lines: Vec<Vec<Cell>> = rows.iter().map(|row| cells(&row)).collect();
    let columns = ["", "figure", "turns", "beside case 1", ""];
    if !kind.shown().contains(&figure) {
        page.folded(&title, false, |page| page.table("", &columns, &lines));
        return;
    }
    let noise = rows.iter().find(|row| row.job.case == Case::AloneAgain);
    let noise = noise.and_then(|row| row.slower?.ratio).map(|ratio| ratio.interval);
    let bar = |row: &&Row| {
        let slower = row.slower.filter(|_| row.job.case != Case::AloneAgain)?;
        Some(Bar {
            label: format!("{}, {}", row.job.group.name(), row.job.case.name()),
            class: class(Case::ALL.iter().position(|case| *case == row.job.case).unwrap_or(0)),
            ratio: slower.ratio?,
            verdict: lost(&slower),
            noise,
        })
    };
    let bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
    if let Some(svg) = ratios(&bars) {
        let words = format!(
            "{title}: how many times slower than alone in case 1 ({}), as the paper's {}. The band is the same service alone once \
             more: the noise of this machine.",
            value(alone.value, figure),
            paper_figure(place.0, figure)
        );
        page.figure(&svg, "", &words);
    }
    page.table(&title, &columns, &lines);
}

/// What the paper shows of it, and where.
fn paper_figure(profile: Profile, figure: Figure) -> &'static str {
    match (profile, figure) {
        (Profile::Fog, Figure::Flops) => "Fig. 2",
        (Profile::Fog, Figure::Input) => "Fig. 4a",
        (Profile::Fog, Figure::Output) => "Fig. 4b",
        (Profile::Fog, _) => "Fig. 3",
        (Profile::Edge, Figure::Flops) => "Fig. 5",
        (Profile::Edge, Figure::Input) => "Fig. 7a",
        (Profile::Edge, Figure::Output) => "Fig. 7b",
        (Profile::Edge, _) => "Fig. 6",
    }
}

fn hub(page: &mut Page, found: &Interference, (profile, runtime): (Profile, Runtime)) {
    let rows = found.found.hub.iter();
    let rows: Vec<&HubRow> = rows
        .filter(|row| (row.job.profile, row.job.runtime) == (profile, runtime))
        .collect();
    if rows.is_empty() {
        return;
    }
    let line = |row: &&HubRow| {
        let [label, p50, p99, times, lost] = hub_cells(row);
        let verdict = row.slower.map(|slower| words::verdict(&slower.verdict));
        vec![
            Cell::unbroken(&label),
            Cell::number(p50),
            Cell::number(p99),
            Cell::number(times),
            Cell::number(lost),
            Cell::text(verdict.unwrap_or_default()),
        ]
    };
    let title = format!(
        "The hub: round trip of a device every 10 ms ({}, {})",
        profile.name(),
        runtime.name()
    );
    let lines: Vec<Vec<Cell>> = rows.iter().map(line).collect();
    page.table(&title, &["", "p50 µs", "p99 µs", "p99 × alone", "lost", ""], &lines);
    let noise = rows.iter().find(|row| row.job.case == Case::AloneAgain);
    let noise = noise.and_then(|row| row.slower?.ratio).map(|ratio| ratio.interval);
    let bar = |row: &&HubRow| {
        let [label, ..] = hub_cells(row);
        let slower = row.slower.filter(|_| row.job.group != Group::Hub)?;
        Some(Bar {
            label,
            class: class(Case::ALL.iter().position(|case| *case == row.job.case).unwrap_or(0)),
            ratio: slower.ratio?,
            verdict: words::verdict(&slower.verdict),
            noise,
        })
    };
    let bars: Vec<Bar> = rows.iter().filter_map(bar).collect();
    if let Some(svg) = ratios(&bars) {
        page.figure(&svg, "", &format!("{title}: p99 as a multiple of that beside nobody."));
    }
}
