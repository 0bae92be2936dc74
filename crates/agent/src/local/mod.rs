//! The runtimes without a daemon, `process` and `oci`: each container has a shim beside it and a control group around
//! it.

pub(crate) mod bundle;
mod groups;
mod program;
pub(crate) mod runner;
mod seccomp;
mod slices;
pub mod volumes;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use self::bundle::UPPER;
pub(crate) use self::groups::Driver;
use self::groups::{Groups, NO_GROUPS};
use self::volumes::Volumes;
use crate::cgroup::{Limits, Usage};
use crate::disk::taken_below;
use crate::engine::{self, Engine};
use crate::image::registry::{self, Registries};
use crate::image::retention::{Need, Pruned, Terms};
use crate::image::store::Images;
use crate::instance::{Bundle, Ended, How, Instance, Spec, Started, What};
use crate::moves::{Moves, Ready};
use crate::network::{self, Attachment, Network};
use crate::runtime::{Answer, Done, Error, Kind, Launch, Pod, PullPolicy, Runtime, SEPARATOR, State};
use crate::shim::zygote::Zygote;
use crate::shim::{self, READY};
use crate::sockets::Sockets;
use crate::supervise::Key;
use crate::tail;
use crate::tools;
use crate::tree::remove_tree;

/// Programs are looked for there, where neither manifest nor image says where.
const PATH: (&str, &str) = ("PATH", tools::DIRECTORIES);

/// Containers that are started at once: more would be started no sooner, and take memory meanwhile.
const STARTS_MAX: usize = 4;
/// Until a shim has started its container.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// From the end of a container until its shim has kept it.
const SHIM_PATIENCE: Duration = Duration::from_secs(15);
/// Between two looks at that.
const SHIM_POLL: Duration = Duration::from_millis(5);
/// Until who is connected to it by a socket that it has taken over has had his answer.
const QUIET_PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at that.
const QUIET_POLL: Duration = Duration::from_millis(5);

/// Containers of this host.
#[derive(Clone, Debug)]
pub struct Local {
    directory: PathBuf,
    volumes: Volumes,
    network: Network,
    /// Of pods that something is started of.
    pods: Pods,
    registries: Arc<Registries>,
    sockets: Sockets,
    zygote: Zygote,
    pub(crate) groups: Groups,
    moves: Moves,
    /// How many more may be started at once.
    starting: Arc<Semaphore>,
    /// One image is unpacked at a time.
    unpacking: Arc<Semaphore>,
}

impl Local {
    /// Keeps the files of containers in `directory`, their volumes in `volumes`, and makes them of the images that come
    /// by `registries`, in the `network` where they have not the host's. `shims` is the program that calls
    /// [`serve`](shim::zygote::serve) where it is called with [`SHIMS`](shim::zygote::SHIMS) and `directory`. Those that
    /// take over sockets have them of `sockets`. No other agent of the host has the same `group_prefix`.
    #[must_use]
    pub fn new(
        directory: &Path,
        volumes: &Path,
        network: Network,
        registries: Arc<Registries>,
        sockets: Sockets,
        shims: &Path,
        group_prefix: &str,
    ) -> Self {
        Local {
            directory: directory.to_owned(),
            volumes: Volumes::at(volumes),
            network,
            pods: Pods::default(),
            registries,
            sockets,
            zygote: Zygote::new(shims, directory),
            groups: Groups::new(group_prefix),
            moves: Moves::default(),
            starting: Arc::new(Semaphore::new(STARTS_MAX)),
            unpacking: Arc::new(Semaphore::new(1)),
        }
    }

    /// Writes down what is to run, with all that it needs. From then on the kernel is ready for it.
    fn describe(&self, name: &str, launch: &Launch) -> Result<(Instance, Arc<Ready>), Error> {
        let instance = self.instance(name);
        if instance.directory().exists() {
            return Err(Error::Exists(name.to_owned()));
        }
        // Layers that are found are there until it is written down that they are used.
        let _using = self.registries.images().using()?;
        // What cannot be had is known before anything is made.
        let mut what = self.what(name, launch)?;
        let cgroup = self.groups.make(name, &launch.limits).inspect_err(|_| {
            // Of some trees it may be there.
            let _ = self.groups.of(name).map(|group| group.remove());
        })?;
        // Not before: while the kernel gets ready nobody makes a group.
        let ready = self.moves.be_ready();
        let described = (|| {
            instance.make()?;
            if let What::Bundle(bundle) = &mut what {
                runner::make_state_dir(instance.directory(), &format!("{}{name}", self.groups.prefix()))?;
                bundle.binds = self.volumes.binds(launch, instance.directory())?;
                if let Some(network) = &bundle.network {
                    let names = bundle::names(launch, network, instance.directory())?;
                    bundle.binds.extend(names);
                }
            }
            Ok(instance.set_spec(&Spec {
                what,
                cgroup,
                log: launch.log,
                sockets: launch.sockets.clone(),
            })?)
        })();
        match described {
            Ok(()) => Ok((instance, ready)),
            Err(error) => {
                self.remove(name)?;
                Err(error)
            }
        }
    }

