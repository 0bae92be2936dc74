//! A running hub.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use identity::Identity;
use route::CompiledRoute;
use store::Durability;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::config::{Address, Limits};
use crate::door::{Bound, Doorman, place_of, serve};
use crate::routing::LabelSource;
use crate::shard::control::{Ask, Request, RouteInfo, SessionInfo};
use crate::shard::inbox::{Inbox, inbox};
use crate::shard::{Observation, Order, Settings, Shard};

/// How a hub is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of its logs, one for each shard.
    pub data: PathBuf,
    /// Threads that serve clients; each tenant lives on one of them.
    pub shards: usize,
    /// When a promise counts as kept.
    pub durability: Durability,
    /// Clients without credentials are let in, and have the whole tree of the default tenant.
    pub allow_anonymous: bool,
    /// Shards stay awake for a short adaptive time before they sleep: less latency for up to a core each.
    pub low_latency: bool,
    /// Bounds of what clients can take.
    pub limits: Limits,
}

/// Why a hub did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("{address}: {source}")]
    Bind {
        /// The address.
        address: Address,
        /// What the system said.
        source: io::Error,
    },
    /// The registry cannot be read.
    #[error("{0}")]
    Registry(#[from] identity::RegistryError),
    /// The log cannot be opened.
    #[error("{0}")]
    Log(#[from] store::OpenError),
    /// No epoll instance, eventfd or thread.
    #[error("the system has no room for another loop: {0}")]
    System(#[from] io::Error),
}

/// A running hub: its shards' threads and its doors' tasks.
pub struct Hub {
    shards: Vec<Inbox<Order>>,
    threads: Vec<JoinHandle<()>>,
    doors: JoinSet<()>,
    /// Numbers the calls that the program itself makes.
    calls: AtomicU64,
    labels: LabelSource,
}

impl Hub {
    /// Brings the shards back from their logs and opens the doors. Runs its doors on the current tokio runtime.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub fn start(options: &Options, identity: Arc<Identity>, doors: Vec<Bound>) -> Result<Self, StartError> {
        let settings = Settings {
            limits: options.limits.clone(),
            is_open: options.allow_anonymous,
            low_latency: options.low_latency,
        };
        let labels = LabelSource::new(&identity)?;
        let mut opened = Vec::new();
        for number in 0..options.shards {
            let (inbox, orders) = inbox()?;
            let dir = options.data.join(format!("log-{number}"));
            opened.push((
                inbox,
                Shard::open(&dir, options.durability, settings.clone(), orders, labels.clone())?,
            ));
        }
        let (mut shards, mut threads) = (Vec::new(), Vec::new());
        for (number, (inbox, shard)) in opened.into_iter().enumerate() {
            threads.push(
                std::thread::Builder::new()
                    .name(format!("shard-{number}"))
                    .spawn(move || shard.run())?,
            );
            shards.push(inbox);
        }
        let doorman = Arc::new(Doorman::new(options.limits.clone(), identity, shards.clone()));
        let mut tasks = JoinSet::new();
        for door in doors {
            tasks.spawn(serve(door, Arc::clone(&doorman)));
        }
        Ok(Self {
            shards,
            threads,
            doors: tasks,
            calls: AtomicU64::new(0),
            labels,
        })
    }

    /// Figures of every shard.
    pub async fn observe(&self) -> Vec<Observation> {
        let mut observations = Vec::new();
        for shard in &self.shards {
            let (answer, observation) = oneshot::channel();
            if shard.send(Order::Observe(answer)).await.is_ok() {
                observations.extend(observation.await);
            }
        }
        observations
    }

    /// Both states of a device's twin, as JSON; `None` if the hub cannot answer.
    pub async fn twin(&self, tenant: &str, device: &str) -> Option<Vec<u8>> {
        self.ask(tenant, |answer| Ask::TwinGet {
            device: device.into(),
            answer,
        })
        .await
    }

    /// Applies a merge patch to a device's desired state; the answer as on its result topic, once it is durable.
    pub async fn set_twin(&self, tenant: &str, device: &str, patch: Vec<u8>) -> Option<Vec<u8>> {
        self.ask(tenant, |answer| Ask::TwinSet {
            device: device.into(),
            patch,
            answer,
        })
        .await
    }

    /// Calls a method of a device; the result, its own or the hub's.
    pub async fn call(
        &self,
        tenant: &str,
        device: &str,
        name: &str,
        payload: Vec<u8>,
        timeout: Duration,
    ) -> Option<Vec<u8>> {
        let call = format!("hub-{}", self.calls.fetch_add(1, Ordering::Relaxed));
        let timeout_ms = timeout.as_millis() as u64;
        let ask = |answer| Ask::Call {
            device: device.into(),
            name: name.into(),
            call,
            payload,
            timeout_ms,
            answer,
        };
        self.ask(tenant, ask).await
    }

    /// Exchanges the routes of a tenant; counters of those that stay begin anew.
    pub async fn set_routes(&self, tenant: &str, routes: Vec<CompiledRoute>) -> Option<()> {
        self.ask(tenant, |answer| Ask::SetRoutes { routes, answer }).await
    }

    /// What each route of a tenant did, and the last message that it failed for.
    pub async fn routes(&self, tenant: &str) -> Option<Vec<RouteInfo>> {
        self.ask(tenant, |answer| Ask::Routes { answer }).await
    }

    /// The registry changed: labels are read anew.
    ///
    /// # Errors
    /// The registry cannot be read; the labels stay as they were.
    pub fn refresh_labels(&self) -> Result<(), identity::RegistryError> {
        self.labels.refresh()
    }

    /// The sessions of a tenant.
    pub async fn sessions(&self, tenant: &str) -> Option<Vec<SessionInfo>> {
        self.ask(tenant, |answer| Ask::Sessions { answer }).await
    }

    /// Ends what a device or app has, after its credential was revoked.
    pub async fn revoke(&self, tenant: &str, owner: &str) {
        let request = Request {
            tenant: tenant.into(),
            ask: Ask::Revoke { owner: owner.into() },
        };
        // A shard that has ended has nothing of it left.
        let _ = self.shard(tenant).send(Order::Request(request)).await;
    }

    async fn ask<R>(&self, tenant: &str, ask: impl FnOnce(oneshot::Sender<R>) -> Ask) -> Option<R> {
        let (answer, result) = oneshot::channel();
        let request = Request {
            tenant: tenant.into(),
            ask: ask(answer),
        };
        self.shard(tenant).send(Order::Request(request)).await.ok()?;
        result.await.ok()
    }

    fn shard(&self, tenant: &str) -> &Inbox<Order> {
        &self.shards[place_of(tenant, self.shards.len())]
    }

    /// Closes the doors, tells every client that the hub stops, and makes everything durable.
    pub async fn stop(mut self) {
        self.doors.shutdown().await;
        for shard in &self.shards {
            // One that has ended needs no telling.
            let _ = shard.send(Order::Stop).await;
        }
        let threads = self.threads;
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().try_for_each(|thread| thread.join()));
        if !matches!(joined.await, Ok(Ok(()))) {
            tracing::error!("a shard panicked");
        }
    }
}
