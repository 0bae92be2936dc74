//! Applying manifests: all of a file or nothing of it, and nothing twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use identity::{ClientKind, ClientName, Registry};
use manifest::{Change, Device, Document, Error, Errors, Resource, Route, Target, Upstream, WhenFull};
use route::{CompiledRoute, MAX_ROUTES};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::applications::{self, PER_KIND_MAX};
use crate::applying_desired::{as_it_is, check_desired};
use crate::clients;
use crate::desk::Desk;
use crate::edge_manifests::Key;
use crate::manifests::Workloads;
use crate::twins;
use crate::types::{Applied, Apply};
use crate::wrong::{Done, Wrong};

/// Applies a manifest: all of it or nothing.
#[utoipa::path(post, path = "/v1/apply", tag = "manifests", operation_id = "apply_manifest",
    responses((status = 200, body = Applied)))]
pub(crate) async fn apply(State(desk): State<Arc<Desk>>, Json(request): Json<Apply>) -> Done<Json<Applied>> {
    let documents = parse(&request)?;
    let keys: Vec<Key> = documents.iter().map(|document| Key::of(&document.resource)).collect();
    let terms = Terms {
        is_dry_run: request.is_dry_run,
        takes_over: request.takes_over,
    };
    let turn = desk.applying.lock().await;
    let applied = apply_documents(&desk, documents, terms).await?;
    if request.is_dry_run {
        return Ok(Json(applied));
    }
    for key in &keys {
        desk.from_cloud.take_over(key).await?;
    }
    drop(turn);
    // Who is told that it is applied may call it at once.
    if let Some(mesh) = &desk.mesh {
        let running = keys.iter().filter(|key| Workloads::KINDS.contains(&&*key.kind));
        for tenant in running.map(|key| &*key.tenant).collect::<BTreeSet<&str>>() {
            mesh.opened(tenant).await;
        }
    }
    Ok(Json(applied))
}

/// The documents of a file.
pub(crate) fn parse(request: &Apply) -> Done<Vec<Document>> {
    let documents = manifest::parse(&request.file, &request.text);
    documents.map_err(|errors| refused(&errors).noting(NOTHING))
}

/// How manifests are applied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Only what would change is said.
    pub(crate) is_dry_run: bool,
    /// Those that came from the cloud may be changed, too.
    pub(crate) takes_over: bool,
}

/// Applies all of these, or nothing where one of them is refused for what it says. The caller holds [`Desk::applying`].
pub(crate) async fn apply_documents(desk: &Desk, documents: Vec<Document>, terms: Terms) -> Done<Applied> {
    let planned = plan(desk, documents, terms).await;
    let (before, after) = planned.map_err(|wrong| wrong.noting(NOTHING))?;
    let changes = manifest::diff(&before, &after);
    let changed: BTreeSet<&str> = changes.iter().map(title).collect();
    let (new, same): (Vec<&Resource>, Vec<&Resource>) =
        after.iter().partition(|resource| changed.contains(&*resource.title()));
    let applied = Applied {
        changes: changes.iter().map(Change::to_string).collect(),
        unchanged: same.iter().map(|resource| resource.title()).collect(),
    };
    if !terms.is_dry_run {
        let mut done = Vec::new();
        enact(desk, &before, &new, &mut done)
            .await
            .map_err(|wrong| wrong.noting(&so_far(&done)))?;
    }
    Ok(applied)
}

/// What of the file is there already, and what shall be; nothing is changed.
async fn plan(desk: &Desk, documents: Vec<Document>, terms: Terms) -> Done<(Vec<Resource>, Vec<Resource>)> {
    check(desk, &documents, terms).await?;
    let after: Vec<Resource> = documents.into_iter().map(|document| document.resource).collect();
    Ok((before(desk, &after).await?, after))
}

/// Of a file that was refused while it was enacted.
fn so_far(done: &[String]) -> String {
    match done {
        [] => "nothing was applied before that".to_owned(),
        done => format!("applied before that: {}", done.join(", ")),
    }
}

/// What is said of a file of which nothing was applied.
pub(crate) const NOTHING: &str = "nothing was applied";

