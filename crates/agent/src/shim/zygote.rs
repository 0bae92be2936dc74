//! The process that shims are forked of.
//!
//! What a large program takes of memory for itself before it does anything (its relocated tables) is the same in all of
//! its processes, and is shared by those that are forked of one, where each that is executed has its own. A fork is
//! also sooner ready. An agent has threads, of which a fork would have the locks and nobody to let them go; so the
//! zygote is a process of its own, which has none, and is asked on a socket. It ends with the agent; its shims stay.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio, exit};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{ptr, slice};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{run, stat};
use crate::sockets::{self, SOCKETS_MAX};

/// What its program is called with, before the directory of all containers.
pub const SHIMS: &str = "shims";
/// What a shim is listed as.
const SHIM: &str = "shim";
/// Of the name of a container's directory.
const NAME_BYTES: usize = 256;
/// Of its whole path.
const PATH_BYTES: usize = 4 << 10;
/// Output, complaints, and what it listens at.
const DESCRIPTORS_MAX: usize = 2 + SOCKETS_MAX;
const ROOM: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));
/// A fork takes a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// The zygote of an agent, which is started with the first shim.
#[derive(Clone, Debug)]
pub(crate) struct Zygote {
    program: PathBuf,
    containers: PathBuf,
    asked: Arc<Mutex<Option<OwnedFd>>>,
}

impl Zygote {
    /// `program` calls [`serve`] where it is called with [`SHIMS`] and `containers`.
    pub(crate) fn new(program: &Path, containers: &Path) -> Self {
        Zygote {
            program: program.to_owned(),
            containers: containers.to_owned(),
            asked: Arc::default(),
        }
    }

    /// A new shim for the container of `directory`, which has `output` and `complaints` as its standard output and
    /// error, and listens at `sockets`; `None`: it has ended already. It waits for the zygote.
    ///
    /// # Errors
    /// The zygote cannot be started, or it cannot fork.
    pub(crate) fn fork(
        &self,
        directory: &Path,
        output: &impl AsFd,
        complaints: &impl AsFd,
        sockets: &[Arc<OwnedFd>],
    ) -> io::Result<Option<OwnedFd>> {
        let mut descriptors = vec![output.as_fd(), complaints.as_fd()];
        descriptors.extend(sockets.iter().map(|socket| socket.as_fd()));
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let known = asked.take();
        let ask = |zygote: &OwnedFd| {
            send(zygote, directory.as_os_str().as_bytes(), &descriptors)?;
            let (errno, mut shim) = receive(zygote)?;
            match errno[..].try_into().map(i32::from_ne_bytes) {
                Ok(0) => Ok(shim.pop()),
                Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
                Err(_) => Err(io::Error::other("the process that starts shims has ended")),
            }
        };
        // Somebody may have ended the one that is known.
        let of_known = known.and_then(|zygote| Some((ask(&zygote).ok()?, zygote)));
        let (shim, zygote) = match of_known {
            Some(forked) => forked,
            None => {
                let zygote = self.start()?;
                (ask(&zygote)?, zygote)
            }
        };
        *asked = Some(zygote);
        Ok(shim)
    }

    /// A new one, and how it is asked.
    fn start(&self) -> io::Result<OwnedFd> {
        let (asking, asked) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&asking, Timeout::Recv, Some(PATIENCE))?;
        let started = tokio::process::Command::new(&self.program)
            // As it is listed: the program may be named by a link.
            .arg0("selvedge")
            .arg(SHIMS)
            .arg(&self.containers)
            // Room for the name of one.
            .arg(" ".repeat(NAME_BYTES))
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(asked))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        started.map(|_| asking)
    }
}

/// Forks a shim each time it is asked to on its standard input, until nobody can ask any more.
///
/// # Errors
/// Of its standard input.
pub fn serve(containers: &Path) -> io::Result<()> {
    list_as(SHIMS, containers)?;
    let asked = io::stdin();
    // Nobody asks it how a shim has ended.
    on_end_of_children(libc::SIG_IGN);
    loop {
        let (directory, descriptors) = receive(&asked)?;
        if directory.is_empty() {
            return Ok(());
        }
        // SAFETY: no other thread is there, and so no lock that is held and no half-done work of another.
        let forked = unsafe { libc::fork() };
        let (errno, shim) = match forked {
            0 => {
                on_end_of_children(libc::SIG_DFL);
                let directory = PathBuf::from(std::ffi::OsString::from_vec(directory));
                exit(i32::from(shim(&directory, descriptors) != ExitCode::SUCCESS))
            }
            -1 => (io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN), None),
            pid => {
                let shim = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
                (0, shim)
            }
        };
        let shim: Vec<_> = shim.iter().map(AsFd::as_fd).collect();
        send(&asked, &errno.to_ne_bytes(), &shim)?;
    }
}

fn on_end_of_children(action: libc::sighandler_t) {
    // SAFETY: neither of the two actions is a function.
    unsafe { libc::signal(libc::SIGCHLD, action) };
}

/// What a forked process does, in place of one that is executed.
fn shim(directory: &Path, descriptors: Vec<OwnedFd>) -> ExitCode {
    let done = take_over(directory, descriptors).and_then(|()| run(directory));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}

fn take_over(directory: &Path, descriptors: Vec<OwnedFd>) -> io::Result<()> {
    let mut descriptors = descriptors.into_iter();
    let (Some(output), Some(complaints)) = (descriptors.next(), descriptors.next()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    rustix::stdio::dup2_stdout(output)?;
    rustix::stdio::dup2_stderr(complaints)?;
    sockets::place(descriptors.collect())?;
    rustix::process::setpgid(None, None)?;
    list_as(SHIM, directory)
}

/// Has this process be listed as `selvedge KIND PLACE` (`proc(5)`: `cmdline`), as far as the words that it was called
/// with have room for that.
fn list_as(kind: &str, place: &Path) -> io::Result<()> {
    // Fields 48 and 49.
    let stat = stat("self")?;
    let mut fields = stat.split_whitespace().skip(45).map(str::parse::<usize>);
    let (Some(Ok(begin)), Some(Ok(end))) = (fields.next(), fields.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    // SAFETY: the kernel says that its words are there. Nobody else reads or writes them, as there is one thread.
    let listed = unsafe { slice::from_raw_parts_mut(ptr::with_exposed_provenance_mut::<u8>(begin), end - begin) };
    let words = [b"selvedge", kind.as_bytes(), place.as_os_str().as_bytes()].join(&0);
    let length = words.len().min(listed.len() - 1);
    listed.fill(0);
    listed[..length].copy_from_slice(&words[..length]);
    Ok(())
}

fn send(to: &impl AsFd, words: &[u8], descriptors: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut with = SendAncillaryBuffer::new(&mut room);
    if !descriptors.is_empty() && !with.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(to, &[IoSlice::new(words)], &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Nothing: nobody is there any more.
fn receive(from: &impl AsFd) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut words = vec![0; PATH_BYTES];
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut with = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::io::retry_on_intr(|| recvmsg(from, &mut [IoSliceMut::new(&mut words)], &mut with, flags))?;
    words.truncate(received.bytes);
    let descriptors = with.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((words, descriptors.flatten().collect()))
}
