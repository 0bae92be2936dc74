//! What all containers of a tenant have on disk together, and who is replaced where that is more than they may.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::Key;
use super::container::{LOOK_LEAST, LOOK_MOST, LOOKS_SHARE};
use crate::runtime::{Error, Kind, Launch, Pod, Runtime, Volume};

/// The tenants of an edge.
#[derive(Clone, Debug, Default)]
pub(super) struct TenantDisks(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    is_new: Notify,
    /// By the names of their starts: those that are to go, and why.
    leaving: watch::Sender<BTreeMap<String, String>>,
}

#[derive(Debug, Default)]
struct Known {
    /// In bytes, of those that have a limit.
    most: BTreeMap<String, u64>,
    /// As it was counted last.
    taken: BTreeMap<String, u64>,
    /// By the names of their starts.
    running: BTreeMap<String, Launch>,
}

/// One that runs, until this is dropped.
pub(super) struct Counted<'a> {
    disks: &'a TenantDisks,
    name: &'a str,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.disks.known().running.remove(self.name);
    }
}

impl TenantDisks {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, tenant: &str, most: Option<u64>) {
        let mut known = self.known();
        match most {
            Some(most) => drop(known.most.insert(tenant.to_owned(), most)),
            None => {
                known.most.remove(tenant);
                known.taken.remove(tenant);
            }
        }
        self.0.is_new.notify_one();
    }

    pub(super) fn taken(&self, tenant: &str) -> u64 {
        self.known().taken.get(tenant).copied().unwrap_or_default()
    }

    pub(super) fn count<'a>(&'a self, name: &'a str, launch: &Launch) -> Counted<'a> {
        self.known().running.insert(name.to_owned(), launch.clone());
        Counted { disks: self, name }
    }

    /// Returns once a start is to go: why.
    pub(super) async fn is_to_go(&self, name: &str) -> String {
        let mut leaving = self.0.leaving.subscribe();
        let found = leaving.wait_for(|leaving| leaving.contains_key(name)).await;
        found.expect("the sender is not gone")[name].clone()
    }

    /// Looks at them again and again; looking takes no more than a hundredth of the time.
    pub(super) async fn watch(self, runtime: Arc<dyn Runtime>) {
        loop {
            let limits = self.known().most.clone();
            if limits.is_empty() {
                self.0.leaving.send_replace(BTreeMap::new());
                self.0.is_new.notified().await;
                continue;
            }
            let began = Instant::now();
            let mut leaving = BTreeMap::new();
            for (tenant, most) in limits {
                match self.look(&*runtime, &tenant, most).await {
                    Ok(too_much) => leaving.extend(too_much),
                    Err(error) => tracing::warn!(%tenant, %error, "it is not known what it has on disk"),
                }
            }
            self.0.leaving.send_replace(leaving);
            sleep((began.elapsed() * LOOKS_SHARE).clamp(LOOK_LEAST, LOOK_MOST)).await;
        }
    }

    /// Who is to go of a tenant that may have so many bytes.
    async fn look(&self, runtime: &dyn Runtime, tenant: &str, most: u64) -> Result<BTreeMap<String, String>, Error> {
        let running: Vec<(String, Launch)> = {
            let known = self.known();
            let of_tenant = |name: &str| Key::of_container(name).is_some_and(|key| key.tenant == tenant);
            let running = known.running.iter().filter(|(name, _)| of_tenant(name));
            running.map(|(name, launch)| (name.clone(), launch.clone())).collect()
        };
        // Of what is far more nobody need know how much it is.
        let enough = most.saturating_mul(2);
        let kept = runtime.kept(tenant, enough).await?;
        let own = own(runtime, &running, enough).await?;
        let taken = own.values().fold(kept, |sum, bytes| sum.saturating_add(*bytes));
        self.known().taken.insert(tenant.to_owned(), taken);
        let leaving = leaving(&running, &own, taken.saturating_sub(most));
        let why = format!(
            "its tenant has {:.1} MB on disk, {:.1} MB of it in volumes that are kept; its quota app_disk_bytes is {:.1} MB",
            taken as f64 / 1e6,
            kept as f64 / 1e6,
            most as f64 / 1e6
        );
        Ok(leaving.into_iter().map(|name| (name.to_owned(), why.clone())).collect())
    }
}

/// What goes with each of them. What containers of a replica share counts for one of them.
async fn own(runtime: &dyn Runtime, running: &[(String, Launch)], enough: u64) -> Result<BTreeMap<String, u64>, Error> {
    let mut shared: BTreeSet<(&Pod, &str)> = BTreeSet::new();
    let mut own = BTreeMap::new();
    for (name, launch) in running.iter().filter(|(_, launch)| launch.kind != Kind::Process) {
        let mut bytes = runtime.written(name, enough).await?;
        for mount in &launch.mounts {
            if let Volume::Scratch(volume) = &mount.volume
                && shared.insert((&launch.pod, volume))
            {
                bytes = bytes.saturating_add(runtime.scratch(&launch.pod, volume, enough).await?);
            }
        }
        own.insert(name.clone(), bytes);
    }
    Ok(own)
}

/// Those with most of what goes with them, until so many bytes too much are gone; where that is not enough, those too
/// that write what is kept.
fn leaving<'a>(running: &'a [(String, Launch)], own: &'a BTreeMap<String, u64>, too_much: u64) -> BTreeSet<&'a str> {
    let mut leaving = BTreeSet::new();
    let mut left = too_much;
    let mut by_size: Vec<(&str, u64)> = own.iter().map(|(name, bytes)| (&**name, *bytes)).collect();
    by_size.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    for (name, bytes) in by_size {
        if left == 0 || bytes == 0 {
            break;
        }
        left = left.saturating_sub(bytes);
        leaving.insert(name);
    }
    if left > 0 {
        let writes_kept = |launch: &Launch| {
            let mut mounts = launch.mounts.iter();
            mounts.any(|mount| matches!(mount.volume, Volume::Kept(_)) && !mount.is_read_only)
        };
        let writers = running.iter().filter(|(_, launch)| writes_kept(launch));
        leaving.extend(writers.map(|(name, _)| &**name));
    }
    leaving
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::runtime::Mount;

    #[test]
    fn those_with_most_go_and_who_writes_what_is_kept_where_that_is_not_enough() {
        let launch = |volume: Option<Volume>| {
            let pod = Pod {
                tenant: "a".to_owned(),
                application: "site".to_owned(),
                replica: 0,
            };
            let mount = |volume| Mount {
                volume,
                path: PathBuf::from("/data"),
                sub_path: None,
                is_read_only: false,
            };
            Launch {
                mounts: volume.map(mount).into_iter().collect(),
                ..Launch::of(Kind::Oci, "box:1", pod)
            }
        };
        let running = [
            ("small".to_owned(), launch(None)),
            ("large".to_owned(), launch(None)),
            ("keeps".to_owned(), launch(Some(Volume::Kept("history".to_owned())))),
        ];
        let own = BTreeMap::from([
            ("small".to_owned(), 10),
            ("large".to_owned(), 50),
            ("keeps".to_owned(), 0),
        ]);
        for (too_much, expected) in [
            (0, &[][..]),
            (50, &["large"]),
            (51, &["large", "small"]),
            (61, &["keeps", "large", "small"]),
        ] {
            let found: Vec<&str> = leaving(&running, &own, too_much).into_iter().collect();
            assert_eq!(found, expected, "{too_much}");
        }
    }
}
