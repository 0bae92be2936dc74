//! The terminal table: within 100 columns (rule 15).

use std::fmt::Write as _;

use super::cells::{jobs, measured};
use super::experiment::estimate;
use super::options::{Options, Part};
use super::prediction::Prediction;
use super::record::{BalancingRun, Cell, Event, Load};
use super::summary::{CellSummary, Judged, Row};
use crate::report::words;
use crate::stats::{Estimate, Outcome};

/// Every cell, what follows, then what has to be known to read it.
pub fn table(run: &BalancingRun, cells: &[CellSummary]) -> String {
    let mut out = String::new();
    let mut part = None;
    for summary in cells {
        if part.replace(summary.cell.part) != Some(summary.cell.part) {
            let _ = writeln!(out, "  {}", summary.cell.part.name());
        }
        let heading = format!("{} pods, {}", summary.cell.pods_words(), cell_name(&summary.cell));
        let _ = writeln!(out, "\n  {heading}");
        let columns = [
            "answers/s",
            "mean ms",
            "p50 ms",
            "p99 ms",
            "here",
            "lost",
            "predicted",
            "paper",
        ];
        line(&mut out, "", columns.map(str::to_owned));
        for row in &summary.rows {
            line(&mut out, row.arm.name(), figures(row));
        }
        for row in &summary.rows {
            if let Some(law) = row.law.as_ref().filter(|law| !law.holds) {
                out.push_str(&words::wrapped(&format!(
                    "INVALID {}: {}: {}",
                    row.arm.name(),
                    law.law,
                    law.detail
                )));
            }
        }
        if let Some(words) = by_node_words(summary) {
            out.push_str(&words::wrapped(&words));
        }
        if let Some(words) = cpu_words(summary) {
            out.push_str(&words::wrapped(&words));
        }
        for judged in &summary.judged {
            out.push_str(&words::wrapped(&judged_words(judged)));
        }
        out.push('\n');
    }
    for note in notes(run, cells) {
        out.push_str(&words::wrapped(&note));
    }
    out
}

fn line(out: &mut String, label: &str, [per_s, mean, p50, p99, here, lost, predicted, paper]: [String; 8]) {
    let text =
        format!("  {label:<20} {per_s:>19} {mean:>8} {p50:>8} {p99:>8} {here:>5} {lost:>5} {predicted:>9} {paper:>8}");
    let _ = writeln!(out, "{}", text.trim_end());
}

fn figures(row: &Row) -> [String; 8] {
    let ms = |figure: Option<Estimate>| figure.map_or_else(|| "too few".to_owned(), |figure| ms(figure.value));
    let rounded = |per_s: f64| words::count(per_s.round() as u64);
    let Estimate { value, interval } = row.per_s;
    [
        format!(
            "{} ({}…{})",
            rounded(value),
            rounded(interval.low),
            rounded(interval.high)
        ),
        ms(row.mean_us),
        ms(row.p50_us),
        ms(row.p99_us),
        format!("{:.0} %", row.here_share * 100.0),
        words::count(row.lost),
        row.predicted
            .map_or(String::new(), |predicted| rounded(predicted.per_s)),
        row.paper_per_s.map_or(String::new(), rounded),
    ]
}

/// `Mean ms of those who ask node 1, 2, 3: local 8.1, 8.1, 8.1; …`, where more than one node is asked.
pub(crate) fn by_node_words(summary: &CellSummary) -> Option<String> {
    let clients = summary.cell.clients()?;
    if clients.iter().filter(|clients| **clients > 0).count() < 2 {
        return None;
    }
    let of_row = |row: &Row| {
        let means = row
            .by_node_us
            .map(|mean| mean.map_or_else(|| "–".to_owned(), |mean| ms(mean.value)));
        format!("{} {}", row.arm.name(), means.join(", "))
    };
    let rows: Vec<String> = summary.rows.iter().map(of_row).collect();
    Some(format!("Mean ms of those who ask node 1, 2, 3: {}.", rows.join("; ")))
}

