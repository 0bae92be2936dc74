//! A network namespace without a name: it ends with the last process, thread or descriptor that holds it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::NetworkError;
use super::error::trying;

/// One, held by a descriptor.
pub(super) struct Namespace {
    handle: File,
}

impl Namespace {
    /// A new one, with nothing in it but a loopback device that is down.
    pub(super) fn create() -> io::Result<Namespace> {
        on_own_thread(|| {
            // SAFETY: a new network namespace changes no descriptor table and no memory of this thread.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            // Not /proc/self, which is the main thread.
            File::open("/proc/thread-self/ns/net").map(|handle| Namespace { handle })
        })
    }

    /// Does `work` on a new thread inside and waits for it. Sockets opened there stay there.
    pub(super) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_own_thread(|| join(self.handle.as_fd()).map(|()| work()))
    }

    /// Where other processes find it while this one lives.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd()))
    }

    /// Gives `ip` these commands inside, one a line.
    pub(super) fn ip(&self, commands: &str) -> Result<(), NetworkError> {
        self.batch("ip", commands)
    }

    /// Gives `tc` these commands inside, one a line.
    pub(super) fn tc(&self, commands: &str) -> Result<(), NetworkError> {
        self.batch("tc", commands)
    }

    fn batch(&self, program: &str, commands: &str) -> Result<(), NetworkError> {
        let output = self.enter(|| batch(program, commands)).and_then(|output| output);
        let output = output.map_err(|error| failed(program, commands, &error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(failed(
            program,
            commands,
            String::from_utf8_lossy(&output.stderr).trim(),
        ))
    }

    /// Sets a kernel parameter inside, such as `ipv4/ip_forward`.
    pub(super) fn set_parameter(&self, name: &str, value: &str) -> Result<(), NetworkError> {
        let path = format!("/proc/sys/net/{name}");
        let written = self.enter(|| std::fs::write(path, value)).and_then(|written| written);
        written.map_err(trying("setting a kernel parameter of a namespace"))
    }
}

/// Moves the calling thread, and what it starts from now on, into the namespace at `path`.
///
/// # Errors
/// It is gone, or entering it is not allowed.
pub(crate) fn join_at(path: &Path) -> io::Result<()> {
    join(File::open(path)?.as_fd())
}

fn join(namespace: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}

/// A thread that changed its namespace must not do anything else afterwards.
fn on_own_thread<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn batch(program: &str, commands: &str) -> io::Result<Output> {
    let mut command = Command::new(program);
    command
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    // One that stops at a bad line reads no further: its status says so.
    let _ = input.write_all(commands.as_bytes());
    drop(input);
    child.wait_with_output()
}

fn failed(program: &str, commands: &str, said: &str) -> NetworkError {
    NetworkError::Command {
        command: format!("{program}: {}", commands.trim().replace('\n', "; ")),
        said: said.to_owned(),
    }
}
