//! What the samples say: each figure of Selvedge beside Mosquitto's, their ratio within blocks, and whether a promise is
//! kept.

use serde::Serialize;

use super::contender::Contender;
use super::drain::PAYLOAD_BYTES;
use super::durable::PACED_PER_S;
use super::options::Part;
use super::record::{CapacityRun, Figure};
use crate::report::words;
use crate::stats::{Bootstrap, Estimate, Interval, Method, Outcome, log_median, median};

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bytes, shown in decimal megabytes.
    Megabytes,
    /// Bytes, shown in units of 1,024.
    Kibibytes,
    /// Milliseconds.
    Ms,
    /// Microseconds, shown in milliseconds where they are many.
    Us,
    /// Messages a second.
    PerS,
    /// Messages of all blocks together.
    Messages,
    /// One figure as a multiple of another.
    Times,
}

/// A promised figure, in the unit of its row's values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
}

/// A promise with its outcome, as far as the interval tells (rule 12).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// What was promised.
    pub promise: Promise,
    /// Whether it is kept.
    pub outcome: Outcome,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub label: String,
    /// Unit of all values.
    pub unit: Unit,
    /// Selvedge's figure with its interval over the blocks; of messages their sum. Absent where it was not measured.
    pub selvedge: Option<Estimate>,
    /// Mosquitto's.
    pub mosquitto: Option<Estimate>,
    /// Median of the ratios within blocks, Selvedge to Mosquitto; of messages none.
    pub ratio: Option<Estimate>,
    /// The promise for Selvedge's figure, if there is one.
    pub verdict: Option<Verdict>,
}

/// Where a row's values come from.
struct Source {
    label: String,
    unit: Unit,
    part: Part,
    figure: Figure,
    selvedge: Contender,
    payload_bytes: Option<u32>,
    promise: Option<Promise>,
}

/// Every row that was measured.
pub fn summarise(run: &CapacityRun) -> Vec<Row> {
    let rows = sources(run).into_iter().map(|source| {
        let selvedge = values(run, &source, source.selvedge);
        let mosquitto = values(run, &source, Contender::Mosquitto);
        row(&source, &selvedge, &mosquitto, run.seed)
    });
    let measured = rows.filter(|row| row.selvedge.is_some() || row.mosquitto.is_some());
    measured.chain(binary(run)).collect()
}

fn sources(run: &CapacityRun) -> Vec<Source> {
    let mut sources = footprint(run);
    sources.extend(drained(run));
    for payload_bytes in &run.options.payload_bytes {
        for (selvedge, word) in [(Contender::SelvedgeOs, "os"), (Contender::SelvedgeDisk, "disk")] {
            sources.extend(durable(selvedge, word, *payload_bytes));
        }
    }
    sources
}

/// Memory and time until ready.
fn footprint(run: &CapacityRun) -> Vec<Source> {
    use Promise::AtMost;
    let connections = words::count(u64::from(run.options.connections));
    let queued = words::count(u64::from(run.options.queued));
    let ready = Some(AtMost(100.0));
    let list = [
        (
            "idle process, RSS".to_owned(),
            Unit::Megabytes,
            Part::Memory,
            Figure::IdleRssBytes,
            Some(AtMost(15e6)),
        ),
        (
            "idle process, PSS".to_owned(),
            Unit::Megabytes,
            Part::Memory,
            Figure::IdlePssBytes,
            None,
        ),
        (
            format!("idle connection, of {connections}"),
            Unit::Kibibytes,
            Part::Memory,
            Figure::ConnectionBytes,
            Some(AtMost(4096.0)),
        ),
        (
            format!("idle connection, TLS, of {connections}"),
            Unit::Kibibytes,
            Part::MemoryTls,
            Figure::ConnectionBytes,
            Some(AtMost(30720.0)),
        ),
        (
            "ready, data directory empty".to_owned(),
            Unit::Ms,
            Part::Ready,
            Figure::ReadyEmptyMs,
            ready,
        ),
        (
            "ready, data directory used".to_owned(),
            Unit::Ms,
            Part::Ready,
            Figure::ReadyUsedMs,
            ready,
        ),
        (
            format!("ready, {queued} queued, stopped"),
            Unit::Ms,
            Part::ReadyQueued,
            Figure::ReadyAfterStopMs,
            ready,
        ),
        (
            format!("ready, {queued} queued, kill -9"),
            Unit::Ms,
            Part::ReadyQueued,
            Figure::ReadyAfterKillMs,
            ready,
        ),
        (
            "  and the first of them delivered".to_owned(),
            Unit::Ms,
            Part::ReadyQueued,
            Figure::FirstMessageAfterKillMs,
            None,
        ),
        (
            "  lost of them in the end".to_owned(),
            Unit::Messages,
            Part::ReadyQueued,
            Figure::QueueLostMessages,
            Some(AtMost(0.0)),
        ),
    ];
    let source = |(label, unit, part, figure, promise)| Source {
        label,
        unit,
        part,
        figure,
        selvedge: Contender::SelvedgeDisk,
        payload_bytes: None,
        promise,
    };
    list.into_iter().map(source).collect()
}