    fn sockets(&self, launch: &Launch) -> Result<Vec<Arc<OwnedFd>>, Error> {
        let sockets = launch.sockets.iter().map(|socket| {
            let no_socket = |error| Error::NoSocket(socket.name.clone(), error);
            self.sockets.get(&socket.at).map_err(no_socket)
        });
        sockets.collect()
    }

    fn what(&self, name: &str, launch: &Launch) -> Result<What, Error> {
        Ok(match launch.kind {
            Kind::Process => What::Program(program::of(launch)),
            Kind::Oci => {
                let runner = runner::find()?;
                let group = self
                    .groups
                    .of(name)
                    .ok_or_else(|| Error::NoRuntime(NO_GROUPS.to_owned()))?;
                let images = self.registries.images();
                let image = images.find(&launch.image)?;
                let layers = images.layers(&image)?;
                let network = self.network(launch)?;
                let bundle = bundle::of(launch, &image, layers, runner, &group, network).map_err(Error::NoRuntime)?;
                What::Bundle(Box::new(bundle))
            }
            Kind::Docker => return Err(Error::NoRuntime("a Docker Engine runs it, and no shim".to_owned())),
        })
    }

    /// That of its pod, where something of it runs. Nothing else of it is started meanwhile.
    fn network(&self, launch: &Launch) -> Result<Option<Attachment>, Error> {
        if !launch.has_own_network {
            return Ok(None);
        }
        let prefix = launch.pod.prefix();
        for name in names_in(&self.directory)?
            .iter()
            .filter(|name| name.starts_with(&prefix))
        {
            let instance = self.instance(name);
            let Some(started) = readable(instance.started())? else {
                continue;
            };
            if let Spec {
                what: What::Bundle(bundle),
                ..
            } = instance.spec()?
                && let Some(network) = bundle.network
                && open(&started)?.is_some()
            {
                return Ok(Some(Attachment {
                    shared_with: Some(started.pid),
                    ..network
                }));
            }
        }
        let attached = self.network.attach(&launch.pod.tenant);
        attached.map(Some).map_err(Error::NoNetwork)
    }

    async fn start_shim(&self, instance: &Instance, sockets: Vec<Arc<OwnedFd>>) -> Result<(), Error> {
        let ((said, output), (complained, complaints)) = (io::pipe()?, io::pipe()?);
        let (zygote, directory) = (self.zygote.clone(), instance.directory().to_owned());
        let forking = spawn_blocking(move || zygote.fork(&directory, &output, &complaints, &sockets));
        let shim = forking.await.expect("it does not panic")?;
        let mut said = Receiver::from_owned_fd(said.into())?;
        let mut words = vec![0; READY.len()];
        let heard = timeout(START_PATIENCE, said.read_exact(&mut words)).await;
        if matches!(heard, Ok(Ok(_))) && words == READY {
            // It ends with its container; nobody waits for it here.
            return Ok(());
        }
        // It may have ended by itself.
        if let Some(shim) = &shim {
            let _ = pidfd_send_signal(shim, Signal::KILL);
        }
        let mut complained = Receiver::from_owned_fd(complained.into())?;
        let mut words = String::new();
        let _ = timeout(SHIM_PATIENCE, complained.read_to_string(&mut words)).await;
        Err(Error::Shim(match (words.trim(), heard) {
            ("", Ok(_)) => "it ended before it had started its container".to_owned(),
            ("", Err(_)) => format!("it has not started its container in {} s", START_PATIENCE.as_secs()),
            (words, _) => words.to_owned(),
        }))
    }

