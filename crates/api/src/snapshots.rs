//! Snapshots of applications: taken, listed, given out, restored; by hand and by schedule.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agent::image::store::Images;
use agent::runtime::{Kind, State as Running};
use agent::snapshot::{About, Draft, Error, Kept, Request, Snapshots, Target};
use agent::supervise::{Key as Application, Status};
use agent::workload::{self, snapshots as annotations};
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use futures_util::stream;
use manifest::workload::Deployment;
use manifest::{Document, Resource};
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use crate::applications;
use crate::applying::{self, Terms};
use crate::clients;
use crate::desk::Desk;
use crate::doors::Patience;
use crate::manifests::Workloads;
use crate::types::{ImageInSnapshot, Page, Restore, Restored, SnapshotInfo, TakeSnapshot, VolumeInSnapshot};
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// What is run in an application before may take so long.
const HOOK_TIMEOUT: Duration = Duration::from_secs(60);
/// Applications whose volumes come back have ended within that.
const END_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks at whether they have.
const LOOK: Duration = Duration::from_millis(50);
/// Between two looks at what is due.
const SCHEDULE: Duration = Duration::from_secs(5);
/// Of an archive on its way, so many at once.
const CHUNK_BYTES: usize = 256 << 10;
const CHUNKS: usize = 4;
/// Archives that are on their way at once.
const DOWNLOADS_MAX: usize = 4;
/// One may take so long.
const DOWNLOAD: Duration = Duration::from_secs(6 * 3_600);

/// What the desk has of snapshots.
#[derive(Debug)]
pub(crate) struct Holding {
    data: PathBuf,
    /// Held while one is taken or restored.
    turn: Mutex<()>,
    /// How many more archives may be on their way: each has a thread.
    downloads: Arc<Semaphore>,
    /// Bytes of all of them; 0: however many.
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
            Error::File { .. } | Error::TooMuch(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Volume { .. } | Error::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Wrong::new(status, error.to_string())
    }
}

async fn working<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Done<T> {
    let worked = tokio::task::spawn_blocking(work).await;
    Ok(worked.map_err(|error| Wrong::here(error.to_string()))??)
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
        true => Snapshots::open(&data)?.list(),
        false => Ok(Vec::new()),
    })
    .await
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
        left_out: about.left_out,
    }
}

/// Takes a snapshot of an application: it stands still while what has changed of its volumes is read.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/deployments/{name}/snapshots", tag = "snapshots",
    operation_id = "take_snapshot", responses((status = 200, body = SnapshotInfo)))]
pub(crate) async fn take(
    State(desk): State<Arc<Desk>>,
    Path((tenant, application)): Path<(String, String)>,
    Json(wanted): Json<TakeSnapshot>,
) -> Done<Json<SnapshotInfo>> {
    identity::check_name("deployment", &application)?;
    if let Some(name) = &wanted.name {
        check_snapshot_name(name)?;
    }
    desk.check_tenant(&tenant).await?;
    let key = Application { tenant, application };
    let taking = async move { take_one(&desk, &key, wanted.name, false).await };
    to_its_end(taking).await.map(|kept| Json(info(kept)))
}

fn check_snapshot_name(name: &str) -> Done<()> {
    identity::check_name("snapshot", name)?;
    match name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    {
        true => Ok(()),
        false => Err(Wrong::request(format!(
            "{name:?} is no name of a snapshot; one has letters a to z, digits and - alone"
        ))),
    }
}

