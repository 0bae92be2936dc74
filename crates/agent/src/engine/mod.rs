//! The runtime `docker`: containers of a Docker Engine, or of Podman, by its API. The engine holds their output and
//! their end; that there is a container, and what it sees of the host's files, is in its directory, as of any other.

mod answers;
mod describe;
mod devices;
mod exec;
mod follow;
mod images;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::errors::Error as Refused;
use bollard::models::{ContainerInspectResponse, SystemInfoCgroupDriverEnum};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, InspectContainerOptions, InspectContainerOptionsBuilder,
    InspectNetworkOptions, KillContainerOptionsBuilder, LogsOptionsBuilder, RemoveContainerOptionsBuilder,
    StartContainerOptions, StatsOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::{StreamExt, TryStreamExt};
use tokio::time::{Instant, sleep};

use self::answers::{add_line, check_never_root, has_memory_limit, is_absent, is_unreachable, state};
pub(crate) use self::exec::command_in;
pub use self::follow::Followed;
pub use self::images::EngineImages;
use crate::cgroup::{Hierarchy, Usage};
use crate::image::name;
use crate::image::registry::Login;
use crate::instance::{Ended, How, InEngine, Instance, Started};
use crate::local::volumes::Volumes;
use crate::local::{Driver, Local, bundle, end_of};
use crate::network::{Attachment, Bridge, Network, attach};
use crate::runtime::{Error, Launch, Pod, PullPolicy, SEPARATOR, State};
use crate::supervise::Key;
use crate::tree::remove_tree;

/// Where an engine is asked, the first that is there; `DOCKER_HOST` says another.
const SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];
const SCHEME: &str = "unix://";
/// Until the engine answers.
const PATIENCE_S: u64 = 60;
/// What the kernel ends a process by that it has no memory for.
const KILLED: i32 = 9;
/// From the end of a container's process until the engine says so.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at that.
const END_POLL: Duration = Duration::from_millis(5);
/// Between two attempts to reach an engine that is away.
const AWAY_POLL: Duration = Duration::from_millis(500);
/// Nothing runs behind one that was not given its tenant's rules before.
const NO_BRIDGE: &str = "the engine made its network without a bridge of the name that it was asked for; write hostNetwork: true, \
    or runtimeClassName: oci";
/// By which Podman calls itself.
const PODMAN: &str = "Podman Engine";
/// However many lines are asked for, no more bytes are given.
const LOG_BYTES_MAX: usize = 4 << 20;

/// Containers of a Docker Engine.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    directory: PathBuf,
    volumes: Volumes,
    network: Network,
    /// One network is made or removed at a time.
    of_networks: Arc<tokio::sync::Mutex<()>>,
    /// Whose network is being made.
    making: Arc<Mutex<Option<Pod>>>,
    socket: PathBuf,
    /// Put before the names of containers: they are those of the engine, and so of other agents with it.
    prefix: String,
    connected: Arc<Mutex<Option<Docker>>>,
    /// What [`Engine::about`] has heard, until the engine refuses something: it may be another by then, which refuses
    /// groups that it does not take.
    known: Arc<Mutex<Option<About>>>,
    /// Knows what tenants may take, and the groups that keep them to it.
    local: Local,
}

/// How an engine is.
#[derive(Clone, Copy, Debug)]
struct About {
    driver: Driver,
    /// It runs a container in a namespace that is given to it, and makes bridges only as something starts behind them.
    is_podman: bool,
}

/// What a container has of the network.
enum Own {
    /// Its engine makes the link.
    Bridge(Bridge),
    /// The agent has made all of it.
    Space(Attachment, File),
}

impl Own {
    fn attachment(&self) -> &Attachment {
        match self {
            Own::Bridge(bridge) => &bridge.attachment,
            Own::Space(attachment, _) => attachment,
        }
    }
}

