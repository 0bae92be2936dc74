//! The terminal table: within 100 columns (rule 15).

use std::fmt::Write as _;

use balance::Policy;

use super::options::Part;
use super::record::{Cell, Law, SimulationRun, Traffic};
use super::summary::{CellSummary, Finding, LATE, Row, WINS, Winner, Winners};
use super::traffic::{self, ENDPOINTS};
use crate::report::words;
use crate::stats::Estimate;

/// Maps, sites, what follows, then what has to be known to read it.
pub fn table(run: &SimulationRun, cells: &[CellSummary], worst: &[Finding]) -> String {
    let mut out = String::new();
    let maps = maps(cells);
    for map in &maps {
        out.push_str(&words::wrapped(&map.title));
        let head: Vec<String> = map.loads_percent.iter().map(|percent| format!("{percent} %")).collect();
        map_line(&mut out, "round trip", &head);
        for (round_trip_ms, winners) in &map.rows {
            let letters: Vec<String> = winners.iter().map(letters).collect();
            map_line(&mut out, &format!("{round_trip_ms} ms"), &letters);
        }
        out.push('\n');
    }
    if !maps.is_empty() {
        let keys = Policy::ALL.map(|policy| format!("{} {}", letter(policy), policy.name()));
        let keys = format!("{}; small: it may be; – nobody keeps up.", keys.join(", "));
        out.push_str(&words::wrapped(&keys));
        out.push('\n');
    }
    for summary in cells
        .iter()
        .filter(|summary| matches!(summary.cell, Cell::Scale { .. }))
    {
        let asked = words::count(summary.asked_per_s.round() as u64);
        let _ = writeln!(
            out,
            "  {}: {asked} requests a second of a site",
            cell_name(summary.cell)
        );
        let columns = ["answers/s", "mean ms", "p99 ms", "here", "lost"].map(str::to_owned);
        line(&mut out, "", columns);
        for row in &summary.rows {
            line(&mut out, row.policy.name(), figures(row));
        }
        out.push('\n');
    }
    for words in answers(cells, worst).into_iter().chain(notes(run)) {
        out.push_str(&words::wrapped(&words));
    }
    out
}

fn map_line(out: &mut String, label: &str, cells: &[String]) {
    let cells = cells.iter().fold(String::new(), |mut line, cell| {
        let _ = write!(line, "{cell:>11}");
        line
    });
    let _ = writeln!(out, "  {label:<12}{cells}");
}

fn line(out: &mut String, label: &str, [per_s, mean, p99, here, lost]: [String; 5]) {
    let text = format!("  {label:<14} {per_s:>18} {mean:>22} {p99:>24} {here:>6} {lost:>7}");
    let _ = writeln!(out, "{}", text.trim_end());
}

fn figures(row: &Row) -> [String; 5] {
    let behind = if row.keeps_up { "" } else { " (behind)" };
    [
        format!("{}{behind}", words::count(row.per_s.value.round() as u64)),
        row.mean_us.as_ref().map_or_else(|| "–".to_owned(), ms),
        row.p99_us.as_ref().map_or_else(|| "–".to_owned(), ms),
        format!("{:.0} %", row.here_share * 100.0),
        words::count(row.lost),
    ]
}

fn ms(Estimate { value, interval }: &Estimate) -> String {
    format!(
        "{:.1} ({:.1}…{:.1})",
        value / 1e3,
        interval.low / 1e3,
        interval.high / 1e3
    )
}

/// What is best by load and distance, of one kind of service and neighbours.
pub(crate) struct Map {
    /// What of it, and of whom.
    pub(crate) title: String,
    /// Its columns.
    pub(crate) loads_percent: Vec<u32>,
    /// A round trip in milliseconds, and who wins at each load.
    pub(crate) rows: Vec<(u32, Vec<Winners>)>,
}

/// Who has won by a measure.
type Which = fn(&CellSummary) -> &Winners;

/// By mean and by p99.
pub(crate) fn maps(cells: &[CellSummary]) -> Vec<Map> {
    let measures: [(&str, Which); 2] = [("mean", |summary| &summary.by_mean), ("p99", |summary| &summary.by_p99)];
    let mut all = Vec::new();
    for (what, winners) in measures {
        let mut maps: Vec<((Law, u32), Map)> = Vec::new();
        for summary in cells {
            let Cell::Map {
                law,
                neighbours_percent,
                round_trip_ms,
                load_percent,
            } = summary.cell
            else {
                continue;
            };
            let key = (law, neighbours_percent);
            if maps.last().is_none_or(|(last, _)| *last != key) {
                let title = format!(
                    "Least {what}, by round trip between nodes and what one node is asked of what it can do; {}, {}:",
                    law_name(law),
                    neighbours_name(neighbours_percent)
                );
                let map = Map {
                    title,
                    loads_percent: Vec::new(),
                    rows: Vec::new(),
                };
                maps.push((key, map));
            }
            let Some((_, map)) = maps.last_mut() else { continue };
            if !map.loads_percent.contains(&load_percent) {
                map.loads_percent.push(load_percent);
            }
            if map.rows.last().is_none_or(|(last, _)| *last != round_trip_ms) {
                map.rows.push((round_trip_ms, Vec::new()));
            }
            if let Some((_, row)) = map.rows.last_mut() {
                row.push(winners(summary).clone());
            }
        }
        all.extend(maps.into_iter().map(|(_, map)| map));
    }
    all
}

