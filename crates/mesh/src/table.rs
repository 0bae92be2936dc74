//! What manifests and the state of containers come to: where doors are, and whom each leads to. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use agent::sockets::At;
use agent::supervise::{Key, Status, WhenIdle};
use agent::workload::{DEPENDS_ON, MAX_REPLICAS, snapshots, sockets};
use balance::Policy;
use manifest::workload::{
    Container, Deployment, Deployments, InternalTrafficPolicy, Metadata, PortRef, Protocol, Service,
    TrafficDistribution,
};

use crate::Wanted;
use crate::nodes::{Elsewhere, OfTenant};
use crate::scaling::{self, SCALE_DOWN_AFTER, TARGET_CONCURRENCY, TARGET_LATENCY, scaling};
use crate::terms::{self, Terms};

/// What names of annotations begin with that Kubernetes does not know.
pub(crate) const OWN: &str = "selvedge.dev/";
/// Whether an application runs all the time.
const ACTIVATION: &str = "selvedge.dev/activation";
/// How long nobody has to have asked until it sleeps.
const IDLE_TIMEOUT: &str = "selvedge.dev/idle-timeout";
/// What becomes of it then.
const WHEN_IDLE: &str = "selvedge.dev/when-idle";
/// Messages that wake it, which whoever has the hub looks at.
pub const SUBSCRIPTIONS: &str = "selvedge.dev/subscriptions";
/// Where it is not written.
const IDLE: Duration = Duration::from_secs(300);

/// How an application runs that runs on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activation {
    /// From the end of the last request until it rests.
    pub idle_timeout: Duration,
    /// How it rests.
    pub when_idle: WhenIdle,
}

/// Whether an application runs on demand; it has been checked.
#[must_use]
pub fn activation(deployment: &Deployment) -> Option<Activation> {
    let annotations = &deployment.metadata.annotations;
    let is_on_demand = annotations.get(ACTIVATION).is_some_and(|value| value == "on-demand");
    let idle_timeout = annotations.get(IDLE_TIMEOUT).and_then(|text| duration(text));
    is_on_demand.then(|| Activation {
        idle_timeout: idle_timeout.unwrap_or(IDLE),
        when_idle: annotations
            .get(WHEN_IDLE)
            .and_then(|text| when_idle(text))
            .unwrap_or_default(),
    })
}

fn when_idle(text: &str) -> Option<WhenIdle> {
    match text {
        "stop" => Some(WhenIdle::Stop),
        "pause" => Some(WhenIdle::Pause),
        "renew" => Some(WhenIdle::Renew),
        _ => None,
    }
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
    pub(crate) at: At,
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
    /// Those that have as many replicas as what comes needs.
    pub(crate) scalers: Vec<Key>,
    /// Where those listen, ready or not, that are in the host's network.
    pub(crate) programs: Vec<SocketAddrV4>,
    /// What other nodes have of it, and may be asked for.
    pub(crate) elsewhere: Vec<Elsewhere>,
    /// How requests are led to those and to this one.
    pub(crate) terms: Terms,
    /// What is spoken is no HTTP, as is written of it.
    pub(crate) is_no_http: bool,
    /// Of a service, which only its tenant may use.
    pub(crate) is_of_service: bool,
    /// Other nodes are told of it.
    pub(crate) is_told: bool,
    /// Its socket is taken over by those that it leads to.
    pub(crate) is_taken: bool,
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
            let mut own = status.iter().filter(|one| one.replica == number);
            Replica {
                address: own.find_map(|one| one.doing.address),
                is_ready: is_ready(&status, number),
            }
        };
        (name.as_str(), numbers.into_iter().map(replica).collect())
    };
    wanted.deployments.keys().map(of_application).collect()
}

/// Whether all containers of a replica are ready.
pub(crate) fn is_ready(status: &[Status], replica: u32) -> bool {
    let mut own = status.iter().filter(|one| one.replica == replica);
    own.all(|one| one.is_init || one.doing.is_ready)
}

