//! Devices and apps: add, list, show, change, remove.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use identity::{Action, Client, ClientCertificate, ClientKind, ClientName, MAX_PAGE, NewClient, Quotas};
use serde::Deserialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::{IntoParams, ToSchema};

use crate::applying;
use crate::credentials;
use crate::desk::Desk;
use crate::sharing;
use crate::types::{Add, Added, ClientInfo, Page, Patch};
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// `devices`, `apps` or `edges` in a path.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kinds {
    Devices,
    Apps,
    Edges,
}

impl From<Kinds> for ClientKind {
    fn from(kinds: Kinds) -> Self {
        match kinds {
            Kinds::Devices => ClientKind::Device,
            Kinds::Apps => ClientKind::App,
            Kinds::Edges => ClientKind::Edge,
        }
    }
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct After {
    /// The last id of the page before.
    after: Option<String>,
}

/// Adds devices, apps or edges, all or none. On the control socket, a tenant that is not there is added with them.
#[utoipa::path(post, path = "/v1/tenants/{tenant}/{kinds}", tag = "clients", operation_id = "add_clients",
    responses((status = 201, body = Vec<Added>)))]
pub(crate) async fn add(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds)): Path<(String, Kinds)>,
    Json(add): Json<Add>,
) -> Done<(StatusCode, Json<Vec<Added>>)> {
    let kind = ClientKind::from(kinds);
    let names = checked_names(&tenant, kind, &add.ids)?;
    let what = format!("{kind} with {}", credentials::described(&add.credential));
    credentials::check_sort(kind, &add.credential)?;
    let edge = edge_of_new(&desk, &tenant, kind, add.edge.as_deref()).await?;
    let new: Vec<NewClient> = names
        .iter()
        .map(|name| new_client(name, kind, &add, edge.clone()))
        .collect();
    let _turn = desk.logins.turn_of_new().await?;
    let (is_new_tenant, issued) = desk
        .with_identity(move |identity| {
            let is_new_tenant = add_missing_tenant(identity.registry(), &tenant)?;
            let issued = identity.add_all(&new, unix_now_s())?;
            Ok::<_, identity::IdentityError>((is_new_tenant, issued))
        })
        .await?;
    for name in &names {
        desk.account_for(Action::Added, name, &what);
    }
    desk.settle().await?;
    let added = names.iter().zip(issued).map(|(name, issued)| Added {
        is_new_tenant,
        edge: edge.clone(),
        ..credentials::handed_out(name, kind, issued)
    });
    Ok((StatusCode::CREATED, Json(added.collect())))
}

fn checked_names(tenant: &str, kind: ClientKind, ids: &[String]) -> Done<Vec<ClientName>> {
    let checked = ids.iter().map(|id| {
        let name = ClientName::new(tenant, id)?;
        check_topic_level(kind, &name).map(|()| name)
    });
    checked.collect()
}

/// Only devices log in at an edge of a cloud.
async fn edge_of_new(desk: &Desk, tenant: &str, kind: ClientKind, edge: Option<&str>) -> Done<Option<String>> {
    match (edge, kind) {
        (None, _) => Ok(None),
        (Some(edge), ClientKind::Device) => Ok(Some(sharing::checked_edge(desk, tenant, edge).await?)),
        (Some(_), _) => Err(Wrong::request(format!(
            "{kind}s log in here; only devices log in at an edge"
        ))),
    }
}

fn new_client(name: &ClientName, kind: ClientKind, add: &Add, edge: Option<String>) -> NewClient {
    NewClient {
        name: name.clone(),
        kind,
        labels: add.labels.clone(),
        credential: credentials::wanted(&add.credential),
        edge,
    }
}

/// A device's id is a level of its topics, where a letter or digit comes first.
fn check_topic_level(kind: ClientKind, name: &ClientName) -> Done<()> {
    match device::topic::validate_id(name.id()) {
        Err(error) if kind == ClientKind::Device => Err(Wrong::request(format!("id \"{}\": {error}", name.id()))),
        _ => Ok(()),
    }
}

