//! The resources that manifests describe.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::tree::Tree;

/// The `apiVersion` of all resources here.
pub(crate) const API_VERSION: &str = "selvedge.dev/v1";
/// The tenant of a resource whose manifest names none.
pub const DEFAULT_TENANT: &str = "default";

/// Anything that can be applied.
#[derive(Clone, Debug, PartialEq)]
pub enum Resource {
    /// `kind: Device`.
    Device(Device),
    /// `kind: Route`.
    Route(Route),
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
    /// `upstream`: over the link to the cloud.
    Upstream {
        /// Which lane.
        priority: Priority,
    },
}

/// Lane of the link to the cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// `high`: before the others.
    High,
    /// `normal`.
    #[default]
    Normal,
}

impl Resource {
    /// `Device` or `Route`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Resource::Device(_) => "Device",
            Resource::Route(_) => "Route",
        }
    }

    /// Its tenant.
    #[must_use]
    pub fn tenant(&self) -> &str {
        match self {
            Resource::Device(device) => &device.tenant,
            Resource::Route(route) => &route.tenant,
        }
    }

    /// Its name, unique among those of its kind in its tenant.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Resource::Device(device) => &device.name,
            Resource::Route(route) => &route.name,
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
        let spec = match self {
            Resource::Device(device) => device.spec(),
            Resource::Route(route) => route.spec(),
        };
        Tree::Map(vec![
            field("apiVersion", API_VERSION),
            field("kind", self.kind()),
            ("metadata".to_owned(), Tree::Map(metadata)),
            ("spec".to_owned(), Tree::Map(spec)),
        ])
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
            Target::Upstream { priority } => (
                "upstream".to_owned(),
                Tree::Map(vec![field("priority", priority.as_str())]),
            ),
        };
        Tree::Map(vec![(name, value)])
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
