//! Certificates that the edge's own authority issued, and serials that are refused.

use rusqlite::{Connection, OptionalExtension, params};

use super::{HeldCredential, Registry, RegistryError, What, clients};
use crate::name::ClientName;

/// Most certificates of one client that are valid at one time.
pub(super) const MAX_CERTIFICATES: i64 = 16;

/// Of the certificates of an edge that are renewed, those that are remembered: an edge whose answers are lost asks
/// again with the one that it has, and any of those that it was sent meanwhile may be the one that it kept.
const MAX_RENEWABLE: i64 = 4;

/// A certificate of the edge's own authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Serial number in lower-case hexadecimal.
    pub serial: String,
    /// End of validity in seconds of Unix time.
    pub not_after_unix_s: i64,
}

/// What the registry says about a certificate's serial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SerialState {
    /// Issued to this client and not revoked.
    Issued,
    /// Not issued to this client.
    Unknown,
    /// Refused.
    Revoked,
}

impl Registry {
    pub(crate) fn add_certificate(
        &self,
        name: &ClientName,
        certificate: &ClientCertificate,
        now_unix_s: i64,
    ) -> Result<(), RegistryError> {
        self.change_client(name, What::CredentialAdded, |transaction| {
            clients::require(transaction, name)?;
            transaction.execute(
                "DELETE FROM certificates WHERE tenant = ?1 AND id = ?2 AND not_after_unix_s < ?3 AND NOT renewable",
                params![name.tenant(), name.id(), now_unix_s],
            )?;
            insert(transaction, name, &certificate.serial, certificate.not_after_unix_s)
        })
    }

    /// Certificates of a client that the edge's own authority issued and nobody revoked.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn certificates(&self, name: &ClientName) -> Result<Vec<ClientCertificate>, RegistryError> {
        let reader = self.reader();
        let sql = "SELECT serial, not_after_unix_s FROM certificates WHERE tenant = ?1 AND id = ?2 ORDER BY 2, 1";
        let found = reader
            .prepare_cached(sql)?
            .query_map([name.tenant(), name.id()], |row| {
                Ok(ClientCertificate {
                    serial: row.get(0)?,
                    not_after_unix_s: row.get(1)?,
                })
            })?
            .collect::<Result<_, _>>()?;
        Ok(found)
    }

    /// Adds the certificate that takes the place of `old_serial`, which stays for as long as the edge may not have got
    /// the new one: with both the last [`MAX_RENEWABLE`] are kept, and what is older goes.
    ///
    /// # Errors
    /// `old_serial` was revoked meanwhile.
    pub(crate) fn renew_certificate(
        &self,
        name: &ClientName,
        old_serial: &str,
        new: &ClientCertificate,
    ) -> Result<(), RegistryError> {
        self.change_client(name, What::CredentialAdded, |transaction| {
            let sql = "SELECT 1 FROM certificates WHERE serial = ?1 AND tenant = ?2 AND id = ?3 AND renewable";
            if !transaction
                .prepare_cached(sql)?
                .exists(params![old_serial, name.tenant(), name.id()])?
            {
                return Err(RegistryError::NoCredential {
                    name: name.clone(),
                    credential: HeldCredential::Certificate(old_serial.to_owned()),
                });
            }
            insert_renewable(transaction, name, new)?;
            let sql = "DELETE FROM certificates WHERE tenant = ?1 AND id = ?2 AND renewable AND serial <> ?3
                 AND serial NOT IN (SELECT serial FROM certificates WHERE tenant = ?1 AND id = ?2 AND renewable
                     ORDER BY not_after_unix_s DESC, serial = ?4 DESC LIMIT ?5)";
            transaction.execute(
                sql,
                params![name.tenant(), name.id(), old_serial, new.serial, MAX_RENEWABLE],
            )?;
            Ok(())
        })
    }

    /// Whether a certificate came of an invitation.
    pub(crate) fn is_renewable(&self, name: &ClientName, serial: &str) -> Result<bool, RegistryError> {
        let sql = "SELECT 1 FROM certificates WHERE serial = ?1 AND tenant = ?2 AND id = ?3 AND renewable";
        let reader = self.reader();
        Ok(reader
            .prepare_cached(sql)?
            .exists(params![serial, name.tenant(), name.id()])?)
    }

    pub(crate) fn serial_state(&self, name: &ClientName, serial: &str) -> Result<SerialState, RegistryError> {
        let reader = self.reader();
        let revoked = reader
            .prepare_cached("SELECT 1 FROM revoked_serials WHERE serial = ?1")?
            .exists([serial])?;
        if revoked {
            return Ok(SerialState::Revoked);
        }
        let issued: Option<i64> = reader
            .prepare_cached("SELECT 1 FROM certificates WHERE serial = ?1 AND tenant = ?2 AND id = ?3")?
            .query_row(params![serial, name.tenant(), name.id()], |row| row.get(0))
            .optional()?;
        Ok(if issued.is_some() {
            SerialState::Issued
        } else {
            SerialState::Unknown
        })
    }
}

