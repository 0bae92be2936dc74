//! At a cloud: applying manifests for an edge, and what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::{Extension, Json};
use identity::{ClientKind, ClientName, LoggedIn};
use manifest::{Change, Document, Errors, Excerpt, Resource};
use serde::Deserialize;
use utoipa::IntoParams;

use super::wanted::{OfEdge, Record, Wanted};
use super::wire::{Applied as Kept, Key, MANIFESTS_MAX, Revision, TEXT_BYTES_MAX, TEXTS_BYTES_MAX, Verdict};
use crate::applications;
use crate::applying::{self, NOTHING, check_route, refused, title};
use crate::clients;
use crate::desk::Desk;
use crate::types::{Applied, Apply, EdgeManifest, ManifestState, Page};
use crate::wrong::{Done, Wrong};

type Records = BTreeMap<Key, Record>;

/// An edge, as a request names it.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct EdgePath {
    /// Tenant of the edge.
    tenant: String,
    /// Its id within the tenant.
    id: String,
}

/// A manifest of an edge, as a request names it.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ManifestPath {
    /// Tenant of the edge.
    tenant: String,
    /// Its id within the tenant.
    id: String,
    /// Tenant of the manifest, which the edge speaks for.
    namespace: String,
    /// `Device`, `Route`, `Deployment`, `ConfigMap` or `Secret`.
    kind: String,
    /// Its name.
    name: String,
}

impl ManifestPath {
    fn edge_and_key(self) -> Done<(ClientName, Key)> {
        let key = Key {
            tenant: self.namespace,
            kind: self.kind,
            name: self.name,
        };
        key.check()?;
        Ok((ClientName::new(&self.tenant, &self.id)?, key))
    }
}

/// Applies a manifest for an edge: all of it or nothing, as far as can be seen here. The edge gets it at once, or once
/// it connects, and each resource by itself.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/edges/{id}/manifests", tag = "manifests",
    operation_id = "apply_manifest_for_edge", params(EdgePath), responses((status = 200, body = Applied)))]
pub(crate) async fn apply(
    State(desk): State<Arc<Desk>>,
    Path(EdgePath { tenant, id }): Path<EdgePath>,
    Json(request): Json<Apply>,
) -> Done<Json<Applied>> {
    let edge = ClientName::new(&tenant, &id)?;
    let (of_edge, tenants) = of_edge(&desk, &edge).await?;
    let documents = applying::parse(&request)?;
    let _turn = of_edge.turn.lock().await;
    let mut records = of_edge.records.all().await?;
    let plan = plan(&edge, &tenants, &documents, &request.text, &mut records);
    let (applied, changed) = plan.map_err(|errors| refused(&errors).noting(NOTHING))?;
    if !request.is_dry_run {
        for key in &changed {
            of_edge.records.put(key, &records[key]).await?;
        }
        of_edge.changed.send_replace(());
    }
    Ok(Json(applied))
}

/// What changes, and the names of the records that do; these are changed already, where they are not on disk.
fn plan(
    edge: &ClientName,
    tenants: &[String],
    documents: &[Document],
    text: &str,
    records: &mut Records,
) -> Result<(Applied, Vec<Key>), Errors> {
    let mut errors = check(edge, tenants, documents);
    let after: Vec<Resource> = documents.iter().map(|document| document.resource.clone()).collect();
    let before: Vec<Resource> = after.iter().filter_map(|resource| wanted(records, resource)).collect();
    let changes = manifest::diff(&before, &after);
    let changed: BTreeSet<&str> = changes.iter().map(title).collect();
    let mut said: Vec<String> = changes.iter().map(Change::to_string).collect();
    let (mut unchanged, mut keys) = (Vec::new(), Vec::new());
    let revision = next_revision(records);
    for (document, excerpt) in documents.iter().zip(Excerpt::of(documents, text)) {
        let (key, title) = (Key::of(&document.resource), document.resource.title());
        let verdict = records.get(&key).and_then(Record::verdict);
        if !changed.contains(&*title) {
            match verdict {
                Some(Verdict::Refused) => said.push(format!("~ {title}: again, the edge refused it")),
                Some(Verdict::TakenOver) => said.push(format!("~ {title}: again, it was taken over at the edge")),
                Some(Verdict::Applied) | None => {
                    unchanged.push(title);
                    continue;
                }
            }
        }
        if excerpt.text.len() > TEXT_BYTES_MAX {
            let bytes = excerpt.text.len();
            let message = format!("{title} has {bytes} bytes; a manifest for an edge has at most {TEXT_BYTES_MAX}");
            errors.0.push(document.error("", 0, message));
        }
        let there = records.get_mut(&key).and_then(|record| record.there.take());
        let wanted = Wanted::Applied(kept(revision, excerpt));
        records.insert(key.clone(), Record { wanted, there });
        keys.push(key);
    }
    if let Some((document, message)) = documents.last().zip(too_much(records)) {
        errors.0.push(document.error("", 0, message));
    }
    let applied = Applied {
        changes: said,
        unchanged,
    };
    if errors.0.is_empty() {
        Ok((applied, keys))
    } else {
        Err(errors)
    }
}

