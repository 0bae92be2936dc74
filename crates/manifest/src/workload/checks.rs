//! What types cannot say: names that refer to each other, choices of exactly one, amounts in order.

use std::collections::{BTreeMap, BTreeSet};

use base64ct::{Base64, Encoding};

use super::{
    ConfigMap, Container, ContainerPort, Deployment, EnvFrom, EnvVar, Metadata, PodSpec, PortRef, Probe, Protocol,
    Secret, Service, Share, Strategy, StrategyType, Volume, VolumeMount,
};
use crate::names::{nearest, wrong_with_label, wrong_with_name, wrong_with_value};
use crate::tree::join;

/// How applications can be run.
const RUNTIMES: [&str; 3] = ["docker", "oci", "process"];
/// Longest name that a host can have.
const HOST_NAME_BYTES_MAX: usize = 63;
/// Longest name of a port.
const PORT_NAME_BYTES_MAX: usize = 15;

/// Mistakes: the path of the field, and what is wrong with it.
pub(crate) type Mistakes = Vec<(String, String)>;

pub(crate) fn deployment(deployment: &Deployment) -> Mistakes {
    let mut wrong = Mistakes::new();
    metadata(&mut wrong, &deployment.metadata);
    let spec = &deployment.spec;
    let (selector, labels) = (&spec.selector.match_labels, &spec.template.metadata.labels);
    if selector.is_empty() {
        wrong.say(
            "spec.selector.matchLabels",
            "is empty; it has at least one of the template's labels",
        );
    }
    for (name, value) in selector.iter().filter(|(name, value)| labels.get(*name) != Some(value)) {
        let message = format!("the template has no label {name}: {value}; write it at spec.template.metadata.labels");
        wrong.say(join("spec.selector.matchLabels", name), message);
    }
    wrong.labels("spec.template.metadata.labels", labels);
    strategy(&mut wrong, spec.replicas, &spec.strategy);
    pod(&mut wrong, &spec.template.spec);
    wrong
}

pub(crate) fn service(service: &Service) -> Mistakes {
    let mut wrong = Mistakes::new();
    metadata(&mut wrong, &service.metadata);
    let spec = &service.spec;
    if spec.selector.is_empty() {
        wrong.say(
            "spec.selector",
            "is empty; it has at least one label of whom it leads to",
        );
    }
    wrong.labels("spec.selector", &spec.selector);
    if spec.ports.is_empty() {
        wrong.say("spec.ports", "is empty; a service has at least one port");
    }
    let (mut names, mut ports) = (Once::default(), Once::default());
    for (i, port) in spec.ports.iter().enumerate() {
        let path = format!("spec.ports[{i}]");
        match &port.name {
            Some(name) => {
                wrong.port_name(&format!("{path}.name"), name);
                wrong.once(&mut names, &format!("{path}.name"), name.clone());
            }
            None if spec.ports.len() > 1 => wrong.say(format!("{path}.name"), "missing; each of several ports has one"),
            None => {}
        }
        wrong.port(&format!("{path}.port"), port.port);
        wrong.once(&mut ports, &format!("{path}.port"), (port.port, port.protocol));
    }
    wrong
}

pub(crate) fn config_map(map: &ConfigMap) -> Mistakes {
    let mut wrong = Mistakes::new();
    metadata(&mut wrong, &map.metadata);
    values(&mut wrong, ("data", &map.data), ("binaryData", &map.binary_data));
    wrong.base64("binaryData", &map.binary_data);
    wrong
}

pub(crate) fn secret(secret: &Secret) -> Mistakes {
    let mut wrong = Mistakes::new();
    metadata(&mut wrong, &secret.metadata);
    values(&mut wrong, ("stringData", &secret.string_data), ("data", &secret.data));
    wrong.base64("data", &secret.data);
    wrong
}

