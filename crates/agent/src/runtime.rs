//! How containers are run: one trait, whatever runs them.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use manifest::workload::HostPathType;
use serde::{Deserialize, Serialize};

use crate::cgroup::{Limits, Usage};
use crate::disk::DiskLimits;
use crate::image::registry::{self, Login};
use crate::image::store;
use crate::instance::{Ended, LogLimits, Started};
use crate::sockets::Listening;

/// What an answer is waited for by.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Runs containers, each known by a name that is used once. What runs goes on when this is dropped, and whoever opens
/// the runtime anew finds it by its name.
pub trait Runtime: Send + Sync {
    /// Has here what a container is made of. It may take long, and can be given up.
    fn prepare<'a>(&'a self, launch: &'a Launch) -> Answer<'a, ()>;

    /// Starts a container, of what is here, by a name that begins with its pod's. It has begun, or it is kept why not,
    /// when this returns: a program that does not exist is an end, not an error.
    fn start(&self, name: &str, launch: Launch) -> Answer<'_, ()>;

    /// What is so of a container. One that runs with nobody to see how it ends is ended.
    fn state(&self, name: &str) -> Answer<'_, State>;

    /// Waits for the end of a container; [`State::Absent`] where there is none.
    fn wait(&self, name: &str) -> Answer<'_, State>;

    /// Asks a container to end; nothing where it does not run.
    fn ask_to_end(&self, name: &str) -> Answer<'_, ()>;

    /// Stops the time of a container that runs, or lets it go on; nothing where it does not run, or is so already.
    /// Whether it runs. One whose time stands still can be asked to end, too.
    fn pause(&self, name: &str, is_paused: bool) -> Answer<'_, bool>;

    /// Ends a container, with all that it made. It has ended when this returns.
    fn kill(&self, name: &str) -> Answer<'_, ()>;

    /// Forgets a container that has ended, its log with it. Nothing where there is none.
    fn remove(&self, name: &str) -> Answer<'_, ()>;

    /// Runs a command in a container that runs, beside what it does; it is ended where this is given up.
    fn exec(&self, name: &str, command: Vec<String>) -> Answer<'_, Done>;

    /// Forgets the scratch of an application's replicas but for those that are `kept`; no container of the others is
    /// there any more. What takes long to make and has nothing of them in it stays for the first so many that are
    /// `wanted`, which may be asleep.
    fn clear(&self, tenant: &str, application: &str, kept: BTreeSet<u32>, wanted: u32) -> Answer<'_, ()>;

    /// What all containers of a tenant may take together from now on, those that run among them; of promises nothing is
    /// taken. It is not known to a runtime that is opened anew.
    fn limit(&self, tenant: &str, limits: Limits) -> Answer<'_, ()>;

    /// What all containers of a tenant take; `None` where nothing of it runs, or nobody counts.
    fn usage_of(&self, tenant: &str) -> Answer<'_, Option<Usage>>;

    /// What a container has taken; `None` where nobody counts.
    fn usage(&self, name: &str) -> Answer<'_, Option<Usage>>;

    /// What a container has written beside its volumes, in bytes of the disk; some number beyond `bytes_max` where it
    /// is more.
    fn written(&self, name: &str, bytes_max: u64) -> Answer<'_, u64>;

    /// As much, of a volume that goes with its pod.
    fn scratch(&self, pod: &Pod, volume: &str, bytes_max: u64) -> Answer<'_, u64>;

    /// As much, of all volumes of a tenant that are kept.
    fn kept(&self, tenant: &str, bytes_max: u64) -> Answer<'_, u64>;

    /// The last lines of a container's output that are kept, oldest first, each with its time and stream before it;
    /// none where there is no such container.
    fn log_tail(&self, name: &str, lines: usize) -> Answer<'_, Option<Vec<u8>>>;

    /// Names of all containers that are there, whoever started them.
    fn names(&self) -> Answer<'_, Vec<String>>;
}

