//! What all of a run share: the machine on which the gateway is, the programs, the image's files.

use std::path::{Path, PathBuf};

use super::cost;
use super::edge::Edge;
use super::engine::Engine;
use super::manifests::{self, IMAGE, ROOT, SERVES};
use super::options::{Options, Part, Runtime};
use super::record::About;
use super::work;
use crate::arms::{self, Helper};
use crate::network::Host;

/// Where all of it is.
pub(crate) struct Site {
    pub(super) directory: PathBuf,
    /// A host of its own: ports, rules and networks end with it.
    pub(super) host: Host,
    pub(crate) helper: Helper,
    pub(crate) selvedge: PathBuf,
    pub(super) busybox: PathBuf,
    pub(crate) runc: Option<PathBuf>,
    pub(super) engine: Option<Engine>,
    /// Files of the image.
    pub(super) folder: PathBuf,
    /// Those of the image of benchmark programs, where they are asked for.
    pub(super) tools: Option<PathBuf>,
    /// Those of the image of the gateway at work, and of its day.
    pub(super) at_work: Option<PathBuf>,
}

impl Site {
    /// Finds the programs, and starts a Docker Engine where one is asked for; what is missing is named with the reason.
    ///
    /// # Errors
    /// What every task needs is not there, with what would help.
    pub(crate) fn prepare(
        options: &Options,
        helper: &Helper,
        directory: &Path,
    ) -> Result<(Site, Vec<About>, Vec<String>), String> {
        as_root()?;
        let host = Host::alone().map_err(|error| error.to_string())?;
        Site::on(host, (options, helper), directory)
    }

    /// The same on a given host.
    pub(crate) fn on(
        host: Host,
        (options, helper): (&Options, &Helper),
        directory: &Path,
    ) -> Result<(Site, Vec<About>, Vec<String>), String> {
        as_root()?;
        let (selvedge, version) = arms::find_selvedge(options.selvedge_program.as_ref(), helper)?;
        let busybox = found("busybox", "busybox-static")?;
        let folder = directory.join("image");
        manifests::fill(&folder, &busybox)?;
        let mut site = Site {
            directory: directory.to_owned(),
            host,
            helper: helper.clone(),
            selvedge,
            busybox,
            runc: None,
            engine: None,
            folder,
            tools: None,
            at_work: None,
        };
        site.adopt_program()?;
        if options.parts.contains(&Part::Cost) {
            // Asked before anything is measured: an hour later is too late to say that a program is missing.
            let tools = directory.join("tools");
            cost::fill(&tools, &site.busybox)?;
            site.tools = Some(tools);
        }
        if options.parts.iter().any(|part| matches!(part, Part::Work | Part::Day)) {
            let at_work = directory.join("work");
            work::fill(&at_work, &site.busybox)?;
            site.at_work = Some(at_work);
        }
        let mut about = vec![named("selvedge", version, "as it comes, anonymous, everything on")];
        let mut missing = Vec::new();
        if options.has(Runtime::Oci) {
            match found("runc", "runc") {
                Ok(runc) => {
                    about.push(named("runc", first_line(&runc, "--version"), "as it comes"));
                    site.runc = Some(runc);
                }
                Err(reason) => missing.push(format!("oci: {reason}")),
            }
        }
        if options.has(Runtime::Docker) {
            match site.start_engine() {
                Ok(engine) => {
                    about.push(named(
                        "dockerd",
                        engine.version()?,
                        "started for the run, overlay2, a bridge of its own",
                    ));
                    site.engine = Some(engine);
                }
                Err(reason) => missing.push(format!("docker: {reason}")),
            }
        }
        Ok((site, about, missing))
    }

    /// A copy of Selvedge's program: the memory of the edge must not be shared with this very program.
    fn adopt_program(&mut self) -> Result<(), String> {
        let own = self.directory.join("selvedge");
        std::fs::copy(&self.selvedge, &own)
            .map_err(|error| format!("cannot copy {}: {error}", self.selvedge.display()))?;
        self.selvedge = own;
        Ok(())
    }

    fn start_engine(&self) -> Result<Engine, String> {
        let daemon = found("dockerd", "docker.io")?;
        let command = found("docker", "docker-cli")?;
        let engine = Engine::start(&self.edge_helper(), &self.host, (&daemon, command), &self.directory)?;
        engine.import(&self.folder, IMAGE, &[&SERVES[..], &[ROOT]].concat())?;
        if let Some(tools) = &self.tools {
            engine.import(tools, cost::IMAGE, &["/bin/busybox"])?;
        }
        Ok(engine)
    }

    /// The host of the gateway.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// What starts programs on the host of the gateway.
    pub(crate) fn edge_helper(&self) -> Helper {
        self.host.helper(&self.helper)
    }

    /// Does `work` on a thread of that host.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, String> {
        self.host.enter(work).map_err(|error| error.to_string())
    }

    /// Whether a runtime can be used here.
    pub(crate) fn has(&self, runtime: Runtime) -> bool {
        match runtime {
            Runtime::Process => true,
            Runtime::Oci => self.runc.is_some(),
            Runtime::Docker => self.engine.is_some(),
        }
    }

    /// The variable of the environment by which the edge finds its engine, as `env` takes it.
    pub(super) fn engine_variable(&self) -> Option<String> {
        self.engine
            .as_ref()
            .map(|engine| format!("DOCKER_HOST={}", engine.url()))
    }

    /// Has whoever runs a runtime's containers have an image of a folder in which a shell is.
    ///
    /// # Errors
    /// It is refused, in words.
    pub(crate) fn give_image(
        &self,
        edge: &Edge,
        runtime: Runtime,
        (image, folder): (&str, &Path),
    ) -> Result<(), String> {
        match (runtime, &self.engine) {
            (Runtime::Docker, Some(engine)) => engine.import(folder, image, &["/bin/busybox"]),
            _ => edge.build(image, folder),
        }
    }

    /// Files of a program of the machine with its libraries, a shell, and root's name.
    pub(crate) fn fill(&self, folder: &Path, program: &Path) -> Result<(), String> {
        manifests::fill(folder, &self.busybox)?;
        cost::add_file(folder, program)?;
        let passwd = folder.join("etc/passwd");
        let written = std::fs::create_dir_all(folder.join("etc"))
            .and_then(|()| std::fs::write(&passwd, "root:x:0:0:root:/:/bin/sh\n"));
        written.map_err(|error| format!("{}: {error}", passwd.display()))
    }

    /// A directory of the run's.
    pub(crate) fn make_directory(&self, name: &str) -> Result<PathBuf, String> {
        let directory = self.directory.join(name);
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(directory)
    }
}

fn as_root() -> Result<(), String> {
    let hint = || "containers are run by an edge that runs as root: run this as root".to_owned();
    rustix::process::geteuid().is_root().then_some(()).ok_or_else(hint)
}

fn named(name: &str, version: String, settings: &str) -> About {
    About {
        name: name.to_owned(),
        version,
        settings: settings.to_owned(),
    }
}

/// A program of the machine, and what has it where it is missing.
pub(crate) fn found(name: &str, package: &str) -> Result<PathBuf, String> {
    let usual = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(|place| Path::new(place).join(name));
    arms::find_program(None, name, &usual, "").map_err(|_| {
        format!("{name} is not installed: apt-get install {package}, or `make` with tools/install.sh system")
    })
}

fn first_line(program: &Path, option: &str) -> String {
    let said = arms::output_of(program, &[option]).unwrap_or_default();
    said.lines().next().unwrap_or_default().to_owned()
}
