//! What is shared with the other nodes of a site, while there is one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use site::{Site, Stream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use crate::nodes::{self, Call, Has, Near, Others, Ways};
use crate::{Doors, held};

/// Between two looks at which other nodes are there, and how far it is to them.
const NEAR_PAUSE: Duration = Duration::from_millis(250);

/// What is shared with other nodes.
#[derive(Clone)]
pub(crate) struct OfSite {
    /// What they have.
    pub(crate) others: Arc<Mutex<Arc<Others>>>,
    /// What they are told that there is here.
    pub(crate) told: watch::Sender<Arc<BTreeMap<Call, Has>>>,
    pub(crate) ways: Ways,
    /// Told when the others have something else.
    pub(crate) changes: Arc<Notify>,
}

impl OfSite {
    /// Tells the others what there is here, and keeps what they have, until the site is over.
    pub(crate) async fn follow(
        self,
        site: Weak<Site>,
        requests: mpsc::Receiver<(String, Stream)>,
        doors: Arc<Mutex<Doors>>,
    ) {
        self.follow_while_there(&site, requests, doors).await;
        *held(&self.others) = Arc::default();
        self.ways.set_near(Near::default());
        self.changes.notify_one();
    }

    async fn follow_while_there(
        &self,
        site: &Weak<Site>,
        mut requests: mpsc::Receiver<(String, Stream)>,
        doors: Arc<Mutex<Doors>>,
    ) {
        let Some(mut known) = site.upgrade().map(|site| site.known()) else {
            return;
        };
        let mut telling = self.told.subscribe();
        telling.mark_changed();
        known.mark_changed();
        // They end with this.
        let mut taken = JoinSet::new();
        let mut looks = interval(NEAR_PAUSE);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = telling.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let (said, left_out) = nodes::say(&telling.borrow_and_update());
                    if left_out > 0 {
                        tracing::warn!(left_out, "there are more services here than other nodes can be told of");
                    }
                    let Some(site) = site.upgrade() else { return };
                    site.say(said).await;
                }
                changed = known.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let others = Arc::new(nodes::heard(&known.borrow_and_update()));
                    let before = std::mem::replace(&mut *held(&self.others), Arc::clone(&others));
                    if before != others {
                        self.changes.notify_one();
                    }
                }
                _ = looks.tick() => {
                    let Some(site) = site.upgrade() else { return };
                    self.ways.set_near(site.near());
                }
                Some((node, stream)) = requests.recv() => {
                    while taken.try_join_next().is_some() {}
                    taken.spawn(take(node, stream, Arc::clone(&doors)));
                }
            }
        }
    }
}

/// A request that another node has sent.
async fn take(node: String, mut stream: Stream, doors: Arc<Mutex<Doors>>) {
    let (call, speaks) = match nodes::called(&mut stream).await {
        Ok(called) => called,
        Err(error) => return tracing::warn!(node, %error, "a request of another node cannot be read"),
    };
    let leads = held(&doors).of_service(&call);
    match leads {
        Some(leads) => leads.lead_of_node(stream, speaks, node).await,
        None => {
            let why = format!("it has no port {} of a service {}", call.port, call.service);
            let _ = nodes::refuse(&mut stream, &why).await;
        }
    }
}
