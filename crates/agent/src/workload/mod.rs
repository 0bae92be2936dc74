//! What a manifest comes to: the containers of an application, with all that they are given.

mod environment;
pub mod node;
mod order;
mod pull;
mod replicas;
pub mod snapshots;
pub mod sockets;
mod support;
mod volumes;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use manifest::workload::{
    ConfigMap, Container, Deployment, Handler, Medium, PodSpec, PortRef, Scheme, Secret, StrategyType, Volume,
};

use self::environment::Environment;
pub use self::order::{DEPENDS_ON, circle, depends_on};
pub use self::replicas::{MAX_REPLICAS, most_replicas};
pub use self::support::{unsupported, without_effect};
use crate::cgroup::Limits;
use crate::disk::DiskLimits;
use crate::probe::{Ask, Probe, Probes};
use crate::runtime::{Kind, Launch, Pod, Rights};
use crate::supervise::{self, Update, Wanted};

/// Containers that one application may have, its replicas counted.
pub const CONTAINERS_MAX: usize = 100;

/// Values that the applications of a tenant are given, by the names of what holds them.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Those that anybody may see.
    pub config_maps: BTreeMap<String, ConfigMap>,
    /// Those that nobody sees but who is given them.
    pub secrets: BTreeMap<String, Secret>,
}

/// Something in a manifest that is in the way of its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path of the field, such as `spec.template.spec.containers[0].env[2]`.
    pub path: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

impl Finding {
    fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Finding {
            path: path.into(),
            message: message.into(),
        }
    }
}

