//! The addresses of one edge's containers and services.

use std::fmt;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

/// So many bits of an address tell edges' ranges apart.
const PREFIX_LEN: u8 = 20;
/// The first half of a range is for containers, the second for services.
const HALF_LEN: u8 = PREFIX_LEN + 1;
/// Of the half for containers, the first is for those that are routed to, the second for those behind a bridge of their
/// own.
const QUARTER_LEN: u8 = HALF_LEN + 1;
/// What is behind a bridge: the host and one container, and the two addresses that a network has beside those of its
/// hosts.
const BRIDGED_LEN: u8 = 30;
/// Ranges are taken from here: of what is private (RFC 1918), a part that few use.
const ALL: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 112, 0, 0), 12);

/// So many there are.
const COUNT: u32 = 1 << (PREFIX_LEN - ALL.1);

/// Addresses that are one edge's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Range(Ipv4Addr);

impl Range {
    /// Some range.
    pub(super) fn any(seed: u32) -> Range {
        let number = seed % COUNT;
        Range(Ipv4Addr::from(u32::from(ALL.0) + number * size(PREFIX_LEN)))
    }

    /// What all ranges of all edges are of.
    pub(super) fn all() -> String {
        format!("{}/{}", ALL.0, ALL.1)
    }

    /// All that there are, this one first.
    pub(super) fn and_all_others(self) -> impl Iterator<Item = Range> {
        let first = (u32::from(self.0) - u32::from(ALL.0)) / size(PREFIX_LEN);
        (0..COUNT).map(move |step| Range::any(first + step))
    }

    pub(super) fn base(self) -> Ipv4Addr {
        self.0
    }

    /// The host's own.
    pub(super) fn gateway(self) -> Ipv4Addr {
        self.at(1)
    }

    pub(super) fn prefix_len(self) -> u8 {
        PREFIX_LEN
    }

    /// Those of containers.
    pub(super) fn pods(self) -> String {
        format!("{}/{HALF_LEN}", self.0)
    }

    pub(super) fn is_of_pods(self, address: Ipv4Addr) -> bool {
        u32::from(address).wrapping_sub(u32::from(self.0)) < size(HALF_LEN)
    }

    /// Those of services.
    pub(super) fn services(self) -> (Ipv4Addr, u8) {
        (self.at(size(HALF_LEN)), HALF_LEN)
    }

    /// How many services may have one.
    pub(super) fn service_count(self) -> u32 {
        size(HALF_LEN) - 2
    }

    /// Of a service, by its number from 1 on.
    pub(super) fn service(self, number: u32) -> Ipv4Addr {
        self.at(size(HALF_LEN) + number)
    }

    /// How many containers may have one that is routed to.
    pub(super) fn pod_count(self) -> u32 {
        size(QUARTER_LEN) - 2
    }

    /// Of a container.
    pub(super) fn pod(self, number: u32) -> Ipv4Addr {
        self.at(2 + number % self.pod_count())
    }

    /// How many bridges there may be, each with one container behind it.
    pub(super) fn bridge_count(self) -> u32 {
        size(QUARTER_LEN) / size(BRIDGED_LEN)
    }

    /// What is behind a bridge, by its number from 0 on.
    pub(super) fn bridged(self, number: u32) -> Bridged {
        let base = size(QUARTER_LEN) + number * size(BRIDGED_LEN);
        Bridged {
            subnet: format!("{}/{BRIDGED_LEN}", self.at(base)),
            host: self.at(base + 1),
            container: self.at(base + 2),
        }
    }

    /// Of the links of a tenant, by its number from 1 on. Ranges are disjoint, and so are the groups of all edges of a
    /// host.
    pub(super) fn group(self, number: u32) -> u32 {
        u32::from(self.0) + number
    }

    pub(super) fn overlaps(self, network: Ipv4Addr, prefix_len: u8) -> bool {
        let shorter = prefix_len.min(PREFIX_LEN);
        let mask = u32::MAX.checked_shl(32 - u32::from(shorter)).unwrap_or(0);
        u32::from(self.0) & mask == u32::from(network) & mask
    }

    fn at(self, offset: u32) -> Ipv4Addr {
        Ipv4Addr::from(u32::from(self.0) + offset)
    }
}

/// The addresses behind a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bridged {
    /// All of them.
    pub(super) subnet: String,
    /// The host's end.
    pub(super) host: Ipv4Addr,
    pub(super) container: Ipv4Addr,
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{PREFIX_LEN}", self.0)
    }
}

/// How many addresses a network of that length has.
fn size(prefix_len: u8) -> u32 {
    1 << (32 - prefix_len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_disjoint_and_all_are_tried() {
        let mut bases: Vec<Ipv4Addr> = Range::any(77).and_all_others().map(Range::base).collect();
        assert_eq!(bases.len(), 256);
        assert_eq!(bases[0], Ipv4Addr::new(10, 116, 208, 0));
        bases.sort_unstable();
        bases.dedup();
        assert_eq!(bases.len(), 256);
        assert_eq!(bases[255], Ipv4Addr::new(10, 127, 240, 0));
    }

    #[test]
    fn a_range_overlaps_what_is_in_it_and_what_it_is_in() {
        let range = Range(Ipv4Addr::new(10, 112, 16, 0));
        for (network, prefix_len, overlaps) in [
            ([10, 112, 16, 0], 20, true),
            ([10, 112, 31, 255], 32, true),
            ([10, 112, 32, 0], 24, false),
            ([10, 112, 0, 0], 16, true),
            ([10, 0, 0, 0], 8, true),
            ([192, 168, 0, 0], 16, false),
            ([0, 0, 0, 0], 0, true),
        ] {
            assert_eq!(range.overlaps(network.into(), prefix_len), overlaps, "{network:?}");
        }
    }

    #[test]
    fn containers_have_addresses_of_the_first_half_and_none_the_gateway() {
        let range = Range(Ipv4Addr::new(10, 112, 16, 0));
        assert_eq!(range.pod(0), Ipv4Addr::new(10, 112, 16, 2));
        assert_eq!(range.pod(range.pod_count() - 1), Ipv4Addr::new(10, 112, 19, 255));
        assert_eq!(range.pod(range.pod_count()), range.pod(0));
        assert_eq!(range.pods(), "10.112.16.0/21");
    }

    #[test]
    fn bridges_have_what_is_left_of_the_half_of_containers() {
        let range = Range(Ipv4Addr::new(10, 112, 16, 0));
        let first = range.bridged(0);
        assert_eq!(first.subnet, "10.112.20.0/30");
        assert_eq!(
            [first.host, first.container],
            [[10, 112, 20, 1], [10, 112, 20, 2]].map(Ipv4Addr::from)
        );
        let last = range.bridged(range.bridge_count() - 1);
        assert_eq!(
            (last.subnet.as_str(), range.services().0),
            ("10.112.23.252/30", [10, 112, 24, 0].into())
        );
    }
}