async fn take_one(desk: &Arc<Desk>, key: &Application, name: Option<String>, is_scheduled: bool) -> Done<Kept> {
    let _turn = desk.snapshots.turn.lock().await;
    let plan = plan(desk, key)?;
    let created_s = unix_now_s();
    let data = desk.snapshots.data.clone();
    let bytes_max = desk.snapshots.bytes_max();
    let is_named = name.is_some();
    let mut request = Request {
        name: name.unwrap_or_else(|| name_at(&key.application, created_s)),
        tenant: key.tenant.clone(),
        application: key.application.clone(),
        created_s,
        is_scheduled,
        hook: plan.hook.as_ref().map(|hook| hook.join(" ")),
        manifests: plan.manifests,
        images: plan.images,
        claims: plan.claims,
        left_out: plan.left_out,
    };
    let (mut draft, taken) = working(move || {
        let snapshots = Snapshots::open(&data)?;
        let bytes = snapshots.bytes()?;
        if let Some(most) = bytes_max.filter(|most| bytes > *most) {
            return Err(Error::TooMuch(format!(
                "snapshots take {:.1} MB, and may take {:.1} MB ([snapshots] bytes); remove some: selvedge snapshot remove",
                bytes as f64 / 1e6,
                most as f64 / 1e6
            )));
        }
        if !is_named {
            request.name = snapshots.free_name(&request.tenant, &request.name)?;
        }
        let name = request.name.clone();
        let images = Images::open(&data.join("images"))?;
        let draft = Draft::begin(snapshots, &images, &data.join("volumes"), request)?;
        Ok((draft, name))
    })
    .await?;
    if let Some(hook) = plan.hook {
        run_hook(desk, key, hook).await?;
    }
    let held = desk.with_supervisor(|supervisor| supervisor.hold(&plan.held))?;
    let began = Instant::now();
    let starts = held.stands_still().await;
    let starts = starts.map_err(|why| Wrong::new(StatusCode::CONFLICT, format!("it could not be paused: {why}")))?;
    let draft = working(move || draft.read_again().map(|()| draft)).await?;
    if !held.stood_still(&starts) {
        let message = "something of it was started, ended or renewed meanwhile; try again";
        return Err(Wrong::new(StatusCode::CONFLICT, message));
    }
    drop(held);
    let paused_ms = (!starts.is_empty()).then(|| began.elapsed().as_millis() as u64);
    working(move || draft.finish(paused_ms)).await?;
    let (data, tenant) = (desk.snapshots.data.clone(), key.tenant.clone());
    working(move || Snapshots::open(&data)?.find(&tenant, &taken)).await
}

/// Such as `counter-20261124-220414`.
fn name_at(application: &str, created_s: i64) -> String {
    let at = time::OffsetDateTime::from_unix_timestamp(created_s).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let (date, time) = (at.date(), at.time());
    format!(
        "{application}-{:04}{:02}{:02}-{:02}{:02}{:02}",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    )
}

/// What a snapshot of an application is to have.
struct Plan {
    hook: Option<Vec<String>>,
    manifests: String,
    images: Vec<(String, bool)>,
    claims: Vec<String>,
    left_out: Vec<String>,
    /// All that may write to its volumes.
    held: Vec<Application>,
}

