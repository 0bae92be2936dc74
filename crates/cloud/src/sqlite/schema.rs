//! The file: its tables, its version, and how it is opened.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, TransactionBehavior};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;

use super::Place;
use crate::error::Failure;

/// Tells a telemetry database from any other SQLite file ("Slvt").
const APPLICATION_ID: i64 = 0x536C_7674;

/// How long a writer waits for another.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Pages in the write-ahead log after which it is carried over, 32 MiB: a page of the index that every batch changes is
/// then carried over once for many batches, and not after each, as with SQLite's 4 MiB.
const LOG_PAGES: i64 = 8_192;
/// The log is cut back to this when it has been carried over.
const LOG_BYTES: i64 = 64 << 20;

/// What each version adds to the one before.
const MIGRATIONS: [&str; 1] = [include_str!("schema.sql")];

pub(super) fn open(path: &Path, place: &Place) -> Result<Connection, Failure> {
    // Before SQLite does: its other files take over the mode of this one. Made and never opened: a process that closes
    // a file gives up all its locks of it (POSIX), those of its other connections too, and then the next program that
    // looks into the file takes the write-ahead log away from under them.
    match mknodat(CWD, path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0) {
        Err(error) if error != Errno::EXIST => {
            let reason = format!("{error}; the directory must exist and be writable");
            return Err(place.unusable(reason).into());
        }
        _ => {}
    }
    let mut connection = Connection::open(path).map_err(|error| place.class(&error))?;
    if connection.is_readonly(MAIN_DB).map_err(|error| place.class(&error))? {
        return Err(place
            .unusable("may only be read; it must be writable".to_owned())
            .into());
    }
    configure(&connection).map_err(|error| place.class(&error))?;
    migrate(&mut connection, place)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    use_log(connection)?;
    // What was reported as stored survives a power cut.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_BYTES)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // 16 MiB of pages: the index's newest leaves of some thousand streams.
    connection.pragma_update(None, "cache_size", -16_384)?;
    connection.set_prepared_statement_cache_capacity(32);
    // A statement is not planned anew for each value that is bound to it: that was two thirds of a small transaction.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Changes the file to a write-ahead log, unless it has one. The statement does not wait as others do while another
/// process does the same, so this takes turns with it in a transaction, which does.
fn use_log(connection: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Err(error) if is_busy(&error) && Instant::now() < deadline => {
                connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
            }
            outcome => return outcome,
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// In one transaction that begins with reading the version, because another process may be doing the same.
fn migrate(connection: &mut Connection, place: &Place) -> Result<(), Failure> {
    let class = |error: rusqlite::Error| place.class(&error);
    if version(connection).map_err(class)? == MIGRATIONS.len() {
        return check_application(connection, place);
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(class)?;
    let found = version(&transaction).map_err(class)?;
    if found > MIGRATIONS.len() {
        let known = MIGRATIONS.len();
        let reason = format!("has version {found}, this program knows versions up to {known}; use the newer Selvedge");
        return Err(place.unusable(reason).into());
    }
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(class)?;
    if found == 0 && tables == 0 {
        transaction
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(class)?;
    }
    check_application(&transaction, place)?;
    for migration in &MIGRATIONS[found..] {
        transaction.execute_batch(migration).map_err(class)?;
    }
    transaction
        .pragma_update(None, "user_version", MIGRATIONS.len() as i64)
        .map_err(class)?;
    transaction.commit().map_err(class)
}

fn version(connection: &Connection) -> rusqlite::Result<usize> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn check_application(connection: &Connection, place: &Place) -> Result<(), Failure> {
    let id = connection.pragma_query_value(None, "application_id", |row| row.get::<_, i64>(0));
    if id.map_err(|error| place.class(&error))? == APPLICATION_ID {
        return Ok(());
    }
    let reason = "is no telemetry database of Selvedge; move it away or choose another path".to_owned();
    Err(place.unusable(reason).into())
}
