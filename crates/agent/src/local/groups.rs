//! The control groups of containers: each in that of its tenant, which holds all of a tenant's containers to its
//! limits.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::slices::Slice;
use crate::cgroup::{Cgroup, Hierarchy, Limits, Usage};
use crate::runtime::Error;
use crate::supervise::Key;

pub(super) const NO_GROUPS: &str = "this kernel has no control groups at /sys/fs/cgroup";
/// Why an engine keeps no limits of a tenant.
const NO_SLICES: &str = "its tenant has a quota app_cpu_millis or app_memory_bytes, and this Docker Engine has systemd make its \
    control groups, which takes those of version 2; start it with --exec-opt native.cgroupdriver=cgroupfs, or write \
    runtimeClassName: oci";
const NO_DRIVER: &str = "its tenant has a quota app_cpu_millis or app_memory_bytes, and this Docker Engine makes no control groups; \
    start it as root, or write runtimeClassName: oci";
/// Nobody counts together what systemd keeps and what it does not.
const APART: &str = "its tenant has a quota app_cpu_millis or app_memory_bytes, and runs containers both of a Docker Engine that has \
    systemd make its control groups and of no engine, which are not counted together; write the same runtimeClassName for \
    all of them, or start the engine with --exec-opt native.cgroupdriver=cgroupfs";

/// Who makes the control groups of an engine's containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    Engine,
    Systemd,
    Nobody,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tenant {
    /// What all its containers may take together.
    limits: Limits,
    /// What systemd was last told of that.
    told: Option<Limits>,
}

