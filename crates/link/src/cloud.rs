//! The cloud's end of the link: serves the edges that the hub's doors let in.

mod batches;
mod claim;
mod registry;
mod session;

use std::sync::Arc;

use hub::{EdgeConnection, Hub};
use identity::{Change, ClientName, CloudTrust, Identity, What};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::registry::Down;
pub use self::registry::{Connected, ConnectedEdge, Presence};
use self::session::Session;
use crate::Talk;
use crate::devices::{Common, Follow};

/// Speaks with edges about what is wanted of them here.
pub trait Correspondent: Send + Sync {
    /// There is a connection of this edge, which may speak for these tenants.
    fn begin(&self, edge: &Arc<str>, tenants: &[String], talk: Talk);
}

/// Serves edges until the hub ends. Who is connected can be read from `connected`; `follow` acts on what they change
/// about their devices, `manifests` speaks with them about theirs.
pub async fn run(
    hub: Arc<Hub>,
    identity: Arc<Identity>,
    follow: Follow,
    mut edges: mpsc::Receiver<EdgeConnection>,
    connected: Arc<Connected>,
    manifests: Arc<dyn Correspondent>,
) {
    let mut sessions = JoinSet::new();
    let common = Common {
        hub: Arc::clone(&hub),
        identity: Arc::clone(&identity),
        follow,
        figures: Arc::clone(connected.devices()),
        new_authority: Arc::default(),
    };
    let mut refreshes = hub.refreshes();
    let mut seen_change = identity.registry().last_change();
    let mut shown_trust = shown_trust_of(&identity).await;
    let mut changes = hub.take_twin_changes().expect("a cloud shares twins with its edges");
    loop {
        tokio::select! {
            biased;
            connection = edges.recv() => match connection {
                Some(connection) => {
                    let (common, connected) = (common.clone(), Arc::clone(&connected));
                    let manifests = Arc::clone(&manifests);
                    sessions.spawn(async move {
                        Session::serve(connection, common, &connected, &*manifests).await;
                    });
                }
                None => return,
            },
            change = changes.recv() => match change {
                Some(change) => connected.tell(change),
                None => return,
            },
            Ok(()) = refreshes.changed() => {
                let since = std::mem::replace(&mut seen_change, identity.registry().last_change());
                let changes = identity.registry().changes_since(since);
                tell_edges(&identity, &connected, changes).await;
                let trust = shown_trust_of(&identity).await;
                if trust != shown_trust {
                    shown_trust = trust;
                    connected.tell_all(|| Down::Trust);
                }
            }
            Some(_) = sessions.join_next() => {}
        }
    }
}

/// What edges believe: it may have to wait for a key that is being replaced.
async fn shown_trust_of(identity: &Arc<Identity>) -> CloudTrust {
    let identity = Arc::clone(identity);
    let shown = tokio::task::spawn_blocking(move || identity.shown_trust());
    shown.await.expect("the registry does not panic")
}

/// Has the edges be told of devices that were changed in the registry; `None`: nobody knows which.
async fn tell_edges(identity: &Arc<Identity>, connected: &Arc<Connected>, changes: Option<Vec<Change>>) {
    let is_of_many = |change: &Change| change.id.is_none() && change.what == What::Added;
    let Some(changes) = changes.filter(|changes| !changes.iter().any(is_of_many)) else {
        return connected.tell_all(|| Down::Compare);
    };
    let (identity, connected) = (Arc::clone(identity), Arc::clone(connected));
    let telling = tokio::task::spawn_blocking(move || {
        for Change { tenant, id, .. } in changes {
            let Some(name) = id.and_then(|id| ClientName::new(&tenant, &id).ok()) else {
                continue;
            };
            match identity.registry().edges_of(&name) {
                Ok(edges) => edges.iter().for_each(|edge| connected.tell_device(edge, &name)),
                Err(error) => tracing::error!(%error, "edges are not told of a device that was changed"),
            }
        }
    });
    telling.await.expect("the registry does not panic");
}