fn metadata(wrong: &mut Mistakes, metadata: &Metadata) {
    wrong.host_name("metadata.name", &metadata.name);
    wrong.extend_at("metadata.namespace", wrong_with_name(&metadata.namespace));
    wrong.labels("metadata.labels", &metadata.labels);
}

fn strategy(wrong: &mut Mistakes, replicas: u32, strategy: &Strategy) {
    let Some(rolling) = &strategy.rolling_update else {
        return;
    };
    if strategy.kind == StrategyType::Recreate {
        wrong.say("spec.strategy.rollingUpdate", "goes with type: RollingUpdate alone");
    }
    let is_none = |share: Share| matches!(share, Share::Count(0) | Share::Percent(0));
    if replicas > 0 && is_none(rolling.max_surge) && is_none(rolling.max_unavailable) {
        let message = "is 0, and so is maxSurge: nothing could be renewed";
        wrong.say("spec.strategy.rollingUpdate.maxUnavailable", message);
    }
}

fn pod(wrong: &mut Mistakes, pod: &PodSpec) {
    let path = "spec.template.spec";
    if let Some(name) = pod
        .runtime_class_name
        .as_deref()
        .filter(|name| !RUNTIMES.contains(name))
    {
        let meant = nearest(name, RUNTIMES).map_or_else(
            || "it is docker, oci or process".to_owned(),
            |meant| format!("did you mean {meant:?}?"),
        );
        wrong.say(
            format!("{path}.runtimeClassName"),
            format!("unknown runtime {name:?}; {meant}"),
        );
    }
    if pod.containers.is_empty() {
        wrong.say(
            format!("{path}.containers"),
            "is empty; an application has at least one container",
        );
    }
    if pod.host_users == Some(false) && pod.host_network {
        wrong.say(
            format!("{path}.hostUsers"),
            "cannot be false with hostNetwork: true; leave one of them out",
        );
    }
    if let Some(name) = &pod.hostname {
        wrong.host_name(&format!("{path}.hostname"), name);
    }
    wrong.labels(&format!("{path}.nodeSelector"), &pod.node_selector);
    volumes(wrong, &format!("{path}.volumes"), &pod.volumes);
    let (mut names, mut host_ports) = (Once::default(), Once::default());
    for (field, containers) in [
        ("initContainers", &pod.init_containers),
        ("containers", &pod.containers),
    ] {
        for (i, one) in containers.iter().enumerate() {
            let path = format!("{path}.{field}[{i}]");
            wrong.host_name(&format!("{path}.name"), &one.name);
            wrong.once(&mut names, &format!("{path}.name"), one.name.clone());
            container(wrong, &path, one, &pod.volumes);
            for (i, port) in one.ports.iter().enumerate() {
                host_port(
                    wrong,
                    &format!("{path}.ports[{i}]"),
                    port,
                    pod.host_network,
                    &mut host_ports,
                );
            }
        }
    }
    for (i, one) in pod.init_containers.iter().enumerate() {
        let probes = [
            ("livenessProbe", &one.liveness_probe),
            ("readinessProbe", &one.readiness_probe),
            ("startupProbe", &one.startup_probe),
        ];
        for (field, _) in probes.into_iter().filter(|(_, probe)| probe.is_some()) {
            let message = "an init container ends before it could be asked; leave it out";
            wrong.say(format!("{path}.initContainers[{i}].{field}"), message);
        }
    }
}

fn host_port(
    wrong: &mut Mistakes,
    path: &str,
    port: &ContainerPort,
    is_on_host: bool,
    taken: &mut Once<(u16, Protocol, Option<std::net::IpAddr>)>,
) {
    let path = format!("{path}.hostPort");
    if let Some(number) = port.host_port {
        wrong.port(&path, number);
        wrong.once(taken, &path, (number, port.protocol, port.host_ip));
        if is_on_host && number != port.container_port {
            wrong.say(
                path,
                format!("with hostNetwork it can be no other than {}", port.container_port),
            );
        }
    }
}