fn plan(desk: &Desk, key: &Application) -> Done<Plan> {
    desk.manifests.with_workloads(&key.tenant, |workloads| {
        let deployment = workloads.deployments.get(&key.application).ok_or_else(|| {
            Wrong::absent(format!(
                "no Deployment \"{}\" in tenant {}",
                key.application, key.tenant
            ))
        })?;
        let wanted = workload::wanted(deployment, &workloads.configuration).map_err(|findings| {
            let all: Vec<String> = findings
                .into_iter()
                .map(|one| format!("{}: {}", one.path, one.message))
                .collect();
            Wrong::new(StatusCode::CONFLICT, all.join("; "))
        })?;
        let (mut images, mut left_out) = (Vec::new(), Vec::new());
        for container in &wanted.containers {
            let image = container.launch.image.clone();
            match container.launch.kind {
                Kind::Oci => images.push((image, true)),
                Kind::Docker => {
                    left_out.push(format!("image {image}, which a Docker Engine has"));
                    images.push((image, false));
                }
                Kind::Process => left_out.push(format!("program {image}, which the host has")),
            }
        }
        images.sort_unstable();
        images.dedup();
        let claims = claims_of(deployment);
        let others = deployment.spec.template.spec.volumes.iter();
        left_out.extend(
            others
                .clone()
                .filter(|volume| volume.empty_dir.is_some())
                .map(|volume| format!("volume {}, which goes with its replica (emptyDir)", volume.name)),
        );
        left_out.extend(others.filter_map(|volume| {
            let path = &volume.host_path.as_ref()?.path;
            Some(format!("volume {}, which the host has at {path}", volume.name))
        }));
        let (given, secrets) = given(deployment, workloads);
        left_out.extend(secrets.into_iter().map(|name| format!("Secret {name}")));
        left_out.sort_unstable();
        left_out.dedup();
        let manifests: Vec<String> = given.iter().map(Resource::to_yaml).collect();
        let shares = |other: &&Arc<Deployment>| claims_of(other).iter().any(|claim| claims.contains(claim));
        let held = workloads
            .deployments
            .values()
            .filter(shares)
            .map(|other| other.metadata.name.clone());
        let held: BTreeSet<String> = held.chain([key.application.clone()]).collect();
        Ok(Plan {
            hook: annotations::hook(deployment),
            manifests: manifests.join("---\n"),
            images,
            claims: claims.into_iter().collect(),
            left_out,
            held: held.into_iter().map(|name| in_tenant(&key.tenant, name)).collect(),
        })
    })
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

/// An application with all that it is given and that leads to it, and names of Secrets that it is given.
fn given(deployment: &Deployment, workloads: &Workloads) -> (Vec<Resource>, BTreeSet<String>) {
    let pod = &deployment.spec.template.spec;
    let containers = pod.init_containers.iter().chain(&pod.containers);
    let (mut maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for container in containers {
        for from in &container.env_from {
            maps.extend(from.config_map_ref.iter().map(|map| map.name.clone()));
            secrets.extend(from.secret_ref.iter().map(|secret| secret.name.clone()));
        }
        for from in container.env.iter().filter_map(|variable| variable.value_from.as_ref()) {
            maps.extend(from.config_map_key_ref.iter().map(|key| key.name.clone()));
            secrets.extend(from.secret_key_ref.iter().map(|key| key.name.clone()));
        }
    }
    for volume in &pod.volumes {
        maps.extend(volume.config_map.iter().map(|map| map.name.clone()));
        secrets.extend(volume.secret.iter().map(|secret| secret.secret_name.clone()));
    }
    secrets.extend(pod.image_pull_secrets.iter().map(|secret| secret.name.clone()));
    let mut all = Vec::new();
    let known = &workloads.configuration.config_maps;
    all.extend(
        maps.iter()
            .filter_map(|name| known.get(name))
            .cloned()
            .map(Resource::ConfigMap),
    );
    let labels = &deployment.spec.template.metadata.labels;
    let leads = |selector: &std::collections::BTreeMap<String, String>| {
        !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    let services = workloads
        .services
        .values()
        .filter(|service| leads(&service.spec.selector));
    all.extend(services.cloned().map(Resource::Service));
    all.push(Resource::Deployment(Box::new(deployment.clone())));
    (all, secrets)
}

/// In the first container of the first replica that runs; nothing where none does, or its time stands still.
async fn run_hook(desk: &Desk, key: &Application, hook: Vec<String>) -> Done<()> {
    let (runtime, status) =
        desk.with_supervisor(|supervisor| (Arc::clone(supervisor.runtime()), supervisor.status(key)))?;
    let runs = |one: &&Status| one.doing.is_running && !one.doing.is_paused && !one.is_init;
    let Some(start) = status.iter().find(runs).and_then(|one| one.doing.start.clone()) else {
        return Ok(());
    };
    if !matches!(runtime.state(&start).await, Ok(Running::Running(_))) {
        return Ok(());
    }
    let failed = |why: String| {
        Err(Wrong::new(
            StatusCode::CONFLICT,
            format!("its {} failed: {why}", annotations::HOOK),
        ))
    };
    match timeout(HOOK_TIMEOUT, runtime.exec(&start, hook)).await {
        Ok(Ok(done)) if done.is_good => Ok(()),
        Ok(Ok(done)) => failed(done.words),
        Ok(Err(error)) => failed(error.to_string()),
        Err(_) => failed(format!("it took longer than {} s", HOOK_TIMEOUT.as_secs())),
    }
}

/// The archive of a snapshot, an OCI image layout as one file (`tar`).
#[utoipa::path(get, path = "/v1/tenants/{tenant}/snapshots/{name}/archive", tag = "snapshots",
    operation_id = "download_snapshot",
    responses((status = 200, body = String, content_type = "application/x-tar")))]
pub(crate) async fn download(
    State(desk): State<Arc<Desk>>,
    patience: Option<Extension<Patience>>,
    Path((tenant, name)): Path<(String, String)>,
) -> Done<impl IntoResponse> {
    desk.check_tenant(&tenant).await?;
    let found = all(&desk)
        .await?
        .into_iter()
        .find(|kept| kept.tenant == tenant && kept.name == name);
    let kept = found.ok_or_else(|| Wrong::from(Error::Absent { tenant, name }))?;
    archive(&desk, kept, patience)
}

/// The archive of the latest snapshot of an application.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/deployments/{name}/snapshots/latest/archive", tag = "snapshots",
    operation_id = "download_latest_snapshot",
    responses((status = 200, body = String, content_type = "application/x-tar")))]
