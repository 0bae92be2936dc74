//! Removal of what is old, in steps that hold the writer up only shortly.

use rusqlite::{Connection, params};

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

/// Removes up to [`STEP_ROWS`] of each table; whether there may be more.
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
