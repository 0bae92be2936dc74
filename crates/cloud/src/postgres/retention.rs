//! Removal of rows that some tenants keep no longer, day by day, in steps that hold nobody up.

use tokio_postgres::Client;

use super::connection::Connection;
use super::partitions::{self, Day};
use crate::error::Failure;
use crate::retention::Cutoffs;

/// Rows of one step.
pub(super) const STEP_ROWS: i64 = 10_000;
/// Streams whose rows are looked for in one step.
const STEP_SERIES: i64 = 1_000;

/// The index gives the rows of a stream, and a LIMIT of them; a whole day would be read for them otherwise.
const BY_INDEX: &str = "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off";

/// How far partitions were looked through: up to this stream's number in the one of this name, whole ones before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Swept {
    table: String,
    series: i64,
}

/// No stream has a greater number.
const ALL_SERIES: i64 = i64::MAX;

/// Removes up to [`STEP_ROWS`] of the rows that are old, of up to [`STEP_SERIES`] streams in the next partition whose
/// whole day was before `until_ms`; where it got to, and whether there is more.
pub(super) fn sweep_some(
    connection: &mut Connection,
    cutoffs: &Cutoffs<'_>,
    until_ms: i64,
    swept: Swept,
) -> Result<(Swept, bool), Failure> {
    let is_within = swept.series != ALL_SERIES;
    let Some(table) = partitions::from(connection, &swept.table, is_within, until_ms)? else {
        return Ok((swept, false));
    };
    let after = if table == swept.table { swept.series } else { 0 };
    let (tenants, is_listed) = who_keeps_no_longer(cutoffs, &table);
    let series = connection.query(
        "SELECT id FROM series WHERE id > $1 AND (tenant = ANY($2)) = $3 ORDER BY id LIMIT $4",
        &[&after, &tenants, &is_listed, &STEP_SERIES],
    )?;
    let series: Vec<i64> = series.iter().map(|row| row.get(0)).collect();
    let Some(&last) = series.last() else {
        partitions::drop_empty(connection, &table)?;
        let series = ALL_SERIES;
        return Ok((Swept { table, series }, true));
    };
    let is_done = remove_some(connection, &table, &series)? < STEP_ROWS as u64;
    let series = if is_done { last } else { after };
    Ok((Swept { table, series }, true))
}

/// Whose rows of a day's partition are old: of the tenants that are listed, or (`false`) of all others.
fn who_keeps_no_longer<'a>(cutoffs: &Cutoffs<'a>, table: &str) -> (Vec<&'a str>, bool) {
    let is_old = |cutoff: i64| *table < *Day::of(cutoff).table();
    let is_listed = !cutoffs.default.is_some_and(is_old);
    let own = cutoffs.of_tenants.iter();
    let listed = own.filter(|(_, cutoff)| is_old(**cutoff) == is_listed);
    (listed.map(|(tenant, _)| *tenant).collect(), is_listed)
}

/// Removes up to [`STEP_ROWS`] rows of these streams; how many they were.
fn remove_some(connection: &mut Connection, table: &str, series: &[i64]) -> Result<u64, Failure> {
    let sql = format!(
        "DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE series = ANY($1) LIMIT {STEP_ROWS}))"
    );
    connection.batch(BY_INDEX)?;
    let removed = connection.run(async |client: &mut Client| client.execute(&sql, &[&series]).await)?;
    connection.batch("COMMIT")?;
    Ok(removed)
}

/// A rejected reading's place in the order of storing.
#[derive(Clone, Copy, Debug)]
pub(super) struct SweptRejected {
    stored_at_ms: i64,
    id: i64,
}

impl Default for SweptRejected {
    /// Before all.
    fn default() -> Self {
        SweptRejected {
            stored_at_ms: i64::MIN,
            id: i64::MIN,
        }
    }
}

/// Looks at up to [`STEP_ROWS`] rejected readings that were stored before `until_ms` and removes those that are old.
pub(super) fn sweep_rejected(
    connection: &mut Connection,
    cutoffs: &Cutoffs<'_>,
    until_ms: i64,
    swept: SweptRejected,
) -> Result<(SweptRejected, bool), Failure> {
    let rows = connection.query(
        "SELECT stored_at_ms, id, tenant FROM rejected
        WHERE stored_at_ms >= $1 AND (stored_at_ms, id) > ($1, $2) AND stored_at_ms < $3
        ORDER BY stored_at_ms, id LIMIT $4",
        &[&swept.stored_at_ms, &swept.id, &until_ms, &STEP_ROWS],
    )?;
    let old = rows.iter().filter(|row| cutoffs.is_old(row.get(2), row.get(0)));
    let old: Vec<i64> = old.map(|row| row.get(1)).collect();
    connection.execute("DELETE FROM rejected WHERE id = ANY($1)", &[&old])?;
    let last = rows.last().map_or(swept, |row| SweptRejected {
        stored_at_ms: row.get(0),
        id: row.get(1),
    });
    Ok((last, rows.len() as i64 == STEP_ROWS))
}
