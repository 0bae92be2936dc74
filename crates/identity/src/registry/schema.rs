//! The file: its tables, its version, and how it is opened.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, MAIN_DB, TransactionBehavior};

use crate::files;
use crate::quotas::Quotas;

/// Tells a registry from any other SQLite file ("Slvg").
const APPLICATION_ID: i64 = 0x536C_7667;
const VERSION: i64 = 7;

/// How long one process waits for another that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const TABLES: &str = "
CREATE TABLE tenants (
    name TEXT NOT NULL PRIMARY KEY,
    quotas TEXT NOT NULL,
    clients INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE clients (
    tenant TEXT NOT NULL REFERENCES tenants(name),
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('device', 'app', 'edge')),
    created_unix_s INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0,
    -- Argon2id in PHC format; null: no password.
    password TEXT,
    -- Tokens that name another epoch are revoked; null: no tokens.
    token_epoch TEXT,
    -- Whether a certificate of the operator's own authority with this subject is enough.
    trusts_subject INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX clients_by_kind ON clients (tenant, kind, id);
CREATE TRIGGER client_added AFTER INSERT ON clients BEGIN
    UPDATE tenants SET clients = clients + 1 WHERE name = NEW.tenant;
END;
CREATE TRIGGER client_removed AFTER DELETE ON clients BEGIN
    UPDATE tenants SET clients = clients - 1 WHERE name = OLD.tenant;
END;

CREATE TABLE labels (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, id, name),
    FOREIGN KEY (tenant, id) REFERENCES clients(tenant, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Issued by the edge's own authority and not revoked.
CREATE TABLE certificates (
    serial TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    not_after_unix_s INTEGER NOT NULL,
    FOREIGN KEY (tenant, id) REFERENCES clients(tenant, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX certificates_of_client ON certificates (tenant, id);

-- Of any authority, refused whatever else holds.
CREATE TABLE revoked_serials (
    serial TEXT NOT NULL PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE token_keys (
    key_id TEXT NOT NULL PRIMARY KEY,
    pkcs8 BLOB NOT NULL,
    -- Null: the key that signs; else it only verifies, until then.
    verify_until_unix_s INTEGER
) STRICT, WITHOUT ROWID;
";

/// What version 2 did not have.
const USERS: &str = "
CREATE TABLE users (
    -- Empty: of the whole cloud.
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    created_unix_s INTEGER NOT NULL,
    -- Argon2id in PHC format.
    password TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER tenant_removed AFTER DELETE ON tenants BEGIN
    DELETE FROM users WHERE tenant = OLD.name;
END;

CREATE TABLE logins (
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Of the secret that goes on with it.
    refresh_sha256 BLOB NOT NULL,
    until_unix_s INTEGER NOT NULL,
    FOREIGN KEY (tenant, name) REFERENCES users(tenant, name) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX logins_of_user ON logins (tenant, name, until_unix_s);
";

/// What version 3 did not have.
const INVITATIONS: &str = "
-- Whether it came of an invitation: such a one can be renewed by whoever has its key.
ALTER TABLE certificates ADD COLUMN renewable INTEGER NOT NULL DEFAULT 0;

CREATE TABLE invitations (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    -- Tells its token from others; no secret.
    number TEXT NOT NULL UNIQUE,
    secret_sha256 BLOB NOT NULL,
    until_unix_s INTEGER NOT NULL,
    -- Of the public key that it was used for; null: not used yet.
    key_sha256 BLOB,
    PRIMARY KEY (tenant, id),
    FOREIGN KEY (tenant, id) REFERENCES clients(tenant, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
";

/// What version 4 did not have.
const SHARED: &str = "
-- Name of the edge that a device logs in at; empty: here.
ALTER TABLE clients ADD COLUMN edge TEXT NOT NULL DEFAULT '';
-- Tells a client from those of its name before and after it.
ALTER TABLE clients ADD COLUMN life TEXT NOT NULL DEFAULT '';
CREATE INDEX clients_by_edge ON clients (edge, tenant, id) WHERE edge <> '';
-- Whether the other end of a link told of it.
ALTER TABLE certificates ADD COLUMN told INTEGER NOT NULL DEFAULT 0;

-- Devices that the other end of a link has, too, as both knew them last; those that were removed are remembered.
CREATE TABLE shared_devices (
    number INTEGER PRIMARY KEY,
    -- Whose they are; empty at that edge itself.
    edge TEXT NOT NULL,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    document BLOB NOT NULL,
    removed INTEGER NOT NULL,
    UNIQUE (edge, tenant, id)
) STRICT;
CREATE INDEX shared_devices_of_name ON shared_devices (tenant, id);
CREATE INDEX removed_devices ON shared_devices (edge, number) WHERE removed;

-- Which registry the other end of a link has: with another one nothing is shared yet.
CREATE TABLE peers (
    edge TEXT NOT NULL PRIMARY KEY,
    registry TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- What an edge believes of its cloud, as JSON: one row, or none.
CREATE TABLE cloud_trust (number INTEGER PRIMARY KEY CHECK (number = 1), trust TEXT NOT NULL) STRICT;
CREATE TABLE this_registry (id TEXT NOT NULL) STRICT;
INSERT INTO this_registry VALUES (lower(hex(randomblob(16))));
";

/// What version 5 did not have.
const AGES_OF_KEYS: &str = "
ALTER TABLE token_keys ADD COLUMN created_unix_s INTEGER NOT NULL DEFAULT 0;
-- When the last of the tokens of devices and apps that it signed ends.
ALTER TABLE token_keys ADD COLUMN signed_until_unix_s INTEGER NOT NULL DEFAULT 0;
-- Of a key from before nobody knows: the year 9999.
UPDATE token_keys SET created_unix_s = unixepoch(), signed_until_unix_s = 253402300799;
";

/// What version 6 did not have.
const APPLICATIONS: &str = "
-- Those that the edge runs and that log in by what it gives them: tokens that name another epoch are revoked.
CREATE TABLE applications (
    tenant TEXT NOT NULL REFERENCES tenants(name) ON DELETE CASCADE,
    id TEXT NOT NULL,
    epoch TEXT NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
";

/// From version 1, which knew no edges. SQLite alters no CHECK: as its manual has it, the table is made anew.
const SECOND_VERSION: &str = "
ALTER TABLE clients RENAME TO old_clients;
CREATE TABLE clients (
    tenant TEXT NOT NULL REFERENCES tenants(name),
    id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('device', 'app', 'edge')),
    created_unix_s INTEGER NOT NULL,
    disabled INTEGER NOT NULL DEFAULT 0,
    password TEXT,
    token_epoch TEXT,
    trusts_subject INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
INSERT INTO clients SELECT * FROM old_clients;
DROP TABLE old_clients;
CREATE INDEX clients_by_kind ON clients (tenant, kind, id);
CREATE TRIGGER client_added AFTER INSERT ON clients BEGIN
    UPDATE tenants SET clients = clients + 1 WHERE name = NEW.tenant;
END;
CREATE TRIGGER client_removed AFTER DELETE ON clients BEGIN
    UPDATE tenants SET clients = clients - 1 WHERE name = OLD.tenant;
END;
";

/// Why a registry was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Written by a newer Selvedge.
    #[error(
        "{path} has version {found}, this program knows versions up to {VERSION}; use the newer Selvedge that wrote it"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// A file of something else.
    #[error("{path} is not a registry of Selvedge; move it away or choose another data directory")]
    NotARegistry {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be made or written.
    #[error("{path}: {source}; the data directory must exist and be writable")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// SQLite failed.
    #[error("{path}: {source}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    // Before SQLite does: its files take over the mode of this one.
    let unusable = |source| OpenError::Io {
        path: path.into(),
        source,
    };
    files::make_private(path).map_err(unusable)?;
    let failed = |source| OpenError::Database {
        path: path.into(),
        source,
    };
    let mut connection = Connection::open(path).map_err(failed)?;
    if connection.is_readonly(MAIN_DB).map_err(failed)? {
        return Err(unusable(io::ErrorKind::PermissionDenied.into()));
    }
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    check_version(&mut connection, path)?;
    configure(&connection).map_err(failed)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A change is on disk before it is reported done: a removed device stays removed.
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // 512 KiB of pages instead of 2 MiB.
    connection.pragma_update(None, "cache_size", -512)
}

/// Makes the tables of an empty file; refuses what is not ours or newer.
fn check_version(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |source: rusqlite::Error| match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::NotADatabase) => OpenError::NotARegistry { path: path.into() },
        _ => OpenError::Database {
            path: path.into(),
            source,
        },
    };
    if application_id(connection).map_err(failed)? == 0 {
        create(connection).map_err(failed)?;
    }
    if application_id(connection).map_err(failed)? != APPLICATION_ID {
        return Err(OpenError::NotARegistry { path: path.into() });
    }
    let found = user_version(connection).map_err(failed)?;
    if found > VERSION {
        return Err(OpenError::Newer {
            path: path.into(),
            found,
        });
    }
    if found < VERSION {
        migrate(connection).map_err(failed)?;
    }
    Ok(())
}

fn user_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// In one transaction that re-reads the version, because another process may be doing the same.
fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    // Else what refers to a renamed table would follow it, and go with it.
    connection.pragma_update(None, "legacy_alter_table", true)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = user_version(&transaction)?;
    if found < 2 {
        transaction.execute_batch(SECOND_VERSION)?;
    }
    if found < 3 {
        transaction.execute_batch(USERS)?;
    }
    if found < 4 {
        transaction.execute_batch(INVITATIONS)?;
    }
    if found < 5 {
        transaction.execute_batch(SHARED)?;
    }
    if found < 6 {
        transaction.execute_batch(AGES_OF_KEYS)?;
    }
    if found < VERSION {
        transaction.execute_batch(APPLICATIONS)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    connection.pragma_update(None, "legacy_alter_table", false)
}

fn application_id(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// In one transaction that re-reads the state, because another process may be doing the same.
fn create(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables > 0 {
        return Ok(());
    }
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(USERS)?;
    transaction.execute_batch(INVITATIONS)?;
    transaction.execute_batch(SHARED)?;
    transaction.execute_batch(AGES_OF_KEYS)?;
    transaction.execute_batch(APPLICATIONS)?;
    super::tenants::insert(&transaction, crate::DEFAULT_TENANT, &Quotas::default())?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn refusal(path: &Path) -> String {
        open(path).unwrap_err().to_string()
    }

    #[test]
    fn a_registry_of_a_newer_version_is_refused_with_both_versions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        open(&path)
            .unwrap()
            .pragma_update(None, "user_version", VERSION + 1)
            .unwrap();
        let refusal = refusal(&path);
        assert!(
            refusal.contains("version 8") && refusal.contains("up to 7"),
            "{refusal}"
        );
    }

    #[test]
    fn a_registry_of_the_first_version_keeps_its_clients_and_takes_edges() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        let mut first = Connection::open(&path).unwrap();
        let tables = TABLES.replace("'device', 'app', 'edge'", "'device', 'app'");
        let transaction = first.transaction().unwrap();
        transaction.execute_batch(&tables).unwrap();
        super::super::tenants::insert(&transaction, "default", &Quotas::default()).unwrap();
        transaction
            .pragma_update(None, "application_id", APPLICATION_ID)
            .unwrap();
        transaction.pragma_update(None, "user_version", 1).unwrap();
        transaction.commit().unwrap();
        let add = |connection: &Connection, id: &str, kind: &str| {
            let sql = "INSERT INTO clients (tenant, id, kind, created_unix_s) VALUES ('default', ?1, ?2, 0)";
            connection.execute(sql, [id, kind])
        };
        add(&first, "pump-7", "device").unwrap();
        first
            .execute("INSERT INTO labels VALUES ('default', 'pump-7', 'hall', '1')", [])
            .unwrap();
        assert!(add(&first, "hall-1", "edge").is_err());
        drop(first);
        let second = open(&path).unwrap();
        add(&second, "hall-1", "edge").unwrap();
        let count = |sql: &str| second.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT clients FROM tenants"), 2);
        second.execute("DELETE FROM clients WHERE id = 'pump-7'", []).unwrap();
        assert_eq!(count("SELECT count(*) FROM labels"), 0);
        assert_eq!(count("SELECT clients FROM tenants"), 1);
        assert_eq!(count("SELECT count(*) FROM users"), 0);
    }

    #[test]
    fn a_registry_of_the_second_version_keeps_its_clients_and_takes_users() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        let second = Connection::open(&path).unwrap();
        second.execute_batch(TABLES).unwrap();
        super::super::tenants::insert(&second, "default", &Quotas::default()).unwrap();
        let add = "INSERT INTO clients (tenant, id, kind, created_unix_s) VALUES ('default', 'pump-7', 'device', 0)";
        second.execute(add, []).unwrap();
        second.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        second.pragma_update(None, "user_version", 2).unwrap();
        drop(second);
        let third = open(&path).unwrap();
        let add = "INSERT INTO users VALUES ('default', 'anna', 'viewer', 0, 'x')";
        third.execute(add, []).unwrap();
        let count = |sql: &str| third.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT clients FROM tenants"), 1);
        assert_eq!(user_version(&third).unwrap(), VERSION);
    }

    #[test]
    fn a_registry_of_the_third_version_keeps_its_certificates_and_takes_invitations() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        let third = Connection::open(&path).unwrap();
        third.execute_batch(TABLES).unwrap();
        third.execute_batch(USERS).unwrap();
        super::super::tenants::insert(&third, "default", &Quotas::default()).unwrap();
        let add = "INSERT INTO clients (tenant, id, kind, created_unix_s) VALUES ('default', 'hall-1', 'edge', 0)";
        third.execute(add, []).unwrap();
        let add = "INSERT INTO certificates VALUES ('5f', 'default', 'hall-1', 7)";
        third.execute(add, []).unwrap();
        third.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        third.pragma_update(None, "user_version", 3).unwrap();
        drop(third);
        let fourth = open(&path).unwrap();
        let add = "INSERT INTO invitations VALUES ('default', 'hall-1', '00', x'00', 7, NULL)";
        fourth.execute(add, []).unwrap();
        let count = |sql: &str| fourth.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM certificates WHERE NOT renewable"), 1);
        fourth.execute("DELETE FROM clients", []).unwrap();
        assert_eq!(count("SELECT count(*) FROM invitations"), 0);
    }

    #[test]
    fn a_registry_of_the_fourth_version_keeps_its_clients_which_log_in_here() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        let fourth = Connection::open(&path).unwrap();
        for tables in [TABLES, USERS, INVITATIONS] {
            fourth.execute_batch(tables).unwrap();
        }
        super::super::tenants::insert(&fourth, "default", &Quotas::default()).unwrap();
        let add = "INSERT INTO clients (tenant, id, kind, created_unix_s) VALUES ('default', 'pump-7', 'device', 0)";
        fourth.execute(add, []).unwrap();
        fourth.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        fourth.pragma_update(None, "user_version", 4).unwrap();
        drop(fourth);
        let fifth = open(&path).unwrap();
        let count = |sql: &str| fifth.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM clients WHERE edge = '' AND life = ''"), 1);
        assert_eq!(count("SELECT count(*) FROM this_registry WHERE length(id) = 32"), 1);
    }

    #[test]
    fn a_registry_of_the_fifth_version_keeps_its_key_for_tokens_of_any_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        let fifth = Connection::open(&path).unwrap();
        for tables in [TABLES, USERS, INVITATIONS, SHARED] {
            fifth.execute_batch(tables).unwrap();
        }
        super::super::tenants::insert(&fifth, "default", &Quotas::default()).unwrap();
        let add = "INSERT INTO token_keys VALUES ('5f', x'00', NULL)";
        fifth.execute(add, []).unwrap();
        fifth.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        fifth.pragma_update(None, "user_version", 5).unwrap();
        drop(fifth);
        let sixth = open(&path).unwrap();
        let sql = "SELECT created_unix_s > 1700000000 AND signed_until_unix_s > 250000000000 FROM token_keys";
        assert!(sixth.query_row(sql, [], |row| row.get::<_, bool>(0)).unwrap());
    }

    #[test]
    fn files_that_are_no_registry_are_refused_and_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("text");
        std::fs::write(
            &text,
            "not a database, but long enough to have a header of one".repeat(20),
        )
        .unwrap();
        assert!(refusal(&text).contains("is not a registry"));
        let other = directory.path().join("other.db");
        Connection::open(&other)
            .unwrap()
            .execute_batch("CREATE TABLE clients (x)")
            .unwrap();
        assert!(refusal(&other).contains("is not a registry"));
    }

    #[test]
    fn a_place_that_cannot_be_written_is_named() {
        let refusal = refusal(Path::new("/proc/self/registry.db"));
        assert!(
            refusal.starts_with("/proc/self/registry.db: ") && refusal.contains("writable"),
            "{refusal}"
        );
    }

    #[test]
    fn only_the_owner_can_read_the_registry_and_its_journal() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("registry.db");
        std::fs::write(&path, "").unwrap();
        let connection = open(&path).unwrap();
        connection
            .execute("INSERT INTO revoked_serials VALUES ('00')", [])
            .unwrap();
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let entry = entry.unwrap();
            assert_eq!(
                entry.metadata().unwrap().permissions().mode() & 0o777,
                0o600,
                "{:?}",
                entry.path()
            );
        }
    }
}
