//! Hosts of one site: each pair joined by a line of its own, all lines with the same delay.

use std::net::Ipv4Addr;
use std::sync::Arc;

use super::build::{End, line, new_host, try_lines};
use super::namespace::Namespace;
use super::{Bandwidth, Host, Line, LinePlan, NetworkError, Settings};

/// How many there may be: an address of a line ends with its number.
const MOST: usize = 8;

/// Some hosts and the lines between them; dropping it ends the lines.
pub(crate) struct Joined {
    hosts: Vec<Host>,
    /// With the two that each joins.
    lines: Vec<([usize; 2], Line)>,
}

impl Joined {
    /// Makes so many, with lines that take no time beside what carries packets takes.
    ///
    /// # Errors
    /// Hosts cannot be made here.
    ///
    /// # Panics
    /// There are more than eight.
    pub(crate) fn build(count: usize, seed: u64) -> Result<Joined, NetworkError> {
        assert!((1..=MOST).contains(&count), "1 to 8 hosts");
        let settings = LinePlan::Emulated(Settings::default());
        let [means] = try_lines([&settings], None)?;
        let namespaces = (0..count).map(|_| new_host()).collect::<Result<Vec<_>, _>>()?;
        for (place, namespace) in namespaces.iter().enumerate() {
            namespace.ip(&format!("addr add {}/32 dev lo\n", address(place)))?;
        }
        let mut lines = Vec::new();
        for far in 1..count {
            for near in 0..far {
                let ends = ends([near, far], [&namespaces[near], &namespaces[far]]);
                let stream = lines.len() as u64;
                lines.push(([near, far], line(ends, &settings, means, (seed, stream))?));
                for (from, to) in [(near, far), (far, near)] {
                    namespaces[from].ip(&format!(
                        "route add {}/32 via {} src {}\n",
                        address(to),
                        on_line([near, far], to),
                        address(from)
                    ))?;
                }
            }
        }
        let inside = |(place, namespace): (usize, Arc<_>)| Host::inside(namespace, address(place));
        let hosts = namespaces.into_iter().enumerate().map(inside).collect();
        Ok(Joined { hosts, lines })
    }

    /// All of them.
    pub(crate) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Gives all lines this round trip.
    ///
    /// # Errors
    /// It is out of bounds, or a line has ended.
    pub(crate) fn set_round_trip_us(&self, round_trip_us: u64) -> Result<(), NetworkError> {
        let settings = Settings {
            bandwidth_bit_per_s: Bandwidth::UNSHAPED,
            round_trip_us,
            ..Settings::default()
        };
        self.lines.iter().try_for_each(|(_, line)| line.set(settings))
    }
}

impl Joined {
    /// Pulls the cables of one host.
    ///
    /// # Errors
    /// A line has ended.
    pub(crate) fn cut_off(&self, host: usize) -> Result<(), NetworkError> {
        self.lines_of(host).try_for_each(Line::cut)
    }

    /// Puts them back.
    ///
    /// # Errors
    /// A line has ended.
    pub(crate) fn mend(&self, host: usize) -> Result<(), NetworkError> {
        self.lines_of(host).try_for_each(Line::mend)
    }

    fn lines_of(&self, host: usize) -> impl Iterator<Item = &Line> {
        let of_it = self.lines.iter().filter(move |(pair, _)| pair.contains(&host));
        of_it.map(|(_, line)| line)
    }
}

/// Where others reach it, whichever line they come by.
fn address(place: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 19, 0, place as u8 + 1)
}

/// Its address on the line of a pair.
fn on_line(pair: [usize; 2], of: usize) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, line_number(pair), of as u8 + 1)
}

fn ends(pair: [usize; 2], namespaces: [&Arc<Namespace>; 2]) -> [End; 2] {
    let end = |side: usize| End {
        namespace: Arc::clone(namespaces[side]),
        device: format!("node-{}", pair[1 - side] + 1),
        address: on_line(pair, pair[side]),
        hardware_address: format!("02:00:00:00:{:02x}:{:02x}", line_number(pair), pair[side] + 1),
    };
    [end(0), end(1)]
}

fn line_number([near, far]: [usize; 2]) -> u8 {
    (near * MOST + far) as u8
}
