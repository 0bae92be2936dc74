//! The control groups of containers: each in that of its tenant, which holds all of a tenant's containers to its limits.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cgroup::{Cgroup, Hierarchy, Limits};
use crate::runtime::Error;
use crate::supervise::Key;

pub(super) const NO_GROUPS: &str = "this kernel has no control groups at /sys/fs/cgroup";

/// Those of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    hierarchy: Option<Hierarchy>,
    /// Put before their names: they are those of the host, and so of other agents on it.
    prefix: String,
    /// What all containers of a tenant may take together. While it is held no group of a tenant is made or removed.
    tenants: Arc<Mutex<HashMap<String, Limits>>>,
}

impl Groups {
    /// No other agent of the host has the same `prefix`.
    pub(super) fn new(prefix: &str) -> Self {
        Groups {
            hierarchy: Hierarchy::of_host(),
            prefix: prefix.to_owned(),
            tenants: Arc::default(),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// That of a container, which is in that of its tenant.
    pub(super) fn of(&self, name: &str) -> Option<Cgroup> {
        match Key::of_container(name) {
            Some(Key { tenant, .. }) => self.called(&format!("{tenant}/{name}")),
            None => self.called(name),
        }
    }

    /// That of a container, and where agents before this one had it: not in that of its tenant.
    pub(super) fn all_of(&self, name: &str) -> impl Iterator<Item = Cgroup> {
        [self.of(name), self.called(name)].into_iter().flatten()
    }

    /// Of all containers of a tenant.
    pub(super) fn of_tenant(&self, tenant: &str) -> Option<Cgroup> {
        self.called(tenant)
    }

    fn called(&self, name: &str) -> Option<Cgroup> {
        let name = format!("{}{name}", self.prefix);
        self.hierarchy.as_ref().map(|hierarchy| hierarchy.group(&name))
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<String, Limits>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of a new container; `None`: there can be none, and none is asked for.
    pub(super) fn make(&self, name: &str, limits: &Limits) -> Result<Option<Cgroup>, Error> {
        let tenants = self.tenants();
        let of_tenant = Key::of_container(name).and_then(|key| Some((key.tenant.clone(), *tenants.get(&key.tenant)?)));
        let is_limited = *limits != Limits::default() || of_tenant.as_ref().is_some_and(|(_, of)| is_asked(of));
        let Some(group) = self.of(name) else {
            return match is_limited {
                true => Err(Error::NoLimits(NO_GROUPS.to_owned())),
                false => Ok(None),
            };
        };
        let created = match of_tenant.and_then(|(tenant, of)| Some((self.of_tenant(&tenant)?, of))) {
            Some((of_all, of)) => of_all.create(&of).and_then(|()| group.create(&within(limits, &of))),
            None => group.create(limits),
        };
        match created {
            Ok(()) => Ok(Some(group)),
            Err(error) if is_limited => Err(Error::NoLimits(error.to_string())),
            Err(_) => Ok(None),
        }
    }

    /// The group of a tenant as an engine is to have it, which is there; `None`: there can be none, and none is asked for.
    pub(crate) fn for_engine(&self, tenant: &str) -> Result<Option<PathBuf>, Error> {
        let tenants = self.tenants();
        let limits = tenants.get(tenant).copied().unwrap_or_default();
        let created = match self.of_tenant(tenant) {
            Some(group) => group.create(&limits).map(|()| group.path_for_runner()),
            None => Err(io::Error::other(NO_GROUPS)),
        };
        match created {
            Ok(path) => Ok(Some(path)),
            Err(error) if is_asked(&limits) => Err(Error::NoLimits(error.to_string())),
            Err(_) => Ok(None),
        }
    }

    /// Whether all containers of a tenant together had no memory left at some time.
    pub(crate) fn is_tenant_short(&self, tenant: &str) -> bool {
        self.of_tenant(tenant)
            .is_some_and(|group| group.was_full().unwrap_or(false))
    }

    /// A container may take no more than its tenant.
    pub(crate) fn within_tenant(&self, tenant: &str, limits: &Limits) -> Limits {
        within(limits, &self.tenants().get(tenant).copied().unwrap_or_default())
    }

    /// Whether the tenant's limits have to be kept.
    pub(crate) fn has_limits(&self, tenant: &str) -> bool {
        self.tenants().get(tenant).is_some_and(is_asked)
    }

    /// What all containers of a tenant may take together from now on.
    pub(super) fn limit(&self, tenant: &str, limits: Limits) -> io::Result<()> {
        let counts_processes = self.hierarchy.as_ref().is_none_or(|hierarchy| hierarchy.has("pids"));
        let limits = Limits {
            // A bound on processes, which all have, is for hosts where there can be one.
            pids: limits.pids.filter(|_| counts_processes),
            ..limits
        };
        let mut tenants = self.tenants();
        tenants.insert(tenant.to_owned(), limits);
        match self.of_tenant(tenant) {
            Some(group) if group.is_there() => group.limit(&limits),
            _ => Ok(()),
        }
    }

    /// A tenant's group is promised what its containers are now, one of which has come or gone.
    pub(crate) fn carry_promises(&self, tenant: &str) {
        let _alone = self.tenants();
        self.promise(tenant);
    }

    fn promise(&self, tenant: &str) {
        let carried = self.of_tenant(tenant).map_or(Ok(()), |group| group.carry_promises());
        if let Err(error) = carried {
            tracing::warn!(%tenant, %error, "its applications are not kept the memory that they are promised");
        }
    }

    /// One of a tenant's containers has gone: its group goes where none `is_in_use`.
    pub(super) fn leave(&self, tenant: &str, is_in_use: impl FnOnce() -> io::Result<bool>) -> io::Result<()> {
        let _alone = self.tenants();
        match self.of_tenant(tenant) {
            Some(group) if !is_in_use()? => {
                // An engine may have yet to let it go; it is used again, or removed after the next container.
                let _ = group.remove();
            }
            _ => {}
        }
        self.promise(tenant);
        Ok(())
    }
}

/// Whether somebody has written limits that have to be kept: a bound on processes alone is for hosts where there can be one.
fn is_asked(of_tenant: &Limits) -> bool {
    of_tenant.cpu_millis.is_some() || of_tenant.memory_bytes.is_some()
}

/// No more of the processor than its tenant may take: control groups of version 1 refuse that.
fn within(limits: &Limits, of_tenant: &Limits) -> Limits {
    let cpu_millis = limits
        .cpu_millis
        .map(|own| own.min(of_tenant.cpu_millis.unwrap_or(u32::MAX)));
    Limits { cpu_millis, ..*limits }
}
