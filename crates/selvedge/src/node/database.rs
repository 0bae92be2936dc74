//! Where telemetry is kept: the cloud's database, or an edge's history.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use cloud::history::{self, History, Keeper};
use cloud::upkeep::{self, Keep};
use cloud::{Database, Feed, Retention};
use hub::{Hub, Outbox, Overhearing};
use identity::Identity;
use tokio::time::timeout;

use super::config::Config;
use super::role::Role;

/// The file of the embedded database of a cloud, in the data directory, and that of an edge's history.
const FILE: &str = "telemetry.db";
const HISTORY_FILE: &str = "history.db";

/// How long a start waits for its database. All else that it does needs none.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is kept here of telemetry, and who is told of it.
pub(super) struct Telemetry {
    kept: Kept,
    /// What of it is, but for what tenants have of their own.
    keep: Keep,
    pub(super) feed: Feed,
}

enum Kept {
    /// All, in a cloud's database.
    All {
        url: String,
    },
    /// An edge's history.
    Last {
        path: PathBuf,
        history: History,
        keeper: Keeper,
    },
    Nothing,
}

impl Telemetry {
    /// As the configuration says.
    pub(super) fn of(config: &Config, role: Role) -> Self {
        let kept = match role {
            Role::Cloud => Kept::All { url: url(config) },
            Role::Edge if config.history.enabled => {
                let (history, keeper) = History::new();
                Kept::Last {
                    path: config.data.join(HISTORY_FILE),
                    history,
                    keeper,
                }
            }
            Role::Edge => Kept::Nothing,
        };
        let (retention, bytes) = match role {
            Role::Cloud => (&config.database.retention, None),
            Role::Edge => (&config.history.retention, Some(config.history.bytes)),
        };
        let retention = Retention {
            default: retention.age(),
            ..Retention::default()
        };
        Self {
            kept,
            keep: Keep { retention, bytes },
            feed: Feed::default(),
        }
    }

    /// Where questions are asked.
    pub(super) fn url(&self) -> Option<String> {
        match &self.kept {
            Kept::All { url } => Some(url.clone()),
            Kept::Last { path, .. } => Some(format!("sqlite:{}", path.display())),
            Kept::Nothing => None,
        }
    }

    /// What an edge keeps.
    pub(super) fn history(&self) -> Option<History> {
        match &self.kept {
            Kept::Last { history, .. } => Some(history.clone()),
            _ => None,
        }
    }

    /// While it is true, a hub's telemetry is copied; `None`: it comes by the outbox.
    pub(super) fn overhears(&self) -> Option<Arc<AtomicBool>> {
        match &self.kept {
            Kept::All { .. } => None,
            Kept::Last { .. } => Some(Arc::new(AtomicBool::new(true))),
            Kept::Nothing => Some(self.feed.watched_flag()),
        }
    }

    /// Takes in what the hub has, until the program ends.
    pub(super) async fn start(self, hub: &Hub, identity: &Arc<Identity>) -> anyhow::Result<()> {
        let feed = self.feed;
        let keep = with_own(self.keep, Arc::clone(identity));
        match self.kept {
            Kept::All { url } => {
                let open = move || Database::open(&url);
                let first = opened(open.clone()).await.context("database.url")?;
                let outbox = hub.take_outbox().expect("a cloud's hub has one");
                tokio::spawn(pump(outbox, first, open.clone(), feed));
                tokio::spawn(upkeep::run(open, keep));
            }
            Kept::Last { path, keeper, .. } => {
                let open = move || Database::open_history(&path);
                let first = opened(open.clone()).await.context("history")?;
                let overhearing = hub.take_overhearing().expect("an edge's hub has it");
                tokio::spawn(keep_history(keeper, overhearing, first, open.clone(), feed));
                tokio::spawn(upkeep::run(open, keep));
            }
            Kept::Nothing => {
                let overhearing = hub.take_overhearing().expect("an edge's hub has it");
                tokio::spawn(history::tell(overhearing, feed));
            }
        }
        Ok(())
    }
}

/// What is kept of telemetry, with what tenants have of their own now.
fn with_own(keep: Keep, identity: Arc<Identity>) -> impl Fn() -> Option<Keep> + Clone {
    move || {
        let tenants = identity.registry().tenants();
        let tenants = tenants.inspect_err(|error| tracing::warn!(%error, "rows that are too old stay for now"));
        let mut keep = keep.clone();
        for tenant in tenants.ok()? {
            if let Some(seconds) = tenant.quotas.retention_s {
                let of_tenants = &mut keep.retention.of_tenants;
                of_tenants.insert(tenant.name, Duration::from_secs(seconds));
            }
        }
        Some(keep)
    }
}

/// Where a cloud's database is: the embedded one in the data directory, unless another is named.
fn url(config: &Config) -> String {
    match config.database.url.as_str() {
        "" => format!("sqlite:{}", config.data.join(FILE).display()),
        url => url.to_owned(),
    }
}

/// Whatever opens a database.
trait Opens: Fn() -> Result<Database, cloud::Error> + Clone + Send + 'static {}

impl<T: Fn() -> Result<Database, cloud::Error> + Clone + Send + 'static> Opens for T {}

/// Opens a database, which blocks, on a thread for that; `None`: it is away now, and may be there later.
async fn opened(open: impl Opens) -> anyhow::Result<Option<Database>> {
    let opening = tokio::task::spawn_blocking(open);
    let Ok(opened) = timeout(PATIENCE, opening).await else {
        tracing::warn!(
            waited_s = PATIENCE.as_secs(),
            "telemetry waits: its database does not answer"
        );
        return Ok(None);
    };
    match opened.context("opening the database")? {
        Ok(database) => Ok(Some(database)),
        Err(error) if error.may_pass() => {
            tracing::warn!(%error, "telemetry waits");
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

async fn at_last(first: Option<Database>, open: impl Opens) -> Database {
    match first {
        Some(database) => database,
        None => cloud::pump::open_at_last(open).await,
    }
}

async fn pump(outbox: Outbox, first: Option<Database>, open: impl Opens, feed: Feed) {
    let mut database = at_last(first, open).await;
    database.tell(feed);
    cloud::pump::run(outbox, database).await;
}

async fn keep_history(keeper: Keeper, overhearing: Overhearing, first: Option<Database>, open: impl Opens, feed: Feed) {
    let database = at_last(first, open).await;
    if let Err(error) = keeper.run(overhearing, database, feed).await {
        tracing::error!(%error, "no history of telemetry is kept");
    }
}
