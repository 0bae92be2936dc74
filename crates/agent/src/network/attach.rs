//! Gives a container its network; called by its shim, which stays in it, or for an engine that takes one that is there.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::thread;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use serde::{Deserialize, Serialize};

use super::netlink::{self, End, LOOPBACK, Mac, Netlink, Way};

/// What a container's link is called in it.
const INSIDE: &str = "eth0";
const OF_THREAD: &str = "/proc/thread-self/ns/net";
/// No group in particular.
const NO_GROUP: u32 = 0;

/// How a container is in its network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its own, which those of its pod have together.
    pub address: Ipv4Addr,
    /// The host's, as containers see it.
    pub gateway: Ipv4Addr,
    /// Of its tenant's links.
    pub group: u32,
    /// A process of its pod that is there, and whose network it shares.
    pub shared_with: Option<i32>,
}

/// What the host's ends of links of containers are called.
pub(super) const LINK_PREFIX: &str = "sv";

/// The host's end of the link of a container; no two of one machine have the same, whichever edge they are of.
pub(super) fn link_of(address: Ipv4Addr) -> String {
    format!("{LINK_PREFIX}{:08x}", u32::from(address))
}

fn mac(end: u8, address: Ipv4Addr) -> Mac {
    let [a, b, c, d] = address.octets();
    // Locally administered (IEEE 802, 8.4).
    [0x02, end, a, b, c, d]
}

/// A network namespace that is a container's, in which nothing runs. It is there for as long as it is open, or somebody
/// is in it.
pub(crate) fn space(attachment: &Attachment) -> io::Result<File> {
    let made = || {
        enter(attachment, None)?;
        File::open(OF_THREAD)
    };
    // The thread that is in it ends.
    thread::scope(|scope| scope.spawn(made).join().expect("it does not panic"))
}

/// Has this thread be in the container's network from now on: in `given`, which is new, or in one of its own.
pub(crate) fn enter(attachment: &Attachment, given: Option<&File>) -> io::Result<()> {
    if let Some(pid) = attachment.shared_with {
        return enter_space(&File::open(format!("/proc/{pid}/ns/net"))?);
    }
    let of_host = File::open(OF_THREAD)?;
    match given {
        Some(given) => enter_space(given)?,
        // SAFETY: descriptors stay as they are, and other threads where they are.
        None => unsafe { unshare_unsafe(UnshareFlags::NEWNET)? },
    }
    let own = File::open(OF_THREAD)?;
    enter_space(&of_host)?;
    outside(attachment, &own)?;
    enter_space(&own)?;
    inside(attachment)
}

fn enter_space(space: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(
        space.as_fd(),
        Some(LinkNameSpaceType::Network),
    )?)
}

/// The host's end: a way to the container's address and to nothing else, from which nothing comes that is not from
/// there.
fn outside(attachment: &Attachment, own: &File) -> io::Result<()> {
    let Attachment {
        address,
        gateway,
        group,
        ..
    } = *attachment;
    let mut netlink = Netlink::open()?;
    let name = link_of(address);
    let (here, there) = (mac(0, address), mac(1, address));
    netlink.add_pair(
        &End {
            name: &name,
            mac: here,
            group,
        },
        &End {
            name: INSIDE,
            mac: there,
            group: NO_GROUP,
        },
        own.as_fd(),
    )?;
    settle(&name)?;
    let link = netlink::index(&name)?;
    netlink.set_up(link)?;
    netlink.add_neighbour(link, address, there)?;
    let way = Way::Link {
        link,
        gateway: None,
        source: Some(gateway),
    };
    netlink.add_route(address, 32, &way)
}

/// What is so of all links of containers.
pub(super) fn settle(link: &str) -> io::Result<()> {
    for (key, value) in [
        ("ipv4/conf", "rp_filter=1"),
        // Who comes to the host by another name, such as that of its loopback, is led here.
        ("ipv4/conf", "route_localnet=1"),
        ("ipv6/conf", "disable_ipv6=1"),
    ] {
        set(&format!("{key}/{link}"), value)?;
    }
    Ok(())
}

/// The container's end: one neighbour, the host, by which it reaches all others.
fn inside(attachment: &Attachment) -> io::Result<()> {
    let Attachment { address, gateway, .. } = *attachment;
    let mut netlink = Netlink::open()?;
    netlink.set_up(LOOPBACK)?;
    let link = netlink::index(INSIDE)?;
    netlink.add_address(link, address, 32)?;
    netlink.set_up(link)?;
    netlink.add_neighbour(link, gateway, mac(0, address))?;
    let way = |gateway| Way::Link {
        link,
        gateway,
        source: None,
    };
    netlink.add_route(gateway, 32, &way(None))?;
    netlink.add_route(Ipv4Addr::UNSPECIFIED, 0, &way(Some(gateway)))?;
    // As with other container engines: ports below 1024 and pings are for all, as there is nobody else.
    set("ipv4", "ip_unprivileged_port_start=0")?;
    set("ipv4", "ping_group_range=0 2147483647")
}

/// A setting of the present name space. One that the kernel has not is left.
pub(super) fn set(of: &str, assignment: &str) -> io::Result<()> {
    let (key, value) = assignment.split_once('=').expect("it is written so");
    let path = format!("/proc/sys/net/{of}/{key}");
    match fs::write(&path, value) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("{path}: {error}")))
        }
        _ => Ok(()),
    }
}
