//! The desk where operators ask: what the edge is made of, and the settling of what they changed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use agent::logins::Logins as LoginFiles;
use agent::supervise::Supervisor;
use agent::workload::node::Labels;
use cloud::history::History;
use cloud::{Feed, Queries};
use futures_util::future::join_all;
use hub::Hub;
use identity::{Action, Audit, Change, ClientName, Event, Identity, Registry, RegistryError, UserName, What};
use link::cloud::Connected;
use link::edge::LinkStatus;
use manifest::WhenFull;
use mesh::Mesh;
use tokio::sync::{Mutex, OnceCell};
use tracing_appender::non_blocking::ErrorCounter;

use crate::applying;
use crate::database::Questions;
use crate::edge_manifests::{ForEdges, FromCloud};
use crate::enrolment::Enrolment;
use crate::guard::actor;
use crate::log_tail::LogTail;
use crate::logins::Logins;
use crate::manifests::Manifests;
use crate::member::Member;
use crate::nodes::Nodes;
use crate::snapshots::Holding;
use crate::subscriptions::Subscriptions;
use crate::types::EdgeInfo;
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// Does what operators ask of an edge, running or not. Shared by the doors of its HTTP face.
pub struct Desk {
    pub(crate) identity: Arc<Identity>,
    pub(crate) manifests: Manifests,
    /// Those that this edge has from its cloud.
    pub(crate) from_cloud: FromCloud,
    /// Those that edges have from this cloud.
    pub(crate) for_edges: ForEdges,
    pub(crate) about: About,
    /// Its whole configuration, without secrets.
    configuration: std::sync::Mutex<String>,
    /// Held while manifests are applied or deleted, so that one change is made after the other.
    pub(crate) applying: Mutex<()>,
    /// The way to the cloud; `None`: there is none.
    pub(crate) link: Option<Arc<LinkStatus>>,
    /// The edge in a cloud; `None`: this is one.
    pub(crate) member: Option<Arc<Member>>,
    /// The edge in its site; `None`: this is a cloud.
    pub(crate) nodes: Option<Arc<Nodes>>,
    /// How edges join, or nodes of the edge's site; `None`: none does.
    pub(crate) enrolment: Option<Enrolment>,
    /// The edges that are connected; `None`: this is no cloud.
    pub(crate) connected: Option<Arc<Connected>>,
    /// The telemetry database; `None`: no telemetry is kept here.
    questions: Option<Questions>,
    /// What is kept of an edge's telemetry; `None`: nothing, or this is a cloud.
    pub(crate) history: Option<History>,
    /// What goes in, as it does; `None`: nothing runs here.
    pub(crate) feed: Option<Feed>,
    /// What runs of applications; `None`: no edge runs here, or this is a cloud.
    pub(crate) supervisor: Option<Arc<std::sync::Mutex<Supervisor>>>,
    /// How requests come to them; `None`: as above.
    pub(crate) mesh: Option<Arc<Mesh>>,
    /// Messages that wake them.
    pub(crate) subscriptions: Arc<Subscriptions>,
    /// What they log in by; `None`: as above.
    pub(crate) login_files: Option<LoginFiles>,
    pub(crate) snapshots: Holding,
    pub(crate) logins: Logins,
    audit: Arc<Audit>,
    /// Where no edge runs, it is started without doors by the first request that needs it.
    hub: OnceCell<Arc<Hub>>,
    hub_options: hub::Options,
    /// Number of the last change of the registry that the hub has heard of.
    settled: Mutex<u64>,
    is_stopping: AtomicBool,
    has_upstream: AtomicBool,
}

/// What a desk is made of.
pub struct Parts {
    /// Directory of all that survives a restart.
    pub data: PathBuf,
    /// Who may connect.
    pub identity: Arc<Identity>,
    /// Where what is done here is accounted for.
    pub audit: Arc<Audit>,
    /// The running hub; `None` where no edge runs.
    pub hub: Option<Arc<Hub>>,
    /// How a hub is started here where none runs.
    pub hub_options: hub::Options,
    /// What can be said about this edge.
    pub about: About,
    /// How its way to the cloud is, if it has one; `None`: it never has.
    pub link: Option<Arc<LinkStatus>>,
    /// The edge in a cloud; `None`: this is a cloud.
    pub member: Option<Arc<Member>>,
    /// The edge in its site; `None`: this is a cloud.
    pub nodes: Option<Arc<Nodes>>,
    /// How edges join a cloud that runs, or nodes the site of an edge that does; `None`: neither is so.
    pub enrolment: Option<Enrolment>,
    /// The edges that are connected; `None`: this is no cloud.
    pub connected: Option<Arc<Connected>>,
    /// URL of its telemetry database, as [`cloud::Queries::open`] takes it; `None`: no telemetry is kept here.
    pub database: Option<String>,
    /// What fills it, where that is an edge's history.
    pub history: Option<History>,
    /// Where its telemetry is told as it comes in; `None` where nothing runs.
    pub feed: Option<Feed>,
    /// Runs the applications of an edge; `None`: none runs here, or this is a cloud.
    pub supervisor: Option<Arc<std::sync::Mutex<Supervisor>>>,
    /// Leads requests to them; `None`: as above.
    pub mesh: Option<Arc<Mesh>>,
    /// What they log in by at the hub; `None`: as above.
    pub login_files: Option<LoginFiles>,
}

