//! `kind: Deployment`: an application and how it is renewed.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::container::Container;
use super::volume::Volume;
use super::{Metadata, is_default};

/// An application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// Its name and its tenant.
    pub metadata: Metadata,
    /// What shall run.
    pub spec: DeploymentSpec,
}

/// What shall run, how often, and how it is renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentSpec {
    /// How many of it.
    #[serde(default = "one")]
    pub replicas: u32,
    /// The labels that the template has.
    pub selector: LabelSelector,
    /// How it is renewed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub strategy: Strategy,
    /// It counts as ready once it has been for so long.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_ready_seconds: u32,
    /// A renewal that has not come so far by then is rolled back.
    #[serde(default = "ten_minutes")]
    pub progress_deadline_seconds: u32,
    /// What is run.
    pub template: PodTemplate,
}

fn one() -> u32 {
    1
}

fn ten_minutes() -> u32 {
    600
}

/// Labels that something is found by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// All of them.
    pub match_labels: BTreeMap<String, String>,
}

/// How an application is renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// Which of the two ways.
    #[serde(default, rename = "type", skip_serializing_if = "is_default")]
    pub kind: StrategyType,
    /// How far old and new overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
}

/// The ways of renewing an application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrategyType {
    /// The new one is started, and the old one stopped once that is ready.
    #[default]
    RollingUpdate,
    /// The old one is stopped first.
    Recreate,
}

/// How far old and new replicas overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// So many more than wanted may run.
    #[serde(default = "quarter")]
    pub max_surge: Share,
    /// So many fewer than wanted may be ready.
    #[serde(default = "quarter")]
    pub max_unavailable: Share,
}

fn quarter() -> Share {
    Share::Percent(25)
}

impl Default for RollingUpdate {
    fn default() -> Self {
        RollingUpdate {
            max_surge: quarter(),
            max_unavailable: quarter(),
        }
    }
}

/// Of the replicas so many, or so many of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// So many.
    Count(u32),
    /// `25%`.
    Percent(u32),
}

impl Share {
    /// Of so many; what is left of a part counts as none.
    #[must_use]
    pub fn rounded_down(self, replicas: u32) -> u32 {
        match self {
            Share::Count(count) => count,
            Share::Percent(percent) => (u64::from(replicas) * u64::from(percent) / 100)
                .try_into()
                .unwrap_or(u32::MAX),
        }
    }

    /// Of so many; what is left of a part counts as one.
    #[must_use]
    pub fn rounded_up(self, replicas: u32) -> u32 {
        match self {
            Share::Count(count) => count,
            Share::Percent(percent) => {
                let hundreds = (u64::from(replicas) * u64::from(percent)).div_ceil(100);
                hundreds.try_into().unwrap_or(u32::MAX)
            }
        }
    }
}

impl<'de> Deserialize<'de> for Share {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Replicas;
        impl Visitor<'_> for Replicas {
            type Value = Share;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of replicas, or a share such as 25%")
            }

            fn visit_i64<E: de::Error>(self, count: i64) -> Result<Share, E> {
                let count = u32::try_from(count).map_err(|_| E::custom(format!("{count} is out of range")))?;
                Ok(Share::Count(count))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Share, E> {
                let percent = text.strip_suffix('%').and_then(|percent| percent.parse().ok());
                let wrong = || E::custom(format!("{text:?} is no share; write a number, or one such as 25%"));
                percent.map(Share::Percent).ok_or_else(wrong)
            }
        }
        deserializer.deserialize_any(Replicas)
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Share::Count(count) => serializer.serialize_u32(*count),
            Share::Percent(percent) => serializer.collect_str(&format_args!("{percent}%")),
        }
    }
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodTemplate {
    /// What services find it by.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata: TemplateMetadata,
    /// Its containers and what they share.
    pub spec: PodSpec,
}

/// Labels of what is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateMetadata {
    /// What services find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What only some programs understand.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Containers that run together, with one network and one life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    /// How it is run: `docker`, `oci` or `process`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// One after the other, each until it ends with 0, before the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Container>,
    /// All together.
    pub containers: Vec<Container>,
    /// What they keep their files in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// When a container that has ended is started anew.
    #[serde(default, skip_serializing_if = "is_default")]
    pub restart_policy: RestartPolicy,
    /// Labels of the edges that it runs on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// From the request to stop until it is made to.
    #[serde(default = "half_a_minute")]
    pub termination_grace_period_seconds: u32,
    /// It has the network of the host instead of its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub host_network: bool,
    /// Its users are those of the host, or its own where it is `false`; the host's where it is not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
    /// Its host name; its own name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Secrets that registries are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<PullSecret>,
    /// As whom its containers run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub security_context: PodSecurityContext,
    /// Whether its containers are given a login for the hub of their edge; they are where it is not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub automount_service_account_token: Option<bool>,
}

fn half_a_minute() -> u32 {
    30
}

/// When a container that has ended is started anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestartPolicy {
    /// Each time.
    #[default]
    Always,
}

/// A Secret that registries are shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PullSecret {
    /// Its name.
    pub name: String,
}

/// As whom containers run that do not say so themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSecurityContext {
    /// In place of the image's user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<u32>,
    /// In place of the image's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_group: Option<u32>,
    /// None is started as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_as_non_root: Option<bool>,
    /// The group that volumes belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fs_group: Option<u32>,
}
