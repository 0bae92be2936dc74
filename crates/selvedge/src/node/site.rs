//! The edge as a node of its site, as the configuration asks for it, or as the edge joined.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use api::{Member, Nodes, SITE_DIRECTORY};
use identity::{Bans, ClientName, DEFAULT_TENANT, Identity, Membership, NodeKeys};
use link::edge::{Proxies, Target};
use mesh::Mesh;
use serde::{Deserialize, Serialize};
use site::{Known, RANDOM_BITS};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

use super::certificates::outward_address;
use super::config::Config;
use super::listeners::refusal;

/// File with the places of the other nodes, by which it finds them after a restart, whoever of them is there then.
const PLACES_FILE: &str = "places";

/// Where the nodes of the edge's site meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Site {
    pub(crate) listen: Vec<SocketAddr>,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) seeds: Vec<String>,
    pub(crate) name: String,
    pub(crate) relay: bool,
    pub(crate) mdns: bool,
}

impl Default for Site {
    fn default() -> Self {
        Site {
            listen: Vec::new(),
            addresses: Vec::new(),
            seeds: Vec::new(),
            name: String::new(),
            relay: true,
            mdns: false,
        }
    }
}

/// The edge's end of it.
pub(super) struct EdgeSite {
    config: Site,
    /// The directory of what it has of its site.
    data: PathBuf,
    listeners: Vec<TcpListener>,
    nodes: Arc<Nodes>,
}

impl EdgeSite {
    /// Binds where others are to connect, if the edge is to be in a site.
    pub(super) fn bind(config: &Config) -> anyhow::Result<Self> {
        let bind = |address: &SocketAddr| {
            let listener = TcpListener::bind(address);
            listener.map_err(|error| anyhow!("{}", refusal(&address.to_string(), &error)))
        };
        let listeners: Vec<_> = config.site.listen.iter().map(bind).collect::<Result<_, _>>()?;
        let member = Member::of_site(&config.data, Proxies::of_environment());
        Ok(EdgeSite {
            config: config.site.clone(),
            data: config.data.join(SITE_DIRECTORY),
            listeners,
            nodes: Arc::new(Nodes::new(member)),
        })
    }

    pub(super) fn nodes(&self) -> Arc<Nodes> {
        Arc::clone(&self.nodes)
    }

    /// Waits until it has joined a site, or has another certificate there.
    pub(super) async fn changed(&self) {
        self.nodes.changed().await;
    }

    /// Has it be a node from now on, by what it has of its site now.
    pub(super) fn start(&self, identity: &Identity, mesh: &Mesh) -> anyhow::Result<()> {
        if self.listeners.is_empty() {
            return Ok(());
        }
        self.nodes.stop();
        let membership = Membership::read(&self.data)?;
        let keys = match &membership {
            Some(membership) => NodeKeys::of_member(membership)?,
            None => NodeKeys::of_founder(identity, &self.own_name()?, super::unix_now_s())?,
        };
        let listeners = self
            .listeners
            .iter()
            .map(async_listener)
            .collect::<anyhow::Result<_>>()?;
        let name = keys.node().to_owned();
        let options = site::Options {
            keys: Arc::new(keys),
            listeners,
            addresses: self.addresses()?,
            seeds: self.seeds(membership.as_ref())?,
            is_relay: self.config.relay,
            is_announced: self.config.mdns,
            bans: Bans::read(&self.data).unwrap_or_else(|error| {
                tracing::error!(%error, "who is banned is not known here until another node says so");
                Bans::default()
            }),
            incarnation: incarnation(),
        };
        let (site, requests) = site::Site::start(options)?;
        let site = Arc::new(site);
        tracing::info!(node = name, "the edge is a node of its site");
        tokio::spawn(remember(site.known(), self.data.clone()));
        tokio::spawn(remember_bans(site.bans(), self.data.clone()));
        mesh.join(&site, requests);
        self.nodes.run(name, site);
        Ok(())
    }

    /// Renews its certificate in time, until the program ends.
    pub(super) fn keep_renewed(&self) {
        if self.listeners.is_empty() {
            return;
        }
        let nodes = self.nodes();
        tokio::spawn(async move { nodes.keep_renewed().await });
    }

