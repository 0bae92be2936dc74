//! What differs is found: by what all devices of a tenant are in short, then parts of them, then each of a few.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::ranges::{Answer, Digests, Listed, Parts, Ranges};
use super::{Devices, RECORDS_MAX, lock, unix_now_s};
use crate::topics;

/// Parts of one packet, at most: what a packet becomes on a thin line, others wait for.
const PARTS_MAX: usize = 4;

impl Devices {
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

    async fn tell_parts(&self, parts: Vec<Parts>) {
        let numbers = parts.iter().map(|parts| parts.digests.len()).sum();
        self.common.figures.told_parts(numbers);
        for some in parts.chunks(PARTS_MAX) {
            self.say(topics::PARTS, &some).await;
        }
    }

    pub(super) async fn take_parts(&self, parts: Vec<Parts>) {
        let mut answers = Vec::new();
        let tenants: BTreeSet<String> = self.tenants().into_iter().collect();
        let parts = parts.into_iter().take(PARTS_MAX);
        for theirs in parts.filter(|parts| tenants.contains(&parts.tenant)) {
            let ranges = match theirs.digests.len() {
                // The beginning.
                1 => self.look(&theirs.tenant).await,
                _ => self.looked(&theirs.tenant),
            };
            for answer in ranges.iter().flat_map(|ranges| ranges.answers(&theirs)) {
                match answer {
                    Answer::Parts(parts) => answers.push(parts),
                    Answer::Listed(listed) => {
                        self.common.figures.told_devices(listed.devices.len());
                        self.say(topics::DEVICES, &listed).await;
                    }
                }
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
        let mut known = lock(&self.ranges);
        known.insert(tenant.to_owned(), Arc::clone(&ranges));
        Some(ranges)
    }

    fn looked(&self, tenant: &str) -> Option<Arc<Ranges>> {
        let known = lock(&self.ranges);
        known.get(tenant).cloned()
    }

    /// The other side has these devices of a part: those that differ are told.
    pub(super) async fn take_listed(&self, theirs: Listed) {
        let Listed {
            tenant,
            digits,
            devices,
        } = theirs;
        let Some(ranges) = self.looked(&tenant).filter(|_| self.speaks_for(&tenant)) else {
            return;
        };
        let ours = ranges.listed(&digits).devices;
        // Ours are all told, however many: the other side may have none of them.
        let all: BTreeSet<&String> = ours.keys().chain(devices.keys().take(RECORDS_MAX)).collect();
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
}
