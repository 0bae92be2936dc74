//! Who may reach whom: rules of the kernel's packet filter, by the program `nft`.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};

use super::attach::LINK_PREFIX;
use super::connections::PROBE_MARK;
use super::range::Range;
use super::{Redirect, TENANTS_MAX};
use crate::tools;

/// What the rules are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules<'a> {
    /// Of the edge, in which its containers and services have their addresses.
    pub(super) range: Range,
    pub(super) tenants: Vec<Tenant>,
    /// Where the edge itself listens, for all containers.
    pub(super) doors: &'a [SocketAddrV4],
    /// Links between which nothing is forwarded.
    pub(super) apart: &'a [String],
    /// With the groups of who may use them; none: the world, but for containers.
    pub(super) redirects: Vec<(Option<u32>, &'a Redirect)>,
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
        let table = table(range);
        let links = format!("{}-{}", range.group(1), range.group(TENANTS_MAX));
        let tenants = || self.tenants.iter();
        let same_tenant =
            lines(tenants().map(|Tenant { group, .. }| format!("iifgroup {group} oifgroup {group} accept")));
        let services = lines(tenants().filter(|tenant| !tenant.services.is_empty()).map(|tenant| {
            let services: Vec<String> = tenant.services.iter().map(Ipv4Addr::to_string).collect();
            let services = services.join(", ");
            // What is led there; other programs of the host may listen at all its addresses.
            format!(
                "iifgroup {} ip daddr {{ {services} }} ct status dnat accept",
                tenant.group
            )
        }));
        let apart: Vec<String> = self.apart.iter().map(|link| format!("\"{link}\"")).collect();
        let apart = match apart.join(", ") {
            none if none.is_empty() => none,
            links => format!("iifname {{ {links} }} oifname {{ {links} }} drop\n"),
        };
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
        let redirects = || self.redirects.iter();
        let led_in = lines(redirects().map(|(group, redirect)| {
            let from = group.map_or(format!("iifgroup != {links}"), |group| format!("iifgroup {group}"));
            format!("{from} {}", leads(redirect, &range))
        }));
        let led_out = lines(redirects().map(|(_, redirect)| leads(redirect, &range)));
        let led_to: BTreeSet<Ipv4Addr> = redirects()
            .flat_map(|(_, redirect)| &redirect.to)
            .map(|to| *to.ip())
            .collect();
        // Who is led to itself would not know its own answer.
        let to_itself = lines(
            led_to
                .iter()
                .map(|pod| format!("ip saddr {pod} ip daddr {pod} snat ip to {gateway}")),
        );
        format!(
            "add table {table}
delete table {table}
table {table} {{
chain forward {{
type filter hook forward priority filter; policy accept;
{apart}ct state established,related accept
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
{led_to_doors}{led_in}}}
chain output {{
type nat hook output priority -100; policy accept;
meta mark {PROBE_MARK} ct mark set meta mark
{led_out}}}
chain postrouting {{
type nat hook postrouting priority srcnat; policy accept;
ip saddr {pods} ip daddr != {range} masquerade
ip saddr 127.0.0.0/8 oifgroup {links} snat ip to {gateway}
{to_itself}}}
}}
"
        )
    }

    /// Has the kernel keep to them, all at once.
    pub(super) fn apply(&self) -> io::Result<()> {
        run(&self.script())?;
        let_through_docker();
        Ok(())
    }
}

/// Has the kernel do all of a script, or nothing.
///
/// # Errors
/// `nft` is not here, or refuses; [`io::ErrorKind::AlreadyExists`] where that is why.
pub(super) fn run(script: &str) -> io::Result<()> {
    let mut running = nft()?
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut rules = running.stdin.take().expect("it is piped");
    let sent = rules.write_all(script.as_bytes());
    drop(rules);
    let output = running.wait_with_output()?;
    if output.status.success() {
        return sent;
    }
    // One that ends before it has read them says why.
    let words = String::from_utf8_lossy(&output.stderr);
    let why = words.lines().next().unwrap_or_default();
    let kind = match why.contains("File exists") {
        true => io::ErrorKind::AlreadyExists,
        false => io::ErrorKind::Other,
    };
    Err(io::Error::new(kind, format!("nft: {why}")))
}

/// The rules of a table as the kernel has them, in words that are the same for as long as they are; `None`: it has
/// none.
pub(super) fn listed(table: &str) -> io::Result<Option<Vec<u8>>> {
    let listed = nft()?.args(["list", "table"]).args(table.split(' ')).output()?;
    Ok(listed.status.success().then_some(listed.stdout))
}

fn nft() -> io::Result<Command> {
    let nft = tools::find("nft").ok_or_else(|| io::Error::other(NO_NFT))?;
    let mut command = Command::new(nft);
    command.stdin(Stdio::null()).env("LC_ALL", "C");
    Ok(command)
}

/// What an edge has its rules in.
pub(super) fn table(range: Range) -> String {
    format!("inet selvedge-{:08x}", u32::from(range.base()))
}

/// A Docker Engine has the kernel forward nothing but what is its own. In this chain it leaves alone what others let
/// through; what of that goes on is for the rules of the edge to say.
const DOCKERS_CHAIN: &str = "DOCKER-USER";

/// Where there is such an engine, it lets through what comes from containers of the edge or goes to them.
pub(super) fn let_through_docker() {
    let Some(iptables) = tools::find("iptables") else {
        return;
    };
    let said = |words: &[&str]| {
        let mut command = Command::new(&iptables);
        command.args(["--wait", "5"]).args(words).stdin(Stdio::null());
        let output = command.output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(rules) = said(&["--list-rules", DOCKERS_CHAIN]) else {
        return;
    };
    for way in ["-i", "-o"] {
        let rule = [DOCKERS_CHAIN, way, &format!("{LINK_PREFIX}+"), "-j", "ACCEPT"];
        let is_there = rules.lines().any(|line| line == format!("-A {}", rule.join(" ")));
        if !is_there && said(&[&["--insert"], &rule[..]].concat()).is_none() {
            tracing::warn!(
                chain = DOCKERS_CHAIN,
                "Docker lets nothing through to containers of the edge"
            );
        }
    }
}

/// What leads connections to each in its turn; those to addresses of `others` come in elsewhere.
pub(super) fn leads(redirect: &Redirect, others: &dyn fmt::Display) -> String {
    let port = redirect.at.port();
    let at = match redirect.at.ip() {
        any if any.is_unspecified() => format!("fib daddr type local ip daddr != {others}"),
        one => format!("ip daddr {one}"),
    };
    let to = match &redirect.to[..] {
        [only] => only.to_string(),
        all => {
            let turns = all.iter().enumerate();
            let turns: Vec<String> = turns
                .map(|(turn, to)| format!("{turn} : {} . {}", to.ip(), to.port()))
                .collect();
            format!("numgen inc mod {} map {{ {} }}", all.len(), turns.join(", "))
        }
    };
    format!("{at} tcp dport {port} dnat ip to {to}")
}

const NO_NFT: &str = "nft is not here, which networks of containers and what is led past doors need; install it (apt-get install nftables)";

pub(super) fn missing() -> Option<String> {
    tools::find("nft").is_none().then(|| NO_NFT.to_owned())
}

/// Who is refused learns it at once.
const REFUSE_TCP: &str = "meta l4proto tcp reject with tcp reset";
const REFUSE: &str = "reject with icmpx admin-prohibited";

pub(super) fn lines(rules: impl Iterator<Item = String>) -> String {
    rules.map(|rule| rule + "\n").collect()
}
