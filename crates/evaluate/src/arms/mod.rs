//! Systems under test: how each is started, and how its clients reach it.

mod certificates;
mod launch;
mod models;
mod mosquitto;
mod own;
mod postgres;
mod process;
mod responder;
mod selvedge;
mod target;

use std::cell::OnceCell;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::gateway::{Carried, Carrier, Load, Runtime};
use crate::generator::fleet::{Access, Protocol};
use crate::generator::socket::Endpoint;
use crate::network::{Host, Place};
use crate::rtt::ArmKind;
pub(crate) use certificates::Certificates;
pub use launch::Helper;
pub(crate) use launch::{Cpus, launch, pin_to, raise_file_limit};
pub(crate) use mosquitto::find as find_mosquitto;
use mqtt::Version;
pub(crate) use postgres::Postgres;
pub(crate) use process::ServerProcess;
pub(crate) use responder::Responder;
pub(crate) use selvedge::{RESPONDER_FILTER, ROUTE, add, find as find_selvedge, output_of};

/// Of servers: below those that clients are given by default (`ip_local_port_range`).
const PORTS: Range<u16> = 20_000..32_768;
/// Ports that are looked at before it is said that none is free.
const PORT_TRIES: usize = 100;

/// What all arms of a run share.
pub(crate) struct Site {
    /// Where servers keep their files; each gets a directory of its own in it.
    pub(crate) directory: PathBuf,
    pub(crate) helper: Helper,
    /// Where servers are pinned to.
    pub(crate) cpus: Cpus,
    /// Device, edge and cloud of an emulated network; none = all is on this machine.
    pub(crate) hosts: Option<[Host; 3]>,
    /// Whether devices of the models connect under TLS.
    pub(crate) tls: bool,
    /// Most devices of any cell.
    pub(crate) devices: u32,
    pub(crate) selvedge_program: Option<PathBuf>,
    pub(crate) mosquitto_program: Option<PathBuf>,
    pub(crate) certificates: Certificates,
    /// Version of MQTT that every arm is measured with.
    pub(crate) protocol: Version,
    /// File of the authority that a target's certificate comes from.
    pub(crate) authority: Option<PathBuf>,
    /// Edges that run arms in a runtime: without a Docker Engine and with one, each once an arm needs it.
    pub(crate) carriers: [OnceCell<Arc<Carrier>>; 2],
}

impl Site {
    /// One of the hosts; none where all is on this machine.
    fn host(&self, place: Place) -> Option<&Host> {
        self.hosts.as_ref().map(|hosts| &hosts[place as usize])
    }

    /// The edge that runs arms in a runtime; started when the first one is.
    fn carrier(&self, runtime: Runtime) -> Result<&Arc<Carrier>, String> {
        let place = &self.carriers[usize::from(runtime == Runtime::Docker)];
        if let Some(carrier) = place.get() {
            return Ok(carrier);
        }
        let directory = self.directory.join(format!("carrier-{runtime:?}"));
        let carrier = Carrier::start(&self.helper, self.selvedge_program.as_ref(), runtime, &directory)?;
        Ok(place.get_or_init(|| Arc::new(carrier)))
    }

    fn helper_at(&self, place: Place) -> Helper {
        self.host(place)
            .map_or_else(|| self.helper.clone(), |host| host.helper(&self.helper))
    }

    fn cpu_at(&self, place: Place) -> Option<usize> {
        if place == Place::Cloud {
            self.cpus.cloud
        } else {
            self.cpus.server
        }
    }

    /// An address of a host that nobody has now; servers bind it a moment later.
    fn free_address(&self, place: Place) -> Result<SocketAddr, String> {
        free_address(self.host(place))
    }

    /// As [`ServerProcess::wait_until_ready`], seen from its own host.
    fn wait_until_ready(&self, place: Place, server: &mut ServerProcess, address: SocketAddr) -> Result<f64, String> {
        match self.host(place) {
            None => server.wait_until_ready(address),
            Some(host) => host
                .enter(|| server.wait_until_ready(address))
                .map_err(|error| error.to_string())?,
        }
    }
}