pub(crate) async fn download_latest(
    State(desk): State<Arc<Desk>>,
    patience: Option<Extension<Patience>>,
    Path((tenant, name)): Path<(String, String)>,
) -> Done<impl IntoResponse> {
    desk.check_tenant(&tenant).await?;
    let all = all(&desk).await?;
    let is_of = |kept: &Kept| kept.tenant == tenant && kept.about.application == name;
    let latest = all.into_iter().rfind(is_of);
    let kept = latest.ok_or_else(|| Wrong::absent(format!("no snapshot of {name:?} in tenant {tenant}")))?;
    archive(&desk, kept, patience)
}

fn archive(desk: &Desk, kept: Kept, patience: Option<Extension<Patience>>) -> Done<impl IntoResponse + use<>> {
    let turn = Arc::clone(&desk.snapshots.downloads).try_acquire_owned().map_err(|_| {
        let message = format!("{DOWNLOADS_MAX} archives are being downloaded, and no more at once; try again");
        Wrong::new(StatusCode::SERVICE_UNAVAILABLE, message).retry_after(60)
    })?;
    if let Some(Extension(patience)) = patience {
        patience.extend_to(DOWNLOAD);
    }
    let (chunks, receiver) = mpsc::channel(CHUNKS);
    let data = desk.snapshots.data.clone();
    let file = format!("attachment; filename=\"{}.tar\"", kept.name);
    tokio::task::spawn_blocking(move || {
        let _turn = turn;
        let mut out = io::BufWriter::with_capacity(CHUNK_BYTES, Chunks(chunks.clone()));
        let written = Snapshots::open(&data).and_then(|snapshots| snapshots.export(&kept, &mut out));
        if let Err(error) = written {
            // Whoever downloads it sees that it is cut off.
            let _ = chunks.blocking_send(Err(io::Error::other(error.to_string())));
        }
    });
    let body = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
    let disposition = HeaderValue::from_str(&file).unwrap_or(HeaderValue::from_static("attachment"));
    Ok((
        [
            (header::CONTENT_TYPE, HeaderValue::from_static("application/x-tar")),
            (header::CONTENT_DISPOSITION, disposition),
        ],
        Body::from_stream(body),
    ))
}

/// What is written is sent on.
struct Chunks(mpsc::Sender<io::Result<Bytes>>);