/// What is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// What runs it.
    pub kind: Kind,
    /// An image by its name, or a program of the host by its path.
    pub image: String,
    /// How the image comes here.
    pub pull: Pull,
    /// Program and arguments, no shell, in place of what the image says; empty: that.
    pub command: Vec<String>,
    /// Arguments behind it; none and no command either: those that the image says.
    pub args: Vec<String>,
    /// The environment; with that of the image all of it, but for a path that programs are looked for in.
    pub env: Vec<(String, String)>,
    /// Where it starts, in place of where the image says.
    pub working_dir: Option<PathBuf>,
    /// In place of the image's user; of a program of the host, that of the agent.
    pub uid: Option<u32>,
    /// In place of the image's group.
    pub gid: Option<u32>,
    /// Whose it is.
    pub pod: Pod,
    /// It has a network of its own with others of its pod, and not the host's.
    pub has_own_network: bool,
    /// Its users are its own, and none of the host's: who is root in it is nobody there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_own_users: bool,
    /// Its name for itself; `None`: the host's.
    pub hostname: Option<String>,
    /// What it sees of volumes, and where.
    pub mounts: Vec<Mount>,
    /// A group that it is in, and that its own volumes belong to.
    pub volumes_gid: Option<u32>,
    /// Devices of the host that it has, by their names in `/dev`.
    pub devices: Vec<String>,
    /// What it may.
    pub rights: Rights,
    /// What it may take.
    pub limits: Limits,
    /// What it may take of the disk.
    #[serde(default, skip_serializing_if = "DiskLimits::is_none")]
    pub disk: DiskLimits,
    /// What is kept of its output.
    pub log: LogLimits,
    /// Sockets that it takes over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<Listening>,
    /// It is given nothing to log in by at the edge. That it is given something is not written down: those of agents
    /// that did not know it are the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_no_login: bool,
}

/// What is kept of output where nobody says it.
const LOG: LogLimits = LogLimits {
    file_bytes: 4 << 20,
    files: 3,
};

impl Launch {
    /// An image or program as it is, of which nothing more is said.
    #[must_use]
    pub fn of(kind: Kind, image: &str, pod: Pod) -> Self {
        Launch {
            kind,
            image: image.to_owned(),
            pull: Pull::default(),
            command: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            working_dir: None,
            uid: None,
            gid: None,
            pod,
            has_own_network: false,
            has_own_users: false,
            hostname: None,
            mounts: Vec::new(),
            volumes_gid: None,
            devices: Vec::new(),
            rights: Rights::default(),
            limits: Limits::default(),
            disk: DiskLimits::default(),
            log: LOG,
            sockets: Vec::new(),
            has_no_login: false,
        }
    }
}

/// Containers that share their scratch and their network: one replica of an application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pod {
    /// Whose application it is.
    pub tenant: String,
    /// Its name there.
    pub application: String,
    /// Which of several that are the same.
    pub replica: u32,
}

/// Between the parts of a container's name: tenant, application, replica, container, revision, start; in none of them.
pub(crate) const SEPARATOR: char = '+';

impl Pod {
    /// What the names of its containers begin with.
    pub(crate) fn prefix(&self) -> String {
        let Pod {
            tenant,
            application,
            replica,
        } = self;
        format!("{tenant}{SEPARATOR}{application}{SEPARATOR}{replica}{SEPARATOR}")
    }
}

/// A volume as a container sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// What it sees.
    pub volume: Volume,
    /// Where, in the container.
    pub path: PathBuf,
    /// A part of the volume, which is made where it is not there.
    pub sub_path: Option<String>,
    /// Nothing can be changed there.
    pub is_read_only: bool,
}

