//! A role of this program, as a process of its own that ends with this one.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use api::{CONTROL_SOCKET, Client};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep};

/// Lines of its log that are shown when it does not start.
const LINES_SHOWN: usize = 10;

/// How often a child that should run is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How often a child is looked at that should end, 10 ms apart; then it is killed.
const STOP_TRIES: u32 = 1_100;

pub(super) struct Child {
    role: &'static str,
    process: std::process::Child,
    log: PathBuf,
}

impl Child {
    /// Starts a role; what it says goes to a file in `data`.
    pub(super) fn start(data: &Path, role: &'static str, words: &[String]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(data).with_context(|| data.display().to_string())?;
        let log = data.join(format!("{role}.log"));
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command
            .args(words)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        // SAFETY: between fork and exec only system calls are made, none of which allocates.
        unsafe {
            command.pre_exec(|| {
                // Even where this process is killed, nothing keeps running; Ctrl-C of a terminal is this one's to act
                // on.
                set_parent_process_death_signal(Some(Signal::TERM))?;
                rustix::process::setsid()?;
                Ok(())
            });
        }
        let process = command.spawn().with_context(|| format!("starting the {role}"))?;
        Ok(Self { role, process, log })
    }

    /// Waits until it answers commands.
    pub(super) async fn ready(&mut self, data: &Path, patience: Duration) -> anyhow::Result<Client> {
        let socket = data.join(CONTROL_SOCKET);
        let until = Instant::now() + patience;
        while UnixStream::connect(&socket).await.is_err() {
            if let Some(status) = self.process.try_wait()? {
                bail!("the {} ended with {status}:\n{}", self.role, self.last_lines());
            }
            if Instant::now() > until {
                bail!(
                    "the {} is not ready after {} s:\n{}",
                    self.role,
                    patience.as_secs(),
                    self.last_lines()
                );
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(Client::open(data, false).await?)
    }

    /// Waits until it has ended, which it should not.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        loop {
            if let Some(status) = self.process.try_wait()? {
                bail!("the {} ended with {status}:\n{}", self.role, self.last_lines());
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    fn last_lines(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n")
    }
}

impl Drop for Child {
    /// Ends it in good order: what it holds is durable either way.
    fn drop(&mut self) {
        let Some(pid) = Pid::from_raw(self.process.id() as i32) else {
            return;
        };
        let _ = kill_process(pid, Signal::TERM);
        for _ in 0..STOP_TRIES {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the end of a process gives no event without a thread"
            )]
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
