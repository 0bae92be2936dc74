//! An edge from its start to its stop.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::link::cloud::Connected;
use agent::workload::node;
use anyhow::{Context, anyhow};
use api::{
    About, Bounds, CONTROL_SOCKET, Desk, Door, EdgeInfo, ManifestsForEdges, Parts, control_router, public_router, serve,
};
use hub::{Address, EdgeCalls, Hub};
use identity::{Audit, EdgeLock, Identity, IdentityOptions};
use mesh::Mesh;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::applications::applications;
use super::certificates::Certificates;
use super::config::Config;
use super::database::Telemetry;
use super::flags::Flags;
use super::link::EdgeLink;
use super::listeners::{Opened, bind, bind_http, open};
use super::logging::Logging;
use super::logins::HubLogins;
use super::role::Role;
use super::site::EdgeSite;
use super::unix_now_s;
use crate::images_kept;
use crate::output::message;

/// Time that a good stop may take; then the process ends all the same.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two writes of the audit log.
const AUDIT_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two looks at the dates of the certificate and of the key of tokens.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(12 * 3600);

/// What runs.
pub(super) struct Running<'a> {
    pub(super) role: Role,
    pub(super) flags: &'a Flags,
    /// What is in effect.
    pub(super) config: Config,
    pub(super) log: Logging,
    pub(super) hub: Arc<Hub>,
    identity: Arc<Identity>,
    pub(super) audit: Arc<Audit>,
    pub(super) desk: Arc<Desk>,
    pub(super) certificates: Option<Certificates>,
    /// The way to the cloud; `None`: this is one.
    link: Option<EdgeLink>,
    /// The edge in its site; `None`: this is a cloud.
    site: Option<EdgeSite>,
    /// As that.
    mesh: Option<Arc<Mesh>>,
}

