//! The files of one container, by which it is known to the agent of today and to those to come.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::cgroup::Cgroup;
use crate::network::Attachment;
use crate::sockets::Listening;

/// What a shim is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// How it is started.
    pub what: What,
    /// The group of its processes, which is there; none where the kernel or the user allows none.
    pub cgroup: Option<Cgroup>,
    /// What is kept of its output.
    pub log: LogLimits,
    /// Sockets that it takes over, which its shim is given in this order.
    #[serde(default)]
    pub sockets: Vec<Listening>,
}

/// How a container is started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// As a program of the host.
    Program(Program),
    /// From an image, as a bundle of the OCI runtime specification.
    Bundle(Box<Bundle>),
}

/// A container that no shim starts: a Docker Engine runs it, and keeps all else of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InEngine {
    /// Where the engine is asked.
    pub socket: PathBuf,
    /// What the container is called there.
    pub name: String,
    /// What it sees of the host's files.
    pub binds: Vec<Bind>,
    /// Its own; none: the host's.
    #[serde(default)]
    pub network: Option<Attachment>,
}

/// A program of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Program and arguments; no shell.
    pub command: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Where it starts.
    pub working_dir: PathBuf,
    /// As whom it runs; `None`: as whoever runs the agent.
    pub user: Option<User>,
}

/// A container of the OCI runtime specification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// The program that runs it, such as `/usr/sbin/runc`.
    pub runner: PathBuf,
    /// The directories of its image's layers, the lowest first; what it writes is kept beside them.
    pub layers: Vec<PathBuf>,
    /// What it sees of the host's files.
    pub binds: Vec<Bind>,
    /// What is run; all but its user and these files.
    pub config: oci_spec::runtime::Spec,
    /// Who that is.
    pub identity: Identity,
    /// By which it is asked to end.
    pub stop_signal: i32,
    /// Users of its own, who are those of the host from this one on; none: they are the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_user: Option<u32>,
    /// Its own; none: the host's.
    #[serde(default)]
    pub network: Option<Attachment>,
}

/// Files of the host that a container sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// Where the host has them.
    pub source: PathBuf,
    /// A part of that, which is made where it is not there; nothing in it leads out.
    pub sub_path: Option<String>,
    /// Where the container has them.
    pub target: PathBuf,
    /// Nothing can be changed there.
    pub is_read_only: bool,
    /// Whoever is in the container may read all of it, whosever it is.
    pub is_for_all: bool,
}

/// As whom a container runs, where its image may say it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// By the image: `USER`, `USER:GROUP`, names or numbers; empty: root.
    pub of_image: String,
    /// In place of the image's user.
    pub uid: Option<u32>,
    /// In place of the image's group.
    pub gid: Option<u32>,
    /// It is not started as root.
    pub is_never_root: bool,
    /// A group that it is in, too.
    pub other_gid: Option<u32>,
}

/// As whom a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// How much of a container's output is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// Of one file.
    pub file_bytes: u64,
    /// Files, the one that is written to among them.
    pub files: u32,
}

/// What is known of a container that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// Its first process.
    pub pid: i32,
    /// When that began, in ticks since the host did: another process of that number began at another time.
    pub pid_start_ticks: u64,
    /// Of the host, since it was switched on.
    pub boot_id: String,
    /// ms since 1970 UTC.
    pub at_ms: i64,
    /// Where it is reached; none: where the host is.
    #[serde(default)]
    pub address: Option<Ipv4Addr>,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// What came of it.
    pub how: How,
    /// One of its processes was killed because there was no memory left within its limit.
    pub is_out_of_memory: bool,
    /// That limit was the one of its tenant, and not its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_by_tenant: bool,
    /// ms since 1970 UTC.
    pub at_ms: i64,
    /// Of the host, since it was switched on.
    pub boot_id: String,
}

