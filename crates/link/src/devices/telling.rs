//! Records of devices, told whole and taken in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use device::Side;
use identity::{ClientName, Identity, RegistryError, What};
use serde_json::value::RawValue;

use super::records::{Read, Taken, names};
use super::{DeviceChange, Devices, RECORDS_MAX, lock, unix_now_s};
use crate::topics;

/// Records of one packet: as many as make up so many bytes. On a thin line others wait for no more.
const RECORDS_BYTES: usize = 1 << 10;

/// Records of a tenant: device, what the record is (nothing: what is it there?), and the digest of the twin.
pub(super) type RecordsOf<'a> = (String, Vec<(String, &'a RawValue, u64)>);

/// A record that the other side told.
pub(super) struct Waiting {
    name: ClientName,
    document: Vec<u8>,
    twin: u64,
}

impl Devices {
    /// Tells what devices are here, of those that are to be told.
    pub(super) async fn tell_records(&self, tenant: &str, ids: &[String], is_told: impl Fn(&Read) -> bool) {
        for some in ids.chunks(RECORDS_MAX) {
            let names = names(tenant, some);
            let asked = names.clone();
            let read = self.blocking(move |records| records.read(&asked, unix_now_s())).await;
            match read {
                Ok(read) => {
                    let told = names.iter().zip(read).filter(|(_, read)| is_told(read));
                    let told = told.map(|(name, read)| (name.id().to_string(), read.document));
                    self.tell_documents(tenant, told.collect()).await;
                }
                Err(error) => return self.complain(&error),
            }
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
    pub(super) async fn take_records(&self, (tenant, records): RecordsOf<'_>) {
        if self.tenants().is_empty() {
            // Told before the two have met: it is told again.
            return;
        }
        if !self.speaks_for(&tenant) {
            return self.refuse(&tenant, "an edge speaks for a tenant that it may not speak for");
        }
        let told = records
            .into_iter()
            .take(RECORDS_MAX)
            .filter_map(|(id, document, twin)| {
                // Its id is a level of its topics.
                device::topic::validate_id(&id).ok()?;
                Some(Waiting {
                    name: ClientName::new(&tenant, &id).ok()?,
                    document: document.get().as_bytes().to_vec(),
                    twin,
                })
            });
        let told: Vec<Waiting> = told.collect();
        lock(&self.waiting).entry(tenant).or_default().extend(told);
        let _turn = self.taking.lock().await;
        let waiting = std::mem::take(&mut *lock(&self.waiting));
        for (tenant, waiting) in waiting {
            self.take_waiting(tenant, waiting).await;
        }
    }

    async fn take_waiting(&self, tenant: String, waiting: Vec<Waiting>) {
        let side = self.records.author.side;
        let (mut names, mut documents, mut twins) = (Vec::new(), Vec::new(), Vec::new());
        for Waiting { name, document, twin } in waiting {
            names.push(name);
            documents.push(document);
            twins.push(twin);
        }
        let asked = names.clone();
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
            let mut seen = lock(&self.seen_change);
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
        let mut by_tenant: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
        for (tenant, id) in changed {
            by_tenant.entry(tenant).or_default().push(id.to_string());
        }
        for (tenant, ids) in by_tenant {
            if self.speaks_for(&tenant) {
                self.tell_records(&tenant, &ids, |read| read.is_changed).await;
            }
        }
    }

    /// A device was changed in the registry: the other side is told, unless it knows.
    pub(crate) async fn tell_changed(&self, tenant: &str, id: &str) {
        if self.speaks_for(tenant) {
            self.tell_records(tenant, &[id.to_owned()], |read| read.is_changed)
                .await;
        }
    }
}

/// The cloud has devices of a tenant that may be new at the edge.
fn add_tenant(identity: &Identity, tenant: &str) -> Result<(), RegistryError> {
    if identity.registry().tenant(tenant)?.is_some() {
        return Ok(());
    }
    identity.registry().add_tenant(tenant, &identity::Quotas::default())
}
