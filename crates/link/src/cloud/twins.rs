//! Devices behind an edge: known here by it, and their twins made equal.

use std::collections::HashMap;
use std::sync::Arc;

use hub::Hub;
use identity::{ClientKind, ClientName, Credential, Identity, Labels, NewClient};
use tokio::sync::mpsc;

use crate::topics::Devices;

/// A twin that the edge is to be told; an empty one asks for its own.
pub(super) struct Tell {
    pub(super) tenant: String,
    pub(super) device: String,
    pub(super) twin: Vec<u8>,
}

/// What every task of a connection needs.
#[derive(Clone)]
pub(super) struct Context {
    pub(super) hub: Arc<Hub>,
    pub(super) identity: Arc<Identity>,
    pub(super) edge: Arc<str>,
    pub(super) tell: mpsc::Sender<Tell>,
}

impl Context {
    /// The edge has these devices: those that are new here are registered, and where a twin differs, the edge is told
    /// what is here.
    pub(super) async fn take_devices(self, devices: Devices) {
        for (tenant, devices) in devices {
            self.register(&tenant, &devices).await;
            let ids = devices.iter().map(|(device, _)| device.clone()).collect();
            self.hub.note_behind(&tenant, Arc::clone(&self.edge), ids).await;
            let ours = self.hub.twin_digests(&tenant).await.unwrap_or_default();
            let ours: HashMap<String, u64> = ours.into_iter().map(|digest| (digest.device, digest.digest)).collect();
            for (device, theirs) in devices {
                let ours = ours.get(&device).copied().unwrap_or(0);
                if ours != theirs {
                    self.compare(&tenant, device, ours).await;
                }
            }
        }
    }

    async fn compare(&self, tenant: &str, device: String, ours: u64) {
        let twin = match ours {
            0 => Vec::new(),
            _ => self.hub.read_twin(tenant, &device).await.unwrap_or_default(),
        };
        self.send(tenant, device, twin).await;
    }

    /// Tells the edge what is here.
    pub(super) async fn tell(self, tenant: String, device: String) {
        if let Some(twin) = self.hub.read_twin(&tenant, &device).await {
            self.send(&tenant, device, twin).await;
        }
    }

    /// Takes in what the edge has of a twin, and tells it what it lacks.
    pub(super) async fn take_twin(self, tenant: String, device: String, theirs: Vec<u8>) {
        self.register(&tenant, &[(device.clone(), 0)]).await;
        let edge = Some(Arc::clone(&self.edge));
        match self.hub.merge_twin(&tenant, &device, &theirs, edge).await {
            Ok(Some(twin)) if !twin.is_empty() => self.send(&tenant, device, twin).await,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(edge = %self.edge, %tenant, %device, %error, "an edge sent a twin that is none");
            }
        }
    }

    async fn send(&self, tenant: &str, device: String, twin: Vec<u8>) {
        let tenant = tenant.to_owned();
        // Without a connection nobody is told.
        let _ = self.tell.send(Tell { tenant, device, twin }).await;
    }

    /// Registers the devices that are not known here: they prove themselves at their edge.
    async fn register(&self, tenant: &str, devices: &[(String, u64)]) {
        let names = devices
            .iter()
            .filter_map(|(device, _)| ClientName::new(tenant, device).ok());
        let names: Vec<ClientName> = names.collect();
        let identity = Arc::clone(&self.identity);
        let registering = tokio::task::spawn_blocking(move || register(&identity, &names));
        match registering.await.expect("registering does not panic") {
            Ok(0) => {}
            Ok(_) => {
                if let Err(error) = self.hub.refresh().await {
                    tracing::error!(%error, "devices of an edge are registered, and not known yet");
                }
            }
            Err(error) => tracing::warn!(edge = %self.edge, %tenant, %error, "devices of an edge are not registered"),
        }
    }
}

/// How many were new.
fn register(identity: &Identity, names: &[ClientName]) -> Result<usize, identity::IdentityError> {
    let mut new = Vec::new();
    for name in names {
        if identity.registry().client(name)?.is_none() {
            new.push(NewClient {
                name: name.clone(),
                kind: ClientKind::Device,
                labels: Labels::new(),
                credential: Credential::Elsewhere,
            });
        }
    }
    if !new.is_empty() {
        identity.add_all(&new, unix_now_s())?;
    }
    Ok(new.len())
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