/// Refuses a client's certificate from now on: one that was issued to it, or, if it is known by those of a trusted
/// authority, one that nobody was issued here. Whether it is one of these. One that the other end of a link told of is
/// forgotten and no more: whoever tells of a serial number need not be who has it.
pub(super) fn revoke(connection: &Connection, name: &ClientName, serial: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT coalesce(
            (SELECT tenant = ?2 AND id = ?3 FROM certificates WHERE serial = ?1),
            (SELECT trusts_subject FROM clients WHERE tenant = ?2 AND id = ?3))";
    let is_theirs: bool = connection.query_row(sql, params![serial, name.tenant(), name.id()], |row| row.get(0))?;
    if is_theirs {
        let sql = "INSERT OR IGNORE INTO revoked_serials (serial) SELECT ?1
             WHERE NOT EXISTS (SELECT 1 FROM certificates WHERE serial = ?1 AND told)";
        connection.execute(sql, [serial])?;
        connection.execute("DELETE FROM certificates WHERE serial = ?1", [serial])?;
    }
    Ok(is_theirs)
}

/// Refuses all certificates of a client that the edge's own authority issued.
pub(super) fn revoke_all(connection: &Connection, name: &ClientName) -> rusqlite::Result<()> {
    revoke_where(connection, name, "true")
}

/// Refuses those that came of an invitation.
pub(super) fn revoke_renewable(connection: &Connection, name: &ClientName) -> rusqlite::Result<()> {
    revoke_where(connection, name, "renewable")
}

fn revoke_where(connection: &Connection, name: &ClientName, condition: &str) -> rusqlite::Result<()> {
    let of_client = format!("FROM certificates WHERE tenant = ?1 AND id = ?2 AND {condition}");
    let remember = format!("INSERT OR IGNORE INTO revoked_serials (serial) SELECT serial {of_client} AND NOT told");
    connection.execute(&remember, [name.tenant(), name.id()])?;
    connection.execute(&format!("DELETE {of_client}"), [name.tenant(), name.id()])?;
    Ok(())
}

/// Adds one that came of an invitation. Whoever adds it keeps their number bounded.
pub(super) fn insert_renewable(
    connection: &Connection,
    name: &ClientName,
    new: &ClientCertificate,
) -> Result<(), RegistryError> {
    connection.execute(
        "INSERT INTO certificates (serial, tenant, id, not_after_unix_s, renewable) VALUES (?1, ?2, ?3, ?4, 1)",
        params![new.serial, name.tenant(), name.id(), new.not_after_unix_s],
    )?;
    Ok(())
}

pub(super) fn insert(
    connection: &Connection,
    name: &ClientName,
    serial: &str,
    not_after_unix_s: i64,
) -> Result<(), RegistryError> {
    insert_as(connection, name, serial, not_after_unix_s, false)
}

/// Adds one that the other end of a link told of.
pub(super) fn insert_told(
    connection: &Connection,
    name: &ClientName,
    serial: &str,
    not_after_unix_s: i64,
) -> Result<(), RegistryError> {
    insert_as(connection, name, serial, not_after_unix_s, true)
}

fn insert_as(
    connection: &Connection,
    name: &ClientName,
    serial: &str,
    not_after_unix_s: i64,
    is_told: bool,
) -> Result<(), RegistryError> {
    let valid: i64 = connection.query_row(
        "SELECT count(*) FROM certificates WHERE tenant = ?1 AND id = ?2",
        [name.tenant(), name.id()],
        |row| row.get(0),
    )?;
    if valid >= MAX_CERTIFICATES {
        return Err(RegistryError::TooManyCertificates(name.clone()));
    }
    connection.execute(
        "INSERT INTO certificates (serial, tenant, id, not_after_unix_s, told) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![serial, name.tenant(), name.id(), not_after_unix_s, is_told],
    )?;
    Ok(())
}
