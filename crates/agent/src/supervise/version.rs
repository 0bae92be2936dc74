//! What a replica of an application is made of, and the last that was good, which is kept.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Container, Key};
use crate::image::retention::Need;
use crate::runtime::SEPARATOR;

/// The containers of one replica, and a name for all that they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    pub(super) revision: String,
    /// In their order, those that run once first; of the replica 0.
    pub(super) containers: Vec<Container>,
}

/// A container of a replica, with the name of its starts, but for their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) name: String,
    pub(super) container: Container,
}

impl Version {
    /// The containers of a replica of it.
    pub(super) fn plans(&self, replica: u32) -> Vec<Plan> {
        let plan = |container: &Container| {
            let mut container = container.clone();
            container.replica = replica;
            container.launch.pod.replica = replica;
            let pod = container.launch.pod.prefix();
            let name = format!("{pod}{}{SEPARATOR}{}", container.name, self.revision);
            Plan { name, container }
        };
        self.containers.iter().map(plan).collect()
    }
}

/// Of a start: its replica and its revision.
pub(super) fn of_start(name: &str) -> Option<(u32, &str)> {
    let mut parts = name.split(SEPARATOR).skip(2);
    let replica = parts.next()?.parse().ok()?;
    Some((replica, parts.nth(1)?))
}

/// What is kept of an application, for agents to come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct History {
    /// The last version of which all replicas were available.
    pub(super) good: Option<Version>,
    /// The version after it, which was taken back.
    pub(super) bad: Option<Bad>,
}

/// A version that did not become available in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bad {
    pub(super) revision: String,
    /// In words.
    pub(super) why: String,
}

/// Where histories are kept. What is secret in an environment is in them.
#[derive(Clone, Debug)]
pub(super) struct Histories(PathBuf);

impl Histories {
    pub(super) fn at(directory: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Ok(Histories::of(directory))
    }

    /// Those in a directory that may not be there.
    pub(super) fn of(directory: &Path) -> Self {
        Histories(directory.to_owned())
    }

    /// Nothing where none is kept, or it cannot be understood.
    pub(super) fn read(&self, key: &Key) -> History {
        let text = match fs::read(self.file(key)) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(file = %self.file(key).display(), %error, "it is not known what was good");
                }
                return History::default();
            }
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| {
            tracing::warn!(file = %self.file(key).display(), %error, "it is not known what was good");
            History::default()
        })
    }

    pub(super) fn write(&self, key: &Key, history: &History) -> io::Result<()> {
        let file = self.file(key);
        let new = file.with_extension("new");
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut written = options.open(&new)?;
        written.write_all(&serde_json::to_vec(history)?)?;
        written.sync_all()?;
        fs::rename(&new, file)
    }

    pub(super) fn remove(&self, key: &Key) -> io::Result<()> {
        match fs::remove_file(self.file(key)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// What the last good versions are made of, which are gone back to where newer ones fail. One that cannot be
    /// understood is not gone back to.
    pub(super) fn needs(&self) -> io::Result<Vec<Need>> {
        let mut needs = Vec::new();
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(needs),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let text = match fs::read(entry?.path()) {
                Ok(text) => text,
                // It was replaced or removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let history: History = serde_json::from_slice(&text).unwrap_or_default();
            let containers = history.good.into_iter().flat_map(|version| version.containers);
            needs.extend(containers.map(|container| Need {
                by: format!("Deployment/{}", container.launch.pod.application),
                image: container.launch.image,
            }));
        }
        Ok(needs)
    }

    fn file(&self, Key { tenant, application }: &Key) -> PathBuf {
        self.0.join(format!("{tenant}{SEPARATOR}{application}.json"))
    }
}
