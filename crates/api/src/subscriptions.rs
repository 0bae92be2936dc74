//! Messages that wake applications: between the hub, which keeps a session for each, and the mesh, which wakes them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hub::{Hub, StandIn};
use manifest::workload::{Deployment, Deployments};
use mesh::{Mesh, Request, SUBSCRIPTIONS};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::desk::Desk;

/// Between two looks at whether an application has acknowledged what came for it, at first and at last.
const FIRST_LOOK: Duration = Duration::from_millis(50);
const LAST_LOOK: Duration = Duration::from_secs(1);
/// Until the mesh knows of an application that was just applied.
const KNOWN_PATIENCE: Duration = Duration::from_secs(10);

/// Applications that messages wake, of all tenants.
#[derive(Default)]
pub(crate) struct Subscriptions {
    of_tenants: Mutex<BTreeMap<String, BTreeMap<String, Attended>>>,
    /// One tells the hub at a time, of what is wanted then.
    telling: tokio::sync::Mutex<()>,
}

/// An application whose messages are looked after.
struct Attended {
    filters: String,
    stand_in: StandIn,
    _waking: AbortOnDropHandle<()>,
}

/// What of an application's subscriptions cannot be; the path and words.
pub(crate) fn unsupported(deployment: &Deployment) -> Option<(String, String)> {
    let filters = written(deployment)?;
    let wrong = match mesh::activation(deployment) {
        None => {
            "wakes an application that runs on demand; write selvedge.dev/activation: on-demand beside it".to_owned()
        }
        Some(_) => stand_in(deployment, filters).err()?,
    };
    Some((format!("metadata.annotations.{SUBSCRIPTIONS}"), wrong))
}

fn written(deployment: &Deployment) -> Option<&str> {
    deployment.metadata.annotations.get(SUBSCRIPTIONS).map(String::as_str)
}

/// Topic filters stand behind each other with commas between them.
fn stand_in(deployment: &Deployment, filters: &str) -> Result<StandIn, String> {
    let filters: Vec<&str> = filters.split(',').map(str::trim).collect();
    StandIn::new(&deployment.metadata.name, &filters)
}

/// Has messages wake the applications of a tenant that say so, and no others.
pub(crate) fn follow(desk: &Desk, tenant: &str, deployments: &Deployments) {
    let (Some(hub), Some(mesh)) = (desk.running_hub(), &desk.mesh) else {
        return;
    };
    let wanted = deployments.iter().filter_map(|(name, deployment)| {
        let filters = written(deployment).filter(|_| mesh::activation(deployment).is_some())?;
        Some((name, filters, stand_in(deployment, filters).ok()?))
    });
    {
        let mut of_tenants = desk.subscriptions.held();
        let mut before = of_tenants.remove(tenant).unwrap_or_default();
        let is_none = before.is_empty();
        let attended = |(name, filters, stand_in): (&String, &str, StandIn)| {
            let kept = before.remove(name).filter(|attended| attended.filters == filters);
            let attended = kept.unwrap_or_else(|| {
                let waking = Waking {
                    hub: Arc::clone(hub),
                    mesh: Arc::clone(mesh),
                    tenant: tenant.to_owned(),
                    application: name.clone(),
                };
                Attended {
                    filters: filters.to_owned(),
                    _waking: AbortOnDropHandle::new(tokio::spawn(waking.run(stand_in.told()))),
                    stand_in,
                }
            });
            (name.clone(), attended)
        };
        let now: BTreeMap<String, Attended> = wanted.map(attended).collect();
        if is_none && now.is_empty() {
            return;
        }
        of_tenants.insert(tenant.to_owned(), now);
    }
    let (subscriptions, hub) = (Arc::clone(&desk.subscriptions), Arc::clone(hub));
    tokio::spawn(subscriptions.tell(hub, tenant.to_owned()));
}

/// Keeps an application awake while messages wait for it.
struct Waking {
    hub: Arc<Hub>,
    mesh: Arc<Mesh>,
    tenant: String,
    application: String,
}

impl Waking {
    async fn run(self, mut told: watch::Receiver<u64>) {
        // What came before the edge was started waits, too.
        let mut has_come = self.waits().await;
        while has_come || told.changed().await.is_ok() {
            // Also for a message of QoS 0, which does not wait.
            let _request = self.request().await;
            let mut pause = FIRST_LOOK;
            sleep(pause).await;
            while self.waits().await {
                pause = (pause * 2).min(LAST_LOOK);
                sleep(pause).await;
            }
            has_come = false;
        }
    }

    async fn waits(&self) -> bool {
        let waiting = self.hub.waiting(&self.tenant, &self.application).await;
        waiting.is_some_and(|messages| messages > 0)
    }

    async fn request(&self) -> Option<Request> {
        let known = async {
            loop {
                match self.mesh.request(&self.tenant, &self.application) {
                    Some(request) => return request,
                    None => sleep(FIRST_LOOK).await,
                }
            }
        };
        let request = timeout(KNOWN_PATIENCE, known).await.ok();
        if request.is_none() {
            let (tenant, application) = (&self.tenant, &self.application);
            tracing::warn!(%tenant, %application, "it is not woken for a message: nobody knows of it");
        }
        request
    }
}

impl Subscriptions {
    /// Has the hub stand in for the applications of a tenant that are wanted by now.
    async fn tell(self: Arc<Self>, hub: Arc<Hub>, tenant: String) {
        let _one = self.telling.lock().await;
        let stand_ins = {
            let of_tenants = self.held();
            let of_tenant = of_tenants.get(&tenant).into_iter().flat_map(BTreeMap::values);
            of_tenant.map(|attended| attended.stand_in.clone()).collect()
        };
        hub.stand_in(&tenant, stand_ins).await;
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<String, Attended>>> {
        self.of_tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