fn container(wrong: &mut Mistakes, path: &str, container: &Container, volumes: &[Volume]) {
    if container.image.trim().is_empty() || container.image.contains(char::is_whitespace) {
        let message = format!(
            "{:?} is no image; write one such as registry.example/web:1.4",
            container.image
        );
        wrong.say(format!("{path}.image"), message);
    }
    if let Some(directory) = &container.working_dir {
        wrong.absolute(&format!("{path}.workingDir"), directory);
    }
    let (mut names, mut ports, mut mounts) = (Once::default(), Once::default(), Once::default());
    for (i, variable) in container.env.iter().enumerate() {
        let path = format!("{path}.env[{i}]");
        env(wrong, &path, variable);
        wrong.once(&mut names, &format!("{path}.name"), variable.name.clone());
    }
    for (i, from) in container.env_from.iter().enumerate() {
        env_from(wrong, &format!("{path}.envFrom[{i}]"), from);
    }
    for (i, port) in container.ports.iter().enumerate() {
        let path = format!("{path}.ports[{i}]");
        wrong.port(&format!("{path}.containerPort"), port.container_port);
        if let Some(name) = &port.name {
            wrong.port_name(&format!("{path}.name"), name);
            wrong.once(&mut ports, &format!("{path}.name"), name.clone());
        }
    }
    for (i, one) in container.volume_mounts.iter().enumerate() {
        let path = format!("{path}.volumeMounts[{i}]");
        mount(wrong, &path, one, volumes);
        wrong.once(&mut mounts, &format!("{path}.mountPath"), one.mount_path.clone());
    }
    let (requests, limits) = (&container.resources.requests, &container.resources.limits);
    let over = [
        ("cpu", requests.cpu > limits.cpu && limits.cpu.is_some()),
        ("memory", requests.memory > limits.memory && limits.memory.is_some()),
    ];
    for (field, _) in over.into_iter().filter(|(_, is_over)| *is_over) {
        wrong.say(format!("{path}.resources.requests.{field}"), "is more than its limit");
    }
    let probes = [
        ("livenessProbe", &container.liveness_probe, true),
        ("readinessProbe", &container.readiness_probe, false),
        ("startupProbe", &container.startup_probe, true),
    ];
    for (field, one, is_once) in probes {
        if let Some(one) = one {
            probe(wrong, &format!("{path}.{field}"), one, is_once, &container.ports);
        }
    }
    if let Some(pre_stop) = &container.lifecycle.pre_stop {
        wrong.command(
            &format!("{path}.lifecycle.preStop.exec.command"),
            &pre_stop.exec.command,
        );
    }
}

fn env(wrong: &mut Mistakes, path: &str, variable: &EnvVar) {
    if variable.name.is_empty() || variable.name.contains(['=', '\0']) {
        wrong.say(
            format!("{path}.name"),
            format!("{:?} is no name of a variable", variable.name),
        );
    }
    match (&variable.value, &variable.value_from) {
        (Some(_), Some(_)) => wrong.say(
            format!("{path}.valueFrom"),
            "there is a value already; leave one of them out",
        ),
        (Some(value), None) if value.contains('\0') => wrong.say(format!("{path}.value"), "has a zero byte in it"),
        (_, Some(from)) => {
            let sources = [from.config_map_key_ref.is_some(), from.secret_key_ref.is_some()];
            wrong.exactly_one(
                &format!("{path}.valueFrom"),
                &sources,
                "configMapKeyRef and secretKeyRef",
            );
        }
        _ => {}
    }
}

fn env_from(wrong: &mut Mistakes, path: &str, from: &EnvFrom) {
    let sources = [from.config_map_ref.is_some(), from.secret_ref.is_some()];
    wrong.exactly_one(path, &sources, "configMapRef and secretRef");
}

