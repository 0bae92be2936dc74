//! One container of an application.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::probe::{Lifecycle, PortRef, Probe};
use super::{Bytes, Cpu, is_default};

/// What runs, with what, and how it is watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Unique in its application.
    pub name: String,
    /// As registries name it; with `runtimeClassName: process` a program of the host, such as `/usr/bin/node`.
    pub image: String,
    /// When the registry is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<ImagePullPolicy>,
    /// In place of the image's entry point.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// In place of the image's command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Where it starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Its environment; `$(NAME)` stands for a variable before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// All values of configurations, as its environment; what `env` says goes before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<EnvFrom>,
    /// Where it listens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// What it is promised and what it may take.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resources: Resources,
    /// Where it sees which volume.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// While it fails, the container is started anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness_probe: Option<Probe>,
    /// While it fails, nobody is sent there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<Probe>,
    /// Until it succeeds, the others are not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_probe: Option<Probe>,
    /// What is done before it stops.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lifecycle: Lifecycle,
    /// As whom it runs, and what it may.
    #[serde(default, skip_serializing_if = "is_default")]
    pub security_context: SecurityContext,
}

impl Container {
    /// The number of one of its ports; none where it has no port of that name, which it is refused for.
    #[must_use]
    pub fn port(&self, port: &PortRef) -> Option<u16> {
        match port {
            PortRef::Number(number) => Some(*number),
            PortRef::Name(name) => {
                let named = self.ports.iter().find(|port| port.name.as_ref() == Some(name))?;
                Some(named.container_port)
            }
        }
    }
}

/// When the registry is asked for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImagePullPolicy {
    /// At each start.
    Always,
    /// Where it is not here yet.
    IfNotPresent,
    /// It has to be here.
    Never,
}

/// A variable of the environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where its value is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EnvVarSource>,
}

/// Where a value is kept: in exactly one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvVarSource {
    /// In a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<KeyRef>,
    /// In a Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_ref: Option<KeyRef>,
}

/// A value of a ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRef {
    /// Of the ConfigMap or Secret.
    pub name: String,
    /// Of the value.
    pub key: String,
    /// It need not be there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// A ConfigMap or Secret, all values of which are variables: exactly one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvFrom {
    /// Put before the name of each value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefix: String,
    /// A ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<SourceRef>,
    /// A Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SourceRef>,
}

/// A ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRef {
    /// Its name.
    pub name: String,
    /// It need not be there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// Where a container listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerPort {
    /// For who refers to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From 1 on.
    pub container_port: u16,
    /// The port of the edge that leads there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_port: Option<u16>,
    /// The address of the edge that it is opened at; all of them by default.
    #[serde(default, rename = "hostIP", skip_serializing_if = "Option::is_none")]
    pub host_ip: Option<std::net::IpAddr>,
    /// How it speaks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protocol: Protocol,
}

/// What a port speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Protocol {
    /// Connections.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// What a container is promised and what it may take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// What it is promised.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requests: Amounts,
    /// What it may take.
    #[serde(default, skip_serializing_if = "is_default")]
    pub limits: Amounts,
}

/// Amounts of resources. A device of the host, such as `selvedge.dev/ttyUSB0: 1`, is one too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// What it writes outside of volumes.
    #[serde(rename = "ephemeral-storage", skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage: Option<Bytes>,
    /// What it reads each second from each disk of the host.
    #[serde(rename = "selvedge.dev/read-bytes-per-s", skip_serializing_if = "Option::is_none")]
    pub read_bytes_per_s: Option<Bytes>,
    /// What it writes each second to each disk of the host.
    #[serde(rename = "selvedge.dev/write-bytes-per-s", skip_serializing_if = "Option::is_none")]
    pub write_bytes_per_s: Option<Bytes>,
    /// By the name behind `selvedge.dev/`: devices of the host, and `pids`.
    #[serde(flatten)]
    pub others: BTreeMap<String, u32>,
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AmountsVisitor)
    }
}

struct AmountsVisitor;

impl<'de> serde::de::Visitor<'de> for AmountsVisitor {
    type Value = Amounts;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("amounts of resources")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Amounts, A::Error> {
        use serde::de::Error;
        let mut amounts = Amounts::default();
        while let Some(name) = map.next_key::<String>()? {
            match (&*name, name.strip_prefix(OWN_RESOURCES)) {
                ("cpu", _) => amounts.cpu = Some(map.next_value()?),
                ("memory", _) => amounts.memory = Some(map.next_value()?),
                ("ephemeral-storage", _) => amounts.ephemeral_storage = Some(map.next_value()?),
                (_, Some("read-bytes-per-s")) => amounts.read_bytes_per_s = Some(map.next_value()?),
                (_, Some("write-bytes-per-s")) => amounts.write_bytes_per_s = Some(map.next_value()?),
                (_, Some(_)) => _ = amounts.others.insert(name, map.next_value()?),
                _ => {
                    let known = "there are cpu, memory, ephemeral-storage, selvedge.dev/pids, \
                        selvedge.dev/read-bytes-per-s, selvedge.dev/write-bytes-per-s and devices such as \
                        selvedge.dev/ttyUSB0";
                    return Err(A::Error::custom(format!("no resource {name:?}; {known}")));
                }
            }
        }
        Ok(amounts)
    }
}

/// What names of resources begin with that Kubernetes does not know.
const OWN_RESOURCES: &str = "selvedge.dev/";

/// Where a container sees a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeMount {
    /// Of the volume.
    pub name: String,
    /// An absolute path.
    pub mount_path: String,
    /// A part of the volume, which is made where it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    /// Nothing can be changed there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
}

/// As whom a container runs, and what it may.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecurityContext {
    /// In place of the image's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<u32>,
    /// In place of the image's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_group: Option<u32>,
    /// It is not started as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_non_root: Option<bool>,
    /// Only its volumes can be written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_root_filesystem: Option<bool>,
    /// Whether a program in it may get more rights than it has; no by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_privilege_escalation: Option<bool>,
    /// Of Linux.
    #[serde(default, skip_serializing_if = "is_default")]
    pub capabilities: Capabilities,
}

/// Capabilities of Linux, without `CAP_`, or `ALL`; beyond and without those that all containers have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Those it has beyond them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<String>,
    /// Those it has not; with `ALL` it has only those that are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<String>,
}