/// What can be seen to be wrong without the edge.
fn check(edge: &ClientName, tenants: &[String], documents: &[Document]) -> Errors {
    let mut errors = Errors::default();
    for document in documents {
        let tenant = document.resource.tenant();
        if !tenants.iter().any(|spoken_for| spoken_for == tenant) {
            let all = tenants.join(", ");
            let message = format!(
                "the edge {edge} does not speak for \"{tenant}\", but for {all}; let it do so: selvedge edge label"
            );
            errors.0.push(document.error("metadata.namespace", 0, message));
        }
        match &document.resource {
            Resource::Route(route) => errors.0.extend(check_route(document, route)),
            Resource::Device(_) => {}
            _ => errors.0.extend(applications::check(document)),
        }
    }
    errors
}

/// The resource of this name that is wanted now.
fn wanted(records: &Records, resource: &Resource) -> Option<Resource> {
    match &records.get(&Key::of(resource))?.wanted {
        Wanted::Applied(applied) => Some(applied.excerpt().read().ok()?.resource),
        Wanted::Removed | Wanted::Unknown => None,
    }
}

fn next_revision(records: &Records) -> Revision {
    let there = records.values().filter_map(|record| record.there.as_ref());
    let known = there
        .map(|there| there.revision)
        .chain(records.values().filter_map(Record::revision));
    Revision {
        number: known
            .map(|revision| revision.number)
            .max()
            .unwrap_or(0)
            .saturating_add(1),
        tag: rand::random(),
    }
}

fn kept(revision: Revision, excerpt: Excerpt) -> Kept {
    let Excerpt { file, line, text } = excerpt;
    Kept {
        revision,
        file: file.chars().take(FILE_MAX_CHARS).collect(),
        line,
        text,
    }
}

/// Characters of the name of a file that are kept.
const FILE_MAX_CHARS: usize = 1_000;

fn too_much(records: &Records) -> Option<String> {
    let texts = records.values().map(|record| match &record.wanted {
        Wanted::Applied(applied) => applied.text.len(),
        Wanted::Removed | Wanted::Unknown => 0,
    });
    let bytes: usize = texts.sum();
    if records.len() > MANIFESTS_MAX {
        return Some(format!(
            "the edge would have {} manifests, with those that it still has to remove; it may have {MANIFESTS_MAX}",
            records.len()
        ));
    }
    let message = || format!("the edge's manifests would have {bytes} bytes; they may have {TEXTS_BYTES_MAX}");
    (bytes > TEXTS_BYTES_MAX).then(message)
}

/// The manifests that were applied for an edge, and what became of each. A tenant's user sees those of the tenant.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/edges/{id}/manifests", tag = "manifests",
    operation_id = "list_manifests_of_edge", params(EdgePath), responses((status = 200, body = Page<EdgeManifest>)))]
pub(crate) async fn list(
    State(desk): State<Arc<Desk>>,
    Path(EdgePath { tenant, id }): Path<EdgePath>,
    caller: Option<Extension<LoggedIn>>,
) -> Done<Json<Page<EdgeManifest>>> {
    let (of_edge, tenants) = of_edge(&desk, &ClientName::new(&tenant, &id)?).await?;
    let records = of_edge.records.all().await?;
    let seen = records.into_iter().filter(|(key, _)| may_see(caller.as_ref(), key));
    Ok(Json(Page {
        items: seen.map(|(key, record)| info(key, record, &tenants)).collect(),
        has_more: false,
    }))
}

