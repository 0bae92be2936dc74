//! The edge's link to its cloud, as the configuration asks for it, or as the edge joined.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use api::{Desk, ManifestsFromCloud, Member};
use hub::Hub;
use identity::{ClientPair, Identity, Membership};
use link::edge::{LinkStatus, Login, Options, Parts, Proxies, State};
use tokio::sync::Notify;

use super::config::Link;
use super::unix_now_s;
use crate::output::message;

/// The edge's end of the link.
pub(super) struct EdgeLink {
    config: Link,
    data: PathBuf,
    pub(super) member: Arc<Member>,
    pub(super) status: Arc<LinkStatus>,
    redial: Arc<Notify>,
    new_authority: Arc<Notify>,
    is_running: bool,
}

impl EdgeLink {
    /// Looks where the cloud is, if there is one.
    pub(super) fn new(config: &Link, data: &Path) -> anyhow::Result<Self> {
        let is_configured = !config.url.is_empty();
        Ok(Self {
            member: Arc::new(Member::new(data, proxies(config)?, is_configured)),
            config: config.clone(),
            data: data.to_owned(),
            status: Arc::default(),
            redial: Arc::default(),
            new_authority: Arc::default(),
            is_running: false,
        })
    }

    /// Whether there is a cloud. A membership that cannot be read counts: the edge serves all the same, and says so.
    pub(super) fn has_cloud(&self) -> bool {
        let has_joined = !matches!(Membership::read(&self.data), Ok(None));
        if has_joined && self.is_configured() {
            tracing::warn!("the edge has joined a cloud, and its configuration names one (link.url), which wins");
        }
        has_joined || self.is_configured()
    }

    fn is_configured(&self) -> bool {
        !self.config.url.is_empty()
    }

    /// Runs the link from now on.
    pub(super) fn start(&mut self, hub: &Arc<Hub>, identity: &Arc<Identity>, desk: &Arc<Desk>) -> anyhow::Result<()> {
        let way = self.way()?;
        let outbox = hub
            .take_outbox()
            .expect("the hub of an edge has one, and nobody else takes it");
        let parts = Parts {
            hub: Arc::clone(hub),
            outbox,
            identity: Arc::clone(identity),
            follow: desk.follower(),
            new_authority: Arc::clone(&self.new_authority),
            manifests: Box::new(ManifestsFromCloud::new(Arc::clone(desk))),
            status: Arc::clone(&self.status),
            redial: Arc::clone(&self.redial),
        };
        let hub = Arc::clone(hub);
        tokio::spawn(async move {
            link::edge::run(way, parts).await;
            if hub.observe().await.is_some() {
                // An edge without its link would seem well; whoever watches over the process starts it anew.
                tracing::error!("the link has ended by a fault of its own");
                std::process::abort();
            }
        });
        self.is_running = true;
        Ok(())
    }

    /// The edge has joined a cloud, or another one.
    pub(super) fn follow(&mut self, hub: &Arc<Hub>, identity: &Arc<Identity>, desk: &Arc<Desk>) -> anyhow::Result<()> {
        if self.is_running {
            self.redial.notify_one();
            return Ok(());
        }
        self.start(hub, identity, desk)
    }

    /// Waits until the cloud signs the certificates of devices with another authority than before.
    pub(super) async fn has_new_authority(&self) {
        self.new_authority.notified().await;
    }

    /// Renews the certificate of an edge that has joined, until the program ends.
    pub(super) fn keep_renewed(&self) {
        if self.is_configured() {
            return;
        }
        let (status, redial) = (Arc::clone(&self.status), Arc::clone(&self.redial));
        let member = Arc::clone(&self.member);
        tokio::spawn(async move {
            let is_linked = || status.snapshot().state == State::Connected;
            let dial_now = || {
                // A connection that there is goes on: what it was made with has not become worse.
                if !is_linked() {
                    redial.notify_one();
                }
            };
            member.keep_renewed(is_linked, dial_now).await;
        });
    }

    fn way(&self) -> anyhow::Result<link::edge::Way> {
        if self.is_configured() {
            let config = self.config.clone();
            // What is wrong with it from the start is said at the start.
            configured(&config)?;
            return Ok(Arc::new(move || configured(&config).map_err(|error| message(&error))));
        }
        let (data, proxies) = (self.data.clone(), proxies(&self.config)?);
        let member = Arc::clone(&self.member);
        Ok(Arc::new(move || {
            joined(&data, &proxies, &member).map_err(|error| message(&error))
        }))
    }
}

/// The way that the configuration says.
fn configured(link: &Link) -> anyhow::Result<Options> {
    let password = given(&link.password_file).map(read).transpose()?;
    let login = password.map(|password| Login {
        user_name: link.user_name.clone(),
        password: password.trim_ascii_end().to_vec(),
    });
    let pair = given(&link.certificate).map(|certificate| ClientPair {
        certificate,
        key: &link.key,
    });
    let tls = identity::client_config(given(&link.ca), pair);
    Ok(Options {
        target: link.url.parse().context("link.url")?,
        proxies: proxies(link)?,
        edge: link.user_name.as_str().into(),
        login,
        tls: tls.map_err(|error| anyhow!("TLS of the link: {error}"))?,
    })
}

/// The way to the cloud that the edge has joined.
fn joined(data: &Path, proxies: &Proxies, member: &Member) -> anyhow::Result<Options> {
    let membership =
        Membership::read(data)?.context("the edge has joined no cloud; selvedge edge join has it do so")?;
    let expired_s = unix_now_s() - membership.not_after_unix_s;
    if expired_s > 0 {
        let trouble = member.trouble().unwrap_or_else(|| "it is being renewed".to_owned());
        let expired = Duration::from_secs(expired_s.unsigned_abs());
        return Err(anyhow!(
            "the edge's certificate expired {} s ago: {trouble}",
            expired.as_secs()
        ));
    }
    Ok(Options {
        target: membership
            .link_url
            .parse()
            .context("the link's URL that the cloud gave")?,
        proxies: proxies.clone(),
        edge: membership.edge.as_str().into(),
        login: None,
        tls: membership.link_config()?,
    })
}

/// What stands between.
fn proxies(link: &Link) -> anyhow::Result<Proxies> {
    match &*link.proxy {
        "" => Ok(Proxies::of_environment()),
        url => Proxies::always(url).context("link.proxy"),
    }
}

/// Unless it is empty.
fn given(path: &Path) -> Option<&Path> {
    (!path.as_os_str().is_empty()).then_some(path)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}
