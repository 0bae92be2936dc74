//! Who may reach whom: rules of the kernel's packet filter, by the program `nft`.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};

use super::TENANTS_MAX;
use super::range::Range;
use crate::tools;

/// What the rules are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules<'a> {
    /// Of the edge, in which its containers and services have their addresses.
    pub(super) range: Range,
    pub(super) tenants: Vec<Tenant>,
    /// Where the edge itself listens, for all containers.
    pub(super) doors: &'a [SocketAddrV4],
}

/// Who reaches each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tenant {
    /// Of its links.
    pub(super) group: u32,
    /// The addresses of its services.
    pub(super) services: Vec<Ipv4Addr>,
}

impl Rules<'_> {
    /// All rules of the edge, in place of those it had. What is let through is what is said: containers reach those of
    /// their tenant, its services, the doors of the edge, names, and the world; the world reaches none of them.
    fn script(&self) -> String {
        let range = self.range;
        let (gateway, pods) = (range.gateway(), range.pods());
        let table = format!("inet selvedge-{:08x}", u32::from(range.base()));
        let links = format!("{}-{}", range.group(1), range.group(TENANTS_MAX));
        let tenants = || self.tenants.iter();
        let same_tenant =
            lines(tenants().map(|Tenant { group, .. }| format!("iifgroup {group} oifgroup {group} accept")));
        let services = lines(tenants().filter(|tenant| !tenant.services.is_empty()).map(|tenant| {
            let services: Vec<String> = tenant.services.iter().map(Ipv4Addr::to_string).collect();
            let services = services.join(", ");
            format!("iifgroup {} ip daddr {{ {services} }} accept", tenant.group)
        }));
        let doors = || self.doors.iter();
        let to_doors =
            lines(doors().map(|door| format!("ct original ip daddr {gateway} tcp dport {} accept", door.port())));
        let at_loopback = doors().filter(|door| door.ip().is_loopback());
        let led_to_doors = lines(at_loopback.map(|door| {
            format!(
                "iifgroup {links} ip daddr {gateway} tcp dport {} dnat ip to {door}",
                door.port()
            )
        }));
        format!(
            "add table {table}
delete table {table}
table {table} {{
chain forward {{
type filter hook forward priority filter; policy accept;
ct state established,related accept
{same_tenant}ct status dnat accept
ip daddr {range} {REFUSE_TCP}
ip daddr {range} {REFUSE}
}}
chain input {{
type filter hook input priority filter; policy accept;
iifgroup != {links} accept
ct state established,related accept
ip daddr {gateway} meta l4proto {{ tcp, udp }} th dport 53 accept
ip daddr {gateway} icmp type echo-request accept
{to_doors}{services}{REFUSE_TCP}
{REFUSE}
}}
chain prerouting {{
type nat hook prerouting priority dstnat; policy accept;
{led_to_doors}}}
chain postrouting {{
type nat hook postrouting priority srcnat; policy accept;
ip saddr {pods} ip daddr != {range} masquerade
ip saddr 127.0.0.0/8 oifgroup {links} masquerade
}}
}}
"
        )
    }

    /// Has the kernel keep to them, all at once.
    pub(super) fn apply(&self) -> io::Result<()> {
        let nft =
            tools::find("nft").ok_or_else(|| io::Error::other("nft is not here; it is in the package nftables"))?;
        let mut running = Command::new(nft)
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut rules = running.stdin.take().expect("it is piped");
        rules.write_all(self.script().as_bytes())?;
        drop(rules);
        let output = running.wait_with_output()?;
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr);
        let why = words.lines().next().unwrap_or_default();
        Err(io::Error::other(format!("nft: {why}")))
    }
}

/// Who is refused learns it at once.
const REFUSE_TCP: &str = "meta l4proto tcp reject with tcp reset";
const REFUSE: &str = "reject with icmpx admin-prohibited";

fn lines(rules: impl Iterator<Item = String>) -> String {
    rules.map(|rule| rule + "\n").collect()
}
