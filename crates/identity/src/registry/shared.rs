//! Devices that two registries have, an edge's and its cloud's: what is told of one, and what was told of it last.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

use super::labels::{self, Labels};
use super::{HeldCredential, NewProof, NewRow, Registry, RegistryError, What, certificates, clients, lock};
use crate::name::{ClientKind, ClientName};

/// Devices that were removed and are remembered of one edge; of more, the oldest are forgotten. One that the other end
/// still has, because it was away for all of them, comes back.
const REMOVED_MAX: i64 = 10_000;

/// A device as a link tells it. There is no secret in it, but all that secrets are checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRecord {
    /// Tells it from devices of its name before and after it.
    pub life: String,
    /// Whether it is kept from logging in.
    pub disabled: bool,
    /// Its labels.
    pub labels: Labels,
    /// The hash of its password, in PHC format.
    pub password: Option<String>,
    /// What its tokens say to be worth something.
    pub token_epoch: Option<String>,
    /// Whether any certificate with its name will do that is of an authority trusted where it logs in.
    pub trusts_subject: bool,
    /// Serial numbers of the certificates that were issued to it, and their ends in seconds of Unix time.
    pub certificates: BTreeMap<String, i64>,
}

/// What is known of a device that is shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// The device as it is here; `None`: there is none, or it logs in elsewhere.
    pub record: Option<DeviceRecord>,
    /// What was kept of it last; `None`: nothing.
    pub document: Option<Vec<u8>>,
}

/// What became of a device that is shared.
#[derive(Debug)]
pub struct Sharing<T> {
    /// What the caller made of it.
    pub made: T,
    /// What changed with it.
    pub changes: Vec<What>,
}

impl Registry {
    /// Tells this registry from all others.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn id(&self) -> Result<String, RegistryError> {
        Ok(self
            .reader()
            .query_row("SELECT id FROM this_registry", [], |row| row.get(0))?)
    }

    /// The other end of the link of `edge` (empty: of this edge itself) has the registry `peer`. Where it was another
    /// one before, nothing is shared with it yet; whether it was.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn meet(&self, edge: &str, peer: &str) -> Result<bool, RegistryError> {
        self.change(&[], |transaction| {
            let sql = "SELECT registry FROM peers WHERE edge = ?1";
            let before: Option<String> = transaction.query_row(sql, [edge], |row| row.get(0)).optional()?;
            if before.as_deref() == Some(peer) {
                return Ok(false);
            }
            transaction.execute("DELETE FROM shared_devices WHERE edge = ?1", [edge])?;
            let sql = "INSERT OR REPLACE INTO peers (edge, registry) VALUES (?1, ?2)";
            transaction.execute(sql, [edge, peer])?;
            Ok(true)
        })
    }

    /// Ids of the devices of a tenant that log in at `edge` (empty: here) or did when they were shared last, in order.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn shared_ids(&self, edge: &str, tenant: &str) -> Result<Vec<String>, RegistryError> {
        let sql = "SELECT id FROM clients WHERE tenant = ?2 AND kind = 'device' AND edge = ?1
             UNION SELECT id FROM shared_devices WHERE tenant = ?2 AND edge = ?1 AND NOT removed";
        self.texts(sql, [edge, tenant])
    }

    /// Names of the edges that a device of this name logs in at, or that are to know that it does not any more.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn edges_of(&self, name: &ClientName) -> Result<Vec<String>, RegistryError> {
        let sql = "SELECT edge FROM clients WHERE tenant = ?1 AND id = ?2 AND edge <> ''
             UNION SELECT edge FROM shared_devices WHERE tenant = ?1 AND id = ?2 AND edge <> ''";
        self.texts(sql, [&**name.tenant(), &**name.id()])
    }

    fn texts(&self, sql: &str, of: [&str; 2]) -> Result<Vec<String>, RegistryError> {
        let reader = self.reader();
        let mut statement = reader.prepare_cached(sql)?;
        let found = statement.query_map(of, |row| row.get(0))?;
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Looks at devices of a tenant that log in at `edge` (empty: here), and makes of each what `work` says: the device
    /// and the document to keep of it, or as it was. All in one write to disk; a device that cannot be what it should
    /// be stays as it was.
    ///
    /// # Errors
    /// SQLite failed. For each device: its name is taken, or the tenant is full.
    pub fn share<T>(
        &self,
        edge: &str,
        names: &[ClientName],
        now_unix_s: i64,
        mut work: impl FnMut(usize, &Shared) -> (Option<Shared>, T),
    ) -> Result<Vec<Result<Sharing<T>, RegistryError>>, RegistryError> {
        let mut writer = lock(&self.writer);
        let mut transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut done = Vec::with_capacity(names.len());
        let mut has_removed = false;
        for (number, name) in names.iter().enumerate() {
            let before = Shared {
                record: read(&transaction, edge, name)?,
                document: document(&transaction, edge, name)?,
            };
            let (after, made) = work(number, &before);
            let changes = match after.filter(|after| *after != before) {
                Some(after) => {
                    has_removed |= after.record.is_none();
                    let savepoint = transaction.savepoint()?;
                    let changes = keep(&savepoint, edge, name, &before, &after, now_unix_s);
                    // One that failed rolls back as it is dropped.
                    if changes.is_ok() {
                        savepoint.commit()?;
                    }
                    changes
                }
                None => Ok(Vec::new()),
            };
            done.push(changes.map(|changes| Sharing { made, changes }));
        }
        if has_removed {
            forget_oldest(&transaction, edge)?;
        }
        transaction.commit()?;
        self.tell_changes(names, &done);
        Ok(done)
    }
}

