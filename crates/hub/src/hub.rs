//! A running hub.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use device::{Author, Side};
use identity::{Audit, HeldCredential, Identity};
use route::CompiledRoute;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::arrivals::{Arrived, Arriving};
use crate::asked::Asked;
use crate::call_log::{self, CallLog};
use crate::calls::Location;
use crate::config::{Address, Limits};
use crate::descriptors;
use crate::door::{Bound, Doorman, EdgeConnection, place_of, serve};
use crate::edge_calls::{EdgeCall, EdgeCalls};
use crate::outbox::{CLOCKS_BEGIN_UNIX_S, EpochNumbers, Outbox, OutboxOptions, Queues};
use crate::overheard::{self, Overhearing};
use crate::posted::Posted;
use crate::refused::DoorFigures;
use crate::routing::LabelSource;
use crate::shard::control::{Ask, Request, RouteInfo, SessionInfo};
use crate::shard::inbox::{Inbox, inbox};
use crate::shard::tasks::{Place, Running};
use crate::shard::{Departures, Observation, Order, Settings, Shard};
use crate::stand_in::StandIn;
use crate::twin_sync::{Told, TwinChange};
use crate::unix_now_s;

/// How a hub is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of its logs, one for each shard.
    pub data: PathBuf,
    /// Threads that serve clients; each tenant lives on one of them.
    pub shards: usize,
    /// How each log is kept: when a promise counts as kept, and what its files may take.
    pub log: store::Options,
    /// Clients without credentials are let in, and have the whole tree of the default tenant.
    pub allow_anonymous: bool,
    /// Shards stay awake for a short adaptive time before they sleep: less latency for up to a core each.
    pub low_latency: bool,
    /// Bounds of what clients can take.
    pub limits: Limits,
    /// How messages wait that routes send upstream; `None`: nothing ever leaves, and such targets do nothing.
    pub outbox: Option<OutboxOptions>,
    /// There is somewhere upstream. Until there is ([`Hub::open_upstream`]), it is as if there were no outbox and
    /// nobody to share twins with.
    pub has_upstream: bool,
    /// Edges may connect, for the one who takes them ([`Hub::take_edges`]); this is who reaches devices behind them.
    /// `None`: none may.
    pub edge_calls: Option<Arc<dyn EdgeCalls>>,
    /// There is another side of the twins' edits, which is told of changes ([`Hub::take_twin_changes`]).
    pub shares_twins: bool,
    /// While this is true, accepted telemetry is copied for the one who looks on ([`Hub::take_overhearing`]); `None`:
    /// nobody does.
    pub overhears: Option<Arc<AtomicBool>>,
}

impl Options {
    /// A hub in `data` with every default: it lets nobody in without credentials, and has as many shards as wrote the
    /// logs that are there, at first one for each core.
    pub fn new(data: &Path) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            data: data.to_owned(),
            shards: shards_in(data).unwrap_or_else(cores),
            log: store::Options::default(),
            allow_anonymous: false,
            low_latency: false,
            limits: Limits::default(),
            outbox: None,
            has_upstream: false,
            edge_calls: None,
            shares_twins: false,
            overhears: None,
        }
    }
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
    #[error(transparent)]
    Registry(#[from] identity::RegistryError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] store::OpenError),
    /// The logs were written by another number of shards, each of which has the tenants that belong to it.
    #[error(
        "{data} holds the logs of {found} shards, not of {asked}; start with that number, or with an empty directory"
    )]
    Shards {
        /// Directory of the logs.
        data: PathBuf,
        /// Logs in it.
        found: usize,
        /// Shards asked for.
        asked: usize,
    },
    /// The process may have too few file descriptors to let anybody in.
    #[error(
        "this process may have {allowed} file descriptors, and a hub needs {least} and one more for each connection; \
         start it with LimitNOFILE={needed} in its systemd unit, or after ulimit -n {needed}"
    )]
    Descriptors {
        /// What the system lets it have.
        allowed: u64,
        /// The fewest that it can do with.
        least: u64,
        /// What its limits need.
        needed: u64,
    },
    /// No epoll instance, eventfd or thread.
    #[error("the system has no room for another loop: {0}")]
    System(#[from] io::Error),
}