    /// That of a tenant of which nothing is there any more; else one of its containers has gone.
    pub(crate) fn leave_group_of(&self, tenant: &str) -> Result<(), Error> {
        let prefix = format!("{tenant}{SEPARATOR}");
        let is_in_use = || Ok(names_in(&self.directory)?.iter().any(|name| name.starts_with(&prefix)));
        Ok(self.groups.leave(tenant, is_in_use)?)
    }

    /// `None`: its shim is starting it. Of one whose shim is gone nobody knows how it will end: it is ended, and that
    /// kept.
    fn look(&self, name: &str) -> Result<Option<State>, Error> {
        let instance = self.instance(name);
        if !instance.directory().exists() {
            return Ok(Some(State::Absent));
        }
        if let Some(ended) = readable(instance.ended())? {
            return Ok(Some(State::Ended(ended)));
        }
        let Some(_hold) = instance.hold()? else {
            return Ok(instance.started()?.map(State::Running));
        };
        // It may have ended between the two looks.
        if let Some(ended) = readable(instance.ended())? {
            return Ok(Some(State::Ended(ended)));
        }
        self.end_without_shim(&instance, name)?;
        let ended = Ended {
            how: How::Unseen,
            is_out_of_memory: false,
            is_by_tenant: false,
            at_ms: shim::unix_now_ms(),
            boot_id: shim::boot_id()?,
        };
        if let Err(error) = instance.set_ended(&ended) {
            tracing::warn!(container = name, %error, "its end cannot be written down");
        }
        Ok(Some(State::Ended(ended)))
    }

    /// Of a container that is not being started.
    fn settled(&self, name: &str) -> Result<State, Error> {
        let starting = || Error::Shim(format!("{name} is being started"));
        self.look(name)?.ok_or_else(starting)
    }

    /// Its group is the one of its name, whatever its files say.
    fn end_without_shim(&self, instance: &Instance, name: &str) -> Result<(), Error> {
        for group in self.groups.all_of(name) {
            group.kill()?;
        }
        match readable(instance.started())? {
            Some(started) => Ok(signal(&started, Signal::KILL)?),
            None => Ok(()),
        }
    }

    /// Whether nobody is connected to it by a socket that it has taken over. Then its time stands still until it is
    /// asked to end, as nothing else keeps it from taking one who waits there for whoever comes after it.
    fn is_quiet(&self, name: &str) -> Result<bool, Error> {
        let State::Running(_) = self.settled(name)? else {
            return Ok(true);
        };
        let spec = self.instance(name).spec()?;
        let Some(group) = spec.cgroup.filter(|_| !spec.sockets.is_empty()) else {
            return Ok(true);
        };
        let at = spec.sockets.into_iter().map(|socket| socket.at).collect();
        match group.freeze(true) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(false),
            frozen => frozen?,
        }
        let is_quiet = !self.sockets.are_used_by(&at, &group.processes()?)?;
        if !is_quiet {
            group.freeze(false)?;
        }
        Ok(is_quiet)
    }

    fn ask_to_end(&self, name: &str) -> Result<(), Error> {
        let State::Running(started) = self.settled(name)? else {
            return Ok(());
        };
        let spec = self.instance(name).spec()?;
        let asks = match spec.what {
            What::Program(_) => Signal::TERM,
            What::Bundle(bundle) => Signal::from_named_raw(bundle.stop_signal).unwrap_or(Signal::TERM),
        };
        signal(&started, asks)?;
        // It hears of it once its time goes on.
        Ok(spec.cgroup.map_or(Ok(()), |group| group.freeze(false))?)
    }

    fn pause(&self, name: &str, is_paused: bool) -> Result<bool, Error> {
        let State::Running(_) = self.settled(name)? else {
            return Ok(false);
        };
        match self.instance(name).spec()?.cgroup {
            Some(group) => group.freeze(is_paused)?,
            None if is_paused => return Err(Error::NoPause("it has no control group, which takes root")),
            None => {}
        }
        Ok(true)
    }

    fn end_processes(&self, name: &str) -> Result<(), Error> {
        let State::Running(started) = self.settled(name)? else {
            return Ok(());
        };
        match self.instance(name).spec()?.cgroup {
            Some(cgroup) => Ok(cgroup.kill()?),
            None => Ok(signal(&started, Signal::KILL)?),
        }
    }

    fn usage(&self, name: &str) -> Result<Option<Usage>, Error> {
        let cgroup = self.instance(name).spec()?.cgroup;
        Ok(cgroup.map(|cgroup| cgroup.usage()).transpose()?)
    }

    /// Nothing of it has to be written, as the disk may be full, nor to be understood.
    fn remove(&self, name: &str) -> Result<(), Error> {
        let instance = self.instance(name);
        if instance.directory().exists() {
            // A shim that is there has its lock, for which there was room.
            match instance.hold() {
                Ok(Some(_hold)) => self.end_without_shim(&instance, name)?,
                Ok(None) => return Err(Error::Exists(name.to_owned())),
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                Err(error) => return Err(error.into()),
            }
        }
        for group in self.groups.all_of(name) {
            group.remove()?;
        }
        runner::remove_state_dir(instance.directory())?;
        match remove_tree(instance.directory()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        match Key::of_container(name) {
            Some(Key { tenant, .. }) => self.leave_group_of(&tenant),
            None => Ok(()),
        }
    }

    fn log_tail(&self, name: &str, lines: usize) -> Result<Option<Vec<u8>>, Error> {
        let instance = self.instance(name);
        match instance.directory().exists() {
            true => Ok(Some(tail::read(&instance.log(), lines)?)),
            false => Ok(None),
        }
    }

    /// A Docker Engine beside it, with the same containers and volumes.
    pub(crate) fn engine(&self, socket: &Path) -> Engine {
        Engine::new(
            self.clone(),
            &self.directory,
            self.volumes.clone(),
            self.network.clone(),
            socket,
            self.groups.prefix(),
        )
    }

    /// The files of a container.
    #[must_use]
    pub fn instance(&self, name: &str) -> Instance {
        Instance::at(&self.directory.join(name))
    }
}