/// An arm that is ready for its clients.
pub(crate) struct RunningArm {
    pub(crate) access: Access,
    /// Each with its host; none for a broker that ran already.
    pub(crate) servers: Vec<(Place, ServerProcess)>,
    pub(crate) version: String,
    pub(crate) settings: String,
    pub(crate) ready_ms: Option<f64>,
    /// Those that an edge runs.
    pub(crate) carried: Vec<Carried>,
}

impl RunningArm {
    /// Why one of its servers is no more, if one is not.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let carried = self.carried.iter().find_map(Carried::ended);
        carried.or_else(|| self.servers.iter_mut().find_map(|(_, server)| server.ended()))
    }

    /// CPU seconds that its servers have used so far; of those on one host, if one is named.
    pub(crate) fn cpu_s(&self, place: Option<Place>) -> Option<f64> {
        let wanted = |host: &Place| place.is_none_or(|place| place == *host);
        let servers = self.servers.iter().filter(|(host, _)| wanted(host));
        let carried = self.carried.iter().map(Carried::cpu_s);
        let used: Vec<f64> = servers
            .map(|(_, server)| server.cpu_s())
            .chain(carried)
            .collect::<Option<_>>()?;
        (!used.is_empty()).then(|| used.iter().sum())
    }

    /// Resident memory of its servers, in bytes.
    pub(crate) fn rss_bytes(&self) -> Option<u64> {
        let used: Vec<u64> = self
            .servers
            .iter()
            .map(|(_, server)| server.rss_bytes())
            .chain(self.carried.iter().map(Carried::rss_bytes))
            .collect::<Option<_>>()?;
        (!used.is_empty()).then(|| used.iter().sum())
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
        model if model.is_model() => models::start(model, site, name)?,
        ours => set_up(ours, site, name)?,
    };
    if site.protocol == Version::V5 && matches!(running.access.protocol, Protocol::Mqtt { .. }) {
        running.settings += ", MQTT 5.0";
    }
    Ok(running)
}

fn set_up(kind: &ArmKind, site: &Site, name: &str) -> Result<RunningArm, String> {
    let (kind, runtime) = match kind {
        ArmKind::In(runtime, inner) => (&**inner, Some(*runtime)),
        kind => (kind, None),
    };
    let (kind, has_responder) = match kind {
        ArmKind::WithResponder(inner) => (&**inner, true),
        kind => (kind, false),
    };
    let directory = make_directory(site, name)?;
    let address = site.free_address(Place::Edge)?;
    let recipe = recipe(kind, site, &directory, address)?;
    let mut running = launch_recipe((recipe, runtime), site, &directory, address)?;
    if has_responder {
        add_responder(&mut running, runtime, site, name)?;
    }
    Ok(running)
}

fn make_directory(site: &Site, name: &str) -> Result<PathBuf, String> {
    let directory = site.directory.join(name);
    std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    Ok(directory)
}

/// Runs the responder where the hub runs, on the same CPU, instead of the generator's.
fn add_responder(running: &mut RunningArm, runtime: Option<Runtime>, site: &Site, name: &str) -> Result<(), String> {
    let directory = make_directory(site, &format!("{name}-app"))?;
    let address = site.free_address(Place::Edge)?;
    let addresses = (address, running.access.endpoint.address);
    let arguments = Responder::words(&site.helper, addresses, &running.access.protocol, &directory)?;
    let program = Program {
        program: &site.helper.program,
        arguments: &arguments,
        directory: &directory,
        address,
    };
    match program.start(site, runtime)? {
        Process::OfHost(server, _) => running.servers.push((Place::Edge, server)),
        Process::OfEdge(carried) => running.carried.push(carried),
    }
    running.access.responder = None;
    running.settings += ", the responder a process beside it";
    Ok(())
}

/// A program of an arm: what it is called with, and where it listens.
struct Program<'a> {
    program: &'a Path,
    arguments: &'a [String],
    directory: &'a Path,
    address: SocketAddr,
}

