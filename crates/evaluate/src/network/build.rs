//! Makes the hosts and lines of a plan.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use super::error::trying;
use super::line::Kind;
use super::namespace::Namespace;
use super::netem::Netem;
use super::plan::MTU_BYTES;
use super::relay::{Relay, create_tun};
use super::{Bandwidth, Host, Line, LinePlan, Means, Network, NetworkError, Plan, Settings, Span};

/// Addresses are of the block that is set apart for measuring networks (RFC 2544), a subnet for each line.
const DEVICE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const EDGE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const EDGE_TO_CLOUD: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 1);
const CLOUD: Ipv4Addr = Ipv4Addr::new(198, 18, 1, 2);
const PREFIX_BITS: u8 = 24;
/// Packets that wait at most until the relay takes them.
const TUN_PACKETS: usize = 10_000;

/// One end of a line.
pub(super) struct End {
    pub(super) namespace: Arc<Namespace>,
    /// Its network device, named after the host that it leads to.
    pub(super) device: String,
    pub(super) address: Ipv4Addr,
    /// Of a range that everybody may use; known beforehand, so that no packet is spent on asking for it.
    pub(super) hardware_address: String,
}

/// Tries in a namespace that is then given up what this machine lets us do: what emulates each line of the plan, none
/// for a plain one.
///
/// # Errors
/// Hosts cannot be made here.
pub(super) fn try_out(plan: &Plan) -> Result<[Option<Means>; 2], NetworkError> {
    try_lines(plan.lines(), plan.means)
}

/// The same of any lines; `wanted`: by what means they are to be emulated.
pub(super) fn try_lines<const N: usize>(
    lines: [&LinePlan; N],
    wanted: Option<Means>,
) -> Result<[Option<Means>; N], NetworkError> {
    let namespace = new_namespace()?;
    namespace.ip("link set lo up\n")?;
    let has_netem = wanted.is_none() && namespace.tc("qdisc add dev lo root netem delay 1ms\n").is_ok();
    let found = |settings: &Settings| match settings.bandwidth_bit_per_s {
        Bandwidth::UNSHAPED if has_netem => Means::Netem,
        _ => Means::Relay,
    };
    let means_of = |line: &LinePlan| {
        line.settings()
            .map(|settings| wanted.unwrap_or_else(|| found(settings)))
    };
    let means = lines.map(means_of);
    if means.contains(&Some(Means::Relay)) {
        tun(&namespace, "probe")?;
    }
    Ok(means)
}

/// The network of a machine that allows none: all hosts are this machine, and nothing is varied.
pub(super) fn loopback(plan: &Plan, obstacle: &NetworkError) -> Network {
    let wanted: Vec<String> = [
        ("device and edge", &plan.device_edge),
        ("edge and cloud", &plan.edge_cloud),
    ]
    .into_iter()
    .filter_map(|(between, line)| line.settings().map(|settings| format!("{settings} between {between}")))
    .collect();
    let not_varied = format!(
        "hosts of their own cannot be made here ({obstacle}), so that all run on 127.0.0.1: the lines cannot be cut, \
         and their bandwidth, delay, jitter and loss are those of this machine{}{}; run as root, or by `unshare --map-root-user`, to have them",
        if wanted.is_empty() { "" } else { " instead of " },
        wanted.join(" and "),
    );
    let line = || {
        Line::new(Kind::Loopback {
            reason: not_varied.clone(),
        })
    };
    Network {
        plan: plan.clone(),
        hosts: [Host::loopback(), Host::loopback(), Host::loopback()],
        lines: [line(), line()],
        not_varied: Some(not_varied),
    }
}

/// The network of a plan, each line emulated by its means.
pub(super) fn namespaces(plan: &Plan, means: [Option<Means>; 2]) -> Result<Network, NetworkError> {
    let [device, edge, cloud] = [new_host()?, new_host()?, new_host()?];
    edge.set_parameter("ipv4/ip_forward", "1")?;
    let near = [
        end(&device, "edge", DEVICE, "02:00:00:00:00:01"),
        end(&edge, "device", EDGE, "02:00:00:00:00:02"),
    ];
    let far = [
        end(&edge, "cloud", EDGE_TO_CLOUD, "02:00:00:00:00:03"),
        end(&cloud, "edge", CLOUD, "02:00:00:00:00:04"),
    ];
    let lines = [
        line(near, &plan.device_edge, means[0], (plan.seed, Span::DeviceEdge as u64))?,
        line(far, &plan.edge_cloud, means[1], (plan.seed, Span::EdgeCloud as u64))?,
    ];
    device.ip(&format!("route add default via {EDGE}\n"))?;
    cloud.ip(&format!("route add default via {EDGE_TO_CLOUD}\n"))?;
    Ok(Network {
        plan: plan.clone(),
        hosts: [
            Host::inside(device, DEVICE),
            Host::inside(edge, EDGE),
            Host::inside(cloud, CLOUD),
        ],
        lines,
        not_varied: None,
    })
}