/// A backlog that drains.
fn drained(run: &CapacityRun) -> Vec<Source> {
    use Promise::{AtLeast, AtMost};
    let (database, stored) = match run.options.database {
        None => ("SQLite", 20_000.0),
        Some(_) => ("PostgreSQL", 50_000.0),
    };
    let backlog = words::count(u64::from(run.options.queued));
    let list = [
        (
            format!("backlog of {backlog} to the cloud"),
            Unit::PerS,
            Figure::DrainedPerS,
            Some(AtLeast(stored)),
        ),
        (
            format!("  and into {database}"),
            Unit::PerS,
            Figure::StoredPerS,
            Some(AtLeast(stored)),
        ),
        (
            "  live meanwhile, p99".to_owned(),
            Unit::Us,
            Figure::LiveDrainP99Us,
            None,
        ),
        ("  live without it, p99".to_owned(), Unit::Us, Figure::LiveP99Us, None),
        (
            "  the former to the latter".to_owned(),
            Unit::Times,
            Figure::LiveDrainRatio,
            Some(AtMost(3.0)),
        ),
    ];
    let source = |(label, unit, figure, promise)| Source {
        label,
        unit,
        part: Part::Drain,
        figure,
        selvedge: Contender::SelvedgeDisk,
        payload_bytes: Some(PAYLOAD_BYTES),
        promise,
    };
    list.into_iter().map(source).collect()
}

fn durable(selvedge: Contender, word: &str, payload_bytes: u32) -> Vec<Source> {
    use Promise::{AtLeast, AtMost};
    let disk = selvedge == Contender::SelvedgeDisk;
    let rate = AtLeast(if disk { 20_000.0 } else { 50_000.0 });
    let list = [
        (
            format!("acknowledged, {payload_bytes} B, {word}"),
            Unit::PerS,
            Figure::AcknowledgedPerS,
            Some(rate),
        ),
        (
            "  time to acknowledge, p50".to_owned(),
            Unit::Us,
            Figure::LatencyP50Us,
            None,
        ),
        (
            "  time to acknowledge, p99".to_owned(),
            Unit::Us,
            Figure::LatencyP99Us,
            disk.then_some(AtMost(10_000.0)),
        ),
        (
            format!("  p99 at {}/s, open loop", words::count(u64::from(PACED_PER_S))),
            Unit::Us,
            Figure::PacedLatencyP99Us,
            disk.then_some(AtMost(10_000.0)),
        ),
        (
            "  acknowledged before kill -9".to_owned(),
            Unit::Messages,
            Figure::AcknowledgedMessages,
            None,
        ),
        (
            "  lost of them".to_owned(),
            Unit::Messages,
            Figure::LostMessages,
            Some(AtMost(0.0)),
        ),
    ];
    let source = |(label, unit, figure, promise)| Source {
        label,
        unit,
        part: Part::Durable,
        figure,
        selvedge,
        payload_bytes: Some(payload_bytes),
        promise,
    };
    list.into_iter().map(source).collect()
}

