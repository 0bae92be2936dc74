//! What the telemetry database needs of an SQL engine. SQLite and PostgreSQL are engines.

use std::ops::RangeInclusive;

use crate::error::Failure;
use crate::reading::Reading;
use crate::retention::Retention;
use crate::value::Value;

/// An epoch of an edge, by the edge's number in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct EpochKey {
    pub(crate) edge: i32,
    pub(crate) epoch: i64,
}

/// A range of sequences of an epoch.
pub(crate) type EpochRange = (EpochKey, RangeInclusive<u64>);

/// A stream by its names. Ordered, so that two writers make them in the same order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SeriesName {
    pub(crate) tenant: String,
    pub(crate) device: String,
    pub(crate) stream: String,
}

/// A row of the table `telemetry`.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    pub(crate) series: i64,
    pub(crate) source_time_ms: i64,
    pub(crate) received_at_ms: i64,
    pub(crate) stored_at_ms: i64,
    pub(crate) origin: EpochKey,
    pub(crate) sequence: i64,
    /// Which of the message's streams.
    pub(crate) part: i16,
    pub(crate) quality: Option<&'a str>,
    pub(crate) value: &'a Value<'a>,
}

impl Row<'_> {
    /// Rows of one stream and edge are ordered by this, never by arrival or by a clock.
    pub(crate) fn order(&self) -> (i64, i64, i16) {
        // Two lanes of an epoch have one row of sequences.
        (self.origin.epoch / 2, self.sequence, self.part)
    }
}

/// A reading that is not stored as telemetry, and why.
pub(crate) struct Refusal<'a> {
    pub(crate) reading: &'a Reading,
    pub(crate) origin: EpochKey,
    pub(crate) reason: String,
}

/// Changes of the marks of several epochs.
#[derive(Debug, Default)]
pub(crate) struct MarkChanges {
    /// By their first sequence.
    pub(crate) removed: Vec<(EpochKey, u64)>,
    pub(crate) written: Vec<EpochRange>,
    /// How many ranges an epoch has, where that changed.
    pub(crate) counts: Vec<(EpochKey, u64)>,
}

/// A database that is written to.
pub(crate) trait Engine: Send {
    /// Where it lies, for messages; without a password.
    fn place(&self) -> &str;

    /// Numbers of edges, made where they are new.
    fn edges(&mut self, names: &[&str]) -> Result<Vec<i32>, Failure>;

    /// Numbers of the streams that there are.
    fn find_series(&mut self, names: &[SeriesName]) -> Result<Vec<Option<i64>>, Failure>;

    /// How many streams a device has.
    fn count_series(&mut self, tenant: &str, device: &str) -> Result<u64, Failure>;

    /// Makes streams; some may have been made by another writer meanwhile.
    fn make_series(&mut self, names: &[SeriesName]) -> Result<(), Failure>;

    /// Ranges of an edge's marks, newest epoch first, lowest sequence first, at most `limit`.
    fn marks(&mut self, edge: &str, limit: u64) -> Result<Vec<(i64, RangeInclusive<u64>)>, Failure>;

    /// Begins a transaction. Dropping it undoes it.
    fn begin(&mut self, now_ms: i64) -> Result<Box<dyn Transaction + '_>, Failure>;

    /// Removes some of what is old at that time; whether there is more.
    fn retain(&mut self, retention: &Retention, now_ms: i64) -> Result<bool, Failure>;

    /// Removes some of the oldest rows while all take more bytes; whether they may still do.
    fn shrink(&mut self, bytes: u64) -> Result<bool, Failure>;
}

/// What one transaction does, in this order.
pub(crate) trait Transaction {
    /// Keeps other writers from these epochs until the end, and says how many ranges each mark has. `epochs` is sorted,
    /// so that two writers never wait for each other.
    fn lock(&mut self, epochs: &[EpochKey]) -> Result<Vec<u64>, Failure>;

    /// The stored ranges that overlap or touch any of `runs`.
    fn ranges_near(&mut self, runs: &[EpochRange]) -> Result<Vec<EpochRange>, Failure>;

    fn change_marks(&mut self, changes: &MarkChanges) -> Result<(), Failure>;

    fn insert(&mut self, rows: &[Row<'_>]) -> Result<(), Failure>;

    /// Rows that become the latest of their stream and edge, if they are later than the one that is there. Sorted, one
    /// of each.
    fn put_latest(&mut self, rows: &[&Row<'_>]) -> Result<(), Failure>;

    fn refuse(&mut self, refusals: &[Refusal<'_>]) -> Result<(), Failure>;

    fn commit(self: Box<Self>) -> Result<(), Failure>;
}
