//! A snapshot comes back.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::engine::{self, EngineImages};
use agent::image::store::Images;
use agent::snapshot::{Error, Kept, Snapshots, Target};
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use manifest::{Document, Resource};
use tokio::time::{Instant, sleep};

use super::documents::{beside, documents};
use super::{claims_of, open, to_its_end, working};
use crate::applications;
use crate::applying::{self, Terms};
use crate::desk::Desk;
use crate::types::{Restore, Restored};
use crate::wrong::{Done, Wrong};

/// Applications whose volumes come back have ended within that.
const END_TIMEOUT: Duration = Duration::from_secs(120);
/// Between two looks at whether they have.
const LOOK: Duration = Duration::from_millis(50);

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
    let (of_tenant, passphrase) = (tenant.clone(), wanted.passphrase);
    let (kept, manifests, secrets) = working(move || {
        let snapshots = open(&data, &of_tenant, &name)?;
        let kept = snapshots.find(&of_tenant, &name)?;
        let secrets = snapshots.secrets(&kept, passphrase.as_ref())?;
        let manifests = snapshots.manifests(&kept)?;
        Ok((kept, manifests, secrets))
    })
    .await?;
    let restore_as = wanted.restore_as.as_deref();
    let documents = documents(&kept, &manifests, secrets.as_deref(), &tenant, restore_as)?;
    let terms = |is_dry_run| Terms {
        is_dry_run,
        takes_over: false,
    };
    // What would be refused is, before anything is changed.
    {
        let _turn = desk.applying.lock().await;
        applying::apply_documents(desk, documents.clone(), terms(true)).await?;
    }
    let claim_as = |claim: &str| restore_as.map_or(claim.to_owned(), |other| beside(other, claim));
    let volumes = kept.about.volumes.iter();
    let claims = volumes
        .map(|volume| (volume.name.clone(), claim_as(&volume.name)))
        .collect();
    let work = Work {
        data: desk.snapshots.data.clone(),
        tenant: tenant.clone(),
        kept,
        claims,
        is_forced: wanted.is_forced,
        may_start: desk.supervisor.is_some(),
    };
    let work = working(move || Ok(work.check().map(|()| work)?)).await?;
    give(desk.snapshots.data.clone(), &work.kept).await?;
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

/// Gives a Docker Engine the images of a snapshot that are for one, where it has others or none under their names.
async fn give(data: PathBuf, kept: &Kept) -> Done<()> {
    let of_engine = |error: agent::runtime::Error| Wrong::new(StatusCode::CONFLICT, error.to_string());
    let images = kept.about.images.iter();
    for image in images.filter(|image| image.engine_id.is_some()) {
        let engine = EngineImages::at(&engine::socket()).await.map_err(of_engine)?;
        let id = engine.id(&image.name).await.map_err(of_engine)?;
        if id == image.engine_id {
            continue;
        }
        let (data, packed) = (data.clone(), image.clone());
        let archive = working(move || Ok(Snapshots::open(&data)?.image_archive(&packed)?)).await?;
        engine.load(&image.name, &archive.path()).await.map_err(of_engine)?;
    }
    Ok(())
}

async fn put_back(desk: &Desk, work: Work, documents: Vec<Document>, terms: Terms) -> Done<Restored> {
    let volumes = work.claims.iter().map(|(_, claim)| claim.clone()).collect();
    let until = Instant::now() + END_TIMEOUT;
    let mut work = work;
    loop {
        let (back, is_in_use) = working(move || Ok(work.is_in_use().map(|is_in_use| (work, is_in_use))?)).await?;
        work = back;
        if !is_in_use {
            break;
        }
        if desk.supervisor.is_none() || Instant::now() >= until {
            let message =
                "containers have its volumes, and run on; restore it on an edge that runs, or delete their application";
            return Err(Wrong::new(StatusCode::CONFLICT, message));
        }
        sleep(LOOK).await;
    }
    working(move || Ok(work.restore()?)).await?;
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
    may_start: bool,
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
                may_start: self.may_start,
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
