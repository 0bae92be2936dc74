//! Paths of the control socket, made of names that were checked.

use identity::{ClientKind, ClientName, HeldCredential, UserName};

/// The nodes of an edge's site.
pub const NODES: &str = "/v1/nodes";

/// All tenants.
pub const TENANTS: &str = "/v1/tenants";

/// One tenant.
pub fn tenant(name: &str) -> String {
    format!("{TENANTS}/{name}")
}

/// All devices or apps of a tenant.
pub fn clients(tenant: &str, kind: ClientKind) -> String {
    format!("/v1/tenants/{tenant}/{kind}s")
}

/// One device or app.
pub fn client(name: &ClientName, kind: ClientKind) -> String {
    format!("{}/{}", clients(name.tenant(), kind), name.id())
}

/// All users of a tenant, or of the whole cloud.
pub fn users(of_tenant: Option<&str>) -> String {
    of_tenant.map_or("/v1/users".to_owned(), |name| format!("{}/users", tenant(name)))
}

/// One user.
pub fn user(name: &UserName) -> String {
    format!("{}/{}", users(name.tenant()), name.name())
}

/// The keys that tokens are signed with.
pub const TOKEN_KEYS: &str = "/v1/token-keys";

/// What a device or app proves itself by.
pub fn credentials(name: &ClientName, kind: ClientKind) -> String {
    format!("{}/credentials", client(name, kind))
}

/// One of these.
pub fn credential(name: &ClientName, kind: ClientKind, credential: &HeldCredential) -> String {
    let all = credentials(name, kind);
    match credential {
        HeldCredential::Certificate(serial) => format!("{all}/{serial}"),
        sort => format!("{all}/{sort}"),
    }
}

/// The ban of a node of the site that began at the edge.
pub fn ban(node: &ClientName) -> String {
    format!("{NODES}/{}/ban", node.id())
}

/// The invitation of an edge.
pub fn invitation(edge: &ClientName) -> String {
    format!("{}/invitation", client(edge, ClientKind::Edge))
}

/// The manifests that were applied at a cloud for an edge.
pub fn edge_manifests(edge: &ClientName) -> String {
    format!("{}/manifests", client(edge, ClientKind::Edge))
}

/// One of these, of a tenant that the edge speaks for.
pub fn edge_manifest(edge: &ClientName, namespace: &str, kind: &str, name: &str) -> String {
    format!("{}/{namespace}/{kind}/{name}", edge_manifests(edge))
}

/// A device's twin.
pub fn twin(device: &ClientName) -> String {
    format!("{}/twin", client(device, ClientKind::Device))
}

/// Edits of a device's desired state that were given up.
pub fn twin_conflicts(device: &ClientName) -> String {
    format!("{}/conflicts", twin(device))
}

/// An edge's way to its cloud.
pub const LINK: &str = "/v1/link";

/// The edges of a cloud.
pub const EDGES: &str = "/v1/edges";

/// Where a device is reached.
pub fn location(device: &ClientName) -> String {
    format!("{}/location", client(device, ClientKind::Device))
}

/// A method of a device.
pub fn method(device: &ClientName, name: &str, timeout_ms: u64) -> String {
    let device = client(device, ClientKind::Device);
    format!("{device}/methods/{name}?timeout_ms={timeout_ms}")
}

/// The applications of a tenant.
pub fn deployments(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/deployments")
}

/// One of them.
pub fn deployment(tenant: &str, name: &str) -> String {
    format!("{}/{name}", deployments(tenant))
}

/// What has happened to containers of a tenant.
pub fn events(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/events")
}

/// What the containers of a tenant take.
pub fn usage(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/usage")
}

/// What its containers said.
pub fn deployment_log(tenant: &str, name: &str) -> String {
    format!("{}/log", deployment(tenant, name))
}

/// The Services of a tenant.
pub fn services(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/services")
}

/// The ConfigMaps of a tenant.
pub fn config_maps(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/configmaps")
}

/// The Secrets of a tenant.
pub fn secrets(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/secrets")
}

/// The manifest of an application, or of what applications are given.
pub fn manifest(tenant: &str, kind: &str, name: &str) -> String {
    format!("/v1/tenants/{tenant}/manifests/{kind}/{name}")
}

/// The snapshots of a tenant.
pub fn snapshots(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/snapshots")
}

/// One snapshot.
pub fn snapshot(tenant: &str, name: &str) -> String {
    format!("{}/{name}", snapshots(tenant))
}

/// Where a snapshot is restored from.
pub fn restored(tenant: &str, name: &str) -> String {
    format!("{}/restore", snapshot(tenant, name))
}

/// The snapshots of an application.
pub fn snapshots_of(tenant: &str, deployment: &str) -> String {
    format!("/v1/tenants/{tenant}/deployments/{deployment}/snapshots")
}

/// The sessions of a tenant.
pub fn sessions(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/sessions")
}

/// The routes of a tenant.
pub fn routes(tenant: &str) -> String {
    format!("/v1/tenants/{tenant}/routes")
}

/// One route.
pub fn route(tenant: &str, name: &str) -> String {
    format!("{}/{name}", routes(tenant))
}
