//! Memory of an idle process, and of connections that do nothing.

use std::time::Duration;

use super::client::Client;
use super::contender::{Contender, Site};
use super::pause::pause;
use super::record::Figure;
use crate::arms::ServerProcess;
use crate::generator::socket::Socket;

/// Clients that connect at once: below the accept queue of any server.
const CONNECTING_AT_ONCE: u32 = 64;
/// Time for a server to come to rest, and to give back what it needed only for the moment.
const REST: Duration = Duration::from_secs(2);

/// An idle server, then `connections` idle clients.
pub(super) fn measure(
    site: &Site,
    contender: Contender,
    name: &str,
    (connections, tls): (u32, bool),
) -> Result<Vec<(Figure, f64)>, String> {
    let place = site.place(contender, name, tls)?;
    let standing = place.start()?;
    pause(REST);
    let rss_bytes = standing.server.rss_bytes();
    let before_bytes = pss_bytes(&standing.server)?;
    let mut idle: Vec<Socket> = Vec::with_capacity(connections as usize);
    for first in (0..connections).step_by(CONNECTING_AT_ONCE as usize) {
        let batch = first..connections.min(first + CONNECTING_AT_ONCE);
        let failed = |error| format!("connection {} of {connections}: {error}", idle.len() + 1);
        let begun: std::io::Result<Vec<Client>> = batch
            .map(|number| Client::begin(&place.endpoint, &format!("idle-{number}"), true))
            .collect();
        let mut begun = begun.map_err(failed)?;
        for client in &mut begun {
            client.accepted().map_err(failed)?;
        }
        idle.extend(begun.into_iter().map(Client::into_socket));
    }
    pause(REST);
    let added_bytes = pss_bytes(&standing.server)? - before_bytes;
    drop(idle);
    standing.stop()?;
    let mut figures = vec![(Figure::ConnectionBytes, added_bytes / f64::from(connections))];
    if !tls {
        figures.push((Figure::IdlePssBytes, before_bytes));
        figures.extend(rss_bytes.map(|bytes| (Figure::IdleRssBytes, bytes as f64)));
    }
    Ok(figures)
}

fn pss_bytes(server: &ServerProcess) -> Result<f64, String> {
    let bytes = server.pss_bytes();
    bytes
        .map(|bytes| bytes as f64)
        .ok_or_else(|| "the kernel does not say how much memory the server has".to_owned())
}
