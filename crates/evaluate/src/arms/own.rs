//! Our own servers to compare with: hidden commands of this program.

use std::net::SocketAddr;

use super::{Recipe, Site};
use crate::generator::fleet::Protocol;

/// The relay, with the hops of a message through a broker.
pub(super) fn relay(site: &Site, address: SocketAddr) -> Recipe {
    recipe(
        site,
        address,
        "relay",
        Protocol::Relay,
        ["TCP relay", "no broker, the same four hops"],
    )
}

/// The echo, with two hops.
pub(super) fn echo(site: &Site, address: SocketAddr) -> Recipe {
    recipe(
        site,
        address,
        "tcp-echo",
        Protocol::Echo,
        ["raw TCP echo", "no broker, two hops"],
    )
}

fn recipe(site: &Site, address: SocketAddr, command: &str, protocol: Protocol, words: [&str; 2]) -> Recipe {
    let [what, settings] = words.map(str::to_owned);
    Recipe {
        program: site.helper.program.clone(),
        arguments: site.helper.arguments(&[command, "--listen", &address.to_string()]),
        version: what,
        settings,
        protocol,
        tls: false,
    }
}
