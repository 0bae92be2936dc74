//! Which edges are connected, and how each is reached.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hub::EdgeCall;
use tokio::sync::mpsc;

/// Calls that wait for a connection, at most; one more is answered as if the edge were away.
const CALLS_MAX: usize = 4_096;

/// The edges that are connected.
#[derive(Debug, Default)]
pub struct Connected(Mutex<HashMap<Arc<str>, Entry>>);

#[derive(Debug)]
struct Entry {
    instance: Box<str>,
    address: Option<SocketAddr>,
    since: Instant,
    calls: mpsc::Sender<Box<EdgeCall>>,
}

/// An edge that is connected.
#[derive(Clone, Debug)]
pub struct ConnectedEdge {
    /// Its name: `{id}` in the default tenant, else `{tenant}/{id}`.
    pub name: Arc<str>,
    /// Where it connects from; `None`: over a Unix socket.
    pub address: Option<SocketAddr>,
    /// For how long.
    pub since: Duration,
}

/// The name is taken by another start of an edge, or by a copy of it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) by: Option<SocketAddr>,
}

impl Connected {
    /// All of them.
    pub fn list(&self) -> Vec<ConnectedEdge> {
        let edges = self.lock();
        let edges = edges.iter().map(|(name, entry)| ConnectedEdge {
            name: Arc::clone(name),
            address: entry.address,
            since: entry.since.elapsed(),
        });
        edges.collect()
    }

    /// Hands a call to the connection of its edge; it comes back if there is none, or too many wait for it.
    pub(super) fn send(&self, call: Box<EdgeCall>) -> Result<(), Box<EdgeCall>> {
        let edges = self.lock();
        match edges.get(&call.edge) {
            Some(entry) => entry
                .calls
                .try_send(call)
                .map_err(mpsc::error::TrySendError::into_inner),
            None => Err(call),
        }
    }

    /// An edge has connected. One of the same start takes the place of its older connection, which ends; another one
    /// does not: two that have one name would drive each other out for ever.
    pub(super) fn enter(
        &self,
        name: Arc<str>,
        instance: &str,
        address: Option<SocketAddr>,
    ) -> Result<mpsc::Receiver<Box<EdgeCall>>, Taken> {
        let mut edges = self.lock();
        if let Some(entry) = edges
            .get(&name)
            .filter(|entry| *entry.instance != *instance && !entry.calls.is_closed())
        {
            return Err(Taken { by: entry.address });
        }
        let (calls, receiver) = mpsc::channel(CALLS_MAX);
        let entry = Entry {
            instance: instance.into(),
            address,
            since: Instant::now(),
            calls,
        };
        edges.insert(name, entry);
        Ok(receiver)
    }

    /// The connection with this receiver has ended.
    pub(super) fn leave(&self, name: &str, calls: &mpsc::Receiver<Box<EdgeCall>>) {
        let mut edges = self.lock();
        // Its place may have been taken meanwhile, and then its own sender is gone.
        if !calls.is_closed() {
            edges.remove(name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.0.lock().expect("no holder of this lock panics")
    }
}
