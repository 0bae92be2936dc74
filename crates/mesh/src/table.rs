//! What manifests and the state of containers come to: where doors are, and whom each leads to. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use agent::supervise::{Key, Status};
use manifest::workload::{Container, Deployment, PortRef, Protocol, Service};

use crate::Wanted;

/// What names of annotations begin with that Kubernetes does not know.
const OWN: &str = "selvedge.dev/";
/// Whether an application runs all the time.
const ACTIVATION: &str = "selvedge.dev/activation";
/// How long nobody has to have asked until it sleeps.
const IDLE_TIMEOUT: &str = "selvedge.dev/idle-timeout";
/// Where it is not written.
const IDLE: Duration = Duration::from_secs(300);

/// How an application runs that runs on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// From the end of the last request until it is ended.
    pub idle_timeout: Duration,
}

/// Whether an application runs on demand; it has been checked.
#[must_use]
pub fn activation(deployment: &Deployment) -> Option<Activation> {
    let annotations = &deployment.metadata.annotations;
    let is_on_demand = annotations.get(ACTIVATION).is_some_and(|value| value == "on-demand");
    let idle_timeout = annotations.get(IDLE_TIMEOUT).and_then(|text| duration(text));
    is_on_demand.then(|| Activation {
        idle_timeout: idle_timeout.unwrap_or(IDLE),
    })
}

/// A number with its unit, such as `90s`, `5m` or `1h`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(unit_ms)?))
}

/// A door, by which it is known as long as it is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) at: SocketAddrV4,
    pub(crate) tenant: String,
    /// The service or application whose door it is.
    pub(crate) of: String,
}

/// Whom a door leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Door {
    /// Those that are ready.
    pub(crate) backends: Vec<SocketAddrV4>,
    /// Applications that may have to be woken.
    pub(crate) sleepers: Vec<Key>,
    /// Of a service, which only its tenant may use.
    pub(crate) is_of_service: bool,
}

/// A replica that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// Where it is reached; `None`: where the host is.
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) is_ready: bool,
}

/// Those of each application.
pub(crate) type Pods<'a> = BTreeMap<&'a str, Vec<Replica>>;

pub(crate) fn pods<'a>(wanted: &'a Wanted, status: &dyn Fn(&str) -> Vec<Status>) -> Pods<'a> {
    let of_application = |name: &'a String| {
        let status = status(name);
        let numbers: BTreeSet<u32> = status.iter().map(|one| one.replica).collect();
        let replica = |number: u32| {
            let own: Vec<&Status> = status.iter().filter(|one| one.replica == number).collect();
            Replica {
                address: own.iter().find_map(|one| one.doing.address),
                is_ready: own.iter().all(|one| one.is_init || one.doing.is_ready),
            }
        };
        (name.as_str(), numbers.into_iter().map(replica).collect())
    };
    wanted.deployments.keys().map(of_application).collect()
}

/// Applications that a service leads to, by the labels of their replicas.
pub fn selected<'a>(
    service: &'a Service,
    deployments: &'a BTreeMap<String, Deployment>,
) -> impl Iterator<Item = (&'a String, &'a Deployment)> {
    let selector = &service.spec.selector;
    deployments.iter().filter(move |(_, deployment)| {
        let labels = &deployment.spec.template.metadata.labels;
        !selector.is_empty() && selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    })
}

/// What of an application's doors cannot be, as path and words.
#[must_use]
pub fn unsupported(deployment: &Deployment) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let own = deployment.metadata.annotations.iter();
    for (name, value) in own.filter(|(name, _)| name.starts_with(OWN)) {
        let wrong = match name.as_str() {
            ACTIVATION if value == "on-demand" || value == "always" => continue,
            ACTIVATION => format!("{value:?} is neither always nor on-demand"),
            IDLE_TIMEOUT if duration(value).is_some() => continue,
            IDLE_TIMEOUT => format!("{value:?} is no time; one is 90s, 5m or 1h"),
            _ => format!("there is no annotation {name}; there are {ACTIVATION} and {IDLE_TIMEOUT}"),
        };
        found.push((format!("metadata.annotations.{name}"), wrong));
    }
    for name in deployment.spec.template.metadata.annotations.keys() {
        if name.starts_with(OWN) {
            let message = "stands at the Deployment, in metadata.annotations".to_owned();
            found.push((format!("spec.template.metadata.annotations.{name}"), message));
        }
    }
    let containers = deployment.spec.template.spec.containers.iter().enumerate();
    for (index, container) in containers {
        for (number, port) in container.ports.iter().enumerate() {
            let path = format!("spec.template.spec.containers[{index}].ports[{number}]");
            if port.host_port.is_some() && port.protocol == Protocol::Udp {
                found.push((
                    format!("{path}.hostPort"),
                    "leads only connections, no datagrams (UDP) yet".to_owned(),
                ));
            }
            if matches!(port.host_ip, Some(IpAddr::V6(_))) {
                found.push((format!("{path}.hostIP"), "is of IPv6, which is not done yet".to_owned()));
            }
        }
    }
    found
}

