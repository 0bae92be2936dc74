//! `kind: Service`: a name for what is run, and who is sent where.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::container::Protocol;
use super::probe::PortRef;
use super::{Metadata, is_default};

/// A name under which applications are called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Its name, which others call, and its tenant.
    pub metadata: Metadata,
    /// Whom it leads to.
    pub spec: ServiceSpec,
}

/// Whom a service leads to, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// What it is: there is one type.
    #[serde(default, rename = "type", skip_serializing_if = "is_default")]
    pub kind: ServiceType,
    /// The labels of whom it leads to.
    pub selector: BTreeMap<String, String>,
    /// Where it listens.
    pub ports: Vec<ServicePort>,
    /// Whether it leads to other nodes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub internal_traffic_policy: InternalTrafficPolicy,
    /// Whom it rather leads to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_distribution: Option<TrafficDistribution>,
}

/// What a service is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceType {
    /// An address inside.
    #[default]
    #[serde(rename = "ClusterIP")]
    ClusterIp,
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Needed where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// From 1 on.
    pub port: u16,
    /// Of the container; the same by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_port: Option<PortRef>,
    /// How it speaks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub protocol: Protocol,
    /// What is spoken there, such as `http`, `kubernetes.io/h2c` or `mysql`; seen by who leads it where it is not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<String>,
}

/// Whether a service leads to other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InternalTrafficPolicy {
    /// To all nodes of the site.
    #[default]
    Cluster,
    /// To the node of who calls, or nowhere.
    Local,
}

/// Whom a service rather leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrafficDistribution {
    /// Near ones; as Kubernetes called it first.
    PreferClose,
    /// Those of the same zone.
    PreferSameZone,
    /// Those of the same node.
    PreferSameNode,
}