/// Lets one container of a pod be started at a time: the first makes what those after it share.
#[derive(Clone, Debug, Default)]
struct Pods(Arc<Mutex<HashMap<Pod, Arc<Turn>>>>);

type Turn = tokio::sync::Mutex<()>;

impl Pods {
    async fn alone(&self, pod: &Pod) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody has or waits for are not kept.
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(pod.clone()).or_default())
        };
        turn.lock_owned().await
    }
}

/// What containers of images need and is not here, and how to have it.
#[must_use]
pub fn missing() -> Vec<String> {
    let runner = runner::find().err().map(|error| error.to_string());
    runner.into_iter().chain(network::missing()).collect()
}

/// What runs another command in the container `name` of the directory `containers`: with the standard streams of
/// whoever runs it, as a terminal where they are one.
///
/// # Errors
/// The container is not there, or its files cannot be read.
pub fn command_in(containers: &Path, name: &str, command: Vec<String>, is_terminal: bool) -> io::Result<Command> {
    let instance = Instance::at(&containers.join(name));
    if let Some(container) = instance.in_engine()? {
        return engine::command_in(&container, &command, is_terminal);
    }
    let spec = instance.spec()?;
    match spec.what {
        What::Program(program) => program::command_in(program, command, spec.cgroup.as_ref()),
        What::Bundle(bundle) => Ok(runner::command_in(&instance, &bundle.runner, &command, is_terminal)),
    }
}

/// What the container `name` of the directory `containers` writes its output to; older output in the same name with
/// `.1`, `.2`, ….
#[must_use]
pub fn log(containers: &Path, name: &str) -> PathBuf {
    Instance::at(&containers.join(name)).log()
}

/// What cannot be understood, as after a power cut, says nothing.
fn readable<T>(file: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match file {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        read => read,
    }
}

/// Removes of the images what none of them and no container in the directory `containers` needs any more; see
/// [`Images::collect`].
///
/// # Errors
/// Of a file.
pub fn collect_images(images: &Images, containers: &Path) -> Result<Option<u64>, Error> {
    Ok(images.collect(|| layers_in_use(containers))?)
}

/// Removes images of which `needs` has none, and what none needs any more; see [`Images::prune`].
///
/// # Errors
/// It is not known who needs what, or of a file.
pub fn prune_images(
    images: &Images,
    containers: &Path,
    terms: &Terms,
    needs: impl Fn() -> io::Result<Vec<Need>>,
) -> Result<Option<Pruned>, Error> {
    Ok(images.prune(terms, needs, || layers_in_use(containers))?)
}

fn layers_in_use(containers: &Path) -> io::Result<HashSet<PathBuf>> {
    let bundles = bundles(containers)?.into_iter();
    Ok(bundles.flat_map(|bundle| bundle.layers).collect())
}

