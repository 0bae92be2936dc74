//! Applications as Kubernetes describes them: the subset that runs on one board, each field as it is there.

pub(crate) mod checks;
mod config;
mod container;
mod deployment;
mod probe;
mod quantities;
mod service;
mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use config::{ConfigMap, Secret};
pub use container::{
    Amounts, Capabilities, Container, ContainerPort, EnvFrom, EnvVar, EnvVarSource, ImagePullPolicy, KeyRef, Protocol,
    Resources, SecurityContext, SourceRef, VolumeMount,
};
pub use deployment::{
    Deployment, DeploymentSpec, LabelSelector, PodSecurityContext, PodSpec, PodTemplate, PullSecret, RestartPolicy,
    RollingUpdate, Share, Strategy, StrategyType, TemplateMetadata,
};
pub use probe::{ExecAction, Handler, HttpGet, HttpHeader, Lifecycle, PortRef, PreStop, Probe, Scheme, TcpSocket};
pub use quantities::{Bytes, Cpu};
pub use service::{InternalTrafficPolicy, Service, ServicePort, ServiceSpec, ServiceType, TrafficDistribution};
pub use volume::{
    ClaimSource, ConfigMapSource, EmptyDir, HostPath, HostPathType, KeyToPath, Medium, SecretSource, Volume,
};

use crate::resource::DEFAULT_TENANT;

/// Applications by their names, which several have at a time.
pub type Deployments = BTreeMap<String, Arc<Deployment>>;

/// Names and labels of a resource of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Unique among those of its kind in its tenant.
    pub name: String,
    /// The tenant.
    #[serde(default = "default_tenant", skip_serializing_if = "is_default_tenant")]
    pub namespace: String,
    /// What it is selected by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What only some programs understand; those that begin with `selvedge.dev/` are this one's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

fn default_tenant() -> String {
    DEFAULT_TENANT.to_owned()
}

fn is_default_tenant(namespace: &str) -> bool {
    namespace == DEFAULT_TENANT
}

/// Whether a field need not be written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
