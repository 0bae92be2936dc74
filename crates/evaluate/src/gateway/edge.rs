//! An edge that runs applications, as its operator sees it: by its commands.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::manifests::{IMAGE, ROOT, SERVES};
use super::site::Site;
use super::taken::{Group, Processes};
use crate::arms::{self, ServerProcess};
use crate::capacity::pause;
use crate::interrupt;
use crate::proc;

/// How long an application may take to become what is waited for.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks at it. Each look is a command, which takes some of the processor.
const STEP: Duration = Duration::from_millis(15);
/// How long the edge may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// One that runs, with a data directory of its own. Its applications end with it.
pub(crate) struct Edge {
    selvedge: PathBuf,
    server: ServerProcess,
    directory: PathBuf,
    address: SocketAddr,
}

/// An application, as `get deployments` has it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Application {
    pub(crate) name: String,
    pub(crate) replicas: u32,
    pub(crate) ready: u32,
    pub(crate) sleeps: bool,
    pub(crate) containers: Vec<Container>,
}

/// A container of it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Container {
    pub(crate) is_paused: bool,
    pub(crate) address: Option<String>,
}

/// What has happened, as `events` has it.
#[derive(Debug, Deserialize)]
struct Event {
    deployment: String,
    what: String,
    times: u64,
}

impl Application {
    /// Whether nobody asks and it is as it is then: nothing of it runs, or all of it is paused.
    pub(crate) fn is_asleep(&self, paused: bool) -> bool {
        self.sleeps
            && if paused {
                !self.containers.is_empty() && self.containers.iter().all(|container| container.is_paused)
            } else {
                self.containers.is_empty()
            }
    }

    /// Whether all of it is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready == self.replicas
    }
}

impl Edge {
    /// Starts one and waits until it takes connections; `name` is that of its directory.
    ///
    /// # Errors
    /// It does not start, in words.
    pub(crate) fn start(site: &Site, name: &str) -> Result<Edge, String> {
        Edge::start_with(site, name, &[])
    }

    /// The same with more options.
    pub(crate) fn start_with(site: &Site, name: &str, options: &[String]) -> Result<Edge, String> {
        let directory = site.directory.join(name);
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let address = arms::free_address(Some(&site.host))?;
        let data = directory.join("data").display().to_string();
        // By `env` where it has to be told of an engine: the process is the same.
        let mut words: Vec<String> = site.engine_variable().into_iter().collect();
        words.push(site.selvedge.display().to_string());
        let more = [
            "edge",
            "--allow-anonymous",
            "--data",
            &data,
            "--mqtt",
            &address.to_string(),
        ];
        words.extend(more.map(str::to_owned));
        words.extend_from_slice(options);
        let mut server = ServerProcess::start(&site.edge_helper(), None, Path::new("env"), &words, &directory)?;
        site.enter(|| server.wait_until_ready(address))??;
        Ok(Edge {
            selvedge: site.selvedge.clone(),
            server,
            directory,
            address,
        })
    }

    /// Where devices connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Processor seconds that it has taken, its containers not among them.
    pub(crate) fn cpu_s(&self) -> Option<f64> {
        self.server.cpu_s()
    }

    /// Makes the image of the site's files.
    pub(crate) fn build_image(&self, site: &Site) -> Result<(), String> {
        let folder = site.folder.display().to_string();
        let words = ["image", "build", IMAGE, &folder, "--"];
        self.run(&[&words[..], &SERVES, &[ROOT]].concat()).map(drop)
    }

    /// Makes an image of a folder in which a shell is.
    pub(crate) fn build(&self, image: &str, folder: &Path) -> Result<(), String> {
        let folder = folder.display().to_string();
        self.run(&["image", "build", image, &folder, "--", "/bin/busybox"])
            .map(drop)
    }

    /// Its data directory, which the processes that it starts beside containers name in their arguments.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// A command of it; what that printed.
    pub(crate) fn run(&self, words: &[&str]) -> Result<String, String> {
        let data = self.data().display().to_string();
        // Before what is for another program.
        let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let all: Vec<&str> = [&words[..end], &["--data", &data], &words[end..]].concat();
        arms::output_of(&self.selvedge, &all)
    }

    /// Applies a manifest.
    pub(crate) fn apply(&self, yaml: &str) -> Result<(), String> {
        let file = self.manifest(yaml)?;
        self.run(&["apply", "-f", &file.display().to_string()]).map(drop)
    }

