//! Lets an application start once those that it comes after are ready.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::application::Readiness;
use super::{Changes, Key};

/// How the applications of an edge are, for each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Peers(Arc<Mutex<BTreeMap<Key, Readiness>>>);

impl Peers {
    pub(super) fn add(&self, key: Key, readiness: Readiness) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key, readiness);
    }

    pub(super) fn retain(&self, is_kept: impl Fn(&Key) -> bool) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|key, _| is_kept(key));
    }

    /// Who sleeps until somebody calls is as good as one that is ready.
    fn missing(&self, key: &Key) -> Option<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &key.application;
        match all.get(key).filter(|peer| peer.is_wanted()) {
            None => Some(format!("it waits for {name}, which is not applied, or waits itself")),
            Some(peer) => (!peer.is_met()).then(|| format!("it waits for {name}, which is not ready")),
        }
    }
}

/// That of one application.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    peers: Peers,
    tenant: String,
    changes: Changes,
    after: watch::Receiver<BTreeSet<String>>,
}

impl Gate {
    /// Of an application of `tenant`, which comes `after` those.
    pub(super) fn new(tenant: &str, peers: Peers, changes: Changes, after: watch::Receiver<BTreeSet<String>>) -> Self {
        Gate {
            peers,
            tenant: tenant.to_owned(),
            changes,
            after,
        }
    }

    /// Returns once all that it comes after are ready at one time; until then `tell` is told for whom it waits.
    pub(super) async fn opens(&mut self, tell: impl Fn(String)) {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let after = self.after.borrow_and_update().clone();
            let missing = after.into_iter().find_map(|application| {
                let tenant = self.tenant.clone();
                self.peers.missing(&Key { tenant, application })
            });
            let Some(missing) = missing else { return };
            tell(missing);
            tokio::select! {
                _ = changes.changed() => {}
                changed = self.after.changed() => if changed.is_err() {
                    // It is not wanted any more.
                    pending::<()>().await;
                },
            }
        }
    }
}
