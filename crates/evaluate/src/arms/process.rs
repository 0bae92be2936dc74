//! A server as a child process: pinned, watched, its cost read from `/proc`, gone when we are gone.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::launch::Helper;
use crate::proc;

/// How long a server may take to accept its first connection.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// How often it is tried.
const READY_STEP: Duration = Duration::from_millis(1);
/// How long it may take to stop when asked to.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Lines of its log that are worth repeating in an error.
const LAST_LINES: usize = 5;

/// A running server that we started.
pub(crate) struct ServerProcess {
    name: String,
    child: Child,
    pidfd: OwnedFd,
    log: PathBuf,
    started: Instant,
}

impl ServerProcess {
    /// Starts `program`, pinned to `cpu`, its words going to a log in `directory`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(
        helper: &Helper,
        cpu: Option<usize>,
        program: &Path,
        arguments: &[String],
        directory: &Path,
    ) -> Result<ServerProcess, String> {
        let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log = directory.join(format!("{name}.log"));
        let failed = |what: &str, error: std::io::Error| format!("{}: {what}: {error}", program.display());
        let output = File::create(&log).map_err(|error| failed("cannot write its log", error))?;
        let errors = output
            .try_clone()
            .map_err(|error| failed("cannot write its log", error))?;
        let mut command = helper.launching(cpu, program, arguments);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let child = command.spawn().map_err(|error| failed("cannot be started", error))?;
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let pidfd = pidfd.map_err(|error| failed("cannot be watched", error.into()))?;
        Ok(ServerProcess {
            name,
            child,
            pidfd,
            log,
            started: Instant::now(),
        })
    }

    /// Waits until the server accepts connections; the milliseconds since its start.
    ///
    /// # Errors
    /// It ended, or was not ready in 20 s; with its last words.
    pub(crate) fn wait_until_ready(&mut self, address: SocketAddr) -> Result<f64, String> {
        while self.started.elapsed() < READY_LIMIT {
            if TcpStream::connect_timeout(&address, READY_LIMIT).is_ok() {
                return Ok(self.started.elapsed().as_secs_f64() * 1e3);
            }
            if self.ended_within(READY_STEP) {
                return Err(self.obituary());
            }
        }
        Err(format!(
            "{} accepts no connection at {address} after {READY_LIMIT:?}{}",
            self.name,
            self.last_words()
        ))
    }

    /// Waits at most `limit` for its end; whether it came.
    pub(crate) fn ended_within(&self, limit: Duration) -> bool {
        let timeout = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut ended = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut ended, Some(&timeout)).is_ok_and(|count| count > 0)
    }

    /// Why the server is no more, if it is not.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.ended_within(Duration::ZERO).then(|| self.obituary())
    }

    fn obituary(&mut self) -> String {
        let status = self
            .child
            .wait()
            .map_or_else(|error| error.to_string(), |status| status.to_string());
        format!("{} ended ({status}){}", self.name, self.last_words())
    }

    fn last_words(&self) -> String {
        let text = std::fs::read(&self.log)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        if last.is_empty() {
            String::new()
        } else {
            format!("; its last words: {}", last.join(" | "))
        }
    }

    /// Sends a signal; proofs stop and kill servers with it.
    pub(crate) fn signal(&self, signal: Signal) {
        // A process that has ended needs no signal.
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }

    /// Time since it was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Asks it to stop and waits.
    ///
    /// # Errors
    /// It still runs after `limit`.
    pub(crate) fn stop(&self, limit: Duration) -> Result<(), String> {
        self.end_by(Signal::TERM, limit)
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Errors
    /// It still runs after `limit`.
    pub(crate) fn kill(&self, limit: Duration) -> Result<(), String> {
        self.end_by(Signal::KILL, limit)
    }

    fn end_by(&self, signal: Signal, limit: Duration) -> Result<(), String> {
        self.signal(signal);
        if self.ended_within(limit) {
            return Ok(());
        }
        Err(format!("{} still runs {limit:?} after it was told to end", self.name))
    }

    /// Proportional share of memory in bytes: pages that others map too are counted in part.
    pub(crate) fn pss_bytes(&self) -> Option<u64> {
        proc::pss_bytes(self.child.id())
    }

    /// CPU seconds of all its threads so far.
    pub(crate) fn cpu_s(&self) -> Option<f64> {
        proc::cpu_s(self.child.id())
    }

    /// Resident memory in bytes.
    pub(crate) fn rss_bytes(&self) -> Option<u64> {
        proc::rss_bytes(self.child.id())
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // A stopped process takes its end only when it goes on.
        self.signal(Signal::CONT);
        self.signal(Signal::TERM);
        if !self.ended_within(STOP_LIMIT) {
            self.signal(Signal::KILL);
        }
        // Reaps it; that it is not ours to wait for cannot be.
        let _ = self.child.wait();
    }
}
