//! One of the three hosts.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::NetworkError;
use super::error::trying;
use super::namespace::Namespace;
use crate::arms::Helper;

/// Which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// Where the devices are.
    Device,
    /// Between the two others; their router.
    Edge,
    /// Behind the edge.
    Cloud,
}

/// A machine of its own as far as its network goes, with IPv4 alone; files and processes are this machine's.
#[derive(Clone)]
pub struct Host {
    address: Ipv4Addr,
    /// None: this machine's own network.
    namespace: Option<Arc<Namespace>>,
}

impl Host {
    pub(super) fn inside(namespace: Arc<Namespace>, address: Ipv4Addr) -> Host {
        Host {
            address,
            namespace: Some(namespace),
        }
    }

    /// One that no line leads to. What is made there of networks, rules and ports is its own, and gone with it.
    ///
    /// # Errors
    /// Hosts cannot be made here.
    pub(crate) fn alone() -> Result<Host, NetworkError> {
        super::build::alone()
    }

    /// This machine itself.
    pub(crate) fn loopback() -> Host {
        Host {
            address: Ipv4Addr::LOCALHOST,
            namespace: None,
        }
    }

    /// Where the other hosts reach it. The edge has two; this is the one on the devices' side, known to the cloud too.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Does `work` on a new thread of this host, and waits for it. Sockets that it opens belong to this host for good,
    /// whichever thread uses them then. A load generator runs whole in here.
    ///
    /// Servers are not started here but by [`Host::helper`]: their life is tied to the thread that starts them.
    ///
    /// # Errors
    /// No thread can be had, or the namespace cannot be entered.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetworkError> {
        let done = match &self.namespace {
            Some(namespace) => namespace.enter(work),
            None => on_this_machine(work),
        };
        done.map_err(trying("entering a host"))
    }

    /// `helper`, starting its programs on this host.
    #[must_use]
    pub fn helper(&self, helper: &Helper) -> Helper {
        Helper {
            network_namespace: self.namespace.as_ref().map(|namespace| namespace.path()),
            ..helper.clone()
        }
    }
}

/// On a new thread too, so that what works here works on any host.
fn on_this_machine<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
