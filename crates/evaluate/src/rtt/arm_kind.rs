//! Which systems can be measured, by name.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::gateway::Runtime;

/// A system under test, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ArmKind {
    /// Our hub with passwords, ACL, a route and twins.
    Selvedge,
    /// The same under TLS.
    SelvedgeTls,
    /// The same, spinning for a short time before it sleeps.
    SelvedgeLowLatency,
    /// Mosquitto, anonymous, nothing switched on.
    Mosquitto,
    /// Mosquitto, anonymous, under TLS.
    MosquittoTls,
    /// A TCP relay of the same four hops: the floor of any broker.
    Relay,
    /// A TCP server that answers by itself, two hops: the first paper's socket baseline.
    TcpEcho,
    /// The first paper's D-C: devices at the cloud's hub, the edge's host routes.
    DeviceCloud,
    /// Its D-E-C: devices at the edge's hub, which is linked to the cloud's.
    DeviceEdgeCloud,
    /// The same with durability `disk` instead of `os`.
    DeviceEdgeCloudDisk,
    /// Its D-E: devices and responder at the edge's hub, on the models' network.
    DeviceEdge,
    /// Any broker that runs already: `mqtt://host[:port]`.
    Target(Target),
    /// One of those that need a responder, with that as a process of its own beside the hub, instead of one of the
    /// generator: `mosquitto+responder`.
    WithResponder(Box<ArmKind>),
    /// One of the systems that this program starts, run by an edge in a runtime, with the host's network:
    /// `mosquitto@oci`; its responder too, where that is a process of its own: `mosquitto+responder@oci`.
    In(Runtime, Box<ArmKind>),
}

/// Names of the arms that need no address.
pub(crate) const NAMED: [(&str, ArmKind); 11] = [
    ("selvedge", ArmKind::Selvedge),
    ("selvedge-tls", ArmKind::SelvedgeTls),
    ("selvedge-low-latency", ArmKind::SelvedgeLowLatency),
    ("mosquitto", ArmKind::Mosquitto),
    ("mosquitto-tls", ArmKind::MosquittoTls),
    ("relay", ArmKind::Relay),
    ("tcp-echo", ArmKind::TcpEcho),
    ("d-c", ArmKind::DeviceCloud),
    ("d-e-c", ArmKind::DeviceEdgeCloud),
    ("d-e-c-disk", ArmKind::DeviceEdgeCloudDisk),
    ("d-e", ArmKind::DeviceEdge),
];

/// What stands behind the name of an arm whose responder is a process of its own.
const WITH_RESPONDER: &str = "+responder";

/// The paper's models, in its order.
pub(crate) const MODELS: [ArmKind; 3] = [ArmKind::DeviceCloud, ArmKind::DeviceEdgeCloud, ArmKind::DeviceEdge];

impl ArmKind {
    /// Whether it is one of the first paper's models, which need its network.
    pub fn is_model(&self) -> bool {
        self.crosses_line() || *self == ArmKind::DeviceEdge
    }

    /// Whether its messages go over the line between edge and cloud.
    pub fn crosses_line(&self) -> bool {
        matches!(
            self,
            ArmKind::DeviceCloud | ArmKind::DeviceEdgeCloud | ArmKind::DeviceEdgeCloudDisk
        )
    }

    /// The same with a responder that is a process of its own; none where there is none, or its connection is not
    /// plain.
    pub(crate) fn with_responder(&self) -> Option<ArmKind> {
        let can = matches!(
            self,
            ArmKind::Selvedge | ArmKind::SelvedgeLowLatency | ArmKind::Mosquitto | ArmKind::Relay
        );
        can.then(|| ArmKind::WithResponder(Box::new(self.clone())))
    }

    /// A model by its name.
    pub(crate) fn model(text: &str) -> Result<ArmKind, String> {
        let kind: Option<ArmKind> = text.parse().ok().filter(ArmKind::is_model);
        kind.ok_or_else(|| format!("no model `{text}`: d-c, d-e-c, d-e, or d-e-c-disk"))
    }
}

impl FromStr for ArmKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if Target::is_meant_by(text) {
            return text.parse().map(ArmKind::Target);
        }
        if let Some((inner, runtime)) = text.rsplit_once('@') {
            let runtime = Runtime::from_str(runtime, true)?;
            return Ok(ArmKind::In(runtime, Box::new(inner.parse()?)));
        }
        if let Some(inner) = text.strip_suffix(WITH_RESPONDER) {
            let inner: ArmKind = inner.parse()?;
            return inner.with_responder().ok_or_else(|| {
                format!("no arm `{text}`: selvedge, selvedge-low-latency, mosquitto and relay can have a responder of their own")
            });
        }
        let known = NAMED.into_iter().find(|(name, _)| *name == text);
        known.map(|(_, kind)| kind).ok_or_else(|| {
            let names = NAMED.map(|(name, _)| name).join(", ");
            format!("no arm `{text}`: choose among {names} and mqtt://host[:port]")
        })
    }
}

impl fmt::Display for ArmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArmKind::Target(target) => target.fmt(f),
            ArmKind::In(runtime, inner) => {
                let value = runtime.to_possible_value();
                write!(f, "{inner}@{}", value.as_ref().map_or("", |value| value.get_name()))
            }
            ArmKind::WithResponder(inner) => write!(f, "{inner}{WITH_RESPONDER}"),
            named => f.write_str(
                NAMED
                    .iter()
                    .find(|(_, kind)| kind == named)
                    .map_or("", |(name, _)| name),
            ),
        }
    }
}

impl TryFrom<String> for ArmKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ArmKind> for String {
    fn from(kind: ArmKind) -> String {
        kind.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arm_is_read_back_from_its_name() {
        for name in NAMED.map(|(name, _)| name).into_iter().chain([
            "mosquitto@oci",
            "tcp-echo@docker",
            "selvedge+responder",
            "relay+responder@process",
            "mqtt://broker.example:1884",
            "mqtts://ann@broker.example:1884",
        ]) {
            assert_eq!(name.parse::<ArmKind>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn an_unknown_arm_is_told_what_there_is() {
        for refused in ["tcp-echo+responder", "selvedge-tls+responder", "d-e+responder@oci"] {
            assert!(
                refused.parse::<ArmKind>().unwrap_err().contains("can have a responder"),
                "{refused}"
            );
        }
        assert!("mosqitto".parse::<ArmKind>().unwrap_err().contains("mosquitto-tls"));
    }
}
