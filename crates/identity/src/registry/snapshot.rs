//! What the way of a message needs to know of the registry, in memory and without locks.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::Connection;

use super::labels::Labels;
use super::{Registry, RegistryError, lock, tenants};
use crate::quotas::Quotas;

/// Quotas, labels and devices as they were after one change. Shared and never modified: a loop keeps its `Arc` and
/// fetches another when [`Registry::last_change`] has moved on.
#[derive(Debug, Default)]
pub struct Snapshot {
    change: u64,
    tenants: HashMap<String, InTenant>,
}

#[derive(Debug)]
struct InTenant {
    quotas: Quotas,
    labels: HashMap<String, Arc<Labels>>,
    /// Each with the edge that it logs in at; `None`: here.
    devices: HashMap<String, Option<Arc<str>>>,
}

impl Snapshot {
    /// Number of the last change that is surely in it.
    pub fn change(&self) -> u64 {
        self.change
    }

    /// Quotas of a tenant; `None` if there is no such tenant.
    pub fn quotas(&self, tenant: &str) -> Option<&Quotas> {
        self.tenants.get(tenant).map(|found| &found.quotas)
    }

    /// Labels of a client; `None` if it has none.
    pub fn labels(&self, tenant: &str, id: &str) -> Option<&Arc<Labels>> {
        self.tenants.get(tenant)?.labels.get(id)
    }

    /// Names of the tenants.
    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.tenants.keys().map(String::as_str)
    }

    /// Ids of the registered devices of a tenant.
    pub fn devices(&self, tenant: &str) -> impl Iterator<Item = &str> {
        let found = self.tenants.get(tenant).into_iter();
        found.flat_map(|found| found.devices.keys()).map(String::as_str)
    }

    /// Whether a device is registered.
    pub fn has_device(&self, tenant: &str, id: &str) -> bool {
        self.home(tenant, id).is_some()
    }

    /// The edge that a device logs in at, `Some(None)`: here; `None` if it is not registered.
    pub fn home(&self, tenant: &str, id: &str) -> Option<Option<&Arc<str>>> {
        self.tenants.get(tenant)?.devices.get(id).map(Option::as_ref)
    }
}

impl Registry {
    /// The newest snapshot. Reads all labels from disk if something changed since the last call (some 10 ms for
    /// 10,000 clients): not for a message loop.
    ///
    /// # Errors
    /// SQLite failed; the caller keeps the snapshot it has.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, RegistryError> {
        let mut snapshot = lock(&self.snapshot);
        let last = self.last_change();
        if snapshot.change != last {
            *snapshot = Arc::new(read(&self.reader(), last)?);
        }
        Ok(snapshot.clone())
    }
}

/// `change` must have been read before: what happens meanwhile may be in the snapshot and is read again then.
pub(super) fn read(connection: &Connection, change: u64) -> rusqlite::Result<Snapshot> {
    let in_tenant = |quotas| InTenant {
        quotas,
        labels: HashMap::new(),
        devices: HashMap::new(),
    };
    let mut tenants: HashMap<_, _> = tenants::all(connection)?
        .into_iter()
        .map(|tenant| (tenant.name, in_tenant(tenant.quotas)))
        .collect();
    let mut statement = connection.prepare_cached("SELECT tenant, id, name, value FROM labels")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Some(tenant) = tenants.get_mut(row.get_ref(0)?.as_str()?) else {
            continue;
        };
        let labels = tenant.labels.entry(row.get(1)?).or_default();
        Arc::make_mut(labels).insert(row.get(2)?, row.get(3)?);
    }
    let mut statement = connection.prepare_cached("SELECT tenant, id, edge FROM clients WHERE kind = 'device'")?;
    let mut rows = statement.query([])?;
    let mut edges: HashSet<Arc<str>> = HashSet::new();
    while let Some(row) = rows.next()? {
        let edge = Some(row.get_ref(2)?.as_str()?).filter(|edge| !edge.is_empty());
        // One text for all devices of an edge.
        let edge = edge.map(|edge| {
            let known = edges.get(edge).cloned().unwrap_or_else(|| edge.into());
            edges.insert(Arc::clone(&known));
            known
        });
        if let Some(tenant) = tenants.get_mut(row.get_ref(0)?.as_str()?) {
            tenant.devices.insert(row.get(1)?, edge);
        }
    }
    Ok(Snapshot { change, tenants })
}
