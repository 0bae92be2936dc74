//! One transaction of the ingest.

use std::ops::RangeInclusive;

use rusqlite::params;

use super::Place;
use crate::engine::{EpochKey, EpochRange, MarkChanges, Refusal, Row, Transaction};
use crate::error::Failure;

pub(super) struct SqliteTransaction<'a> {
    inner: rusqlite::Transaction<'a>,
    place: &'a Place,
    now_ms: i64,
}

impl<'a> SqliteTransaction<'a> {
    /// `inner` has excluded all other writers.
    pub(super) fn new(inner: rusqlite::Transaction<'a>, place: &'a Place, now_ms: i64) -> Self {
        SqliteTransaction { inner, place, now_ms }
    }

    fn class<T>(&self, result: rusqlite::Result<T>) -> Result<T, Failure> {
        result.map_err(|error| self.place.class(&error))
    }

    fn count_ranges(&self, epochs: &[EpochKey]) -> rusqlite::Result<Vec<u64>> {
        let mut insert = self
            .inner
            .prepare_cached("INSERT INTO epochs (edge, epoch, ranges) VALUES (?1, ?2, 0) ON CONFLICT DO NOTHING")?;
        let mut select = self
            .inner
            .prepare_cached("SELECT ranges FROM epochs WHERE edge = ?1 AND epoch = ?2")?;
        let count = |key: &EpochKey| {
            insert.execute(params![key.edge, key.epoch])?;
            select.query_row(params![key.edge, key.epoch], |row| row.get(0))
        };
        epochs.iter().map(count).collect()
    }

    /// The range that begins at or before a run, and those that begin in it or right behind it.
    fn near(&self, runs: &[EpochRange]) -> rusqlite::Result<Vec<EpochRange>> {
        let mut select = self.inner.prepare_cached(
            "SELECT first, last FROM ranges WHERE edge = ?1 AND epoch = ?2 AND first <= ?4 + 1 AND first >= coalesce(
                (SELECT max(first) FROM ranges WHERE edge = ?1 AND epoch = ?2 AND first <= ?3), ?3)",
        )?;
        let mut near = Vec::new();
        for (key, run) in runs {
            let parameters = params![key.edge, key.epoch, *run.start() as i64, *run.end() as i64];
            let ranges = select.query_map(parameters, |row| Ok(row.get::<_, u64>(0)?..=row.get(1)?))?;
            for range in ranges {
                near.push((*key, range?));
            }
        }
        Ok(near)
    }

    fn change(&self, changes: &MarkChanges) -> rusqlite::Result<()> {
        let mut remove = self
            .inner
            .prepare_cached("DELETE FROM ranges WHERE edge = ?1 AND epoch = ?2 AND first = ?3")?;
        for (key, first) in &changes.removed {
            remove.execute(params![key.edge, key.epoch, *first as i64])?;
        }
        let mut write = self.inner.prepare_cached(
            "INSERT INTO ranges (edge, epoch, first, last) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (edge, epoch, first) DO UPDATE SET last = excluded.last",
        )?;
        for (key, range) in &changes.written {
            let (first, last) = bounds(range);
            write.execute(params![key.edge, key.epoch, first, last])?;
        }
        let mut count = self
            .inner
            .prepare_cached("UPDATE epochs SET ranges = ?3 WHERE edge = ?1 AND epoch = ?2")?;
        for (key, ranges) in &changes.counts {
            count.execute(params![key.edge, key.epoch, *ranges as i64])?;
        }
        Ok(())
    }

    fn insert_rows(&self, rows: &[Row<'_>]) -> rusqlite::Result<()> {
        let mut insert = self.inner.prepare_cached(
            "INSERT INTO telemetry (series, source_time_ms, received_at_ms, stored_at_ms, epoch, sequence, edge, part,
                kind, number, quality, body)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?;
        for row in rows {
            insert.execute(params![
                row.series,
                row.source_time_ms,
                row.received_at_ms,
                row.stored_at_ms,
                row.origin.epoch,
                row.sequence,
                row.origin.edge,
                row.part,
                row.value.kind(),
                row.value.as_number(),
                row.quality,
                row.value.body(),
            ])?;
        }
        Ok(())
    }

    fn put(&self, rows: &[&Row<'_>]) -> rusqlite::Result<()> {
        let mut put = self.inner.prepare_cached(
            "INSERT INTO latest VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
            ON CONFLICT (series, edge) DO UPDATE SET epoch = excluded.epoch, sequence = excluded.sequence,
                part = excluded.part, source_time_ms = excluded.source_time_ms,
                received_at_ms = excluded.received_at_ms, kind = excluded.kind, number = excluded.number,
                quality = excluded.quality, body = excluded.body
            WHERE (excluded.epoch / 2, excluded.sequence, excluded.part) > (latest.epoch / 2, latest.sequence, latest.part)",
        )?;
        for row in rows {
            put.execute(params![
                row.series,
                row.origin.edge,
                row.origin.epoch,
                row.sequence,
                row.part,
                row.source_time_ms,
                row.received_at_ms,
                row.value.kind(),
                row.value.as_number(),
                row.quality,
                row.value.body(),
            ])?;
        }
        Ok(())
    }

    fn insert_refusals(&self, refusals: &[Refusal<'_>]) -> rusqlite::Result<()> {
        let mut insert = self.inner.prepare_cached(
            "INSERT INTO rejected (stored_at_ms, received_at_ms, edge, epoch, sequence, tenant, device, subtopic,
                payload, reason)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?;
        for refusal in refusals {
            let reading = refusal.reading;
            insert.execute(params![
                self.now_ms,
                reading.received_at_ms,
                refusal.origin.edge,
                refusal.origin.epoch,
                reading.origin.sequence() as i64,
                reading.tenant.as_bytes(),
                reading.device.as_bytes(),
                reading.subtopic.as_bytes(),
                &reading.payload[..],
                refusal.reason,
            ])?;
        }
        Ok(())
    }
}

/// Both ends fit: sequences are at most `MAX_NUMBER`.
fn bounds(range: &RangeInclusive<u64>) -> (i64, i64) {
    (*range.start() as i64, *range.end() as i64)
}

impl Transaction for SqliteTransaction<'_> {
    fn lock(&mut self, epochs: &[EpochKey]) -> Result<Vec<u64>, Failure> {
        self.class(self.count_ranges(epochs))
    }

    fn ranges_near(&mut self, runs: &[EpochRange]) -> Result<Vec<EpochRange>, Failure> {
        self.class(self.near(runs))
    }

    fn change_marks(&mut self, changes: &MarkChanges) -> Result<(), Failure> {
        self.class(self.change(changes))
    }

    fn insert(&mut self, rows: &[Row<'_>]) -> Result<(), Failure> {
        self.class(self.insert_rows(rows))
    }

    fn put_latest(&mut self, rows: &[&Row<'_>]) -> Result<(), Failure> {
        self.class(self.put(rows))
    }

    fn refuse(&mut self, refusals: &[Refusal<'_>]) -> Result<(), Failure> {
        self.class(self.insert_refusals(refusals))
    }

    fn commit(self: Box<Self>) -> Result<(), Failure> {
        let place = self.place;
        self.inner.commit().map_err(|error| place.class(&error))
    }
}
