//! What queries answer.

use super::Cursor;
use crate::reading::Origin;
use crate::value::Value;

/// One row of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// When it was measured by the device's word, else received by the edge; ms since 1970 UTC.
    pub source_time_ms: i64,
    /// When the edge received it, by the edge's clock; ms since 1970 UTC.
    pub received_at_ms: i64,
    /// What the device said.
    pub value: Value<'static>,
    /// The member `q`.
    pub quality: Option<String>,
    /// What its message is known by.
    pub origin: Origin,
}

/// A row as it was stored, of whichever device and stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPoint {
    /// The device that said it.
    pub device: String,
    /// The stream.
    pub stream: String,
    /// What it said.
    pub point: Point,
    /// Behind it: rows that were stored later. `None`: it is not in a database.
    pub cursor: Option<Cursor>,
}

/// A part of an answer, and where the next begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// What was asked for.
    pub items: Vec<T>,
    /// Give it back to go on; `None`: there is no more.
    pub next: Option<Cursor>,
}

/// The numbers of a stream in `start_ms .. start_ms + width`. Buckets without numbers are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Bucket {
    /// Its beginning, ms since 1970 UTC.
    pub start_ms: i64,
    /// How many numbers.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Their arithmetic mean.
    pub mean: f64,
    /// The first by source time, then by epoch and sequence.
    pub first: f64,
    /// The last in that order.
    pub last: f64,
}

/// A reading that could never be stored as rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// Why.
    pub reason: String,
    /// The device as it was named; whatever cannot be shown is replaced.
    pub device: String,
    /// The topic behind `devices/{id}/telemetry/`, likewise.
    pub subtopic: String,
    /// The message.
    pub payload: Vec<u8>,
    /// When the edge received it, by the edge's clock; ms since 1970 UTC.
    pub received_at_ms: i64,
    /// What it is known by.
    pub origin: Origin,
}
