//! `selvedge evaluate …`: what the command line can ask for. The `selvedge` program only mounts it.

mod balancing;
mod capacity;
mod gateway;
mod interference;
mod kept;
mod network;
mod outcome;
mod processing;
mod promises;
mod replay;
mod resume;
mod rtt;
mod say;
mod simulate;

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::ExitCode;

pub use self::resume::{Experiment, Resumable};
pub use self::say::{complain, say};
use crate::balancing::{BalancingRun, Pod};
use crate::gateway::GatewayRun;
use crate::interference::{InterferenceRun, Service};
use crate::processing::ProcessingRun;
use crate::{arms, interrupt, servers};

/// The experiments.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Full-stack round trip: Selvedge beside Mosquitto, a TCP relay and a raw socket; with --model, device to cloud,
    /// through the edge, and to the edge
    Rtt(Box<rtt::Rtt>),
    /// Memory, time until ready, and acknowledged messages that survive kill -9: Selvedge beside Mosquitto; and of an
    /// edge and its cloud how a backlog drains, over a thin line too, how many edges come back at once, and what a cut
    /// loses
    Capacity(Box<capacity::Capacity>),
    /// What containers cost a gateway, and how long the first request to a sleeping application takes: programs of the
    /// host, oci and docker, beside `docker start` and `runc run`; what sleeping saves over a day; as root
    Gateway(Box<Experiment<GatewayRun>>),
    /// Which node of a site answers: every policy over pod distributions, delays and traffic, beside nginx and HAProxy in
    /// front of the same pods; a node that is asked for more than it can do; as root
    Balancing(Box<Experiment<BalancingRun>>),
    /// Which services may share a board, and which need limits: Linpack, STREAM and Bonnie++ beside each other in the
    /// interference paper's four cases, and the hub beside each of them; as root
    Interference(Box<Experiment<InterferenceRun>>),
    /// What it costs to train and to run models at the edge: three of them as programs of the host, in containers and with
    /// all of the machine, within the first paper's board; as root
    Processing(Box<Experiment<ProcessingRun>>),
    /// What does not fit on one machine, under simulated time: every policy on 10 to 10,000 nodes, by load, distance and
    /// traffic; from where on each wins, and what local-first costs at worst
    Simulate(Box<simulate::Simulate>),
    /// The emulated lines between device, edge and cloud, set against got: about 2 min
    Network(network::Network),
    /// Every promised figure beside Mosquitto's, as ratios with intervals, and whether the promise is kept: about four
    /// hours
    Promises(promises::Promises),
    /// Measure again what a raw file holds, with its options and seed
    Replay(replay::Replay),
    /// Make the report of raw files again
    Report(outcome::Report),
    /// Run a program pinned to a CPU, ending with its parent
    #[command(hide = true)]
    Launch {
        /// CPU that it may run on
        #[arg(long)]
        cpu: Option<usize>,
        /// Network namespace that it runs in
        #[arg(long)]
        network_namespace: Option<PathBuf>,
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Relay frames between devices and a responder
    #[command(hide = true)]
    Relay {
        /// Address to listen at
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Answer what devices send through a hub
    #[command(hide = true)]
    Responder(arms::Responder),
    /// Answer HTTP, one request at a time, each after the same time
    #[command(hide = true)]
    Pod(Pod),
    /// Do the work of a benchmark again and again
    #[command(hide = true)]
    Service(Service),
    /// Send back what comes
    #[command(hide = true)]
    TcpEcho {
        /// Address to listen at
        #[arg(long)]
        listen: SocketAddr,
    },
}

/// What went wrong, for a person.
type Failure = Box<dyn std::error::Error>;

impl Command {
    /// Does it. `prefix` is what stands before these commands on this program's command line, such as `evaluate`.
    pub fn run(self, prefix: &[&str]) -> ExitCode {
        match self.dispatch(prefix) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                complain(failure);
                interrupt::told().map_or(ExitCode::FAILURE, |told| told.exit_code().into())
            }
        }
    }

    fn dispatch(self, prefix: &[&str]) -> Result<(), Failure> {
        match self {
            Command::Rtt(rtt) => rtt.run(prefix),
            Command::Capacity(capacity) => capacity.run(prefix),
            Command::Gateway(gateway) => gateway.run(prefix),
            Command::Balancing(balancing) => balancing.run(prefix),
            Command::Interference(interference) => interference.run(prefix),
            Command::Processing(processing) => processing.run(prefix),
            Command::Simulate(simulate) => simulate.run(),
            Command::Network(network) => network.run(),
            Command::Promises(promises) => promises.run(prefix),
            Command::Replay(replay) => replay.run(prefix),
            Command::Report(report) => report.run(),
            Command::Launch {
                cpu,
                network_namespace,
                command,
            } => {
                let (program, arguments) = command.split_first().ok_or("no program to launch")?;
                let program = PathBuf::from(program);
                let error = arms::launch(cpu, network_namespace.as_deref(), &program, arguments);
                Err(format!("{}: {error}", program.display()).into())
            }
            Command::Relay { listen } => Ok(servers::serve_relay(TcpListener::bind(listen)?)?),
            Command::Responder(responder) => Err(responder.serve()?.into()),
            Command::Pod(pod) => Ok(pod.serve()?),
            Command::Service(service) => Ok(service.serve()?),
            Command::TcpEcho { listen } => Ok(servers::serve_echo(TcpListener::bind(listen)?)?),
        }
    }
}
