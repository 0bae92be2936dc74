//! Devices that both sides of a link have: their records and their twins are made equal. Both sides do the same, but
//! that the edge begins.
//!
//! They tell each other which registries they have and, in the cloud, of which tenants the edge may speak. Then the
//! edge says what all devices of a tenant are in short; what differs is looked into ([`ranges`]), and devices that
//! differ are told whole ([`records`]). What changes later is told by itself. Nothing of it is acknowledged: what is
//! lost with a connection is found by the next one.

mod comparing;
mod figures;
mod ranges;
mod records;
mod telling;
mod twins;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device::Side;
use futures_util::future::BoxFuture;
use hub::Hub;
use identity::{ClientName, CloudTrust, Identity, RegistryError, What};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};

pub use self::figures::DeviceFigures;
use self::ranges::Ranges;
use self::records::{Records, WrongRecord};
use self::telling::Waiting;
use crate::topics::{self, TwinTopic};

/// Devices of one packet that are looked at, at most.
const RECORDS_MAX: usize = 1_024;
/// Tenants that are compared, at most.
const TENANTS_MAX: usize = 10_000;

/// Something that is to be told to the other side: topic and payload of a PUBLISH.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
}

impl Told {
    /// Nothing, but that its PUBACK shows that the edge is there.
    pub(crate) fn life() -> Self {
        Self {
            topic: topics::LIFE.to_owned(),
            payload: Vec::new(),
        }
    }
}

/// A device was changed here because the other side of a link had changed it.
#[derive(Clone, Debug)]
pub struct DeviceChange {
    /// The device.
    pub name: ClientName,
    /// What changed, in order.
    pub changes: Vec<What>,
    /// Members of its record of which an edit was given up for another.
    pub lost: Vec<String>,
    /// The edge that it is behind, in its cloud; empty at that edge.
    pub edge: Arc<str>,
}

/// Acts on what a link changed in the registry, as on what an operator changes; done once that has effect.
pub type Follow = Arc<dyn Fn(Vec<DeviceChange>) -> BoxFuture<'static, ()> + Send + Sync>;

/// What each side tells first.
#[derive(Debug, Serialize, Deserialize)]
struct Greeting {
    /// Tells its registry from all others.
    registry: String,
    /// From the cloud: of which tenants the edge may speak.
    #[serde(default)]
    tenants: Vec<String>,
    /// From the cloud: by what it signs.
    #[serde(default)]
    trust: Option<CloudTrust>,
}

/// What all connections of a side need.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) hub: Arc<Hub>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) follow: Follow,
    pub(crate) figures: Arc<DeviceFigures>,
    /// Told at an edge once the authority of its cloud is another one.
    pub(crate) new_authority: Arc<Notify>,
}

/// One side's end of one connection.
pub(crate) struct Devices {
    common: Common,
    records: Records,
    tell: mpsc::Sender<Told>,
    /// Of which tenants the edge may speak: in the cloud from the start, at the edge once the cloud has told it. Until
    /// then nothing is told.
    tenants: Mutex<Vec<String>>,
    /// What devices were when their comparison began.
    ranges: Mutex<HashMap<String, Arc<Ranges>>>,
    /// Records that the other side told and nobody has looked at yet, by tenant: what comes while some are taken is
    /// taken together, in one write to disk.
    waiting: Mutex<HashMap<String, Vec<Waiting>>>,
    /// Held by who takes them.
    taking: tokio::sync::Mutex<()>,
    /// Number of the last change of the registry that was told.
    seen_change: Mutex<u64>,
}

impl Devices {
    /// The edge's end.
    pub(crate) fn at_edge(common: Common, tell: mpsc::Sender<Told>) -> Arc<Self> {
        Self::new(common, tell, "".into(), Vec::new())
    }

    /// The cloud's end, of an edge that may speak for these tenants.
    pub(crate) fn in_cloud(
        common: Common,
        tell: mpsc::Sender<Told>,
        edge: Arc<str>,
        tenants: Vec<String>,
    ) -> Arc<Self> {
        Self::new(common, tell, edge, tenants)
    }

    fn new(common: Common, tell: mpsc::Sender<Told>, edge: Arc<str>, tenants: Vec<String>) -> Arc<Self> {
        let records = Records {
            identity: Arc::clone(&common.identity),
            author: common.hub.author(),
            edge,
        };
        Arc::new(Self {
            seen_change: Mutex::new(common.identity.registry().last_change()),
            common,
            records,
            tell,
            tenants: Mutex::new(tenants),
            ranges: Mutex::default(),
            waiting: Mutex::default(),
            taking: tokio::sync::Mutex::default(),
        })
    }

