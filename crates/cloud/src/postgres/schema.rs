//! The schema `selvedge`: its tables and its version.

use super::connection::Connection;
use crate::error::{Error, Failure};

/// Who migrates or makes a partition holds this lock ("Slvt", as the SQLite file's application id).
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(1399617140)";

/// What each version adds to the one before.
const MIGRATIONS: [&str; 1] = [include_str!("schema.sql")];

/// By a query of the catalogue: `to_regclass` may answer from a cache of before the lock was waited for.
const HAS_VERSION: &str =
    "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'selvedge' AND tablename = 'schema_version')";

pub(super) fn migrate(connection: &mut Connection) -> Result<(), Failure> {
    let encoding = connection.query("SHOW server_encoding", &[])?;
    let encoding: String = encoding[0].get(0);
    if encoding != "UTF8" {
        let reason = format!("its encoding is {encoding}; names may be any Unicode: CREATE DATABASE … ENCODING 'UTF8'");
        return Err(unusable(connection, reason));
    }
    if version(connection)? == MIGRATIONS.len() {
        return Ok(());
    }
    connection.batch(&format!("BEGIN; {LOCK}"))?;
    let found = version(connection)?;
    if found > MIGRATIONS.len() {
        let known = MIGRATIONS.len();
        let reason = format!("has version {found}, this program knows versions up to {known}; use the newer Selvedge");
        return Err(unusable(connection, reason));
    }
    for migration in &MIGRATIONS[found..] {
        connection.batch(migration)?;
    }
    let version = MIGRATIONS.len();
    connection.batch(&format!(
        "UPDATE selvedge.schema_version SET version = {version}; COMMIT"
    ))
}

/// 0: there are no tables.
fn version(connection: &mut Connection) -> Result<usize, Failure> {
    if !connection.query(HAS_VERSION, &[])?[0].get::<_, bool>(0) {
        return Ok(0);
    }
    let rows = connection.query("SELECT version FROM selvedge.schema_version", &[])?;
    let version: i32 = rows.first().map_or(0, |row| row.get(0));
    Ok(usize::try_from(version).unwrap_or(0))
}

fn unusable(connection: &Connection, reason: String) -> Failure {
    let place = connection.place().to_owned();
    Error::Unusable { place, reason }.into()
}
