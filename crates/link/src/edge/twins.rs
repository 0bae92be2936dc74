//! What an edge tells its cloud of twins, and takes from it.

use std::sync::Arc;

use hub::Hub;
use tokio::sync::mpsc;

use super::session::Say;
use crate::topics::{DEVICES_MAX, Devices};

/// Tells the cloud which devices there are, and what their twins are in short.
pub(super) async fn tell_all(hub: Arc<Hub>, say: mpsc::Sender<Say>) {
    for tenant in hub.tenants() {
        let digests = hub.twin_digests(&tenant).await.unwrap_or_default();
        let devices: Vec<(String, u64)> = digests
            .into_iter()
            .map(|digest| (digest.device, digest.digest))
            .collect();
        for some in devices.chunks(DEVICES_MAX) {
            let devices: Devices = vec![(tenant.clone(), some.to_vec())];
            // Without a connection nobody is told.
            let _ = say.send(Say::Devices(devices)).await;
        }
    }
}

/// Tells the cloud what a twin is.
pub(super) async fn tell(hub: Arc<Hub>, tenant: String, device: String, say: mpsc::Sender<Say>) {
    if let Some(twin) = hub.read_twin(&tenant, &device).await {
        let _ = say.send(Say::Twin { tenant, device, twin }).await;
    }
}

/// Takes in what the cloud has of a twin, and tells it what it lacks.
pub(super) async fn take(hub: Arc<Hub>, tenant: String, device: String, theirs: Vec<u8>, say: mpsc::Sender<Say>) {
    if theirs.is_empty() {
        return tell(hub, tenant, device, say).await;
    }
    match hub.merge_twin(&tenant, &device, &theirs, None).await {
        Ok(Some(twin)) if !twin.is_empty() => drop(say.send(Say::Twin { tenant, device, twin }).await),
        Ok(_) => {}
        Err(error) => tracing::error!(%tenant, %device, %error, "the cloud sent a twin that is none"),
    }
}
