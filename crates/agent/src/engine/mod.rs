//! The runtime `docker`: containers of a Docker Engine, or of Podman, by its API. The engine holds their output and their
//! end; that there is a container, and what it sees of the host's files, is in its directory, as of any other.

mod describe;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::auth::DockerCredentials;
use bollard::container::LogOutput;
use bollard::errors::Error as Refused;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, ExecConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, InspectContainerOptions, KillContainerOptionsBuilder,
    LogsOptionsBuilder, RemoveContainerOptionsBuilder, StartContainerOptions, StatsOptionsBuilder,
};
use bollard::{API_DEFAULT_VERSION, Docker};
use futures_util::{StreamExt, TryStreamExt};
use rustix::process::Signal;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::time::{Instant, sleep};

use crate::cgroup::Usage;
use crate::image::name;
use crate::image::registry::Login;
use crate::instance::{Ended, How, InEngine, Instance, Started};
use crate::local::volumes::Volumes;
use crate::local::{end_of, signal};
use crate::runtime::{Done, Error, Launch, PullPolicy, SEPARATOR, State};
use crate::shim::{boot_id, start_ticks, unix_now_ms};
use crate::tools;
use crate::tree::remove_tree;

/// Where an engine is asked, the first that is there; `DOCKER_HOST` says another.
const SOCKETS: [&str; 2] = ["/var/run/docker.sock", "/run/podman/podman.sock"];
const SCHEME: &str = "unix://";
/// Until the engine answers.
const PATIENCE_S: u64 = 60;
/// From the end of a container's process until the engine says so.
const END_PATIENCE: Duration = Duration::from_secs(30);
/// Between two looks at that.
const END_POLL: Duration = Duration::from_millis(5);
/// Between two attempts to reach an engine that is away.
const AWAY_POLL: Duration = Duration::from_millis(500);
/// What is kept of what a command says.
const WORDS_BYTES: usize = 1_000;
/// However many lines are asked for, no more bytes are given.
const LOG_BYTES_MAX: usize = 4 << 20;
/// What a shell adds to the number of a signal.
const OF_SIGNAL: i64 = 128;
/// The largest number of a signal.
const SIGNAL_MAX: i64 = 64;

/// Containers of a Docker Engine.
#[derive(Clone, Debug)]
pub(crate) struct Engine {
    directory: PathBuf,
    volumes: Volumes,
    socket: PathBuf,
    /// Put before the names of containers: they are those of the engine, and so of other agents with it.
    prefix: String,
    connected: Arc<Mutex<Option<Docker>>>,
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
    pub(crate) fn new(directory: &Path, volumes: Volumes, socket: &Path, prefix: &str) -> Self {
        Engine {
            directory: directory.to_owned(),
            volumes,
            socket: socket.to_owned(),
            prefix: format!("selvedge-{prefix}"),
            connected: Arc::default(),
        }
    }

    /// The engine, of the version that it speaks.
    async fn docker(&self) -> Result<Docker, Error> {
        let lock = || self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(docker) = lock().clone() {
            return Ok(docker);
        }
        let socket = self.socket.to_string_lossy();
        let docker = Docker::connect_with_unix(&socket, PATIENCE_S, API_DEFAULT_VERSION);
        let docker = docker.map_err(|error| self.absent(&error))?;
        let docker = docker.negotiate_version().await.map_err(|error| self.absent(&error))?;
        *lock() = Some(docker.clone());
        Ok(docker)
    }

    fn absent(&self, error: &Refused) -> Error {
        Error::NoRuntime(format!(
            "no Docker Engine answers at {}: {error}; start it, or leave runtimeClassName: docker out",
            self.socket.display()
        ))
    }

