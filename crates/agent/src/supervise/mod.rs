//! What is wanted, and what is done so that it is.

mod application;
mod backoff;
mod container;
mod events;
mod following;
mod gate;
mod hold;
mod kept_logs;
mod leaving;
mod revision;
mod rollout;
mod tenant_disk;
mod version;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fmt, io};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use self::application::{Application, Replicas};
pub use self::container::Doing;
use self::events::Events;
pub use self::events::{Event, What};
use self::gate::{Gate, Peers};
pub use self::hold::Held;
pub use self::kept_logs::KeptLogs;
pub use self::revision::Salt;
pub use self::rollout::Update;
use self::tenant_disk::TenantDisks;
use self::version::{Histories, Version};
use crate::cgroup::Limits;
use crate::image::retention::Need;
use crate::probe::Probes;
use crate::runtime::{Error, Launch, Pod, Runtime, SEPARATOR};

/// An application, known by both names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Whose it is.
    pub tenant: String,
    /// Its name there.
    pub application: String,
}

impl Key {
    /// What the names of its containers begin with.
    fn prefix(&self) -> String {
        let Key { tenant, application } = self;
        format!("{tenant}{SEPARATOR}{application}{SEPARATOR}")
    }

    /// Whose container that is.
    pub(crate) fn of_container(name: &str) -> Option<Key> {
        let mut parts = name.split(SEPARATOR);
        Some(Key {
            tenant: parts.next()?.to_owned(),
            application: parts.next()?.to_owned(),
        })
    }
}

/// Images of the last good versions of applications, which are kept in the directory `histories`.
///
/// # Errors
/// Of a file.
pub fn needs(histories: &Path) -> io::Result<Vec<Need>> {
    Histories::of(histories).needs()
}

/// The start before that one, whose output is kept, too; none before the first.
#[must_use]
pub fn start_before(start: &str) -> Option<String> {
    let (name, number) = start.rsplit_once(SEPARATOR)?;
    let before = number.parse::<u32>().ok()?.checked_sub(1)?;
    Some(format!("{name}{SEPARATOR}{before}"))
}

/// A container that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Its name in its application.
    pub name: String,
    /// Which of several that are the same, from 0 on.
    pub replica: u32,
    /// Whether it runs once, to its good end, after those of its kind before it and before all others of its replica.
    pub is_init: bool,
    /// What it is.
    pub launch: Launch,
    /// What it is asked while it runs.
    pub probes: Probes,
    /// A command in it, before it is asked to end.
    pub pre_stop: Option<Vec<String>>,
    /// From the request to end until it is made to.
    pub grace: Duration,
}

/// What is wanted of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Of the replica 0, in their order.
    pub containers: Vec<Container>,
    /// So many that are the same.
    pub replicas: u32,
    /// And so many at most, where [`Supervisor::scale`] asks for more.
    pub most: u32,
    /// How others take the place of those that run.
    pub update: Update,
    /// Applications of its tenant that have to be ready before anything of it is started.
    pub after: BTreeSet<String>,
    /// Those that run on demand answer only from [`Supervisor::wake`] to [`Supervisor::let_sleep`], and so become of
    /// them meanwhile; `None`: they run all the time.
    pub when_idle: Option<WhenIdle>,
}

/// What becomes of an application on demand while nobody asks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenIdle {
    /// It is ended, and started when somebody asks.
    #[default]
    Stop,
    /// Its time stands still.
    Pause,
    /// It is ended, and a new one started whose time stands still once it is ready.
    Renew,
}

/// What a container of an application is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its name in its application.
    pub container: String,
    /// Which of several that are the same.
    pub replica: u32,
    /// Whether it runs once, before the others.
    pub is_init: bool,
    /// What it may take.
    pub limits: Limits,
    /// What is known of it.
    pub doing: Doing,
}

/// What becomes of a new version of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// It takes the place of the last good one.
    Rolling {
        /// So many of it are available.
        available: u32,
        /// Of so many.
        of: u32,
    },
    /// The last good one runs in its place.
    TakenBack {
        /// In words.
        why: String,
    },
}

/// Who leads requests to containers.
pub trait Requests: fmt::Debug + Send + Sync {
    /// Whether some that were led to this address are under way, though it is not led there any more.
    fn is_busy(&self, address: Ipv4Addr) -> bool;
}