pub(crate) fn add_missing_tenant(registry: &identity::Registry, tenant: &str) -> Result<bool, identity::RegistryError> {
    match registry.add_tenant(tenant, &Quotas::default()) {
        Ok(()) => Ok(true),
        Err(identity::RegistryError::TenantExists(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A page of devices, apps or edges by id.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/{kinds}", tag = "clients", operation_id = "list_clients",
    params(After), responses((status = 200, body = Page<ClientInfo>)))]
pub(crate) async fn list(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds)): Path<(String, Kinds)>,
    Query(After { after }): Query<After>,
) -> Done<Json<Page<ClientInfo>>> {
    let of_tenant = tenant.clone();
    let page = desk
        .with_registry(move |registry| {
            let clients = registry.clients(&of_tenant, kinds.into(), after.as_deref(), MAX_PAGE)?;
            let with_certificates = clients.into_iter().map(|client| {
                let certificates = registry.certificates(&client.name)?;
                Ok((client, certificates))
            });
            with_certificates.collect::<Result<Vec<_>, identity::RegistryError>>()
        })
        .await?;
    let connected = connected(&desk, &tenant).await?;
    let has_more = page.len() == MAX_PAGE;
    let mut items: Vec<ClientInfo> = Vec::new();
    for (client, certificates) in &page {
        let mut info = info(client, certificates, connected.as_ref());
        info.credentials.extend(invitation(&desk, client).await?);
        items.push(info);
    }
    Ok(Json(Page { items, has_more }))
}

/// A device, app or edge.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/{kinds}/{id}", tag = "clients", operation_id = "show_client",
    responses((status = 200, body = ClientInfo)))]
pub(crate) async fn show(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds, id)): Path<(String, Kinds, String)>,
) -> Done<Json<ClientInfo>> {
    let name = ClientName::new(&tenant, &id)?;
    let (client, certificates) = find(&desk, &name, kinds.into()).await?;
    let connected = connected(&desk, &tenant).await?;
    let mut info = info(&client, &certificates, connected.as_ref());
    info.credentials.extend(invitation(&desk, &client).await?);
    Ok(Json(info))
}

/// What an edge can join with, in words.
async fn invitation(desk: &Desk, client: &Client) -> Done<Option<String>> {
    if client.kind != ClientKind::Edge {
        return Ok(None);
    }
    let name = client.name.clone();
    let until = desk.with_registry(move |registry| registry.invited_until(&name, unix_now_s()));
    Ok(until
        .await?
        .map(|until| format!("join token until {}", date_time(until))))
}

/// The client, if it is there and of this kind.
pub(crate) async fn find(desk: &Desk, name: &ClientName, kind: ClientKind) -> Done<(Client, Vec<ClientCertificate>)> {
    let wanted = name.clone();
    let found = desk
        .with_registry(move |registry| {
            let certificates = registry.certificates(&wanted)?;
            Ok(registry.client(&wanted)?.map(|client| (client, certificates)))
        })
        .await?;
    match found {
        Some(found) if found.0.kind == kind => Ok(found),
        Some((client, _)) => Err(Wrong::absent(format!(
            "\"{name}\" is no {kind} but a registered {}",
            client.kind
        ))),
        None => Err(absent(desk, name, kind).await),
    }
}

/// Says that a client is not there, and which one was probably meant.
async fn absent(desk: &Desk, name: &ClientName, kind: ClientKind) -> Wrong {
    let tenant = name.tenant().clone();
    let known = desk
        .with_registry(move |registry| registry.clients(&tenant, kind, None, MAX_PAGE))
        .await;
    let known = known.unwrap_or_default();
    let near = manifest::nearest(name.id(), known.iter().map(|client| &**client.name.id()));
    let hint = match near {
        Some(near) => format!("; did you mean \"{near}\"?"),
        None => format!("; add it: selvedge {kind} add {}", name.id()),
    };
    Wrong::absent(format!("no {kind} \"{name}\"{hint}"))
}

/// Ids of the tenant's clients that are connected; `None` where no edge runs.
async fn connected(desk: &Desk, tenant: &str) -> Done<Option<HashSet<String>>> {
    let Some(hub) = desk.running_hub() else { return Ok(None) };
    let sessions = hub.sessions(tenant).await.ok_or_else(Wrong::no_answer)?;
    let connected = sessions.into_iter().filter(|session| session.is_connected);
    // Edges have no sessions.
    let edges = desk.connected.iter().flat_map(|connected| connected.list());
    let edges = edges.filter_map(|edge| ClientName::from_user_name(&edge.name).ok());
    let edges = edges
        .filter(|edge| **edge.tenant() == *tenant)
        .map(|edge| edge.id().to_string());
    Ok(Some(connected.map(|session| session.owner).chain(edges).collect()))
}