/// Applications that a service leads to, by the labels of their replicas.
pub fn selected<'a>(
    service: &'a Service,
    deployments: &'a Deployments,
) -> impl Iterator<Item = (&'a String, &'a Deployment)> {
    let selector = &service.spec.selector;
    let all = deployments.iter().map(|(name, deployment)| (name, &**deployment));
    all.filter(move |(_, deployment)| {
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
            WHEN_IDLE if when_idle(value).is_some() => continue,
            WHEN_IDLE => format!("{value:?} is neither stop, pause nor renew"),
            // Whoever starts it looks at that.
            sockets::LISTEN_FDS | sockets::UNIX_SOCKET | DEPENDS_ON | SUBSCRIPTIONS => continue,
            snapshots::EVERY | snapshots::KEEP | snapshots::HOOK | MAX_REPLICAS => continue,
            TARGET_CONCURRENCY | TARGET_LATENCY | SCALE_DOWN_AFTER => continue,
            _ => format!(
                "there is no annotation {name}; there are {ACTIVATION}, {IDLE_TIMEOUT}, {WHEN_IDLE}, {SUBSCRIPTIONS}, {MAX_REPLICAS}, {TARGET_CONCURRENCY}, {TARGET_LATENCY}, {SCALE_DOWN_AFTER}, {}, {}, {}, {}, {} and {DEPENDS_ON}",
                sockets::LISTEN_FDS,
                sockets::UNIX_SOCKET,
                snapshots::EVERY,
                snapshots::KEEP,
                snapshots::HOOK
            ),
        };
        found.push((format!("metadata.annotations.{name}"), wrong));
    }
    let of_others = sockets::unsupported(deployment).into_iter();
    let of_others = of_others
        .chain(snapshots::unsupported(deployment))
        .chain(scaling::unsupported(deployment));
    found.extend(of_others.map(|(name, wrong)| (format!("metadata.annotations.{name}"), wrong)));
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
        .chain(terms::unsupported(service))
        .chain(unread_annotations(&service.metadata, &terms::NAMES))
        .collect()
}

/// Annotations of this program's at what is no application, as path and words.
pub fn unsupported_annotations(metadata: &Metadata) -> impl Iterator<Item = (String, String)> {
    unread_annotations(metadata, &[])
}

fn unread_annotations(metadata: &Metadata, read: &[&str]) -> impl Iterator<Item = (String, String)> {
    let own = metadata.annotations.keys().filter(|name| name.starts_with(OWN));
    own.filter(|name| !read.contains(&name.as_str())).map(|name| {
        let message = format!(
            "is nothing that is read here; annotations of selvedge.dev stand at Deployments, and {} at Services",
            terms::NAMES.join(", ")
        );
        (format!("metadata.annotations.{name}"), message)
    })
}

/// Whether it is the name of a protocol that is none of HTTP, as Kubernetes has them (KEP-3726).
pub(crate) fn is_no_http(protocol: &str) -> bool {
    let of_http = ["http", "kubernetes.io/h2c", "kubernetes.io/ws", "grpc", "h2c"];
    !of_http.contains(&protocol)
}

/// Whether requests to it may go to another node, and come from one.
fn is_of_site(service: &Service, terms: Terms) -> bool {
    service.spec.internal_traffic_policy == InternalTrafficPolicy::Cluster && terms.policy != Policy::Local
}