    /// Whether a packet with this topic is for [`Devices::take`].
    pub(crate) fn is_of(topic: &str) -> bool {
        [topics::REGISTRY, topics::PARTS, topics::DEVICES, topics::RECORDS].contains(&topic)
            || TwinTopic::parse(topic).is_some()
    }

    /// Begins: the edge says which registry it has.
    pub(crate) async fn greet(self: Arc<Self>) {
        let mut tenants = self.tenants();
        tenants.truncate(TENANTS_MAX);
        let greeting = self.blocking(move |records| {
            let identity = &records.identity;
            Ok(Greeting {
                registry: identity.registry().id()?,
                tenants,
                trust: (records.author.side == Side::Cloud).then(|| identity.shown_trust()),
            })
        });
        match greeting.await {
            Ok(greeting) => self.say(topics::REGISTRY, &greeting).await,
            Err(error) => self.complain(&error),
        }
    }

    /// Acts on what the other side told.
    pub(crate) async fn take(self: Arc<Self>, topic: String, payload: Vec<u8>) {
        if let Some(TwinTopic { tenant, device }) = TwinTopic::parse(&topic) {
            return self.take_twin(tenant, device, &payload).await;
        }
        if let Err(error) = self.understand(&topic, &payload).await {
            tracing::warn!(edge = %self.records.edge, %topic, %error, "the other side of the link said what nobody understands");
        }
    }

    async fn understand(self: &Arc<Self>, topic: &str, payload: &[u8]) -> Result<(), serde_json::Error> {
        match topic {
            topics::REGISTRY => self.meet(serde_json::from_slice(payload)?).await,
            topics::PARTS => self.take_parts(serde_json::from_slice(payload)?).await,
            topics::DEVICES => self.take_listed(serde_json::from_slice(payload)?).await,
            _ => self.take_records(serde_json::from_slice(payload)?).await,
        }
        Ok(())
    }

    /// The other side has said which registry it has. With another one than before nothing is shared yet.
    async fn meet(self: &Arc<Self>, theirs: Greeting) {
        let Greeting {
            registry,
            tenants,
            trust,
        } = theirs;
        if registry.len() > 64 || tenants.len() > TENANTS_MAX {
            return self.refuse("", &WrongRecord::TooLong(registry.len().max(tenants.len())).to_string());
        }
        let met = self.blocking(move |records| records.identity.registry().meet(&records.edge, &registry));
        if let Err(error) = met.await {
            return self.complain(&error);
        }
        if self.records.author.side == Side::Cloud {
            return Arc::clone(self).greet().await;
        }
        if let Some(trust) = trust {
            self.trust(trust).await;
        }
        *lock(&self.tenants) = tenants;
        self.compare().await;
    }

    /// The edge believes what its cloud gave to devices that the two share.
    async fn trust(&self, trust: CloudTrust) {
        match self
            .blocking(move |records| Ok(records.identity.trust_cloud(trust, unix_now_s())))
            .await
        {
            Ok(Ok(true)) => self.common.new_authority.notify_one(),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => self.refuse("its authority", &error.to_string()),
            Err(error) => self.complain(&error),
        }
        // Where it gave a key up, connections end.
        (self.common.follow)(Vec::new()).await;
    }

    fn tenants(&self) -> Vec<String> {
        lock(&self.tenants).clone()
    }

    fn speaks_for(&self, tenant: &str) -> bool {
        lock(&self.tenants).iter().any(|one| one == tenant)
    }

    async fn say(&self, topic: &str, what: &impl Serialize) {
        let payload = serde_json::to_vec(what).expect("names and numbers are JSON");
        let topic = topic.to_owned();
        // Without a connection nobody is told.
        let _ = self.tell.send(Told { topic, payload }).await;
    }

    /// Runs what reads or writes the registry.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Records) -> Result<T, RegistryError> + Send + 'static,
    ) -> Result<T, RegistryError> {
        let records = self.records.clone();
        let done = tokio::task::spawn_blocking(move || work(&records)).await;
        done.expect("the registry does not panic")
    }

    fn refuse(&self, what: &str, why: &str) {
        self.common.figures.refused();
        tracing::warn!(edge = %self.records.edge, %what, %why, "what the other side of the link says of a device is not taken");
    }

    fn complain(&self, error: &RegistryError) {
        tracing::error!(edge = %self.records.edge, %error, "devices are not shared over the link");
    }
}

/// A panic while one was held leaves nothing half done here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_now_s() -> i64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the registry says since when a device is in it"
    )]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}
