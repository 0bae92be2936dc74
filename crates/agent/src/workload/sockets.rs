//! Sockets that containers take over, as annotations of a Deployment have it.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use manifest::workload::{Container, ContainerPort, Deployment, Protocol};

use super::kind;
use crate::runtime::Kind;
use crate::sockets::{At, Listening, SOCKETS_MAX};

/// Whether containers take over the sockets of their ports of the edge (`sd_listen_fds(3)`).
pub const LISTEN_FDS: &str = "selvedge.dev/listen-fds";
/// The name of a Unix socket of the edge that leads to the first container.
pub const UNIX_SOCKET: &str = "selvedge.dev/unix-socket";

/// Whether containers take over their sockets.
#[must_use]
pub fn take_sockets(deployment: &Deployment) -> bool {
    let annotation = deployment.metadata.annotations.get(LISTEN_FDS);
    annotation.is_some_and(|value| value == "true")
}

/// The Unix socket that leads to its first container.
#[must_use]
pub fn unix_socket(deployment: &Deployment) -> Option<At> {
    let name = deployment.metadata.annotations.get(UNIX_SOCKET)?;
    Some(At::Unix {
        tenant: deployment.metadata.namespace.clone(),
        name: name.clone(),
    })
}

/// Where a port of a container is a port of the edge.
#[must_use]
pub fn at_edge(port: &ContainerPort) -> Option<SocketAddrV4> {
    let host = port.host_port.filter(|_| port.protocol == Protocol::Tcp)?;
    match port.host_ip {
        None => Some(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, host)),
        Some(IpAddr::V4(address)) => Some(SocketAddrV4::new(address, host)),
        Some(IpAddr::V6(_)) => None,
    }
}

/// Those that a container takes over: in the order of its ports, and the Unix socket last.
pub(super) fn of(deployment: &Deployment, container: &Container) -> Vec<Listening> {
    if !take_sockets(deployment) {
        return Vec::new();
    }
    let ports = container.ports.iter().filter_map(|port| {
        Some(Listening {
            at: At::Tcp(at_edge(port)?),
            name: port.name.clone().unwrap_or_else(|| port.container_port.to_string()),
        })
    });
    let is_first = deployment.spec.template.spec.containers.first() == Some(container);
    let unix = unix_socket(deployment).filter(|_| is_first).map(|at| Listening {
        at,
        name: "unix".to_owned(),
    });
    ports.chain(unix).collect()
}

/// All that containers of a deployment take over.
pub fn taken(deployment: &Deployment) -> impl Iterator<Item = At> {
    let containers = deployment.spec.template.spec.containers.iter();
    containers
        .flat_map(|container| of(deployment, container))
        .map(|socket| socket.at)
}

/// What of the annotations cannot be, as annotation and words.
#[must_use]
pub fn unsupported(deployment: &Deployment) -> Vec<(&'static str, String)> {
    let annotations = &deployment.metadata.annotations;
    let pod = &deployment.spec.template.spec;
    let mut found = Vec::new();
    if let Some(value) = annotations.get(LISTEN_FDS) {
        let sockets = pod.containers.iter().map(|container| of(deployment, container).len());
        let most = sockets.max().unwrap_or_default();
        let wrong = match value.as_str() {
            "true" if kind(pod) == Kind::Docker => {
                Some("is true, and a Docker Engine gives containers no sockets".to_owned())
            }
            "true" if most == 0 => Some(format!(
                "is true, and there is no socket to take over: give a container a port with hostPort, or write {UNIX_SOCKET}"
            )),
            "true" if most > SOCKETS_MAX => {
                Some(format!("gives a container {most} sockets; it can have {SOCKETS_MAX}"))
            }
            "true" | "false" => None,
            value => Some(format!("{value:?} is neither true nor false")),
        };
        found.extend(wrong.map(|wrong| (LISTEN_FDS, wrong)));
    }
    if let Some(name) = annotations.get(UNIX_SOCKET) {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        let is_name = !name.is_empty() && name.len() <= 63 && !name.starts_with('.') && name.chars().all(is_letter);
        let has_port = pod
            .containers
            .first()
            .is_some_and(|container| first_port(container).is_some());
        let wrong = match (is_name, has_port || take_sockets(deployment)) {
            (false, _) => Some(format!(
                "{name:?} is no name of a socket: letters, digits, \"-\", \"_\" and \".\", no \".\" first, at most 63"
            )),
            (true, false) => {
                Some("leads nowhere: the first container has no port of TCP, and takes over no sockets".to_owned())
            }
            (true, true) => None,
        };
        found.extend(wrong.map(|wrong| (UNIX_SOCKET, wrong)));
    }
    found
}

/// The first port of a container that takes connections.
#[must_use]
pub fn first_port(container: &Container) -> Option<u16> {
    let mut ports = container.ports.iter().filter(|port| port.protocol == Protocol::Tcp);
    ports.next().map(|port| port.container_port)
}