/// Edges that were let in and wait to be taken; the door waits with the next one.
const EDGES_WAITING_MAX: usize = 64;

/// Time that the log has to keep that a device was removed.
const FORGETTING_MAX: Duration = Duration::from_secs(5);

/// Changes of twins that wait to be told.
const TWIN_CHANGES_MAX: usize = 16_384;

/// A running hub: its shards' threads and its doors' tasks.
pub struct Hub {
    shards: Vec<Inbox<Order>>,
    threads: Mutex<Vec<std::thread::JoinHandle<()>>>,
    doorman: Arc<Doorman>,
    doors: tokio::sync::Mutex<JoinSet<()>>,
    call_keeper: tokio::sync::Mutex<JoinHandle<()>>,
    /// Until somebody carries away what leaves.
    outbox: Mutex<Option<Outbox>>,
    /// Until somebody takes it.
    overhearing: Mutex<Option<Overhearing>>,
    /// Until somebody takes them.
    edges: Mutex<Option<mpsc::Receiver<EdgeConnection>>>,
    /// Until somebody takes them.
    twin_changes: Mutex<Option<mpsc::Receiver<TwinChange>>>,
    /// Numbers the calls that the program itself makes.
    calls: AtomicU64,
    labels: LabelSource,
    /// Tells that the registry was read anew.
    author: Author,
    refreshed: watch::Sender<()>,
}

