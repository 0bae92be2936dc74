//! Commands in containers of an engine.

use std::io;
use std::process::Command;

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::errors::Error as Refused;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use futures_util::StreamExt;
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::answers::process_now;
use super::{END_PATIENCE, END_POLL, Engine, SCHEME};
use crate::instance::{InEngine, Started};
use crate::local::signal;
use crate::runtime::{Done, Error, State};
use crate::tools;

/// What is kept of what a command says.
const WORDS_BYTES: usize = 1_000;

impl Engine {
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

/// Ends a command in a container once nobody waits for it: the engine goes on with it.
struct Ending(Started);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = signal(&self.0, Signal::KILL);
    }
}