/// Runs an edge or a cloud until SIGTERM or SIGINT.
pub(crate) async fn run(role: Role, flags: &Flags, config: Config, log: Logging, start: Instant) -> anyhow::Result<()> {
    // Watched from the first moment on: a signal during the start is not lost.
    let mut signals = Signals::watch()?;
    raise_descriptor_limit();
    let _lock = EdgeLock::acquire(&config.data)?;
    let control = control_door(&config.data)?;
    let options = IdentityOptions {
        allow_anonymous: config.allow_anonymous,
    };
    let identity = Arc::new(Identity::open(&config.data, options, unix_now_s())?);
    if role == Role::Cloud && identity.make_first_admin(&config.data, unix_now_s())? {
        tracing::info!("the user admin was made; its password is in admin.password in the data directory");
    }
    let audit = Audit::open(&config.data, config.audit.options());
    let audit = Arc::new(audit.with_context(|| config.data.join("audit.log").display().to_string())?);
    let certificates = Certificates::open(&config, &identity)?;
    let opened = bind(&config.listen, certificates.as_ref().map(Certificates::source))?;
    let http = bind_http(&config.listen, certificates.as_ref().map(Certificates::source)).await?;
    let addresses = addresses(&opened, &http);
    let link = (role == Role::Edge).then(|| EdgeLink::new(&config.link, &config.data));
    let mut link = link.transpose()?;
    let site = (role == Role::Edge).then(|| EdgeSite::bind(&config)).transpose()?;
    let has_cloud = link.as_ref().is_some_and(EdgeLink::has_cloud);
    let telemetry = Telemetry::of(&config, role);
    let connected = (role == Role::Cloud).then(Arc::<Connected>::default);
    let hub_options = hub::Options {
        edge_calls: connected.clone().map(|connected| connected as Arc<dyn EdgeCalls>),
        overhears: telemetry.overhears(),
        ..config.hub_options(role, has_cloud)
    };
    let hub = Arc::new(Hub::start(&hub_options, Arc::clone(&identity), Arc::clone(&audit))?);
    let applications = match role {
        Role::Edge => {
            let issuer = Arc::new(HubLogins::new(&identity, &opened));
            let applications = applications(&config.data, ipv4_doors(&opened, &http), issuer).await?;
            images_kept::keep(&config.data, config.images.policy())?;
            Some(applications)
        }
        Role::Cloud => None,
    };
    let (supervisor, mesh, login_files) = match applications {
        Some(applications) => (
            Some(applications.supervisor),
            Some(Arc::new(applications.mesh)),
            Some(applications.logins),
        ),
        None => (None, None, None),
    };
    let desk = Arc::new(Desk::new(Parts {
        data: config.data.clone(),
        identity: Arc::clone(&identity),
        audit: Arc::clone(&audit),
        hub: Some(Arc::clone(&hub)),
        hub_options,
        about: about(&config, &addresses, &log),
        link: link.as_ref().map(|link| Arc::clone(&link.status)),
        member: link.as_ref().map(|link| Arc::clone(&link.member)),
        nodes: site.as_ref().map(EdgeSite::nodes),
        enrolment: match role {
            Role::Cloud => Some(config.enrolment(&opened, &http)),
            Role::Edge => config.site_enrolment(&http),
        },
        connected: connected.clone(),
        database: telemetry.url(),
        history: telemetry.history(),
        feed: Some(telemetry.feed.clone()),
        supervisor,
        mesh: mesh.clone(),
        login_files: login_files.clone(),
    }));
    desk.set_configuration(config.to_toml());
    desk.load_routes().await.map_err(|message| anyhow!(message))?;
    desk.load_applications().await.map_err(|message| anyhow!(message))?;
    if let Some(files) = login_files {
        tokio::spawn(files.keep_renewed());
    }
    if role == Role::Edge {
        let passphrase_file = config.snapshots.passphrase_file.clone();
        let passphrase_file = Some(passphrase_file).filter(|path| !path.as_os_str().is_empty());
        desk.keep_snapshots(config.snapshots.bytes, passphrase_file);
    }
    if let Some(schedule) = config.backup.schedule(&config.data, role)? {
        schedule.keep();
    }
    let _tasks = serve_http(control, http, &desk);
    if let Some(link) = &mut link {
        if has_cloud {
            link.start(&hub, &identity, &desk)?;
        }
        link.keep_renewed();
    }
    if let (Some(site), Some(mesh)) = (&site, &mesh) {
        site.start(&identity, mesh)?;
        site.keep_renewed();
    }
    telemetry.start(&hub, &identity).await?;
    if let (Some(edges), Some(connected)) = (hub.take_edges(), &connected) {
        tokio::spawn(::link::cloud::run(
            Arc::clone(&hub),
            Arc::clone(&identity),
            desk.follower(),
            edges,
            Arc::clone(connected),
            Arc::new(ManifestsForEdges::new(Arc::clone(&desk))),
        ));
    }
    open(&hub, opened).await?;
    let took_ms = start.elapsed().as_millis();
    // Nobody need read it: the edge serves all the same.
    let _ = writeln!(
        std::io::stdout(),
        "{:<7} ready   {}   in {took_ms} ms",
        role.name(),
        addresses.join(" ")
    );
    let mut running = Running {
        role,
        flags,
        config,
        log,
        hub,
        identity,
        audit,
        desk: Arc::clone(&desk),
        certificates,
        link,
        site,
        mesh: mesh.clone(),
    };
    running.rotate_token_keys().await;
    running.until_stopped(&mut signals).await;
    tracing::info!("stopping");
    desk.begin_stop();
    if let Some(mesh) = &mesh {
        mesh.stop().await;
    }
    if let Some(connected) = &connected {
        connected.stop().await;
    }
    if tokio::time::timeout(STOP_TIMEOUT, desk.close()).await.is_err() {
        tracing::error!(timeout_s = STOP_TIMEOUT.as_secs(), "not all could be ended in time");
    }
    // The next start would replace it; whoever looks meanwhile shall not be misled.
    let _ = std::fs::remove_file(running.config.data.join(CONTROL_SOCKET));
    Ok(())
}