impl Write for Chunks {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(content)));
        match sent {
            Ok(()) => Ok(content.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
    working(move || match data.join("snapshots").exists() {
        true => Snapshots::open(&data)?.remove(&tenant, &name),
        false => Err(Error::Absent { tenant, name }),
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Brings back an application as it was: its image, its volumes, its manifests. It is ended for it, and started again.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/snapshots/{name}/restore", tag = "snapshots",
    operation_id = "restore_snapshot", responses((status = 200, body = Restored)))]
pub(crate) async fn restore(
    State(desk): State<Arc<Desk>>,
    Path((tenant, name)): Path<(String, String)>,
    Json(wanted): Json<Restore>,
) -> Done<Json<Restored>> {
    if let Some(name) = &wanted.restore_as {
        identity::check_name("deployment", name)?;
    }
    desk.check_tenant(&tenant).await?;
    to_its_end(async move { restore_one(&desk, tenant, name, wanted).await })
        .await
        .map(Json)
}

async fn restore_one(desk: &Arc<Desk>, tenant: String, name: String, wanted: Restore) -> Done<Restored> {
    let _turn = desk.snapshots.turn.lock().await;
    let data = desk.snapshots.data.clone();
    let (of_tenant, of_name) = (tenant.clone(), name.clone());
    let (kept, text) = working(move || {
        let snapshots = match data.join("snapshots").exists() {
            true => Snapshots::open(&data)?,
            false => {
                return Err(Error::Absent {
                    tenant: of_tenant,
                    name: of_name,
                });
            }
        };
        let kept = snapshots.find(&of_tenant, &of_name)?;
        let text = snapshots.manifests(&kept)?;
        Ok((kept, text))
    })
    .await?;
    let documents = documents(&kept, &text, &tenant, wanted.restore_as.as_deref())?;
    let terms = |is_dry_run| Terms {
        is_dry_run,
        takes_over: false,
    };
    // What would be refused is, before anything is changed.
    {
        let _turn = desk.applying.lock().await;
        applying::apply_documents(desk, documents.clone(), terms(true)).await?;
    }
    let claims: Vec<(String, String)> = kept
        .about
        .volumes
        .iter()
        .map(|volume| {
            (
                volume.name.clone(),
                claim_as(&volume.name, wanted.restore_as.as_deref()),
            )
        })
        .collect();
    let work = Work {
        data: desk.snapshots.data.clone(),
        tenant: tenant.clone(),
        kept,
        claims,
        is_forced: wanted.is_forced,
    };
    let work = working(move || work.check().map(|()| work)).await?;
    let resting = resting(desk, &tenant, &work.claims, &documents);
    desk.snapshots.set_restoring(resting);
    let done = match applications::follow(desk, &tenant).await {
        Ok(()) => put_back(desk, work, documents, terms(false)).await,
        Err(wrong) => Err(wrong),
    };
    desk.snapshots.set_restoring(BTreeSet::new());
    // What rested runs again, whatever came of it.
    let followed = applications::follow(desk, &tenant).await;
    let done = done?;
    followed.map(|()| done)
}

async fn put_back(desk: &Desk, work: Work, documents: Vec<Document>, terms: Terms) -> Done<Restored> {
    let volumes = work.claims.iter().map(|(_, claim)| claim.clone()).collect();
    let until = Instant::now() + END_TIMEOUT;
    let mut work = work;
    loop {
        let (back, is_in_use) = working(move || work.is_in_use().map(|is_in_use| (work, is_in_use))).await?;
        work = back;
        if !is_in_use {
            break;
        }
        if desk.supervisor.is_none() || Instant::now() >= until {
            let message = "containers have its volumes; delete their application first, on an edge that runs";
            return Err(Wrong::new(StatusCode::CONFLICT, message));
        }
        sleep(LOOK).await;
    }
    working(move || work.restore()).await?;
    let _turn = desk.applying.lock().await;
    let applied = applying::apply_documents(desk, documents, terms).await?;
    Ok(Restored {
        volumes,
        changes: applied.changes,
        unchanged: applied.unchanged,
    })
}

/// Applications that have the volumes, or are to have them.
fn resting(
    desk: &Desk,
    tenant: &str,
    claims: &[(String, String)],
    documents: &[Document],
) -> BTreeSet<(String, String)> {
    let is_meant = |claim: &String| claims.iter().any(|(_, to)| to == claim);
    let mut resting: BTreeSet<(String, String)> = desk.manifests.with_workloads(tenant, |workloads| {
        let all = workloads.deployments.values();
        let having = all.filter(|deployment| claims_of(deployment).iter().any(is_meant));
        having
            .map(|deployment| (tenant.to_owned(), deployment.metadata.name.clone()))
            .collect()
    });
    for document in documents {
        if let Resource::Deployment(deployment) = &document.resource {
            resting.insert((tenant.to_owned(), deployment.metadata.name.clone()));
        }
    }
    resting
}

/// Files that come back.
struct Work {
    data: PathBuf,
    tenant: String,
    kept: Kept,
    /// In the snapshot, and here.
    claims: Vec<(String, String)>,
    is_forced: bool,
}

impl Work {
    fn each(&self, mut work: impl FnMut(&Target, &str) -> Result<(), Error>) -> Result<(), Error> {
        let (volumes, containers) = (self.data.join("volumes"), self.data.join("containers"));
        for (from, to) in &self.claims {
            let target = Target {
                volumes: &volumes,
                containers: &containers,
                tenant: &self.tenant,
                name: to,
                is_forced: self.is_forced,
            };
            work(&target, from)?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        self.each(|target, _| target.check_content())
    }

    fn is_in_use(&self) -> Result<bool, Error> {
        let mut is_in_use = false;
        self.each(|target, _| {
            is_in_use |= target.is_in_use()?;
            Ok(())
        })?;
        Ok(is_in_use)
    }

    fn restore(&self) -> Result<(), Error> {
        let snapshots = Snapshots::open(&self.data)?;
        let _using = snapshots.using()?;
        snapshots.restore_images(&self.kept, &Images::open(&self.data.join("images"))?)?;
        self.each(|target, from| {
            let mut all = self.kept.about.volumes.iter();
            let volume = all
                .find(|volume| volume.name == from)
                .expect("it is one of its volumes");
            snapshots.restore_volume(&self.kept, volume, target)
        })
    }
}

/// Of a volume that comes back beside the one that is there.
fn claim_as(claim: &str, restore_as: Option<&str>) -> String {
    restore_as.map_or(claim.to_owned(), |other| format!("{other}-{claim}"))
}

/// Its manifests, as they are to be applied.
fn documents(kept: &Kept, text: &str, tenant: &str, restore_as: Option<&str>) -> Done<Vec<Document>> {
    let own = kept.about.application.clone();
    let documents = manifest::parse(&kept.name, text);
    let mut documents = documents.map_err(|errors| applying::refused(&errors).noting(applying::NOTHING))?;
    for document in &mut documents {
        let metadata = match &mut document.resource {
            Resource::Deployment(deployment) => &mut deployment.metadata,
            Resource::Service(service) => &mut service.metadata,
            Resource::ConfigMap(map) => &mut map.metadata,
            Resource::Secret(_) | Resource::Device(_) | Resource::Route(_) => {
                return Err(Wrong::request("there is something in it that no application has"));
            }
        };
        tenant.clone_into(&mut metadata.namespace);
        let Some(other) = restore_as else { continue };
        let renamed = |name: &mut String| {
            if *name == own {
                other.clone_into(name);
            }
        };
        match &mut document.resource {
            Resource::Deployment(deployment) => {
                other.clone_into(&mut deployment.metadata.name);
                deployment.metadata.annotations.remove(annotations::EVERY);
                deployment.metadata.annotations.remove(annotations::KEEP);
                let template = &mut deployment.spec.template;
                template.metadata.labels.values_mut().for_each(renamed);
                deployment.spec.selector.match_labels.values_mut().for_each(renamed);
                for volume in &mut template.spec.volumes {
                    if let Some(claim) = &mut volume.persistent_volume_claim {
                        claim.claim_name = claim_as(&claim.claim_name, restore_as);
                    }
                }
            }
            Resource::Service(service) => {
                service.metadata.name = match service.metadata.name == own {
                    true => other.to_owned(),
                    false => format!("{other}-{}", service.metadata.name),
                };
                service.spec.selector.values_mut().for_each(renamed);
            }
            _ => {}
        }
    }
    Ok(documents)
}

impl Desk {
    fn with_supervisor<T>(&self, work: impl FnOnce(&agent::supervise::Supervisor) -> T) -> Done<T> {
        let Some(supervisor) = &self.supervisor else {
            let message = "no edge runs here: only one that runs can have its applications stand still";
            return Err(Wrong::new(StatusCode::CONFLICT, message));
        };
        Ok(work(&supervisor.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Takes snapshots as applications have them scheduled, and removes those that are not to be kept, as long as the edge
    /// runs. All of them take at most so many bytes; 0: however many.
    pub fn keep_snapshots(self: &Arc<Self>, bytes_max: u64) {
        self.snapshots.bytes_max.store(bytes_max, Ordering::Relaxed);
        let desk = Arc::clone(self);
        tokio::spawn(async move {
            let mut looks = interval(SCHEDULE);
            looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut last: Option<HashMap<Application, i64>> = None;
            while !desk.is_stopping() {
                looks.tick().await;
                if let Err(wrong) = desk.take_what_is_due(&mut last).await {
                    tracing::warn!(error = wrong.message(), "it is not known which snapshots are due");
                }
            }
        });
    }

    async fn take_what_is_due(self: &Arc<Self>, last: &mut Option<HashMap<Application, i64>>) -> Done<()> {
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
            match take_one(self, key, None, true).await {
                Ok(kept) => tracing::info!(%tenant, %application, snapshot = kept.name, "a snapshot was taken"),
                Err(wrong) => {
                    tracing::warn!(%tenant, %application, error = wrong.message(), "no snapshot was taken; the next is tried in its turn");
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
            Snapshots::open(&desk.snapshots.data)?.prune(keep, bytes_max)
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