pub(crate) fn refused(errors: &Errors) -> Wrong {
    Wrong::new(StatusCode::UNPROCESSABLE_ENTITY, errors.to_string())
}

pub(crate) fn title(change: &Change) -> &str {
    match change {
        Change::Add { title } | Change::Modify { title, .. } | Change::Remove { title } => title,
    }
}

/// Finds everything wrong that reading alone does not show.
async fn check(desk: &Desk, documents: &[Document], terms: Terms) -> Done<()> {
    let tenants = desk.with_registry(|registry| registry.tenants()).await?;
    let is_tenant = |name: &str| tenants.iter().any(|tenant| tenant.name == name);
    let mut errors = Errors::default();
    for document in documents {
        let tenant = document.resource.tenant();
        if !is_tenant(tenant) {
            let known = manifest::nearest(tenant, tenants.iter().map(|tenant| &*tenant.name));
            let hint = known.map_or(String::new(), |known| format!("; did you mean \"{known}\"?"));
            errors
                .0
                .push(document.error("metadata.namespace", 0, format!("no tenant \"{tenant}\"{hint}")));
            continue;
        }
        if !terms.takes_over {
            let refusal = desk.from_cloud.refusal(&Key::of(&document.resource)).await?;
            errors
                .0
                .extend(refusal.map(|refusal| document.error("metadata.name", 0, refusal)));
        }
        match &document.resource {
            Resource::Route(route) => errors.0.extend(check_route(document, route)),
            Resource::Device(device) => {
                errors.0.extend(check_device(desk, document, device).await?);
            }
            _ if desk.connected.is_some() => errors.0.push(applications::none_here(document)),
            _ => {
                errors.0.extend(applications::check(document));
                errors.0.extend(applications::check_immutable(desk, document));
            }
        }
    }
    check_room(desk, documents, &mut errors);
    errors
        .0
        .extend(applications::check_containers(desk, documents, &tenants));
    errors.0.extend(applications::check_circles(desk, documents));
    if errors.0.is_empty() {
        Ok(())
    } else {
        Err(refused(&errors))
    }
}

/// What does not show before a route is compiled.
pub(crate) fn check_route(document: &Document, route: &Route) -> Option<Error> {
    let error = CompiledRoute::compile(route).err()?;
    Some(document.error(&error.path, error.offset, error.message))
}

/// A manifest holds no credentials, so it can add no device that could connect.
async fn check_device(desk: &Desk, document: &Document, device: &Device) -> Done<Option<Error>> {
    let name = match find_device(desk, device).await {
        Ok(name) => name,
        Err(wrong) => return Ok(Some(document.error("metadata.name", 0, wrong.message().to_owned()))),
    };
    let Some(desired) = &device.desired else {
        return Ok(None);
    };
    let refusal = check_desired(desk, &name, desired).await?;
    Ok(refusal.map(|message| document.error("spec.desired", 0, message)))
}

async fn find_device(desk: &Desk, device: &Device) -> Done<ClientName> {
    let name = ClientName::new(&device.tenant, &device.name)?;
    clients::find(desk, &name, ClientKind::Device).await?;
    Ok(name)
}

fn check_room(desk: &Desk, documents: &[Document], errors: &mut Errors) {
    let mut names: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for document in documents {
        let (tenant, kind) = (document.resource.tenant(), document.resource.kind());
        let most = match kind {
            "Device" => continue,
            "Route" => MAX_ROUTES,
            _ => PER_KIND_MAX,
        };
        let of_kind = names
            .entry((tenant, kind))
            .or_insert_with(|| desk.manifests.names(tenant, kind));
        of_kind.insert(document.resource.name().to_owned());
        if of_kind.len() == most + 1 {
            let what = if kind == "Route" {
                "routes".to_owned()
            } else {
                format!("{kind}s")
            };
            let message = format!("the tenant would have more than {most} {what}; delete some first");
            errors.0.push(document.error("metadata.name", 0, message));
        }
    }
}