impl Running<'_> {
    async fn until_stopped(&mut self, signals: &mut Signals) {
        let mut audits = tokio::time::interval(AUDIT_INTERVAL);
        audits.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut renewals = tokio::time::interval_at((Instant::now() + RENEWAL_INTERVAL).into(), RENEWAL_INTERVAL);
        loop {
            tokio::select! {
                told = signals.next() => match told {
                    Told::Stop => return,
                    Told::Reload => self.reload().await,
                },
                _ = audits.tick() => self.write_audit().await,
                _ = renewals.tick() => self.renew().await,
                () = joined(self.link.as_ref()) => self.follow_cloud(),
                () = new_authority(self.link.as_ref()) => self.believe_cloud(),
                () = site_changed(self.site.as_ref()) => self.follow_site(),
            }
        }
    }

    fn follow_cloud(&mut self) {
        let Some(link) = &mut self.link else { return };
        if let Err(error) = link.follow(&self.hub, &self.identity, &self.desk) {
            tracing::error!("the edge has joined a cloud and does not link: {}", message(&error));
        }
    }

    fn follow_site(&self) {
        let (Some(site), Some(mesh)) = (&self.site, &self.mesh) else {
            return;
        };
        if let Err(error) = site.start(&self.identity, mesh) {
            tracing::error!("the edge is no node of its site: {}", message(&error));
        }
    }

    /// Devices may show certificates of the cloud from now on.
    fn believe_cloud(&self) {
        if let Some(certificates) = &self.certificates {
            certificates.reload(&self.config);
        }
    }

    async fn renew(&self) {
        if let Some(certificates) = &self.certificates {
            certificates.renew(&self.config);
        }
        self.rotate_token_keys().await;
    }

    async fn rotate_token_keys(&self) {
        let days = i64::from(self.config.tokens.key_days);
        if days > 0 {
            self.desk.rotate_token_keys_older_than(days * 86_400).await;
        }
    }

    async fn write_audit(&self) {
        let audit = Arc::clone(&self.audit);
        let written = tokio::task::spawn_blocking(move || audit.flush(unix_now_s())).await;
        if let Ok(Err(error)) = written {
            tracing::error!(%error, "the audit log could not be written");
        }
    }
}

/// Waits until the edge joins a cloud.
async fn joined(link: Option<&EdgeLink>) {
    match link {
        Some(link) => link.member.joined().await,
        None => std::future::pending().await,
    }
}

/// Waits until the edge joins a site, or has another certificate there.
async fn site_changed(site: Option<&EdgeSite>) {
    match site {
        Some(site) => site.changed().await,
        None => std::future::pending().await,
    }
}

async fn new_authority(link: Option<&EdgeLink>) {
    match link {
        Some(link) => link.has_new_authority().await,
        None => std::future::pending().await,
    }
}

/// Bound early: a command that comes during the start waits for its answer.
fn control_door(data: &Path) -> anyhow::Result<Door> {
    let path = data.join(CONTROL_SOCKET);
    Door::unix(&path).with_context(|| path.display().to_string())
}

/// Answers at the control socket and the ports of HTTP.
fn serve_http(control: Door, http: Vec<Door>, desk: &Arc<Desk>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(serve(control, control_router(Arc::clone(desk)), Bounds::CONTROL));
    for door in http {
        tasks.spawn(serve(door, public_router(Arc::clone(desk)), Bounds::PUBLIC));
    }
    tasks
}

fn addresses(opened: &[Opened], http: &[Door]) -> Vec<String> {
    let mqtt = opened.iter().map(|opened| opened.url.clone());
    mqtt.chain(http.iter().filter_map(Door::url)).collect()
}

/// Where containers with a network of their own find what listens here.
fn ipv4_doors(opened: &[Opened], http: &[Door]) -> Vec<SocketAddrV4> {
    let mqtt = opened.iter().filter_map(|opened| match opened.door.local_address() {
        Address::Tcp(address) => Some(address),
        Address::Unix(_) => None,
    });
    let doors = mqtt.chain(http.iter().filter_map(Door::local_address));
    let over_ipv4 = |door: SocketAddr| match door {
        SocketAddr::V4(door) => Some(door),
        SocketAddr::V6(door) if door.ip().is_unspecified() => {
            Some(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, door.port()))
        }
        SocketAddr::V6(_) => None,
    };
    doors.filter_map(over_ipv4).collect()
}

fn about(config: &Config, addresses: &[String], log: &Logging) -> About {
    About {
        edge: EdgeInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            addresses: addresses.to_vec(),
            allow_anonymous: config.allow_anonymous,
        },
        labels: node::labels(config.labels.clone()),
        log: log.tail.clone(),
        log_losses: Some(log.losses.clone()),
    }
}

/// As far as the system lets this process: each connection takes a descriptor.
fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit on file descriptors stays as it was");
    }
}

/// What a signal says.
enum Told {
    Stop,
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn watch() -> anyhow::Result<Self> {
        let watch = |kind| signal(kind).context("watching signals");
        Ok(Self {
            terminate: watch(SignalKind::terminate())?,
            interrupt: watch(SignalKind::interrupt())?,
            hangup: watch(SignalKind::hangup())?,
        })
    }
    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.terminate.recv() => Told::Stop,
            _ = self.interrupt.recv() => Told::Stop,
            _ = self.hangup.recv() => Told::Reload,
        }
    }
}