/// Keeps applications as they are wanted. What runs goes on when this is dropped, and the next one over the same
/// runtime finds it.
pub struct Supervisor {
    runtime: Arc<dyn Runtime>,
    salt: Salt,
    histories: Histories,
    kept_logs: KeptLogs,
    events: Events,
    changes: Changes,
    peers: Peers,
    disks: TenantDisks,
    _watching: AbortOnDropHandle<()>,
    applications: BTreeMap<Key, Application>,
}

/// Told whenever something is ready that was not, or is not any more.
#[derive(Clone, Debug)]
pub(crate) struct Changes {
    /// How many there have been.
    told: Arc<watch::Sender<u64>>,
    /// Up to which requests are led by them; `None`: nobody leads requests.
    followed: Arc<watch::Sender<Option<u64>>>,
    /// Who leads them.
    requests: Arc<OnceLock<Arc<dyn Requests>>>,
}

impl Changes {
    fn new() -> Self {
        Changes {
            told: Arc::new(watch::channel(0).0),
            followed: Arc::new(watch::channel(None).0),
            requests: Arc::default(),
        }
    }

    fn tell(&self) {
        self.told.send_modify(|told| *told += 1);
    }

    fn subscribe(&self) -> watch::Receiver<u64> {
        self.told.subscribe()
    }

    /// Whether requests are under way to what is to end.
    fn is_busy(&self, address: Ipv4Addr) -> bool {
        self.requests.get().is_some_and(|requests| requests.is_busy(address))
    }

    /// Returns once requests are led by all there have been, or nobody leads any.
    async fn are_followed(&self) {
        let (told, mut followed) = (*self.told.borrow(), self.followed.subscribe());
        let is_so = |followed: &Option<u64>| followed.is_none_or(|followed| followed >= told);
        followed.wait_for(is_so).await.expect("it has a sender as long as this");
    }
}

impl Supervisor {
    /// Finds what runs already. It is left as it is until it is told what is wanted of it. What was good of
    /// applications is kept in the directory `histories`, and what was said by what does not run any more in `logs`.
    ///
    /// # Errors
    /// The runtime does not say what it has, or the directories cannot be made.
    pub async fn new(runtime: Arc<dyn Runtime>, salt: Salt, histories: &Path, logs: &Path) -> Result<Self, Error> {
        let found = runtime.names().await?;
        let disks = TenantDisks::default();
        let watching = tokio::spawn(disks.clone().watch(Arc::clone(&runtime)));
        let mut supervisor = Supervisor {
            runtime,
            salt,
            histories: Histories::at(histories)?,
            kept_logs: KeptLogs::at(logs)?,
            events: Events::default(),
            changes: Changes::new(),
            peers: Peers::default(),
            disks,
            _watching: AbortOnDropHandle::new(watching),
            applications: BTreeMap::new(),
        };
        for key in found.iter().filter_map(|name| Key::of_container(name)) {
            supervisor.open(key, true);
        }
        // Those that nobody wants any more are forgotten.
        for key in supervisor.kept_logs.applications()? {
            supervisor.open(key, false);
        }
        Ok(supervisor)
    }

