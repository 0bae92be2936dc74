//! How containers are run: one trait, whatever runs them.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;

use serde::Serialize;

use crate::cgroup::{Limits, Usage};
use crate::instance::{Ended, LogLimits, Started, User};

/// What an answer is waited for by.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Runs containers, each known by a name that is used once. What runs goes on when this is dropped, and whoever opens the
/// runtime anew finds it by its name.
pub trait Runtime: Send + Sync {
    /// Starts a container. It has begun, or it is kept why not, when this returns: a program that does not exist is an end,
    /// not an error.
    fn start(&self, name: &str, launch: Launch) -> Answer<'_, ()>;

    /// What is so of a container. One that runs with nobody to see how it ends is ended.
    fn state(&self, name: &str) -> Answer<'_, State>;

    /// Waits for the end of a container; [`State::Absent`] where there is none.
    fn wait(&self, name: &str) -> Answer<'_, State>;

    /// Asks a container to end; nothing where it does not run.
    fn ask_to_end(&self, name: &str) -> Answer<'_, ()>;

    /// Ends a container, with all that it made. It has ended when this returns.
    fn kill(&self, name: &str) -> Answer<'_, ()>;

    /// Forgets a container that has ended, its log with it. Nothing where there is none.
    fn remove(&self, name: &str) -> Answer<'_, ()>;

    /// Runs a command in a container that runs, beside what it does; it is ended where this is given up.
    fn exec(&self, name: &str, command: Vec<String>) -> Answer<'_, Done>;

    /// What a container has taken; `None` where nobody counts.
    fn usage(&self, name: &str) -> Answer<'_, Option<Usage>>;

    /// The last lines of a container's output that are kept, oldest first, each with its time and stream before it; none
    /// where there is no such container.
    fn log_tail(&self, name: &str, lines: usize) -> Answer<'_, Option<Vec<u8>>>;

    /// Names of all containers that are there, whoever started them.
    fn names(&self) -> Answer<'_, Vec<String>>;
}

/// What is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Launch {
    /// Program and arguments; no shell.
    pub command: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Where it starts.
    pub working_dir: PathBuf,
    /// As whom it runs; `None`: as this program does.
    pub user: Option<User>,
    /// What it may take.
    pub limits: Limits,
    /// What is kept of its output.
    pub log: LogLimits,
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
    /// A file or process.
    #[error("{0}")]
    Io(#[from] io::Error),
}
