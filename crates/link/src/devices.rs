//! Devices that both sides of a link have: their records and their twins are made equal. Both sides do the same, but that
//! the edge begins.
//!
//! They tell each other which registries they have and, in the cloud, of which tenants the edge may speak. Then the edge
//! says what all devices of a tenant are in short; what differs is looked into ([`ranges`]), and devices that differ are
//! told whole ([`records`]). What changes later is told by itself. Nothing of it is acknowledged: what is lost with a
//! connection is found by the next one.

mod figures;
mod ranges;
mod records;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use device::Side;
use futures_util::future::BoxFuture;
use hub::Hub;
use identity::{ClientName, Identity, RegistryError, What};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

pub use self::figures::DeviceFigures;
use self::ranges::{Answer, Digests, Listed, Part, Ranges};
use self::records::{Read, Records, Taken, WrongRecord, names};
use crate::topics::{self, TwinTopic};

/// Parts or tenants of one packet, at most.
const PARTS_MAX: usize = 128;
/// Records of one packet: as many as make up so many bytes. On a thin line others wait for no more.
const RECORDS_BYTES: usize = 4 << 10;
/// Records of one packet that are read, at most.
const RECORDS_MAX: usize = 1_024;
/// Tenants that are compared, at most.
const TENANTS_MAX: usize = 10_000;

/// Something that is to be told to the other side: topic and payload of a PUBLISH of QoS 0.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) topic: String,
    pub(crate) payload: Vec<u8>,
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
}

/// Records of a tenant: device, what the record is (nothing: what is it there?), and the digest of the twin.
type RecordsOf<'a> = (String, Vec<(String, &'a RawValue, u64)>);

/// What all connections of a side need.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) hub: Arc<Hub>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) follow: Follow,
    pub(crate) figures: Arc<DeviceFigures>,
}

/// One side's end of one connection.
pub(crate) struct Devices {
    common: Common,
    records: Records,
    tell: mpsc::Sender<Told>,
    /// Of which tenants the edge may speak: in the cloud from the start, at the edge once the cloud has told it. Until then
    /// nothing is told.
    tenants: Mutex<Vec<String>>,
    /// What devices were when their comparison began.
    ranges: Mutex<HashMap<String, Arc<Ranges>>>,
    /// Number of the last change of the registry that was told.
    seen_change: Mutex<u64>,
}

impl Devices {
    /// The edge's end.
    pub(crate) fn at_edge(common: Common, tell: mpsc::Sender<Told>) -> Arc<Self> {
        Self::new(common, tell, Side::Edge, "".into(), Vec::new())
    }

    /// The cloud's end, of an edge that may speak for these tenants.
    pub(crate) fn in_cloud(
        common: Common,
        tell: mpsc::Sender<Told>,
        edge: Arc<str>,
        tenants: Vec<String>,
    ) -> Arc<Self> {
        Self::new(common, tell, Side::Cloud, edge, tenants)
    }

