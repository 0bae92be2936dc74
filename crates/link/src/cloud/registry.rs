//! Which edges are connected, and how each is reached.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hub::{EdgeCall, EdgeCalls, TwinChange};
use identity::ClientName;
use tokio::sync::{Notify, mpsc, watch};

use super::failure;
use crate::devices::DeviceFigures;

/// What an edge is to be told.
#[derive(Debug)]
pub(super) enum Down {
    /// A device behind it is called.
    Call(Box<EdgeCall>),
    /// A twin was changed here.
    Twin(TwinChange),
    /// A device of it was changed in the registry.
    Device(ClientName),
    /// Nobody knows which were.
    Compare,
    /// By what the cloud signs now.
    Trust,
    /// Nothing, but that it is there: another connection asks for its name.
    Life,
}

/// What waits to be told over a connection, at most. One call more is answered with that; one twin more
/// is told when the sides compare.
const DOWN_MAX: usize = 4_096;

/// Time for all edges to be told that the cloud stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The edges that are connected.
#[derive(Debug, Default)]
pub struct Connected {
    edges: Mutex<HashMap<Arc<str>, Entry>>,
    devices: Arc<DeviceFigures>,
    foreign_messages: AtomicU64,
    is_stopping: watch::Sender<bool>,
    /// A connection has ended.
    left: Notify,
}

#[derive(Debug)]
struct Entry {
    instance: Box<str>,
    address: Option<SocketAddr>,
    since: Instant,
    keep_alive: Duration,
    last_heard: Arc<LastHeard>,
    down: mpsc::Sender<Down>,
}

/// When something came from an edge last.
#[derive(Debug)]
pub(super) struct LastHeard(Mutex<Instant>);

impl LastHeard {
    fn now() -> Self {
        Self(Mutex::new(Instant::now()))
    }

    /// Something came now.
    pub(super) fn note(&self) {
        *self.0.lock().expect("no holder of this lock panics") = Instant::now();
    }

    /// When that was.
    pub(super) fn at(&self) -> Instant {
        *self.0.lock().expect("no holder of this lock panics")
    }
}

/// What a connection has of its place here.
pub(super) struct Entered {
    /// What the edge is to be told; closed once another connection has the place.
    pub(super) down: mpsc::Receiver<Down>,
    pub(super) last_heard: Arc<LastHeard>,
    /// Whether the cloud stops.
    pub(super) is_stopping: watch::Receiver<bool>,
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
    /// When something came from there last.
    pub(super) heard_at: Instant,
}

impl EdgeCalls for Connected {
    fn pass_on(&self, call: EdgeCall) -> Result<(), Vec<u8>> {
        let edges = self.lock();
        let Some(entry) = edges.get(&call.edge) else {
            let EdgeCall { device, edge, .. } = call;
            let message = format!("{device} is behind the edge {edge}, which is not connected");
            return Err(failure(404, &message));
        };
        match entry.down.try_reserve() {
            Ok(place) => {
                place.send(Down::Call(Box::new(call)));
                Ok(())
            }
            Err(_) => {
                let message = format!(
                    "{DOWN_MAX} things wait to be told to the edge {}, which is the limit",
                    call.edge
                );
                Err(failure(429, &message))
            }
        }
    }
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

    /// Whether this edge is.
    pub fn has(&self, edge: &str) -> bool {
        self.lock().contains_key(edge)
    }

    /// Has the edge of a device be told of its twin, if it is connected.
    pub(super) fn tell(&self, change: TwinChange) {
        let edges = self.lock();
        let entry = change.edge.as_ref().and_then(|edge| edges.get(edge));
        if let Some(entry) = entry {
            let _ = entry.down.try_send(Down::Twin(change));
        }
    }

    /// Has an edge be told of a device, if it is connected.
    pub(super) fn tell_device(&self, edge: &str, name: &ClientName) {
        if let Some(entry) = self.lock().get(edge) {
            let _ = entry.down.try_send(Down::Device(name.clone()));
        }
    }

    /// Tells all edges.
    pub(super) fn tell_all(&self, what: impl Fn() -> Down) {
        for entry in self.lock().values() {
            let _ = entry.down.try_send(what());
        }
    }

    /// Messages of tenants that the edge which brought them may not speak for, and which it was told to drop.
    pub fn foreign_messages(&self) -> u64 {
        self.foreign_messages.load(Ordering::Relaxed)
    }

    pub(super) fn refused_foreign(&self, messages: usize) {
        self.foreign_messages.fetch_add(messages as u64, Ordering::Relaxed);
    }

    /// What was told of devices, and taken.
    pub fn devices(&self) -> &Arc<DeviceFigures> {
        &self.devices
    }

    /// An edge has connected, which says something within `keep_alive` each time. One of the same start takes the place
    /// of its older connection, which ends; another one does not, as long as the older one keeps its word: two that have
    /// one name would drive each other out for ever.
    pub(super) fn enter(
        &self,
        name: Arc<str>,
        instance: &str,
        address: Option<SocketAddr>,
        keep_alive: Duration,
    ) -> Result<Entered, Taken> {
        let mut edges = self.lock();
        let other = edges.get(&name).filter(|entry| *entry.instance != *instance);
        if let Some(entry) = other.filter(|entry| !entry.down.is_closed()) {
            let heard_at = entry.last_heard.at();
            if heard_at.elapsed() <= entry.keep_alive {
                return Err(Taken {
                    by: entry.address,
                    heard_at,
                });
            }
        }
        let (sender, down) = mpsc::channel(DOWN_MAX);
        let last_heard = Arc::new(LastHeard::now());
        let entry = Entry {
            instance: instance.into(),
            address,
            since: Instant::now(),
            keep_alive,
            last_heard: Arc::clone(&last_heard),
            down: sender,
        };
        edges.insert(name, entry);
        Ok(Entered {
            down,
            last_heard,
            is_stopping: self.is_stopping.subscribe(),
        })
    }

    /// Has the edge that has this name show that it is there.
    pub(super) fn look_for_life(&self, name: &str) {
        let edges = self.lock();
        if let Some(entry) = edges.get(name) {
            // One with so much to be told is heard of without it.
            let _ = entry.down.try_send(Down::Life);
        }
    }

    /// The connection with this receiver has ended.
    pub(super) fn leave(&self, name: &str, down: &mpsc::Receiver<Down>) {
        let mut edges = self.lock();
        // Its place may have been taken meanwhile, and then its own sender is gone.
        if !down.is_closed() {
            edges.remove(name);
            self.left.notify_one();
        }
    }

    /// Tells all edges that the cloud stops, each once what it has sent is acknowledged; in two seconds at most.
    pub async fn stop(&self) {
        self.is_stopping.send_replace(true);
        let all_gone = async {
            while !self.lock().is_empty() {
                self.left.notified().await;
            }
        };
        if tokio::time::timeout(STOP_TIMEOUT, all_gone).await.is_err() {
            tracing::warn!("not all edges could be told in time that the cloud stops");
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.edges.lock().expect("no holder of this lock panics")
    }
}
