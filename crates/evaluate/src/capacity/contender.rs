//! The systems: how each is set up so that it has to keep what it acknowledges, and started.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::client::Client;
use super::options::Options;
use super::record::About;
use crate::arms::{self, Certificates, Cpus, Helper, Postgres, ServerProcess};
use crate::generator::login::Secret;
use crate::generator::socket::Endpoint;
use crate::network::{Host, Network, Plan};

/// How long a server may take until it is ready, or to stop: with a million messages some take long.
const PATIENCE: Duration = Duration::from_secs(120);
const READY_STEP: Duration = Duration::from_millis(1);

/// A system in one of its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// Selvedge as it comes: an acknowledgement leaves once its message survives a power cut.
    SelvedgeDisk,
    /// Selvedge where an acknowledgement leaves once its message survives a crash of the program.
    SelvedgeOs,
    /// Mosquitto with persistence on, saving as often as it does by default.
    Mosquitto,
}

impl Contender {
    /// Name in the raw file and in progress.
    pub fn name(self) -> &'static str {
        match self {
            Contender::SelvedgeDisk => "selvedge (disk)",
            Contender::SelvedgeOs => "selvedge (os)",
            Contender::Mosquitto => "mosquitto",
        }
    }
}

/// Where a server runs.
#[derive(Clone, Copy)]
pub(super) struct On<'a> {
    pub(super) host: &'a Host,
    pub(super) cpu: Option<usize>,
}

/// What all servers of a run share.
pub(super) struct Site {
    pub(super) directory: PathBuf,
    helper: Helper,
    pub(super) cpus: Cpus,
    certificates: Certificates,
    /// Own copies of the programs: the memory of a server must not be shared with this very program.
    programs: Vec<(Contender, PathBuf)>,
}

impl Site {
    /// Finds the programs; those that are missing are named with the reason.
    pub(super) fn prepare(
        options: &Options,
        helper: &Helper,
        cpus: Cpus,
        directory: &Path,
    ) -> Result<(Site, Vec<About>, Vec<String>), String> {
        let mut site = Site {
            directory: directory.to_owned(),
            helper: helper.clone(),
            cpus,
            certificates: Certificates::create(directory)?,
            programs: Vec::new(),
        };
        let selvedge = arms::find_selvedge(options.selvedge_program.as_ref(), helper);
        let mosquitto = arms::find_mosquitto(options.mosquitto_program.as_ref());
        let both = [Contender::SelvedgeDisk, Contender::SelvedgeOs];
        let (mut about, mut missing) = (Vec::new(), Vec::new());
        for (found, contenders) in [(selvedge, &both[..]), (mosquitto, &[Contender::Mosquitto])] {
            match found.and_then(|found| site.adopt(found, contenders)) {
                Ok(one) => about.push(one),
                Err(reason) => missing.push(reason),
            }
        }
        Ok((site, about, missing))
    }

    fn adopt(&mut self, (program, version): (PathBuf, String), contenders: &[Contender]) -> Result<About, String> {
        let name = program.file_name().unwrap_or_default();
        let own = self.directory.join(name);
        let binary_bytes =
            std::fs::copy(&program, &own).map_err(|error| format!("cannot copy {}: {error}", program.display()))?;
        self.programs
            .extend(contenders.iter().map(|contender| (*contender, own.clone())));
        Ok(About {
            contenders: contenders.to_vec(),
            version,
            settings: settings(contenders[0]).to_owned(),
            binary_bytes,
        })
    }

    /// Contenders that are installed.
    pub(super) fn contenders(&self) -> Vec<Contender> {
        self.programs.iter().map(|(contender, _)| *contender).collect()
    }

    fn selvedge_program(&self) -> Result<&Path, String> {
        let found = self
            .programs
            .iter()
            .find(|(contender, _)| *contender == Contender::SelvedgeDisk);
        found
            .map(|(_, program)| program.as_path())
            .ok_or_else(|| "selvedge is not installed".to_owned())
    }

    /// What a command of Selvedge prints.
    pub(super) fn selvedge(&self, arguments: &[&str]) -> Result<String, String> {
        arms::output_of(self.selvedge_program()?, arguments)
    }

    /// Adds clients of a kind to Selvedge; their passwords.
    pub(super) fn add(&self, kind: &str, ids: &[String], data: &Path) -> Result<Vec<Secret>, String> {
        arms::add(self.selvedge_program()?, kind, ids, data)
    }

    /// Starts a role of Selvedge, its words going to a log in `directory`.
    pub(super) fn start_selvedge(
        &self,
        arguments: &[String],
        directory: &Path,
        on: On<'_>,
    ) -> Result<ServerProcess, String> {
        let helper = on.host.helper(&self.helper);
        ServerProcess::start(&helper, on.cpu, self.selvedge_program()?, arguments, directory)
    }

    /// A PostgreSQL server for one measurement, where the generator runs: a database shares no CPU with what is
    /// measured.
    pub(super) fn postgres(&self) -> Result<Postgres, String> {
        Postgres::start(&self.helper)
    }

    /// Hosts of their own, with the lines of a plan. Their threads run first and where the generator does: on the CPU
    /// of what is measured they would take from it what no network takes.
    ///
    /// # Errors
    /// They cannot be made here, with what would help.
    pub(super) fn network(&self, plan: &Plan) -> Result<Network, String> {
        let built = Network::build(plan).map_err(|error| error.to_string())?;
        built.not_varied().map_or(Ok(()), |reason| {
            Err(format!("it takes a line of its own, and {reason}"))
        })?;
        Ok(built)
    }