/// What came of a container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// It ended by itself.
    Exited {
        /// 0 where all went well.
        code: i32,
    },
    /// It was ended by a signal.
    Killed {
        /// Its number.
        signal: i32,
    },
    /// It never began.
    NotStarted {
        /// In words.
        reason: String,
    },
    /// Nobody saw it: its shim was ended, or the host was.
    Unseen,
}

/// In words, such as `exited with 1` or `ran out of memory (killed by signal 9)`.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match &self.how {
            How::Exited { code } => format!("exited with {code}"),
            How::Killed { signal } => format!("killed by signal {signal}"),
            How::NotStarted { reason } => format!("could not be started: {reason}"),
            How::Unseen => "ended while nobody looked on".to_owned(),
        };
        match (self.is_out_of_memory, self.is_by_tenant) {
            (true, false) => write!(f, "ran out of memory ({how})"),
            (true, true) => write!(f, "its tenant ran out of memory, quota app_memory_bytes ({how})"),
            (false, _) => f.write_str(&how),
        }
    }
}

/// What an engine runs has this file.
const ENGINE: &str = "engine.json";

/// The files of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    directory: PathBuf,
}

/// Held by the shim of a container as long as it lives.
#[derive(Debug)]
pub struct Hold(#[expect(dead_code, reason = "the lock goes with the file")] File);

impl Instance {
    /// The one with its files there.
    #[must_use]
    pub fn at(directory: &Path) -> Self {
        Instance {
            directory: directory.to_owned(),
        }
    }

    /// Its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What its output is kept in; older output in the same name with `.1`, `.2`, ….
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// What is to run.
    ///
    /// # Errors
    /// Of reading the file.
    pub fn spec(&self) -> io::Result<Spec> {
        self.get("spec.json")?.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// What an engine runs; none where a shim does.
    ///
    /// # Errors
    /// Of reading the file.
    pub fn in_engine(&self) -> io::Result<Option<InEngine>> {
        self.get(ENGINE)
    }

    /// Whether an engine runs it, whatever can be read of it.
    ///
    /// # Errors
    /// Of its directory.
    pub fn is_in_engine(&self) -> io::Result<bool> {
        self.directory.join(ENGINE).try_exists()
    }

    pub(crate) fn set_in_engine(&self, container: &InEngine) -> io::Result<()> {
        self.put(ENGINE, container)
    }

    /// Makes its directory.
    pub(crate) fn make(&self) -> io::Result<()> {
        fs::create_dir_all(&self.directory)
    }

    /// Says what is to run.
    ///
    /// # Errors
    /// Of writing the file.
    pub fn set_spec(&self, spec: &Spec) -> io::Result<()> {
        self.put("spec.json", spec)
    }

    /// What is known of its start; none before it.
    ///
    /// # Errors
    /// Of reading the file.
    pub fn started(&self) -> io::Result<Option<Started>> {
        self.get("started.json")
    }

    /// How it ended; none before that, and where nobody was there to see it.
    ///
    /// # Errors
    /// Of reading the file.
    pub fn ended(&self) -> io::Result<Option<Ended>> {
        self.get("ended.json")
    }

    pub(crate) fn set_started(&self, started: &Started) -> io::Result<()> {
        self.put("started.json", started)
    }

    pub(crate) fn set_ended(&self, ended: &Ended) -> io::Result<()> {
        self.put("ended.json", ended)
    }

    /// Takes the place of the container's shim; none where there is one.
    ///
    /// # Errors
    /// Of the file.
    pub fn hold(&self) -> io::Result<Option<Hold>> {
        // Not truncated: that would be written to the disk, at each look at a container.
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let file = options.open(self.directory.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Hold(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn get<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        let path = self.directory.join(name);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let value = serde_json::from_slice(&text);
        value
            .map(Some)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display())))
    }

    /// All of it or nothing: others read it at any time.
    fn put<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        let (path, new) = (self.directory.join(name), self.directory.join(format!("{name}.new")));
        fs::write(&new, serde_json::to_vec(value).expect("these types are JSON"))?;
        fs::rename(new, path)
    }
}