/// What was applied for an edge, and the names of the tenants that it speaks for.
async fn of_edge(desk: &Desk, edge: &ClientName) -> Done<(Arc<OfEdge>, Vec<String>)> {
    let (client, _) = clients::find(desk, edge, ClientKind::Edge).await?;
    let label = client.labels.get("tenants").map(String::as_str);
    let tenants = identity::tenants_of_edge(edge.tenant(), label).map(str::to_owned);
    Ok((desk.for_edges.of(edge), tenants.collect()))
}

/// An edge may speak for tenants of which another tenant's user sees nothing.
fn may_see(caller: Option<&Extension<LoggedIn>>, key: &Key) -> bool {
    let own = caller.and_then(|Extension(caller)| caller.user.name.tenant());
    own.is_none_or(|own| *own == *key.tenant)
}

fn info(key: Key, record: Record, tenants: &[String]) -> EdgeManifest {
    let (state, wanted) = (record.state(), record.revision());
    let on_edge = record.there.as_ref().and_then(|there| there.in_effect);
    // What the edge said of an earlier one says nothing of this.
    let of_wanted = record.there.filter(|there| wanted == Some(there.revision));
    let is_held_back =
        matches!(state, ManifestState::Waiting | ManifestState::Removing) && !tenants.contains(&key.tenant);
    let why = || format!("the edge does not speak for \"{}\" any more", key.tenant);
    let error = is_held_back.then(why).or_else(|| of_wanted?.error);
    EdgeManifest {
        tenant: key.tenant,
        kind: key.kind,
        name: key.name,
        state,
        wanted: wanted.map(|revision| revision.number),
        on_edge,
        error,
    }
}

/// A manifest as it was applied for an edge; a Secret is shown to nobody.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/edges/{id}/manifests/{namespace}/{kind}/{name}", tag = "manifests",
    operation_id = "show_manifest_of_edge", params(ManifestPath),
    responses((status = 200, body = String, content_type = "application/yaml")))]
pub(crate) async fn show(
    State(desk): State<Arc<Desk>>,
    Path(path): Path<ManifestPath>,
    caller: Option<Extension<LoggedIn>>,
) -> Done<impl IntoResponse> {
    let (edge, key) = path.edge_and_key()?;
    if key.kind == "Secret" {
        return Err(applications::hidden());
    }
    let record = of_edge(&desk, &edge).await?.0.records.get(&key).await?;
    match record.map(|record| record.wanted) {
        Some(Wanted::Applied(applied)) if may_see(caller.as_ref(), &key) => {
            Ok(([(header::CONTENT_TYPE, "application/yaml")], applied.text))
        }
        _ => Err(absent(&edge, &key)),
    }
}

/// Removes a manifest from an edge: at once, or once it connects. A device stays, without the labels of the manifest.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/edges/{id}/manifests/{namespace}/{kind}/{name}", tag = "manifests",
    operation_id = "remove_manifest_of_edge", params(ManifestPath), responses((status = 204)))]
pub(crate) async fn remove(State(desk): State<Arc<Desk>>, Path(path): Path<ManifestPath>) -> Done<StatusCode> {
    let (edge, key) = path.edge_and_key()?;
    let (of_edge, _) = of_edge(&desk, &edge).await?;
    let _turn = of_edge.turn.lock().await;
    let record = of_edge.records.get(&key).await?;
    let is_gone = |record: &Record| record.wanted == Wanted::Removed;
    let record = record
        .filter(|record| !is_gone(record))
        .ok_or_else(|| absent(&edge, &key))?;
    let wanted = Wanted::Removed;
    of_edge.records.put(&key, &Record { wanted, ..record }).await?;
    of_edge.changed.send_replace(());
    Ok(StatusCode::NO_CONTENT)
}

fn absent(edge: &ClientName, key: &Key) -> Wrong {
    Wrong::absent(format!(
        "no {} was applied for the edge {edge}; see: selvedge get manifests --edge {edge}",
        key.title()
    ))
}
