//! A snapshot is taken.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::engine::{self, EngineImages};
use agent::image::store::Images;
use agent::local::volumes::is_in_use;
use agent::runtime::State as Running;
use agent::snapshot::{Brought, Draft, Error, ImageWanted, Kept, OfEngine, Request, Secrets, Snapshots};
use agent::supervise::{Key as Application, Status};
use agent::workload::snapshots as annotations;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use identity::{LoggedIn, Role};
use seal::Passphrase;
use tokio::time::{Instant, timeout};

use super::planning::{Plan, plan, text};
use super::{info, to_its_end, working};
use crate::desk::Desk;
use crate::guard::{Needs, check_role};
use crate::types::{SnapshotInfo, TakeSnapshot};
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// What is run in an application before may take so long.
const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// Takes a snapshot of an application: it stands still while what has changed of its volumes is read.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/deployments/{name}/snapshots", tag = "snapshots",
    operation_id = "take_snapshot", responses((status = 200, body = SnapshotInfo)))]
pub(crate) async fn take(
    State(desk): State<Arc<Desk>>,
    caller: Option<Extension<LoggedIn>>,
    Path((tenant, application)): Path<(String, String)>,
    Json(wanted): Json<TakeSnapshot>,
) -> Done<Json<SnapshotInfo>> {
    identity::check_name("deployment", &application)?;
    if let Some(name) = &wanted.name {
        check_snapshot_name(name)?;
    }
    if let Some(Extension(caller)) = caller.filter(|_| wanted.passphrase.is_some()) {
        // With a passphrase of its own it could read them, as who may apply what prints them.
        check_role(&caller, Needs::of_cloud(Role::Operator))?;
    }
    desk.check_tenant(&tenant).await?;
    let key = Application { tenant, application };
    let by = By::Hand {
        name: wanted.name,
        passphrase: wanted.passphrase,
    };
    to_its_end(async move { take_one(&desk, &key, by).await })
        .await
        .map(|kept| Json(info(kept)))
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

/// What has a snapshot taken.
pub(super) enum By {
    Hand {
        name: Option<String>,
        passphrase: Option<Passphrase>,
    },
    Schedule {
        passphrase_file: Option<PathBuf>,
    },
}

impl By {
    /// What Secrets are sealed by; `None`: they are left out.
    fn passphrase(&self) -> Done<Option<Passphrase>> {
        match self {
            By::Hand { passphrase, .. } => Ok(passphrase.clone()),
            By::Schedule { passphrase_file: None } => Ok(None),
            By::Schedule {
                passphrase_file: Some(path),
            } => {
                let wrong = |error| Wrong::here(format!("[snapshots] passphrase_file {}: {error}", path.display()));
                Passphrase::read(path).map(Some).map_err(wrong)
            }
        }
    }
}

/// The Secrets that the application is given; without a passphrase they are left out.
fn sealed(plan: &mut Plan, by: &By) -> Done<Option<Secrets>> {
    if plan.secrets.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = plan.secrets.iter().map(|secret| secret.name().to_owned()).collect();
    match by.passphrase()? {
        Some(passphrase) => Ok(Some(Secrets::seal(names, &text(&plan.secrets), &passphrase)?)),
        None => {
            let left_out = names
                .iter()
                .map(|name| format!("Secret {name}, as there is no passphrase to seal it by"));
            plan.left_out.extend(left_out);
            Ok(None)
        }
    }
}

pub(super) async fn take_one(desk: &Arc<Desk>, key: &Application, by: By) -> Done<Kept> {
    let _turn = desk.snapshots.turn.lock().await;
    let mut plan = plan(desk, key)?;
    let (data, bytes_max) = (desk.snapshots.data.clone(), desk.snapshots.bytes_max());
    let of = key.clone();
    let (at, tenant) = (data.clone(), key.tenant.clone());
    working(move || Ok(check_room(&Snapshots::open(&at)?, &tenant, bytes_max)?)).await?;
    let brought = bring(data.clone(), &key.tenant, &mut plan).await?;
    let (draft, name, plan) = working(move || {
        let secrets = sealed(&mut plan, &by)?;
        let snapshots = Snapshots::open(&data)?;
        let request = request(&snapshots, of, by, &mut plan, secrets)?;
        let name = request.name.clone();
        let images = Images::open(&data.join("images")).map_err(Error::from)?;
        let draft = Draft::begin(snapshots, &images, &brought, &data.join("volumes"), request)?;
        Ok((draft, name, plan))
    })
    .await?;
    let (draft, paused_ms) = match &desk.supervisor {
        Some(_) => read_while_still(desk, key, plan, draft).await?,
        None => (read_at_rest(desk, key, plan, draft).await?, None),
    };
    let (data, tenant) = (desk.snapshots.data.clone(), key.tenant.clone());
    working(move || {
        draft.finish(paused_ms)?;
        Ok(Snapshots::open(&data)?.find(&tenant, &name)?)
    })
    .await
}

/// Brings what a Docker Engine has of the images that are wanted. What it does not give is left out, and said.
async fn bring(data: PathBuf, tenant: &str, plan: &mut Plan) -> Done<Arc<Brought>> {
    let brought = working(move || Ok(Brought::new(Snapshots::open(&data)?)?)).await?;
    let brought = Arc::new(brought);
    for (name, wanted) in &mut plan.images {
        if *wanted == ImageWanted::OfEdge {
            continue;
        }
        match bring_one(tenant, name, &brought).await {
            Ok(image) => *wanted = ImageWanted::OfEngine(Some(image)),
            Err(wrong) => plan.left_out.push(format!("image {name}: {}", wrong.message())),
        }
    }
    Ok(brought)
}

async fn bring_one(tenant: &str, name: &str, brought: &Arc<Brought>) -> Done<OfEngine> {
    if name.contains('@') {
        return Err(Wrong::request(
            "it is named by its digest, under which no engine takes one back",
        ));
    }
    let of_engine = |error: agent::runtime::Error| Wrong::here(error.to_string());
    let engine = EngineImages::at(&engine::socket()).await.map_err(of_engine)?;
    let id = engine.id(name).await.map_err(of_engine)?;
    let id = id.ok_or_else(|| Wrong::absent("the Docker Engine has none of that name"))?;
    let (tenant, known, here) = (tenant.to_owned(), id.clone(), Arc::clone(brought));
    let (found, bytes_max) = working(move || Ok((here.known(&tenant, &known)?, here.archive_bytes_max()?))).await?;
    if let Some(digest) = found {
        return Ok(OfEngine { id, digest });
    }
    let saved = engine.save(name, &brought.archive(), bytes_max).await;
    saved.map_err(of_engine)?;
    let (name, here) = (name.to_owned(), Arc::clone(brought));
    let digest = working(move || Ok(here.take_in(&name)?)).await?;
    Ok(OfEngine { id, digest })
}

fn check_room(snapshots: &Snapshots, tenant: &str, bytes_max: Option<u64>) -> Result<(), Error> {
    let bytes = snapshots.bytes_of(tenant)?;
    let Some(most) = bytes_max.filter(|most| bytes > *most) else {
        return Ok(());
    };
    Err(Error::TooMuch(format!(
        "snapshots of tenant {tenant} take {:.1} MB, and may take {:.1} MB ([snapshots] bytes); remove some: selvedge \
         snapshot remove",
        bytes as f64 / 1e6,
        most as f64 / 1e6
    )))
}

/// What is to be taken, of what is planned.
fn request(
    snapshots: &Snapshots,
    key: Application,
    by: By,
    plan: &mut Plan,
    secrets: Option<Secrets>,
) -> Result<Request, Error> {
    let created_s = unix_now_s();
    let is_scheduled = matches!(by, By::Schedule { .. });
    let name = match by {
        By::Hand { name: Some(name), .. } => name,
        _ => snapshots.free_name(&key.tenant, &name_at(&key.application, created_s))?,
    };
    Ok(Request {
        name,
        tenant: key.tenant,
        application: key.application,
        created_s,
        is_scheduled,
        hook: plan.hook.as_ref().map(|hook| hook.join(" ")),
        manifests: mem::take(&mut plan.manifests),
        secrets,
        images: mem::take(&mut plan.images),
        claims: plan.claims.clone(),
        left_out: mem::take(&mut plan.left_out),
    })
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

/// Runs the hook, and reads what has changed while all that writes to the volumes stands still; for how long it did, in
/// ms.
async fn read_while_still(desk: &Desk, key: &Application, plan: Plan, mut draft: Draft) -> Done<(Draft, Option<u64>)> {
    if let Some(hook) = plan.hook {
        run_hook(desk, key, hook).await?;
    }
    let held = desk.with_supervisor(|supervisor| supervisor.hold(&plan.held))?;
    let began = Instant::now();
    let starts = held.stands_still().await;
    let starts = starts.map_err(|why| Wrong::new(StatusCode::CONFLICT, format!("it could not be paused: {why}")))?;
    let draft = working(move || Ok(draft.read_again().map(|()| draft)?)).await?;
    if !held.stood_still(&starts) {
        let message = "something of it was started, ended or renewed meanwhile; try again";
        return Err(Wrong::new(StatusCode::CONFLICT, message));
    }
    drop(held);
    Ok((draft, (!starts.is_empty()).then(|| began.elapsed().as_millis() as u64)))
}

/// Reads what has changed where no edge runs: nothing is started meanwhile, and nothing may run.
async fn read_at_rest(desk: &Desk, key: &Application, plan: Plan, mut draft: Draft) -> Done<Draft> {
    let (data, tenant) = (desk.snapshots.data.clone(), key.tenant.clone());
    working(move || {
        for claim in &plan.claims {
            let is_in_use = is_in_use(&data.join("volumes"), &data.join("containers"), &tenant, claim, false);
            if is_in_use.map_err(|error| Wrong::here(format!("volume {claim}: {error}")))? {
                let message = format!(
                    "no edge runs here, and a container that still does has volume {claim}: only an edge that runs can have it \
                     stand still"
                );
                return Err(Wrong::new(StatusCode::CONFLICT, message));
            }
        }
        Ok(draft.read_again().map(|()| draft)?)
    })
    .await
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
