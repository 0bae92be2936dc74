//! Which edges are connected, and how each is reached.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use hub::{EdgeCall, EdgeCalls, NotAsked, TwinChange};
use identity::ClientName;
use tokio::sync::{Notify, mpsc, watch};

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

/// Edges that are not connected any more and of which it is remembered when they were heard last, at most; of more,
/// those that were heard longest ago are as if they had never been here.
const GONE_MAX: usize = 65_536;

/// Time for all edges to be told that the cloud stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The edges that are connected.
#[derive(Debug, Default)]
pub struct Connected {
    edges: Mutex<Edges>,
    devices: Arc<DeviceFigures>,
    foreign_messages: AtomicU64,
    is_stopping: watch::Sender<bool>,
    /// A connection has ended.
    has_left: Notify,
}

#[derive(Debug, Default)]
struct Edges {
    here: HashMap<Arc<str>, Entry>,
    /// Those that are not any more, and when each was heard last.
    gone: HashMap<Arc<str>, Instant>,
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

/// What the cloud knows of an edge's being there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Whether there is a connection, as far as is known: one that falls silent is found out after a while.
    pub is_connected: bool,
    /// How long ago something came from it last; `None`: nothing has since this cloud started.
    pub heard_ago: Option<Duration>,
}

impl EdgeCalls for Connected {
    fn pass_on(&self, call: EdgeCall) -> Result<(), NotAsked> {
        let edges = self.lock();
        let Some(entry) = edges.here.get(&call.edge) else {
            let heard = match edges.gone.get(&call.edge) {
                Some(at) => format!("heard last {} s ago", at.elapsed().as_secs()),
                None => "not heard since this cloud started".to_owned(),
            };
            let EdgeCall { device, edge, .. } = call;
            return Err(NotAsked {
                status: 404,
                message: format!("{device} is behind the edge {edge}, which is not connected ({heard})"),
            });
        };
        match entry.down.try_reserve() {
            Ok(place) => {
                place.send(Down::Call(Box::new(call)));
                Ok(())
            }
            Err(_) => Err(NotAsked {
                status: 429,
                message: format!(
                    "{DOWN_MAX} things wait to be told to the edge {}, which is the limit",
                    call.edge
                ),
            }),
        }
    }

    fn state_of(&self, edge: &str, asked_ago: Duration) -> String {
        let Presence {
            is_connected,
            heard_ago,
        } = self.presence(edge);
        let heard = heard_ago.map(|ago| format!("{:.1} s ago", ago.as_secs_f64()));
        match (is_connected, heard) {
            (true, Some(heard)) if heard_ago < Some(asked_ago) => {
                format!("its edge {edge} is connected, and was heard {heard}")
            }
            (_, Some(heard)) if heard_ago >= Some(asked_ago) => {
                format!("nothing was heard of its edge {edge} since the call was made; that was heard last {heard}")
            }
            (_, Some(heard)) => format!("its edge {edge} is not connected any more, and was heard last {heard}"),
            (_, None) => format!("its edge {edge} is not connected"),
        }
    }
}

impl Connected {
    /// All of them.
    pub fn list(&self) -> Vec<ConnectedEdge> {
        let edges = self.lock();
        let edges = edges.here.iter().map(|(name, entry)| ConnectedEdge {
            name: Arc::clone(name),
            address: entry.address,
            since: entry.since.elapsed(),
        });
        edges.collect()
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.lock().here.len()
    }

    /// What is known of this edge.
    pub fn presence(&self, edge: &str) -> Presence {
        let edges = self.lock();
        let entry = edges.here.get(edge);
        let heard_at = match entry {
            Some(entry) => Some(entry.last_heard.at()),
            None => edges.gone.get(edge).copied(),
        };
        Presence {
            is_connected: entry.is_some(),
            heard_ago: heard_at.map(|at| at.elapsed()),
        }
    }

    /// Has the edge of a device be told of its twin, if it is connected.
    pub(super) fn tell(&self, change: TwinChange) {
        let edges = self.lock();
        let entry = change.edge.as_ref().and_then(|edge| edges.here.get(edge));
        if let Some(entry) = entry {
            let _ = entry.down.try_send(Down::Twin(change));
        }
    }

