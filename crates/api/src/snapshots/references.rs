//! What an application refers to.

use manifest::workload::Deployment;

/// What an application is given values by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    ConfigMap,
    Secret,
}

/// Shows `each` the names of all ConfigMaps and Secrets that an application is given, which it may change.
pub(super) fn each_reference(deployment: &mut Deployment, mut each: impl FnMut(Given, &mut String)) {
    let pod = &mut deployment.spec.template.spec;
    for container in pod.init_containers.iter_mut().chain(&mut pod.containers) {
        for from in &mut container.env_from {
            from.config_map_ref
                .iter_mut()
                .for_each(|map| each(Given::ConfigMap, &mut map.name));
            from.secret_ref
                .iter_mut()
                .for_each(|secret| each(Given::Secret, &mut secret.name));
        }
        for from in container
            .env
            .iter_mut()
            .filter_map(|variable| variable.value_from.as_mut())
        {
            from.config_map_key_ref
                .iter_mut()
                .for_each(|key| each(Given::ConfigMap, &mut key.name));
            from.secret_key_ref
                .iter_mut()
                .for_each(|key| each(Given::Secret, &mut key.name));
        }
    }
    for volume in &mut pod.volumes {
        volume
            .config_map
            .iter_mut()
            .for_each(|map| each(Given::ConfigMap, &mut map.name));
        volume
            .secret
            .iter_mut()
            .for_each(|secret| each(Given::Secret, &mut secret.secret_name));
    }
    pod.image_pull_secrets
        .iter_mut()
        .for_each(|secret| each(Given::Secret, &mut secret.name));
}