/// Where the engine of this machine is asked.
#[must_use]
pub fn socket() -> PathBuf {
    let said = std::env::var("DOCKER_HOST").ok();
    let said = said.as_deref().and_then(|said| said.strip_prefix(SCHEME));
    let there = || SOCKETS.iter().find(|socket| Path::new(socket).exists());
    PathBuf::from(said.unwrap_or_else(|| there().unwrap_or(&SOCKETS[0])))
}

impl Engine {
    pub(crate) fn new(
        local: Local,
        directory: &Path,
        volumes: Volumes,
        network: Network,
        socket: &Path,
        prefix: &str,
    ) -> Self {
        Engine {
            directory: directory.to_owned(),
            volumes,
            network,
            of_networks: Arc::default(),
            making: Arc::default(),
            socket: socket.to_owned(),
            prefix: format!("selvedge-{prefix}"),
            connected: Arc::default(),
            known: Arc::default(),
            local,
        }
    }

    /// The engine, of the version that it speaks.
    async fn docker(&self) -> Result<Docker, Error> {
        let lock = || self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(docker) = lock().clone() {
            return Ok(docker);
        }
        let docker = connect(&self.socket).await?;
        *lock() = Some(docker.clone());
        Ok(docker)
    }

    /// What the engine says; where it says nothing, it is asked for its version again.
    fn refused(&self, error: &Refused) -> Error {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = None;
        match error {
            Refused::DockerResponseServerError { message, .. } => Error::Engine(format!("Docker: {message}")),
            error => {
                *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = None;
                absent(&self.socket, error)
            }
        }
    }

    fn instance(&self, name: &str) -> Instance {
        Instance::at(&self.directory.join(name))
    }

    /// What the engine calls a container of this agent.
    fn name(&self, name: &str) -> String {
        format!("{}{}", self.prefix, name.replace(SEPARATOR, "."))
    }

    pub(crate) async fn prepare(&self, launch: &Launch) -> Result<(), Error> {
        let docker = self.docker().await?;
        if launch.has_own_network && !self.about(&docker).await?.is_podman {
            self.network_of(&docker, &launch.pod).await?;
        }
        let image = &launch.image;
        let here = docker.inspect_image(image).await;
        let is_here = match &here {
            Ok(_) => true,
            Err(error) if is_absent(error) => false,
            Err(error) => return Err(self.refused(error)),
        };
        match (launch.pull.policy, is_here) {
            (PullPolicy::IfAbsent | PullPolicy::Never, true) => Ok(()),
            (PullPolicy::Never, false) => Err(Error::Engine(format!(
                "Docker has no image {image:?}, and imagePullPolicy is Never"
            ))),
            (PullPolicy::Always, _) | (PullPolicy::IfAbsent, false) => {
                let pulled = self.pull(&docker, image, launch.pull.login.as_ref()).await;
                match pulled {
                    Err(error) if is_here && is_unreachable(&error) => {
                        tracing::warn!(%image, %error, "the image that is here will do");
                        Ok(())
                    }
                    pulled => pulled,
                }
            }
        }
    }

    async fn pull(&self, docker: &Docker, image: &str, login: Option<&Login>) -> Result<(), Error> {
        let reference = name::parse(image).map_err(Error::Engine)?;
        let options = CreateImageOptionsBuilder::new().from_image(&reference.whole()).build();
        let credentials = login.map(|login| DockerCredentials {
            username: Some(login.user.clone()),
            password: Some(login.password.clone()),
            serveraddress: Some(reference.registry().to_owned()),
            ..DockerCredentials::default()
        });
        let mut steps = docker.create_image(Some(options), None, credentials);
        while let Some(step) = steps.try_next().await.map_err(|error| self.not_pulled(image, &error))? {
            if let Some(why) = step.error_detail.and_then(|detail| detail.message) {
                return Err(Error::Engine(format!("Docker cannot have the image {image:?}: {why}")));
            }
        }
        Ok(())
    }