    /// Has an edge be told of a device, if it is connected.
    pub(super) fn tell_device(&self, edge: &str, name: &ClientName) {
        if let Some(entry) = self.lock().here.get(edge) {
            let _ = entry.down.try_send(Down::Device(name.clone()));
        }
    }

    /// Tells all edges.
    pub(super) fn tell_all(&self, what: impl Fn() -> Down) {
        for entry in self.lock().here.values() {
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
    /// of its older connection, which ends; another one does not, as long as the older one keeps its word: two that
    /// have one name would drive each other out for ever.
    pub(super) fn enter(
        &self,
        name: Arc<str>,
        instance: &str,
        address: Option<SocketAddr>,
        keep_alive: Duration,
    ) -> Result<Entered, Taken> {
        let mut edges = self.lock();
        let other = edges.here.get(&name).filter(|entry| *entry.instance != *instance);
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
        edges.gone.remove(&name);
        edges.here.insert(name, entry);
        Ok(Entered {
            down,
            last_heard,
            is_stopping: self.is_stopping.subscribe(),
        })
    }

    /// Has the edge that has this name show that it is there.
    pub(super) fn look_for_life(&self, name: &str) {
        let edges = self.lock();
        if let Some(entry) = edges.here.get(name) {
            // One with so much to be told is heard of without it.
            let _ = entry.down.try_send(Down::Life);
        }
    }

    /// The connection with this receiver has ended.
    pub(super) fn leave(&self, name: &str, down: &mpsc::Receiver<Down>) {
        let mut edges = self.lock();
        // Its place may have been taken meanwhile, and then its own sender is gone.
        if !down.is_closed()
            && let Some((name, entry)) = edges.here.remove_entry(name)
        {
            edges.remember(name, entry.last_heard.at());
            self.has_left.notify_one();
        }
    }

    /// Tells all edges that the cloud stops, each once what it has sent is acknowledged; in two seconds at most.
    pub async fn stop(&self) {
        self.is_stopping.send_replace(true);
        let all_gone = async {
            while !self.lock().here.is_empty() {
                self.has_left.notified().await;
            }
        };
        if tokio::time::timeout(STOP_TIMEOUT, all_gone).await.is_err() {
            tracing::warn!("not all edges could be told in time that the cloud stops");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Edges> {
        self.edges.lock().expect("no holder of this lock panics")
    }
}

impl Edges {
    fn remember(&mut self, edge: Arc<str>, heard_at: Instant) {
        self.gone.insert(edge, heard_at);
        if self.gone.len() > GONE_MAX {
            let oldest = self.gone.iter().min_by_key(|(_, at)| **at);
            let oldest = oldest.map(|(edge, _)| Arc::clone(edge)).expect("there are many");
            self.gone.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_edges_than_are_remembered_the_one_heard_longest_ago_is_forgotten() {
        let (mut edges, now) = (Edges::default(), Instant::now());
        for number in 0..=GONE_MAX {
            edges.remember(number.to_string().into(), now + Duration::from_millis(number as u64));
        }
        assert_eq!((edges.gone.len(), edges.gone.contains_key("0")), (GONE_MAX, false));
    }

    #[test]
    fn an_edge_is_known_by_its_connection_and_then_by_when_it_was_heard() {
        let connected = Connected::default();
        let unheard = Presence {
            is_connected: false,
            heard_ago: None,
        };
        assert_eq!(connected.presence("hall-1"), unheard);
        let entered = connected.enter("hall-1".into(), "start", None, Duration::from_secs(10));
        let entered = entered.expect("nobody has the name");
        assert!(connected.presence("hall-1").is_connected);
        let said = connected.state_of("hall-1", Duration::from_secs(60));
        assert!(
            said.starts_with("its edge hall-1 is connected, and was heard 0.0 s ago"),
            "{said}"
        );
        let said = connected.state_of("hall-1", Duration::ZERO);
        assert!(said.starts_with("nothing was heard of its edge hall-1 since"), "{said}");
        connected.leave("hall-1", &entered.down);
        let left = connected.presence("hall-1");
        assert!(!left.is_connected && left.heard_ago.is_some());
        let said = connected.state_of("hall-1", Duration::from_secs(60));
        assert!(said.starts_with("its edge hall-1 is not connected any more"), "{said}");
    }
}