    /// A file that holds a manifest, for a command that is measured.
    pub(crate) fn manifest(&self, yaml: &str) -> Result<PathBuf, String> {
        let file = self.directory.join("manifest.yaml");
        std::fs::write(&file, yaml).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }

    /// All applications.
    pub(crate) fn applications(&self) -> Result<Vec<Application>, String> {
        let printed = self.run(&["get", "deployments", "--output", "json"])?;
        serde_json::from_str(&printed).map_err(|error| format!("`get deployments --output json`: {error}"))
    }

    /// Waits until something is so of an application; it then.
    ///
    /// # Errors
    /// It is not in 90 s, with what it is instead; or the run was told to end.
    pub(crate) fn wait(&self, name: &str, what: impl Fn(&Application) -> bool) -> Result<Application, String> {
        let began = Instant::now();
        loop {
            let all = self.applications()?;
            let found = all.into_iter().find(|application| application.name == name);
            let found = found.ok_or_else(|| format!("{name} is not among the applications"))?;
            if what(&found) {
                return Ok(found);
            }
            if began.elapsed() > PATIENCE {
                let said = self.run(&["get", "deployments"]).unwrap_or_default();
                return Err(format!(
                    "{name} after {PATIENCE:?}: {}",
                    said.trim().replace('\n', " | ")
                ));
            }
            interrupt::pause(STEP)?;
        }
    }

    /// How often a container of an application was started.
    pub(crate) fn starts(&self, name: &str) -> Result<u64, String> {
        let printed = self.run(&["events", "--output", "json"])?;
        let events: Vec<Event> =
            serde_json::from_str(&printed).map_err(|error| format!("`events --output json`: {error}"))?;
        let of_it = events
            .iter()
            .filter(|event| event.deployment == name && event.what == "started");
        Ok(of_it.map(|event| event.times).sum())
    }

    /// Ends an application, and waits until nothing of it runs.
    pub(crate) fn delete(&self, name: &str) -> Result<(), String> {
        self.run(&["delete", "deployment", name])?;
        self.wait_until_gone(name)
    }

    fn wait_until_gone(&self, name: &str) -> Result<(), String> {
        let began = Instant::now();
        let shims = format!("+{name}+");
        while self.applications()?.iter().any(|one| one.name == name)
            || self.processes().iter().any(|(_, words)| words.contains(&shims))
        {
            if began.elapsed() > PATIENCE {
                return Err(format!("{name} still runs {PATIENCE:?} after it was deleted"));
            }
            pause(STEP);
        }
        Ok(())
    }

    /// Processes that name its data directory in their arguments, with these: itself, and what it has beside
    /// containers.
    pub(crate) fn processes(&self) -> Vec<(u32, String)> {
        proc::naming(&self.data().display().to_string())
    }

    /// What containers take now, as `top` has it.
    pub(crate) fn top(&self) -> Result<Vec<Taken>, String> {
        let printed = self.run(&["top", "--output", "json"])?;
        serde_json::from_str(&printed).map_err(|error| format!("`top --output json`: {error}"))
    }
}

/// What a container takes.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Taken {
    pub(super) deployment: String,
    /// The start that it is of: another one counts from 0.
    pub(super) start: String,
    pub(super) cpu_us: u64,
    pub(super) memory_bytes: u64,
}

impl Drop for Edge {
    fn drop(&mut self) {
        // They would run on without it. What cannot be ended was said where it was first seen.
        let all = self.applications().unwrap_or_default();
        // Beside it there is the engine that runs some of them.
        let place = self.directory.parent().unwrap_or(&self.directory);
        let mut groups = Processes::naming(&place.display().to_string()).groups_of_containers();
        for one in &all {
            let _ = self.run(&["delete", "deployment", &one.name]);
        }
        for one in &all {
            let _ = self.wait_until_gone(&one.name);
        }
        let _ = self.server.stop(STOP_PATIENCE);
        // What it was about to start when it was told to delete it runs on without it.
        let (data, began) = (self.data().display().to_string(), Instant::now());
        loop {
            let left = Processes::naming(&data);
            if left.are_none() || began.elapsed() > STOP_PATIENCE {
                break;
            }
            groups.extend(left.groups_of_containers());
            left.kill();
            pause(STEP);
        }
        // It removes that of its containers some time after the last of them, where an engine has let it go.
        groups.iter().for_each(Group::remove);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
