//! Two servers to compare with, each a process of its own like any broker: a relay with a broker's four hops, and the
//! first paper's socket baseline. One epoll loop, one read and one gathered write a turn: as little as a server can do.

mod echo;
mod peers;
mod relay;

use std::io;
use std::net::TcpListener;

use peers::Peers;

/// Serves the relay until the process ends.
///
/// # Errors
/// The kernel refuses an epoll set.
pub(crate) fn serve_relay(listener: TcpListener) -> io::Result<()> {
    let mut relay = relay::Relay::default();
    Peers::new(listener)?.serve(|peers, key| relay.handle(peers, key))
}

/// Serves the echo until the process ends.
///
/// # Errors
/// As [`serve_relay`].
pub(crate) fn serve_echo(listener: TcpListener) -> io::Result<()> {
    Peers::new(listener)?.serve(echo::handle)
}