    /// What the engine says; where it says nothing, it is asked for its version again.
    fn refused(&self, error: &Refused) -> Error {
        match error {
            Refused::DockerResponseServerError { message, .. } => Error::Engine(format!("Docker: {message}")),
            error => {
                *self.connected.lock().unwrap_or_else(PoisonError::into_inner) = None;
                self.absent(error)
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
        let described = {
            let (volumes, socket, known) = (self.volumes.clone(), self.socket.clone(), known.clone());
            let (instance, launch, name) = (instance.clone(), launch, name.to_owned());
            blocking(move || {
                instance.make()?;
                // It is the engine's from now on, whatever comes of it.
                instance.set_in_engine(&InEngine {
                    socket: socket.clone(),
                    name: known.clone(),
                    binds: Vec::new(),
                })?;
                let binds = volumes.binds(&launch, instance.directory())?;
                let body = describe::of(&name, &launch, &binds).map_err(Error::Engine)?;
                instance.set_in_engine(&InEngine {
                    socket,
                    name: known,
                    binds,
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
                // Its program cannot be run: that is kept.
                Err(Error::Engine(_)) if matches!(self.state(name).await?, State::Ended(_)) => Ok(()),
                started => started,
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
        let until = Instant::now() + END_PATIENCE;
        loop {
            let found = self.inspect(name).await?;
            match state(found.and_then(|found| found.state).unwrap_or_default())? {
                Some(state) => return Ok(state),
                None if Instant::now() < until => sleep(END_POLL).await,
                None => return Err(Error::Engine(format!("Docker does not say how {name} ended"))),
            }
        }
    }

    /// It runs on where the engine is away, and is seen to.
    pub(crate) async fn wait(&self, name: &str) -> Result<State, Error> {
        let State::Running(started) = self.state(name).await? else {
            return self.state(name).await;
        };
        end_of(&started).await?;
        let until = Instant::now() + END_PATIENCE;
        loop {
            match self.state(name).await {
                Err(_) if Instant::now() < until => sleep(AWAY_POLL).await,
                state => return state,
            }
        }
    }

    pub(crate) async fn ask_to_end(&self, name: &str) -> Result<(), Error> {
        let Some(found) = self.inspect(name).await? else {
            return Ok(());
        };
        let asks = found.config.and_then(|config| config.stop_signal);
        self.signal(name, asks.as_deref().unwrap_or("SIGTERM")).await
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
        blocking(move || match remove_tree(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        })
        .await
    }

    pub(crate) async fn exec(&self, name: &str, command: Vec<String>) -> Result<Done, Error> {
        let State::Running(_) = self.state(name).await? else {
            return Err(Error::NotRunning(name.to_owned()));
        };
        let docker = self.docker().await?;
        let refused = |error: Refused| self.refused(&error);
        let asked = ExecConfig {
            cmd: Some(command),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let made = docker.create_exec(&self.name(name), asked).await;
        let id = made.map_err(refused)?.id;
        let began = docker
            .start_exec(&id, None::<StartExecOptions>)
            .await
            .map_err(refused)?;
        let StartExecResults::Attached { mut output, .. } = began else {
            return Err(Error::Engine("Docker does not give what a command says".to_owned()));
        };
        let _ending = self.process_of(&docker, &id).await?.map(Ending);
        let mut complaint = Vec::new();
        while let Some(said) = output.next().await {
            if let LogOutput::StdErr { message } = said.map_err(refused)? {
                let room = WORDS_BYTES - complaint.len();
                complaint.extend_from_slice(&message[..message.len().min(room)]);
            }
        }
        let code = docker
            .inspect_exec(&id)
            .await
            .map_err(refused)?
            .exit_code
            .unwrap_or_default();
        let words = String::from_utf8_lossy(&complaint).trim().to_owned();
        Ok(Done {
            is_good: code == 0,
            words: match words.is_empty() {
                true => format!("exit status: {code}"),
                false => format!("exit status: {code}: {words}"),
            },
        })
    }

    /// The process of a command; `None`: it has ended.
    async fn process_of(&self, docker: &Docker, exec: &str) -> Result<Option<Started>, Error> {
        let until = Instant::now() + END_PATIENCE;
        while Instant::now() < until {
            let found = docker.inspect_exec(exec).await.map_err(|error| self.refused(&error))?;
            match found.pid {
                Some(pid) if pid > 0 => return Ok(process_now(pid).ok()),
                _ if found.exit_code.is_some() => return Ok(None),
                _ => sleep(END_POLL).await,
            }
        }
        Err(Error::Engine("Docker does not begin a command".to_owned()))
    }

    pub(crate) async fn usage(&self, name: &str) -> Result<Option<Usage>, Error> {
        let docker = self.docker().await?;
        let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
        let mut counted = docker.stats(&self.name(name), Some(options));
        let Some(stats) = counted.next().await.transpose().map_err(|error| self.refused(&error))? else {
            return Ok(None);
        };
        let found = self.inspect(name).await?.and_then(|found| found.state);
        let cpu = stats.cpu_stats.and_then(|cpu| cpu.cpu_usage);
        Ok(Some(Usage {
            cpu_us: cpu.and_then(|cpu| cpu.total_usage).unwrap_or_default() / 1_000,
            memory_bytes: stats.memory_stats.and_then(|memory| memory.usage).unwrap_or_default(),
            pids: stats.pids_stats.and_then(|pids| pids.current).unwrap_or_default(),
            oom_kills: u64::from(found.and_then(|state| state.oom_killed) == Some(true)),
        }))
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

/// What runs another command in a container, with the standard streams of whoever runs it.
///
/// # Errors
/// The program that asks the engine is not here.
pub(crate) fn command_in(container: &InEngine, command: &[String], is_terminal: bool) -> io::Result<Command> {
    let program = ["docker", "podman"].iter().find_map(|name| tools::find(name));
    let program = program.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "neither the program docker nor podman is here; install docker-cli",
        )
    })?;
    let mut exec = Command::new(program);
    exec.env("DOCKER_HOST", format!("{SCHEME}{}", container.socket.display()));
    exec.args(["exec", "--interactive"]);
    if is_terminal {
        exec.arg("--tty");
    }
    exec.arg(&container.name).args(command);
    Ok(exec)
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .expect("work on a container does not panic")
}

fn is_absent(error: &Refused) -> bool {
    matches!(error, Refused::DockerResponseServerError { status_code: 404, .. })
}

/// Whether a registry could not be asked, which the engine says in words alone.
fn is_unreachable(error: &Error) -> bool {
    let words = error.to_string();
    [
        "dial tcp",
        "no such host",
        "timeout",
        "connection refused",
        "unexpected EOF",
    ]
    .iter()
    .any(|part| words.contains(part))
}

/// Of the user that an image says.
fn check_never_root(user: &str) -> Result<(), String> {
    let name = user.split(':').next().unwrap_or_default();
    match name.parse() {
        Ok(0_u32) => Err("runAsNonRoot is true, and its image says root; write securityContext.runAsUser".to_owned()),
        Ok(_) => Ok(()),
        Err(_) => Err(format!(
            "runAsNonRoot is true, and its image says the user {name:?}, who may be root; write \
             securityContext.runAsUser"
        )),
    }
}

/// Of a container that the engine may have forgotten, or never begun; `None`: it has just ended, and the engine is to say
/// how.
fn state(found: ContainerState) -> io::Result<Option<State>> {
    if found.running == Some(true) {
        return Ok(match process_now(found.pid.unwrap_or_default()) {
            Ok(process) => Some(State::Running(Started {
                at_ms: found.started_at.as_deref().and_then(unix_ms).unwrap_or_default(),
                ..process
            })),
            Err(_) => None,
        });
    }
    let code = found.exit_code.unwrap_or_default();
    let reason = found.error.filter(|reason| !reason.is_empty());
    let how = match (found.status, reason) {
        (Some(ContainerStateStatusEnum::CREATED), Some(reason)) => How::NotStarted { reason },
        (None | Some(ContainerStateStatusEnum::CREATED | ContainerStateStatusEnum::EMPTY), _) => How::Unseen,
        _ if code > OF_SIGNAL && code <= OF_SIGNAL + SIGNAL_MAX => How::Killed {
            signal: i32::try_from(code - OF_SIGNAL).unwrap_or_default(),
        },
        _ => How::Exited {
            code: i32::try_from(code).unwrap_or(i32::MAX),
        },
    };
    let at_ms = found.finished_at.as_deref().and_then(unix_ms);
    Ok(Some(State::Ended(Ended {
        how,
        is_out_of_memory: found.oom_killed == Some(true),
        at_ms: at_ms.unwrap_or_else(unix_now_ms),
        boot_id: match is_of_this_boot(at_ms)? {
            true => boot_id()?,
            false => String::new(),
        },
    })))
}

/// What never was is of this one.
fn is_of_this_boot(at_ms: Option<i64>) -> io::Result<bool> {
    let uptime = fs::read_to_string("/proc/uptime")?;
    let up_s: f64 = uptime
        .split(' ')
        .next()
        .and_then(|up_s| up_s.parse().ok())
        .unwrap_or(f64::MAX);
    Ok(at_ms.is_none_or(|at_ms| (unix_now_ms() - at_ms) as f64 <= up_s * 1_000.0))
}

/// ms since 1970 UTC; `None` of what never was, which the engine writes as the year 1.
fn unix_ms(text: &str) -> Option<i64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(at.unix_timestamp_nanos() / 1_000_000)
        .ok()
        .filter(|at_ms| *at_ms > 0)
}

/// The process that has this number now.
fn process_now(pid: i64) -> io::Result<Started> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    Ok(Started {
        pid,
        pid_start_ticks: start_ticks(pid)?,
        boot_id: boot_id()?,
        at_ms: unix_now_ms(),
        address: None,
    })
}

/// As a log of ours has it: time, stream, whether it is a whole line, text.
fn add_line(kept: &mut Vec<u8>, line: &LogOutput) {
    let (stream, message) = match line {
        LogOutput::StdErr { message } => ("stderr", message),
        LogOutput::StdOut { message } | LogOutput::StdIn { message } | LogOutput::Console { message } => {
            ("stdout", message)
        }
    };
    let at = message.iter().position(|byte| *byte == b' ').unwrap_or(message.len());
    let (time, text) = message.split_at(at);
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let (text, kind) = match text.strip_suffix(b"\n") {
        Some(whole) => (whole, "F"),
        None => (text, "P"),
    };
    kept.extend_from_slice(time);
    kept.extend_from_slice(format!(" {stream} {kind} ").as_bytes());
    kept.extend_from_slice(text);
    kept.push(b'\n');
}

/// Ends a command in a container once nobody waits for it: the engine goes on with it.
struct Ending(Started);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = signal(&self.0, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_may_run_as_root_is_refused_where_root_is_not_wanted() {
        for user in ["", "0", "root", "0:0", "web"] {
            assert!(check_never_root(user).is_err(), "{user}");
        }
        for user in ["1000", "1000:1000"] {
            assert_eq!(check_never_root(user), Ok(()));
        }
    }

    #[test]
    fn an_end_is_named_by_what_the_engine_says() {
        let end = |found: ContainerState| match state(found).unwrap() {
            Some(State::Ended(ended)) => ended,
            state => panic!("{state:?}"),
        };
        let exited = |code: i64| ContainerState {
            status: Some(ContainerStateStatusEnum::EXITED),
            exit_code: Some(code),
            finished_at: Some("2020-01-01T00:00:00Z".to_owned()),
            ..ContainerState::default()
        };
        assert_eq!(end(exited(3)).how, How::Exited { code: 3 });
        assert_eq!(end(exited(137)).how, How::Killed { signal: 9 });
        assert_ne!(end(exited(0)).boot_id, boot_id().unwrap(), "the host was off since");
        assert_eq!(end(ContainerState::default()).how, How::Unseen);
    }

    #[test]
    fn output_is_kept_as_a_log_of_ours_has_it() {
        let mut kept = Vec::new();
        let message = |text: &str| text.to_owned().into();
        add_line(
            &mut kept,
            &LogOutput::StdOut {
                message: message("T1 good morning\n"),
            },
        );
        add_line(
            &mut kept,
            &LogOutput::StdErr {
                message: message("T2 half"),
            },
        );
        assert_eq!(
            String::from_utf8(kept).unwrap(),
            "T1 stdout F good morning\nT2 stderr P half\n"
        );
    }
}