fn mount(wrong: &mut Mistakes, path: &str, mount: &VolumeMount, volumes: &[Volume]) {
    let names = volumes.iter().map(|volume| &*volume.name);
    if !names.clone().any(|name| name == mount.name) {
        let help = match nearest(&mount.name, names) {
            Some(meant) => format!("did you mean {meant:?}?"),
            None => "volumes stand at spec.template.spec.volumes".to_owned(),
        };
        wrong.say(
            format!("{path}.name"),
            format!("there is no volume {:?}; {help}", mount.name),
        );
    }
    wrong.absolute(&format!("{path}.mountPath"), &mount.mount_path);
    if let Some(sub_path) = &mount.sub_path {
        wrong.relative(&format!("{path}.subPath"), sub_path);
    }
}

fn volumes(wrong: &mut Mistakes, path: &str, volumes: &[Volume]) {
    let mut names = Once::default();
    for (i, volume) in volumes.iter().enumerate() {
        let path = format!("{path}[{i}]");
        wrong.host_name(&format!("{path}.name"), &volume.name);
        wrong.once(&mut names, &format!("{path}.name"), volume.name.clone());
        let sources = [
            volume.empty_dir.is_some(),
            volume.host_path.is_some(),
            volume.persistent_volume_claim.is_some(),
            volume.config_map.is_some(),
            volume.secret.is_some(),
        ];
        let choices = "emptyDir, hostPath, persistentVolumeClaim, configMap and secret";
        wrong.exactly_one(&path, &sources, choices);
        if let Some(host) = &volume.host_path {
            wrong.absolute(&format!("{path}.hostPath.path"), &host.path);
        }
        if let Some(claim) = &volume.persistent_volume_claim {
            wrong.host_name(&format!("{path}.persistentVolumeClaim.claimName"), &claim.claim_name);
        }
        let items = [
            (
                "configMap",
                volume.config_map.iter().flat_map(|map| &map.items).collect::<Vec<_>>(),
            ),
            (
                "secret",
                volume.secret.iter().flat_map(|secret| &secret.items).collect(),
            ),
        ];
        for (source, items) in items {
            for (i, item) in items.into_iter().enumerate() {
                wrong.relative(&format!("{path}.{source}.items[{i}].path"), &item.path);
            }
        }
    }
}

