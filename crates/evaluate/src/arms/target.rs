//! A broker that runs already, somewhere: reached, not started.

use std::net::{SocketAddr, ToSocketAddrs};

use super::RunningArm;
use super::mosquitto::EVERY_TELEMETRY;
use crate::generator::fleet::{Access, Protocol};
use crate::generator::socket::Endpoint;

/// `url` is `mqtt://host:port`.
pub(super) fn reach(url: &str) -> Result<RunningArm, String> {
    let address = resolve(url.trim_start_matches("mqtt://")).map_err(|error| format!("{url}: {error}"))?;
    let protocol = Protocol::Mqtt {
        responder_filter: EVERY_TELEMETRY.to_owned(),
        password: None,
    };
    Ok(RunningArm {
        access: Access {
            endpoint: Endpoint { address, tls: None },
            protocol,
        },
        server: None,
        version: "unknown".to_owned(),
        settings: "as it runs".to_owned(),
        ready_ms: None,
    })
}

fn resolve(host_and_port: &str) -> std::io::Result<SocketAddr> {
    let unknown = || std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address");
    host_and_port.to_socket_addrs()?.next().ok_or_else(unknown)
}
