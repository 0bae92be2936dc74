//! Applications: what each does, its output, what it is given, its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::cgroup::Limits;
use agent::supervise::{Event, Key as Application, Rollout, Status, Supervisor, Wanted};
use agent::workload::{self, node};
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use identity::{Action, ClientName, HeldCredential, Registry, Tenant};
use manifest::workload::{Deployment, Deployments};
use manifest::{Document, Error, Resource};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::applying::{self, Removal};
use crate::desk::Desk;
use crate::edge_manifests::Key;
use crate::manifests::Workloads;
use crate::subscriptions;
use crate::types::{
    ContainerEnd, ContainerInfo, DeploymentInfo, EventInfo, Page, RolloutInfo, TenantUse, UsageInfo, ValuesInfo,
};
use crate::wrong::{Done, Wrong};

/// Of one kind that a tenant may have.
pub(crate) const PER_KIND_MAX: usize = 250;

/// Has the edge run what the tenant's files say, and log in those that do; nothing where none runs.
pub(crate) async fn follow(desk: &Desk, tenant: &str) -> Done<()> {
    let Some(supervisor) = &desk.supervisor else {
        return Ok(());
    };
    let is_here = |deployment: &Deployment| is_here(desk, deployment);
    if let Err(wrong) = limit(desk, tenant).await {
        tracing::error!(%tenant, error = wrong.message(), "not all quotas of its applications are kept");
    }
    // What is wanted runs, or ends, whatever becomes of them.
    let followed = follow_logins(desk, tenant).await;
    let wanted = desk.manifests.with_workloads(tenant, |workloads| {
        let wanted = |deployment: &Deployment| {
            Some(Wanted {
                when_idle: mesh::activation(deployment).map(|activation| activation.when_idle),
                ..workload::wanted(deployment, &workloads.configuration).ok()?
            })
        };
        let all = workloads.deployments.iter();
        let wanted = all
            .filter(|(_, deployment)| is_here(deployment))
            .map(|(name, deployment)| {
                let mut wanted = wanted(deployment);
                if let Some(wanted) = wanted.as_mut().filter(|_| desk.snapshots.is_restoring(tenant, name)) {
                    (wanted.replicas, wanted.most) = (0, 0);
                }
                (name.clone(), wanted)
            });
        let unknown = workloads.unreadable.iter().map(|name| (name.clone(), None));
        wanted.chain(unknown).collect()
    });
    held(supervisor).set_tenant(tenant, wanted);
    if let Some(mesh) = &desk.mesh {
        let wanted = desk.manifests.with_workloads(tenant, |workloads| mesh::Wanted {
            services: workloads.services.clone(),
            deployments: workloads
                .deployments
                .iter()
                .filter(|(_, deployment)| is_here(deployment))
                .map(|(name, deployment)| (name.clone(), Arc::clone(deployment)))
                .collect(),
        });
        subscriptions::follow(desk, tenant, &wanted.deployments);
        mesh.set_tenant(tenant, wanted);
    }
    followed
}

/// Whether an application is for this edge.
fn is_here(desk: &Desk, deployment: &Deployment) -> bool {
    node::elsewhere(deployment, &desk.about.labels).is_none()
}

fn containers_here(desk: &Desk, deployment: &Deployment) -> u64 {
    match is_here(desk, deployment) {
        true => workload::containers(deployment),
        false => 0,
    }
}

/// Keeps the applications of a tenant to its quotas, those that run among them; nothing where none runs here.
pub(crate) async fn limit(desk: &Desk, tenant: &str) -> Done<()> {
    let Some(supervisor) = &desk.supervisor else {
        return Ok(());
    };
    let of = tenant.to_owned();
    let found = desk.with_registry(move |registry| registry.tenant(&of)).await?;
    let quotas = found.map(|found| found.quotas);
    let narrowed = |quota: Option<u64>| quota.map(|quota| u32::try_from(quota).unwrap_or(u32::MAX));
    let limits = quotas.map_or(Limits::default(), |quotas| Limits {
        cpu_millis: narrowed(quotas.app_cpu_millis),
        memory_bytes: quotas.app_memory_bytes,
        pids: narrowed(quotas.app_pids),
        ..Limits::default()
    });
    let runtime = {
        let supervisor = held(supervisor);
        supervisor.limit_disk(tenant, quotas.and_then(|quotas| quotas.app_disk_bytes));
        Arc::clone(supervisor.runtime())
    };
    let limited = runtime.limit(tenant, limits).await;
    limited.map_err(|error| {
        let message = format!("the quotas are set, and what runs is not kept to them: {error}");
        Wrong::new(StatusCode::CONFLICT, message)
    })
}

