//! One transaction of the ingest. A statement a step, whatever the size of the batch.

use std::pin::pin;

use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row as Answer};

use super::connection::{Connection, Parameters};
use super::partitions::Day;
use crate::engine::{EpochKey, EpochRange, MarkChanges, Refusal, Row, Transaction};
use crate::error::Failure;

const COLUMNS: &str =
    "series, source_time_ms, received_at_ms, stored_at_ms, epoch, sequence, number, edge, part, kind, quality, body";

const TYPES: [Type; 12] = [
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::FLOAT8,
    Type::INT4,
    Type::INT2,
    Type::INT2,
    Type::TEXT,
    Type::BYTEA,
];

/// Has begun. The connection is given up unless the transaction is committed, or undone in good order.
pub(super) struct PostgresTransaction<'a> {
    slot: &'a mut Option<Connection>,
    day: Day,
    now_ms: i64,
    is_committed: bool,
}

impl<'a> PostgresTransaction<'a> {
    pub(super) fn new(slot: &'a mut Option<Connection>, day: Day, now_ms: i64) -> Self {
        PostgresTransaction {
            slot,
            day,
            now_ms: day.clamp(now_ms),
            is_committed: false,
        }
    }

    /// A connection on which anything but the data was at fault is given up at once: asking it to undo the transaction
    /// could take as long again.
    fn on<T>(&mut self, work: impl FnOnce(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let connection = self.slot.as_mut().expect("a transaction is not used after it failed");
        let done = work(connection);
        if let Err(Failure::Error(_)) = done {
            *self.slot = None;
        }
        done
    }

    fn execute(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<(), Failure> {
        self.on(|connection| connection.execute(sql, parameters)).map(drop)
    }

    fn query(&mut self, sql: &'static str, parameters: Parameters<'_>) -> Result<Vec<Answer>, Failure> {
        self.on(|connection| connection.query(sql, parameters))
    }
}

impl Transaction for PostgresTransaction<'_> {
    fn lock(&mut self, epochs: &[EpochKey]) -> Result<Vec<u64>, Failure> {
        let (edges, numbers) = split(epochs.iter());
        self.execute(
            "INSERT INTO epochs (edge, epoch, ranges) SELECT e, n, 0 FROM unnest($1::int[], $2::bigint[]) AS k(e, n)
            ON CONFLICT DO NOTHING",
            &[&edges, &numbers],
        )?;
        let rows = self.query(
            "SELECT e.ranges FROM epochs e JOIN unnest($1::int[], $2::bigint[]) AS k(edge, epoch)
                ON e.edge = k.edge AND e.epoch = k.epoch
            ORDER BY e.edge, e.epoch FOR UPDATE OF e",
            &[&edges, &numbers],
        )?;
        Ok(rows.iter().map(|row| row.get::<_, i32>(0) as u64).collect())
    }

    fn ranges_near(&mut self, runs: &[EpochRange]) -> Result<Vec<EpochRange>, Failure> {
        let (edges, epochs) = split(runs.iter().map(|(key, _)| key));
        let (firsts, lasts) = bounds(runs);
        let rows = self.query(
            "SELECT k.edge, k.epoch, near.first, near.last
            FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[]) AS k(edge, epoch, first, last)
            CROSS JOIN LATERAL (
                (SELECT r.first, r.last FROM ranges r
                WHERE r.edge = k.edge AND r.epoch = k.epoch AND r.first <= k.first ORDER BY r.first DESC LIMIT 1)
                UNION ALL
                (SELECT r.first, r.last FROM ranges r
                WHERE r.edge = k.edge AND r.epoch = k.epoch AND r.first > k.first AND r.first - 1 <= k.last)
            ) AS near",
            &[&edges, &epochs, &firsts, &lasts],
        )?;
        let range = |row: &Answer| {
            let key = EpochKey {
                edge: row.get(0),
                epoch: row.get(1),
            };
            (key, row.get::<_, i64>(2) as u64..=row.get::<_, i64>(3) as u64)
        };
        Ok(rows.iter().map(range).collect())
    }

    fn change_marks(&mut self, changes: &MarkChanges) -> Result<(), Failure> {
        if !changes.removed.is_empty() {
            let (edges, epochs) = split(changes.removed.iter().map(|(key, _)| key));
            let firsts: Vec<i64> = changes.removed.iter().map(|(_, first)| *first as i64).collect();
            self.execute(
                "DELETE FROM ranges r USING unnest($1::int[], $2::bigint[], $3::bigint[]) AS k(edge, epoch, first)
                WHERE r.edge = k.edge AND r.epoch = k.epoch AND r.first = k.first",
                &[&edges, &epochs, &firsts],
            )?;
        }
        if !changes.written.is_empty() {
            let (edges, epochs) = split(changes.written.iter().map(|(key, _)| key));
            let (firsts, lasts) = bounds(&changes.written);
            self.execute(
                "INSERT INTO ranges SELECT * FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::bigint[])
                ON CONFLICT (edge, epoch, first) DO UPDATE SET last = excluded.last",
                &[&edges, &epochs, &firsts, &lasts],
            )?;
        }
        if !changes.counts.is_empty() {
            let (edges, epochs) = split(changes.counts.iter().map(|(key, _)| key));
            let counts: Vec<i32> = changes.counts.iter().map(|(_, count)| *count as i32).collect();
            self.execute(
                "UPDATE epochs e SET ranges = k.ranges
                FROM unnest($1::int[], $2::bigint[], $3::int[]) AS k(edge, epoch, ranges)
                WHERE e.edge = k.edge AND e.epoch = k.epoch",
                &[&edges, &epochs, &counts],
            )?;
        }
        Ok(())
    }

