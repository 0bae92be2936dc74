//! An edge as a node of its site: how it joins one, and which others it knows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use identity::{Action, BanError, Bans, ClientName, DEFAULT_TENANT, Identity, JoinToken};
use link::edge::Target;
use serde::{Deserialize, Serialize};
use site::{Known, Relayed, Site};
use tokio::sync::Notify;
use utoipa::ToSchema;

use crate::clients::date_time;
use crate::desk::Desk;
use crate::joining::{JoinCloud, Joined};
use crate::member::Member;
use crate::types::Page;
use crate::unix_now_s;
use crate::wrong::{Done, Wrong};

/// An edge in its site, whether it runs there or not.
pub struct Nodes {
    /// In the site that it has joined; the one at which a site began has joined none.
    pub member: Arc<Member>,
    running: Mutex<Option<Running>>,
    changed: Notify,
    banning: tokio::sync::Mutex<()>,
}

struct Running {
    name: String,
    site: Arc<Site>,
}

/// A node of a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeInfo {
    /// Its name.
    pub node: String,
    /// Whether it is the one that was asked.
    pub is_here: bool,
    /// Whether it is banned from the site; then nothing else is known of it.
    pub is_banned: bool,
    /// Whether it has been heard of within seconds.
    pub is_alive: bool,
    /// For how many seconds not, where that is known.
    pub silent_s: Option<u64>,
    /// Whether there is a connection to it.
    pub is_connected: bool,
    /// The node through which that passes, where the two do not reach each other themselves.
    pub through: Option<String>,
    /// Where it says that it is.
    pub addresses: Vec<String>,
}

impl Nodes {
    /// Those of an edge that does not run, or not yet.
    #[must_use]
    pub fn new(member: Member) -> Self {
        Nodes {
            member: Arc::new(member),
            running: Mutex::default(),
            changed: Notify::new(),
            banning: tokio::sync::Mutex::default(),
        }
    }

    /// The edge is a node of this name from now on, in place of what it was: until this is dropped, or told to stop.
    pub fn run(&self, name: String, site: Arc<Site>) {
        *self.held() = Some(Running { name, site });
    }

    /// It is none from now on; what it was has ended.
    pub fn stop(&self) {
        self.held().take();
    }

    /// Waits until the edge has joined a site or has another certificate, once for each time.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Renews its certificate in time, until the task is dropped.
    pub async fn keep_renewed(&self) {
        self.member.keep_renewed(|| true, || self.changed.notify_one()).await;
    }

    /// The name of the edge that is a node.
    pub(crate) fn name(&self) -> Option<String> {
        self.held().as_ref().map(|running| running.name.clone())
    }

    fn site(&self) -> Option<Arc<Site>> {
        self.held().as_ref().map(|running| Arc::clone(&running.site))
    }

    /// What the edge has led between other nodes.
    pub(crate) fn relayed(&self) -> Option<Relayed> {
        self.held().as_ref().map(|running| running.site.relayed())
    }

    fn list(&self) -> Vec<NodeInfo> {
        let held = self.held();
        let Some(running) = held.as_ref() else {
            return Vec::new();
        };
        let known = running.site.known();
        let own = NodeInfo {
            node: running.name.clone(),
            is_here: true,
            is_banned: false,
            is_alive: true,
            silent_s: None,
            is_connected: true,
            through: None,
            addresses: running.site.addresses().iter().map(ToString::to_string).collect(),
        };
        let mut all: Vec<NodeInfo> = known.borrow().iter().map(info).collect();
        let banned: Vec<NodeInfo> = running.site.bans().borrow().nodes().map(banned).collect();
        // One that was let in again by another invitation is a node as any.
        let gone = banned
            .into_iter()
            .filter(|one| all.iter().all(|other| other.node != one.node));
        all.extend(gone.collect::<Vec<_>>());
        all.push(own);
        all.sort_by(|one, other| one.node.cmp(&other.node));
        all
    }

    fn held(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn info(known: &Known) -> NodeInfo {
    NodeInfo {
        node: known.node.clone(),
        is_here: false,
        is_banned: false,
        is_alive: known.is_alive,
        silent_s: known.silent_since.map(|since| since.elapsed().as_secs()),
        is_connected: known.is_connected,
        through: known.through.clone(),
        addresses: known.addresses.iter().map(ToString::to_string).collect(),
    }
}

fn banned(node: &str) -> NodeInfo {
    NodeInfo {
        node: node.to_owned(),
        is_here: false,
        is_banned: true,
        is_alive: false,
        silent_s: None,
        is_connected: false,
        through: None,
        addresses: Vec::new(),
    }
}

/// The nodes of the edge's site; none where it is in no site.
#[utoipa::path(get, path = "/v1/nodes", tag = "edges", operation_id = "list_nodes",
    responses((status = 200, body = Page<NodeInfo>)))]