/// What the applications of a tenant take of what it may.
pub(crate) async fn add_uses(desk: &Desk, tenant: &str, uses: &mut TenantUse) {
    uses.containers = containers(desk, tenant);
    let of_edge = desk.supervisor.as_ref().map(|supervisor| {
        let supervisor = held(supervisor);
        (Arc::clone(supervisor.runtime()), supervisor.disk_taken(tenant))
    });
    let Some((runtime, disk_bytes)) = of_edge else { return };
    // Where nobody counts, or it has just ended, it takes nothing that is known.
    let taken = runtime.usage_of(tenant).await.ok().flatten().unwrap_or_default();
    (uses.app_memory_bytes, uses.app_pids) = (taken.memory_bytes, taken.pids);
    uses.app_disk_bytes = disk_bytes;
}

/// Those that a tenant's applications want.
fn containers(desk: &Desk, tenant: &str) -> u64 {
    desk.manifests.with_workloads(tenant, |workloads| {
        let all = workloads.deployments.values();
        all.map(|one| containers_here(desk, one)).fold(0, u64::saturating_add)
    })
}

/// What would exceed the tenants' quotas of containers, by what is there and by what is to be. Who has too many already
/// may change what he has, but not have more.
pub(crate) fn check_containers(desk: &Desk, documents: &[Document], tenants: &[Tenant]) -> Vec<Error> {
    let mut errors = Vec::new();
    for tenant in tenants {
        let Some(most) = tenant.quotas.containers else { continue };
        let of_tenant = |workloads: &Workloads| {
            let all = workloads.deployments.iter();
            all.map(|(name, one)| (name.clone(), containers_here(desk, one)))
                .collect()
        };
        let mut wanted: BTreeMap<String, u64> = desk.manifests.with_workloads(&tenant.name, of_tenant);
        let sum = |wanted: &BTreeMap<String, u64>| wanted.values().copied().fold(0, u64::saturating_add);
        let used = sum(&wanted);
        for document in documents {
            let Resource::Deployment(deployment) = &document.resource else {
                continue;
            };
            if deployment.metadata.namespace != tenant.name {
                continue;
            }
            wanted.insert(deployment.metadata.name.clone(), containers_here(desk, deployment));
            let would_be = sum(&wanted);
            if would_be > most && would_be > used {
                let message = format!(
                    "the tenant {} has {used} containers, and would have {would_be}; its quota containers is {most}: \
                     selvedge tenant set {} --containers {would_be}",
                    tenant.name, tenant.name
                );
                errors.push(document.error("spec.replicas", 0, message));
                break;
            }
        }
    }
    errors
}

/// Those that are gone do not log in any more, and what is connected ends.
async fn follow_logins(desk: &Desk, tenant: &str) -> Done<()> {
    let names: BTreeSet<String> = desk.manifests.with_workloads(tenant, |workloads| {
        let with_login = workloads.deployments.iter().filter(|(_, one)| workload::has_login(one));
        let with_login = with_login.map(|(name, _)| name);
        with_login.chain(&workloads.unreadable).cloned().collect()
    });
    let of = tenant.to_owned();
    let changed = desk
        .with_registry(move |registry| registry.set_applications(&of, &names))
        .await?;
    for (action, names) in [(Action::Added, &changed.added), (Action::Removed, &changed.removed)] {
        for name in names {
            desk.account_for(
                action,
                &ClientName::new(tenant, name)?,
                &HeldCredential::Application.to_string(),
            );
        }
    }
    match changed.added.is_empty() && changed.removed.is_empty() {
        true => Ok(()),
        false => desk.settle().await,
    }
}

