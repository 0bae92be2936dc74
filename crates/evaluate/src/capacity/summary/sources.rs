//! The rows of the table, in its order: where each one's values come from, and what is promised.

use super::{Promise, Unit};
use crate::capacity::contender::Contender;
use crate::capacity::durable::PACED_PER_S;
use crate::capacity::options::Part;
use crate::capacity::readings;
use crate::capacity::record::{CapacityRun, Figure};
use crate::report::words;

/// Where a row's values come from.
pub(super) struct Source {
    pub(super) label: String,
    pub(super) unit: Unit,
    pub(super) part: Part,
    pub(super) figure: Figure,
    pub(super) selvedge: Contender,
    pub(super) payload_bytes: Option<u32>,
    pub(super) promise: Option<Promise>,
}

pub(super) fn sources(run: &CapacityRun) -> Vec<Source> {
    let mut sources = footprint(run);
    sources.extend(drained(run, Part::Drain, "SQLite", 20_000.0));
    sources.extend(drained(run, Part::DrainPostgresql, "PostgreSQL", 50_000.0));
    sources.extend(far());
    sources.extend(thin());
    sources.extend(storm(run));
    sources.extend(cut(run));
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
fn drained(run: &CapacityRun, part: Part, database: &str, stored: f64) -> Vec<Source> {
    use Promise::{AtLeast, AtMost};
    let backlog = match part {
        Part::Drain => format!(
            "backlog of {} to the cloud",
            words::count(u64::from(run.options.queued))
        ),
        _ => format!("the same, {database}, to the cloud"),
    };
    let list = [
        (backlog, Unit::PerS, Figure::DrainedPerS, Some(AtLeast(stored))),
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
            "  live p99, meanwhile to without".to_owned(),
            Unit::Times,
            Figure::LiveDrainRatio,
            Some(AtMost(3.0)),
        ),
    ];
    let source = |row| of_link((part, Some(readings::PAYLOAD_BYTES)), row);
    list.into_iter().map(source).collect()
}

/// A backlog over a long line.
fn far() -> Vec<Source> {
    let list = [
        (
            "backlog over 300 ms, to the cloud".to_owned(),
            Unit::PerS,
            Figure::FarDrainedPerS,
            None,
        ),
        (
            "  the same without delay".to_owned(),
            Unit::PerS,
            Figure::NearDrainedPerS,
            None,
        ),
        (
            "  share of it that is left over 300 ms".to_owned(),
            Unit::Share,
            Figure::FarDrainRatio,
            Some(Promise::AtLeast(0.9)),
        ),
    ];
    let source = |row| of_link((Part::DrainFar, Some(readings::PAYLOAD_BYTES)), row);
    list.into_iter().map(source).collect()
}

/// A backlog over a line that is much too thin for it.
fn thin() -> Vec<Source> {
    use Promise::{AtLeast, AtMost};
    let list = [
        (
            "backlog at 8 kbit/s, share of payload".to_owned(),
            Unit::Share,
            Figure::ThinPayloadShare,
            Some(AtLeast(0.8)),
        ),
        (
            "  of what goes to the cloud alone".to_owned(),
            Unit::Share,
            Figure::ThinUpPayloadShare,
            None,
        ),
        (
            "  of both ways, what comes back".to_owned(),
            Unit::Share,
            Figure::ThinDownShare,
            None,
        ),
        ("  use of the line".to_owned(), Unit::Share, Figure::ThinUse, None),
        (
            "  share of payload beside calls".to_owned(),
            Unit::Share,
            Figure::ThinCallsPayloadShare,
            None,
        ),
        ("  call, p50".to_owned(), Unit::Ms, Figure::CallP50Ms, None),
        (
            "  call, slowest".to_owned(),
            Unit::Ms,
            Figure::CallMaxMs,
            Some(AtMost(3_000.0)),
        ),
        ("  calls".to_owned(), Unit::Messages, Figure::CallsMessages, None),
        (
            "  calls without an answer".to_owned(),
            Unit::Messages,
            Figure::CallsLostMessages,
            Some(AtMost(0.0)),
        ),
    ];
    let source = |row| of_link((Part::Thin, Some(readings::PAYLOAD_BYTES)), row);
    list.into_iter().map(source).collect()
}

/// Many edges that reconnect at once.
fn storm(run: &CapacityRun) -> Vec<Source> {
    use Promise::AtMost;
    let edges = words::count(u64::from(run.options.edges));
    let in_time = Some(AtMost(30_000.0));
    let none = Some(AtMost(0.0));
    let list = [
        (
            format!("{edges} edges in sync, line back"),
            Unit::Ms,
            Figure::LineSyncMs,
            in_time,
        ),
        (
            "  edges that did not come back".to_owned(),
            Unit::Messages,
            Figure::LineMissingEdges,
            none,
        ),
        (
            "  live at another edge, p99".to_owned(),
            Unit::Us,
            Figure::LiveStormP99Us,
            None,
        ),
        ("  the same before, p99".to_owned(), Unit::Us, Figure::LiveP99Us, None),
        (
            "  live p99, meanwhile to before".to_owned(),
            Unit::Times,
            Figure::LiveStormRatio,
            Some(AtMost(3.0)),
        ),
        (
            "  live messages lost".to_owned(),
            Unit::Messages,
            Figure::LiveLostMessages,
            none,
        ),
        (
            format!("{edges} edges in sync, cloud killed"),
            Unit::Ms,
            Figure::CloudSyncMs,
            in_time,
        ),
        (
            "  edges that did not come back".to_owned(),
            Unit::Messages,
            Figure::CloudMissingEdges,
            none,
        ),
    ];
    let source = |row| of_link((Part::Storm, None), row);
    list.into_iter().map(source).collect()
}

/// A cut with crashes of both sides.
fn cut(run: &CapacityRun) -> Vec<Source> {
    let none = Some(Promise::AtMost(0.0));
    let length = words::duration(run.options.cut_us as f64);
    let count = |label: &str, figure, promise| (label.to_owned(), Unit::Messages, figure, promise);
    let list = [
        (
            format!("cut of {length}, acknowledged and lost"),
            Unit::Messages,
            Figure::CutLostMessages,
            none,
        ),
        count("  of acknowledged messages", Figure::CutAcknowledgedMessages, None),
        count("  in doubt at a crash", Figure::CutInDoubtMessages, None),
        count("  rows of those in doubt", Figure::CutFurtherMessages, None),
        count(
            "  rows beyond the first of a message",
            Figure::CutDuplicateMessages,
            none,
        ),
        count("  rows that nobody sent", Figure::CutUnknownMessages, none),
        count(
            "  edge's log and database differ by",
            Figure::CutUnbalancedMessages,
            none,
        ),
        (
            "  all in the database, from its end".to_owned(),
            Unit::Ms,
            Figure::CutCaughtUpMs,
            None,
        ),
    ];
    let source = |row| of_link((Part::Cut, None), row);
    list.into_iter().map(source).collect()
}

fn of_link(
    (part, payload_bytes): (Part, Option<u32>),
    (label, unit, figure, promise): (String, Unit, Figure, Option<Promise>),
) -> Source {
    Source {
        label,
        unit,
        part,
        figure,
        selvedge: Contender::SelvedgeDisk,
        payload_bytes,
        promise,
    }
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
