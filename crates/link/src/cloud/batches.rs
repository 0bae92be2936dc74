//! Batches of one edge that wait for the log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hub::{Arrived, Arriving, Hub};
use mqtt::PacketId;

use super::registry::Connected;
use crate::batch::Section;

/// How many an edge may have: what it is told as the Receive Maximum, and has to keep to (MQTT 3.3.4). It is read all
/// the same: its signs of life, results of calls and twins wait for no batch.
pub(super) const BATCHES_MAX: u16 = 256;
/// Bytes of messages in these. What comes beyond is not taken now, and its edge pauses. No edge of ours has half as
/// much on the way.
const BYTES_MAX: usize = 32 << 20;

/// Those that wait.
#[derive(Default)]
pub(super) struct Batches {
    waiting: FuturesUnordered<Pin<Box<dyn Future<Output = Taken> + Send>>>,
    bytes: usize,
}

/// One that does not wait any more.
pub(super) struct Taken {
    pub(super) packet_id: PacketId,
    pub(super) verdict: Verdict,
    bytes: usize,
}

/// What became of a batch, by the numbers of its sections.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// There is no room for them now.
    pub(super) full: Vec<usize>,
    /// They will never be taken.
    pub(super) refused: Vec<usize>,
}

impl Batches {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Has the hub take the messages of a batch, each section for its tenant; what there is no room for comes back at
    /// once.
    pub(super) async fn take(
        &mut self,
        hub: &Hub,
        edge: &Arc<str>,
        packet_id: PacketId,
        sections: Vec<Section>,
        tenants: &[String],
        connected: &Connected,
    ) -> Option<Taken> {
        let messages = sections.iter().flat_map(|section| &section.parcels);
        let bytes = messages.map(Vec::len).sum();
        if self.bytes > 0 && self.bytes + bytes > BYTES_MAX {
            let full = (0..sections.len()).collect();
            let verdict = Verdict {
                full,
                refused: Vec::new(),
            };
            return Some(Taken {
                packet_id,
                verdict,
                bytes: 0,
            });
        }
        self.bytes += bytes;
        let taking = take(hub, edge, sections, tenants, connected).await;
        self.waiting.push(Box::pin(async move {
            Taken {
                packet_id,
                verdict: taking.await,
                bytes,
            }
        }));
        None
    }

    /// The next one that is done; `None` while none waits. May be given up at any await.
    pub(super) async fn next(&mut self) -> Option<Taken> {
        let taken = self.waiting.next().await?;
        self.bytes -= taken.bytes;
        Some(taken)
    }
}

/// Has the hub take the sections of a batch, each for its tenant; what comes back is done once all that was taken is
/// durable.
async fn take(
    hub: &Hub,
    edge: &Arc<str>,
    sections: Vec<Section>,
    tenants: &[String],
    connected: &Connected,
) -> impl Future<Output = Verdict> + Send + use<> {
    let may = |section: &Section| tenants.iter().any(|tenant| **tenant == *section.name.tenant);
    let mut verdict = Verdict::default();
    let mut taking = Vec::new();
    for (number, section) in sections.into_iter().enumerate() {
        if !may(&section) {
            tracing::warn!(%edge, tenant = %section.name.tenant, "an edge speaks for a tenant that it may not speak for");
            connected.refused_foreign(section.parcels.len());
            verdict.refused.push(number);
            continue;
        }
        let Section { name, floor, parcels } = section;
        let arriving = Arriving {
            edge: Arc::clone(edge),
            route: name.route,
            epoch: name.epoch,
            floor,
            parcels,
        };
        taking.push((number, hub.arrive(&name.tenant, arriving).await));
    }
    async move {
        for (number, arrived) in taking {
            if !matches!(arrived.await, Some(Arrived { refused: 0, .. })) {
                verdict.full.push(number);
            }
        }
        verdict
    }
}