/// Where files are kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Volume {
    /// In a directory of the pod's, by this name: empty at first, and gone with it.
    Scratch(String),
    /// In memory, as long as the container runs.
    Memory {
        /// At most; `None`: half of the machine's.
        bytes_max: Option<u64>,
    },
    /// In a directory of the tenant's, by this name: there until it is removed by hand.
    Kept(String),
    /// Where the host has them.
    Host {
        /// Its path.
        path: PathBuf,
        /// What has to be there, or is made.
        kind: HostPathType,
    },
    /// These.
    Files(Vec<VolumeFile>),
    /// What it logs in by, in this directory of the edge's, where anybody in the container may read it.
    Login(PathBuf),
}

/// A file that a container is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeFile {
    /// Below where its volume is seen.
    pub path: PathBuf,
    /// What is in it.
    pub content: Vec<u8>,
    /// Its rights.
    pub mode: u32,
}

/// How an image comes here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pull {
    /// When its registry is asked.
    pub policy: PullPolicy,
    /// As whom; `None`: as anybody.
    pub login: Option<Login>,
}

/// When a registry is asked for an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PullPolicy {
    /// At each start; where it cannot be asked, the image that is here will do.
    Always,
    /// Where it is not here yet.
    #[default]
    IfAbsent,
    /// It has to be here.
    Never,
}

/// What runs containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The host itself: they are programs of its own.
    Process,
    /// A runtime of the Open Container Initiative, with images of ours.
    Oci,
    /// A Docker Engine, or Podman, with images of its own.
    Docker,
}

/// What a container may, of what a program of the host is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rights {
    /// Capabilities of Linux beyond those that all have, such as `NET_ADMIN`.
    pub added: Vec<String>,
    /// Those that it has not; `ALL`: but for those that are added.
    pub dropped: Vec<String>,
    /// Nothing of its image can be changed.
    pub is_root_read_only: bool,
    /// A program in it may get more rights than it has, as by set-user-ID.
    pub may_gain: bool,
    /// It is not started as root.
    pub is_never_root: bool,
}

/// What is so of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// There is none of that name.
    Absent,
    /// It runs.
    Running(Started),
    /// It has ended; its files are there until it is removed.
    Ended(Ended),
}

/// What came of a command in a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Whether it ended with 0.
    pub is_good: bool,
    /// How it ended, and the beginning of what it complained about.
    pub words: String,
}

/// Why a container could not be started, stopped or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// One of that name is there, and cannot be started or removed.
    #[error("{0} is there already")]
    Exists(String),
    /// Limits need control groups, and those root.
    #[error("limits cannot be kept here: {0}")]
    NoLimits(String),
    /// Its shim did not start it, or does not end.
    #[error("its shim: {0}")]
    Shim(String),
    /// It does not run, so that nothing can be done in it.
    #[error("{0} does not run")]
    NotRunning(String),
    /// A socket that it takes over cannot be had.
    #[error("its socket {0}: {1}")]
    NoSocket(String, #[source] io::Error),
    /// Its time cannot be stopped.
    #[error("it cannot be paused: {0}")]
    NoPause(&'static str),
    /// It cannot have a network of its own.
    #[error("it cannot have a network of its own: {0}; hostNetwork: true gives it that of the host")]
    NoNetwork(#[source] io::Error),
    /// A volume cannot be had.
    #[error("{}: {message}", path.display())]
    Volume {
        /// Of what it is kept in.
        path: PathBuf,
        /// Why not.
        message: String,
    },
    /// What runs it is not here, or cannot be used.
    #[error("{0}")]
    NoRuntime(String),
    /// A Docker Engine is not here, or refuses; what it says.
    #[error("{0}")]
    Engine(String),
    /// Its image cannot be used.
    #[error("{0}")]
    Image(#[from] store::Error),
    /// Its image is not here, and cannot be had.
    #[error("no image {image:?} is here: {source}")]
    NoImage {
        /// Its name.
        image: String,
        /// Why it cannot be had.
        source: registry::Error,
    },
    /// A file or process.
    #[error("{0}")]
    Io(#[from] io::Error),
}
