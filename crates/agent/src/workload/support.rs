//! What of a manifest cannot be done yet, or not by the runtime that it asks for: refused by name, never left out.

use manifest::workload::{Amounts, Bytes, Container, Deployment, HostPathType, Medium, PodSpec, Volume};

use super::{CONTAINERS_MAX, Finding, kind, order, replicas, rights};
use crate::local::bundle;
use crate::runtime::Kind;

/// The resource that limits processes and threads.
pub(super) const PIDS: &str = "selvedge.dev/pids";

/// Those that limit how fast disks are read and written.
const READ: &str = "selvedge.dev/read-bytes-per-s";
const WRITTEN: &str = "selvedge.dev/write-bytes-per-s";

/// With less, one that waits for its disk could not be ended in time.
const RATE_LEAST: Bytes = Bytes(64 << 10);

/// What resources are called that are not Kubernetes' own.
const OWN: &str = "selvedge.dev/";

/// Devices of the host among resources, by their names in `/dev`. Of each there is one, whatever the number.
pub(super) fn devices(amounts: &Amounts) -> impl Iterator<Item = &str> {
    let names = amounts
        .others
        .iter()
        .filter(|(name, number)| *name != PIDS && **number > 0);
    names.filter_map(|(name, _)| name.strip_prefix(OWN))
}

/// All that is asked for and not done.
#[must_use]
pub fn unsupported(deployment: &Deployment) -> Vec<Finding> {
    let mut found = Found(Vec::new());
    let spec = &deployment.spec;
    let pod = &spec.template.spec;
    let containers = super::containers(deployment);
    found.is_set(
        containers > CONTAINERS_MAX as u64,
        "spec.replicas",
        &format!("makes {containers} containers; an application has at most {CONTAINERS_MAX}"),
    );
    found.0.extend(order::unsupported(deployment));
    found.0.extend(replicas::unsupported(deployment));
    found.pod("spec.template.spec", pod);
    found.0
}

/// All that has no effect. What was applied when it was not refused yet runs on with it.
#[must_use]
pub fn without_effect(deployment: &Deployment) -> Vec<Finding> {
    let (mut found, path) = (Found(Vec::new()), "spec.template.spec");
    let pod = &deployment.spec.template.spec;
    let is_program = kind(pod) == Kind::Process;
    let has_secrets = is_program && !pod.image_pull_secrets.is_empty();
    found.is_set(has_secrets, &format!("{path}.imagePullSecrets"), OF_CONTAINERS);
    let inits = pod.init_containers.iter().enumerate();
    let inits = inits.map(|(index, one)| (format!("{path}.initContainers[{index}]"), one));
    let others = pod.containers.iter().enumerate();
    let others = others.map(|(index, one)| (format!("{path}.containers[{index}]"), one));
    for (path, container) in inits.chain(others) {
        let has_policy = is_program && container.image_pull_policy.is_some();
        found.is_set(has_policy, &format!("{path}.imagePullPolicy"), OF_CONTAINERS);
        let is_promise = container.resources.requests.others.contains_key(PIDS);
        found.is_set(is_promise, &format!("{path}.resources.requests.{PIDS}"), PROMISED);
    }
    found.0
}

const PROMISED: &str = "is promised to nobody here; write it in limits";
const OF_CONTAINERS: &str = "is what a program of the host (runtimeClassName: process) cannot have; leave it out";

struct Found(Vec<Finding>);

impl Found {
    fn is_set(&mut self, is_set: bool, path: &str, message: &str) {
        if is_set {
            self.0.push(Finding::at(path, message));
        }
    }

    fn pod(&mut self, path: &str, pod: &PodSpec) {
        let kind = kind(pod);
        let (security, is_program) = (&pod.security_context, kind == Kind::Process);
        for (field, is_set, message) in [
            (
                "containers",
                kind == Kind::Docker && !pod.host_network && pod.containers.len() > 1,
                "are several, which cannot share a network of their own in Docker; write hostNetwork: true, or \
                 runtimeClassName: oci",
            ),
            (
                "hostUsers",
                pod.host_users == Some(false) && kind != Kind::Oci,
                "can be false only with runtimeClassName: oci; leave it out",
            ),
            ("volumes", is_program && !pod.volumes.is_empty(), OF_CONTAINERS),
            ("hostname", is_program && pod.hostname.is_some(), OF_CONTAINERS),
            (
                "securityContext.fsGroup",
                is_program && security.fs_group.is_some(),
                OF_CONTAINERS,
            ),
        ] {
            self.is_set(is_set, &format!("{path}.{field}"), message);
        }
        for (index, volume) in pod.volumes.iter().enumerate() {
            self.volume(&format!("{path}.volumes[{index}]"), volume, pod);
        }
        let inits = pod
            .init_containers
            .iter()
            .enumerate()
            .map(|one| ("initContainers", one));
        let others = pod.containers.iter().enumerate().map(|one| ("containers", one));
        for (field, (index, container)) in inits.chain(others) {
            let path = format!("{path}.{field}[{index}]");
            self.container(&path, container);
            match kind {
                Kind::Process => self.program(&path, pod, container),
                Kind::Oci => self.image(&path, pod, container),
                Kind::Docker => {
                    self.image(&path, pod, container);
                    self.in_docker(&path, pod, container);
                }
            }
        }
    }