/// `Processor µs of each answer: local-first 13.1 (12.9…13.4); …`, where that was looked at.
pub(crate) fn cpu_words(summary: &CellSummary) -> Option<String> {
    let of_row = |row: &Row| {
        let Estimate { value, interval } = row.cpu_us?;
        let name = row.arm.name();
        Some(format!("{name} {value:.1} ({:.1}…{:.1})", interval.low, interval.high))
    };
    let rows: Vec<String> = summary.rows.iter().filter_map(of_row).collect();
    let words = format!("Processor µs of each answer: {}.", rows.join("; "));
    (!rows.is_empty()).then_some(words)
}

/// Milliseconds without the unit.
fn ms(us: f64) -> String {
    match us.is_finite() {
        true if us < 1e3 => format!("{:.3}", us / 1e3),
        true => format!("{:.1}", us / 1e3),
        false => "lost".to_owned(),
    }
}

/// `round trip 30 ms, 16 clients`, without the pods.
pub(crate) fn cell_name(cell: &Cell) -> String {
    let load = match cell.load {
        Load::Closed([clients, 0, 0]) => format!("{clients} clients of the first node"),
        Load::Closed(clients) => format!("clients {}", clients.map(|count| count.to_string()).join(":")),
        Load::Open(per_s) => format!("{} a second asked of the first node", words::count(per_s.into())),
    };
    let event = match cell.event {
        None => "",
        Some(Event::CutOff) => ", the second cut off",
        Some(Event::Returns) => ", the second cut off for half the time",
        Some(Event::Slow) => ", the second ten times as slow",
        Some(Event::Moves) => " until then, of the second after it",
    };
    format!("round trip {} ms, {load}{event}", cell.round_trip_ms)
}

/// `p99: 1.01 (0.99…1.02) × round-robin, ≤ 1.03 met`.
pub(crate) fn judged_words(judged: &Judged) -> String {
    let outcome = match judged.outcome {
        Outcome::Pass => "met",
        Outcome::Fail => "missed",
        Outcome::Undecided => "open",
    };
    let why = judged.why.map_or(String::new(), |why| format!(": {}", words::aim(why)));
    match (judged.against, judged.figure) {
        (Some(against), Some(ratio)) => format!(
            "local-first, {}: {} × worse than {against}, at most {} {outcome}{why}",
            judged.what,
            words::ratio(&ratio),
            judged.most
        ),
        (Some(against), None) => format!("local-first, {} beside {against}: {outcome}{why}", judged.what),
        (None, figure) => {
            let shown = |value: f64| match judged.what {
                "lost" => words::count(value as u64),
                _ => words::duration(value),
            };
            let figure = figure.map_or_else(|| "too few".to_owned(), |figure| shown(figure.value));
            format!(
                "local-first, {}: {figure}, at most {} {outcome}",
                judged.what,
                shown(judged.most)
            )
        }
    }
}

/// What has to be known to read the rows.
pub(crate) fn notes(run: &BalancingRun, cells: &[CellSummary]) -> Vec<String> {
    let options = &run.options;
    let about = |program: &crate::gateway::About| format!("{}: {}.", program.version, program.settings);
    let mut notes: Vec<String> = run.programs.iter().map(about).collect();
    notes.push(format!(
        "Closed loop, or open where that is said. Three edges, each a network namespace, with pods in containers that take one \
         request at a time for {} ms; clients keep their connection. {} block(s), {} ms of each after {} ms; cells and arms in random \
         order, seed {}; “again” is local-first once more: the noise of this machine. Nothing is pinned. Answers a second with \
         their interval over blocks (a range where they are four or fewer).",
        options.service_ms, options.blocks, options.measure_ms, options.warm_up_ms, run.seed
    ));
    notes.push(
        "Delays are round trips (rule 11). The paper does not say which its are: read as one way its 15 and 30 ms are 30 and 60 \
         here, and its figure stands beside both. Predicted: by service time and delay alone, with the policies' own code; proxies \
         take no time there, and of pods that calculate nothing is predicted, which share what their node has; on the page, below it, by how much answers a second, mean and p99 differ from it. Little's law is kept where nothing else is said. Local-first is compared with the best of the other \
         policies, p99 with those that answer as many within 3 % (decision 49)."
            .to_owned(),
    );
    notes.push(
        "nginx and HAProxy stand on each node that is asked, before all pods of the site, past the edges: one worker or thread."
            .to_owned(),
    );
    if options.parts.contains(&Part::Faults) {
        notes.push(
            "What happens in the middle happens as the time that counts begins, and is over after it: all figures are of the time \
             in which it is so, a node that returns being away for the first half of it. Who is not answered after five seconds is lost."
                .to_owned(),
        );
    }
    if options.parts.contains(&Part::Proxy) {
        notes.push(
            "What a proxy takes is seen of one pod that answers at once and that has all processors: all of them share these, \
             clients too. Processor time is that of the edge's or the proxy's own process."
                .to_owned(),
        );
    }
    notes.extend(counted(cells));
    notes.extend(words::machine(&run.environment));
    notes.extend(run.skipped.iter().map(|skipped| format!("Not measured: {skipped}")));
    notes.push(extent(run));
    notes
}