/// Of all containers of images that are there.
fn bundles(containers: &Path) -> io::Result<Vec<Bundle>> {
    let mut bundles = Vec::new();
    for name in names_in(containers)? {
        bundles.extend(bundle(&Instance::at(&containers.join(name)))?);
    }
    Ok(bundles)
}

/// Of a container of an image; none where it is of none, or is being removed.
fn bundle(instance: &Instance) -> io::Result<Option<Bundle>> {
    match instance.spec() {
        Ok(Spec {
            what: What::Bundle(bundle),
            ..
        }) => Ok(Some(*bundle)),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// None where the directory is not there.
fn names_in(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

impl Runtime for Local {
    fn prepare<'a>(&'a self, launch: &'a Launch) -> Answer<'a, ()> {
        let Launch { kind, image, pull, .. } = launch;
        Box::pin(async move {
            let fetched = match (kind, pull.policy) {
                (Kind::Process | Kind::Docker, _) | (Kind::Oci, PullPolicy::Never) => Ok(()),
                (Kind::Oci, PullPolicy::IfAbsent) => self.registries.fetch_absent(image, pull.login.as_ref()).await,
                (Kind::Oci, PullPolicy::Always) => match self.registries.fetch(image, pull.login.as_ref()).await {
                    Err(error @ registry::Error::Unreachable { .. })
                        if self.registries.images().find(image).is_ok() =>
                    {
                        tracing::warn!(%image, %error, "the image that is here will do");
                        Ok(())
                    }
                    fetched => fetched,
                },
            };
            fetched.map_err(|source| Error::NoImage {
                image: image.clone(),
                source,
            })?;
            if *kind == Kind::Oci {
                let _turn = self.unpacking.acquire().await.expect("it is never closed");
                self.blocking(image, |local, image| {
                    let images = local.registries.images();
                    let _using = images.using()?;
                    images.layers(&images.find(image)?)?;
                    Ok(())
                })
                .await?;
            }
            Ok(())
        })
    }

    fn start(&self, name: &str, launch: Launch) -> Answer<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            let _turn = self.starting.acquire().await.expect("it is never closed");
            let _alone = self.pods.alone(&launch.pod).await;
            let described = self.blocking(&name, move |local, name| {
                let sockets = local.sockets(&launch)?;
                Ok((local.describe(name, &launch)?, sockets))
            });
            let ((described, _ready), sockets) = described.await?;
            let started = self.start_shim(&described, sockets).await;
            if started.is_err() {
                self.blocking(&name, Local::remove).await?;
            }
            started
        })
    }

    fn state(&self, name: &str) -> Answer<'_, State> {
        let name = name.to_owned();
        Box::pin(async move {
            let until = Instant::now() + START_PATIENCE;
            loop {
                match self.blocking(&name, Local::look).await? {
                    Some(state) => return Ok(state),
                    // An agent before this one had it started.
                    None if Instant::now() < until => sleep(SHIM_POLL).await,
                    None => return Err(Error::Shim(format!("{name} does not start"))),
                }
            }
        })
    }

    fn wait(&self, name: &str) -> Answer<'_, State> {
        let name = name.to_owned();
        Box::pin(async move {
            loop {
                let State::Running(started) = Runtime::state(self, &name).await? else {
                    break;
                };
                end_of(&started).await?;
                // Its shim has yet to write down how it ended.
                sleep(SHIM_POLL).await;
            }
            Runtime::state(self, &name).await
        })
    }

    fn ask_to_end(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            Runtime::state(self, &name).await?;
            let until = Instant::now() + QUIET_PATIENCE;
            while !self.blocking(&name, Local::is_quiet).await? && Instant::now() < until {
                sleep(QUIET_POLL).await;
            }
            self.blocking(&name, Local::ask_to_end).await
        })
    }

    fn pause(&self, name: &str, is_paused: bool) -> Answer<'_, bool> {
        self.blocking(name, move |local, name| local.pause(name, is_paused))
    }

    fn kill(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            Runtime::state(self, &name).await?;
            self.blocking(&name, Local::end_processes).await?;
            match timeout(SHIM_PATIENCE, self.wait(&name)).await {
                Ok(ended) => ended.map(drop),
                Err(_) => Err(Error::Shim(format!("{name} does not end"))),
            }
        })
    }

    fn remove(&self, name: &str) -> Answer<'_, ()> {
        let name = name.to_owned();
        Box::pin(async move {
            Runtime::state(self, &name).await?;
            self.blocking(&name, Local::remove).await
        })
    }

    fn exec(&self, name: &str, command: Vec<String>) -> Answer<'_, Done> {
        let name = name.to_owned();
        Box::pin(async move {
            let State::Running(_) = Runtime::state(self, &name).await? else {
                return Err(Error::NotRunning(name));
            };
            let (instance, spec) = self
                .blocking(&name, |local, name| {
                    let instance = local.instance(name);
                    let spec = instance.spec()?;
                    Ok((instance, spec))
                })
                .await?;
            match spec.what {
                What::Program(program) => program::exec(program, command, spec.cgroup.as_ref()).await,
                What::Bundle(bundle) => runner::exec(&instance, &bundle.runner, command, spec.cgroup.as_ref()).await,
            }
        })
    }

    fn clear(&self, tenant: &str, application: &str, kept: BTreeSet<u32>, _wanted: u32) -> Answer<'_, ()> {
        let application = application.to_owned();
        self.blocking(tenant, move |local, tenant| {
            Ok(local.volumes.clear(tenant, &application, &kept)?)
        })
    }

    fn limit(&self, tenant: &str, limits: Limits) -> Answer<'_, ()> {
        self.blocking(tenant, move |local, tenant| Ok(local.groups.limit(tenant, limits)?))
    }

    fn usage_of(&self, tenant: &str) -> Answer<'_, Option<Usage>> {
        self.blocking(tenant, |local, tenant| Ok(local.groups.usage_of(tenant)?))
    }

    fn usage(&self, name: &str) -> Answer<'_, Option<Usage>> {
        self.blocking(name, Local::usage)
    }

    fn written(&self, name: &str, bytes_max: u64) -> Answer<'_, u64> {
        self.blocking(name, move |local, name| {
            let written = local.instance(name).directory().join(UPPER);
            Ok(taken_below(&written, bytes_max)?)
        })
    }

    fn scratch(&self, pod: &Pod, volume: &str, bytes_max: u64) -> Answer<'_, u64> {
        let pod = pod.clone();
        self.blocking(volume, move |local, volume| {
            Ok(taken_below(&local.volumes.scratch(&pod).join(volume), bytes_max)?)
        })
    }

    fn kept(&self, tenant: &str, bytes_max: u64) -> Answer<'_, u64> {
        self.blocking(tenant, move |local, tenant| {
            Ok(taken_below(&local.volumes.kept(tenant), bytes_max)?)
        })
    }

    fn log_tail(&self, name: &str, lines: usize) -> Answer<'_, Option<Vec<u8>>> {
        self.blocking(name, move |local, name| local.log_tail(name, lines))
    }

    fn names(&self) -> Answer<'_, Vec<String>> {
        self.blocking("", |local, _| Ok(names_in(&local.directory)?))
    }
}

