//! Manifests of a snapshot, as they are to be applied.

use std::collections::BTreeSet;

use agent::snapshot::Kept;
use agent::workload::snapshots as annotations;
use manifest::workload::Metadata;
use manifest::{Document, Resource};

use super::references::{Given, each_reference};
use crate::applying;
use crate::wrong::{Done, Wrong};

/// What comes back beside an `other` application has a name of its own.
pub(super) fn beside(other: &str, name: &str) -> String {
    format!("{other}-{name}")
}

/// Those of a tenant's application: its manifests, and those of its Secrets. With `restore_as` it has another name, and
/// so has all that comes with it.
pub(super) fn documents(
    kept: &Kept,
    manifests: &str,
    secrets: Option<&str>,
    tenant: &str,
    restore_as: Option<&str>,
) -> Done<Vec<Document>> {
    let mut documents = parsed(kept, manifests, |resource| !matches!(resource, Resource::Secret(_)))?;
    if let Some(secrets) = secrets {
        documents.extend(parsed(kept, secrets, |resource| {
            matches!(resource, Resource::Secret(_))
        })?);
    }
    for document in &mut documents {
        if let Some(metadata) = metadata(&mut document.resource) {
            tenant.clone_into(&mut metadata.namespace);
        }
    }
    let Some(other) = restore_as else { return Ok(documents) };
    let mut resources: Vec<Resource> = documents.into_iter().map(|document| document.resource).collect();
    rename(&mut resources, &kept.about.application, other);
    // A longer name may be none.
    let renamed: Vec<String> = resources.iter().map(Resource::to_yaml).collect();
    parsed(kept, &renamed.join("---\n"), |_| true)
}

fn parsed(kept: &Kept, text: &str, is_expected: impl Fn(&Resource) -> bool) -> Done<Vec<Document>> {
    let documents = manifest::parse(&kept.name, text);
    let mut documents = documents.map_err(|errors| applying::refused(&errors).noting(applying::NOTHING))?;
    let is_of_one =
        |document: &mut Document| metadata(&mut document.resource).is_some() && is_expected(&document.resource);
    match documents.iter_mut().all(is_of_one) {
        true => Ok(documents),
        false => Err(Wrong::request("there is something in it that no application has")),
    }
}

/// Of what an application may have; none of anything else.
fn metadata(resource: &mut Resource) -> Option<&mut Metadata> {
    match resource {
        Resource::Deployment(deployment) => Some(&mut deployment.metadata),
        Resource::Service(service) => Some(&mut service.metadata),
        Resource::ConfigMap(map) => Some(&mut map.metadata),
        Resource::Secret(secret) => Some(&mut secret.metadata),
        Resource::Device(_) | Resource::Route(_) => None,
    }
}

/// Has the application `own` be another one, which shares nothing with it that is among these.
fn rename(resources: &mut [Resource], own: &str, other: &str) {
    let given: BTreeSet<(&'static str, String)> = resources
        .iter()
        .map(|resource| (resource.kind(), resource.name().to_owned()))
        .collect();
    let renamed = |name: &mut String| {
        if *name == own {
            other.clone_into(name);
        }
    };
    for resource in resources {
        match resource {
            Resource::Deployment(deployment) => {
                other.clone_into(&mut deployment.metadata.name);
                deployment.metadata.annotations.remove(annotations::EVERY);
                deployment.metadata.annotations.remove(annotations::KEEP);
                let template = &mut deployment.spec.template;
                template.metadata.labels.values_mut().for_each(renamed);
                deployment.spec.selector.match_labels.values_mut().for_each(renamed);
                for volume in &mut template.spec.volumes {
                    if let Some(claim) = &mut volume.persistent_volume_claim {
                        claim.claim_name = beside(other, &claim.claim_name);
                    }
                }
                each_reference(deployment, |given_by, name| {
                    let kind = match given_by {
                        Given::ConfigMap => "ConfigMap",
                        Given::Secret => "Secret",
                    };
                    // What is not in the snapshot is the one that is there.
                    if given.contains(&(kind, name.clone())) {
                        *name = beside(other, name);
                    }
                });
            }
            Resource::Service(service) => {
                service.metadata.name = match service.metadata.name == own {
                    true => other.to_owned(),
                    false => beside(other, &service.metadata.name),
                };
                service.spec.selector.values_mut().for_each(renamed);
            }
            Resource::ConfigMap(map) => map.metadata.name = beside(other, &map.metadata.name),
            Resource::Secret(secret) => secret.metadata.name = beside(other, &secret.metadata.name),
            Resource::Device(_) | Resource::Route(_) => {}
        }
    }
}
