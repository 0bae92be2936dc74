//! Systems under test: how each is started, and how its clients reach it.

mod certificates;
mod launch;
mod mosquitto;
mod own;
mod process;
mod selvedge;
mod target;

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use crate::generator::fleet::{Access, Protocol};
use crate::generator::socket::Endpoint;
use crate::rtt::ArmKind;
pub(crate) use certificates::Certificates;
pub use launch::Helper;
pub(crate) use launch::{cpus_apart, launch, pin_to, raise_file_limit};
pub(crate) use mosquitto::find as find_mosquitto;
use mqtt::Version;
pub(crate) use process::ServerProcess;
pub(crate) use selvedge::find as find_selvedge;

/// What all arms of a run share.
pub(crate) struct Site {
    /// Where servers keep their files; each gets a directory of its own in it.
    pub(crate) directory: PathBuf,
    pub(crate) helper: Helper,
    /// CPU that servers are pinned to, if any.
    pub(crate) cpu: Option<usize>,
    /// Most devices of any cell.
    pub(crate) devices: u32,
    pub(crate) selvedge_program: Option<PathBuf>,
    pub(crate) mosquitto_program: Option<PathBuf>,
    pub(crate) certificates: Certificates,
    /// Version of MQTT that every arm is measured with.
    pub(crate) protocol: Version,
    /// File of the authority that a target's certificate comes from.
    pub(crate) authority: Option<PathBuf>,
}

/// An arm that is ready for its clients.
pub(crate) struct RunningArm {
    pub(crate) access: Access,
    /// Absent for a broker that ran already.
    pub(crate) server: Option<ServerProcess>,
    pub(crate) version: String,
    pub(crate) settings: String,
    pub(crate) ready_ms: Option<f64>,
}

impl RunningArm {
    /// Why its server is no more, if it is not.
    pub(crate) fn ended(&mut self) -> Option<String> {
        self.server.as_mut().and_then(ServerProcess::ended)
    }

    /// CPU seconds that its server has used so far.
    pub(crate) fn cpu_s(&self) -> Option<f64> {
        self.server.as_ref().and_then(ServerProcess::cpu_s)
    }

    /// Resident memory of its server, in bytes.
    pub(crate) fn rss_bytes(&self) -> Option<u64> {
        self.server.as_ref().and_then(ServerProcess::rss_bytes)
    }
}

/// A server about to be started: what an arm's module says of it.
struct Recipe {
    program: PathBuf,
    arguments: Vec<String>,
    version: String,
    settings: String,
    protocol: Protocol,
    tls: bool,
}

/// Starts an arm, its files in `directory`, and waits until it accepts connections.
///
/// # Errors
/// It is not installed, cannot be set up or does not start, in words that say what would help.
pub(crate) fn start(kind: &ArmKind, site: &Site, name: &str) -> Result<RunningArm, String> {
    let mut running = match kind {
        ArmKind::Target(target) => target::reach(target, site)?,
        ours => set_up(ours, site, name)?,
    };
    if site.protocol == Version::V5 && matches!(running.access.protocol, Protocol::Mqtt { .. }) {
        running.settings += ", MQTT 5.0";
    }
    Ok(running)
}

fn set_up(kind: &ArmKind, site: &Site, name: &str) -> Result<RunningArm, String> {
    let directory = site.directory.join(name);
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let address = free_address().map_err(|error| format!("no free port on loopback: {error}"))?;
    let recipe = match kind {
        ArmKind::Selvedge | ArmKind::SelvedgeTls | ArmKind::SelvedgeLowLatency => {
            selvedge::prepare(kind, site, &directory, address)?
        }
        ArmKind::Mosquitto => mosquitto::prepare(site, &directory, address, false)?,
        ArmKind::MosquittoTls => mosquitto::prepare(site, &directory, address, true)?,
        ArmKind::Relay => own::relay(site, address),
        ArmKind::TcpEcho => own::echo(site, address),
        ArmKind::Target(target) => return target::reach(target, site),
    };
    launch_recipe(recipe, site, &directory, address)
}

fn launch_recipe(recipe: Recipe, site: &Site, directory: &Path, address: SocketAddr) -> Result<RunningArm, String> {
    let mut server = ServerProcess::start(&site.helper, site.cpu, &recipe.program, &recipe.arguments, directory)?;
    let ready_ms = Some(server.wait_until_ready(address)?);
    let tls = if recipe.tls {
        Some(site.certificates.client_side())
    } else {
        None
    };
    let access = Access {
        endpoint: Endpoint { address, tls },
        protocol: recipe.protocol,
    };
    let (version, settings) = (recipe.version, recipe.settings);
    Ok(RunningArm {
        access,
        server: Some(server),
        version,
        settings,
        ready_ms,
    })
}

/// A loopback address that nobody has now; servers bind it a moment later.
pub(crate) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// The program that a person named, else the first that is there of `usual` paths and of `PATH`.
fn find_program(named: Option<&PathBuf>, name: &str, usual: &[PathBuf], option: &str) -> Result<PathBuf, String> {
    if let Some(path) = named {
        return if path.is_file() {
            Ok(path.clone())
        } else {
            Err(format!("{option} {}: no such file", path.display()))
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let searched = std::env::split_paths(&path).map(|directory| directory.join(name));
    let found = usual
        .iter()
        .cloned()
        .chain(searched)
        .find(|candidate| candidate.is_file());
    found.ok_or_else(|| format!("{name} is not installed: it is not on the PATH; name it with {option} FILE"))
}