fn info(client: &Client, certificates: &[ClientCertificate], connected: Option<&HashSet<String>>) -> ClientInfo {
    let mut credentials = Vec::new();
    credentials.extend(client.has_password.then(|| "password".to_owned()));
    credentials.extend(client.has_tokens.then(|| "token".to_owned()));
    credentials.extend(
        client
            .trusts_subject
            .then(|| "certificate of a trusted authority".to_owned()),
    );
    credentials.extend(certificates.iter().map(|certificate| {
        let until = date_time(certificate.not_after_unix_s);
        format!("certificate {} until {until}", certificate.serial)
    }));
    ClientInfo {
        kind: client.kind.to_string(),
        tenant: client.name.tenant().to_string(),
        id: client.name.id().to_string(),
        user_name: client.name.user_name(),
        created: date_time(client.created_unix_s),
        is_disabled: client.disabled,
        is_connected: connected.map(|connected| connected.contains(&**client.name.id())),
        credentials,
        labels: client.labels.clone(),
        edge: client.edge.clone(),
    }
}

pub(crate) fn date_time(unix_s: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(unix_s).ok();
    time.and_then(|time| time.format(&Rfc3339).ok())
        .unwrap_or_else(|| format!("{unix_s} s of Unix time"))
}

/// Disables or enables a device, app or edge, sets its labels and removes them.
#[utoipa::path(patch, path = "/v1/tenants/{tenant}/{kinds}/{id}", tag = "clients", operation_id = "change_client",
    responses((status = 204)))]
pub(crate) async fn change(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds, id)): Path<(String, Kinds, String)>,
    Json(patch): Json<Patch>,
) -> Done<StatusCode> {
    let name = ClientName::new(&tenant, &id)?;
    let kind = ClientKind::from(kinds);
    find(&desk, &name, kind).await?;
    if let Some(is_disabled) = patch.is_disabled {
        let wanted = name.clone();
        desk.with_registry(move |registry| registry.set_disabled(&wanted, is_disabled))
            .await?;
        let action = if is_disabled { Action::Disabled } else { Action::Enabled };
        desk.account_for(action, &name, kind.as_str());
    }
    if let Some(edge) = patch.edge {
        move_to(&desk, &name, kind, &edge).await?;
    }
    set_labels(&desk, &name, patch.labels).await?;
    desk.settle().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Has a device log in at another edge from now on, or here.
async fn move_to(desk: &Desk, name: &ClientName, kind: ClientKind, edge: &str) -> Done<()> {
    let wanted = Some(edge).filter(|edge| !edge.is_empty());
    let edge = edge_of_new(desk, name.tenant(), kind, wanted).await?;
    let what = format!("logs in at {}", edge.as_deref().unwrap_or("the cloud"));
    let moved = name.clone();
    desk.with_registry(move |registry| registry.set_edge(&moved, edge.as_deref()))
        .await?;
    desk.account_for(Action::Changed, name, &what);
    Ok(())
}

/// Sets labels and removes those whose value is `None`.
pub(crate) async fn set_labels(
    desk: &Desk,
    name: &ClientName,
    labels: impl IntoIterator<Item = (String, Option<String>)> + Send + 'static,
) -> Done<()> {
    let name = name.clone();
    desk.with_registry(move |registry| {
        labels.into_iter().try_for_each(|(label, value)| match value {
            Some(value) => registry.set_label(&name, &label, &value),
            None => registry.remove_label(&name, &label),
        })
    })
    .await
}

/// Removes a device, app or edge: its sessions and its twin end with it.
#[utoipa::path(delete, path = "/v1/tenants/{tenant}/{kinds}/{id}", tag = "clients", operation_id = "remove_client",
    responses((status = 204)))]
pub(crate) async fn remove(
    State(desk): State<Arc<Desk>>,
    Path((tenant, kinds, id)): Path<(String, Kinds, String)>,
) -> Done<StatusCode> {
    let name = ClientName::new(&tenant, &id)?;
    let kind = ClientKind::from(kinds);
    find(&desk, &name, kind).await?;
    let wanted = name.clone();
    desk.with_registry(move |registry| registry.remove(&wanted)).await?;
    match kind {
        ClientKind::Device => applying::forget_device(&desk, &name).await?,
        ClientKind::Edge => desk.for_edges.forget(&name).await?,
        ClientKind::App => {}
    }
    desk.account_for(Action::Removed, &name, kind.as_str());
    desk.wake_hub().await?;
    desk.settle().await?;
    Ok(StatusCode::NO_CONTENT)
}
