//! What a snapshot of an application is to have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use agent::runtime::Kind;
use agent::snapshot::ImageWanted;
use agent::supervise::Key as Application;
use agent::workload::{self, snapshots as annotations};
use axum::http::StatusCode;
use manifest::Resource;
use manifest::workload::Deployment;

use super::references::{Given, each_reference};
use super::{claims_of, in_tenant};
use crate::desk::Desk;
use crate::manifests::Workloads;
use crate::wrong::{Done, Wrong};

/// What a snapshot of an application is to have.
pub(super) struct Plan {
    pub(super) hook: Option<Vec<String>>,
    pub(super) manifests: String,
    /// Those that it is given, and are there.
    pub(super) secrets: Vec<Resource>,
    pub(super) images: Vec<(String, ImageWanted)>,
    pub(super) claims: Vec<String>,
    pub(super) left_out: Vec<String>,
    /// All that may write to its volumes.
    pub(super) held: Vec<Application>,
}

pub(super) fn plan(desk: &Desk, key: &Application) -> Done<Plan> {
    desk.manifests.with_workloads(&key.tenant, |workloads| {
        let deployment = workloads.deployments.get(&key.application).ok_or_else(|| {
            Wrong::absent(format!(
                "no Deployment \"{}\" in tenant {}",
                key.application, key.tenant
            ))
        })?;
        let wanted = workload::wanted(deployment, &workloads.configuration).map_err(|findings| {
            let all: Vec<String> = findings
                .into_iter()
                .map(|one| format!("{}: {}", one.path, one.message))
                .collect();
            Wrong::new(StatusCode::CONFLICT, all.join("; "))
        })?;
        let (mut images, mut left_out) = (Vec::new(), Vec::new());
        for container in &wanted.containers {
            let image = container.launch.image.clone();
            match container.launch.kind {
                Kind::Oci => images.push((image, ImageWanted::OfEdge)),
                Kind::Docker => images.push((image, ImageWanted::OfEngine(None))),
                Kind::Process => left_out.push(format!("program {image}, which the host has")),
            }
        }
        images.sort_unstable();
        images.dedup();
        let claims = claims_of(deployment);
        let others = deployment.spec.template.spec.volumes.iter();
        left_out.extend(
            others
                .clone()
                .filter(|volume| volume.empty_dir.is_some())
                .map(|volume| format!("volume {}, which goes with its replica (emptyDir)", volume.name)),
        );
        left_out.extend(others.filter_map(|volume| {
            let path = &volume.host_path.as_ref()?.path;
            Some(format!("volume {}, which the host has at {path}", volume.name))
        }));
        let (given, secrets) = given(deployment, workloads);
        left_out.sort_unstable();
        left_out.dedup();
        let shares = |other: &&Arc<Deployment>| claims_of(other).iter().any(|claim| claims.contains(claim));
        let held = workloads
            .deployments
            .values()
            .filter(shares)
            .map(|other| other.metadata.name.clone());
        let held: BTreeSet<String> = held.chain([key.application.clone()]).collect();
        Ok(Plan {
            hook: annotations::hook(deployment),
            manifests: text(&given),
            secrets,
            images,
            claims: claims.into_iter().collect(),
            left_out,
            held: held.into_iter().map(|name| in_tenant(&key.tenant, name)).collect(),
        })
    })
}

/// As one YAML.
pub(super) fn text(resources: &[Resource]) -> String {
    let all: Vec<String> = resources.iter().map(Resource::to_yaml).collect();
    all.join("---\n")
}

/// An application with all that it is given and that leads to it, and the Secrets that it is given.
fn given(deployment: &Deployment, workloads: &Workloads) -> (Vec<Resource>, Vec<Resource>) {
    let mut deployment = deployment.clone();
    let (mut maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    each_reference(&mut deployment, |given_by, name| {
        let names = match given_by {
            Given::ConfigMap => &mut maps,
            Given::Secret => &mut secrets,
        };
        names.insert(name.clone());
    });
    let known = &workloads.configuration;
    let maps = maps.iter().filter_map(|name| known.config_maps.get(name)).cloned();
    let secrets = secrets.iter().filter_map(|name| known.secrets.get(name)).cloned();
    let labels = &deployment.spec.template.metadata.labels;
    let leads = |selector: &BTreeMap<String, String>| {
        !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    };
    let services = workloads.services.values();
    let services = services.filter(|service| leads(&service.spec.selector)).cloned();
    let mut all: Vec<Resource> = maps
        .map(Resource::ConfigMap)
        .chain(services.map(Resource::Service))
        .collect();
    all.push(Resource::Deployment(Box::new(deployment)));
    (all, secrets.map(Resource::Secret).collect())
}