/// What can be said about an edge.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Version and addresses.
    pub edge: EdgeInfo,
    /// What `nodeSelector` knows it by.
    pub labels: Labels,
    /// The end of its log.
    pub log: LogTail,
    /// Counts the lines of its log that were lost; `None` where no edge runs.
    pub log_losses: Option<ErrorCounter>,
}

impl Desk {
    /// A desk for the edge that `parts` make.
    pub fn new(parts: Parts) -> Self {
        let settled = parts.identity.registry().last_change();
        let data: Arc<Path> = parts.data.into();
        Self {
            manifests: Manifests::new(&data),
            snapshots: Holding::new(data.to_path_buf()),
            from_cloud: FromCloud::new(&data),
            for_edges: ForEdges::new(&data),
            identity: parts.identity,
            about: parts.about,
            configuration: std::sync::Mutex::default(),
            applying: Mutex::new(()),
            link: parts.link,
            member: parts.member,
            nodes: parts.nodes,
            enrolment: parts.enrolment,
            has_upstream: AtomicBool::new(parts.hub_options.has_upstream),
            connected: parts.connected,
            questions: parts.database.map(Questions::new),
            history: parts.history,
            feed: parts.feed,
            supervisor: parts.supervisor,
            mesh: parts.mesh,
            subscriptions: Arc::default(),
            login_files: parts.login_files,
            logins: Logins::default(),
            audit: parts.audit,
            hub: OnceCell::new_with(parts.hub),
            hub_options: parts.hub_options,
            settled: Mutex::new(settled),
            is_stopping: AtomicBool::new(false),
        }
    }

    /// The hub, started without doors where no edge runs.
    pub(crate) async fn hub(&self) -> Done<&Arc<Hub>> {
        let start = async || {
            let (identity, audit) = (Arc::clone(&self.identity), Arc::clone(&self.audit));
            Hub::start(&self.hub_options, identity, audit).map(Arc::new)
        };
        Ok(self.hub.get_or_try_init(start).await?)
    }

    /// Starts the hub where none runs but one has run before: what it left may have to follow a change.
    pub(crate) async fn wake_hub(&self) -> Done<()> {
        if hub::shards_in(&self.hub_options.data).is_some() {
            self.hub().await?;
        }
        Ok(())
    }

    /// Whether what routes send upstream goes anywhere.
    pub(crate) fn has_upstream(&self) -> bool {
        self.has_upstream.load(Ordering::Relaxed)
    }

    /// From now on it does; the hub is told, and routes by it.
    ///
    /// # Errors
    /// In words, why the hub did not follow.
    pub(crate) async fn open_upstream(&self) -> Result<(), String> {
        self.has_upstream.store(true, Ordering::Relaxed);
        if let Some(hub) = self.running_hub() {
            hub.open_upstream().await;
        }
        self.load_routes().await
    }

    /// What becomes of telemetry that finds no room: an edge drops the oldest, a cloud leaves it with who sent it.
    pub(crate) fn upstream_when_full(&self) -> WhenFull {
        match self.hub_options.edge_calls {
            Some(_) => WhenFull::Refuse,
            None => WhenFull::DropOldest,
        }
    }

    /// The hub, if it runs.
    pub(crate) fn running_hub(&self) -> Option<&Arc<Hub>> {
        self.hub.get()
    }

    /// Says how the edge is configured from now on; there must be no secrets in it.
    pub fn set_configuration(&self, configuration: String) {
        *self.configuration.lock().unwrap_or_else(PoisonError::into_inner) = configuration;
    }