fn probe(wrong: &mut Mistakes, path: &str, probe: &Probe, is_once: bool, ports: &[ContainerPort]) {
    let ways = [
        probe.exec.is_some(),
        probe.http_get.is_some(),
        probe.tcp_socket.is_some(),
    ];
    wrong.exactly_one(path, &ways, "exec, httpGet and tcpSocket");
    if let Some(exec) = &probe.exec {
        wrong.command(&format!("{path}.exec.command"), &exec.command);
    }
    if let Some(get) = &probe.http_get {
        wrong.port_ref(&format!("{path}.httpGet.port"), &get.port, ports);
        if !get.path.starts_with('/') {
            wrong.say(
                format!("{path}.httpGet.path"),
                format!("{:?} does not begin with /", get.path),
            );
        }
    }
    if let Some(socket) = &probe.tcp_socket {
        wrong.port_ref(&format!("{path}.tcpSocket.port"), &socket.port, ports);
    }
    let counts = [
        ("periodSeconds", probe.period_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ];
    for (field, _) in counts.into_iter().filter(|(_, count)| *count == 0) {
        wrong.say(format!("{path}.{field}"), "is 0; it is at least 1");
    }
    if is_once && probe.success_threshold > 1 {
        wrong.say(format!("{path}.successThreshold"), "is 1 for all but a readinessProbe");
    }
}

fn values(
    wrong: &mut Mistakes,
    (texts, first): (&str, &BTreeMap<String, String>),
    (bytes, second): (&str, &BTreeMap<String, String>),
) {
    for (field, key) in first
        .keys()
        .map(|key| (texts, key))
        .chain(second.keys().map(|key| (bytes, key)))
    {
        let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if key.is_empty() || key.len() > 253 || !key.chars().all(is_fine) || key.starts_with("..") || key == "." {
            let message = "is no key; letters, digits, '-', '_' and '.' are fine, as in a name of a file";
            wrong.say(join(field, key), message);
        }
    }
    for key in first.keys().filter(|key| second.contains_key(*key)) {
        wrong.say(join(bytes, key), format!("stands in {texts} already"));
    }
}

/// What was there before, and where.
type Once<T> = BTreeSet<T>;

/// Sayings of mistakes.
trait Say {
    fn say(&mut self, path: impl Into<String>, message: impl Into<String>);

    fn extend_at(&mut self, path: &str, message: Option<String>) {
        if let Some(message) = message {
            self.say(path, message);
        }
    }

    fn once<T: Ord>(&mut self, before: &mut Once<T>, path: &str, value: T) {
        if !before.insert(value) {
            self.say(path, "is there already");
        }
    }

    fn exactly_one(&mut self, path: &str, are_there: &[bool], choices: &str) {
        if are_there.iter().filter(|is_there| **is_there).count() != 1 {
            self.say(path, format!("has to be exactly one of {choices}"));
        }
    }

    fn labels(&mut self, path: &str, labels: &BTreeMap<String, String>) {
        for (name, value) in labels {
            let message = wrong_with_label(name).or_else(|| wrong_with_value(value));
            self.extend_at(&join(path, name), message);
        }
    }

    /// A label of DNS: names are host names.
    fn host_name(&mut self, path: &str, name: &str) {
        let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = (1..=HOST_NAME_BYTES_MAX).contains(&name.len())
            && name.chars().all(is_fine)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !is_name {
            let message = format!(
                "{name:?} is no name here; it has at most {HOST_NAME_BYTES_MAX} small letters, digits and '-' inside"
            );
            self.say(path, message);
        }
    }

    fn port_name(&mut self, path: &str, name: &str) {
        let is_fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let has_letter = name.chars().any(|c| c.is_ascii_lowercase());
        if name.len() > PORT_NAME_BYTES_MAX || !has_letter || !name.chars().all(is_fine) {
            let message = format!(
                "{name:?} is no name of a port; it has at most {PORT_NAME_BYTES_MAX} small letters, digits and '-', \
                and at least one letter"
            );
            self.say(path, message);
        }
    }

    fn port(&mut self, path: &str, port: u16) {
        if port == 0 {
            self.say(path, "is 0; a port is a number from 1 to 65535");
        }
    }

    fn port_ref(&mut self, path: &str, port: &PortRef, ports: &[ContainerPort]) {
        let PortRef::Name(name) = port else { return };
        let names = ports.iter().filter_map(|port| port.name.as_deref());
        if !names.clone().any(|known| known == name) {
            let help = match nearest(name, names) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => "give one of its ports that name, or write a number".to_owned(),
            };
            self.say(path, format!("the container has no port {name:?}; {help}"));
        }
    }

    fn command(&mut self, path: &str, command: &[String]) {
        if command.first().is_none_or(String::is_empty) {
            self.say(path, "is empty; it has at least a program");
        }
    }

    fn absolute(&mut self, path: &str, value: &str) {
        if !value.starts_with('/') || value.contains('\0') || has_parent(value) {
            self.say(path, format!("{value:?} is no absolute path without .. in it"));
        }
    }

    fn relative(&mut self, path: &str, value: &str) {
        if value.is_empty() || value.starts_with('/') || value.contains('\0') || has_parent(value) {
            self.say(path, format!("{value:?} is no relative path without .. in it"));
        }
    }

    fn base64(&mut self, path: &str, values: &BTreeMap<String, String>) {
        for (key, value) in values {
            let value: String = value.split_whitespace().collect();
            if Base64::decode_vec(&value).is_err() {
                self.say(
                    join(path, key),
                    "is no Base64; a text can be written as stringData of a Secret, or data of a ConfigMap",
                );
            }
        }
    }
}

impl Say for Mistakes {
    fn say(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.push((path.into(), message.into()));
    }
}

fn has_parent(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
