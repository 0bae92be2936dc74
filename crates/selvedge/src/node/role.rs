//! What the program is: an edge or the cloud end.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use super::config::{Config, Listen};

/// What the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A gateway: devices and applications, with or without a cloud.
    Edge,
    /// What edges connect to, with a database.
    Cloud,
}

/// Where an edge keeps what survives a restart, unless told otherwise.
pub(crate) const EDGE_DATA: &str = "./selvedge-data/edge";
/// Where a cloud does.
const CLOUD_DATA: &str = "./selvedge-data/cloud";

impl Role {
    /// As commands name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Edge => "edge",
            Role::Cloud => "cloud",
        }
    }

    /// Its data directory, unless it is told another.
    pub(crate) fn data(self) -> &'static str {
        match self {
            Role::Edge => EDGE_DATA,
            Role::Cloud => CLOUD_DATA,
        }
    }

    /// The configuration where nothing is configured.
    pub(crate) fn defaults(self) -> Config {
        let here = |port| vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port))];
        match self {
            Role::Edge => Config::default(),
            Role::Cloud => Config {
                data: PathBuf::from(CLOUD_DATA),
                listen: Listen {
                    mqtt: Vec::new(),
                    mqtts: here(8883),
                    http: here(8080),
                    https: here(8443),
                    ..Listen::default()
                },
                ..Config::default()
            },
        }
    }
}