pub(crate) async fn list(State(desk): State<Arc<Desk>>) -> Json<Page<NodeInfo>> {
    let items = desk.nodes.as_ref().map(|nodes| nodes.list()).unwrap_or_default();
    Json(Page { items, has_more: false })
}

/// Bans a node from the site that began at this edge: every node that hears of it ends its connection to it, and lets it in no
/// more with the certificates that it has. By another invitation it comes in again.
#[utoipa::path(put, path = "/v1/nodes/{id}/ban", tag = "edges", operation_id = "ban_node",
    params(("id" = String, Path)), responses((status = 204)))]
pub(crate) async fn ban(State(desk): State<Arc<Desk>>, Path(node): Path<String>) -> Done<StatusCode> {
    if desk.nodes.as_ref().and_then(|nodes| nodes.name()).as_deref() == Some(&*node) {
        let message = format!("{node} is this node itself, where the site began; it is not banned");
        return Err(Wrong::new(StatusCode::CONFLICT, message));
    }
    change_bans(&desk, &node, Action::Disabled, Identity::ban).await
}

/// Lifts the ban of a node: it is let in with the certificate that it has, until that ends.
#[utoipa::path(delete, path = "/v1/nodes/{id}/ban", tag = "edges", operation_id = "lift_ban",
    params(("id" = String, Path)), responses((status = 204)))]
pub(crate) async fn lift_ban(State(desk): State<Arc<Desk>>, Path(node): Path<String>) -> Done<StatusCode> {
    change_bans(&desk, &node, Action::Enabled, Identity::lift_ban).await
}

async fn change_bans(
    desk: &Desk,
    node: &str,
    action: Action,
    change: fn(&Identity, &Bans, &ClientName, i64) -> Result<Bans, BanError>,
) -> Done<StatusCode> {
    let wrong = |message: String| Wrong::new(StatusCode::CONFLICT, message);
    let nodes = desk.nodes.as_ref();
    let nodes = nodes.ok_or_else(|| wrong("this is a cloud; nodes are banned where their site began".to_owned()))?;
    if let Some(joined) = nodes.member.membership() {
        let place = joined.cloud_url;
        return Err(wrong(format!(
            "this edge has joined a site; nodes are banned where that began, at {place}"
        )));
    }
    let name = ClientName::new(DEFAULT_TENANT, node)?;
    // One change after the other: each is made of the one before.
    let _changing = nodes.banning.lock().await;
    let (directory, running, named) = (nodes.member.directory().to_owned(), nodes.site(), name.clone());
    let known = running.as_ref().map(|site| Arc::clone(&site.bans().borrow()));
    let bans = desk
        .with_identity(move |identity| {
            // The site may not have taken the last ones yet, and an edge that did not run has none but those of the file.
            let written = Bans::read(&directory).map_err(BanError::File)?;
            let known = known.filter(|known| known.number() > written.number());
            let before = known.map_or(written, |known| (*known).clone());
            let bans = change(identity, &before, &named, unix_now_s())?;
            bans.write(&directory).map_err(BanError::File)?;
            Ok::<_, BanError>(bans)
        })
        .await?;
    if let Some(site) = running {
        site.ban(bans).await;
    }
    desk.account_for(action, &name, "ban");
    desk.settle().await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<BanError> for Wrong {
    fn from(error: BanError) -> Self {
        match error {
            BanError::Unknown(_) | BanError::NotBanned(_) => Wrong::absent(error.to_string()),
            BanError::Full => Wrong::new(StatusCode::CONFLICT, error.to_string()),
            BanError::Identity(error) => error.into(),
            BanError::Key(_) | BanError::File(_) => Wrong::here(error.to_string()),
        }
    }
}

/// Joins a site, or another one than before.
pub(crate) async fn join(State(desk): State<Arc<Desk>>, Json(join): Json<JoinCloud>) -> Done<Json<Joined>> {
    let nodes = desk.nodes.as_ref();
    let nodes =
        nodes.ok_or_else(|| Wrong::request("this is a cloud; an edge joins a site: give its directory with --data"))?;
    let target = Target::https(&join.url).map_err(|error| Wrong::request(error.to_string()))?;
    let token = JoinToken::parse(&join.token).map_err(|error| Wrong::request(error.to_string()))?;
    let joined = nodes.member.join(&target, join, &token).await;
    let membership = joined.map_err(|error| Wrong::request(error.to_string()))?;
    nodes.changed.notify_one();
    Ok(Json(Joined {
        edge: membership.edge,
        link_url: membership.link_url,
        until: date_time(membership.not_after_unix_s),
        is_running: nodes.name().is_some(),
    }))
}
