//! Devices and apps.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::applications::is_application;
use super::labels::{self, Labels};
use super::{HeldCredential, MAX_PAGE, Registry, RegistryError, What, certificates, tenants, touched};
use crate::name::{ClientKind, ClientName};

/// A device or app as the registry shows it; no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Who.
    pub name: ClientName,
    /// Device or app.
    pub kind: ClientKind,
    /// When it was added, in seconds of Unix time.
    pub created_unix_s: i64,
    /// Whether it is kept from logging in.
    pub disabled: bool,
    /// Whether it has a password.
    pub has_password: bool,
    /// Whether tokens were issued to it.
    pub has_tokens: bool,
    /// Whether it may log in with a certificate of the operator's own authority.
    pub trusts_subject: bool,
    /// Its labels.
    pub labels: Labels,
    /// Name of the edge that it logs in at, and nowhere else; `None`: here.
    pub edge: Option<String>,
}

/// A row to insert.
pub(crate) struct NewRow<'a> {
    pub(crate) name: &'a ClientName,
    pub(crate) kind: ClientKind,
    pub(crate) created_unix_s: i64,
    pub(crate) labels: &'a Labels,
    /// Name of the edge that it logs in at; empty: here.
    pub(crate) edge: &'a str,
    /// Tells it from others of its name; `None`: a new one.
    pub(crate) life: Option<&'a str>,
    pub(crate) proof: NewProof<'a>,
}

/// What a client proves itself by from now on.
pub(crate) struct NewProof<'a> {
    pub(crate) password: Option<&'a str>,
    pub(crate) token_epoch: Option<&'a str>,
    pub(crate) trusts_subject: bool,
    /// Serial and end of validity in seconds of Unix time.
    pub(crate) certificate: Option<(&'a str, i64)>,
}

/// What a client's credentials are checked against.
pub(crate) struct Proofs {
    pub(crate) kind: ClientKind,
    pub(crate) disabled: bool,
    pub(crate) password: Option<String>,
    pub(crate) token_epoch: Option<String>,
    pub(crate) trusts_subject: bool,
    /// Name of the edge that it logs in at; empty: here.
    pub(crate) edge: String,
}

impl Registry {
    pub(crate) fn add(&self, rows: &[NewRow<'_>]) -> Result<(), RegistryError> {
        let Some(first) = rows.first() else { return Ok(()) };
        // Of several one change is told: thousands would push out those that end connections.
        let id = (rows.len() == 1).then(|| &**first.name.id());
        self.change(&[(first.name.tenant(), id, What::Added)], |transaction| {
            rows.iter().try_for_each(|new| {
                check_room(transaction, new.name)?;
                check_application(transaction, new)?;
                insert(transaction, new)
            })
        })
    }

    /// A client with its labels; `None` if it is not there.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn client(&self, name: &ClientName) -> Result<Option<Client>, RegistryError> {
        let reader = self.reader();
        let sql = format!("SELECT {COLUMNS} FROM clients WHERE tenant = ?1 AND id = ?2");
        let found = reader
            .prepare_cached(&sql)?
            .query_row([name.tenant(), name.id()], |row| from_row(row, name.tenant()))
            .optional()?;
        found.map(|client| with_labels(&reader, client)).transpose()
    }

