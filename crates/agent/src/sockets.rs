//! Listening sockets that the edge has for applications, and gives to those that take them over (`sd_listen_fds(3)`).
//!
//! What waits in such a socket waits for whoever has it next. Shims have those of their containers too: an edge that
//! starts anew gets them back from there.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::net::{SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};

use crate::instance::Instance;

/// The descriptor of the first socket that a program is given (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;
/// Connections that wait in the kernel for a socket.
const BACKLOG: i32 = 4_096;
/// Bytes of the name of a Unix socket, with its end (`unix(7)`).
const UNIX_BYTES_MAX: usize = 108;

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// At a port of the edge.
    Tcp(SocketAddrV4),
    /// In the edge's directory of sockets.
    Unix {
        /// Whose it is.
        tenant: String,
        /// Its name there.
        name: String,
    },
}

/// A socket that a container takes over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Where it is.
    pub at: At,
    /// What the container knows it as, in `LISTEN_FDNAMES`.
    pub name: String,
}

/// The listening sockets of an edge.
#[derive(Clone, Debug)]
pub struct Sockets {
    directory: PathBuf,
    containers: PathBuf,
    open: Arc<Mutex<HashMap<At, Arc<OwnedFd>>>>,
}

impl Sockets {
    /// Unix sockets are in the directory `directory`; containers that may have sockets of an edge before this one in
    /// `containers`.
    #[must_use]
    pub fn new(directory: &Path, containers: &Path) -> Self {
        Sockets {
            directory: directory.to_owned(),
            containers: containers.to_owned(),
            open: Arc::default(),
        }
    }

    /// Where a Unix socket is found.
    #[must_use]
    pub fn path(&self, tenant: &str, name: &str) -> PathBuf {
        self.directory.join(tenant).join(name)
    }

    /// The socket that listens there; it is made where it is not.
    ///
    /// # Errors
    /// Another program listens there, or nobody can.
    pub fn get(&self, at: &At) -> io::Result<Arc<OwnedFd>> {
        let mut open = self.open();
        if let Some(socket) = open.get(at) {
            return Ok(Arc::clone(socket));
        }
        let socket = match self.of_container(at) {
            Some(socket) => socket,
            None => self.listen(at)?,
        };
        let socket = Arc::new(socket);
        open.insert(at.clone(), Arc::clone(&socket));
        Ok(socket)
    }

    /// Closes all others, but for containers that have them.
    pub fn keep(&self, kept: &BTreeSet<At>) {
        self.open().retain(|at, _| {
            let is_kept = kept.contains(at);
            if let (At::Unix { tenant, name }, false) = (at, is_kept) {
                let _ = fs::remove_file(self.path(tenant, name));
            }
            is_kept
        });
    }

    fn open(&self) -> MutexGuard<'_, HashMap<At, Arc<OwnedFd>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, at: &At) -> io::Result<OwnedFd> {
        let socket = match at {
            At::Tcp(at) => OwnedFd::from(TcpListener::bind(at)?),
            At::Unix { tenant, name } => OwnedFd::from(self.listen_at(&self.path(tenant, name))?),
        };
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(socket)
    }

    fn listen_at(&self, path: &Path) -> io::Result<UnixListener> {
        let bytes = path.as_os_str().len() + 1;
        if bytes > UNIX_BYTES_MAX {
            let message = format!(
                "{} has {bytes} bytes with its end, and the name of a socket at most {UNIX_BYTES_MAX}",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let directory = path.parent().unwrap_or(&self.directory);
        DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
        if UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
        Ok(listener)
    }

    /// From the shim of a container that runs and has it.
    fn of_container(&self, at: &At) -> Option<OwnedFd> {
        let containers = fs::read_dir(&self.containers).ok()?;
        let mut containers = containers.filter_map(Result::ok);
        containers.find_map(|entry| {
            let instance = Instance::at(&entry.path());
            let sockets = instance.spec().ok()?.sockets;
            let number = sockets.iter().position(|socket| socket.at == *at)?;
            if instance.hold().ok()?.is_some() {
                return None;
            }
            let shim = shim_of(instance.started().ok()??.pid)?;
            let shim = pidfd_open(shim, PidfdFlags::empty()).ok()?;
            let socket = pidfd_getfd(&shim, FIRST + number as RawFd, PidfdGetfdFlags::empty());
            socket
                .inspect_err(|error| tracing::warn!(?at, %error, "a socket cannot be had back from its container"))
                .ok()
        })
    }
}

/// The parent of a container's first process.
fn shim_of(pid: i32) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind_name = stat.rsplit_once(')')?.1;
    Pid::from_raw(behind_name.split_whitespace().nth(1)?.parse().ok()?)
}

