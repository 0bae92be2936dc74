//! Removal of what is old, in steps that hold the writer up only shortly.

use rusqlite::{Connection, params};

use crate::retention::Cutoffs;

/// Rows of one step.
const STEP_ROWS: i64 = 10_000;

const REMOVE_ROWS: &str =
    "DELETE FROM telemetry WHERE id IN (SELECT id FROM telemetry WHERE stored_at_ms < ?2 LIMIT ?1)";

const REMOVE_REJECTED: &str =
    "DELETE FROM rejected WHERE id IN (SELECT id FROM rejected WHERE stored_at_ms < ?2 LIMIT ?1)";

const REMOVE_OLDEST: &str =
    "DELETE FROM telemetry WHERE id IN (SELECT id FROM telemetry ORDER BY stored_at_ms LIMIT ?1)";

const REMOVE_OLDEST_REJECTED: &str =
    "DELETE FROM rejected WHERE id IN (SELECT id FROM rejected ORDER BY stored_at_ms LIMIT ?1)";

/// A row's place in the order of storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Swept {
    stored_at_ms: i64,
    id: i64,
}

impl Default for Swept {
    /// Before all rows.
    fn default() -> Self {
        Swept {
            stored_at_ms: i64::MIN,
            id: i64::MIN,
        }
    }
}

/// A table that is looked through: the rows behind a place, in order, with the bytes of their tenants' names.
pub(super) struct Table {
    look: &'static str,
    remove: &'static str,
}

/// CROSS: in this order, whatever the planner makes of it.
pub(super) const TELEMETRY: Table = Table {
    look: "SELECT t.stored_at_ms, t.id, CAST(s.tenant AS BLOB)
        FROM telemetry t INDEXED BY telemetry_by_age CROSS JOIN series s ON s.id = t.series
        WHERE (t.stored_at_ms, t.id) > (?1, ?2) AND t.stored_at_ms < ?3 ORDER BY t.stored_at_ms, t.id LIMIT ?4",
    remove: "DELETE FROM telemetry WHERE id = ?1",
};

pub(super) const REJECTED: Table = Table {
    look: "SELECT stored_at_ms, id, tenant FROM rejected INDEXED BY rejected_by_age
        WHERE (stored_at_ms, id) > (?1, ?2) AND stored_at_ms < ?3 ORDER BY stored_at_ms, id LIMIT ?4",
    remove: "DELETE FROM rejected WHERE id = ?1",
};

/// Looks at up to [`STEP_ROWS`] behind `place` that were stored before `until_ms` and removes those that are old; where
/// it got to, and whether there may be more.
pub(super) fn sweep_some(
    connection: &Connection,
    table: &Table,
    cutoffs: &Cutoffs<'_>,
    until_ms: i64,
    place: Swept,
) -> rusqlite::Result<(Swept, bool)> {
    let mut old = Vec::new();
    let (mut last, mut seen) = (place, 0);
    let mut look = connection.prepare_cached(table.look)?;
    let mut rows = look.query(params![place.stored_at_ms, place.id, until_ms, STEP_ROWS])?;
    while let Some(row) = rows.next()? {
        last = Swept {
            stored_at_ms: row.get(0)?,
            id: row.get(1)?,
        };
        if cutoffs.is_old(row.get_ref(2)?.as_blob()?, last.stored_at_ms) {
            old.push(last.id);
        }
        seen += 1;
    }
    let mut remove = connection.prepare_cached(table.remove)?;
    for id in old {
        remove.execute([id])?;
    }
    Ok((last, seen == STEP_ROWS))
}

/// Removes up to [`STEP_ROWS`] of each table where its pages take more bytes; whether they may still do.
pub(super) fn shrink_some(connection: &Connection, bytes: u64) -> rusqlite::Result<bool> {
    if used_bytes(connection)? <= bytes {
        return Ok(false);
    }
    let mut removed = 0;
    for sql in [REMOVE_OLDEST, REMOVE_OLDEST_REJECTED] {
        removed += connection.prepare_cached(sql)?.execute([STEP_ROWS])?;
    }
    Ok(removed > 0)
}

/// Bytes of pages that hold something.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Removes up to [`STEP_ROWS`] of each table, whoever's they are; whether there may be more.
pub(super) fn remove_some(connection: &Connection, stored_before_ms: i64) -> rusqlite::Result<bool> {
    let mut more = false;
    for sql in [REMOVE_ROWS, REMOVE_REJECTED] {
        let removed = connection
            .prepare_cached(sql)?
            .execute(params![STEP_ROWS, stored_before_ms])?;
        more |= removed as i64 == STEP_ROWS;
    }
    Ok(more)
}
