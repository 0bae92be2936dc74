//! Applications, as the API shows them.

use std::net::Ipv4Addr;

use seal::Passphrase;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::passphrase;

/// An application, and what it does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeploymentInfo {
    /// Its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Replicas that are wanted: where they follow what comes, now.
    pub replicas: u32,
    /// As many as there may be where they follow what comes; else as many as are wanted.
    pub max_replicas: u32,
    /// Those of which all containers are ready; `None`: no edge runs here, and nothing is known of it.
    pub ready: Option<u32>,
    /// What becomes of its new version; `None`: all replicas are of it, or there was none before it.
    pub rollout: Option<RolloutInfo>,
    /// Starts of its containers beyond the first of each, since it was applied so or the edge started.
    pub restarts: u32,
    /// What it refers to and is not there, such as a ConfigMap: until then what ran before runs on.
    pub waits_for: Vec<String>,
    /// Whether it runs on demand, and nobody asks it.
    pub sleeps: bool,
    /// Why ports of the edge do not lead to it.
    pub closed_doors: Vec<String>,
    /// Its containers, of each replica.
    pub containers: Vec<ContainerInfo>,
}

/// What becomes of a new version of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RolloutInfo {
    /// It takes the place of the last good one.
    Rolling {
        /// So many replicas of it are available.
        available: u32,
        /// Of so many.
        of: u32,
    },
    /// It did not become available, and the last good one runs in its place.
    TakenBack {
        /// In words.
        why: String,
    },
}

/// A container of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContainerInfo {
    /// Its name in its application.
    pub name: String,
    /// Which of several that are the same, from 0 on.
    pub replica: u32,
    /// Whether it runs once, before the others of its replica.
    pub is_init: bool,
    /// Whether it has come to its good end, where it is to.
    pub is_done: bool,
    /// The name of its start, which its files in the edge's data directory have; none before the first.
    pub start: Option<String>,
    /// Whether its image is being brought here.
    pub is_preparing: bool,
    /// Whether it runs.
    pub is_running: bool,
    /// Whether it runs, and its time stands still until somebody asks.
    pub is_paused: bool,
    /// Where it is reached while it runs, if it has a network of its own.
    #[schema(value_type = Option<String>)]
    pub address: Option<Ipv4Addr>,
    /// Whether it runs and is ready, if there is a probe for that.
    pub is_ready: bool,
    /// Why it is not ready, in the words of the probe.
    pub not_ready: Option<String>,
    /// Starts beyond the first, since it was applied so or the edge started.
    pub restarts: u32,
    /// How it ended the last time.
    pub last_end: Option<ContainerEnd>,
    /// Why it cannot be started, stopped or looked at, or why it was ended: it did not live.
    pub trouble: Option<String>,
}

/// The end of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContainerEnd {
    /// In words, such as `exited with 1`.
    pub how: String,
    /// ms since 1970 UTC.
    pub at_ms: i64,
}

/// Something that has happened to a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventInfo {
    /// Of its application.
    pub deployment: String,
    /// Which of several that are the same.
    pub replica: u32,
    /// Its name there; empty: it is of the application as a whole.
    pub container: String,
    /// `waiting`, `started`, `ready`, `ended`, `unhealthy`, `evicted`, `failed`, `stopped`, `paused`, `taken-back` or
    /// `snapshot-failed`.
    pub what: String,
    /// How, or why.
    pub message: String,
    /// The last time, in ms since 1970 UTC.
    pub at_ms: i64,
    /// How often the very same has happened.
    pub times: u32,
}

