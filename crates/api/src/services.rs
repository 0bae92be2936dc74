//! Services: where each is, and whom it leads to.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use manifest::workload::Service;
use mesh::AtOthers;

use crate::desk::Desk;
use crate::types::{Page, ServiceInfo, ServiceNode};
use crate::wrong::Done;

/// The Services of a tenant: of this edge, and of the other nodes of its site.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/services", tag = "applications", operation_id = "list_services",
    responses((status = 200, body = Page<ServiceInfo>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<Page<ServiceInfo>>> {
    desk.check_tenant(&tenant).await?;
    let mut elsewhere = desk
        .mesh
        .as_ref()
        .map_or_else(BTreeMap::new, |mesh| mesh.elsewhere(&tenant));
    let address = |name: &str| desk.mesh.as_ref().and_then(|mesh| mesh.address(&tenant, name));
    let mut items: Vec<ServiceInfo> = desk.manifests.with_workloads(&tenant, |workloads| {
        let mut info = |(name, service): (&String, &Service)| ServiceInfo {
            tenant: tenant.clone(),
            name: name.clone(),
            address: address(name),
            ports: service.spec.ports.iter().map(|port| port.port).collect(),
            deployments: mesh::selected(service, &workloads.deployments)
                .map(|(name, _)| name.clone())
                .collect(),
            elsewhere: nodes(elsewhere.remove(name).unwrap_or_default()),
            closed_doors: desk
                .mesh
                .as_ref()
                .map_or(Vec::new(), |mesh| mesh.troubles(&tenant, name)),
        };
        workloads.services.iter().map(&mut info).collect()
    });
    items.extend(elsewhere.into_iter().map(|(name, at)| {
        ServiceInfo {
            tenant: tenant.clone(),
            address: address(&name),
            ports: at.ports.clone(),
            deployments: Vec::new(),
            elsewhere: nodes(at),
            closed_doors: desk
                .mesh
                .as_ref()
                .map_or(Vec::new(), |mesh| mesh.troubles(&tenant, &name)),
            name,
        }
    }));
    items.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(Json(Page { items, has_more: false }))
}

fn nodes(at: AtOthers) -> Vec<ServiceNode> {
    let nodes = at.nodes.into_iter().map(|(node, has)| ServiceNode {
        node,
        ready: has.ready,
        sleeps: has.sleeps,
    });
    nodes.collect()
}