    /// A page of a tenant's clients of one kind by id: those after `after`, at most `limit` and at most [`MAX_PAGE`].
    ///
    /// # Errors
    /// No such tenant.
    pub fn clients(
        &self,
        tenant: &str,
        kind: ClientKind,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Client>, RegistryError> {
        let reader = self.reader();
        tenants::find(&reader, tenant)?.ok_or_else(|| RegistryError::NoTenant(tenant.into()))?;
        let sql =
            format!("SELECT {COLUMNS} FROM clients WHERE tenant = ?1 AND kind = ?2 AND id > ?3 ORDER BY id LIMIT ?4");
        let limit = limit.min(MAX_PAGE) as i64;
        let page: Vec<Client> = reader
            .prepare_cached(&sql)?
            .query_map(params![tenant, kind.as_str(), after.unwrap_or(""), limit], |row| {
                from_row(row, tenant)
            })?
            .collect::<Result<_, _>>()?;
        page.into_iter().map(|client| with_labels(&reader, client)).collect()
    }

    /// Removes a client with its credentials and labels. One of the same name added later shares nothing with it.
    ///
    /// # Errors
    /// No such client.
    pub fn remove(&self, name: &ClientName) -> Result<(), RegistryError> {
        self.change_client(name, What::Removed, |transaction| remove(transaction, name))
    }

    /// Has a device log in at this edge and nowhere else, or with `None` here; its connections here end.
    ///
    /// # Errors
    /// No such client.
    pub fn set_edge(&self, name: &ClientName, edge: Option<&str>) -> Result<(), RegistryError> {
        self.change_client(name, What::CredentialRevoked(None), |transaction| {
            let sql = "UPDATE clients SET edge = ?3 WHERE tenant = ?1 AND id = ?2";
            let set = transaction.execute(sql, params![name.tenant(), name.id(), edge.unwrap_or_default()])?;
            touched(set, || RegistryError::NoClient(name.clone()))
        })
    }

    /// Keeps a client from logging in, or lets it again; its credentials stay.
    ///
    /// # Errors
    /// No such client.
    pub fn set_disabled(&self, name: &ClientName, disabled: bool) -> Result<(), RegistryError> {
        let what = if disabled { What::Disabled } else { What::Added };
        self.change_client(name, what, |transaction| {
            let sql = "UPDATE clients SET disabled = ?3 WHERE tenant = ?1 AND id = ?2";
            let set = transaction.execute(sql, params![name.tenant(), name.id(), disabled])?;
            touched(set, || RegistryError::NoClient(name.clone()))
        })
    }

    /// Puts one credential in place of all that the client had.
    pub(crate) fn replace_credentials(&self, name: &ClientName, proof: &NewProof<'_>) -> Result<(), RegistryError> {
        self.change_client(name, What::CredentialRevoked(None), |transaction| {
            let sql = "UPDATE clients SET password = ?3, token_epoch = ?4, trusts_subject = ?5
                 WHERE tenant = ?1 AND id = ?2";
            let set = transaction.execute(
                sql,
                params![
                    name.tenant(),
                    name.id(),
                    proof.password,
                    proof.token_epoch,
                    proof.trusts_subject
                ],
            )?;
            touched(set, || RegistryError::NoClient(name.clone()))?;
            certificates::revoke_all(transaction, name)?;
            insert_certificate(transaction, name, proof)
        })
    }

    pub(crate) fn set_password(&self, name: &ClientName, phc: &str) -> Result<(), RegistryError> {
        let replaced = What::CredentialRevoked(Some(HeldCredential::Password));
        self.change_client(name, replaced, |transaction| {
            let sql = "UPDATE clients SET password = ?3 WHERE tenant = ?1 AND id = ?2";
            let set = transaction.execute(sql, params![name.tenant(), name.id(), phc])?;
            touched(set, || RegistryError::NoClient(name.clone()))
        })
    }

    /// The epoch that tokens of this client carry; `fresh` becomes it if there is none.
    pub(crate) fn token_epoch(&self, name: &ClientName, fresh: &str) -> Result<String, RegistryError> {
        self.change_client(name, What::CredentialAdded, |transaction| {
            let sql = "UPDATE clients SET token_epoch = coalesce(token_epoch, ?3) WHERE tenant = ?1 AND id = ?2
                 RETURNING token_epoch";
            let epoch = transaction
                .query_row(sql, params![name.tenant(), name.id(), fresh], |row| row.get(0))
                .optional()?;
            epoch.ok_or_else(|| RegistryError::NoClient(name.clone()))
        })
    }

    pub(crate) fn trust_subject(&self, name: &ClientName) -> Result<(), RegistryError> {
        self.change_client(name, What::CredentialAdded, |transaction| {
            let sql = "UPDATE clients SET trusts_subject = 1 WHERE tenant = ?1 AND id = ?2";
            let set = transaction.execute(sql, [name.tenant(), name.id()])?;
            touched(set, || RegistryError::NoClient(name.clone()))
        })
    }

    pub(crate) fn proofs(&self, name: &ClientName) -> Result<Option<Proofs>, RegistryError> {
        let reader = self.reader();
        let mut statement = reader.prepare_cached(
            "SELECT kind, disabled, password, token_epoch, trusts_subject, edge FROM clients
             WHERE tenant = ?1 AND id = ?2",
        )?;
        let proofs = statement.query_row([name.tenant(), name.id()], |row| {
            Ok(Proofs {
                kind: kind_of(row, 0)?,
                disabled: row.get(1)?,
                password: row.get(2)?,
                token_epoch: row.get(3)?,
                trusts_subject: row.get(4)?,
                edge: row.get(5)?,
            })
        });
        Ok(proofs.optional()?)
    }
}

pub(super) fn remove(connection: &Connection, name: &ClientName) -> Result<(), RegistryError> {
    // Else they would do for a later one that is known by any certificate with its name.
    certificates::revoke_all(connection, name)?;
    let sql = "DELETE FROM clients WHERE tenant = ?1 AND id = ?2";
    let removed = connection.execute(sql, [name.tenant(), name.id()])?;
    touched(removed, || RegistryError::NoClient(name.clone()))
}

const COLUMNS: &str =
    "id, kind, created_unix_s, disabled, password IS NOT NULL, token_epoch IS NOT NULL, trusts_subject, edge";

fn from_row(row: &Row<'_>, tenant: &str) -> rusqlite::Result<Client> {
    let name = ClientName::new(tenant, row.get_ref(0)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into()))?;
    Ok(Client {
        name,
        kind: kind_of(row, 1)?,
        created_unix_s: row.get(2)?,
        disabled: row.get(3)?,
        has_password: row.get(4)?,
        has_tokens: row.get(5)?,
        trusts_subject: row.get(6)?,
        labels: Labels::new(),
        edge: Some(row.get(7)?).filter(|edge: &String| !edge.is_empty()),
    })
}

