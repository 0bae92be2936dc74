//! Which systems can be measured, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::target::Target;

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
    /// Any broker that runs already: `mqtt://host[:port]`.
    Target(Target),
}

/// Names of the arms that need no address.
pub(crate) const NAMED: [(&str, ArmKind); 7] = [
    ("selvedge", ArmKind::Selvedge),
    ("selvedge-tls", ArmKind::SelvedgeTls),
    ("selvedge-low-latency", ArmKind::SelvedgeLowLatency),
    ("mosquitto", ArmKind::Mosquitto),
    ("mosquitto-tls", ArmKind::MosquittoTls),
    ("relay", ArmKind::Relay),
    ("tcp-echo", ArmKind::TcpEcho),
];

impl FromStr for ArmKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if Target::is_meant_by(text) {
            return text.parse().map(ArmKind::Target);
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
        for name in NAMED
            .map(|(name, _)| name)
            .into_iter()
            .chain(["mqtt://broker.example:1884", "mqtts://ann@broker.example:1884"])
        {
            assert_eq!(name.parse::<ArmKind>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn an_unknown_arm_is_told_what_there_is() {
        assert!("mosqitto".parse::<ArmKind>().unwrap_err().contains("mosquitto-tls"));
    }
}
