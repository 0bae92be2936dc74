//! Services: where each is, and whom it leads to.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use manifest::workload::Service;

use crate::desk::Desk;
use crate::types::{Page, ServiceInfo};
use crate::wrong::Done;

/// The Services of a tenant.
#[utoipa::path(get, path = "/v1/tenants/{tenant}/services", tag = "applications", operation_id = "list_services",
    responses((status = 200, body = Page<ServiceInfo>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>, Path(tenant): Path<String>) -> Done<Json<Page<ServiceInfo>>> {
    desk.check_tenant(&tenant).await?;
    let items = desk.manifests.with_workloads(&tenant, |workloads| {
        let info = |(name, service): (&String, &Service)| ServiceInfo {
            tenant: tenant.clone(),
            name: name.clone(),
            address: desk.mesh.as_ref().and_then(|mesh| mesh.address(&tenant, name)),
            ports: service.spec.ports.iter().map(|port| port.port).collect(),
            deployments: mesh::selected(service, &workloads.deployments)
                .map(|(name, _)| name.clone())
                .collect(),
            closed_doors: desk
                .mesh
                .as_ref()
                .map_or(Vec::new(), |mesh| mesh.troubles(&tenant, name)),
        };
        workloads.services.iter().map(info).collect()
    });
    Ok(Json(Page { items, has_more: false }))
}