fn kind_of(row: &Row<'_>, column: usize) -> rusqlite::Result<ClientKind> {
    ClientKind::parse(row.get_ref(column)?.as_str()?).ok_or(rusqlite::Error::InvalidQuery)
}

fn with_labels(connection: &Connection, client: Client) -> Result<Client, RegistryError> {
    Ok(Client {
        labels: labels::of(connection, &client.name)?,
        ..client
    })
}

pub(super) fn require(connection: &Connection, name: &ClientName) -> Result<(), RegistryError> {
    kind_in(connection, name)?
        .map(drop)
        .ok_or_else(|| RegistryError::NoClient(name.clone()))
}

fn kind_in(connection: &Connection, name: &ClientName) -> rusqlite::Result<Option<ClientKind>> {
    connection
        .prepare_cached("SELECT kind FROM clients WHERE tenant = ?1 AND id = ?2")?
        .query_row([name.tenant(), name.id()], |row| kind_of(row, 0))
        .optional()
}

/// Whether one more client of this name can be added.
/// An application of the edge's is the app of its name, and nothing else can be.
fn check_application(connection: &Connection, new: &NewRow<'_>) -> Result<(), RegistryError> {
    match new.kind != ClientKind::App && is_application(connection, new.name)? {
        true => Err(RegistryError::ClientExists {
            name: new.name.clone(),
            kind: ClientKind::App,
        }),
        false => Ok(()),
    }
}

pub(super) fn check_room(connection: &Connection, name: &ClientName) -> Result<(), RegistryError> {
    let tenant =
        tenants::find(connection, name.tenant())?.ok_or_else(|| RegistryError::NoTenant(name.tenant().to_string()))?;
    if let Some(kind) = kind_in(connection, name)? {
        return Err(RegistryError::ClientExists {
            name: name.clone(),
            kind,
        });
    }
    match tenant.quotas.devices {
        Some(devices) if tenant.clients >= devices => Err(RegistryError::TooManyClients {
            tenant: tenant.name,
            devices,
        }),
        _ => Ok(()),
    }
}

pub(super) fn insert(connection: &Connection, new: &NewRow<'_>) -> Result<(), RegistryError> {
    let sql =
        "INSERT INTO clients (tenant, id, kind, created_unix_s, password, token_epoch, trusts_subject, edge, life)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, coalesce(?9, lower(hex(randomblob(8)))))";
    connection.prepare_cached(sql)?.execute(params![
        new.name.tenant(),
        new.name.id(),
        new.kind.as_str(),
        new.created_unix_s,
        new.proof.password,
        new.proof.token_epoch,
        new.proof.trusts_subject,
        new.edge,
        new.life,
    ])?;
    for (name, value) in new.labels {
        labels::set(connection, new.name, name, value)?;
    }
    insert_certificate(connection, new.name, &new.proof)
}

fn insert_certificate(connection: &Connection, name: &ClientName, proof: &NewProof<'_>) -> Result<(), RegistryError> {
    match proof.certificate {
        Some((serial, not_after)) => certificates::insert(connection, name, serial, not_after),
        None => Ok(()),
    }
}
