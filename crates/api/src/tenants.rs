//! Tenants: what each may use, and what it does use.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use identity::{Action, Quotas, RETENTION_S, RegistryError, Tenant};

use crate::applications;
use crate::desk::Desk;
use crate::types::{AddTenant, Page, QuotaChanges, TenantInfo, TenantUse};
use crate::wrong::{Done, Wrong};

/// All tenants.
#[utoipa::path(get, path = "/v1/tenants", tag = "tenants", operation_id = "list_tenants",
    responses((status = 200, body = Page<TenantInfo>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>) -> Done<Json<Page<TenantInfo>>> {
    let tenants = desk.with_registry(|registry| registry.tenants()).await?;
    let uses = uses(&desk).await;
    let mut items = Vec::new();
    for tenant in tenants {
        items.push(info(&desk, tenant, uses.as_deref()).await);
    }
    Ok(Json(Page { items, has_more: false }))
}

/// Adds a tenant: quotas that are not named have their defaults.
#[utoipa::path(post, path = "/v1/tenants", tag = "tenants", operation_id = "add_tenant",
    responses((status = 201, body = TenantInfo)))]
pub(crate) async fn add(
    State(desk): State<Arc<Desk>>,
    Json(add): Json<AddTenant>,
) -> Done<(StatusCode, Json<TenantInfo>)> {
    let quotas = changed(&Quotas::default(), &add.quotas)?;
    let name = add.name.clone();
    desk.with_registry(move |registry| registry.add_tenant(&name, &quotas))
        .await?;
    desk.account_for_tenant(Action::Added, &add.name, &with_changes("tenant", &add.quotas));
    desk.settle().await?;
    Ok((StatusCode::CREATED, Json(find(&desk, &add.name).await?)))
}

/// A tenant, its quotas and what it uses.
#[utoipa::path(get, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "show_tenant",
    responses((status = 200, body = TenantInfo)))]
pub(crate) async fn show(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Done<Json<TenantInfo>> {
    Ok(Json(find(&desk, &name).await?))
}

/// Sets the quotas that are named; null takes a limit away. `retention_s`: how long its telemetry is kept, in seconds;
/// null: as long as is configured for all tenants.
#[utoipa::path(patch, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "set_quotas",
    request_body = BTreeMap<String, Option<u64>>, responses((status = 200, body = TenantInfo)))]
pub(crate) async fn change(
    State(desk): State<Arc<Desk>>,
    Path(name): Path<String>,
    Json(changes): Json<QuotaChanges>,
) -> Done<Json<TenantInfo>> {
    let quotas = changed(&find(&desk, &name).await?.quotas, &changes)?;
    let wanted = name.clone();
    desk.with_registry(move |registry| registry.set_quotas(&wanted, &quotas))
        .await?;
    desk.account_for_tenant(Action::Changed, &name, &with_changes("quotas", &changes));
    desk.settle().await?;
    applications::limit(&desk, &name).await?;
    Ok(Json(find(&desk, &name).await?))
}

/// Removes a tenant that has no devices, apps, routes or applications any more; its users and what was retained go with
/// it.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}", tag = "tenants", operation_id = "remove_tenant",
    responses((status = 204)))]
pub(crate) async fn remove(State(desk): State<Arc<Desk>>, Path(name): Path<String>) -> Done<StatusCode> {
    find(&desk, &name).await?;
    let _turn = desk.applying.lock().await;
    for (kind, what) in [
        ("Route", "routes"),
        ("Deployment", "applications"),
        ("ConfigMap", "ConfigMaps"),
        ("Secret", "Secrets"),
        ("Service", "Services"),
    ] {
        if let Some(one) = desk.manifests.names(&name, kind).first() {
            let message = format!("tenant \"{name}\" still has {what}, such as \"{one}\"; delete them first");
            return Err(Wrong::new(StatusCode::CONFLICT, message));
        }
    }
    let wanted = name.clone();
    desk.with_registry(move |registry| registry.remove_tenant(&wanted))
        .await?;
    desk.account_for_tenant(Action::Removed, &name, "tenant");
    desk.wake_hub().await?;
    desk.settle().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn find(desk: &Desk, name: &str) -> Done<TenantInfo> {
    identity::check_name("tenant", name)?;
    let wanted = name.to_owned();
    let tenants = desk.with_registry(|registry| registry.tenants()).await?;
    let known: Vec<String> = tenants.iter().map(|tenant| tenant.name.clone()).collect();
    match tenants.into_iter().find(|tenant| tenant.name == wanted) {
        Some(tenant) => Ok(info(desk, tenant, uses(desk).await.as_deref()).await),
        None => Err(absent(name, &known)),
    }
}

fn absent(name: &str, known: &[String]) -> Wrong {
    let near = manifest::nearest(name, known.iter().map(String::as_str));
    let hint = match near {
        Some(near) => format!("; did you mean \"{near}\"?"),
        None => format!("; add it: selvedge tenant add {name}"),
    };
    Wrong::absent(format!("{}{hint}", RegistryError::NoTenant(name.to_owned())))
}

/// `quotas` with what is named set anew.
fn changed(quotas: &Quotas, changes: &QuotaChanges) -> Done<Quotas> {
    let mut members = serde_json::to_value(quotas).expect("quotas are JSON");
    for (name, value) in changes {
        members[name] = (*value).into();
    }
    let quotas: Quotas = serde_json::from_value(members).map_err(|error| Wrong::request(format!("quotas: {error}")))?;
    match quotas.retention_s {
        Some(seconds) if !RETENTION_S.contains(&seconds) => {
            let (least, most) = (RETENTION_S.start(), RETENTION_S.end());
            Err(Wrong::request(format!(
                "quotas: retention_s is {seconds}; it is from {least} (an hour) to {most} (36500 days)"
            )))
        }
        _ => Ok(quotas),
    }
}

/// For the audit log: what was done, and the quotas that were named.
fn with_changes(what: &str, changes: &QuotaChanges) -> String {
    let named = changes.iter().map(|(name, value)| match value {
        Some(value) => format!(" {name}={value}"),
        None => format!(" {name}=none"),
    });
    what.to_owned() + &named.collect::<String>()
}

/// What every tenant uses now; `None` where no edge runs, or where it stops.
async fn uses(desk: &Desk) -> Option<Vec<hub::Observation>> {
    desk.running_hub()?.observe().await
}

async fn info(desk: &Desk, tenant: Tenant, shards: Option<&[hub::Observation]>) -> TenantInfo {
    let mut uses = shards.map(|shards| {
        let mut used = shards.iter().flat_map(|shard| &shard.tenants);
        let used = used.find(|used| *used.name == *tenant.name);
        let queues = shards.iter().flat_map(|shard| &shard.queues);
        let upstream_bytes = queues
            .filter(|queue| *queue.tenant == *tenant.name)
            .map(|queue| queue.bytes);
        let figures = used.map(|used| used.broker).unwrap_or_default();
        TenantUse {
            connections: figures.connected as u64,
            sessions: figures.sessions as u64,
            session_bytes: figures.session_bytes,
            subscription_bytes: figures.subscription_bytes,
            stored_bytes: figures.kept_bytes + used.map_or(0, |used| used.twin_bytes),
            upstream_bytes: upstream_bytes.sum(),
            ..TenantUse::default()
        }
    });
    if let Some(uses) = &mut uses {
        applications::add_uses(desk, &tenant.name, uses).await;
    }
    TenantInfo {
        name: tenant.name,
        quotas: tenant.quotas,
        devices: tenant.clients,
        uses,
    }
}
