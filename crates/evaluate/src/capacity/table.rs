//! The terminal table: within 100 columns (rule 15).

use std::fmt::Write as _;

use super::options::{Options, Part, Values};
use super::record::{CapacityRun, Figure};
use super::summary::{Promise, Row, Unit, Verdict};
use super::{cut, far, readings};
use crate::report::words;
use crate::stats::{Outcome, median};

use crate::report::words::count;

/// Above this share of its core the generator may have been the limit (rule 10).
const GENERATOR_LIMIT: f64 = 0.8;

/// Every row, then what has to be known to read them.
pub fn table(run: &CapacityRun, rows: &[Row]) -> String {
    let mut out = String::new();
    let method = rows
        .iter()
        .find_map(|row| row.ratio)
        .map_or("", |ratio| ratio.interval.method.words());
    line(
        &mut out,
        [
            "",
            "selvedge",
            "mosquitto",
            &format!("× mosquitto ({method})"),
            "promise",
        ],
    );
    for row in rows {
        let figure = |estimate: Option<&_>| {
            estimate.map_or_else(
                || "–".to_owned(),
                |estimate: &crate::stats::Estimate| shown(estimate.value, row.unit),
            )
        };
        let ratio = row.ratio.as_ref().map(words::ratio).unwrap_or_default();
        let promise = row
            .verdict
            .map(|verdict| promised(verdict, row.unit))
            .unwrap_or_default();
        let cells = [figure(row.selvedge.as_ref()), figure(row.mosquitto.as_ref())];
        line(&mut out, [&row.label, &cells[0], &cells[1], &ratio, &promise]);
    }
    out.push('\n');
    for note in notes(run) {
        out.push_str(&words::wrapped(&note));
    }
    out
}

fn line(out: &mut String, [label, selvedge, mosquitto, ratio, promise]: [&str; 5]) {
    let text = format!("  {label:<38}{selvedge:>11}{mosquitto:>11}  {ratio:<17} {promise}");
    let _ = writeln!(out, "{}", text.trim_end());
}

fn promised(verdict: Verdict, unit: Unit) -> String {
    let bound = match verdict.promise {
        Promise::AtMost(bound) => format!("≤ {}", shown(bound, unit)),
        Promise::AtLeast(bound) => format!("≥ {}", shown(bound, unit)),
    };
    let outcome = match verdict.outcome {
        Outcome::Pass => "met",
        Outcome::Fail => "missed",
        Outcome::Undecided => "undecided",
    };
    format!("{bound} {outcome}")
}

/// A value in its unit.
pub(crate) fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Megabytes => words::bytes(value),
        Unit::Kibibytes => format!("{} KiB", words::round(value / 1024.0)),
        Unit::Ms => words::duration(value * 1e3),
        Unit::Us => words::duration(value),
        Unit::PerS => format!("{}/s", count(value.round() as u64)),
        Unit::Messages => count(value.round() as u64),
        Unit::MegabytesPerS => format!("{}/s", words::bytes(value)),
        Unit::Seconds => words::duration(value * 1e6),
        Unit::Watts => format!("{} W", words::round(value)),
        Unit::Kilojoules => format!("{} kJ", words::round(value / 1e3)),
        Unit::MegabyteHours => format!("{} MB·h", words::number_set(value)),
        Unit::Share => format!("{} %", words::round(value * 100.0)),
        Unit::Times => format!("{} ×", words::round(value)),
    }
}

/// What has to be known to read the rows.
pub(crate) fn notes(run: &CapacityRun) -> Vec<String> {
    let options = &run.options;
    let mut notes: Vec<String> = run
        .programs
        .iter()
        .map(|program| format!("{}: {}.", program.version, program.settings))
        .collect();
    notes.push(format!(
        "Medians of {} blocks in random order, seed {}.",
        options.blocks, run.seed
    ));
    notes.extend(options.parts.iter().filter_map(|part| about(*part, options)));
    notes.extend(generator(run));
    notes.extend(words::machine(&run.environment));
    notes.extend(run.skipped.iter().cloned());
    notes
}

/// How a part was measured, as far as its rows do not say.
fn about(part: Part, options: &Options) -> Option<String> {
    Some(match part {
        Part::Memory => "Memory of the process alone.".to_owned(),
        Part::Ready => "Ready: from its start to the answer to the first CONNECT.".to_owned(),
        Part::Durable => format!(
            "Closed loop: {} QoS 1 messages in flight for {} ms, then kill -9.",
            options.in_flight, options.duration_ms
        ),
        Part::Drain => format!(
            "Drain: readings of {} as JSON, {} in flight at QoS 1, fill the log; live: open loop, 100 a second, at the edge.",
            match options.values {
                Values::One => "one value",
                Values::Five => "five values",
            },
            readings::AT_ONCE
        ),
        Part::DrainFar => format!(
            "Line of {}: the middle half of {} readings as JSON; both lines emulated by the same relay.",
            words::duration(far::ROUND_TRIP_US as f64),
            words::count(u64::from(options.queued))
        ),
        Part::Thin => format!(
            "8 kbit/s: {} alone, as long beside a call every 5 s (open loop); bytes with IP headers, both ways.",
            words::duration(options.thin_us as f64)
        ),
        Part::Storm => format!(
            "Storm: {} without a line, 30 ms round trip; live: open loop, 250 a second. Once a run.",
            words::duration(options.outage_us as f64)
        ),
        Part::Cut => format!(
            "Cut: open loop, {} QoS 1 a second; kill -9 of each side {} times within, {} after. Once a run.",
            words::count(u64::from(cut::PER_S)),
            cut::KILLS[0],
            cut::KILLS[1]
        ),
        Part::MemoryTls | Part::ReadyQueued | Part::DrainPostgresql => return None,
    })
}

fn generator(run: &CapacityRun) -> Option<String> {
    let of_generator = run
        .samples
        .iter()
        .filter(|sample| sample.figure == Figure::GeneratorCpuShare);
    let shares: Vec<f64> = of_generator.filter_map(|sample| sample.value).collect();
    let busiest = shares.iter().copied().fold(0.0, f64::max);
    let verdict = if busiest > GENERATOR_LIMIT {
        "; above 80 % it may have been the limit"
    } else {
        ""
    };
    Some(format!(
        "The generator used {:.0} % of its core while it published, {:.0} % at most{verdict}.",
        median(&shares)? * 100.0,
        busiest * 100.0
    ))
}
