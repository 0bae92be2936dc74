//! The engine for ingest.

use std::mem::take;
use std::ops::RangeInclusive;

use super::Server;
use super::connection::Connection;
use super::partitions::{self, Day};
use super::retention::{STEP_ROWS, Swept, SweptRejected, sweep_rejected, sweep_some};
use super::transaction::PostgresTransaction;
use crate::engine::{Engine, SeriesName, Transaction};
use crate::error::{Error, Failure};
use crate::retention::{Cutoffs, Retention, Sweeps, before};

/// What is read after an epoch's lock was waited for must be what its last holder wrote: a snapshot of before would let
/// a reading in twice.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

pub(crate) struct Postgres {
    server: Server,
    connection: Option<Connection>,
    /// The day whose partition there is.
    day: Option<Day>,
    telemetry: Sweeps<Swept>,
    rejected: Sweeps<SweptRejected>,
}

impl Postgres {
    pub(crate) fn open(server: Server) -> Result<Self, Error> {
        let connection = Connection::open(&server, "").map_err(|failure| failure.into_error(&server.place))?;
        Ok(Postgres {
            server,
            connection: Some(connection),
            day: None,
            telemetry: Sweeps::default(),
            rejected: Sweeps::default(),
        })
    }

    /// Does something on the connection, made anew if the last one failed in any way.
    fn with<T>(&mut self, work: impl FnOnce(&mut Connection) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.server, "")?,
        };
        let done = work(&mut connection)?;
        self.connection = Some(connection);
        Ok(done)
    }
}

impl Engine for Postgres {
    fn place(&self) -> &str {
        &self.server.place
    }

    fn edges(&mut self, names: &[&str]) -> Result<Vec<i32>, Failure> {
        self.with(|connection| {
            connection.execute(
                "INSERT INTO edges (name) SELECT n FROM unnest($1::text[]) AS n
                WHERE NOT EXISTS (SELECT 1 FROM edges WHERE name = n) ON CONFLICT DO NOTHING",
                &[&names],
            )?;
            let rows = connection.query(
                "SELECT e.id FROM unnest($1::text[]) WITH ORDINALITY AS k(name, place)
                JOIN edges e ON e.name = k.name ORDER BY k.place",
                &[&names],
            )?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        })
    }

    fn find_series(&mut self, names: &[SeriesName]) -> Result<Vec<Option<i64>>, Failure> {
        let [tenants, devices, streams] = columns(names);
        self.with(|connection| {
            let rows = connection.query(
                "SELECT s.id FROM unnest($1::text[], $2::text[], $3::text[])
                    WITH ORDINALITY AS k(tenant, device, stream, place)
                LEFT JOIN series s ON s.tenant = k.tenant AND s.device = k.device AND s.stream = k.stream
                ORDER BY k.place",
                &[&tenants, &devices, &streams],
            )?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        })
    }

    fn count_series(&mut self, tenant: &str, device: &str) -> Result<u64, Failure> {
        self.with(|connection| {
            let sql = "SELECT count(*) FROM series WHERE tenant = $1 AND device = $2";
            let count: i64 = connection.query(sql, &[&tenant, &device])?[0].get(0);
            Ok(count as u64)
        })
    }

    fn make_series(&mut self, names: &[SeriesName]) -> Result<(), Failure> {
        let [tenants, devices, streams] = columns(names);
        self.with(|connection| {
            connection.execute(
                "INSERT INTO series (tenant, device, stream)
                SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) ON CONFLICT DO NOTHING",
                &[&tenants, &devices, &streams],
            )
        })?;
        Ok(())
    }

    fn marks(&mut self, edge: &str, limit: u64) -> Result<Vec<(i64, RangeInclusive<u64>)>, Failure> {
        if edge.contains('\0') {
            return Ok(Vec::new());
        }
        self.with(|connection| {
            let rows = connection.query(
                "SELECT r.epoch, r.first, r.last FROM ranges r JOIN edges e ON e.id = r.edge WHERE e.name = $1
                ORDER BY r.epoch DESC, r.first LIMIT $2",
                &[&edge, &(limit as i64)],
            )?;
            let range = |row: &tokio_postgres::Row| row.get::<_, i64>(1) as u64..=row.get::<_, i64>(2) as u64;
            Ok(rows.iter().map(|row| (row.get(0), range(row))).collect())
        })
    }

    fn begin(&mut self, now_ms: i64) -> Result<Box<dyn Transaction + '_>, Failure> {
        let day = Day::of(now_ms);
        if self.day != Some(day) || self.connection.is_none() {
            self.with(|connection| partitions::make(connection, day))?;
            self.day = Some(day);
        }
        self.with(|connection| connection.batch(BEGIN))?;
        Ok(Box::new(PostgresTransaction::new(&mut self.connection, day, now_ms)))
    }

    fn retain(&mut self, retention: &Retention, now_ms: i64) -> Result<bool, Failure> {
        let cutoffs = Cutoffs::of(retention, now_ms);
        let (mut telemetry, mut rejected) = (take(&mut self.telemetry), take(&mut self.rejected));
        let retained = self.with(|connection| {
            let mut has_more = match cutoffs.of_all() {
                Some(cutoff) => remove_of_all(connection, cutoff)?,
                None => false,
            };
            has_more |= telemetry.go_on(retention, |age, swept| {
                sweep_some(connection, &cutoffs, before(now_ms, age), swept)
            })?;
            has_more |= rejected.go_on(retention, |age, swept| {
                sweep_rejected(connection, &cutoffs, before(now_ms, age), swept)
            })?;
            Ok(has_more)
        });
        (self.telemetry, self.rejected) = (telemetry, rejected);
        retained
    }

    /// A server's disk is not this program's to divide.
    fn shrink(&mut self, _: u64) -> Result<bool, Failure> {
        Ok(false)
    }
}

/// Removes a day, and some of the rejected readings, that were stored before then; whether there is more.
fn remove_of_all(connection: &mut Connection, stored_before_ms: i64) -> Result<bool, Failure> {
    let more_days = partitions::drop_oldest(connection, stored_before_ms)?;
    let removed = connection.execute(
        "DELETE FROM rejected WHERE id IN (SELECT id FROM rejected WHERE stored_at_ms < $2 LIMIT $1)",
        &[&STEP_ROWS, &stored_before_ms],
    )?;
    Ok(more_days || removed == STEP_ROWS as u64)
}

fn columns(names: &[SeriesName]) -> [Vec<&str>; 3] {
    let column = |of: fn(&SeriesName) -> &str| names.iter().map(of).collect();
    [
        column(|name| &name.tenant),
        column(|name| &name.device),
        column(|name| &name.stream),
    ]
}
