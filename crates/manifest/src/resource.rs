//! The resources that manifests describe.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::quantity;
use crate::tree::Tree;
use crate::workload::{ConfigMap, Deployment, Metadata, Secret, Service};

/// The `apiVersion` of resources that Kubernetes does not know.
pub(crate) const API_VERSION: &str = "selvedge.dev/v1";
/// All kinds with their `apiVersion`.
pub(crate) const KINDS: [(&str, &str); 6] = [
    (API_VERSION, "Device"),
    (API_VERSION, "Route"),
    ("apps/v1", "Deployment"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
];
/// The tenant of a resource whose manifest names none.
pub const DEFAULT_TENANT: &str = "default";

/// Anything that can be applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// `kind: Device`.
    Device(Device),
    /// `kind: Route`.
    Route(Route),
    /// `kind: Deployment`.
    Deployment(Box<Deployment>),
    /// `kind: Service`.
    Service(Service),
    /// `kind: ConfigMap`.
    ConfigMap(ConfigMap),
    /// `kind: Secret`.
    Secret(Secret),
}

/// A device: its labels and what is desired of it. Its credentials are never in a manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// `metadata.namespace`; a tenant is a namespace on a cluster.
    pub tenant: String,
    /// `metadata.name`: the device's id.
    pub name: String,
    /// `spec.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.desired`: a merge patch of its desired state; `None` leaves it to others.
    pub desired: Option<Map<String, Value>>,
}

/// A route: where copies of which messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// `metadata.namespace`; a tenant is a namespace on a cluster.
    pub tenant: String,
    /// `metadata.name`.
    pub name: String,
    /// `spec.from`: an MQTT topic filter.
    pub from: String,
    /// `spec.when`: a CEL condition on the message.
    pub when: Option<String>,
    /// `spec.to`: at least one.
    pub to: Vec<Target>,
}

/// Where a copy goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `topic`: published again, to the topic that this template makes.
    Topic(String),
    /// `method`: calls a method of a device.
    Method {
        /// Template of the device's id.
        device: String,
        /// The method.
        name: String,
        /// Template of the payload; `None` sends that of the message.
        payload: Option<String>,
    },
    /// `upstream`: to the cloud.
    Upstream(Upstream),
}

/// How a route's messages wait for the cloud while the line is slow or cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upstream {
    /// `priority`: whose turn comes more often.
    pub priority: Priority,
    /// `limit`: bytes of the route's messages that may wait, such as `64Mi`; `None`: as many as all routes together
    /// may.
    pub limit_bytes: Option<u64>,
    /// `full`: what happens to a message for which there is no room.
    pub full: WhenFull,
    /// `expiry`: seconds after which a message that still waits is dropped, written as `90s`, `15m`, `24h` or `7d`;
    /// `None`: it waits for ever.
    pub expiry_s: Option<u32>,
}

/// How often a route has its turn on a line that cannot carry all at once. None starves: each gets its share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// `high`: four times the bytes of `normal`.
    High,
    /// `normal`.
    #[default]
    Normal,
}

/// What happens to a message for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// `drop-oldest`: it takes the place of those that waited longest.
    #[default]
    DropOldest,
    /// `drop-newest`: it is dropped.
    DropNewest,
    /// `refuse`: its sender is told (MQTT 5: 0x97; 3.1.1: no acknowledgement, and the connection ends).
    Refuse,
}