pub(crate) fn held(supervisor: &Mutex<Supervisor>) -> MutexGuard<'_, Supervisor> {
    supervisor.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Has the edge run what all files say, at its start; what nobody wants any more is ended.
    ///
    /// # Errors
    /// In words, why it is not known who the tenants are.
    pub async fn load_applications(&self) -> Result<(), String> {
        let Some(supervisor) = &self.supervisor else {
            return Ok(());
        };
        let all = self.with_registry(Registry::tenants).await;
        let all = all.map_err(|wrong| wrong.message().to_owned())?;
        let mut tenants: BTreeSet<String> = all.into_iter().map(|tenant| tenant.name).collect();
        tenants.extend(held(supervisor).tenants());
        for tenant in tenants {
            let followed = follow(self, &tenant).await;
            followed.map_err(|wrong| wrong.message().to_owned())?;
        }
        Ok(())
    }
}

/// What of an application, or of what it is given, shows only where it is to run.
pub(crate) fn check(document: &Document) -> Vec<Error> {
    let found: Vec<(String, String)> = match &document.resource {
        Resource::Deployment(deployment) => {
            let found = workload::unsupported(deployment).into_iter();
            let found = found
                .chain(workload::without_effect(deployment))
                .map(|finding| (finding.path, finding.message));
            found
                .chain(mesh::unsupported(deployment))
                .chain(subscriptions::unsupported(deployment))
                .collect()
        }
        Resource::Service(service) => mesh::unsupported_of_service(service),
        Resource::ConfigMap(map) => mesh::unsupported_annotations(&map.metadata).collect(),
        Resource::Secret(secret) => mesh::unsupported_annotations(&secret.metadata).collect(),
        Resource::Device(_) | Resource::Route(_) => Vec::new(),
    };
    let error = |(path, message): (String, String)| document.error(&path, 0, message);
    found.into_iter().map(error).collect()
}

/// Values that are there as `immutable: true`, and that would change.
pub(crate) fn check_immutable(desk: &Desk, document: &Document) -> Option<Error> {
    let new = &document.resource;
    let is_changed = desk.manifests.with_workloads(new.tenant(), |workloads| {
        let known = &workloads.configuration;
        match new {
            Resource::ConfigMap(new) => known.config_maps.get(&new.metadata.name).is_some_and(|old| {
                old.immutable && (&old.data, &old.binary_data, true) != (&new.data, &new.binary_data, new.immutable)
            }),
            Resource::Secret(new) => known.secrets.get(&new.metadata.name).is_some_and(|old| {
                let is_same = (&old.kind, &old.data, &old.string_data) == (&new.kind, &new.data, &new.string_data);
                old.immutable && !(is_same && new.immutable)
            }),
            _ => false,
        }
    });
    let message = "is there with immutable: true, and says something else; give this one another name, or delete that \
        one first";
    is_changed.then(|| document.error("metadata.name", 0, message.to_owned()))
}

/// Applications that would wait for themselves, by what is there and by what is to be.
pub(crate) fn check_circles<'a>(desk: &Desk, documents: &'a [Document]) -> Vec<Error> {
    let mut of_tenants: BTreeMap<&'a str, Deployments> = BTreeMap::new();
    let deployments = || {
        let with_document = |document: &'a Document| match &document.resource {
            Resource::Deployment(deployment) => Some((document, deployment)),
            _ => None,
        };
        documents.iter().filter_map(with_document)
    };
    for (document, deployment) in deployments() {
        let tenant = document.resource.tenant();
        let of_tenant = of_tenants.entry(tenant).or_insert_with(|| {
            let deployments = |workloads: &Workloads| workloads.deployments.clone();
            desk.manifests.with_workloads(tenant, deployments)
        });
        of_tenant.insert(deployment.metadata.name.clone(), Arc::new((**deployment).clone()));
    }
    let circles = deployments().filter_map(|(document, deployment)| {
        let found = workload::circle(deployment, &of_tenants[document.resource.tenant()])?;
        Some(document.error(&found.path, 0, found.message))
    });
    circles.collect()
}

