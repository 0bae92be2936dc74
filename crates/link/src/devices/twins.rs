//! Twins of devices, told whole.

use device::Side;

use super::{Devices, Told};
use crate::topics::TwinTopic;

impl Devices {
    /// Tells what a twin is here, or asks what it is there.
    pub(crate) async fn tell_twin(&self, tenant: &str, device: &str) {
        if !self.is_shared(tenant, device) {
            return;
        }
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
    pub(super) async fn take_twin(&self, tenant: &str, device: &str, theirs: &[u8]) {
        if !self.is_shared(tenant, device) {
            return;
        }
        let hub = &self.common.hub;
        if theirs.is_empty() {
            let twin = hub.read_twin(tenant, device).await.unwrap_or_default();
            return self.send_twin(tenant, device, twin).await;
        }
        match hub.merge_twin(tenant, device, theirs).await {
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

    /// Whether a device is one of the edge: an edge learns nothing of others, and writes nothing of theirs.
    fn is_shared(&self, tenant: &str, device: &str) -> bool {
        let is_of_edge = || self.common.hub.edge_of(tenant, device).as_ref() == Some(&self.records.edge);
        self.speaks_for(tenant) && (self.records.author.side == Side::Edge || is_of_edge())
    }
}