/// The resources that are there already, as they are now.
async fn before(desk: &Desk, after: &[Resource]) -> Done<Vec<Resource>> {
    let mut before = Vec::new();
    for resource in after {
        let (tenant, kind, name) = (resource.tenant(), resource.kind(), resource.name());
        // A file that cannot be read is not in the way of the next one.
        let kept = desk.manifests.get(tenant, kind, name).await.unwrap_or_default();
        match (kept, resource) {
            (Some(Resource::Device(kept)), Resource::Device(new)) => {
                before.push(Resource::Device(present(desk, kept, new).await?));
            }
            (Some(kept), _) => before.push(kept),
            (None, _) => {}
        }
    }
    Ok(before)
}

/// A device's manifest with the labels that the device really has, as far as the old and the new speak of them, and
/// what is really desired of it, as far as the new one does.
async fn present(desk: &Desk, kept: Device, new: &Device) -> Done<Device> {
    let name = ClientName::new(&kept.tenant, &kept.name)?;
    let (client, _) = clients::find(desk, &name, ClientKind::Device).await?;
    let is_spoken_of = |label: &String| kept.labels.contains_key(label) || new.labels.contains_key(label);
    let labels = client.labels.into_iter().filter(|(label, _)| is_spoken_of(label));
    Ok(Device {
        labels: labels.collect(),
        desired: match &new.desired {
            Some(desired) => Some(as_it_is(desk, &name, desired).await?),
            None => kept.desired,
        },
        ..kept
    })
}

/// Makes it so, and says in `done` what is. What can be refused comes first; the files say what is so, and the hub
/// follows them.
async fn enact(desk: &Desk, before: &[Resource], new: &[&Resource], done: &mut Vec<String>) -> Done<()> {
    for resource in new {
        if let Resource::Device(device) = resource {
            let old = before.iter().find(|old| old.same_as(resource));
            enact_device(desk, old, device).await?;
            done.push(resource.title());
        }
    }
    let (mut routing, mut running) = (BTreeSet::new(), BTreeSet::new());
    for resource in new {
        desk.manifests.put(resource).await?;
        let tenants = match resource {
            Resource::Device(_) => continue,
            Resource::Route(_) => &mut routing,
            _ => &mut running,
        };
        tenants.insert(resource.tenant());
        done.push(resource.title());
    }
    for tenant in routing {
        follow(desk, tenant).await?;
    }
    for tenant in running {
        applications::follow(desk, tenant).await?;
    }
    Ok(())
}

async fn enact_device(desk: &Desk, old: Option<&Resource>, device: &Device) -> Done<()> {
    let name = ClientName::new(&device.tenant, &device.name)?;
    let is_as_before = matches!(old, Some(Resource::Device(old)) if old.desired == device.desired);
    if let Some(desired) = device.desired.as_ref().filter(|_| !is_as_before) {
        let patch = serde_json::to_vec(desired).expect("JSON values are JSON");
        let answer = twins::set_desired(desk, &name, patch).await?;
        if answer["status"] != 200 {
            let why = answer["message"].as_str().unwrap_or("refused");
            return Err(Wrong::request(format!("Device/{name}: spec.desired: {why}")));
        }
    }
    let mut labels: BTreeMap<String, Option<String>> = BTreeMap::new();
    if let Some(Resource::Device(old)) = old {
        labels.extend(old.labels.keys().map(|label| (label.clone(), None)));
    }
    let new = device.labels.iter();
    labels.extend(new.map(|(label, value)| (label.clone(), Some(value.clone()))));
    clients::set_labels(desk, &name, labels).await?;
    desk.settle().await
}

/// How a manifest is deleted.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Removal {
    /// Also one that came from the cloud.
    #[serde(default)]
    pub(crate) take_over: bool,
}

/// Deletes what was applied, as an operator does; whether it was there. `takes_over`: also what came from the cloud.
pub(crate) async fn delete(desk: &Desk, key: &Key, takes_over: bool) -> Done<bool> {
    let _turn = desk.applying.lock().await;
    if let Some(refusal) = desk.from_cloud.refusal(key).await?.filter(|_| !takes_over) {
        return Err(Wrong::new(StatusCode::CONFLICT, refusal));
    }
    let was_there = withdraw(desk, key).await?;
    if was_there {
        desk.from_cloud.take_over(key).await?;
    }
    Ok(was_there)
}