/// All doors of a tenant: of its services, and of those that `others` have, at their addresses, and of ports that
/// containers have of the edge.
pub(crate) fn doors(
    tenant: &str,
    wanted: &Wanted,
    addresses: &BTreeMap<String, Ipv4Addr>,
    pods: &Pods<'_>,
    others: &OfTenant,
) -> Vec<(Place, Door)> {
    let mut doors = Vec::new();
    for (name, service) in &wanted.services {
        let Some(address) = addresses.get(name) else { continue };
        let terms = Terms::of(service);
        let is_of_site = is_of_site(service, terms);
        let elsewhere = others.get(name).filter(|_| is_of_site);
        for port in &service.spec.ports {
            let mut door = Door {
                is_of_service: true,
                is_told: is_of_site,
                terms,
                is_no_http: port.app_protocol.as_deref().is_some_and(is_no_http),
                ..Door::default()
            };
            for (application, deployment) in selected(service, &wanted.deployments) {
                let target = match &port.target_port {
                    None => Some(port.port),
                    Some(target) => number(deployment, target),
                };
                door.add(tenant, application, deployment, target, pods);
            }
            // All nodes of a site are near, and in one zone.
            let stays = service.spec.traffic_distribution == Some(TrafficDistribution::PreferSameNode);
            if !stays || door.backends.is_empty() {
                let elsewhere = elsewhere.and_then(|ports| ports.get(&port.port));
                door.elsewhere = elsewhere.cloned().unwrap_or_default();
            }
            let at = At::Tcp(SocketAddrV4::new(*address, port.port));
            doors.push((place(tenant, name, at), door));
        }
    }
    for (name, ports) in others {
        let Some(address) = addresses.get(name).filter(|_| !wanted.services.contains_key(name)) else {
            continue;
        };
        for (port, elsewhere) in ports {
            let door = Door {
                is_of_service: true,
                elsewhere: elsewhere.clone(),
                ..Door::default()
            };
            doors.push((place(tenant, name, At::Tcp(SocketAddrV4::new(*address, *port))), door));
        }
    }
    for (name, deployment) in &wanted.deployments {
        if sockets::take_sockets(deployment) {
            for at in sockets::taken(deployment) {
                let mut door = Door {
                    is_taken: true,
                    ..Door::default()
                };
                door.add(tenant, name, deployment, None, pods);
                doors.push((place(tenant, name, at), door));
            }
            continue;
        }
        for (at, target) in of_edge(deployment) {
            let mut door = Door::default();
            door.add(tenant, name, deployment, Some(target), pods);
            doors.push((place(tenant, name, at), door));
        }
    }
    doors
}

fn place(tenant: &str, of: &str, at: At) -> Place {
    Place {
        at,
        tenant: tenant.to_owned(),
        of: of.to_owned(),
    }
}

impl Door {
    fn add(&mut self, tenant: &str, application: &str, deployment: &Deployment, target: Option<u16>, pods: &Pods<'_>) {
        let key = || Key {
            tenant: tenant.to_owned(),
            application: application.to_owned(),
        };
        if activation(deployment).is_some() {
            self.sleepers.push(key());
        }
        if scaling(deployment).is_some() {
            self.scalers.push(key());
        }
        let Some(target) = target else { return };
        let ready = pods.get(application).into_iter().flatten().filter(|pod| pod.is_ready);
        let in_place = in_place(deployment, target);
        let at_host = SocketAddrV4::new(Ipv4Addr::LOCALHOST, target);
        let at = ready.map(|pod| match (in_place, pod.address) {
            (Some(taken), _) => taken,
            (None, Some(address)) => SocketAddrV4::new(address, target),
            (None, None) => at_host,
        });
        self.backends.extend(at);
        let program = in_place.or_else(|| agent::workload::is_on_host(deployment).then_some(at_host));
        self.programs
            .extend(program.filter(|program| program.ip().is_loopback()));
    }
}

/// The port of an application's containers that a service means.
fn number(deployment: &Deployment, port: &PortRef) -> Option<u16> {
    let containers: &[Container] = &deployment.spec.template.spec.containers;
    containers.iter().find_map(|container| container.port(port))
}

/// Where a port is reached whose socket its container has taken over.
fn in_place(deployment: &Deployment, target: u16) -> Option<SocketAddrV4> {
    let containers = deployment.spec.template.spec.containers.iter();
    let mut ports = containers.flat_map(|container| &container.ports);
    let port = ports.find(|port| port.container_port == target && port.host_port.is_some());
    let at = port
        .filter(|_| sockets::take_sockets(deployment))
        .and_then(sockets::at_edge)?;
    Some(match at.ip().is_unspecified() {
        true => SocketAddrV4::new(Ipv4Addr::LOCALHOST, at.port()),
        false => at,
    })
}

/// Ports of the edge that lead to a container, and to which port there. What is in the host's network is where it
/// listens.
fn of_edge(deployment: &Deployment) -> Vec<(At, u16)> {
    let containers = &deployment.spec.template.spec.containers;
    let ports = containers.iter().flat_map(|container| &container.ports);
    let led = ports.filter_map(|port| {
        let at = sockets::at_edge(port)?;
        let is_where_it_listens = agent::workload::is_on_host(deployment) && at.port() == port.container_port;
        (!is_where_it_listens).then_some((At::Tcp(at), port.container_port))
    });
    let to_first = containers.first().and_then(sockets::first_port);
    let unix = sockets::unix_socket(deployment).zip(to_first);
    led.chain(unix).collect()
}