/// Whether somebody waits there to be taken.
#[must_use]
pub fn has_waiting(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Whether a connection to one of those is open, whoever has it.
///
/// # Errors
/// Of reading what the kernel lists.
pub fn are_used(sockets: &Sockets, at: &BTreeSet<At>) -> io::Result<bool> {
    Ok(!sockets.connections(at)?.is_empty())
}

/// Whether whoever listens at one of these ports, at whatever address of this machine, has a connection.
///
/// # Errors
/// Of reading what the kernel lists.
pub(crate) fn have_connections(ports: &BTreeSet<u16>) -> io::Result<bool> {
    if ports.is_empty() {
        return Ok(false);
    }
    // A server that listens by IPv6 may answer IPv4, too; there is no such list where the kernel has no IPv6.
    let lists = [
        fs::read_to_string("/proc/net/tcp")?,
        fs::read_to_string("/proc/net/tcp6").unwrap_or_default(),
    ];
    Ok(lists.iter().any(|list| !of_ports(list, ports).is_empty()))
}

impl Sockets {
    /// Whether one of these processes has a connection to one of those.
    pub(crate) fn are_used_by(&self, at: &BTreeSet<At>, processes: &[i32]) -> io::Result<bool> {
        let connections = self.connections(at)?;
        let own = processes.iter().flat_map(|process| {
            let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten();
            descriptors.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        });
        let mut inodes = own.filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse::<u64>().ok()
        });
        Ok(inodes.any(|inode| connections.contains(&inode)))
    }

    /// Inodes of open connections, 0 of one that nobody has taken yet, by what the kernel lists (`proc(5)`: `net/tcp`,
    /// `net/unix`).
    fn connections(&self, at: &BTreeSet<At>) -> io::Result<BTreeSet<u64>> {
        let (mut ports, mut paths) = (BTreeSet::new(), BTreeSet::new());
        for at in at {
            match at {
                At::Tcp(at) => drop(ports.insert(at.port())),
                At::Unix { tenant, name } => drop(paths.insert(self.path(tenant, name))),
            }
        }
        let mut connections = BTreeSet::new();
        if !ports.is_empty() {
            connections.extend(of_ports(&fs::read_to_string("/proc/net/tcp")?, &ports));
        }
        if !paths.is_empty() {
            connections.extend(of_paths(&String::from_utf8_lossy(&fs::read("/proc/net/unix")?), &paths));
        }
        Ok(connections)
    }
}

/// Lines such as `0: 0100007F:1F90 0100007F:A2B4 01 00000000:00000000 00:00000000 00000000 1000 0 17231 …`: own
/// address, other's, state, and six words on the inode.
fn of_ports(list: &str, ports: &BTreeSet<u16>) -> Vec<u64> {
    /// Of the kernel's `tcp_states.h`: `TIME_WAIT`, `CLOSE`, `LISTEN`.
    const NOT_OPEN: [&str; 3] = ["06", "07", "0A"];
    let open = list.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = words.get(1)?.split_once(':')?;
        let is_open = ports.contains(&u16::from_str_radix(port, 16).ok()?) && !NOT_OPEN.contains(words.get(3)?);
        is_open.then(|| words.get(9)?.parse().ok())?
    });
    open.collect()
}

/// Lines such as `0000000000000000: 00000002 00000000 00010000 0001 03 17231 /run/x.sock`, of which the sixth word is
/// the state (`SS_CONNECTING` 2, `SS_CONNECTED` 3), and the next one the inode.
fn of_paths(list: &str, paths: &BTreeSet<PathBuf>) -> Vec<u64> {
    let open = list.lines().skip(1).filter_map(|line| {
        let path = Path::new(&line[line.find('/')?..]);
        let mut words = line.split_whitespace().skip(5);
        let is_open = matches!(words.next(), Some("02" | "03")) && paths.contains(path);
        is_open.then(|| words.next()?.parse().ok())?
    });
    open.collect()
}