    fn not_pulled(&self, image: &str, error: &Refused) -> Error {
        match error {
            Refused::DockerStreamError { error: why } | Refused::DockerResponseServerError { message: why, .. } => {
                Error::Engine(format!("Docker cannot have the image {image:?}: {why}"))
            }
            error => self.refused(error),
        }
    }

    pub(crate) async fn start(&self, name: &str, launch: Launch) -> Result<(), Error> {
        let docker = self.docker().await?;
        if launch.rights.is_never_root && launch.uid.is_none() {
            let image = docker.inspect_image(&launch.image).await;
            let image = image.map_err(|error| self.refused(&error))?;
            let user = image.config.and_then(|config| config.user).unwrap_or_default();
            check_never_root(&user).map_err(Error::Engine)?;
        }
        let (instance, known) = (self.instance(name), self.name(name));
        if instance.directory().exists() {
            return Err(Error::Exists(name.to_owned()));
        }
        let About { driver, is_podman } = self.about(&docker).await?;
        let own = match (launch.has_own_network, is_podman) {
            (false, _) => None,
            (true, false) => Some(Own::Bridge(self.network_of(&docker, &launch.pod).await?)),
            (true, true) => Some(self.space_of(&launch.pod).await?),
        };
        let network = own.as_ref().map(|own| own.attachment().clone());
        let (mode, address) = match &own {
            None => ("host".to_owned(), None),
            Some(Own::Bridge(bridge)) => (self.network_name(&launch.pod), Some(bridge.attachment.address)),
            Some(Own::Space(_, space)) => (format!("ns:/proc/{}/fd/{}", process::id(), space.as_raw_fd()), None),
        };
        let (carries, carrying) = (self.local.clone(), launch.pod.tenant.clone());
        let described = {
            let (volumes, socket, known) = (self.volumes.clone(), self.socket.clone(), known.clone());
            let (instance, name, local) = (instance.clone(), name.to_owned(), self.local.clone());
            blocking(move || {
                instance.make()?;
                // It is the engine's from now on, whatever comes of it.
                instance.set_in_engine(&InEngine {
                    socket: socket.clone(),
                    name: known.clone(),
                    binds: Vec::new(),
                    network: network.clone(),
                })?;
                let mut binds = volumes.binds(&launch, instance.directory())?;
                if let Some(network) = &network {
                    binds.extend(bundle::names(&launch, network, instance.directory())?);
                }
                let tenant = &launch.pod.tenant;
                // Once it is said that something of the tenant is there, its group is not removed.
                let group = local.groups.for_engine(tenant, driver)?;
                let launch = Launch {
                    limits: local.groups.within_tenant(tenant, &launch.limits),
                    ..launch
                };
                let devices = devices::of(&launch.devices, instance.directory())?;
                let group = group.as_deref();
                let body = describe::of(&name, &launch, &binds, &devices, &mode, address, group);
                let mut body = body.map_err(Error::Engine)?;
                if is_podman {
                    // It takes what says that there is none for a command.
                    body.healthcheck = None;
                }
                instance.set_in_engine(&InEngine {
                    socket,
                    name: known,
                    binds,
                    network,
                })?;
                Ok(body)
            })
        };
        let started = async {
            let body = described.await?;
            let options = CreateContainerOptionsBuilder::new().name(&known).build();
            let created = docker.create_container(Some(options), body).await;
            created.map_err(|error| self.refused(&error))?;
            let started = docker.start_container(&known, None::<StartContainerOptions>).await;
            match started.map_err(|error| self.refused(&error)) {
                // Its program cannot be run: that is kept, where the engine keeps why.
                Err(Error::Engine(_)) if matches!(self.state(name).await?, State::Ended(ended) if ended.how != How::Unseen) =>
                {
                    return Ok(());
                }
                started => started?,
            }
            // What it is promised the engine wrote for it alone.
            blocking(move || {
                carries.groups.carry_promises(&carrying);
                Ok(())
            })
            .await?;
            match own {
                Some(Own::Bridge(bridge)) => blocking(move || bridge.turn_back().map_err(Error::NoNetwork)).await,
                Some(Own::Space(..)) | None => Ok(()),
            }
        };
        let started = started.await;
        if started.is_err()
            && let Err(error) = self.remove(name).await
        {
            tracing::warn!(container = name, %error, "what there was of it stays");
        }
        started
    }