    pub(crate) fn configuration(&self) -> String {
        self.configuration
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// From now on the edge is not ready.
    pub fn begin_stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Ends the hub, if it runs, and writes what the audit log still has to say.
    pub async fn close(&self) {
        if let Some(hub) = self.hub.get() {
            hub.stop().await;
        }
        if let Some(history) = &self.history {
            history.settle().await;
        }
        let audit = Arc::clone(&self.audit);
        let written = tokio::task::spawn_blocking(move || audit.finish(unix_now_s())).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, "the audit log could not be written");
        }
    }

    /// Asks the telemetry database, which has all that came before.
    pub(crate) async fn ask_telemetry<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Queries) -> Result<T, cloud::Error> + Send + 'static,
    ) -> Done<T> {
        let message = "no telemetry is kept here: ask the cloud that this edge is linked to, or set history.enabled";
        let questions = self.questions.as_ref().ok_or_else(|| Wrong::absent(message))?;
        if let Some(history) = &self.history {
            history.settle().await;
        }
        questions.ask(question).await
    }

    /// Runs what reads or writes the registry, which blocks.
    pub(crate) async fn with_identity<T: Send + 'static, E: Into<Wrong> + Send + 'static>(
        &self,
        work: impl FnOnce(&Identity) -> Result<T, E> + Send + 'static,
    ) -> Done<T> {
        let identity = Arc::clone(&self.identity);
        let worked = tokio::task::spawn_blocking(move || work(&identity)).await;
        worked
            .map_err(|error| Wrong::here(error.to_string()))?
            .map_err(Into::into)
    }

    /// As [`Desk::with_identity`], for what needs the registry alone.
    pub(crate) async fn with_registry<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Registry) -> Result<T, identity::RegistryError> + Send + 'static,
    ) -> Done<T> {
        self.with_identity(move |identity| work(identity.registry())).await
    }

    /// Accounts for a change of a credential or client.
    pub(crate) fn account_for(&self, action: Action, name: &ClientName, what: &str) {
        let event = Event::Credential {
            action,
            tenant: name.tenant(),
            id: name.id(),
            what,
            by: &actor(),
        };
        self.account_for_event(&event);
    }

    /// Accounts for a change of a user.
    pub(crate) fn account_for_user(&self, action: Action, name: &UserName, what: &str) {
        let event = Event::Credential {
            action,
            tenant: name.tenant().unwrap_or_default(),
            id: name.name(),
            what,
            by: &actor(),
        };
        self.account_for_event(&event);
    }

    /// Accounts for anything.
    pub(crate) fn account_for_event(&self, event: &Event<'_>) {
        self.audit.record(event, unix_now_s());
    }

    /// Accounts for a change of a tenant.
    pub(crate) fn account_for_tenant(&self, action: Action, tenant: &str, what: &str) {
        let event = Event::Tenant {
            action,
            tenant,
            what,
            by: &actor(),
        };
        self.account_for_event(&event);
    }

    /// Accounts for a call.
    pub(crate) fn account_for_call(&self, device: &ClientName, method: &str) {
        let event = Event::CallMade {
            tenant: device.tenant(),
            caller: &actor(),
            device: device.id(),
            method,
        };
        self.account_for_event(&event);
    }

    /// Refuses a tenant that is not there.
    pub(crate) async fn check_tenant(&self, tenant: &str) -> Done<()> {
        let wanted = tenant.to_owned();
        let found = self.with_registry(move |registry| registry.tenant(&wanted)).await?;
        found
            .map(drop)
            .ok_or_else(|| RegistryError::NoTenant(tenant.to_owned()).into())
    }

    /// Writes down what was accounted for, so that a crash leaves no change without its line.
    pub(crate) async fn write_audit(&self) {
        let audit = Arc::clone(&self.audit);
        let written = tokio::task::spawn_blocking(move || audit.flush(unix_now_s())).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, "the audit log could not be written");
        }
    }

    /// Follows what changed in the registry: the audit log has it, and a running hub ends sessions and connections, and
    /// reads labels and quotas anew.
    pub(crate) async fn settle(&self) -> Done<()> {
        self.write_audit().await;
        let Some(hub) = self.hub.get() else { return Ok(()) };
        let mut settled = self.settled.lock().await;
        let registry = self.identity.registry();
        let last = registry.last_change();
        if let Some(changes) = registry.changes_since(*settled) {
            follow(hub, &changes).await;
            for change in changes
                .iter()
                .filter(|change| change.id.is_none() && change.what == What::Added)
            {
                applying::follow(self, &change.tenant).await?;
            }
            *settled = changes.last().map_or(*settled, |change| change.number);
        } else {
            self.look_at_everybody(hub).await?;
            *settled = last;
        }
        Ok(hub.refresh().await?)
    }

    /// So much has changed that it is forgotten what: sessions of nobody end, all others' connections begin anew.
    async fn look_at_everybody(&self, hub: &Hub) -> Done<()> {
        for tenant in self.with_registry(Registry::tenants).await? {
            for session in hub.sessions(&tenant.name).await.unwrap_or_default() {
                let Ok(name) = ClientName::new(&tenant.name, &session.owner) else {
                    continue;
                };
                let may_log_in = self.with_registry(move |registry| registry.may_log_in(&name)).await?;
                match may_log_in {
                    true => hub.disconnect(&tenant.name, &session.owner, None).await,
                    false => hub.forget(&tenant.name, &session.owner).await,
                }
            }
        }
        Ok(())
    }
}

/// All at once: they are asked for in this order, and wait for the log together.
async fn follow(hub: &Hub, changes: &[Change]) {
    let following = changes.iter().map(async |change| {
        let tenant = &change.tenant;
        match (&change.id, &change.what) {
            (None, What::Removed) => hub.clear(tenant).await,
            (Some(id), What::Removed) => hub.forget(tenant, id).await,
            (Some(id), What::Disabled) => hub.disconnect(tenant, id, None).await,
            (Some(id), What::CredentialRevoked(revoked)) => hub.disconnect(tenant, id, revoked.clone()).await,
            _ => {}
        }
    });
    join_all(following).await;
}