    /// What the node at which a site begins is called: as it is configured, else as its machine is.
    fn own_name(&self) -> anyhow::Result<ClientName> {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let name = match self.config.name.is_empty() {
            true => host,
            false => self.config.name.clone(),
        };
        ClientName::new(DEFAULT_TENANT, &name).with_context(|| format!("site.name: {name:?} is no name of a node"))
    }

    /// Where others are told that it is.
    fn addresses(&self) -> anyhow::Result<Vec<SocketAddr>> {
        if !self.config.addresses.is_empty() {
            return Ok(self.config.addresses.clone());
        }
        let bound = self.listeners.iter().map(TcpListener::local_addr);
        let bound: Vec<SocketAddr> = bound.collect::<Result<_, _>>()?;
        let reached = |address: SocketAddr| match address.ip().is_unspecified() {
            true => outward_address().map(|ip| SocketAddr::new(ip, address.port())),
            false => Some(address),
        };
        Ok(bound.into_iter().filter_map(reached).collect())
    }

    /// By whom it finds the others: those that are configured, the one at which it joined, and those that it knew.
    fn seeds(&self, membership: Option<&Membership>) -> anyhow::Result<Vec<String>> {
        let joined_at = membership
            .map(|membership| Target::site(&membership.link_url))
            .transpose()?;
        let configured = self.config.seeds.iter().cloned();
        let seeds = configured
            .chain(joined_at.map(|target| target.place()))
            .chain(remembered(&self.data));
        Ok(seeds.collect())
    }
}

/// Writes the places of other nodes down whenever they are others than before, until the node stops. Where it cannot, the
/// node finds them by the others after a restart.
async fn remember(mut known: watch::Receiver<Arc<Vec<Known>>>, directory: PathBuf) {
    let mut written = BTreeSet::new();
    while known.changed().await.is_ok() {
        let places: BTreeSet<SocketAddr> = known.borrow().iter().flat_map(|node| node.addresses.clone()).collect();
        if places.is_empty() || places == written {
            continue;
        }
        written = places.clone();
        let directory = directory.clone();
        let done = spawn_blocking(move || write_places(&directory, &places)).await;
        if let Ok(Err(error)) = done {
            tracing::warn!(%error, "where the other nodes are could not be written down");
        }
    }
}

/// Writes down who is banned whenever that is somebody else, until the node stops: it holds after a restart, too, whoever is
/// there then.
async fn remember_bans(mut bans: watch::Receiver<Arc<Bans>>, directory: PathBuf) {
    while bans.changed().await.is_ok() {
        let (bans, directory) = (Arc::clone(&bans.borrow_and_update()), directory.clone());
        let done = spawn_blocking(move || bans.write(&directory)).await;
        if let Ok(Err(error)) = done {
            tracing::error!(%error, "who is banned from the site could not be written down");
        }
    }
}

fn write_places(directory: &Path, places: &BTreeSet<SocketAddr>) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let lines: String = places.iter().map(|place| format!("{place}\n")).collect();
    let path = directory.join(PLACES_FILE);
    let new = path.with_extension("new");
    std::fs::write(&new, lines)?;
    std::fs::rename(new, path)
}

/// Half a file after a power cut has some of them, or none.
fn remembered(directory: &Path) -> Vec<String> {
    let lines = std::fs::read_to_string(directory.join(PLACES_FILE)).unwrap_or_default();
    let places = lines.lines().filter(|line| line.parse::<SocketAddr>().is_ok());
    places.map(str::to_owned).collect()
}

fn async_listener(listener: &TcpListener) -> anyhow::Result<tokio::net::TcpListener> {
    let listener = listener.try_clone()?;
    listener.set_nonblocking(true)?;
    Ok(tokio::net::TcpListener::from_std(listener)?)
}

/// Of this start: higher than those before, unless the clock was set back.
fn incarnation() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "it survives restarts, as only the wall clock does"
    )]
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let random: u16 = rand::random();
    (since.as_millis() as u64) << RANDOM_BITS | u64::from(random)
}
