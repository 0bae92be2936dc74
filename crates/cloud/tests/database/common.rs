//! Readings, and what became of them.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use cloud::{Database, Error, Gap, Ingested, Origin, Point, Queries, Reading, Value};

pub(crate) const TENANT: &str = "acme";
pub(crate) const DEVICE: &str = "press-1";
pub(crate) const EDGE: &str = "edge-a";
/// 2026-11-22, 00:00 UTC.
pub(crate) const NOW_MS: i64 = 1_795_305_600_000;

pub(crate) fn origin(epoch: u64, sequence: u64) -> Origin {
    Origin::new(EDGE.into(), epoch, sequence).unwrap()
}

/// A message of epoch 1, received `sequence` ms after [`NOW_MS`].
pub(crate) fn reading(sequence: u64, payload: impl Into<Vec<u8>>) -> Reading {
    Reading {
        tenant: TENANT.into(),
        device: DEVICE.into(),
        subtopic: String::new(),
        payload: payload.into().into(),
        received_at_ms: NOW_MS + sequence as i64,
        origin: origin(1, sequence),
    }
}

/// `{"x": sequence}`.
pub(crate) fn numbered(sequence: u64) -> Reading {
    reading(sequence, format!("{{\"x\": {sequence}}}"))
}

pub(crate) fn ingest(database: &mut Database, readings: &[Reading]) -> Ingested {
    database.ingest(readings, NOW_MS).unwrap()
}

/// Offers readings until they are in, as an ingest does whose database comes and goes; at most for a minute.
pub(crate) fn ingest_at_last(database: &mut Database, readings: &[Reading]) {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match database.ingest(readings, NOW_MS) {
            Ok(_) => return,
            Err(Error::Away { .. } | Error::Full { .. }) if Instant::now() < until => {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// All rows of a stream, page by page.
pub(crate) fn all(queries: &mut Queries, stream: &str) -> Vec<Point> {
    let mut points = Vec::new();
    let mut after = None;
    loop {
        let page = queries
            .range(TENANT, DEVICE, stream, i64::MIN..i64::MAX, 1_000, after.as_ref())
            .unwrap();
        points.extend(page.items);
        let Some(next) = page.next else { return points };
        after = Some(next);
    }
}

pub(crate) fn values(queries: &mut Queries, stream: &str) -> Vec<Value<'static>> {
    all(queries, stream).into_iter().map(|point| point.value).collect()
}

pub(crate) fn sequences(queries: &mut Queries, stream: &str) -> Vec<u64> {
    all(queries, stream)
        .iter()
        .map(|point| point.origin.sequence())
        .collect()
}

/// The ranges of epoch 1.
pub(crate) fn mark(database: &mut Database) -> Vec<RangeInclusive<u64>> {
    let marks = database.marks(EDGE).unwrap();
    marks
        .into_iter()
        .find(|mark| mark.epoch == 1)
        .map_or_else(Vec::new, |mark| mark.ranges)
}

pub(crate) fn gap(range: RangeInclusive<u64>) -> Gap {
    Gap::new(origin(1, *range.start()), *range.end()).unwrap()
}