    async fn about(&self, docker: &Docker) -> Result<About, Error> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // To say it, an engine counts all that it has: that takes 7 to 14 ms of a start.
        if let Some(about) = *known() {
            return Ok(about);
        }
        let version = docker.version().await.map_err(|error| self.refused(&error))?;
        let mut components = version.components.iter().flatten();
        let info = docker.info().await.map_err(|error| self.refused(&error))?;
        let driver = match info.cgroup_driver {
            Some(SystemInfoCgroupDriverEnum::CGROUPFS) => Driver::Engine,
            Some(SystemInfoCgroupDriverEnum::SYSTEMD) => Driver::Systemd,
            _ => Driver::Nobody,
        };
        let about = About {
            driver,
            is_podman: components.any(|component| component.name == PODMAN),
        };
        *known() = Some(about);
        Ok(about)
    }

    /// A network namespace for a pod, in which nothing runs yet. It is there for as long as it is open, or something
    /// runs in it.
    async fn space_of(&self, pod: &Pod) -> Result<Own, Error> {
        let (network, tenant) = (self.network.clone(), pod.tenant.clone());
        let made = move || {
            let attachment = network.attach(&tenant)?;
            let space = attach::space(&attachment)?;
            Ok(Own::Space(attachment, space))
        };
        blocking(move || made().map_err(Error::NoNetwork)).await
    }

    /// What the engine calls the network of a pod.
    fn network_name(&self, pod: &Pod) -> String {
        let name = self.name(&pod.prefix());
        name.trim_end_matches('.').to_owned()
    }

    /// That of a pod, which is there in the engine and in the kernel when this returns, and is its tenant's. Anything
    /// of it may have been removed, or made again by an engine that began anew, since it was used. What was begun comes
    /// to its end before another begins, whoever waits for it or does no longer: an engine goes on with what it was
    /// asked for.
    async fn network_of(&self, docker: &Docker, pod: &Pod) -> Result<Bridge, Error> {
        let alone = Arc::clone(&self.of_networks).lock_owned().await;
        *self.making() = Some(pod.clone());
        let (engine, docker, pod) = (self.clone(), docker.clone(), pod.clone());
        let making = tokio::spawn(async move {
            let made = engine.make_network(&docker, &pod).await;
            *engine.making() = None;
            drop(alone);
            made
        });
        making.await.expect("making a network does not panic")
    }

    fn making(&self) -> MutexGuard<'_, Option<Pod>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn make_network(&self, docker: &Docker, pod: &Pod) -> Result<Bridge, Error> {
        let (network, own) = (self.network.clone(), pod.clone());
        let bridge = blocking(move || network.bridge(&own).map_err(Error::NoNetwork)).await?;
        let known = self.network_name(pod);
        let is_there = match docker.inspect_network(&known, None::<InspectNetworkOptions>).await {
            Ok(found) if describe::is_of(&found, &bridge) && bridge.is_there() => true,
            Ok(_) => {
                self.remove_network(docker, &known).await?;
                false
            }
            Err(error) if is_absent(&error) => false,
            Err(error) => return Err(self.refused(&error)),
        };
        if !is_there {
            let made = docker.create_network(describe::network(&known, &bridge)).await;
            made.map_err(|error| self.refused(&error))?;
            if !bridge.is_there() {
                return Err(Error::Engine(NO_BRIDGE.to_owned()));
            }
        }
        blocking(move || {
            bridge.let_in().map_err(Error::NoNetwork)?;
            Ok(bridge)
        })
        .await
    }

    async fn remove_network(&self, docker: &Docker, known: &str) -> Result<(), Error> {
        match docker.remove_network(known).await {
            Err(error) if !is_absent(&error) => Err(self.refused(&error)),
            _ => Ok(()),
        }
    }

    /// Removes the networks of an application's replicas but for those that are `kept`, and the first so many that are
    /// `wanted`.
    pub(crate) async fn clear(
        &self,
        tenant: &str,
        application: &str,
        kept: &BTreeSet<u32>,
        wanted: u32,
    ) -> Result<(), Error> {
        let is_of = |pod: &Pod| pod.tenant == tenant && pod.application == application;
        let is_making = self.making().as_ref().is_some_and(is_of);
        if is_making {
            // Nobody waits for it any more, and it is not known of yet.
            drop(self.of_networks.lock().await);
        }
        let (network, of) = (self.network.clone(), (tenant.to_owned(), application.to_owned()));
        let pods = blocking(move || network.bridged(&of.0, &of.1).map_err(Error::NoNetwork)).await?;
        for pod in pods {
            if pod.replica < wanted || kept.contains(&pod.replica) {
                continue;
            }
            let _alone = self.of_networks.lock().await;
            self.remove_network(&self.docker().await?, &self.network_name(&pod))
                .await?;
            let network = self.network.clone();
            blocking(move || Ok(network.forget_bridge(&pod)?)).await?;
        }
        Ok(())
    }

    /// What the engine says of a container; `None`: it knows none of that name.
    async fn inspect(&self, name: &str) -> Result<Option<ContainerInspectResponse>, Error> {
        let docker = self.docker().await?;
        match docker
            .inspect_container(&self.name(name), None::<InspectContainerOptions>)
            .await
        {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(self.refused(&error)),
        }
    }

    pub(crate) async fn state(&self, name: &str) -> Result<State, Error> {
        let found = self.inspect(name).await?;
        self.state_of(name, found).await
    }

    /// That of one that was `found` so.
    async fn state_of(&self, name: &str, mut found: Option<ContainerInspectResponse>) -> Result<State, Error> {
        let until = Instant::now() + END_PATIENCE;
        loop {
            let has_own_limit = found.as_ref().is_some_and(has_memory_limit);
            match state(found.and_then(|found| found.state).unwrap_or_default())? {
                Some(State::Ended(ended)) if ended.is_out_of_memory && !has_own_limit => {
                    let is_by_tenant = self.is_tenant_short(name);
                    return Ok(State::Ended(Ended { is_by_tenant, ..ended }));
                }
                Some(State::Running(started)) => {
                    let instance = self.instance(name);
                    let address = blocking(move || {
                        let network = instance.in_engine()?.and_then(|container| container.network);
                        Ok(network.map(|network| network.address))
                    });
                    return Ok(State::Running(Started {
                        address: address.await?,
                        ..started
                    }));
                }
                Some(state) => return Ok(state),
                None if Instant::now() < until => sleep(END_POLL).await,
                None => return Err(Error::Engine(format!("Docker does not say how {name} ended"))),
            }
            found = self.inspect(name).await?;
        }
    }

    fn is_tenant_short(&self, name: &str) -> bool {
        Key::of_container(name).is_some_and(|key| self.local.groups.is_tenant_short(&key.tenant))
    }

    /// It runs on where the engine is away, and is seen to.
    pub(crate) async fn wait(&self, name: &str) -> Result<State, Error> {
        let found = self.inspect(name).await?;
        let has_own_limit = found.as_ref().is_some_and(has_memory_limit);
        let id = found.as_ref().and_then(|found| found.id.clone()).unwrap_or_default();
        let started = match self.state_of(name, found).await? {
            State::Running(started) => started,
            state => return Ok(state),
        };
        let oom_kills = Hierarchy::of_host().and_then(|host| host.oom_kills_of(started.pid.into(), &id));
        end_of(&started).await?;
        // Before its group goes: not every engine says it, as Podman does not with control groups of version 1.
        let is_out_of_memory = oom_kills.is_some_and(|kills| kills.count() > 0);
        let until = Instant::now() + END_PATIENCE;
        loop {
            match self.state(name).await {
                Err(_) if Instant::now() < until => sleep(AWAY_POLL).await,
                Ok(State::Ended(ended)) if is_out_of_memory && ended.how == (How::Killed { signal: KILLED }) => {
                    return Ok(State::Ended(Ended {
                        is_out_of_memory,
                        is_by_tenant: !has_own_limit && self.is_tenant_short(name),
                        ..ended
                    }));
                }
                state => return state,
            }
        }
    }

    pub(crate) async fn ask_to_end(&self, name: &str) -> Result<(), Error> {
        let Some(found) = self.inspect(name).await? else {
            return Ok(());
        };
        let asks = found.config.as_ref().and_then(|config| config.stop_signal.clone());
        self.pause_found(name, found, false).await?;
        self.signal(name, asks.as_deref().unwrap_or("SIGTERM")).await
    }

    pub(crate) async fn pause(&self, name: &str, is_paused: bool) -> Result<bool, Error> {
        match self.inspect(name).await? {
            Some(found) => self.pause_found(name, found, is_paused).await,
            None => Ok(false),
        }
    }

    /// By the freezer of its control group, as an engine takes ten times as long; by the engine where that is not
    /// reached, or somebody had the engine do it.
    async fn pause_found(&self, name: &str, found: ContainerInspectResponse, is_paused: bool) -> Result<bool, Error> {
        let state = found.state.unwrap_or_default();
        if state.running != Some(true) {
            return Ok(false);
        }
        let is_by_engine = state.paused == Some(true);
        let (pid, id) = (state.pid.unwrap_or_default(), found.id.unwrap_or_default());
        let has_freezer = !is_by_engine
            && blocking(move || {
                let freezer = Hierarchy::of_host().and_then(|host| host.freezer_of(pid, &id));
                freezer.as_ref().map_or(Ok(()), |freezer| freezer.freeze(is_paused))?;
                Ok(freezer.is_some())
            })
            .await?;
        if has_freezer || is_by_engine == is_paused {
            return Ok(true);
        }
        let (docker, known) = (self.docker().await?, self.name(name));
        let done = match is_paused {
            true => docker.pause_container(&known).await,
            false => docker.unpause_container(&known).await,
        };
        done.map_err(|error| self.refused(&error))?;
        Ok(true)
    }

    pub(crate) async fn kill(&self, name: &str) -> Result<(), Error> {
        self.signal(name, "SIGKILL").await?;
        self.wait(name).await.map(drop)
    }

    /// Nothing where it does not run.
    async fn signal(&self, name: &str, signal: &str) -> Result<(), Error> {
        let options = KillContainerOptionsBuilder::new().signal(signal).build();
        let docker = self.docker().await?;
        match docker.kill_container(&self.name(name), Some(options)).await {
            Err(Refused::DockerResponseServerError {
                status_code: 404 | 409, ..
            })
            | Ok(()) => Ok(()),
            // Podman has no number of its own for that.
            Err(_) if !matches!(self.state(name).await?, State::Running(_)) => Ok(()),
            Err(error) => Err(self.refused(&error)),
        }
    }

    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        let options = RemoveContainerOptionsBuilder::new().v(true).force(true).build();
        let docker = self.docker().await?;
        match docker.remove_container(&self.name(name), Some(options)).await {
            Err(error) if !is_absent(&error) => return Err(self.refused(&error)),
            _ => {}
        }
        let directory = self.instance(name).directory().to_owned();
        let (local, tenant) = (self.local.clone(), Key::of_container(name).map(|key| key.tenant));
        blocking(move || {
            match remove_tree(&directory) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            tenant.map_or(Ok(()), |tenant| local.leave_group_of(&tenant))
        })
        .await
    }

    pub(crate) async fn usage(&self, name: &str) -> Result<Option<Usage>, Error> {
        let docker = self.docker().await?;
        let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
        let mut counted = docker.stats(&self.name(name), Some(options));
        let Some(stats) = counted.next().await.transpose().map_err(|error| self.refused(&error))? else {
            return Ok(None);
        };
        let found = self.inspect(name).await?.and_then(|found| found.state);
        let entries = stats.blkio_stats.and_then(|blkio| blkio.io_service_bytes_recursive);
        let bytes = |what: &str| {
            let is_meant = |op: &Option<String>| op.as_ref().is_some_and(|op| op.eq_ignore_ascii_case(what));
            let entries = entries.iter().flatten().filter(|entry| is_meant(&entry.op));
            entries.filter_map(|entry| entry.value).sum()
        };
        let cpu = stats.cpu_stats.and_then(|cpu| cpu.cpu_usage);
        Ok(Some(Usage {
            cpu_us: cpu.and_then(|cpu| cpu.total_usage).unwrap_or_default() / 1_000,
            memory_bytes: stats.memory_stats.and_then(|memory| memory.usage).unwrap_or_default(),
            pids: stats.pids_stats.and_then(|pids| pids.current).unwrap_or_default(),
            read_bytes: bytes("read"),
            written_bytes: bytes("write"),
            oom_kills: u64::from(found.and_then(|state| state.oom_killed) == Some(true)),
        }))
    }

    /// As the engine counts it.
    pub(crate) async fn written(&self, name: &str) -> Result<u64, Error> {
        let options = InspectContainerOptionsBuilder::new().size(true).build();
        let docker = self.docker().await?;
        match docker.inspect_container(&self.name(name), Some(options)).await {
            Ok(found) => Ok(found.size_rw.unwrap_or_default().unsigned_abs()),
            Err(error) if is_absent(&error) => Ok(0),
            Err(error) => Err(self.refused(&error)),
        }
    }

    pub(crate) async fn log_tail(&self, name: &str, lines: usize) -> Result<Option<Vec<u8>>, Error> {
        let docker = self.docker().await?;
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).timestamps(true);
        let options = options.tail(&lines.to_string()).build();
        let mut said = docker.logs(&self.name(name), Some(options));
        let mut kept = Vec::new();
        loop {
            match said.try_next().await {
                Ok(Some(line)) => add_line(&mut kept, &line),
                Ok(None) => break,
                Err(error) if is_absent(&error) => return Ok(None),
                Err(error) => return Err(self.refused(&error)),
            }
            if kept.len() > 2 * LOG_BYTES_MAX {
                kept.drain(..kept.len() - LOG_BYTES_MAX);
            }
        }
        let over = kept.len().saturating_sub(LOG_BYTES_MAX);
        // The first line that is whole.
        let from = match over {
            0 => 0,
            over => kept[over..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map_or(kept.len(), |at| over + at + 1),
        };
        Ok(Some(kept.split_off(from)))
    }
}

async fn connect(socket: &Path) -> Result<Docker, Error> {
    connect_for(socket, PATIENCE_S).await
}

/// An engine that has so long to begin each of its answers.
async fn connect_for(socket: &Path, patience_s: u64) -> Result<Docker, Error> {
    let docker = Docker::connect_with_unix(&socket.to_string_lossy(), patience_s, API_DEFAULT_VERSION);
    let docker = docker.map_err(|error| absent(socket, &error))?;
    docker.negotiate_version().await.map_err(|error| absent(socket, &error))
}

fn absent(socket: &Path, error: &Refused) -> Error {
    Error::NoRuntime(format!(
        "no Docker Engine answers at {}: {error}; start it, or leave runtimeClassName: docker out",
        socket.display()
    ))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .expect("work on a container does not panic")
}