/// How often each aim is kept.
fn counted(cells: &[CellSummary]) -> Vec<String> {
    let of = |what: &'static str| {
        let all: Vec<&Judged> = (cells.iter())
            .filter(|summary| summary.cell.part != Part::Proxy)
            .flat_map(|summary| &summary.judged)
            .filter(|judged| judged.what == what && judged.against.is_some())
            .collect();
        let count = |outcome| all.iter().filter(|judged| judged.outcome == outcome).count();
        (!all.is_empty()).then(|| {
            format!(
                "Local-first within 3 % of the best in {what}: met in {} of {} cells, missed in {}, open in {}.",
                count(Outcome::Pass),
                all.len(),
                count(Outcome::Fail),
                count(Outcome::Undecided)
            )
        })
    };
    let all = ["throughput", "mean", "p99"].into_iter().filter_map(of);
    all.chain(simulated(cells)).collect()
}

/// How far what was measured is from what the simulator says of it (`evaluate simulate`), whose proxies take no time.
fn simulated(cells: &[CellSummary]) -> Vec<String> {
    const NEAR: f64 = 0.05;
    type Ratio = fn(&Row, &Prediction) -> Option<f64>;
    let measures: [(&str, Ratio); 3] = [
        ("answers a second", |row, predicted| {
            Some(row.per_s.value / predicted.per_s)
        }),
        ("mean", |row, predicted| Some(row.mean_us?.value / predicted.mean_us)),
        ("p99", |row, predicted| Some(row.p99_us?.value / predicted.p99_us)),
    ];
    let of = |(what, ratio): (&str, Ratio)| {
        let mut all: Vec<(f64, String)> = Vec::new();
        for summary in cells.iter().filter(|summary| summary.cell.clients().is_some()) {
            all.extend(summary.rows.iter().filter_map(|row| {
                let ratio = ratio(row, row.predicted.as_ref()?)?;
                let cell = &summary.cell;
                let place = format!("{} pods, {}, {}", cell.pods_words(), cell_name(cell), row.arm.name());
                Some((ratio - 1.0, place))
            }));
        }
        all.sort_by(|(one, _), (other, _)| one.abs().total_cmp(&other.abs()));
        let (middle, most) = (&all.get(all.len() / 2)?.0, all.last()?);
        let near = all.iter().filter(|(off, _)| off.abs() <= NEAR).count();
        Some(format!(
            "Measured beside simulated, {what}: within 5 % in {near} of {} closed loops, {:.1} % apart in the middle, at most \
             {:+.1} % ({}).",
            all.len(),
            middle.abs() * 100.0,
            most.0 * 100.0,
            most.1
        ))
    };
    measures.into_iter().filter_map(of).collect()
}

/// Which cells of how many, and how long all of them take.
fn extent(run: &BalancingRun) -> String {
    let full = Options::default();
    let all = jobs(&full);
    let of_full = measured(run).iter().filter(|job| all.contains(job)).count();
    format!(
        "Measured {of_full} of the {} cells and arms of a full run, {} of its {} blocks of each; a full run takes {}, and \
         --resume goes on with one that was ended.",
        all.len(),
        run.options.blocks,
        full.blocks,
        words::about(estimate(&full)),
    )
}