    /// The application of this name, which is opened where it is not.
    fn open(&mut self, key: Key, is_awake: bool) -> &Application {
        match self.applications.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let opened = Application::open(
                    Arc::clone(&self.runtime),
                    (self.histories.clone(), self.kept_logs.clone()),
                    entry.key(),
                    self.events.clone(),
                    (self.peers.clone(), self.changes.clone()),
                    self.disks.clone(),
                    is_awake,
                );
                self.peers.add(entry.key().clone(), opened.readiness());
                entry.insert(opened)
            }
        }
    }

    /// Tenants that something runs of, or is wanted of.
    pub fn tenants(&self) -> BTreeSet<String> {
        self.applications.keys().map(|key| key.tenant.clone()).collect()
    }

    /// Wants these applications of a tenant and no others; those without containers, of which it is not known, stay as
    /// they are.
    pub fn set_tenant(&mut self, tenant: &str, wanted: BTreeMap<String, Option<Wanted>>) {
        let of_tenant = |key: &Key| key.tenant == tenant;
        for (key, application) in self.applications.iter().filter(|(key, _)| of_tenant(key)) {
            if !wanted.contains_key(&key.application) {
                application.want(None, BTreeSet::new(), None);
            }
        }
        for (application, wanted) in wanted {
            let key = Key {
                tenant: tenant.to_owned(),
                application,
            };
            if let Some(wanted) = wanted {
                self.set(key, &wanted);
            }
        }
        self.applications.retain(|_, application| !application.is_over());
        self.peers.retain(|key| self.applications.contains_key(key));
    }

    /// Wants this of an application.
    pub fn set(&mut self, key: Key, wanted: &Wanted) {
        let replicas = Replicas {
            version: Version {
                revision: self.salt.revision(&wanted.containers),
                containers: wanted.containers.clone(),
            },
            count: wanted.replicas,
            most: wanted.most.max(wanted.replicas),
            update: wanted.update,
        };
        let (after, when_idle) = (wanted.after.clone(), wanted.when_idle);
        self.open(key, false).want(Some(replicas), after, when_idle);
    }

    /// What all containers of a tenant may have on disk together, in bytes: beside their volumes, in those that go with
    /// them, and in those that are kept. While it is more, those that have most are replaced.
    pub fn limit_disk(&self, tenant: &str, most: Option<u64>) {
        self.disks.set(tenant, most);
    }

    /// What they have, as it was counted last, where it is limited.
    pub fn disk_taken(&self, tenant: &str) -> u64 {
        self.disks.taken(tenant)
    }

    /// Has an application run that runs on demand, if it does not.
    pub fn wake(&self, key: &Key) {
        if let Some(application) = self.applications.get(key) {
            application.wake();
        }
    }

    /// Has an application that runs on demand rest until it is woken, as it is wanted. Nothing of it is ready once this
    /// returns.
    pub fn let_sleep(&self, key: &Key) {
        if let Some(application) = self.applications.get(key) {
            application.let_sleep();
        }
    }

    /// Has so many replicas of an application run, between those that are wanted and the most there may be; `None`: those
    /// that are wanted.
    pub fn scale(&self, key: &Key, count: Option<u32>) {
        if let Some(application) = self.applications.get(key)
            && let Some(now) = application.scale(count)
        {
            self.note(key, What::Scaled, &format!("to {now} replicas"));
        }
    }

    /// Whether anything of an application is ready.
    pub fn is_ready(&self, key: &Key) -> bool {
        self.applications.get(key).is_some_and(Application::is_ready)
    }

    /// Whether it runs on demand, and nobody asks it.
    pub fn sleeps(&self, key: &Key) -> bool {
        self.applications.get(key).is_some_and(Application::sleeps)
    }

    /// Changes whenever something is ready that was not, or is not any more: how often that was so.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// What is to end, and is not led to any more, waits for the requests that are still there: asked once for all.
    pub fn wait_for(&self, requests: Arc<dyn Requests>) {
        // The first one stays.
        let _ = self.changes.requests.set(requests);
    }

    /// Requests are led by so many of the changes, whoever is asked for them now: what is to end waits for that.
    pub fn followed(&self, changes: u64) {
        self.changes.followed.send_replace(Some(changes));
    }

    /// What the containers of an application are doing; none where it is not wanted and has ended.
    pub fn status(&self, key: &Key) -> Vec<Status> {
        self.applications.get(key).map(Application::status).unwrap_or_default()
    }

    /// What becomes of an application's new version; `None`: all is as it is wanted, or there is no other to go back
    /// to.
    pub fn rollout(&self, key: &Key) -> Option<Rollout> {
        self.applications.get(key).and_then(Application::rollout)
    }

    /// What has happened to containers of a tenant since the edge was started, the last of it, the newest last.
    pub fn events(&self, tenant: &str) -> Vec<Event> {
        self.events.of_tenant(tenant)
    }

    /// Has something of an application as a whole be among what has happened.
    pub fn note(&self, key: &Key, what: What, message: &str) {
        let pod = Pod {
            tenant: key.tenant.clone(),
            application: key.application.clone(),
            replica: 0,
        };
        self.events.note(&pod, "", what, message);
    }

    /// Has these applications stand still, however they are wanted, until what this returns is dropped.
    pub fn hold(&self, keys: &[Key]) -> Held {
        let found = keys.iter().filter_map(|key| self.applications.get(key));
        Held::begin(found.map(Application::holding).collect())
    }

    /// What was said by containers that are not there any more.
    pub fn kept_logs(&self) -> &KeptLogs {
        &self.kept_logs
    }

    /// What runs the containers.
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }
}
