//! Labels: what operators say about a client, for routes and lists.

use std::collections::BTreeMap;

use rusqlite::{Connection, params};

use super::{Registry, RegistryError, What, clients, touched};
use crate::name::ClientName;

/// Labels of one client by name.
pub type Labels = BTreeMap<String, String>;

/// Most labels of one client.
pub const MAX_LABELS: usize = 64;

const MAX_LABEL_NAME_BYTES: usize = 128;
const MAX_LABEL_VALUE_BYTES: usize = 256;

impl Registry {
    /// Sets one label, replacing its value if it is there.
    ///
    /// # Errors
    /// No such client; a name or value that is not allowed; more than [`MAX_LABELS`].
    pub fn set_label(&self, client: &ClientName, name: &str, value: &str) -> Result<(), RegistryError> {
        self.change_client(client, What::Labels, |transaction| {
            clients::require(transaction, client)?;
            set(transaction, client, name, value)
        })
    }

    /// Removes one label; removing what is not there changes nothing.
    ///
    /// # Errors
    /// No such client.
    pub fn remove_label(&self, client: &ClientName, name: &str) -> Result<(), RegistryError> {
        self.change_client(client, What::Labels, |transaction| {
            clients::require(transaction, client)?;
            transaction.execute(
                "DELETE FROM labels WHERE tenant = ?1 AND id = ?2 AND name = ?3",
                params![client.tenant(), client.id(), name],
            )?;
            Ok(())
        })
    }
}

pub(super) fn set(connection: &Connection, client: &ClientName, name: &str, value: &str) -> Result<(), RegistryError> {
    check(name, value)?;
    let sql = "INSERT INTO labels (tenant, id, name, value) SELECT ?1, ?2, ?3, ?4
         WHERE (SELECT count(*) FROM labels WHERE tenant = ?1 AND id = ?2 AND name <> ?3) < ?5
         ON CONFLICT (tenant, id, name) DO UPDATE SET value = excluded.value";
    let set = connection.prepare_cached(sql)?.execute(params![
        client.tenant(),
        client.id(),
        name,
        value,
        MAX_LABELS as i64
    ])?;
    touched(set, || {
        refused(name, "a client has at most 64 labels; remove one first")
    })
}

pub(super) fn of(connection: &Connection, client: &ClientName) -> rusqlite::Result<Labels> {
    connection
        .prepare_cached("SELECT name, value FROM labels WHERE tenant = ?1 AND id = ?2")?
        .query_map([client.tenant(), client.id()], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

fn check(name: &str, value: &str) -> Result<(), RegistryError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    if !(1..=MAX_LABEL_NAME_BYTES).contains(&name.len()) || !name.bytes().all(allowed) {
        return Err(refused(
            name,
            "its name has 1 to 128 of the characters A-Z a-z 0-9 . _ / -",
        ));
    }
    if value.len() > MAX_LABEL_VALUE_BYTES || value.chars().any(char::is_control) {
        return Err(refused(
            name,
            "its value has at most 256 bytes and no control characters",
        ));
    }
    Ok(())
}

fn refused(name: &str, rule: &'static str) -> RegistryError {
    let start: String = name.chars().take(40).collect();
    RegistryError::Label {
        shown: format!("\"{}\"", start.escape_default()),
        rule,
    }
}
