//! Who may reach whom: rules of the kernel's packet filter, by the program `nft`.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::net::SocketAddrV4;
use std::process::{Command, Stdio};

use super::TENANTS_MAX;
use super::range::Range;
use crate::tools;

/// What the rules are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rules<'a> {
    /// Of the edge, in which its containers and services have their addresses.
    pub(super) range: Range,
    /// Of the tenants' links.
    pub(super) groups: &'a [u32],
    /// Where the edge itself listens, for all containers.
    pub(super) doors: &'a [SocketAddrV4],
}

impl Rules<'_> {
    /// All rules of the edge, in place of those it had. What is let through is what is said: containers reach those of
    /// their tenant, the doors of the edge, names, and the world; the world reaches none of them.
    fn script(&self) -> String {
        let Rules { range, groups, doors } = self;
        let (gateway, pods) = (range.gateway(), range.pods());
        let links = format!("{}-{}", range.group(1), range.group(TENANTS_MAX));
        let table = format!("inet selvedge-{:08x}", u32::from(range.base()));
        let mut text = format!("add table {table}\ndelete table {table}\ntable {table} {{\n");
        let mut chain = |head: &str, rules: &[String]| {
            let (name, hook) = head.split_once(": ").expect("it is written so");
            writeln!(text, "chain {name} {{\n{hook}").expect("a String takes all");
            for rule in rules {
                writeln!(text, "{rule}").expect("a String takes all");
            }
            text.push_str("}\n");
        };
        let of_tenants = groups
            .iter()
            .map(|group| format!("iifgroup {group} oifgroup {group} accept"));
        let mut forward = vec!["ct state established,related accept".to_owned()];
        forward.extend(of_tenants);
        forward.push("ct status dnat accept".to_owned());
        forward.push(format!("ip daddr {range} {REFUSE_TCP}"));
        forward.push(format!("ip daddr {range} {REFUSE}"));
        chain(
            "forward: type filter hook forward priority filter; policy accept;",
            &forward,
        );
        let mut input = vec![
            format!("iifgroup != {links} accept"),
            "ct state established,related accept".to_owned(),
            format!("ip daddr {gateway} meta l4proto {{ tcp, udp }} th dport 53 accept"),
            format!("ip daddr {gateway} icmp type echo-request accept"),
        ];
        let at_loopback = |door: &&SocketAddrV4| door.ip().is_loopback();
        for door in doors.iter() {
            let port = door.port();
            input.push(format!(
                "ip saddr {pods} tcp dport {port} ct original ip daddr {gateway} accept"
            ));
        }
        input.extend([REFUSE_TCP.to_owned(), REFUSE.to_owned()]);
        chain("input: type filter hook input priority filter; policy accept;", &input);
        let led = doors.iter().filter(at_loopback);
        let led: Vec<String> = led
            .map(|door| {
                format!(
                    "iifgroup {links} ip daddr {gateway} tcp dport {} dnat ip to {door}",
                    door.port()
                )
            })
            .collect();
        chain(
            "prerouting: type nat hook prerouting priority dstnat; policy accept;",
            &led,
        );
        let masked = [
            format!("ip saddr {pods} ip daddr != {range} masquerade"),
            format!("ip saddr 127.0.0.0/8 oifgroup {links} masquerade"),
        ];
        chain(
            "postrouting: type nat hook postrouting priority srcnat; policy accept;",
            &masked,
        );
        text.push_str("}\n");
        text
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