    /// A place for a server of `contender` with an empty data directory.
    pub(super) fn place(&self, contender: Contender, name: &str, tls: bool) -> Result<Place<'_>, String> {
        let directory = self.directory.join(format!("{contender:?}-{name}"));
        let data = directory.join("data");
        std::fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let address = arms::free_address(None)?;
        Ok(Place {
            site: self,
            contender,
            tls,
            directory,
            endpoint: Endpoint {
                address,
                tls: if tls {
                    Some(self.certificates.client_side())
                } else {
                    None
                },
                from: None,
            },
        })
    }
}

fn settings(contender: Contender) -> &'static str {
    match contender {
        Contender::Mosquitto => "anonymous, TCP_NODELAY, persistence with default autosave, unlimited queue",
        _ => "anonymous, limits of queue and log raised, else as it comes",
    }
}

/// A data directory and an address: where a server runs, and runs again.
pub(super) struct Place<'a> {
    site: &'a Site,
    contender: Contender,
    tls: bool,
    directory: PathBuf,
    pub(super) endpoint: Endpoint,
}

/// A server that is ready.
pub(super) struct Standing {
    pub(super) server: ServerProcess,
    /// From its start to the answer to the first CONNECT, in milliseconds.
    pub(super) ready_ms: f64,
}

impl Place<'_> {
    /// Starts the server and waits until it has answered a CONNECT.
    ///
    /// # Errors
    /// It does not start, or is not ready in 120 s.
    pub(super) fn start(&self) -> Result<Standing, String> {
        let site = self.site;
        let installed = site.programs.iter().find(|(contender, _)| *contender == self.contender);
        let (_, program) = installed.ok_or_else(|| format!("{} is not installed", self.contender.name()))?;
        let file = self.directory.join("configuration");
        std::fs::write(&file, self.configuration()).map_err(|error| format!("{}: {error}", file.display()))?;
        let file = file.display().to_string();
        let arguments = match self.contender {
            Contender::Mosquitto => vec!["-c".to_owned(), file],
            _ => vec!["edge".to_owned(), "--config".to_owned(), file],
        };
        let server = ServerProcess::start(&site.helper, site.cpus.server, program, &arguments, &self.directory)?;
        self.wait_until_ready(server)
    }

    fn wait_until_ready(&self, mut server: ServerProcess) -> Result<Standing, String> {
        while server.age() < PATIENCE {
            if Client::connect(&self.endpoint, "capacity-probe", true).is_ok() {
                let ready_ms = server.age().as_secs_f64() * 1e3;
                return Ok(Standing { server, ready_ms });
            }
            if server.ended_within(READY_STEP) {
                return Err(server.ended().unwrap_or_default());
            }
        }
        Err(format!("{} is not ready after {PATIENCE:?}", self.contender.name()))
    }

    fn configuration(&self) -> String {
        let data = self.directory.join("data");
        let certificates = &self.site.certificates;
        let (certificate, key) = (certificates.certificate.as_path(), certificates.key.as_path());
        match self.contender {
            Contender::Mosquitto => mosquitto(self.endpoint.address, &data, self.tls.then_some((certificate, key))),
            _ => {
                let durability = if self.contender == Contender::SelvedgeOs {
                    "os"
                } else {
                    "disk"
                };
                selvedge(
                    self.endpoint.address,
                    &data,
                    durability,
                    self.tls.then_some((certificate, key)),
                )
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // What stays goes with the run's directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Standing {
    /// Asks the server to stop, and waits.
    pub(super) fn stop(self) -> Result<(), String> {
        self.server.stop(PATIENCE)
    }

    /// Ends the server as `kill -9` does.
    pub(super) fn kill(self) -> Result<(), String> {
        self.server.kill(PATIENCE)
    }
}

fn selvedge(address: SocketAddr, data: &Path, durability: &str, tls: Option<(&Path, &Path)>) -> String {
    let listen = match tls {
        None => format!("mqtt = [\"{address}\"]"),
        Some(_) => format!("mqtt = []\nmqtts = [\"{address}\"]"),
    };
    let tls = tls.map_or(String::new(), |(certificate, key)| {
        format!(
            "[tls]\ncertificate = '{}'\nkey = '{}'\n",
            certificate.display(),
            key.display()
        )
    });
    format!(
        "data = '{}'\nallow_anonymous = true\n[listen]\n{listen}\n{tls}\
         [store]\ndurability = \"{durability}\"\nlimit_bytes = 34359738368\n\
         [limits]\nqueue_messages = 100000000\nqueue_bytes = 17179869184\n",
        data.display()
    )
}

fn mosquitto(address: SocketAddr, data: &Path, tls: Option<(&Path, &Path)>) -> String {
    let mut text = format!(
        "listener {} {}\nallow_anonymous true\nset_tcp_nodelay true\nlog_type error\nlog_dest stderr\n\
         persistence true\npersistence_location {}/\nmax_queued_messages 0\n",
        address.port(),
        address.ip(),
        data.display()
    );
    if rustix::process::geteuid().is_root() {
        // Else it becomes a user that may not read its files here.
        text += "user root\n";
    }
    if let Some((certificate, key)) = tls {
        text += &format!("certfile {}\nkeyfile {}\n", certificate.display(), key.display());
    }
    text
}
