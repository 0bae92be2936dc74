//! A partition for each day on which something was stored.

use time::{Duration, OffsetDateTime};

use super::connection::Connection;
use super::schema::LOCK;
use crate::error::Failure;

const DAY_MS: i64 = 86_400_000;

/// Clocks outside the years 2000 to 9999 are taken for the nearest day within.
const FIRST_DAY: i64 = 10_957;
const LAST_DAY: i64 = 2_932_896;

/// A day of the cloud's clock, counted from 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Day(i64);

impl Day {
    pub(super) fn of(now_ms: i64) -> Self {
        Day(now_ms.div_euclid(DAY_MS).clamp(FIRST_DAY, LAST_DAY))
    }

    /// A time of that day: `now_ms`, if it is one.
    pub(super) fn clamp(self, now_ms: i64) -> i64 {
        now_ms.clamp(self.start_ms(), self.end_ms() - 1)
    }

    pub(super) fn table(self) -> String {
        let date = (OffsetDateTime::UNIX_EPOCH + Duration::days(self.0)).date();
        format!(
            "telemetry_{:04}{:02}{:02}",
            date.year(),
            u8::from(date.month()),
            date.day()
        )
    }

    fn start_ms(self) -> i64 {
        self.0 * DAY_MS
    }

    pub(super) fn end_ms(self) -> i64 {
        (self.0 + 1) * DAY_MS
    }
}

/// Makes a day's partition, in a transaction of its own. It is made beside the table and then attached, which does not
/// keep others from reading and writing; two who want it wait for each other.
pub(super) fn make(connection: &mut Connection, day: Day) -> Result<(), Failure> {
    let (table, start, end) = (day.table(), day.start_ms(), day.end_ms());
    connection.batch(&format!(
        "BEGIN; {LOCK};
        DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'selvedge' AND tablename = '{table}') THEN
                CREATE TABLE {table} (LIKE telemetry INCLUDING ALL);
                ALTER TABLE telemetry ATTACH PARTITION {table} FOR VALUES FROM ({start}) TO ({end});
            END IF;
        END $$;
        COMMIT"
    ))
}

/// The first of the partitions from `first` on, by name, whose whole day was before; `None`: there is none.
pub(super) fn from(
    connection: &mut Connection,
    first: &str,
    is_with_first: bool,
    stored_before_ms: i64,
) -> Result<Option<String>, Failure> {
    let end = Day::of(stored_before_ms).table();
    let rows = connection.query(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'selvedge.telemetry'::regclass AND c.relname::text COLLATE \"C\" < $1
            AND (c.relname::text COLLATE \"C\" > $2 OR c.relname = $2 AND $3)
        ORDER BY c.relname LIMIT 1",
        &[&end, &first, &is_with_first],
    )?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Drops a partition that nobody has rows in any more.
pub(super) fn drop_empty(connection: &mut Connection, table: &str) -> Result<(), Failure> {
    connection.batch(&format!(
        "DO $$ BEGIN
            IF NOT EXISTS (SELECT FROM {table}) THEN
                LOCK TABLE {table};
                IF NOT EXISTS (SELECT FROM {table}) THEN DROP TABLE {table}; END IF;
            END IF;
        END $$"
    ))
}

/// Drops the oldest partition whose whole day was before; whether there may be another.
pub(super) fn drop_oldest(connection: &mut Connection, stored_before_ms: i64) -> Result<bool, Failure> {
    let last = Day::of(stored_before_ms).table();
    let rows = connection.query(
        "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'selvedge.telemetry'::regclass AND c.relname::text COLLATE \"C\" < $1
        ORDER BY c.relname LIMIT 2",
        &[&last],
    )?;
    if let Some(oldest) = rows.first() {
        let table: String = oldest.get(0);
        connection.batch(&format!("DROP TABLE IF EXISTS {table}"))?;
    }
    Ok(rows.len() > 1)
}
