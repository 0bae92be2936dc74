//! Who is known here, and what each says beside where it is.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Running, now};

/// Addresses that are dialled of one node.
const MAX_ADDRESSES: usize = 8;

/// Another node, as it is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub node: String,
    /// Where it says that it is.
    pub addresses: Vec<SocketAddr>,
    /// What it says.
    pub said: Vec<u8>,
    /// Whether somebody has heard of it within seconds.
    pub is_alive: bool,
    /// Whether there is a connection between the two.
    pub is_connected: bool,
    /// The node through which that passes; `None`: through none.
    pub through: Option<String>,
    /// When somebody last heard of it, where it is silent and that is known.
    pub silent_since: Option<std::time::Instant>,
}

/// What a node says.
#[derive(Serialize, Deserialize)]
struct Said {
    addresses: Vec<SocketAddr>,
    what: Vec<u8>,
}

impl Running {
    pub(super) fn tell_who_is_known(&mut self) {
        if !std::mem::take(&mut self.is_new) && self.is_told() {
            return;
        }
        let known = self.gossip.members(now()).map(|member| {
            let said: Option<Said> = postcard::from_bytes(member.content).ok();
            Known {
                node: member.node.to_owned(),
                addresses: addresses(member.content),
                said: said.map(|said| said.what).unwrap_or_default(),
                is_alive: member.is_alive,
                is_connected: self.lines.contains_key(member.node),
                through: self.through(member.node).map(str::to_owned),
                silent_since: member.heard_at.filter(|_| !member.is_alive),
            }
        });
        self.telling.send_replace(Arc::new(known.collect()));
    }

    /// Whether who is there is as it was told last, whatever they say.
    fn is_told(&self) -> bool {
        let told = self.telling.borrow();
        let told = told.iter().map(|known| {
            let Known { node, through, .. } = known;
            (&**node, known.is_alive, known.is_connected, through.as_deref())
        });
        let known = self.gossip.members(now()).map(|member| {
            let node = member.node;
            (node, member.is_alive, self.lines.contains_key(node), self.through(node))
        });
        told.eq(known)
    }

    /// The node through which the line to a node passes, if it does.
    fn through(&self, node: &str) -> Option<&str> {
        self.lines.get(node)?.through.as_deref()
    }
}

pub(super) fn said(addresses: &[SocketAddr], what: Vec<u8>) -> Vec<u8> {
    let addresses = addresses.iter().take(MAX_ADDRESSES).copied().collect();
    postcard::to_allocvec(&Said { addresses, what }).expect("addresses and bytes can be written")
}

pub(super) fn addresses(content: &[u8]) -> Vec<SocketAddr> {
    let said: Option<Said> = postcard::from_bytes(content).ok();
    let addresses = said.map(|said| said.addresses).unwrap_or_default();
    addresses.into_iter().take(MAX_ADDRESSES).collect()
}
