//! An edge that runs systems under test, each with the host's network, for experiments that compare them with the same
//! on the host.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::edge::Edge;
use super::options::{Options, Runtime};
use super::site::Site;
use crate::arms::Helper;
use crate::interrupt::{self, pause};
use crate::network::Host;
use crate::proc;

/// Until a system takes connections.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(5);
const SETTLED: Duration = Duration::from_millis(300);

/// The edge, and the Docker Engine that it has.
pub(crate) struct Carrier {
    /// Its applications end with it, before the engine does that runs some of them.
    edge: Edge,
    site: Site,
}

/// What is to be run.
pub(crate) struct Load<'a> {
    pub(crate) runtime: Runtime,
    pub(crate) program: &'a Path,
    pub(crate) arguments: &'a [String],
    /// Its files, which are at the same place in a container.
    pub(crate) directory: &'a Path,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where it is pinned to.
    pub(crate) cpu: Option<usize>,
}

/// A system that an edge runs.
pub(crate) struct Carried {
    pids: Vec<u32>,
    name: String,
    /// It ends with the last of what it runs.
    _carrier: Arc<Carrier>,
}

impl Carrier {
    /// Starts one for a runtime.
    ///
    /// # Errors
    /// We are not root, or what the runtime needs is not there; in words that say what would help.
    pub(crate) fn start(
        helper: &Helper,
        selvedge_program: Option<&std::path::PathBuf>,
        runtime: Runtime,
        directory: &Path,
    ) -> Result<Carrier, String> {
        interrupt::listen().map_err(|error| format!("SIGINT and SIGTERM: {error}"))?;
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let options = Options {
            parts: Vec::new(),
            runtimes: vec![runtime],
            selvedge_program: selvedge_program.cloned(),
            ..Options::default()
        };
        let (site, _, missing) = Site::on(Host::loopback(), (&options, helper), directory)?;
        if let Some(reason) = missing.first() {
            return Err(reason.clone());
        }
        let edge = Edge::start(&site, "edge")?;
        Ok(Carrier { edge, site })
    }

    /// Runs a system and waits until it takes connections.
    ///
    /// # Errors
    /// It does not, with what the edge says of it.
    pub(crate) fn carry(self: &Arc<Self>, load: &Load<'_>) -> Result<Carried, String> {
        let name = name_of(load);
        let image = format!("{name}:1");
        if load.runtime != Runtime::Process {
            let folder = self.site.make_directory(&name)?;
            self.site.fill(&folder, load.program)?;
            self.site.give_image(&self.edge, load.runtime, (&image, &folder))?;
        }
        self.edge.apply(&self.manifest(load, &name, &image))?;
        let began = Instant::now();
        while TcpStream::connect(load.address).is_err() {
            if began.elapsed() > PATIENCE {
                let said = self.edge.run(&["get", "deployments"]).unwrap_or_default();
                let logged = self.edge.run(&["logs", &name]).unwrap_or_default();
                return Err(format!(
                    "{name} is not ready after {PATIENCE:?}: {} {}",
                    said.trim(),
                    logged.trim()
                ));
            }
            pause(STEP)?;
        }
        // Whoever only helps to start it is gone by then.
        pause(SETTLED)?;
        let pids = processes(load);
        if pids.is_empty() {
            return Err(format!("{name} listens and no process of it is found"));
        }
        Ok(Carried {
            pids,
            name,
            _carrier: self.clone(),
        })
    }

    fn manifest(&self, load: &Load<'_>, name: &str, image: &str) -> String {
        let mut words: Vec<String> = Vec::new();
        if let Some(cpu) = load.cpu {
            words.extend(["taskset".to_owned(), "-c".to_owned(), cpu.to_string()]);
        } else {
            words.push("env".to_owned());
        }
        words.push(load.program.display().to_string());
        words.extend(load.arguments.iter().cloned());
        let arguments = serde_json::to_string(&words).unwrap_or_default();
        let directory = load.directory.display();
        let (class, run, volumes) = if load.runtime == Runtime::Process {
            let run = format!("image: '{}', args: {arguments}", self.site.busybox.display());
            ("      runtimeClassName: process\n", run, String::new())
        } else {
            let class = if load.runtime == Runtime::Docker {
                "      hostNetwork: true\n      runtimeClassName: docker\n"
            } else {
                "      hostNetwork: true\n"
            };
            let run = format!(
                "image: '{image}', command: [/bin/busybox], args: {arguments}, volumeMounts: [{{name: files, mountPath: \
                 '{directory}'}}]"
            );
            let volumes = format!("      volumes:\n        - {{name: files, hostPath: {{path: '{directory}'}}}}\n");
            (class, run, volumes)
        };
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  strategy: {{type: Recreate}}\n  selector: \
             {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec:\n{class}      \
             containers:\n        - {{name: main, {run}}}\n{volumes}"
        )
    }
}

/// That of the arm's directory, as an application may be named.
fn name_of(load: &Load<'_>) -> String {
    let name = load.directory.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    name.chars().map(plain).collect()
}

/// Processes whose arguments name the system's address or its directory.
fn processes(load: &Load<'_>) -> Vec<u32> {
    let marks = [load.address.to_string(), load.directory.display().to_string()];
    let named = marks.iter().flat_map(|mark| proc::naming(mark));
    let mut pids: Vec<u32> = named
        .map(|(pid, _)| pid)
        .filter(|pid| *pid != std::process::id())
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

impl Carried {
    /// Why it is no more, if it is not.
    pub(crate) fn ended(&self) -> Option<String> {
        let is_gone = |pid: &u32| !Path::new(&format!("/proc/{pid}")).exists();
        self.pids.iter().all(is_gone).then(|| format!("{} ended", self.name))
    }

    /// CPU seconds so far.
    pub(crate) fn cpu_s(&self) -> Option<f64> {
        let used: Vec<f64> = self.pids.iter().filter_map(|pid| proc::cpu_s(*pid)).collect();
        (!used.is_empty()).then(|| used.iter().sum())
    }

    /// Resident memory, in bytes.
    pub(crate) fn rss_bytes(&self) -> Option<u64> {
        let used: Vec<u64> = self.pids.iter().filter_map(|pid| proc::rss_bytes(*pid)).collect();
        (!used.is_empty()).then(|| used.iter().sum())
    }
}