/// What a container has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UsageInfo {
    /// Of its application.
    pub deployment: String,
    /// Which of several that are the same.
    pub replica: u32,
    /// Its name there.
    pub container: String,
    /// The name of its start: what it has taken counts from there on.
    pub start: String,
    /// Processor time, µs.
    pub cpu_us: u64,
    /// Memory now.
    pub memory_bytes: u64,
    /// Processes and threads now.
    pub pids: u64,
    /// Processes that were killed because there was no memory left within the limit.
    pub oom_kills: u64,
    /// Bytes that its processes of now have read from disks.
    pub read_bytes: u64,
    /// Bytes that they have written to disks.
    pub written_bytes: u64,
    /// Thousandths of a core that it may take.
    pub cpu_limit_millis: Option<u32>,
    /// Memory that it may take.
    pub memory_limit_bytes: Option<u64>,
    /// Processes and threads that it may have.
    pub pids_limit: Option<u32>,
    /// Bytes that it may read each second from each disk.
    pub read_limit_bytes_per_s: Option<u64>,
    /// Bytes that it may write each second to each disk.
    pub write_limit_bytes_per_s: Option<u64>,
}

/// A ConfigMap or Secret, without its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValuesInfo {
    /// Its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Names of its values.
    pub keys: Vec<String>,
}

/// A service: a name and an address for applications.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceInfo {
    /// Its tenant.
    pub tenant: String,
    /// Its name, by which containers of the tenant find it.
    pub name: String,
    /// Where containers and the edge itself reach it; none: it has none, or no edge runs here.
    #[schema(value_type = Option<String>)]
    pub address: Option<Ipv4Addr>,
    /// Where it listens there.
    pub ports: Vec<u16>,
    /// Applications that it leads to.
    pub deployments: Vec<String>,
    /// What other nodes of the site have of it.
    pub elsewhere: Vec<ServiceNode>,
    /// Why it does not listen.
    pub closed_doors: Vec<String>,
}

/// What another node of the site has of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServiceNode {
    /// Its name.
    pub node: String,
    /// Replicas that are ready there; none where it is silent.
    pub ready: u16,
    /// Whether a request wakes some, and none is ready.
    pub sleeps: bool,
}

/// A snapshot of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SnapshotInfo {
    /// Its tenant.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// The application.
    pub deployment: String,
    /// Of its manifest: what is the same has the same.
    pub digest: String,
    /// When it was taken.
    pub created: String,
    /// Whether its schedule asked for it.
    pub is_scheduled: bool,
    /// Of all that it refers to.
    pub bytes: u64,
    /// Of what no other refers to.
    pub own_bytes: u64,
    /// What was run in the application before.
    pub hook: Option<String>,
    /// For how long the application stood still; `null`: none of it ran.
    pub paused_ms: Option<u64>,
    /// What its containers are made of.
    pub images: Vec<ImageInSnapshot>,
    /// Its volumes.
    pub volumes: Vec<VolumeInSnapshot>,
    /// Names of the Secrets that are sealed in it.
    pub secrets: Vec<String>,
    /// What of the application is not in it, in words.
    pub left_out: Vec<String>,
}

/// An image of an application in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImageInSnapshot {
    /// As the manifest names it.
    pub name: String,
    /// Of its manifest, which is in the snapshot; `null`: only its name is.
    pub digest: Option<String>,
}

/// A volume in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeInSnapshot {
    /// Its claim.
    pub name: String,
    /// Of its archive, as it was before it was compressed.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
}

/// A snapshot to be taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TakeSnapshot {
    /// Its name; that of the application and the time where it has none.
    #[serde(default)]
    pub name: Option<String>,
    /// What its Secrets are sealed by, in Base64; without it they are left out. It takes a user of the whole edge.
    #[serde(default, with = "passphrase")]
    #[schema(value_type = Option<String>, format = Byte)]
    pub passphrase: Option<Passphrase>,
}

/// How a snapshot is restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Restore {
    /// The application's new name: it comes back beside the one that is there, with volumes of its own.
    #[serde(default)]
    pub restore_as: Option<String>,
    /// What is in its volumes goes.
    #[serde(default)]
    pub is_forced: bool,
    /// What its Secrets were sealed by, in Base64.
    #[serde(default, with = "passphrase")]
    #[schema(value_type = Option<String>, format = Byte)]
    pub passphrase: Option<Passphrase>,
}

/// What was restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Restored {
    /// Volumes, by their claims.
    pub volumes: Vec<String>,
    /// What was changed of manifests.
    pub changes: Vec<String>,
    /// What was so already.
    pub unchanged: Vec<String>,
}