fn letters(winners: &Winners) -> String {
    let shown = |winner: &Winner| match winner.is_sure {
        true => letter(winner.policy).to_owned(),
        false => letter(winner.policy).to_lowercase(),
    };
    match winners.0.as_slice() {
        [] => "–".to_owned(),
        winners => winners.iter().map(shown).collect::<Vec<_>>().join(" "),
    }
}

fn letter(policy: Policy) -> &'static str {
    match policy {
        Policy::RoundRobin => "R",
        Policy::Random => "C",
        Policy::Local => "L",
        Policy::LeastRequest => "Q",
        Policy::LocalFirst => "F",
    }
}

/// In words.
pub(crate) fn cell_name(cell: Cell) -> String {
    match cell {
        Cell::Map {
            law,
            neighbours_percent,
            round_trip_ms,
            load_percent,
        } => format!(
            "{}, {}, round trip {round_trip_ms} ms, load {load_percent} %",
            law_name(law),
            neighbours_name(neighbours_percent)
        ),
        Cell::Scale { nodes, traffic } => {
            format!("{} nodes, {}", words::count(nodes.into()), traffic_name(traffic))
        }
    }
}

/// In words.
pub(crate) fn traffic_name(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::Even => "even traffic",
        Traffic::Day => "a day's traffic",
        Traffic::Crowd => "crowds",
    }
}

fn law_name(law: Law) -> &'static str {
    match law {
        Law::Constant => "constant service times",
        Law::Exponential => "exponential service times",
    }
}

fn neighbours_name(percent: u32) -> String {
    match percent {
        0 => "idle neighbours".to_owned(),
        percent => format!("neighbours at {percent} %"),
    }
}

/// Who wins how often, and what `local-first` costs at worst.
pub(crate) fn answers(cells: &[CellSummary], worst: &[Finding]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for (words, is_of) in [
        (
            "the map",
            (|cell| matches!(cell, Cell::Map { .. })) as fn(&Cell) -> bool,
        ),
        ("sites", |cell| matches!(cell, Cell::Scale { .. })),
    ] {
        let decided = cells
            .iter()
            .filter(|summary| is_of(&summary.cell) && !summary.by_mean.0.is_empty());
        let decided: Vec<&CellSummary> = decided.collect();
        if !decided.is_empty() {
            all.push(format!(
                "Best for sure, or within {:.0} % of it, in the {} cells of {words} in which somebody keeps up: by mean {}; by \
                 p99 {}.",
                WINS * 100.0,
                decided.len(),
                counts(&decided, |summary| &summary.by_mean),
                counts(&decided, |summary| &summary.by_p99)
            ));
        }
    }
    all.extend(worst.iter().map(worst_words));
    all
}

/// `local-first 28, least-request 15, …`: how often each wins, most first.
fn counts(cells: &[&CellSummary], winners: Which) -> String {
    let count = |policy: Policy| {
        let won = cells.iter().filter(|summary| winners(summary).has(policy));
        (policy.name(), won.count())
    };
    let mut all = Policy::ALL.map(count);
    all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    all.map(|(policy, count)| format!("{policy} {count}")).join(", ")
}

fn worst_words(finding: &Finding) -> String {
    format!(
        "At worst local-first is in {} {} times as bad as {}: {}.",
        finding.what,
        words::ratio(&finding.ratio),
        finding.than.name(),
        cell_name(finding.cell)
    )
}

/// What has to be known to read it.
pub(crate) fn notes(run: &SimulationRun) -> Vec<String> {
    let options = &run.options;
    let mut notes = vec![
        format!(
            "Simulated, not measured: the policies' own code; proxies take no time and nothing fails. Open loop. {ENDPOINTS} \
             endpoints a node, each one request at a time for {} ms. {} seed(s) of each cell, seed {}; the same requests are \
             asked of each policy. Median over seeds and sites with its interval (a range where they are four or fewer). Who has \
             more than {:.0} % of what was asked left when the time is over does not keep up; who has no answer five seconds \
             later is lost.",
            options.service_ms,
            options.seeds,
            run.seed,
            LATE * 100.0
        ),
        "How near the simulator is to what is measured: `evaluate balancing` prints it.".to_owned(),
    ];
    if options.parts.contains(&Part::Scale) {
        let date = run.day.date.as_ref().map_or(String::new(), |date| format!(", {date}"));
        notes.push(format!(
            "{} More than 250 nodes are several sites, which know nothing of each other: from there on it is their number that \
             grows.",
            traffic::words(&format!("{}{date}", run.day.source))
        ));
    }
    notes.extend(words::machine(&run.environment));
    notes
}
