//! Snapshots of applications: taken, listed, given out, restored; by hand and by schedule.

mod documents;
pub(crate) mod downloads;
mod planning;
mod references;
pub(crate) mod restoring;
mod schedule;
pub(crate) mod taking;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use agent::snapshot::{Error, Kept, Snapshots};
use agent::supervise::Key as Application;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use manifest::workload::Deployment;
use tokio::sync::{Mutex, Semaphore};

use self::downloads::DOWNLOADS_MAX;
use crate::clients;
use crate::desk::Desk;
use crate::types::{ImageInSnapshot, Page, SnapshotInfo, VolumeInSnapshot};
use crate::wrong::{Done, Wrong};

/// What the desk has of snapshots.
#[derive(Debug)]
pub(crate) struct Holding {
    data: PathBuf,
    /// Held while one is taken or restored.
    turn: Mutex<()>,
    /// How many more archives may be on their way: each has a thread.
    downloads: Arc<Semaphore>,
    /// Bytes of those of a tenant; 0: however many.
    bytes_max: AtomicU64,
    /// Applications, by tenant and name, that do not run while what they keep is put in its place.
    restoring: std::sync::Mutex<BTreeSet<(String, String)>>,
}

impl Holding {
    pub(crate) fn new(data: PathBuf) -> Self {
        Holding {
            data,
            turn: Mutex::new(()),
            downloads: Arc::new(Semaphore::new(DOWNLOADS_MAX)),
            bytes_max: AtomicU64::new(0),
            restoring: std::sync::Mutex::default(),
        }
    }

    /// Whether an application is to rest meanwhile.
    pub(crate) fn is_restoring(&self, tenant: &str, application: &str) -> bool {
        let restoring = self.restoring.lock().unwrap_or_else(PoisonError::into_inner);
        restoring.contains(&(tenant.to_owned(), application.to_owned()))
    }

    fn set_restoring(&self, applications: BTreeSet<(String, String)>) {
        *self.restoring.lock().unwrap_or_else(PoisonError::into_inner) = applications;
    }

    fn bytes_max(&self) -> Option<u64> {
        Some(self.bytes_max.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Absent { .. } => StatusCode::NOT_FOUND,
            Error::Exists(_) | Error::Refused(_) | Error::Changed(_) => StatusCode::CONFLICT,
            Error::File { .. } | Error::TooMuch(_) | Error::Sealed { .. } | Error::Shut(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            Error::Volume { .. } | Error::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Wrong::new(status, error.to_string())
    }
}

async fn working<T: Send + 'static>(work: impl FnOnce() -> Done<T> + Send + 'static) -> Done<T> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked.map_err(|error| Wrong::here(error.to_string()))?
}

/// Goes on, and comes to its end, though nobody waits for it any more.
async fn to_its_end<T: Send + 'static>(work: impl Future<Output = Done<T>> + Send + 'static) -> Done<T> {
    let worked = tokio::spawn(work).await;
    worked.map_err(|error| Wrong::here(error.to_string()))?
}

/// Snapshots of a tenant, the oldest first.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/snapshots", tag = "snapshots", operation_id = "list_snapshots",
    responses((status = 200, body = Page<SnapshotInfo>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<Page<SnapshotInfo>>> {
    desk.check_tenant(&tenant).await?;
    let all = all(&desk).await?.into_iter().filter(|kept| kept.tenant == tenant);
    Ok(Json(Page {
        items: all.map(info).collect(),
        has_more: false,
    }))
}

async fn all(desk: &Desk) -> Done<Vec<Kept>> {
    let data = desk.snapshots.data.clone();
    working(move || match data.join("snapshots").exists() {
        true => Ok(Snapshots::open(&data)?.list()?),
        false => Ok(Vec::new()),
    })
    .await
}

/// All that are here, to find one that is named. Where none was ever taken nothing is made.
fn open(data: &std::path::Path, tenant: &str, name: &str) -> Result<Snapshots, Error> {
    match data.join("snapshots").exists() {
        true => Snapshots::open(data),
        false => Err(Error::Absent {
            tenant: tenant.to_owned(),
            name: name.to_owned(),
        }),
    }
}

fn info(kept: Kept) -> SnapshotInfo {
    let about = kept.about;
    SnapshotInfo {
        tenant: kept.tenant,
        name: kept.name,
        deployment: about.application,
        digest: kept.digest.to_string(),
        created: clients::date_time(about.created_s),
        is_scheduled: about.is_scheduled,
        bytes: kept.bytes,
        own_bytes: kept.own_bytes,
        hook: about.hook,
        paused_ms: about.paused_ms,
        images: about
            .images
            .into_iter()
            .map(|image| ImageInSnapshot {
                name: image.name,
                digest: image.digest,
            })
            .collect(),
        volumes: about
            .volumes
            .into_iter()
            .map(|volume| VolumeInSnapshot {
                name: volume.name,
                bytes: volume.bytes,
                entries: volume.entries,
            })
            .collect(),
        secrets: about.secrets,
        left_out: about.left_out,
    }
}

/// Removes a snapshot; the others stay whole.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/snapshots/{name}", tag = "snapshots",
    operation_id = "remove_snapshot", responses((status = 204)))]
pub(crate) async fn remove(
    State(desk): State<Arc<Desk>>,
    Path((tenant, name)): Path<(String, String)>,
) -> Done<StatusCode> {
    desk.check_tenant(&tenant).await?;
    let data = desk.snapshots.data.clone();
    working(move || Ok(open(&data, &tenant, &name)?.remove(&tenant, &name)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn in_tenant(tenant: &str, application: String) -> Application {
    Application {
        tenant: tenant.to_owned(),
        application,
    }
}

fn claims_of(deployment: &Deployment) -> BTreeSet<String> {
    let volumes = deployment.spec.template.spec.volumes.iter();
    let claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
    claims.map(|claim| claim.claim_name.clone()).collect()
}

impl Desk {
    fn with_supervisor<T>(&self, work: impl FnOnce(&agent::supervise::Supervisor) -> T) -> Done<T> {
        let Some(supervisor) = &self.supervisor else {
            let message = "no edge runs here";
            return Err(Wrong::new(StatusCode::CONFLICT, message));
        };
        Ok(work(&supervisor.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