/// Has these be descriptors of this process, and of what it executes, from [`FIRST`] on.
pub(crate) fn place(sockets: Vec<OwnedFd>) -> io::Result<()> {
    // None of them is where another has to be.
    let above = FIRST + sockets.len() as RawFd;
    let copies: Vec<OwnedFd> = sockets
        .iter()
        .map(|socket| rustix::io::fcntl_dupfd_cloexec(socket, above))
        .collect::<Result<_, _>>()?;
    drop(sockets);
    for (copy, number) in copies.iter().zip(FIRST..) {
        // SAFETY: it takes no pointer, and nobody else has a descriptor of that number any more.
        if unsafe { libc::dup2(copy.as_raw_fd(), number) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// That a container can be given.
pub const SOCKETS_MAX: usize = 16;

/// What a program is told of the sockets that it has: all but which process they are for.
pub(crate) fn environment(sockets: &[Listening]) -> [(String, String); 2] {
    let names: Vec<&str> = sockets.iter().map(|socket| &*socket.name).collect();
    [
        ("LISTEN_FDS".to_owned(), sockets.len().to_string()),
        ("LISTEN_FDNAMES".to_owned(), names.join(":")),
    ]
}

/// Tells a program beside that that its sockets are for the process that it becomes: `LISTEN_PID`. Its environment is
/// `env`, in place of what `command` says.
///
/// # Errors
/// Of a word with a zero in it.
pub(crate) fn tell_pid(command: &mut Command, words: &[String], env: &[(String, String)]) -> io::Result<()> {
    const PID: &[u8] = b"LISTEN_PID=";
    const DIGITS: usize = 10;
    let program = found(&words[0], env)?;
    let words = words.iter().map(|word| CString::new(word.as_bytes()));
    let words = words.collect::<Result<Vec<CString>, _>>()?;
    let env = env.iter().map(|(name, value)| CString::new(format!("{name}={value}")));
    let env = env.collect::<Result<Vec<CString>, _>>()?;
    let mut pid = [PID, &[b' '; DIGITS], b"\0"].concat();
    let exec = move || {
        let mut left = std::process::id();
        let mut digits = [0; DIGITS];
        let mut count = 0;
        while left > 0 {
            digits[count] = b'0' + (left % 10) as u8;
            left /= 10;
            count += 1;
        }
        for place in 0..count {
            pid[PID.len() + place] = digits[count - 1 - place];
        }
        pid[PID.len() + count] = 0;
        let mut arguments = [std::ptr::null(); WORDS_MAX];
        let mut variables = [std::ptr::null(); WORDS_MAX];
        if words.len() >= WORDS_MAX || env.len() + 1 >= WORDS_MAX {
            return Err(io::Error::from_raw_os_error(libc::E2BIG));
        }
        for (place, word) in arguments.iter_mut().zip(&words) {
            *place = word.as_ptr();
        }
        for (place, variable) in variables.iter_mut().zip(&env) {
            *place = variable.as_ptr();
        }
        variables[env.len()] = pid.as_ptr().cast();
        // SAFETY: both lists end with a null, and what they point to is there until the process is another.
        unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
        Err(io::Error::last_os_error())
    };
    // SAFETY: between fork and exec it neither allocates nor takes a lock.
    unsafe { command.pre_exec(exec) };
    Ok(())
}

/// A program by its name alone is looked for in its own path.
fn found(name: &str, env: &[(String, String)]) -> io::Result<CString> {
    let path = env.iter().find(|(name, _)| name == "PATH").map_or("", |(_, path)| path);
    let mut places = path.split(':').map(|directory| Path::new(directory).join(name));
    let place = match name.contains('/') {
        true => PathBuf::from(name),
        false => places.find(|place| place.is_file()).ok_or(io::ErrorKind::NotFound)?,
    };
    Ok(CString::new(place.as_os_str().as_bytes())?)
}

/// Words, and variables, of a program that is told of its sockets.
const WORDS_MAX: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_used_while_a_connection_to_it_is_open() {
        let line = |port: u16, state: &str| {
            let rest = "00000000:00000000 00:00000000 00000000 1000 0 17231 1";
            format!("   0: 0100007F:{port:04X} 0100007F:A2B4 {state} {rest}\n")
        };
        let of = |lines: &str| of_ports(&format!("  sl  local_address\n{lines}"), &BTreeSet::from([8_080]));
        assert!(of("").is_empty());
        for state in ["01", "03", "04", "05", "08", "09"] {
            assert_eq!(of(&line(8_080, state)), [17_231], "{state}");
            assert!(of(&line(8_081, state)).is_empty(), "{state}");
        }
        for state in ["06", "07", "0A"] {
            assert!(of(&line(8_080, state)).is_empty(), "{state}");
        }
    }

    #[test]
    fn a_unix_socket_is_used_while_a_connection_to_it_is_open() {
        let of = |state: &str, path: &str| {
            let line = format!("0000000000000000: 00000002 00000000 00000000 0001 {state} 1723 {path}\n");
            of_paths(&format!("Num\n{line}"), &BTreeSet::from(["/data/a b".into()]))
        };
        assert_eq!(of("03", "/data/a b"), [1_723]);
        assert!(of("01", "/data/a b").is_empty());
        assert!(of("03", "/data/a").is_empty());
        assert!(of("03", "@data").is_empty());
    }

    #[test]
    fn a_unix_socket_that_nobody_has_any_more_is_made_anew_and_one_that_somebody_has_is_in_use() {
        let place = tempfile::tempdir().unwrap();
        let at = At::Unix {
            tenant: "default".to_owned(),
            name: "site".to_owned(),
        };
        let first = Sockets::new(place.path(), place.path());
        let socket = first.get(&at).unwrap();
        let other = Sockets::new(place.path(), place.path());
        assert_eq!(other.get(&at).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop((first, socket));
        let socket = other.get(&at).unwrap();
        assert!(!has_waiting(&socket));
        let _caller = UnixStream::connect(other.path("default", "site")).unwrap();
        assert!(has_waiting(&socket));
        other.keep(&BTreeSet::new());
        assert!(!other.path("default", "site").exists());
    }
}