/// Takes a manifest out of effect, and says whether it was there: a route or an application is no more, and a device
/// loses the labels that the manifest gave it; what is desired of it stays, and so does the device. The caller holds
/// [`Desk::applying`].
pub(crate) async fn withdraw(desk: &Desk, key: &Key) -> Done<bool> {
    match &*key.kind {
        "Route" => {
            let was_there = desk.manifests.remove(&key.tenant, "Route", &key.name).await?;
            follow(desk, &key.tenant).await?;
            Ok(was_there)
        }
        kind if Workloads::KINDS.contains(&kind) => {
            let was_there = desk.manifests.remove(&key.tenant, kind, &key.name).await?;
            applications::follow(desk, &key.tenant).await?;
            Ok(was_there)
        }
        "Device" => {
            if let Some(Resource::Device(device)) = desk.manifests.get(&key.tenant, "Device", &key.name).await?
                && let Ok(name) = find_device(desk, &device).await
            {
                let labels = device.labels.into_keys().map(|label| (label, None));
                clients::set_labels(desk, &name, labels.collect::<Vec<_>>()).await?;
                desk.settle().await?;
            }
            desk.manifests.remove(&key.tenant, "Device", &key.name).await
        }
        // Nothing of a kind that this version does not know was ever in effect.
        _ => Ok(false),
    }
}

/// The device is no more, and neither is its manifest.
pub(crate) async fn forget_device(desk: &Desk, device: &ClientName) -> Done<()> {
    let key = Key {
        tenant: device.tenant().to_string(),
        kind: "Device".to_owned(),
        name: device.id().to_string(),
    };
    let _turn = desk.applying.lock().await;
    desk.manifests.remove(&key.tenant, "Device", &key.name).await?;
    desk.from_cloud.device_is_gone(&key).await
}

/// Has a running hub route as the tenant's files say.
pub(crate) async fn follow(desk: &Desk, tenant: &str) -> Done<()> {
    let Some(hub) = desk.running_hub() else { return Ok(()) };
    let routes = desk.manifests.compiled_of(tenant);
    let mut routes: Vec<CompiledRoute> = routes.iter().map(|route| CompiledRoute::clone(route)).collect();
    if desk.has_upstream() && routes.iter().all(|route| route.name() != DEFAULT_ROUTE) {
        let route = CompiledRoute::compile(&default_route(tenant, desk.upstream_when_full()));
        routes.push(route.expect("what is there without being applied is right"));
    }
    hub.set_routes(tenant, routes).await.ok_or_else(Wrong::no_answer)
}

/// The route that is there without being applied, where there is somewhere upstream; one that is applied under its name
/// takes its place.
const DEFAULT_ROUTE: &str = "telemetry";

fn default_route(tenant: &str, full: WhenFull) -> Route {
    Route {
        tenant: tenant.to_owned(),
        name: DEFAULT_ROUTE.to_owned(),
        from: "devices/+/telemetry/#".to_owned(),
        when: None,
        to: vec![Target::Upstream(Upstream {
            full,
            ..Upstream::default()
        })],
    }
}

impl Desk {
    /// Has the hub route as all files say, at its start.
    ///
    /// # Errors
    /// In words, why the hub did not follow.
    pub async fn load_routes(&self) -> Result<(), String> {
        let with_routes = self.manifests.all_routes().into_iter().map(|route| route.tenant);
        let mut tenants: BTreeSet<String> = with_routes.collect();
        if self.has_upstream() {
            let all = self.with_registry(Registry::tenants).await;
            let all = all.map_err(|wrong| wrong.message().to_owned())?;
            tenants.extend(all.into_iter().map(|tenant| tenant.name));
        }
        for tenant in tenants {
            follow(self, &tenant)
                .await
                .map_err(|wrong| wrong.message().to_owned())?;
        }
        Ok(())
    }
}
