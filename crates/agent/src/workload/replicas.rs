//! How many replicas of an application there may be, where others than its manifest say how many there are.

use manifest::workload::Deployment;

use super::{Finding, is_on_host};

/// Replicas at most, where more than `spec.replicas` are started for who asks.
pub const MAX_REPLICAS: &str = "selvedge.dev/max-replicas";

/// Replicas that there are at most; it has been checked.
#[must_use]
pub fn most_replicas(deployment: &Deployment) -> u32 {
    let least = deployment.spec.replicas;
    match written(deployment) {
        // Of what is stopped so there are none.
        Some(Ok(most)) if least > 0 => most.max(least),
        _ => least,
    }
}

fn written(deployment: &Deployment) -> Option<Result<u32, &str>> {
    let text = deployment.metadata.annotations.get(MAX_REPLICAS)?;
    Some(text.parse().map_err(|_| text.as_str()))
}

pub(super) fn unsupported(deployment: &Deployment) -> Option<Finding> {
    let least = deployment.spec.replicas;
    let wrong = match written(deployment)? {
        Err(text) => format!("{text:?} is no number of replicas"),
        Ok(most) if most < least => format!("is {most}, and spec.replicas, the least there are, is {least}"),
        Ok(_) if is_on_host(deployment) => {
            "is for containers with a network of their own: in that of the host each replica would listen at the same \
             port"
                .to_owned()
        }
        Ok(_) => return None,
    };
    Some(Finding::at(format!("metadata.annotations.{MAX_REPLICAS}"), wrong))
}