impl Local {
    /// What waits for files and processes does so on a thread for that.
    fn blocking<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Local, &str) -> Result<T, Error> + Send + 'static,
    ) -> Answer<'_, T> {
        let (local, name) = (self.clone(), name.to_owned());
        Box::pin(async move {
            let working = spawn_blocking(move || work(&local, &name));
            working.await.expect("work on a container does not panic")
        })
    }
}

/// Waits for the end of the process that was started.
pub(crate) async fn end_of(started: &Started) -> io::Result<()> {
    if let Some(process) = open(started)? {
        // SAFETY: it owns its descriptor, which is the same for as long as it lives.
        let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) };
        drop(process.map_err(io::Error::from)?.readable().await?);
    }
    Ok(())
}

/// Sends a signal to the process that was started, if it is there.
pub(crate) fn signal(started: &Started, signal: Signal) -> io::Result<()> {
    let Some(process) = open(started)? else { return Ok(()) };
    match pidfd_send_signal(&process, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The process that was started, and no other that has its number now.
fn open(started: &Started) -> io::Result<Option<OwnedFd>> {
    let Some(pid) = Pid::from_raw(started.pid) else {
        return Ok(None);
    };
    let process = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        // So a kernel before Linux 6.15 says it of one whose end its parent took notice of in this moment.
        Err(rustix::io::Errno::INVAL) if shim::start_ticks(started.pid).is_err() => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    // Looked at once it is held: from then on the number is not given to another.
    let is_same = shim::boot_id()? == started.boot_id
        && shim::start_ticks(started.pid).is_ok_and(|ticks| ticks == started.pid_start_ticks);
    Ok(is_same.then_some(process))
}