/// Block and value, by block.
fn values(run: &CapacityRun, source: &Source, contender: Contender) -> Vec<(u32, f64)> {
    let of_source = run.samples.iter().filter(|sample| {
        (sample.part, sample.figure, sample.contender, sample.payload_bytes)
            == (source.part, source.figure, contender, source.payload_bytes)
    });
    of_source
        .filter_map(|sample| Some((sample.block, sample.value?)))
        .collect()
}

fn row(source: &Source, selvedge: &[(u32, f64)], mosquitto: &[(u32, f64)], seed: u64) -> Row {
    let bootstrap = &mut Bootstrap::new(seed, 0, Bootstrap::RESAMPLES);
    let each = |values: &[(u32, f64)]| values.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let mut figure = |values: &[(u32, f64)]| match source.unit {
        Unit::Messages => sum(&each(values)),
        _ => estimate(&each(values), median, bootstrap),
    };
    let (of_selvedge, of_mosquitto) = (figure(selvedge), figure(mosquitto));
    let ratios: Vec<f64> = pairs(selvedge, mosquitto).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = match source.unit {
        Unit::Messages => None,
        _ => estimate(&ratios, log_median, bootstrap),
    };
    Row {
        label: source.label.clone(),
        unit: source.unit,
        verdict: source.promise.map(|promise| Verdict {
            promise,
            outcome: outcome(promise, of_selvedge.as_ref()),
        }),
        selvedge: of_selvedge,
        mosquitto: of_mosquitto,
        ratio,
    }
}

/// Values of the same block.
fn pairs(ours: &[(u32, f64)], theirs: &[(u32, f64)]) -> impl Iterator<Item = (f64, f64)> {
    ours.iter().filter_map(|(block, value)| {
        let other = theirs.iter().find(|(other, _)| other == block);
        other.map(|(_, other)| (*value, *other))
    })
}

fn estimate(values: &[f64], middle: fn(&[f64]) -> Option<f64>, bootstrap: &mut Bootstrap) -> Option<Estimate> {
    let value = middle(values)?;
    Some(Estimate::over_units(value, values, || bootstrap.of(values, middle)))
}

/// A count has no uncertainty.
fn sum(values: &[f64]) -> Option<Estimate> {
    let value: f64 = values.iter().sum();
    (!values.is_empty()).then_some(exact(value))
}

fn exact(value: f64) -> Estimate {
    Estimate {
        value,
        interval: Interval {
            low: value,
            high: value,
            method: Method::Range,
        },
    }
}

fn outcome(promise: Promise, figure: Option<&Estimate>) -> Outcome {
    Outcome::of(figure.and_then(|figure| {
        let Interval { low, high, method } = figure.interval;
        match promise {
            // A range of four blocks or fewer says nothing of the next one.
            _ if method == Method::Range && low < high => None,
            Promise::AtMost(bound) if high <= bound => Some(true),
            Promise::AtMost(bound) if low > bound => Some(false),
            Promise::AtLeast(bound) if low >= bound => Some(true),
            Promise::AtLeast(bound) if high < bound => Some(false),
            _ => None,
        }
    }))
}

fn binary(run: &CapacityRun) -> Option<Row> {
    let size = |contender| {
        let program = run
            .programs
            .iter()
            .find(|program| program.contenders.contains(&contender));
        program.map(|program| exact(program.binary_bytes as f64))
    };
    let (selvedge, mosquitto) = (size(Contender::SelvedgeDisk), size(Contender::Mosquitto));
    let promise = Promise::AtMost(25e6);
    selvedge?;
    Some(Row {
        label: "program file".to_owned(),
        unit: Unit::Megabytes,
        ratio: selvedge
            .zip(mosquitto)
            .map(|(ours, theirs)| exact(ours.value / theirs.value)),
        verdict: Some(Verdict {
            promise,
            outcome: outcome(promise, selvedge.as_ref()),
        }),
        selvedge,
        mosquitto,
    })
}
