//! What is wanted, and what is done so that it is.

mod application;
mod backoff;
mod container;
mod events;
mod revision;
mod rollout;
mod version;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use self::application::{Application, Replicas};
pub use self::container::Doing;
use self::events::Events;
pub use self::events::{Event, What};
pub use self::revision::Salt;
pub use self::rollout::Update;
use self::version::{Histories, Version};
use crate::cgroup::Limits;
use crate::probe::Probes;
use crate::runtime::{Error, Launch, Runtime, SEPARATOR};

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
    fn of_container(name: &str) -> Option<Key> {
        let mut parts = name.split(SEPARATOR);
        Some(Key {
            tenant: parts.next()?.to_owned(),
            application: parts.next()?.to_owned(),
        })
    }
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
    /// How others take the place of those that run.
    pub update: Update,
    /// They run only from [`Supervisor::wake`] to [`Supervisor::let_sleep`].
    pub is_on_demand: bool,
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

/// Keeps applications as they are wanted. What runs goes on when this is dropped, and the next one over the same runtime
/// finds it.
pub struct Supervisor {
    runtime: Arc<dyn Runtime>,
    salt: Salt,
    histories: Histories,
    events: Events,
    changes: Changes,
    applications: BTreeMap<Key, Application>,
}

/// Told whenever something is ready that was not, or is not any more.
#[derive(Clone, Debug)]
pub(crate) struct Changes(Arc<watch::Sender<()>>);

impl Changes {
    fn tell(&self) {
        self.0.send_replace(());
    }
}

impl Supervisor {
    /// Finds what runs already. It is left as it is until it is told what is wanted of it. What was good of applications is
    /// kept in the directory `histories`.
    ///
    /// # Errors
    /// The runtime does not say what it has, or the directory cannot be made.
    pub async fn new(runtime: Arc<dyn Runtime>, salt: Salt, histories: &Path) -> Result<Self, Error> {
        let found = runtime.names().await?;
        let mut supervisor = Supervisor {
            runtime,
            salt,
            histories: Histories::at(histories)?,
            events: Events::default(),
            changes: Changes(Arc::new(watch::channel(()).0)),
            applications: BTreeMap::new(),
        };
        for key in found.iter().filter_map(|name| Key::of_container(name)) {
            if let Entry::Vacant(entry) = supervisor.applications.entry(key) {
                let runtime = Arc::clone(&supervisor.runtime);
                let (histories, events) = (supervisor.histories.clone(), supervisor.events.clone());
                let changes = supervisor.changes.clone();
                let application = Application::open(runtime, histories, entry.key(), events, changes, true);
                entry.insert(application);
            }
        }
        Ok(supervisor)
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
                application.want(None, false);
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
    }

    /// Wants this of an application.
    pub fn set(&mut self, key: Key, wanted: &Wanted) {
        let replicas = Replicas {
            version: Version {
                revision: self.salt.revision(&wanted.containers),
                containers: wanted.containers.clone(),
            },
            count: wanted.replicas,
            update: wanted.update,
        };
        let (runtime, histories) = (&self.runtime, &self.histories);
        let application = self.applications.entry(key).or_insert_with_key(|key| {
            let (events, changes) = (self.events.clone(), self.changes.clone());
            Application::open(Arc::clone(runtime), histories.clone(), key, events, changes, false)
        });
        application.want(Some(replicas), wanted.is_on_demand);
    }

    /// Has an application run that runs on demand, if it does not.
    pub fn wake(&self, key: &Key) {
        if let Some(application) = self.applications.get(key) {
            application.wake();
        }
    }

    /// Ends an application that runs on demand, until it is woken. Nothing of it is ready once this returns, and what will
    /// be is started anew.
    pub fn let_sleep(&self, key: &Key) {
        if let Some(application) = self.applications.get(key) {
            application.let_sleep();
        }
    }

    /// Whether anything of an application is ready.
    pub fn is_ready(&self, key: &Key) -> bool {
        self.applications.get(key).is_some_and(Application::is_ready)
    }

    /// Whether it runs on demand, and there is none.
    pub fn sleeps(&self, key: &Key) -> bool {
        self.applications.get(key).is_some_and(Application::sleeps)
    }

    /// Changes whenever something is ready that was not, or is not any more.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.0.subscribe()
    }

    /// What the containers of an application are doing; none where it is not wanted and has ended.
    pub fn status(&self, key: &Key) -> Vec<Status> {
        self.applications.get(key).map(Application::status).unwrap_or_default()
    }

    /// What becomes of an application's new version; `None`: all is as it is wanted, or there is no other to go back to.
    pub fn rollout(&self, key: &Key) -> Option<Rollout> {
        self.applications.get(key).and_then(Application::rollout)
    }

    /// What has happened to containers of a tenant since the edge was started, the last of it, the newest last.
    pub fn events(&self, tenant: &str) -> Vec<Event> {
        self.events.of_tenant(tenant)
    }

    /// What runs the containers.
    pub fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }
}
