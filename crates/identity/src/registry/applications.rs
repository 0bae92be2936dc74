//! Applications that the edge runs, and that log in by what it gives them.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};

use super::{HeldCredential, Registry, RegistryError, What, lock, tenants};
use crate::name::ClientName;
use crate::secret::{hex, random_bytes};

/// What was made of the logins of a tenant's applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationLogins {
    /// Names of applications that may log in from now on.
    pub added: Vec<String>,
    /// Names of those that may not any more: their connections end.
    pub removed: Vec<String>,
}

impl Registry {
    /// Lets these applications of a tenant log in, and no others. What one was given that was removed is worth nothing
    /// to one of its name that comes later.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn set_applications(
        &self,
        tenant: &str,
        wanted: &BTreeSet<String>,
    ) -> Result<ApplicationLogins, RegistryError> {
        let is_there = tenants::find(&self.reader(), tenant)?.is_some();
        let known = all(&self.reader(), tenant)?;
        let changed = ApplicationLogins {
            added: wanted.difference(&known).filter(|_| is_there).cloned().collect(),
            removed: known.difference(wanted).cloned().collect(),
        };
        if changed == ApplicationLogins::default() {
            return Ok(changed);
        }
        let mut ends = Vec::new();
        for id in &changed.removed {
            // An app of that name, which was added by hand, keeps its sessions and its other credentials.
            let is_client = is_client(&self.reader(), tenant, id)?;
            let revoked = What::CredentialRevoked(Some(HeldCredential::Application));
            ends.push((tenant, Some(&**id), if is_client { revoked } else { What::Removed }));
        }
        self.change(&ends, |transaction| {
            for id in &changed.removed {
                transaction.execute("DELETE FROM applications WHERE tenant = ?1 AND id = ?2", [tenant, id])?;
            }
            for id in &changed.added {
                let epoch = hex(&random_bytes::<16>());
                transaction.execute("INSERT INTO applications VALUES (?1, ?2, ?3)", [tenant, id, &epoch])?;
            }
            Ok(())
        })?;
        Ok(changed)
    }

    /// The epoch that tokens of an application carry; `None`: it is none of the edge's.
    pub(crate) fn application_epoch(&self, name: &ClientName) -> Result<Option<String>, RegistryError> {
        let sql = "SELECT epoch FROM applications WHERE tenant = ?1 AND id = ?2";
        let reader = self.reader();
        let mut statement = reader.prepare_cached(sql)?;
        Ok(statement
            .query_row([name.tenant(), name.id()], |row| row.get(0))
            .optional()?)
    }

    /// Whether a client has this name, or an application that the edge runs.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn may_log_in(&self, name: &ClientName) -> Result<bool, RegistryError> {
        let reader = lock(&self.reader);
        Ok(is_client(&reader, name.tenant(), name.id())? || is_application(&reader, name)?)
    }
}

/// Whether an application of the edge's has this name.
pub(super) fn is_application(connection: &Connection, name: &ClientName) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM applications WHERE tenant = ?1 AND id = ?2)";
    connection.query_row(sql, params![name.tenant(), name.id()], |row| row.get(0))
}

fn is_client(connection: &Connection, tenant: &str, id: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM clients WHERE tenant = ?1 AND id = ?2)";
    connection.query_row(sql, [tenant, id], |row| row.get(0))
}

fn all(connection: &Connection, tenant: &str) -> rusqlite::Result<BTreeSet<String>> {
    connection
        .prepare_cached("SELECT id FROM applications WHERE tenant = ?1")?
        .query_map([tenant], |row| row.get(0))?
        .collect()
}