    /// Into the day's partition itself: the batch has one time of storing, so nothing is left to route.
    fn insert(&mut self, rows: &[Row<'_>]) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let now_ms = self.now_ms;
        let sql = format!("COPY {} ({COLUMNS}) FROM STDIN (FORMAT binary)", self.day.table());
        self.on(|connection| connection.run(|client| copy(client, sql, rows, now_ms)))
    }

    fn put_latest(&mut self, rows: &[&Row<'_>]) -> Result<(), Failure> {
        if rows.is_empty() {
            return Ok(());
        }
        let (edges, epochs) = split(rows.iter().map(|row| &row.origin));
        self.execute(
            "INSERT INTO latest SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[],
                $5::smallint[], $6::bigint[], $7::bigint[], $8::smallint[], $9::double precision[], $10::text[],
                $11::bytea[])
            ON CONFLICT (series, edge) DO UPDATE SET epoch = excluded.epoch, sequence = excluded.sequence,
                part = excluded.part, source_time_ms = excluded.source_time_ms,
                received_at_ms = excluded.received_at_ms, kind = excluded.kind, number = excluded.number,
                quality = excluded.quality, body = excluded.body
            WHERE (excluded.epoch / 2, excluded.sequence, excluded.part) > (latest.epoch / 2, latest.sequence, latest.part)",
            &[
                &column(rows, |row| row.series),
                &edges,
                &epochs,
                &column(rows, |row| row.sequence),
                &column(rows, |row| row.part),
                &column(rows, |row| row.source_time_ms),
                &column(rows, |row| row.received_at_ms),
                &column(rows, |row| row.value.kind()),
                &column(rows, |row| row.value.as_number()),
                &rows.iter().map(|row| row.quality).collect::<Vec<_>>(),
                &rows.iter().map(|row| row.value.body()).collect::<Vec<_>>(),
            ],
        )
    }

    fn refuse(&mut self, refusals: &[Refusal<'_>]) -> Result<(), Failure> {
        let now_ms = self.now_ms;
        for Refusal {
            reading,
            origin,
            reason,
        } in refusals
        {
            self.execute(
                "INSERT INTO rejected (stored_at_ms, received_at_ms, edge, epoch, sequence, tenant, device, subtopic,
                    payload, reason)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
                &[
                    &now_ms,
                    &reading.received_at_ms,
                    &origin.edge,
                    &origin.epoch,
                    &(reading.origin.sequence() as i64),
                    &reading.tenant.as_bytes(),
                    &reading.device.as_bytes(),
                    &reading.subtopic.as_bytes(),
                    &&reading.payload[..],
                    &reason.replace('\0', "␀"),
                ],
            )?;
        }
        Ok(())
    }

    fn commit(mut self: Box<Self>) -> Result<(), Failure> {
        self.on(|connection| connection.batch("COMMIT"))?;
        self.is_committed = true;
        Ok(())
    }
}

impl Drop for PostgresTransaction<'_> {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        if let Some(mut connection) = self.slot.take()
            && connection.batch("ROLLBACK").is_ok()
        {
            *self.slot = Some(connection);
        }
    }
}

async fn copy(client: &mut Client, sql: String, rows: &[Row<'_>], now_ms: i64) -> Result<(), tokio_postgres::Error> {
    let mut writer = pin!(BinaryCopyInWriter::new(client.copy_in(&sql).await?, &TYPES));
    for row in rows {
        let columns: [&(dyn ToSql + Sync); 12] = [
            &row.series,
            &row.source_time_ms,
            &row.received_at_ms,
            &now_ms,
            &row.origin.epoch,
            &row.sequence,
            &row.value.as_number(),
            &row.origin.edge,
            &row.part,
            &row.value.kind(),
            &row.quality,
            &row.value.body(),
        ];
        writer.as_mut().write(&columns).await?;
    }
    writer.finish().await.map(drop)
}

fn column<T>(rows: &[&Row<'_>], of: impl Fn(&Row<'_>) -> T) -> Vec<T> {
    rows.iter().map(|row| of(row)).collect()
}

fn split<'a>(keys: impl Iterator<Item = &'a EpochKey>) -> (Vec<i32>, Vec<i64>) {
    keys.map(|key| (key.edge, key.epoch)).unzip()
}

/// Both ends fit: sequences are at most `MAX_NUMBER`.
fn bounds(ranges: &[EpochRange]) -> (Vec<i64>, Vec<i64>) {
    ranges
        .iter()
        .map(|(_, range)| (*range.start() as i64, *range.end() as i64))
        .unzip()
}