    fn new(common: Common, tell: mpsc::Sender<Told>, side: Side, edge: Arc<str>, tenants: Vec<String>) -> Arc<Self> {
        let records = Records {
            identity: Arc::clone(&common.identity),
            side,
            edge,
        };
        Arc::new(Self {
            seen_change: Mutex::new(common.identity.registry().last_change()),
            common,
            records,
            tell,
            tenants: Mutex::new(tenants),
            ranges: Mutex::default(),
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
        match self.blocking(|records| records.identity.registry().id()).await {
            Ok(registry) => self.say(topics::REGISTRY, &Greeting { registry, tenants }).await,
            Err(error) => self.complain(&error),
        }
    }

    /// Acts on what the other side told.
    pub(crate) async fn take(self: Arc<Self>, topic: String, payload: Vec<u8>) {
        if let Some(TwinTopic { tenant, device }) = TwinTopic::parse(&topic) {
            return self.take_twin(tenant, device, &payload).await;
        }
        let taken = match &*topic {
            topics::REGISTRY => match serde_json::from_slice(&payload) {
                Ok(greeting) => Ok(self.meet(greeting).await),
                Err(error) => Err(error),
            },
            topics::PARTS => match serde_json::from_slice(&payload) {
                Ok(parts) => Ok(self.take_parts(parts).await),
                Err(error) => Err(error),
            },
            topics::DEVICES => match serde_json::from_slice(&payload) {
                Ok(listed) => Ok(self.take_listed(listed).await),
                Err(error) => Err(error),
            },
            _ => match serde_json::from_slice::<RecordsOf<'_>>(&payload) {
                Ok(records) => Ok(self.take_records(records).await),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = taken {
            tracing::warn!(edge = %self.records.edge, %topic, %error, "the other side of the link said what nobody understands");
        }
    }

    /// The other side has said which registry it has. With another one than before nothing is shared yet.
    async fn meet(self: &Arc<Self>, theirs: Greeting) {
        let Greeting { registry, tenants } = theirs;
        if registry.len() > 64 || tenants.len() > TENANTS_MAX {
            return self.refuse("", &WrongRecord::TooLong(registry.len().max(tenants.len())).to_string());
        }
        let met = self.blocking(move |records| records.identity.registry().meet(&records.edge, &registry));
        if let Err(error) = met.await {
            return self.complain(&error);
        }
        if self.records.side == Side::Cloud {
            self.note_all_behind().await;
            return Arc::clone(self).greet().await;
        }
        *self.tenants.lock().unwrap_or_else(PoisonError::into_inner) = tenants;
        self.compare().await;
    }

    /// Says what all devices are in short.
    pub(crate) async fn compare(&self) {
        let mut parts = Vec::new();
        for tenant in self.tenants() {
            if let Some(ranges) = self.look(&tenant).await {
                parts.push(ranges.whole());
            }
        }
        self.tell_parts(parts).await;
    }

    async fn tell_parts(&self, parts: Vec<Part>) {
        self.common.figures.told_parts(parts.len());
        for some in parts.chunks(PARTS_MAX) {
            self.say(topics::PARTS, &some).await;
        }
    }

    async fn take_parts(&self, parts: Vec<Part>) {
        let mut answers = Vec::new();
        let tenants: BTreeSet<String> = self.tenants().into_iter().collect();
        for part in parts
            .into_iter()
            .take(PARTS_MAX)
            .filter(|part| tenants.contains(&part.tenant))
        {
            let ranges = match part.digits.is_empty() {
                true => self.look(&part.tenant).await,
                false => self.looked(&part.tenant),
            };
            match ranges.and_then(|ranges| ranges.answer(&part)) {
                Some(Answer::Parts(parts)) => answers.extend(parts),
                Some(Answer::Listed(listed)) => {
                    self.common.figures.told_devices(listed.devices.len());
                    self.say(topics::DEVICES, &listed).await;
                }
                None => {}
            }
        }
        self.tell_parts(answers).await;
    }

    /// Devices as they are now.
    async fn look(&self, tenant: &str) -> Option<Arc<Ranges>> {
        let of_tenant = tenant.to_owned();
        let records = self
            .blocking(move |records| records.digests(&of_tenant, unix_now_s()))
            .await;
        let records = records.inspect_err(|error| self.complain(error)).ok()?;
        let ids: Vec<String> = records.iter().map(|(id, _)| id.clone()).collect();
        let twins = self.common.hub.twin_digests(tenant, ids).await?;
        let devices = records.into_iter().zip(twins);
        let devices = devices.map(|((id, record), twin)| (id, Digests { record, twin }));
        let ranges = Arc::new(Ranges::new(tenant, devices));
        let mut known = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(tenant.to_owned(), Arc::clone(&ranges));
        Some(ranges)
    }

    fn looked(&self, tenant: &str) -> Option<Arc<Ranges>> {
        let known = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(tenant).cloned()
    }

    /// The other side has these devices of a part: those that differ are told.
    async fn take_listed(&self, theirs: Listed) {
        let Listed {
            tenant,
            digits,
            devices,
        } = theirs;
        let Some(ranges) = self.looked(&tenant).filter(|_| self.speaks_for(&tenant)) else {
            return;
        };
        let ours = ranges.listed(&digits).devices;
        let all: BTreeSet<&String> = ours.keys().chain(devices.keys()).take(RECORDS_MAX).collect();
        let record_of =
            |devices: &BTreeMap<String, Digests>, id: &String| devices.get(id).map(|digests| digests.record);
        let (same, others): (Vec<&String>, Vec<&String>) = all
            .into_iter()
            .partition(|id| record_of(&ours, id) == record_of(&devices, id));
        let others: Vec<String> = others.into_iter().cloned().collect();
        self.tell_records(&tenant, &others, |_| true).await;
        for id in same {
            if ours[id].twin != devices[id].twin {
                self.tell_twin(&tenant, id).await;
            }
        }
    }

    /// Tells what devices are here, of those that are to be told.
    async fn tell_records(&self, tenant: &str, ids: &[String], is_told: impl Fn(&Read) -> bool) {
        let names = names(tenant, ids);
        let asked = names.clone();
        let read = self.blocking(move |records| records.read(&asked, unix_now_s())).await;
        match read {
            Ok(read) => {
                let told = names.iter().zip(read).filter(|(_, read)| is_told(read));
                let told = told.map(|(name, read)| (name.id().to_string(), read.document));
                self.tell_documents(tenant, told.collect()).await;
            }
            Err(error) => self.complain(&error),
        }
    }

    async fn tell_documents(&self, tenant: &str, documents: Vec<(String, Vec<u8>)>) {
        let ids = documents.iter().map(|(id, _)| id.clone()).collect();
        let Some(twins) = self.common.hub.twin_digests(tenant, ids).await else {
            return;
        };
        self.common.figures.told_records(documents.len());
        let (mut some, mut bytes) = (Vec::new(), 0);
        let mut all = documents.iter().zip(twins).peekable();
        while let Some(((id, document), twin)) = all.next() {
            let text = std::str::from_utf8(document).expect("a document is JSON");
            let document: &RawValue = serde_json::from_str(text).expect("a document is JSON");
            bytes += text.len();
            some.push((id.clone(), document, twin));
            if bytes >= RECORDS_BYTES || all.peek().is_none() {
                self.say(topics::RECORDS, &(tenant, &some)).await;
                (some, bytes) = (Vec::new(), 0);
            }
        }
    }

    /// The other side has these records, or asks for them.
    async fn take_records(&self, (tenant, records): RecordsOf<'_>) {
        if self.tenants().is_empty() {
            // Told before the two have met: it is told again.
            return;
        }
        if !self.speaks_for(&tenant) {
            return self.refuse(&tenant, "an edge speaks for a tenant that it may not speak for");
        }
        let (mut names, mut documents, mut twins) = (Vec::new(), Vec::new(), Vec::new());
        for (id, document, twin) in records.into_iter().take(RECORDS_MAX) {
            // Its id is a level of its topics.
            if let (Ok(name), Ok(())) = (ClientName::new(&tenant, &id), device::topic::validate_id(&id)) {
                names.push(name);
                documents.push(document.get().as_bytes().to_vec());
                twins.push(twin);
            }
        }
        let (asked, side) = (names.clone(), self.records.side);
        let taken = self.blocking(move |records| {
            if side == Side::Edge {
                add_tenant(&records.identity, &tenant)?;
            }
            records.take(&asked, &documents, unix_now_s())
        });
        match taken.await {
            Ok(taken) => self.act_on(&names, taken, &twins).await,
            Err(error) => self.complain(&error),
        }
    }

    async fn act_on(&self, names: &[ClientName], taken: Vec<Result<Taken, String>>, twins: &[u64]) {
        let Some(tenant) = names.first().map(|name| Arc::clone(name.tenant())) else {
            return;
        };
        let (mut followed, mut replies, mut equal) = (Vec::new(), Vec::new(), Vec::new());
        for ((name, taken), twin) in names.iter().zip(taken).zip(twins) {
            let Taken {
                reply,
                is_there,
                lost,
                changes,
            } = match taken {
                Ok(taken) => taken,
                Err(error) => {
                    self.refuse(&name.to_string(), &error);
                    continue;
                }
            };
            self.common.figures.lost_edits(lost.len());
            if !changes.is_empty() || !lost.is_empty() {
                followed.push(DeviceChange {
                    name: name.clone(),
                    changes,
                    lost,
                    edge: Arc::clone(&self.records.edge),
                });
            }
            match reply {
                Some(document) => replies.push((name.id().to_string(), document)),
                None if is_there => equal.push((name.id().to_string(), *twin)),
                None => {}
            }
        }
        self.common.figures.taken_records(followed.len());
        if !followed.is_empty() {
            // Before anything of it is told: a twin that went with its device is not.
            (self.common.follow)(followed).await;
        }
        if self.records.side == Side::Cloud {
            let ids = equal.iter().map(|(id, _)| id.clone()).collect();
            self.common
                .hub
                .note_behind(&tenant, Arc::clone(&self.records.edge), ids)
                .await;
        }
        self.tell_documents(&tenant, replies).await;
        let ids: Vec<String> = equal.iter().map(|(id, _)| id.clone()).collect();
        let ours = self.common.hub.twin_digests(&tenant, ids).await.unwrap_or_default();
        for ((id, theirs), ours) in equal.into_iter().zip(ours) {
            if ours != theirs {
                self.tell_twin(&tenant, &id).await;
            }
        }
    }

    /// Something was changed in the registry: the other side is told, unless it knows.
    pub(crate) async fn tell_changes(self: Arc<Self>) {
        let changes = {
            let registry = self.common.identity.registry();
            let mut seen = self.seen_change.lock().unwrap_or_else(PoisonError::into_inner);
            let since = std::mem::replace(&mut *seen, registry.last_change());
            registry.changes_since(since)
        };
        let is_of_many = |change: &identity::Change| change.id.is_none() && change.what == What::Added;
        let Some(changes) = changes.filter(|changes| !changes.iter().any(is_of_many)) else {
            return self.compare().await;
        };
        let changed: BTreeSet<_> = changes
            .into_iter()
            .filter_map(|change| Some((change.tenant, change.id?)))
            .collect();
        for (tenant, id) in changed {
            self.tell_changed(&tenant, &id).await;
        }
    }

    /// A device was changed in the registry: the other side is told, unless it knows.
    pub(crate) async fn tell_changed(&self, tenant: &str, id: &str) {
        if self.speaks_for(tenant) {
            self.tell_records(tenant, &[id.to_owned()], |read| read.is_changed)
                .await;
        }
    }

    /// Tells what a twin is here, or asks what it is there.
    pub(crate) async fn tell_twin(&self, tenant: &str, device: &str) {
        let hub = &self.common.hub;
        let digests = hub.twin_digests(tenant, vec![device.to_owned()]).await;
        let twin = match digests.as_deref() {
            Some([0]) => Vec::new(),
            Some(_) => hub.read_twin(tenant, device).await.unwrap_or_default(),
            None => return,
        };
        self.send_twin(tenant, device, twin).await;
    }

    /// Takes in what the other side has of a twin, and tells it what it lacks.
    async fn take_twin(&self, tenant: &str, device: &str, theirs: &[u8]) {
        if !self.speaks_for(tenant) || !self.is_behind(tenant, device).await {
            return;
        }
        let hub = &self.common.hub;
        if theirs.is_empty() {
            let twin = hub.read_twin(tenant, device).await.unwrap_or_default();
            return self.send_twin(tenant, device, twin).await;
        }
        let edge = Some(Arc::clone(&self.records.edge)).filter(|edge| !edge.is_empty());
        match hub.merge_twin(tenant, device, theirs, edge).await {
            Ok(Some(twin)) if !twin.is_empty() => self.send_twin(tenant, device, twin).await,
            Ok(_) => {}
            Err(error) => self.refuse(device, &error.to_string()),
        }
    }

    async fn send_twin(&self, tenant: &str, device: &str, payload: Vec<u8>) {
        let topic = TwinTopic { tenant, device }.to_string();
        // Without a connection nobody is told.
        let _ = self.tell.send(Told { topic, payload }).await;
    }

    /// Whether a device is of the edge at the other side; at the edge, all are.
    async fn is_behind(&self, tenant: &str, device: &str) -> bool {
        if self.records.side == Side::Edge {
            return true;
        }
        let Ok(name) = ClientName::new(tenant, device) else {
            return false;
        };
        let edge = Arc::clone(&self.records.edge);
        let found = self.blocking(move |records| {
            let client = records.identity.registry().client(&name)?;
            Ok(client.is_some_and(|client| client.edge.as_deref() == Some(&*edge)))
        });
        found.await.unwrap_or(false)
    }

    /// Has the hub know that the devices of the edge are behind it.
    async fn note_all_behind(&self) {
        for tenant in self.tenants() {
            let of_tenant = tenant.clone();
            let ids = self.blocking(move |records| records.identity.registry().shared_ids(&records.edge, &of_tenant));
            match ids.await {
                Ok(ids) => {
                    let edge = Arc::clone(&self.records.edge);
                    self.common.hub.note_behind(&tenant, edge, ids).await;
                }
                Err(error) => self.complain(&error),
            }
        }
    }

    fn tenants(&self) -> Vec<String> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn speaks_for(&self, tenant: &str) -> bool {
        let tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        tenants.iter().any(|one| one == tenant)
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

/// The cloud has devices of a tenant that may be new at the edge.
fn add_tenant(identity: &Identity, tenant: &str) -> Result<(), RegistryError> {
    if identity.registry().tenant(tenant)?.is_some() {
        return Ok(());
    }
    identity.registry().add_tenant(tenant, &identity::Quotas::default())
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
