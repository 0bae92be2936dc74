//! Snapshots that are taken by schedule, and those that go.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use agent::snapshot::{About, Snapshots};
use agent::supervise::{Key as Application, What};
use agent::workload::snapshots as annotations;
use tokio::time::{MissedTickBehavior, interval};

use super::taking::{By, take_one};
use super::{all, in_tenant, working};
use crate::desk::Desk;
use crate::unix_now_s;
use crate::wrong::Done;

/// Between two looks at what is due.
const LOOK: Duration = Duration::from_secs(5);

impl Desk {
    /// Takes snapshots as applications have them scheduled, and removes those that are not to be kept, as long as the
    /// edge runs. Those of a tenant take at most so many bytes; 0: however many. Secrets are sealed in them by the passphrase
    /// in a file, which is read each time; `None`: they are left out.
    pub fn keep_snapshots(self: &Arc<Self>, bytes_max: u64, passphrase_file: Option<PathBuf>) {
        self.snapshots.bytes_max.store(bytes_max, Ordering::Relaxed);
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            let mut looks = interval(LOOK);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut last: Option<HashMap<Application, i64>> = None;
            while !desk.is_stopping() {
                looks.tick().await;
                if let Err(wrong) = desk.take_what_is_due(&mut last, passphrase_file.as_ref()).await {
                    tracing::warn!(error = wrong.message(), "it is not known which snapshots are due");
                }
            }
        });
    }

    async fn take_what_is_due(
        self: &Arc<Self>,
        last: &mut Option<HashMap<Application, i64>>,
        passphrase_file: Option<&PathBuf>,
    ) -> Done<()> {
        let scheduled = self.scheduled().await?;
        if scheduled.is_empty() {
            return Ok(());
        }
        let last = match last {
            Some(last) => last,
            None => {
                let all = all(self).await?.into_iter().filter(|kept| kept.about.is_scheduled);
                let times = all.map(|kept| (in_tenant(&kept.tenant, kept.about.application), kept.about.created_s));
                last.insert(times.collect())
            }
        };
        for (key, every) in &scheduled {
            let now = unix_now_s();
            let every_s = i64::try_from(every.as_secs()).unwrap_or(i64::MAX);
            // A time that has not come yet was said by a clock that was wrong.
            let is_due = last.get(key).is_none_or(|last| *last > now || now - last >= every_s);
            if !is_due {
                continue;
            }
            last.insert(key.clone(), now);
            let Application { tenant, application } = key;
            let by = By::Schedule {
                passphrase_file: passphrase_file.cloned(),
            };
            match take_one(self, key, by).await {
                Ok(kept) => tracing::info!(%tenant, %application, snapshot = kept.name, "a snapshot was taken"),
                Err(wrong) => {
                    tracing::warn!(%tenant, %application, error = wrong.message(), "no snapshot was taken; the next is tried in its turn");
                    self.with_supervisor(|supervisor| supervisor.note(key, What::SnapshotFailed, wrong.message()))?;
                }
            }
            self.prune_snapshots().await?;
        }
        last.retain(|key, _| scheduled.iter().any(|(scheduled, _)| scheduled == key));
        Ok(())
    }

    async fn scheduled(&self) -> Done<Vec<(Application, Duration)>> {
        let mut scheduled = Vec::new();
        for tenant in self.with_registry(identity::Registry::tenants).await? {
            scheduled.extend(self.manifests.with_workloads(&tenant.name, |workloads| {
                let all = workloads.deployments.values();
                let every = all.filter_map(|one| Some((one.metadata.name.clone(), annotations::every(one)?)));
                let keyed = every.map(|(name, every)| (in_tenant(&tenant.name, name), every));
                keyed.collect::<Vec<_>>()
            }));
        }
        Ok(scheduled)
    }

    async fn prune_snapshots(self: &Arc<Self>) -> Done<()> {
        let desk = Arc::clone(self);
        let gone = working(move || {
            let keep = |about: &About| {
                desk.manifests.with_workloads(&about.tenant, |workloads| {
                    let deployment = workloads.deployments.get(&about.application);
                    deployment.map(|deployment| annotations::keep(deployment))
                })
            };
            let bytes_max = desk.snapshots.bytes_max();
            Ok(Snapshots::open(&desk.snapshots.data)?.prune(keep, bytes_max)?)
        })
        .await?;
        if !gone.is_empty() {
            tracing::info!(
                snapshots = gone.join(" "),
                "snapshots that are not to be kept were removed"
            );
        }
        Ok(())
    }
}
