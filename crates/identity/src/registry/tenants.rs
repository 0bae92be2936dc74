//! Tenants and their quotas.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Registry, RegistryError, What, touched};
use crate::name::{DEFAULT_TENANT, check_name};
use crate::quotas::Quotas;

/// A tenant: what belongs to it is invisible to every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// What it may use.
    pub quotas: Quotas,
    /// How many devices and apps it has. Kept by triggers: counting 10,000 rows for each one added would take longer
    /// than adding it.
    pub clients: u64,
}

impl Registry {
    /// Adds a tenant.
    ///
    /// # Errors
    /// The name is not allowed or taken.
    pub fn add_tenant(&self, name: &str, quotas: &Quotas) -> Result<(), RegistryError> {
        check_name("tenant", name)?;
        self.change(&[(name, None, What::Added)], |transaction| {
            if find(transaction, name)?.is_some() {
                return Err(RegistryError::TenantExists(name.into()));
            }
            Ok(insert(transaction, name, quotas)?)
        })
    }

    /// Removes a tenant that has no clients.
    ///
    /// # Errors
    /// It is not there, is the default one, or has clients.
    pub fn remove_tenant(&self, name: &str) -> Result<(), RegistryError> {
        if name == DEFAULT_TENANT {
            return Err(RegistryError::DefaultTenant);
        }
        self.change(&[(name, None, What::Removed)], |transaction| {
            let tenant = find(transaction, name)?.ok_or_else(|| RegistryError::NoTenant(name.into()))?;
            if tenant.clients > 0 {
                return Err(RegistryError::TenantNotEmpty(name.into()));
            }
            transaction.execute("DELETE FROM tenants WHERE name = ?1", [name])?;
            Ok(())
        })
    }

    /// All tenants by name.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn tenants(&self) -> Result<Vec<Tenant>, RegistryError> {
        Ok(all(&self.reader())?)
    }

    /// A tenant; `None` if it is not there.
    ///
    /// # Errors
    /// SQLite failed.
    pub fn tenant(&self, name: &str) -> Result<Option<Tenant>, RegistryError> {
        Ok(find(&self.reader(), name)?)
    }

    /// Replaces a tenant's quotas. Clients and sessions beyond a lowered one stay; no further ones come.
    ///
    /// # Errors
    /// No such tenant.
    pub fn set_quotas(&self, tenant: &str, quotas: &Quotas) -> Result<(), RegistryError> {
        self.change(&[(tenant, None, What::Quotas)], |transaction| {
            let set = transaction.execute(
                "UPDATE tenants SET quotas = ?2 WHERE name = ?1",
                params![tenant, to_json(quotas)],
            )?;
            touched(set, || RegistryError::NoTenant(tenant.into()))
        })
    }
}

pub(super) fn insert(connection: &Connection, name: &str, quotas: &Quotas) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT INTO tenants (name, quotas) VALUES (?1, ?2)",
        params![name, to_json(quotas)],
    )?;
    Ok(())
}

pub(super) fn find(connection: &Connection, name: &str) -> rusqlite::Result<Option<Tenant>> {
    connection
        .prepare_cached("SELECT name, quotas, clients FROM tenants WHERE name = ?1")?
        .query_row([name], from_row)
        .optional()
}

pub(super) fn all(connection: &Connection) -> rusqlite::Result<Vec<Tenant>> {
    connection
        .prepare_cached("SELECT name, quotas, clients FROM tenants ORDER BY name")?
        .query_map([], from_row)?
        .collect()
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Tenant> {
    let quotas = serde_json::from_str(row.get_ref(1)?.as_str()?)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, Type::Text, error.into()))?;
    Ok(Tenant {
        name: row.get(0)?,
        quotas,
        clients: row.get::<_, i64>(2)?.cast_unsigned(),
    })
}

fn to_json(quotas: &Quotas) -> String {
    serde_json::to_string(quotas).expect("numbers under fixed names are JSON")
}
