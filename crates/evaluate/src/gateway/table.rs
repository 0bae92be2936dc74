//! The terminal table: within 100 columns (rule 15).

use std::fmt::Write as _;

use super::cells::cells;
use super::cost::{CPU_MILLIS, FILE_TIMES, MEMORY_MIB};
use super::options::Part;
use super::power;
use super::record::{Figure, GatewayRun};
use super::summary::{Aim, Row, Verdict};
use super::work::IDLE_S;
use crate::capacity::Unit;
pub(crate) use crate::capacity::shown;
use crate::report::words;
use crate::stats::{Estimate, Outcome};

const LABEL: usize = 36;
const FIGURE: usize = 25;
const RATIO: usize = 19;

/// Every row, then what has to be known to read them.
pub fn table(run: &GatewayRun, rows: &[Row]) -> String {
    let mut out = String::new();
    let mut section = "";
    for row in rows {
        if row.section != section {
            if !section.is_empty() {
                out.push('\n');
            }
            section = row.section;
            heading(&mut out, rows, section);
        }
        let figure = row
            .figure
            .as_ref()
            .map_or_else(|| "too few".to_owned(), |figure| with_interval(figure, row.unit));
        let figure = if row.values == 0 { "–".to_owned() } else { figure };
        let ratio = row
            .comparison
            .and_then(|comparison| comparison.ratio)
            .as_ref()
            .map(words::ratio);
        let ratio = ratio.unwrap_or_default();
        let verdict = row
            .verdict
            .map(|verdict| verdict_words(verdict, row.unit))
            .unwrap_or_default();
        line(&mut out, [&row.label, &figure, &ratio, &verdict]);
    }
    out.push('\n');
    for note in notes(run) {
        out.push_str(&words::wrapped(&note));
    }
    let cells = cells(run);
    out.push_str(&words::wrapped(&cells.heading));
    for line in &cells.lines {
        out.push_str(&words::wrapped(&format!("  {line}")));
    }
    out
}

fn heading(out: &mut String, rows: &[Row], section: &str) {
    let of_section = || rows.iter().filter(|row| row.section == section);
    let method = of_section().find_map(|row| row.figure.filter(|figure| figure.interval.low < figure.interval.high));
    let method = method.map_or(String::new(), |figure| format!("({})", figure.interval.method.words()));
    let mut names: Vec<&str> = of_section().filter_map(|row| row.against).collect();
    names.sort_unstable();
    names.dedup();
    let against = match names[..] {
        [] => String::new(),
        [name] => format!("× {name}"),
        _ => "× baseline".to_owned(),
    };
    line(out, [section, &method, &against, "aim"]);
}

fn line(out: &mut String, [label, figure, ratio, verdict]: [&str; 4]) {
    let label = words::shortened(label, LABEL);
    let text = format!("  {label:<LABEL$} {figure:<FIGURE$} {ratio:<RATIO$} {verdict}");
    let _ = writeln!(out, "{}", words::shortened(text.trim_end(), 100));
}

/// `41.2 ms (40.1…42.3)`.
pub(crate) fn with_interval(Estimate { value, interval }: &Estimate, unit: Unit) -> String {
    let figure = shown(*value, unit);
    if interval.low == interval.high {
        return figure;
    }
    let end = |end: f64| {
        let end = shown(end, unit);
        match (end.split_once(' '), figure.split_once(' ')) {
            (Some((number, same)), Some((_, unit))) if same == unit => number.to_owned(),
            _ => end,
        }
    };
    format!("{figure} ({}…{})", end(interval.low), end(interval.high))
}

/// `≤ 40 ms`.
pub(crate) fn aimed(aim: Aim, unit: Unit) -> String {
    match aim {
        Aim::AtMost(bound) => format!("≤ {}", shown(bound, unit)),
        Aim::TimesAtMost(bound) => format!("≤ {} ×", words::round(bound)),
        Aim::TimesAtLeast(bound) => format!("≥ {} ×", words::round(bound)),
        Aim::Equivalent(margin) => format!("same ±{} %", words::round(margin * 100.0)),
    }
}

fn verdict_words(verdict: Verdict, unit: Unit) -> String {
    let outcome = match verdict.outcome {
        Outcome::Pass => "met",
        Outcome::Fail => "missed",
        Outcome::Undecided => "open",
    };
    format!("{} {outcome}", aimed(verdict.aim, unit))
}