/// Of the cloud that `document` was applied at.
pub(crate) fn none_here(document: &Document) -> Error {
    let message = "a cloud runs no applications; apply it for one of its edges: selvedge apply -f FILE --edge NAME";
    document.error("kind", 0, message.to_owned())
}

/// The applications of a tenant, and what each does.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/deployments", tag = "applications", operation_id = "list_deployments",
    responses((status = 200, body = Page<DeploymentInfo>)))]
pub(crate) async fn list(
    State(desk): State<Arc<Desk>>,
    Path(tenant): Path<String>,
) -> Done<Json<Page<DeploymentInfo>>> {
    desk.check_tenant(&tenant).await?;
    let items = desk.manifests.with_workloads(&tenant, |workloads| {
        let all = workloads.deployments.values();
        all.map(|deployment| info(&desk, deployment, workloads)).collect()
    });
    Ok(Json(Page { items, has_more: false }))
}

/// What an application does.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/deployments/{name}", tag = "applications",
    operation_id = "show_deployment", responses((status = 200, body = DeploymentInfo)))]
pub(crate) async fn show(
    State(desk): State<Arc<Desk>>,
    Path((tenant, name)): Path<(String, String)>,
) -> Done<Json<DeploymentInfo>> {
    find(&desk, &tenant, &name).await.map(Json)
}

pub(crate) async fn find(desk: &Desk, tenant: &str, name: &str) -> Done<DeploymentInfo> {
    identity::check_name("deployment", name)?;
    desk.check_tenant(tenant).await?;
    desk.manifests.with_workloads(tenant, |workloads| {
        let found = workloads.deployments.get(name);
        found
            .map(|deployment| info(desk, deployment, workloads))
            .ok_or_else(|| absent("Deployment", tenant, name, workloads.deployments.keys()))
    })
}

fn absent<'a>(kind: &str, tenant: &str, name: &str, known: impl Iterator<Item = &'a String>) -> Wrong {
    let near = manifest::nearest(name, known.map(String::as_str));
    let hint = near.map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    Wrong::absent(format!("no {kind} \"{name}\" in tenant {tenant}{hint}"))
}

fn info(desk: &Desk, deployment: &Deployment, workloads: &Workloads) -> DeploymentInfo {
    let metadata = &deployment.metadata;
    let key = Application {
        tenant: metadata.namespace.clone(),
        application: metadata.name.clone(),
    };
    let supervisor = desk.supervisor.as_ref().map(|supervisor| held(supervisor));
    let mesh = desk.mesh.as_ref();
    let is_missing = workload::wanted(deployment, &workloads.configuration).err();
    let circle = workload::circle(deployment, &workloads.deployments);
    let elsewhere = node::elsewhere(deployment, &desk.about.labels);
    let status = supervisor.as_ref().map(|supervisor| supervisor.status(&key));
    let rollout = supervisor.as_ref().and_then(|supervisor| supervisor.rollout(&key));
    let scale = mesh.and_then(|mesh| mesh.scale(&key.tenant, &key.application));
    DeploymentInfo {
        tenant: metadata.namespace.clone(),
        name: metadata.name.clone(),
        replicas: scale.unwrap_or(deployment.spec.replicas),
        max_replicas: workload::most_replicas(deployment),
        ready: status.as_deref().map(ready),
        rollout: rollout.map(rollout_info),
        restarts: status.iter().flatten().map(|status| status.doing.restarts).sum(),
        waits_for: is_missing
            .into_iter()
            .flatten()
            .chain(circle)
            .chain(elsewhere)
            .map(|finding| format!("{}: {}", finding.path, finding.message))
            .collect(),
        // Whoever reads that it sleeps may call it.
        sleeps: supervisor.is_some_and(|supervisor| supervisor.sleeps(&key))
            && mesh.is_none_or(|mesh| mesh.is_open(&key.tenant, &key.application)),
        closed_doors: mesh.map_or(Vec::new(), |mesh| mesh.troubles(&key.tenant, &key.application)),
        containers: status.into_iter().flatten().map(container).collect(),
    }
}