/// One that takes connections.
enum Process {
    /// With the milliseconds until it did.
    OfHost(ServerProcess, f64),
    OfEdge(Carried),
}

impl Program<'_> {
    /// On the edge's host, where there are hosts.
    fn start(&self, site: &Site, runtime: Option<Runtime>) -> Result<Process, String> {
        let cpu = site.cpu_at(Place::Edge);
        if let Some(runtime) = runtime {
            let load = Load {
                runtime,
                program: self.program,
                arguments: self.arguments,
                directory: self.directory,
                address: self.address,
                cpu,
            };
            return site.carrier(runtime)?.carry(&load).map(Process::OfEdge);
        }
        let helper = site.helper_at(Place::Edge);
        let mut server = ServerProcess::start(&helper, cpu, self.program, self.arguments, self.directory)?;
        let ready_ms = site.wait_until_ready(Place::Edge, &mut server, self.address)?;
        Ok(Process::OfHost(server, ready_ms))
    }
}

fn recipe(kind: &ArmKind, site: &Site, directory: &Path, address: SocketAddr) -> Result<Recipe, String> {
    Ok(match kind {
        ArmKind::Mosquitto => mosquitto::prepare(site, directory, address, false)?,
        ArmKind::MosquittoTls => mosquitto::prepare(site, directory, address, true)?,
        ArmKind::Relay => own::relay(site, address),
        ArmKind::TcpEcho => own::echo(site, address),
        ours => selvedge::prepare(ours, site, directory, address)?,
    })
}

/// On the edge's host, where there are hosts: devices on theirs, the responder beside the server.
fn launch_recipe(
    (recipe, runtime): (Recipe, Option<Runtime>),
    site: &Site,
    directory: &Path,
    address: SocketAddr,
) -> Result<RunningArm, String> {
    let program = Program {
        program: &recipe.program,
        arguments: &recipe.arguments,
        directory,
        address,
    };
    let (mut servers, mut carried, mut ready_ms) = (Vec::new(), Vec::new(), None);
    match program.start(site, runtime)? {
        Process::OfHost(server, took_ms) => {
            ready_ms = Some(took_ms);
            servers.push((Place::Edge, server));
        }
        Process::OfEdge(one) => carried.push(one),
    }
    let tls = if recipe.tls {
        Some(site.certificates.client_side())
    } else {
        None
    };
    let endpoint = |place| Endpoint {
        address,
        tls: tls.clone(),
        from: site.host(place).cloned(),
    };
    let access = Access {
        endpoint: endpoint(Place::Device),
        responder: (!matches!(recipe.protocol, Protocol::Echo)).then(|| endpoint(Place::Edge)),
        protocol: recipe.protocol,
    };
    let (version, settings) = (recipe.version, recipe.settings);
    Ok(RunningArm {
        access,
        servers,
        version,
        settings,
        ready_ms,
        carried,
    })
}

/// An address of a host, or of loopback, that nobody has now; servers bind it a moment later. No client is given its
/// port, which are higher by default, while its server is started anew.
pub(crate) fn free_address(host: Option<&Host>) -> Result<SocketAddr, String> {
    let ip = host.map_or(Ipv4Addr::LOCALHOST, Host::address);
    let find = || {
        let bind = |port| TcpListener::bind((ip, port))?.local_addr();
        let mut tried = (0..PORT_TRIES).map(|_| bind(rand::random_range(PORTS)));
        let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
        tried.find(|tried| !tried.as_ref().is_err_and(is_taken))
    };
    let found = match host {
        Some(host) => host.enter(find).map_err(|error| error.to_string())?,
        None => find(),
    };
    let taken = || io::Error::from(io::ErrorKind::AddrInUse);
    let found = found.unwrap_or_else(|| Err(taken()));
    found.map_err(|error| format!("no free port of {PORTS:?} at {ip}: {error}"))
}

/// The program that a person named, else the first that is there of `usual` paths and of `PATH`.
pub(crate) fn find_program(
    named: Option<&PathBuf>,
    name: &str,
    usual: &[PathBuf],
    option: &str,
) -> Result<PathBuf, String> {
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
