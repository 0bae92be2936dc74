//! The engine for ingest.

use std::ops::RangeInclusive;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::Place;
use super::retention::{REJECTED, Swept, TELEMETRY, remove_some, shrink_some, sweep_some};
use super::transaction::SqliteTransaction;
use crate::engine::{Engine, SeriesName, Transaction};
use crate::error::{Error, Failure};
use crate::retention::{Cutoffs, Retention, Sweeps, before};

pub(crate) struct Sqlite {
    connection: Connection,
    place: Place,
    telemetry: Sweeps<Swept>,
    rejected: Sweeps<Swept>,
}

impl Sqlite {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let (connection, place) = super::open(path)?;
        Ok(Sqlite {
            connection,
            place,
            telemetry: Sweeps::default(),
            rejected: Sweeps::default(),
        })
    }

    /// Commits wait for no disk: a power cut may take back the last of them, whole.
    pub(crate) fn open_unsynced(path: &Path) -> Result<Self, Error> {
        let unsynced = Self::open(path)?;
        let set = unsynced.connection.pragma_update(None, "synchronous", "NORMAL");
        set.map_err(|error| unsynced.place.class(&error).into_error(&unsynced.place.0))?;
        Ok(unsynced)
    }

    fn write<T>(&mut self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Failure> {
        write(&mut self.connection, &self.place, work)
    }

    fn read<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Failure> {
        work(&self.connection).map_err(|error| self.place.class(&error))
    }
}

/// Runs `work` in a transaction that excludes other writers from its beginning: one that began by reading could not
/// always go on to write.
fn write<T>(
    connection: &mut Connection,
    place: &Place,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, Failure> {
    let class = |error| place.class(&error);
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = begun.map_err(class)?;
    let done = work(&transaction).map_err(class)?;
    transaction.commit().map_err(class)?;
    Ok(done)
}

impl Engine for Sqlite {
    fn place(&self) -> &str {
        &self.place.0
    }

    fn edges(&mut self, names: &[&str]) -> Result<Vec<i32>, Failure> {
        self.write(|connection| {
            let mut insert =
                connection.prepare_cached("INSERT INTO edges (name) VALUES (?1) ON CONFLICT DO NOTHING")?;
            let mut select = connection.prepare_cached("SELECT id FROM edges WHERE name = ?1")?;
            let number = |name: &&str| {
                insert.execute([name])?;
                select.query_row([name], |row| row.get(0))
            };
            names.iter().map(number).collect()
        })
    }

    fn find_series(&mut self, names: &[SeriesName]) -> Result<Vec<Option<i64>>, Failure> {
        self.read(|connection| {
            let mut select =
                connection.prepare_cached("SELECT id FROM series WHERE tenant = ?1 AND device = ?2 AND stream = ?3")?;
            let find = |name: &SeriesName| {
                select
                    .query_row(params![name.tenant, name.device, name.stream], |row| row.get(0))
                    .optional()
            };
            names.iter().map(find).collect()
        })
    }

    fn count_series(&mut self, tenant: &str, device: &str) -> Result<u64, Failure> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT count(*) FROM series WHERE tenant = ?1 AND device = ?2")?
                .query_row([tenant, device], |row| row.get(0))
        })
    }

    fn make_series(&mut self, names: &[SeriesName]) -> Result<(), Failure> {
        self.write(|connection| {
            let mut insert = connection.prepare_cached(
                "INSERT INTO series (tenant, device, stream) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
            )?;
            for name in names {
                insert.execute(params![name.tenant, name.device, name.stream])?;
            }
            Ok(())
        })
    }

    fn marks(&mut self, edge: &str, limit: u64) -> Result<Vec<(i64, RangeInclusive<u64>)>, Failure> {
        self.read(|connection| {
            let mut select = connection.prepare_cached(
                "SELECT epoch, first, last FROM ranges WHERE edge = (SELECT id FROM edges WHERE name = ?1)
                ORDER BY epoch DESC, first LIMIT ?2",
            )?;
            let rows = select.query_map(params![edge, limit], |row| Ok((row.get(0)?, row.get(1)?..=row.get(2)?)))?;
            rows.collect()
        })
    }

    fn begin(&mut self, now_ms: i64) -> Result<Box<dyn Transaction + '_>, Failure> {
        let begun = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate);
        let inner = begun.map_err(|error| self.place.class(&error))?;
        Ok(Box::new(SqliteTransaction::new(inner, &self.place, now_ms)))
    }

    fn retain(&mut self, retention: &Retention, now_ms: i64) -> Result<bool, Failure> {
        let cutoffs = Cutoffs::of(retention, now_ms);
        let mut has_more = match cutoffs.of_all() {
            Some(cutoff) => self.write(|connection| remove_some(connection, cutoff))?,
            None => false,
        };
        for (table, sweeps) in [(TELEMETRY, &mut self.telemetry), (REJECTED, &mut self.rejected)] {
            has_more |= sweeps.go_on(retention, |age, swept| {
                let until_ms = before(now_ms, age);
                let sweep = |connection: &Connection| sweep_some(connection, &table, &cutoffs, until_ms, swept);
                write(&mut self.connection, &self.place, sweep)
            })?;
        }
        Ok(has_more)
    }

    fn shrink(&mut self, bytes: u64) -> Result<bool, Failure> {
        self.write(|connection| shrink_some(connection, bytes))
    }
}