    fn volume(&mut self, path: &str, volume: &Volume, pod: &PodSpec) {
        let empty = volume.empty_dir.clone().unwrap_or_default();
        let is_in_memory = empty.medium == Medium::Memory;
        let is_seen = |container: &&Container| container.volume_mounts.iter().any(|mount| mount.name == volume.name);
        let seen_by = pod
            .init_containers
            .iter()
            .chain(&pod.containers)
            .filter(is_seen)
            .count();
        for (field, is_set, message) in [
            (
                "emptyDir.medium",
                is_in_memory && seen_by > 1,
                "is Memory, which several containers do not share yet; leave it out",
            ),
            (
                "hostPath.type",
                volume
                    .host_path
                    .as_ref()
                    .is_some_and(|host| matches!(host.kind, HostPathType::CharDevice | HostPathType::BlockDevice)),
                "is a device; give it by its name: resources.limits: {selvedge.dev/ttyUSB0: 1}",
            ),
        ] {
            self.is_set(is_set, &format!("{path}.{field}"), message);
        }
    }

    /// What a program of the host cannot have.
    fn program(&mut self, path: &str, pod: &PodSpec, container: &Container) {
        let security = &container.security_context;
        let capabilities = &security.capabilities;
        for (field, is_set, message) in [
            (
                "securityContext.readOnlyRootFilesystem",
                security.read_only_root_filesystem == Some(true),
                OF_CONTAINERS,
            ),
            (
                "securityContext.allowPrivilegeEscalation",
                security.allow_privilege_escalation == Some(true),
                "is true; no program of the host gets more rights than it is started with",
            ),
            (
                "securityContext.capabilities",
                !capabilities.add.is_empty() || !capabilities.drop.is_empty(),
                OF_CONTAINERS,
            ),
        ] {
            self.is_set(is_set, &format!("{path}.{field}"), message);
        }
        let is_program = container.image.starts_with('/');
        let program = "names no program of the host; write its whole path, such as /usr/bin/node, or, for an image, \
            runtimeClassName: oci";
        self.is_set(!is_program, &format!("{path}.image"), program);
        for name in devices(&container.resources.limits) {
            let path = format!("{path}.resources.limits.{OWN}{name}");
            self.is_set(
                true,
                &path,
                "is a device, which a program of the host has as the host does; leave it out",
            );
        }
        let is_limited = container.resources.limits.ephemeral_storage.is_some();
        let message = "is of what a program of the host writes anywhere, which nobody counts; leave it out";
        self.is_set(
            is_limited,
            &format!("{path}.resources.limits.ephemeral-storage"),
            message,
        );
        self.non_root(path, pod, container);
    }

    /// What no container of an image can have.
    fn image(&mut self, of_container: &str, pod: &PodSpec, container: &Container) {
        let wrong = bundle::capabilities(&rights(pod, container)).err();
        let path = format!("{of_container}.securityContext.capabilities");
        self.is_set(wrong.is_some(), &path, &wrong.unwrap_or_default());
        let has_device = pod.host_users == Some(false) && devices(&container.resources.limits).next().is_some();
        let message = "are the host's users', whom hostUsers: false leaves out; leave one of them out";
        self.is_set(has_device, &format!("{of_container}.resources.limits"), message);
    }

    /// What no container of Docker can have.
    fn in_docker(&mut self, path: &str, pod: &PodSpec, container: &Container) {
        for (index, mount) in container.volume_mounts.iter().enumerate() {
            let path = format!("{path}.volumeMounts[{index}].subPath");
            let message =
                "is what Docker does not keep within its volume; leave it out, or write runtimeClassName: oci";
            self.is_set(mount.sub_path.is_some(), &path, message);
        }
        let (own, shared) = (&container.security_context, &pod.security_context);
        let has_group_alone =
            own.run_as_group.or(shared.run_as_group).is_some() && own.run_as_user.or(shared.run_as_user).is_none();
        let message = "needs runAsUser where Docker runs it; write both";
        self.is_set(has_group_alone, &format!("{path}.securityContext.runAsGroup"), message);
    }

    fn container(&mut self, path: &str, container: &Container) {
        let resources = &container.resources;
        let promised = &resources.requests;
        for (name, is_promise) in [
            // A board promises nobody a part of its disk.
            ("ephemeral-storage", promised.ephemeral_storage.is_some()),
            (READ, promised.read_bytes_per_s.is_some()),
            (WRITTEN, promised.write_bytes_per_s.is_some()),
        ] {
            let path = format!("{path}.resources.requests.{name}");
            self.is_set(is_promise, &path, PROMISED);
        }
        let limits = &resources.limits;
        for (name, rate) in [(READ, limits.read_bytes_per_s), (WRITTEN, limits.write_bytes_per_s)] {
            let path = format!("{path}.resources.limits.{name}");
            let message = "is less than 64Ki, with which it could not be ended in time; write more, such as 10Mi";
            self.is_set(rate.is_some_and(|rate| rate < RATE_LEAST), &path, message);
        }
        for name in devices(&resources.requests) {
            let is_limited = devices(&resources.limits).any(|other| other == name);
            let message = "is a device, which is given by limits; write it there";
            let path = format!("{path}.resources.requests.{OWN}{name}");
            self.is_set(!is_limited, &path, message);
        }
        for name in devices(&resources.limits) {
            let is_name = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
            let message = "names no device; its name in /dev has letters, digits, . _ : and - alone";
            let path = format!("{path}.resources.limits.{OWN}{name}");
            self.is_set(!is_name || name.starts_with('.') || name.is_empty(), &path, message);
        }
    }

    fn non_root(&mut self, path: &str, pod: &PodSpec, container: &Container) {
        let (own, shared) = (&container.security_context, &pod.security_context);
        let is_asked = own.run_as_non_root.or(shared.run_as_non_root) == Some(true);
        let is_other = own.run_as_user.or(shared.run_as_user).is_some_and(|user| user != 0);
        let message = "is true, and no user is said that is not root; write securityContext.runAsUser";
        self.is_set(
            is_asked && !is_other,
            &format!("{path}.securityContext.runAsNonRoot"),
            message,
        );
    }
}