/// What has to be known to read the rows.
pub(crate) fn notes(run: &GatewayRun) -> Vec<String> {
    let options = &run.options;
    let about = |program: &super::About| format!("{}: {}.", program.version, program.settings);
    let mut notes: Vec<String> = run.programs.iter().map(about).collect();
    notes.push(format!(
        "{} blocks of every task, arms in random order within it, seed {}; “again” is the baseline once more: the noise of this \
         machine. Nothing is pinned: containers of Docker would not be.",
        options.blocks, run.seed
    ));
    notes.extend(options.parts.iter().map(|part| of_part(*part, run)));
    notes.extend(words::machine(&run.environment));
    notes.extend(run.skipped.iter().map(|skipped| format!("Not measured: {skipped}")));
    notes
}

fn of_part(part: Part, run: &GatewayRun) -> String {
    match part {
        Part::Activation => format!(
            "Activation: {} first requests of each kind a block, one after the other; a static web server (busybox httpd) of \
             one image. Of the edge from the request, of docker and runc from the start of their command, to the end of the \
             answer; runc on the host's network. Docker lets go on by `runc resume`, the edge by \
             the control group's freezer. The paper describes this activation and gives no time of it. Throughput: closed loop of \
             two clients, a connection for each answer, four hundred of each client at most at a time; each way once that is not \
             measured, then four times in turn. Burst: all connect, then all ask.",
            run.options.activations
        ),
        Part::Footprint => format!(
            "At rest: the edge and its processes beside containers, over {} s, beside the same edge before any application was \
             applied; before sleeping ones it has had one. PSS: what processes share counts once; RSS: for each. Apply: from the start of the command, {} a block, \
             the image being there.",
            words::round(f64::from(run.options.rest_ms) / 1e3),
            run.options.applies
        ),
        Part::Work => format!(
            "At work: 13 bytes every {}, {} times as often as in the paper, for {}. The orchestrator takes a packet, writes it into the \
             database (Redis; the paper has Elasticsearch) and has the web server tell of it (busybox httpd; the paper has \
             WildFly); all three sleep before, and the first packet starts them, one by the other. The paper saw 10 % of a board's \
             processor at most, half of it the web server's.",
            words::duration(60e6 / f64::from(run.options.speed)),
            run.options.speed,
            words::duration(run.options.work_time().as_secs_f64() * 1e6)
        ),
        Part::Day => of_day(run),
        Part::Cost => {
            format!(
                "Cost: each instance has {} MiB and {} of a core, natively too; all arms are there at once, and have turns of a \
                 program in random order, so that a machine that drifts does so for all; a value for each turn. fio: in 1 MB \
                 blocks, {} × the memory (the \
                 paper's 6 GB on boards of 1 GB, scaled; 1/{} of it here), on a volume, synced at its end, and once more in the \
                 container's own root file system, where the paper's may have been; that of oci is an overlay mounted \
                 `volatile`, of which the kernel leaves out the sync: its writes end in memory; iperf3: 90 Mbit/s of UDP, \
                 through the container's own network. The paper lost 37 to 50 % of disk writes. {}",
                MEMORY_MIB,
                words::round(f64::from(CPU_MILLIS) / 1e3),
                FILE_TIMES,
                run.options.cost_divisor,
                power::note(run.has(Figure::PowerW))
            )
        }
    }
}

fn of_day(run: &GatewayRun) -> String {
    let traffic = run.day.as_ref().map_or(String::new(), |day| {
        let date = day.date.as_ref().map_or(String::new(), |date| format!(" of {date}"));
        let requests = day.requests.iter();
        let requests: Vec<String> = requests.map(|(name, count)| format!("{name} {count}")).collect();
        format!(
            "requests by {}{date} (SHA-256 {}…): {}",
            day.source,
            words::shortened(&day.sha256, 13).trim_end_matches('…'),
            requests.join(", ")
        )
    });
    format!(
        "Day: {traffic}; each asleep after {} without a request, all {} times as fast, open loop. Memory: PSS of the edge, of what it \
         has beside containers and of their processes. A day's CPU is that of the replay and, for the rest of the 24 hours, what was \
         taken without requests by the edge and by applications, of those on demand as long as they were awake. A start takes as \
         long as it does, and an edge looks at connections once a second: the faster the day, the longer they seem awake, and what is \
         shown of them is the most that they take. {}",
        words::duration(f64::from(IDLE_S) * 1e6),
        words::count(u64::from(run.options.day_speed)),
        power::note(run.has(Figure::DayEnergyJ))
    )
}