/// Those of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    hierarchy: Option<Hierarchy>,
    /// Put before their names: they are those of the host, and so of other agents on it.
    prefix: String,
    /// While it is held no group of a tenant is made or removed.
    tenants: Arc<Mutex<HashMap<String, Tenant>>>,
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

    /// Of all containers of a tenant, but those in its slice.
    fn of_tenant(&self, tenant: &str) -> Option<Cgroup> {
        self.called(tenant)
    }

    fn slice(&self, tenant: &str) -> Option<Slice> {
        Slice::of(self.hierarchy.as_ref()?, &format!("{}{tenant}", self.prefix))
    }

    /// Those of all its containers.
    fn all_of_tenant(&self, tenant: &str) -> impl Iterator<Item = Cgroup> {
        let slice = self.slice(tenant).map(|slice| slice.group);
        self.of_tenant(tenant).into_iter().chain(slice)
    }

    /// What all containers of a tenant have taken; `None`: it has none.
    pub(super) fn usage_of(&self, tenant: &str) -> io::Result<Option<Usage>> {
        let there = self.all_of_tenant(tenant).filter(Cgroup::is_there);
        let counted = there.map(|group| group.usage()).collect::<io::Result<Vec<Usage>>>()?;
        Ok(counted.into_iter().reduce(|one, other| one + other))
    }

    fn called(&self, name: &str) -> Option<Cgroup> {
        let name = format!("{}{name}", self.prefix);
        self.hierarchy.as_ref().map(|hierarchy| hierarchy.group(&name))
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<String, Tenant>> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// That of a new container; `None`: there can be none, and none is asked for.
    pub(super) fn make(&self, name: &str, limits: &Limits) -> Result<Option<Cgroup>, Error> {
        let tenants = self.tenants();
        let of_tenant =
            Key::of_container(name).and_then(|key| Some((key.tenant.clone(), tenants.get(&key.tenant)?.limits)));
        let is_limited = *limits != Limits::default() || of_tenant.as_ref().is_some_and(|(_, of)| is_asked(of));
        let Some(group) = self.of(name) else {
            return match is_limited {
                true => Err(Error::NoLimits(NO_GROUPS.to_owned())),
                false => Ok(None),
            };
        };
        if let Some((tenant, of)) = &of_tenant
            && is_asked(of)
            && self.slice(tenant).is_some_and(|slice| slice.group.has_groups())
        {
            return Err(Error::NoLimits(APART.to_owned()));
        }
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

    /// The group of a tenant as an engine is to have it; `None`: there can be none, and none is asked for.
    pub(crate) fn for_engine(&self, tenant: &str, driver: Driver) -> Result<Option<String>, Error> {
        let mut tenants = self.tenants();
        let known = tenants.entry(tenant.to_owned()).or_default();
        let made = match driver {
            Driver::Engine => self.group_for_engine(tenant, &known.limits),
            Driver::Systemd => self.slice_for_engine(tenant, known),
            Driver::Nobody => Err(io::Error::other(NO_DRIVER)),
        };
        match made {
            Ok(name) => Ok(Some(name)),
            Err(error) if is_asked(&known.limits) => Err(Error::NoLimits(error.to_string())),
            Err(_) => Ok(None),
        }
    }

    fn group_for_engine(&self, tenant: &str, limits: &Limits) -> io::Result<String> {
        let group = self.of_tenant(tenant).ok_or_else(|| io::Error::other(NO_GROUPS))?;
        group.create(limits)?;
        Ok(group.path_for_runner().to_string_lossy().into_owned())
    }

    fn slice_for_engine(&self, tenant: &str, known: &mut Tenant) -> io::Result<String> {
        let slice = self.slice(tenant).ok_or_else(|| io::Error::other(NO_SLICES))?;
        if is_asked(&known.limits) && self.of_tenant(tenant).is_some_and(|group| group.has_groups()) {
            return Err(io::Error::other(APART));
        }
        tell(&slice, known)?;
        Ok(slice.name().to_owned())
    }

    /// Whether all containers of a tenant together had no memory left at some time.
    pub(crate) fn is_tenant_short(&self, tenant: &str) -> bool {
        self.all_of_tenant(tenant)
            .any(|group| group.was_full().unwrap_or(false))
    }

    /// A container may take no more than its tenant.
    pub(crate) fn within_tenant(&self, tenant: &str, limits: &Limits) -> Limits {
        within(limits, &self.tenants().get(tenant).copied().unwrap_or_default().limits)
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
        let known = tenants.entry(tenant.to_owned()).or_default();
        known.limits = limits;
        let own = self.of_tenant(tenant).filter(Cgroup::is_there);
        if let Some(group) = &own {
            group.limit(&limits)?;
        }
        let Some(slice) = self.slice(tenant).filter(|slice| slice.group.is_there()) else {
            return Ok(());
        };
        tell(&slice, known)?;
        match is_asked(&limits) && slice.group.has_groups() && own.is_some_and(|group| group.has_groups()) {
            true => Err(io::Error::other(APART)),
            false => Ok(()),
        }
    }

    /// A tenant's group is promised what its containers are now, one of which has come or gone.
    pub(crate) fn carry_promises(&self, tenant: &str) {
        let _alone = self.tenants();
        self.promise(tenant);
    }

    fn promise(&self, tenant: &str) {
        let carried = self.all_of_tenant(tenant).try_for_each(|group| group.carry_promises());
        if let Err(error) = carried {
            tracing::warn!(%tenant, %error, "its applications are not kept the memory that they are promised");
        }
    }

    /// One of a tenant's containers has gone: its group goes where none `is_in_use`.
    pub(super) fn leave(&self, tenant: &str, is_in_use: impl FnOnce() -> io::Result<bool>) -> io::Result<()> {
        let mut tenants = self.tenants();
        if !is_in_use()? {
            if let Some(group) = self.of_tenant(tenant) {
                // An engine may have yet to let it go; it is used again, or removed after the next container.
                let _ = group.remove();
            }
            let told = tenants.get_mut(tenant).and_then(|known| known.told.take());
            if let Some(slice) = self.slice(tenant)
                && (told.is_some() || slice.group.is_there())
                && let Err(error) = slice.remove()
            {
                tracing::warn!(%tenant, %error, "its slice stays");
            }
        }
        self.promise(tenant);
        Ok(())
    }
}

/// Tells systemd what a tenant may take now, where it does not know.
fn tell(slice: &Slice, known: &mut Tenant) -> io::Result<()> {
    if known.told != Some(known.limits) {
        slice.limit(&known.limits)?;
        known.told = Some(known.limits);
    }
    Ok(())
}

/// Whether somebody has written limits that have to be kept: a bound on processes alone is for hosts where there can be
/// one.
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