/// Replicas of which all containers are ready.
fn ready(status: &[Status]) -> u32 {
    let replicas: BTreeSet<u32> = status.iter().map(|status| status.replica).collect();
    let is_ready = |replica: &u32| {
        let mut of_replica = status.iter().filter(|status| status.replica == *replica);
        of_replica.all(|status| status.is_init || status.doing.is_ready)
    };
    replicas.iter().filter(|replica| is_ready(replica)).count() as u32
}

fn rollout_info(rollout: Rollout) -> RolloutInfo {
    match rollout {
        Rollout::Rolling { available, of } => RolloutInfo::Rolling { available, of },
        Rollout::TakenBack { why } => RolloutInfo::TakenBack { why },
    }
}

fn container(status: Status) -> ContainerInfo {
    let doing = status.doing;
    ContainerInfo {
        name: status.container,
        replica: status.replica,
        is_init: status.is_init,
        is_done: doing.is_done,
        start: doing.start,
        is_preparing: doing.is_preparing,
        is_running: doing.is_running,
        is_paused: doing.is_paused,
        address: doing.address,
        is_ready: doing.is_ready,
        not_ready: doing.not_ready,
        restarts: doing.restarts,
        last_end: doing.last_end.map(|end| ContainerEnd {
            how: end.to_string(),
            at_ms: end.at_ms,
        }),
        trouble: doing.trouble,
    }
}

/// What has happened to containers of a tenant since the edge was started: the last of it, the newest last.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/events", tag = "applications", operation_id = "list_events",
    responses((status = 200, body = Page<EventInfo>)))]
pub(crate) async fn events(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<Page<EventInfo>>> {
    desk.check_tenant(&tenant).await?;
    let events = desk
        .supervisor
        .as_ref()
        .map(|supervisor| held(supervisor).events(&tenant));
    let info = |event: Event| EventInfo {
        deployment: event.pod.application,
        replica: event.pod.replica,
        container: event.container,
        what: event.what.to_string(),
        message: event.message,
        at_ms: event.at_ms,
        times: event.times,
    };
    let items = events.into_iter().flatten().map(info).collect();
    Ok(Json(Page { items, has_more: false }))
}

/// What the containers of a tenant that run take, of which that is counted.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/usage", tag = "applications", operation_id = "list_usage",
    responses((status = 200, body = Page<UsageInfo>)))]
pub(crate) async fn usage(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<Page<UsageInfo>>> {
    desk.check_tenant(&tenant).await?;
    let names = desk.manifests.with_workloads(&tenant, |workloads| {
        workloads.deployments.keys().cloned().collect::<Vec<_>>()
    });
    let mut items = Vec::new();
    for application in names {
        let key = Application {
            tenant: tenant.clone(),
            application,
        };
        let of_edge = desk.supervisor.as_ref().map(|supervisor| {
            let supervisor = held(supervisor);
            (Arc::clone(supervisor.runtime()), supervisor.status(&key))
        });
        let Some((runtime, status)) = of_edge else { continue };
        for one in status.into_iter().filter(|one| one.doing.is_running) {
            let Some(start) = one.doing.start else { continue };
            // One that has ended meanwhile takes nothing.
            let Ok(Some(usage)) = runtime.usage(&start).await else {
                continue;
            };
            items.push(UsageInfo {
                deployment: key.application.clone(),
                replica: one.replica,
                container: one.container,
                start,
                cpu_us: usage.cpu_us,
                memory_bytes: usage.memory_bytes,
                pids: usage.pids,
                oom_kills: usage.oom_kills,
                read_bytes: usage.read_bytes,
                written_bytes: usage.written_bytes,
                cpu_limit_millis: one.limits.cpu_millis,
                memory_limit_bytes: one.limits.memory_bytes,
                pids_limit: one.limits.pids,
                read_limit_bytes_per_s: one.limits.read_bytes_per_s,
                write_limit_bytes_per_s: one.limits.write_bytes_per_s,
            });
        }
    }
    Ok(Json(Page { items, has_more: false }))
}

/// The ConfigMaps of a tenant, and what they hold.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/configmaps", tag = "applications", operation_id = "list_config_maps",
    responses((status = 200, body = Page<ValuesInfo>)))]