/// What a deployment comes to; whether it runs on demand is not looked at.
///
/// # Errors
/// What it refers to and is not there, and all that [`unsupported`] finds.
pub fn wanted(deployment: &Deployment, given: &Configuration) -> Result<Wanted, Vec<Finding>> {
    let mut wrong = unsupported(deployment);
    let pod = &deployment.spec.template.spec;
    let inits = pod.init_containers.iter().enumerate();
    let inits = inits.map(|(index, one)| (one, true, format!("spec.template.spec.initContainers[{index}]")));
    let others = pod.containers.iter().enumerate();
    let others = others.map(|(index, one)| (one, false, format!("spec.template.spec.containers[{index}]")));
    let mut launches = Vec::new();
    for (container, is_init, path) in inits.chain(others) {
        let launch = launch(deployment, container, given, &path, &mut wrong);
        launches.push((container, is_init, launch));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let grace = Duration::from_secs(pod.termination_grace_period_seconds.into());
    let containers = launches
        .into_iter()
        .map(|(container, is_init, launch)| supervise::Container {
            name: container.name.clone(),
            replica: 0,
            is_init,
            launch,
            probes: probes(container),
            pre_stop: container
                .lifecycle
                .pre_stop
                .as_ref()
                .map(|hook| hook.exec.command.clone()),
            grace,
        });
    Ok(Wanted {
        containers: containers.collect(),
        replicas: deployment.spec.replicas,
        most: most_replicas(deployment),
        update: update(deployment),
        after: depends_on(deployment),
        when_idle: None,
    })
}

/// How a new version takes the place of the one that runs. Where it is not written, old and new run side by side but
/// where they would share what the other may change: the host's network, its devices and files, volumes that are kept.
fn update(deployment: &Deployment) -> Update {
    let spec = &deployment.spec;
    let (surge, unavailable) = match (spec.strategy.kind, &spec.strategy.rolling_update) {
        (StrategyType::Recreate, _) => (0, u32::MAX),
        (StrategyType::RollingUpdate, None) if !is_alone(deployment) => (0, (spec.replicas / 4).max(1)),
        (StrategyType::RollingUpdate, rolling) => {
            let rolling = rolling.unwrap_or_default();
            let surge = rolling.max_surge.rounded_up(spec.replicas);
            let unavailable = rolling.max_unavailable.rounded_down(spec.replicas);
            // Nothing could be renewed; as in Kubernetes.
            (surge, if surge == 0 { unavailable.max(1) } else { unavailable })
        }
    };
    Update {
        surge,
        unavailable,
        min_ready: Duration::from_secs(spec.min_ready_seconds.into()),
        deadline: Duration::from_secs(spec.progress_deadline_seconds.into()),
    }
}

fn is_alone(deployment: &Deployment) -> bool {
    let pod = &deployment.spec.template.spec;
    let is_lasting = |volume: &&Volume| volume.host_path.is_some() || volume.persistent_volume_claim.is_some();
    let lasting: Vec<&str> = pod
        .volumes
        .iter()
        .filter(is_lasting)
        .map(|volume| &*volume.name)
        .collect();
    let mut containers = pod.init_containers.iter().chain(&pod.containers);
    !is_on_host(deployment)
        && containers.all(|container| {
            let mut mounts = container.volume_mounts.iter();
            let shares = mounts.any(|mount| !mount.read_only && lasting.contains(&&*mount.name));
            !shares && support::devices(&container.resources.limits).next().is_none()
        })
}

/// Of the first replica.
fn launch(
    deployment: &Deployment,
    container: &Container,
    given: &Configuration,
    path: &str,
    wrong: &mut Vec<Finding>,
) -> Launch {
    let pod = &deployment.spec.template.spec;
    let environment = Environment::of(container, given, path, wrong);
    let expanded = |words: &[String]| words.iter().map(|word| environment.expand(word)).collect();
    let (command, args) = (expanded(&container.command), expanded(&container.args));
    let (own, shared) = (&container.security_context, &pod.security_context);
    let (limits, promised) = (&container.resources.limits, &container.resources.requests);
    let of_first = Pod {
        tenant: deployment.metadata.namespace.clone(),
        application: deployment.metadata.name.clone(),
        replica: 0,
    };
    Launch {
        pull: pull::of(pod, container, given, wrong),
        command,
        args,
        env: environment.into_variables(),
        working_dir: container.working_dir.as_deref().map(PathBuf::from),
        uid: own.run_as_user.or(shared.run_as_user),
        gid: own.run_as_group.or(shared.run_as_group),
        has_own_network: !is_on_host(deployment),
        has_own_users: pod.host_users == Some(false),
        hostname: pod.hostname.clone(),
        sockets: sockets::of(deployment, container),
        mounts: volumes::of(pod, container, given, wrong),
        volumes_gid: pod.security_context.fs_group,
        devices: support::devices(limits).map(str::to_owned).collect(),
        rights: rights(pod, container),
        limits: Limits {
            cpu_millis: limits.cpu.map(|cpu| cpu.millis),
            memory_bytes: limits.memory.map(|bytes| bytes.0),
            pids: limits.others.get(support::PIDS).copied(),
            read_bytes_per_s: limits.read_bytes_per_s.map(|bytes| bytes.0),
            write_bytes_per_s: limits.write_bytes_per_s.map(|bytes| bytes.0),
            promised_cpu_millis: promised.cpu.map(|cpu| cpu.millis),
            promised_memory_bytes: promised.memory.map(|bytes| bytes.0),
        },
        disk: disk(pod, container),
        has_no_login: !has_login(deployment),
        ..Launch::of(kind(pod), &container.image, of_first)
    }
}

/// Containers that a deployment may want, all replicas that there may be and those that run once counted.
#[must_use]
pub fn containers(deployment: &Deployment) -> u64 {
    let pod = &deployment.spec.template.spec;
    let per_replica = pod.init_containers.len() + pod.containers.len();
    u64::from(most_replicas(deployment)).saturating_mul(per_replica.max(1) as u64)
}

/// Whether the containers of a deployment are given what they log in by at their edge.
#[must_use]
pub fn has_login(deployment: &Deployment) -> bool {
    deployment.spec.template.spec.automount_service_account_token != Some(false)
}

/// What it may take of the disk, of volumes those that it sees.
fn disk(pod: &PodSpec, container: &Container) -> DiskLimits {
    let sees = |volume: &&Volume| container.volume_mounts.iter().any(|mount| mount.name == volume.name);
    let limited = pod.volumes.iter().filter(sees).filter_map(|volume| {
        let empty = volume.empty_dir.as_ref().filter(|empty| empty.medium == Medium::Disk)?;
        Some((volume.name.clone(), empty.size_limit?.0))
    });
    DiskLimits {
        own_bytes: container.resources.limits.ephemeral_storage.map(|bytes| bytes.0),
        scratch_bytes: limited.collect(),
    }
}

/// Whether the containers of a deployment are in the network of the host.
#[must_use]
pub fn is_on_host(deployment: &Deployment) -> bool {
    let pod = &deployment.spec.template.spec;
    kind(pod) == Kind::Process || pod.host_network
}

fn rights(pod: &PodSpec, container: &Container) -> Rights {
    let (own, shared) = (&container.security_context, &pod.security_context);
    Rights {
        added: own.capabilities.add.clone(),
        dropped: own.capabilities.drop.clone(),
        is_root_read_only: own.read_only_root_filesystem == Some(true),
        may_gain: own.allow_privilege_escalation == Some(true),
        is_never_root: own.run_as_non_root.or(shared.run_as_non_root) == Some(true),
    }
}

/// What runs the containers of a pod.
fn kind(pod: &PodSpec) -> Kind {
    match pod.runtime_class_name.as_deref() {
        Some("process") => Kind::Process,
        Some("docker") => Kind::Docker,
        _ => Kind::Oci,
    }
}

fn probes(container: &Container) -> Probes {
    let probe = |probe: &Option<manifest::workload::Probe>| {
        let probe = probe.as_ref()?;
        let port = |port: &PortRef| container.port(port);
        let ask = match probe.handler()? {
            Handler::Exec(exec) => Ask::Exec(exec.command.clone()),
            Handler::TcpSocket(socket) => Ask::Tcp {
                port: port(&socket.port)?,
            },
            Handler::HttpGet(get) => Ask::Http {
                port: port(&get.port)?,
                is_tls: get.scheme == Scheme::Https,
                path: get.path.clone(),
                headers: get
                    .http_headers
                    .iter()
                    .map(|header| (header.name.clone(), header.value.clone()))
                    .collect(),
            },
        };
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        Some(Probe {
            ask,
            initial_delay: seconds(probe.initial_delay_seconds),
            period: seconds(probe.period_seconds),
            timeout: seconds(probe.timeout_seconds),
            successes: probe.success_threshold,
            failures: probe.failure_threshold,
        })
    };
    Probes {
        startup: probe(&container.startup_probe),
        liveness: probe(&container.liveness_probe),
        readiness: probe(&container.readiness_probe),
    }
}

#[cfg(test)]
mod tests;
