//! Our own servers to compare with: hidden commands of this program.

use std::net::SocketAddr;

use super::{Recipe, Site};
use crate::generator::fleet::Protocol;

/// `command` is the hidden command's name.
pub(super) fn prepare(site: &Site, address: SocketAddr, command: &str, protocol: Protocol) -> Recipe {
    Recipe {
        program: site.helper.program.clone(),
        arguments: site.helper.arguments(&[command, "--listen", &address.to_string()]),
        version: format!("selvedge {}", env!("CARGO_PKG_VERSION")),
        settings: "TCP_NODELAY".to_owned(),
        protocol,
        tls: false,
    }
}