impl Registry {
    /// What ends connections is told one by one; of all else one change is: thousands would push those out.
    fn tell_changes<T>(&self, names: &[ClientName], done: &[Result<Sharing<T>, RegistryError>]) {
        let mut rest: BTreeSet<&str> = BTreeSet::new();
        for (name, shared) in names.iter().zip(done) {
            for what in shared.iter().flat_map(|shared| &shared.changes) {
                match what {
                    What::Removed | What::Disabled | What::CredentialRevoked(_) => {
                        self.changes.push(name.tenant(), Some(name.id()), what.clone());
                    }
                    _ => drop(rest.insert(name.tenant())),
                }
            }
        }
        for tenant in rest {
            self.changes.push(tenant, None, What::Labels);
        }
    }
}

fn read(transaction: &Transaction<'_>, edge: &str, name: &ClientName) -> Result<Option<DeviceRecord>, RegistryError> {
    let sql = "SELECT life, created_unix_s, disabled, password, token_epoch, trusts_subject FROM clients
         WHERE tenant = ?1 AND id = ?2 AND kind = 'device' AND edge = ?3";
    let found = transaction
        .prepare_cached(sql)?
        .query_row(params![name.tenant(), name.id(), edge], from_row)
        .optional()?;
    let Some(record) = found else { return Ok(None) };
    let sql = "SELECT serial, not_after_unix_s FROM certificates WHERE tenant = ?1 AND id = ?2";
    let certificates = transaction
        .prepare_cached(sql)?
        .query_map([name.tenant(), name.id()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(Some(DeviceRecord {
        labels: labels::of(transaction, name)?,
        certificates,
        ..record
    }))
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<DeviceRecord> {
    let life: String = row.get(0)?;
    Ok(DeviceRecord {
        life: match &*life {
            // Added by a version that told none.
            "" => format!("since-{}", row.get::<_, i64>(1)?),
            _ => life,
        },
        disabled: row.get(2)?,
        labels: Labels::new(),
        password: row.get(3)?,
        token_epoch: row.get(4)?,
        trusts_subject: row.get(5)?,
        certificates: BTreeMap::new(),
    })
}

fn document(connection: &Connection, edge: &str, name: &ClientName) -> Result<Option<Vec<u8>>, RegistryError> {
    let sql = "SELECT document FROM shared_devices WHERE edge = ?1 AND tenant = ?2 AND id = ?3";
    let found = connection
        .prepare_cached(sql)?
        .query_row(params![edge, name.tenant(), name.id()], |row| row.get(0));
    Ok(found.optional()?)
}

/// Writes what a device is from now on; what changed with it, in order.
fn keep(
    connection: &Connection,
    edge: &str,
    name: &ClientName,
    before: &Shared,
    after: &Shared,
    now_unix_s: i64,
) -> Result<Vec<What>, RegistryError> {
    if before.document != after.document {
        keep_document(connection, edge, name, after)?;
    }
    let changes = match (&before.record, &after.record) {
        (None, None) => Vec::new(),
        (Some(_), None) => {
            clients::remove(connection, name)?;
            vec![What::Removed]
        }
        (None, Some(new)) => {
            insert(connection, edge, name, new, now_unix_s)?;
            vec![What::Added]
        }
        (Some(old), Some(new)) if old.life != new.life => {
            clients::remove(connection, name)?;
            insert(connection, edge, name, new, now_unix_s)?;
            vec![What::Removed, What::Added]
        }
        (Some(old), Some(new)) => change(connection, name, old, new)?,
    };
    Ok(changes)
}

fn keep_document(connection: &Connection, edge: &str, name: &ClientName, after: &Shared) -> Result<(), RegistryError> {
    let removed = after.record.is_none();
    let sql = "INSERT OR REPLACE INTO shared_devices (edge, tenant, id, document, removed) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![edge, name.tenant(), name.id(), after.document, removed];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Forgets removed devices of an edge beyond those that are remembered.
fn forget_oldest(connection: &Connection, edge: &str) -> rusqlite::Result<()> {
    let sql = "DELETE FROM shared_devices WHERE edge = ?1 AND removed AND number <=
         (SELECT number FROM shared_devices WHERE edge = ?1 AND removed ORDER BY number DESC LIMIT 1 OFFSET ?2)";
    connection.execute(sql, params![edge, REMOVED_MAX])?;
    Ok(())
}

fn insert(
    connection: &Connection,
    edge: &str,
    name: &ClientName,
    new: &DeviceRecord,
    now_unix_s: i64,
) -> Result<(), RegistryError> {
    clients::check_room(connection, name)?;
    let row = NewRow {
        name,
        kind: ClientKind::Device,
        created_unix_s: now_unix_s,
        labels: &new.labels,
        edge,
        life: Some(&new.life),
        proof: NewProof {
            password: new.password.as_deref(),
            token_epoch: new.token_epoch.as_deref(),
            trusts_subject: new.trusts_subject,
            certificate: None,
        },
    };
    clients::insert(connection, &row)?;
    let sql = "UPDATE clients SET disabled = ?3 WHERE tenant = ?1 AND id = ?2";
    connection.execute(sql, params![name.tenant(), name.id(), new.disabled])?;
    for (serial, not_after_unix_s) in &new.certificates {
        certificates::insert_told(connection, name, serial, *not_after_unix_s)?;
    }
    Ok(())
}

fn change(
    connection: &Connection,
    name: &ClientName,
    old: &DeviceRecord,
    new: &DeviceRecord,
) -> Result<Vec<What>, RegistryError> {
    use HeldCredential::{Certificate, Password, Tokens, TrustedSubject};
    let sql = "UPDATE clients SET disabled = ?3, password = ?4, token_epoch = ?5, trusts_subject = ?6
         WHERE tenant = ?1 AND id = ?2";
    connection.execute(
        sql,
        params![
            name.tenant(),
            name.id(),
            new.disabled,
            new.password,
            new.token_epoch,
            new.trusts_subject
        ],
    )?;
    let mut changes = Vec::new();
    if old.disabled != new.disabled {
        changes.push(if new.disabled { What::Disabled } else { What::Added });
    }
    let replaced = |was_there: bool, is_other: bool, credential| match (is_other, was_there) {
        (false, _) => None,
        (true, true) => Some(What::CredentialRevoked(Some(credential))),
        (true, false) => Some(What::CredentialAdded),
    };
    changes.extend(replaced(old.password.is_some(), old.password != new.password, Password));
    let is_other_epoch = old.token_epoch != new.token_epoch;
    changes.extend(replaced(old.token_epoch.is_some(), is_other_epoch, Tokens));
    let is_other_trust = old.trusts_subject != new.trusts_subject;
    changes.extend(replaced(old.trusts_subject, is_other_trust, TrustedSubject));
    for serial in old
        .certificates
        .keys()
        .filter(|serial| !new.certificates.contains_key(*serial))
    {
        certificates::revoke(connection, name, serial)?;
        changes.push(What::CredentialRevoked(Some(Certificate(serial.clone()))));
    }
    for (serial, not_after_unix_s) in &new.certificates {
        if !old.certificates.contains_key(serial) {
            certificates::insert_told(connection, name, serial, *not_after_unix_s)?;
            changes.push(What::CredentialAdded);
        }
    }
    if old.labels != new.labels {
        connection.execute(
            "DELETE FROM labels WHERE tenant = ?1 AND id = ?2",
            [name.tenant(), name.id()],
        )?;
        for (label, value) in &new.labels {
            labels::set(connection, name, label, value)?;
        }
        changes.push(What::Labels);
    }
    Ok(changes)
}