impl Resource {
    /// As it is written, such as `Route`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Resource::Device(_) => "Device",
            Resource::Route(_) => "Route",
            Resource::Deployment(_) => "Deployment",
            Resource::Service(_) => "Service",
            Resource::ConfigMap(_) => "ConfigMap",
            Resource::Secret(_) => "Secret",
        }
    }

    /// Of a resource of Kubernetes.
    fn metadata(&self) -> Option<&Metadata> {
        match self {
            Resource::Device(_) | Resource::Route(_) => None,
            Resource::Deployment(deployment) => Some(&deployment.metadata),
            Resource::Service(service) => Some(&service.metadata),
            Resource::ConfigMap(map) => Some(&map.metadata),
            Resource::Secret(secret) => Some(&secret.metadata),
        }
    }

    /// Its tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        match self {
            Resource::Device(device) => &device.tenant,
            Resource::Route(route) => &route.tenant,
            _ => self.metadata().map_or(DEFAULT_TENANT, |metadata| &metadata.namespace),
        }
    }

    /// Its name, unique among those of its kind in its tenant.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Resource::Device(device) => &device.name,
            Resource::Route(route) => &route.name,
            _ => self.metadata().map_or("", |metadata| &metadata.name),
        }
    }

    /// Whether both are the same resource, perhaps with different contents.
    #[must_use]
    pub fn same_as(&self, other: &Resource) -> bool {
        self.key() == other.key()
    }

    /// `Route/water-alarm`, with the tenant in front where it is not the default one.
    #[must_use]
    pub fn title(&self) -> String {
        match self.tenant() {
            DEFAULT_TENANT => format!("{}/{}", self.kind(), self.name()),
            tenant => format!("{tenant}/{}/{}", self.kind(), self.name()),
        }
    }

    /// A manifest that describes it.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        self.tree().to_yaml()
    }

    pub(crate) fn key(&self) -> (&str, &'static str, &str) {
        (self.tenant(), self.kind(), self.name())
    }

    pub(crate) fn tree(&self) -> Tree {
        let mut metadata = vec![field("name", self.name())];
        if self.tenant() != DEFAULT_TENANT {
            metadata.push(field("namespace", self.tenant()));
        }
        let own = |spec| {
            Tree::Map(vec![
                ("metadata".to_owned(), Tree::Map(metadata)),
                ("spec".to_owned(), Tree::Map(spec)),
            ])
        };
        let described = match self {
            Resource::Device(device) => own(device.spec()),
            Resource::Route(route) => own(route.spec()),
            Resource::Deployment(deployment) => Tree::of(deployment),
            Resource::Service(service) => Tree::of(service),
            Resource::ConfigMap(map) => Tree::of(map),
            Resource::Secret(secret) => Tree::of(secret),
        };
        let (version, kind) = KINDS
            .into_iter()
            .find(|(_, kind)| *kind == self.kind())
            .expect("all kinds are there");
        let mut fields = vec![field("apiVersion", version), field("kind", kind)];
        if let Tree::Map(described) = described {
            fields.extend(described);
        }
        Tree::Map(fields)
    }
}

type Fields = Vec<(String, Tree)>;

impl Device {
    fn spec(&self) -> Fields {
        let mut spec = Fields::new();
        if !self.labels.is_empty() {
            let labels = self.labels.iter().map(|(name, value)| field(name, value)).collect();
            spec.push(("labels".to_owned(), Tree::Map(labels)));
        }
        if let Some(desired) = &self.desired {
            spec.push(("desired".to_owned(), Tree::from_members(desired)));
        }
        spec
    }
}

impl Route {
    fn spec(&self) -> Fields {
        let mut spec = vec![field("from", &self.from)];
        spec.extend(self.when.as_ref().map(|when| field("when", when)));
        spec.push(("to".to_owned(), Tree::List(self.to.iter().map(Target::tree).collect())));
        spec
    }
}

impl Target {
    fn tree(&self) -> Tree {
        let (name, value) = match self {
            Target::Topic(topic) => field("topic", topic),
            Target::Method { device, name, payload } => {
                let mut method = vec![field("device", device), field("name", name)];
                method.extend(payload.as_ref().map(|payload| field("payload", payload)));
                ("method".to_owned(), Tree::Map(method))
            }
            Target::Upstream(upstream) => ("upstream".to_owned(), Tree::Map(upstream.fields())),
        };
        Tree::Map(vec![(name, value)])
    }
}

impl Upstream {
    fn fields(&self) -> Fields {
        let mut fields = vec![field("priority", self.priority.as_str())];
        fields.extend(
            self.limit_bytes
                .map(|bytes| field("limit", &quantity::bytes_to_text(bytes))),
        );
        if self.full != WhenFull::default() {
            fields.push(field("full", self.full.as_str()));
        }
        fields.extend(self.expiry_s.map(|s| field("expiry", &quantity::seconds_to_text(s))));
        fields
    }
}

impl WhenFull {
    pub(crate) const ALL: [WhenFull; 3] = [WhenFull::DropOldest, WhenFull::DropNewest, WhenFull::Refuse];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            WhenFull::DropOldest => "drop-oldest",
            WhenFull::DropNewest => "drop-newest",
            WhenFull::Refuse => "refuse",
        }
    }
}

impl Priority {
    pub(crate) const ALL: [Priority; 2] = [Priority::High, Priority::Normal];

    /// As it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::High => "high",
            Priority::Normal => "normal",
        }
    }
}

fn field(name: &str, value: &str) -> (String, Tree) {
    (name.to_owned(), Tree::Text(value.to_owned()))
}