/// A host that no line leads to: what it makes of networks, rules and ports is its own, and gone with it.
pub(super) fn alone() -> Result<Host, NetworkError> {
    Ok(Host::inside(new_host()?, Ipv4Addr::LOCALHOST))
}

fn new_namespace() -> Result<Namespace, NetworkError> {
    Namespace::create().map_err(trying("making a network namespace"))
}

/// With IPv4 alone: what IPv6 says by itself would take its share of a thin line.
pub(super) fn new_host() -> Result<Arc<Namespace>, NetworkError> {
    let namespace = new_namespace()?;
    if Path::new("/proc/sys/net/ipv6").exists() {
        for interfaces in ["all", "default"] {
            namespace.set_parameter(&format!("ipv6/conf/{interfaces}/disable_ipv6"), "1")?;
        }
    }
    namespace.ip("link set lo up\n")?;
    Ok(Arc::new(namespace))
}

fn end(namespace: &Arc<Namespace>, device: &str, address: Ipv4Addr, hardware_address: &str) -> End {
    End {
        namespace: Arc::clone(namespace),
        device: device.to_owned(),
        address,
        hardware_address: hardware_address.to_owned(),
    }
}

/// `stream` tells apart lines that share a seed.
pub(super) fn line(
    ends: [End; 2],
    plan: &LinePlan,
    means: Option<Means>,
    (seed, stream): (u64, u64),
) -> Result<Line, NetworkError> {
    let kind = match (plan.settings(), means) {
        (Some(settings), Some(Means::Netem)) => netem(ends, *settings).map(Kind::Netem),
        (Some(settings), Some(Means::Relay)) => relay(&ends, *settings, (seed, stream)).map(Kind::Relay),
        _ => pair(&ends).map(|()| Kind::Plain),
    };
    kind.map(Line::new)
}

fn relay(ends: &[End; 2], settings: Settings, (seed, stream): (u64, u64)) -> Result<Relay, NetworkError> {
    let devices = [
        tun(&ends[0].namespace, &ends[0].device)?,
        tun(&ends[1].namespace, &ends[1].device)?,
    ];
    for end in ends {
        // What the relay has not read yet waits there. The usual 500 packets are less than a thousand devices send at
        // once, and what is dropped there nobody counts.
        let waiting = format!("link set dev {} txqueuelen {TUN_PACKETS}\n", end.device);
        end.namespace.ip(&(end.address_commands() + &waiting))?;
    }
    Relay::start(devices, settings, (seed, stream))
}

fn tun(namespace: &Namespace, name: &str) -> Result<OwnedFd, NetworkError> {
    let device = namespace.enter(|| create_tun(name)).and_then(|device| device);
    device.map_err(trying("making a TUN device"))
}

fn netem(ends: [End; 2], settings: Settings) -> Result<Netem, NetworkError> {
    pair(&ends)?;
    for end in &ends {
        // It counts packets: they must be those of the line, not what TCP hands down to be cut into them later.
        end.namespace
            .ip(&format!("link set dev {} gso_max_segs 1\n", end.device))?;
    }
    Netem::start(ends.map(|end| (end.namespace, end.device)), settings)
}

/// Two virtual Ethernet devices, joined.
fn pair([near, far]: &[End; 2]) -> Result<(), NetworkError> {
    near.namespace.ip(&format!(
        "link add name {} address {} type veth peer name {} address {} netns {}\n",
        near.device,
        near.hardware_address,
        far.device,
        far.hardware_address,
        far.namespace.path().display()
    ))?;
    for (end, other) in [(near, far), (far, near)] {
        let neighbour = format!(
            "neigh add {} lladdr {} dev {} nud permanent\n",
            other.address, other.hardware_address, end.device
        );
        end.namespace.ip(&(end.address_commands() + &neighbour))?;
    }
    Ok(())
}

impl End {
    fn address_commands(&self) -> String {
        let End { address, device, .. } = self;
        format!(
            "addr add {address}/{PREFIX_BITS} dev {device}\n\
             link set dev {device} mtu {MTU_BYTES} up\n"
        )
    }
}