pub(crate) async fn config_maps(
    State(desk): State<Arc<Desk>>,
    Path(tenant): Path<String>,
) -> Done<Json<Page<ValuesInfo>>> {
    desk.check_tenant(&tenant).await?;
    let items = desk.manifests.with_workloads(&tenant, |workloads| {
        let all = workloads.configuration.config_maps.iter();
        all.map(|(name, map)| values(&tenant, name, map.data.keys().chain(map.binary_data.keys())))
            .collect()
    });
    Ok(Json(Page { items, has_more: false }))
}

/// The Secrets of a tenant: names of their values, and no value.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/secrets", tag = "applications", operation_id = "list_secrets",
    responses((status = 200, body = Page<ValuesInfo>)))]
pub(crate) async fn secrets(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<Page<ValuesInfo>>> {
    desk.check_tenant(&tenant).await?;
    let items = desk.manifests.with_workloads(&tenant, |workloads| {
        let all = workloads.configuration.secrets.iter();
        all.map(|(name, secret)| values(&tenant, name, secret.data.keys().chain(secret.string_data.keys())))
            .collect()
    });
    Ok(Json(Page { items, has_more: false }))
}

fn values<'a>(tenant: &str, name: &str, keys: impl Iterator<Item = &'a String>) -> ValuesInfo {
    let keys: BTreeSet<String> = keys.cloned().collect();
    ValuesInfo {
        tenant: tenant.to_owned(),
        name: name.to_owned(),
        keys: keys.into_iter().collect(),
    }
}

/// A manifest of an application, or of what it is given, as a request names it.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ManifestPath {
    /// Its tenant.
    tenant: String,
    /// `Deployment`, `Service`, `ConfigMap` or `Secret`.
    kind: String,
    /// Its name.
    name: String,
}

impl ManifestPath {
    fn key(self) -> Done<Key> {
        if !Workloads::KINDS.contains(&&*self.kind) {
            let kinds = Workloads::KINDS.join(", ");
            return Err(Wrong::absent(format!(
                "no kind \"{}\" here; there are {kinds}",
                self.kind
            )));
        }
        identity::check_name("tenant", &self.tenant)?;
        identity::check_name("name", &self.name)?;
        Ok(Key {
            tenant: self.tenant,
            kind: self.kind,
            name: self.name,
        })
    }
}

fn absent_of(desk: &Desk, key: &Key) -> Wrong {
    desk.manifests.with_workloads(&key.tenant, |workloads| {
        absent(
            &key.kind,
            &key.tenant,
            &key.name,
            workloads.names(&key.kind).into_iter(),
        )
    })
}

/// The manifest of an application or of a ConfigMap. A Secret is shown to nobody.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/manifests/{kind}/{name}", tag = "applications",
    operation_id = "show_manifest", params(ManifestPath),
    responses((status = 200, body = String, content_type = "application/yaml")))]
pub(crate) async fn manifest(State(desk): State<Arc<Desk>>, Path(path): Path<ManifestPath>) -> Done<impl IntoResponse> {
    let key = path.key()?;
    if key.kind == "Secret" {
        return Err(hidden());
    }
    let kept = desk.manifests.get(&key.tenant, &key.kind, &key.name).await?;
    let kept = kept.ok_or_else(|| absent_of(&desk, &key))?;
    Ok(([(header::CONTENT_TYPE, "application/yaml")], kept.to_yaml()))
}

/// Of a Secret that somebody would see.
pub(crate) fn hidden() -> Wrong {
    Wrong::new(
        StatusCode::FORBIDDEN,
        "the values of a Secret are shown to nobody; listings have their names",
    )
}

/// Deletes an application, which is ended, or what applications are given; those that need it run on as they are.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/manifests/{kind}/{name}", tag = "applications",
    operation_id = "remove_manifest", params(ManifestPath, Removal), responses((status = 204)))]
pub(crate) async fn remove(
    State(desk): State<Arc<Desk>>,
    Path(path): Path<ManifestPath>,
    Query(Removal { take_over }): Query<Removal>,
) -> Done<StatusCode> {
    let key = path.key()?;
    match applying::delete(&desk, &key, take_over).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(absent_of(&desk, &key)),
    }
}