impl Hub {
    /// Brings the shards back from their logs; nobody comes in before [`Hub::open`]. Runs what is not on a shard on the
    /// current tokio runtime.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub fn start(options: &Options, identity: Arc<Identity>, audit: Arc<Audit>) -> Result<Self, StartError> {
        if let Some(found) = shards_in(&options.data).filter(|found| *found != options.shards) {
            return Err(StartError::Shards {
                data: options.data.clone(),
                found,
                asked: options.shards,
            });
        }
        let side = match options.edge_calls {
            Some(_) => Side::Cloud,
            None => Side::Edge,
        };
        let seconds = (unix_now_s() as u64).saturating_sub(CLOCKS_BEGIN_UNIX_S);
        let author = Author::starting(side, seconds.min(u64::from(u32::MAX)) as u32, random_u32());
        let settings = Settings {
            limits: options.limits.clone(),
            is_open: options.allow_anonymous,
            low_latency: options.low_latency,
            has_upstream: options.has_upstream,
            author,
        };
        let labels = LabelSource::new(&identity)?;
        let (reports, calls) = call_log::channel();
        let mut opened = Vec::new();
        #[expect(clippy::disallowed_methods, reason = "bounded in bytes by what its reader allows")]
        let (carrier, outgoing) = mpsc::unbounded_channel();
        let (knocking, connections) = mpsc::channel(EDGES_WAITING_MAX);
        let has_edges = options.edge_calls.is_some();
        let (changing, changes) = mpsc::channel(TWIN_CHANGES_MAX);
        let changing = options.shares_twins.then_some(changing);
        let (ear, overhearing) = options.overhears.clone().map(overheard::channel).unzip();
        let numbers = Arc::new(EpochNumbers::new(unix_now_s() as u64, random_u32()));
        for number in 0..options.shards {
            let (inbox, orders) = inbox()?;
            let dir = log_directory(&options.data, number);
            let (log, calls) = (options.log.clone(), CallLog::new(reports.clone()));
            let outbox = options.outbox.map(|outbox| outbox.of_each(options.shards));
            let queues = outbox.map(|outbox| Queues::new(number as u16, outbox, Arc::clone(&numbers), carrier.clone()));
            let departures = Departures {
                queues,
                calls: options.edge_calls.clone(),
                twin_changes: changing.clone(),
                ear: ear.clone(),
            };
            let shard = Shard::open(&dir, log, settings.clone(), orders, labels.clone(), calls, departures)?;
            opened.push((inbox, shard));
        }
        drop(reports);
        let (mut shards, mut threads) = (Vec::new(), Vec::new());
        for (number, (inbox, shard)) in opened.into_iter().enumerate() {
            threads.push(
                std::thread::Builder::new()
                    .name(format!("shard-{number}"))
                    .spawn(move || {
                        store::run_soon();
                        or_end_the_process(|| shard.run());
                    })?,
            );
            shards.push(inbox);
        }
        let call_keeper = tokio::spawn(call_log::keep(calls, Arc::clone(&audit)));
        let outbox = options.outbox.map(|_| Outbox::new(shards.clone(), outgoing));
        let doorman = Arc::new(Doorman::new(
            options.limits.clone(),
            identity,
            audit,
            shards.clone(),
            has_edges.then_some(knocking),
            labels.clone(),
        ));
        Ok(Self {
            shards,
            threads: Mutex::new(threads),
            doorman,
            doors: tokio::sync::Mutex::default(),
            call_keeper: tokio::sync::Mutex::new(call_keeper),
            calls: AtomicU64::new(0),
            outbox: Mutex::new(outbox),
            overhearing: Mutex::new(overhearing),
            twin_changes: Mutex::new(options.shares_twins.then_some(changes)),
            edges: Mutex::new(has_edges.then_some(connections)),
            labels,
            author,
            refreshed: watch::Sender::default(),
        })
    }

    /// Opens doors: from now on their sockets listen, and clients come in.
    ///
    /// # Errors
    /// [`StartError::Bind`]: another program began to listen at an address meanwhile. [`StartError::Descriptors`].
    pub async fn open(&self, doors: Vec<Bound>) -> Result<(), StartError> {
        self.hold_to_descriptors()?;
        let doors = doors.into_iter().map(Bound::listen).collect::<Result<Vec<_>, _>>()?;
        let mut tasks = self.doors.lock().await;
        for door in doors {
            tasks.spawn(serve(door, Arc::clone(&self.doorman)));
        }
        Ok(())
    }

    fn hold_to_descriptors(&self) -> Result<(), StartError> {
        let (limits, shards) = (self.doorman.limits(), self.shards.len());
        let least = descriptors::least(shards);
        if let Some(allowed) = descriptors::allowed().filter(|allowed| *allowed < least) {
            return Err(StartError::Descriptors {
                allowed,
                least,
                needed: descriptors::needed(&limits, shards),
            });
        }
        self.doorman.set_limits(descriptors::hold(&limits, shards));
        Ok(())
    }

    /// What leaves the hub, for the one who carries it away; `None` if nothing does, or somebody has it.
    pub fn take_outbox(&self) -> Option<Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// From now on there is somewhere upstream; routes that are set after this send there.
    pub async fn open_upstream(&self) {
        for shard in &self.shards {
            // One that has ended sends nothing anywhere.
            let _ = shard.send(Order::OpenUpstream).await;
        }
    }

    /// Copies of telemetry, for the one who looks on; `None` if nobody is to, or somebody does.
    pub fn take_overhearing(&self) -> Option<Overhearing> {
        self.overhearing.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Edges as they connect, for the one who serves them; `None` if there are to be none, or somebody has them.
    pub fn take_edges(&self) -> Option<mpsc::Receiver<EdgeConnection>> {
        self.edges.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Which twins are changed here from now on, for the one who tells the other side; `None` if there is none, or
    /// somebody has it. One that finds it full is not told: the sides have to compare digests then.
    pub fn take_twin_changes(&self) -> Option<mpsc::Receiver<TwinChange>> {
        self.twin_changes.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A twin as its edits made it, for the other side of a link, once it is durable.
    pub async fn read_twin(&self, tenant: &str, device: &str) -> Option<Vec<u8>> {
        let device = device.into();
        self.ask(tenant, |answer| Ask::TwinRead { device, answer }).await
    }

    /// Takes in what the other side of a link has of a twin; what it has to be told, empty where it has all.
    ///
    /// # Errors
    /// The bytes are no twin.
    pub async fn merge_twin(
        &self,
        tenant: &str,
        device: &str,
        theirs: &[u8],
    ) -> Result<Option<Vec<u8>>, device::DecodeError> {
        let theirs = Box::new(Told::decode(theirs)?);
        let device = device.into();
        let ask = |answer| Ask::TwinMerge { device, theirs, answer };
        Ok(self.ask(tenant, ask).await)
    }

    /// The twins of these devices in short, in their order: two that are equal have equal digests; 0: there is none.
    pub async fn twin_digests(&self, tenant: &str, devices: Vec<String>) -> Option<Vec<u64>> {
        self.ask(tenant, |answer| Ask::TwinDigests { devices, answer }).await
    }

    /// Names of the tenants, as of the last refresh.
    pub fn tenants(&self) -> Vec<String> {
        self.labels.tenants()
    }

    /// The edge that a registered device logs in at, as of the last refresh; `None`: it logs in here, or is not
    /// registered.
    pub fn edge_of(&self, tenant: &str, device: &str) -> Option<Arc<str>> {
        self.labels.home(tenant, device).flatten()
    }

    /// The result of a call of a device behind an edge: of the device, or of the edge or the cloud in its place.
    pub async fn finish_call(&self, call: EdgeCall, result: Vec<u8>) {
        let tenant = Arc::clone(&call.tenant);
        self.tell(&tenant, Ask::CallResult { call, result }).await;
    }

    /// Runs something on the loop of the shard that has this tenant, in turn with its connections, and waits for its
    /// end. It must not block, and gives way between one thing and the next ([`Place::give_way`]). `None`: the shard
    /// has ended, or it panicked. If nobody waits any more, it runs on.
    pub async fn run_on_shard<F>(
        &self,
        tenant: &str,
        start: impl FnOnce(Place) -> F + Send + 'static,
    ) -> Option<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let (end, ended) = oneshot::channel();
        let start = Box::new(move |place| -> Running {
            let running = start(place);
            Box::pin(async move {
                // Who waited may have given up.
                let _ = end.send(running.await);
            })
        });
        self.shard(tenant).send(Order::Start(start)).await.ok()?;
        ended.await.ok()
    }

    /// Figures of every shard; `None` once one of them has ended.
    pub async fn observe(&self) -> Option<Vec<Observation>> {
        let mut observations = Vec::new();
        for shard in &self.shards {
            let (answer, observation) = oneshot::channel();
            shard.send(Order::Observe(answer)).await.ok()?;
            observations.push(observation.await.ok()?);
        }
        Some(observations)
    }

    /// Figures of the doors.
    pub fn doors(&self) -> DoorFigures {
        self.doorman.counters.figures()
    }

    /// Other limits from now on. What clients were told when they connected (packet size, receive maximum, topic
    /// aliases, in-flight) holds for them until they connect again.
    pub async fn set_limits(&self, limits: &Limits) {
        self.doorman.set_limits(descriptors::hold(limits, self.shards.len()));
        let limits = Arc::new(limits.clone());
        for shard in &self.shards {
            // One that has ended has no clients left.
            let _ = shard.send(Order::Limits(Arc::clone(&limits))).await;
        }
    }

    /// Both states of a device's twin, as JSON; `None` if the hub cannot answer.
    pub async fn twin(&self, tenant: &str, device: &str) -> Option<Vec<u8>> {
        self.ask(tenant, |answer| Ask::TwinGet {
            device: device.into(),
            answer,
        })
        .await
    }

    /// Edits of a device's desired state that were given up for others on the other side of a link, the newest 32 at
    /// most: a JSON array of [`LostEdit`](crate::LostEdit)s; `None` if the hub cannot answer.
    pub async fn lost_edits(&self, tenant: &str, device: &str) -> Option<Vec<u8>> {
        let device = device.into();
        self.ask(tenant, |answer| Ask::LostEdits { device, answer }).await
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

    /// Calls a method of a device; the result will be its own or the hub's.
    pub async fn call(
        &self,
        tenant: &str,
        device: &str,
        name: &str,
        payload: Vec<u8>,
        timeout: Duration,
    ) -> Asked<Vec<u8>> {
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
        self.put(tenant, ask).await
    }

    /// Where a device is reached now: a question to whoever owns its sessions, whose answer holds for the moment, so
    /// that nobody has to keep a map that is true on one node only.
    pub async fn locate(&self, tenant: &str, device: &str) -> Option<Location> {
        let device = device.into();
        self.ask(tenant, |answer| Ask::Locate { device, answer }).await
    }

    /// Takes a message of a device for `devices/{id}/telemetry`, as its PUBLISH with QoS 1; whether the device may is
    /// for the caller to know. What became of it, once that is as durable as the log makes it.
    pub async fn post(&self, tenant: &str, device: &str, payload: Vec<u8>) -> Option<Posted> {
        let device = device.into();
        let ask = |answer| Ask::Post {
            device,
            payload,
            answer,
        };
        self.ask(tenant, ask).await
    }

    /// Exchanges the routes of a tenant; those that are as they were go on counting.
    pub async fn set_routes(&self, tenant: &str, routes: Vec<CompiledRoute>) -> Option<()> {
        self.ask(tenant, |answer| Ask::SetRoutes { routes, answer }).await
    }

    /// Stands in for these applications of a tenant while they sleep, and for no others.
    pub async fn stand_in(&self, tenant: &str, stand_ins: Vec<StandIn>) {
        self.tell(tenant, Ask::StandIn { stand_ins }).await;
    }

    /// Messages that wait for one of these applications, or that it has not acknowledged.
    pub async fn waiting(&self, tenant: &str, application: &str) -> Option<usize> {
        let application = application.to_owned();
        self.ask(tenant, |answer| Ask::Waiting { application, answer }).await
    }

    /// What each route of a tenant did, and the last message that it failed for.
    pub async fn routes(&self, tenant: &str) -> Option<Vec<RouteInfo>> {
        self.ask(tenant, |answer| Ask::Routes { answer }).await
    }

    /// Messages of an edge for a tenant; what became of them comes once that is as durable as the log makes it.
    pub async fn arrive(&self, tenant: &str, arriving: Arriving) -> Asked<Arrived> {
        self.put(tenant, |answer| Ask::Arrive { arriving, answer }).await
    }

    /// The registry changed: labels and quotas are read anew.
    ///
    /// # Errors
    /// The registry cannot be read; they stay as they were.
    pub async fn refresh(&self) -> Result<(), identity::RegistryError> {
        self.labels.refresh()?;
        for shard in &self.shards {
            // One that has ended has no clients left.
            let _ = shard.send(Order::Quotas).await;
        }
        self.refreshed.send_replace(());
        Ok(())
    }

    /// Whose edits those of this hub are, for the one who makes others beside those of twins.
    pub fn author(&self) -> Author {
        self.author
    }

    /// Changes whenever the registry was read anew, for the one who tells the other side of a link.
    pub fn refreshes(&self) -> watch::Receiver<()> {
        self.refreshed.subscribe()
    }

    /// The sessions of a tenant.
    pub async fn sessions(&self, tenant: &str) -> Option<Vec<SessionInfo>> {
        self.ask(tenant, |answer| Ask::Sessions { answer }).await
    }

    /// Ends the sessions, connections and twin of a device or app that was removed, so that a crash brings no twin
    /// back.
    pub async fn forget(&self, tenant: &str, owner: &str) {
        let owner = owner.into();
        let forgotten = self.ask(tenant, |answer| Ask::Forget { owner, answer });
        // A log that stands still keeps nobody from what else is to be done.
        let _ = tokio::time::timeout(FORGETTING_MAX, forgotten).await;
    }

    /// Forgets the twins and retained messages of a tenant that was removed after its devices and apps.
    pub async fn clear(&self, tenant: &str) {
        self.tell(tenant, Ask::Clear).await;
    }

    /// Ends the connections of a device or app that were made with the credential that was `revoked`; all of them where
    /// it was disabled, or all that it had was replaced. Its sessions stay.
    pub async fn disconnect(&self, tenant: &str, owner: &str, revoked: Option<HeldCredential>) {
        let owner = owner.into();
        self.tell(tenant, Ask::Disconnect { owner, revoked }).await;
    }

    async fn tell(&self, tenant: &str, ask: Ask) {
        let request = Request {
            tenant: tenant.into(),
            ask,
        };
        // A shard that has ended has nothing of it left.
        let _ = self.shard(tenant).send(Order::Request(request)).await;
    }

    async fn ask<R>(&self, tenant: &str, ask: impl FnOnce(oneshot::Sender<R>) -> Ask) -> Option<R> {
        self.put(tenant, ask).await.await
    }

    /// Asks once there is a place for the question.
    async fn put<R>(&self, tenant: &str, ask: impl FnOnce(oneshot::Sender<R>) -> Ask) -> Asked<R> {
        let (answer, result) = oneshot::channel();
        self.tell(tenant, ask(answer)).await;
        Asked(result)
    }

    fn shard(&self, tenant: &str) -> &Inbox<Order> {
        &self.shards[place_of(tenant, self.shards.len())]
    }

    /// Closes the doors, tells every client that the hub stops, and makes everything durable.
    pub async fn stop(&self) {
        self.doors.lock().await.shutdown().await;
        for shard in &self.shards {
            // One that has ended needs no telling.
            let _ = shard.send(Order::Stop).await;
        }
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // One that panicked would have ended the process.
        let _ = tokio::task::spawn_blocking(move || threads.into_iter().try_for_each(|thread| thread.join())).await;
        // Ends with the last shard; only a second stop finds that it has ended before.
        let mut call_keeper = self.call_keeper.lock().await;
        if !call_keeper.is_finished() {
            let _ = (&mut *call_keeper).await;
        }
    }
}

/// Runs a shard. Without one of them its tenants would be locked out of a process that seems well; whoever watches over
/// the process starts it anew, and the logs bring all shards back.
fn or_end_the_process(run: impl FnOnce()) {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::process::abort();
            }
        }
    }
    let _bomb = Bomb;
    run();
}

/// The number of shards that wrote the logs in `data`; `None` if there are none yet.
pub fn shards_in(data: &Path) -> Option<usize> {
    let found = (0..).take_while(|number| log_directory(data, *number).is_dir()).count();
    Some(found).filter(|found| *found > 0)
}

fn random_u32() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u32
}

fn log_directory(data: &Path, shard: usize) -> PathBuf {
    data.join(format!("log-{shard}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;

    /// Set in the process that shall end.
    const DOOMED: &str = "SELVEDGE_TEST_SHARD_PANICS";

    #[test]
    fn a_shard_that_panics_ends_the_process() {
        if std::env::var_os(DOOMED).is_some() {
            let shard = std::thread::spawn(|| or_end_the_process(|| panic!("a fault of the shard")));
            let _ = shard.join();
            return;
        }
        let mut doomed = Command::new(std::env::current_exe().unwrap());
        doomed.args(["--exact", "hub::tests::a_shard_that_panics_ends_the_process"]);
        let ended = doomed.env(DOOMED, "1").output().unwrap();
        assert_eq!(ended.status.signal(), Some(6), "{ended:?}");
    }
}