/// What of a service cannot be, as path and words.
#[must_use]
pub fn unsupported_of_service(service: &Service) -> Vec<(String, String)> {
    let ports = service.spec.ports.iter().enumerate();
    let datagrams = ports.filter(|(_, port)| port.protocol == Protocol::Udp);
    let message = "is UDP; only connections are led yet";
    datagrams
        .map(|(number, _)| (format!("spec.ports[{number}].protocol"), message.to_owned()))
        .collect()
}

/// All doors of a tenant: of its services at their addresses, and of ports that containers have of the edge.
pub(crate) fn doors(
    tenant: &str,
    wanted: &Wanted,
    addresses: &BTreeMap<String, Ipv4Addr>,
    pods: &Pods<'_>,
) -> Vec<(Place, Door)> {
    let mut doors = Vec::new();
    for (name, service) in &wanted.services {
        let Some(address) = addresses.get(name) else { continue };
        for port in &service.spec.ports {
            let mut door = Door {
                is_of_service: true,
                ..Door::default()
            };
            for (application, deployment) in selected(service, &wanted.deployments) {
                let target = match &port.target_port {
                    None => Some(port.port),
                    Some(target) => number(deployment, target),
                };
                door.add(tenant, application, deployment, target, pods);
            }
            doors.push((place(tenant, name, SocketAddrV4::new(*address, port.port)), door));
        }
    }
    for (name, deployment) in &wanted.deployments {
        for (at, target) in of_edge(deployment) {
            let mut door = Door::default();
            door.add(tenant, name, deployment, Some(target), pods);
            doors.push((place(tenant, name, at), door));
        }
    }
    doors
}

fn place(tenant: &str, of: &str, at: SocketAddrV4) -> Place {
    Place {
        at,
        tenant: tenant.to_owned(),
        of: of.to_owned(),
    }
}

impl Door {
    fn add(&mut self, tenant: &str, application: &str, deployment: &Deployment, target: Option<u16>, pods: &Pods<'_>) {
        if activation(deployment).is_some() {
            self.sleepers.push(Key {
                tenant: tenant.to_owned(),
                application: application.to_owned(),
            });
        }
        let Some(target) = target else { return };
        let ready = pods.get(application).into_iter().flatten().filter(|pod| pod.is_ready);
        let at = ready.map(|pod| SocketAddrV4::new(pod.address.unwrap_or(Ipv4Addr::LOCALHOST), target));
        self.backends.extend(at);
    }
}

/// The port of an application's containers that a service means.
fn number(deployment: &Deployment, port: &PortRef) -> Option<u16> {
    let containers: &[Container] = &deployment.spec.template.spec.containers;
    containers.iter().find_map(|container| container.port(port))
}

/// Ports of the edge that lead to a container, and to which port there. What is in the host's network is where it listens.
fn of_edge(deployment: &Deployment) -> Vec<(SocketAddrV4, u16)> {
    let containers = &deployment.spec.template.spec.containers;
    let ports = containers.iter().flat_map(|container| &container.ports);
    let led = ports.filter_map(|port| {
        let host = port.host_port.filter(|_| port.protocol == Protocol::Tcp)?;
        let at = match port.host_ip {
            None => Ipv4Addr::UNSPECIFIED,
            Some(IpAddr::V4(address)) => address,
            Some(IpAddr::V6(_)) => return None,
        };
        let is_where_it_listens = agent::workload::is_on_host(deployment) && host == port.container_port;
        (!is_where_it_listens).then_some((SocketAddrV4::new(at, host), port.container_port))
    });
    led.collect()
}
