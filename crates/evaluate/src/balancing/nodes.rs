//! A site of edges, each on a host of its own with pods of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use balance::Policy;
use serde::Deserialize;

use super::node::{NAME, Node, service, share};
use super::options::{Options, Runtime};
use super::record::{Cell, Event, Work};
use super::{NODES, proxies};
use crate::arms::Helper;
use crate::gateway::{self, About, Site};
use crate::interrupt::pause;
use crate::network::Joined;

/// How long nodes may take to find each other, and to see what others have.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks, each of which is a command.
const STEP: Duration = Duration::from_millis(50);
/// Until edges know how far nodes are: the fastest of eight echoes, two a second (`site::line`).
const ECHOES: Duration = Duration::from_millis(4_500);

/// The node at which something happens.
const SECOND: usize = 1;
/// So many times as long a slow pod takes.
const SLOWER: u32 = 10;

/// All of them, and the lines between them.
pub(super) struct Nodes {
    /// They end before the lines do.
    all: Vec<Node>,
    network: Joined,
    options: Options,
    state: State,
}

/// What is so of all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    pods: [u32; NODES],
    work: Work,
    round_trip_ms: u32,
    /// None: no service was applied yet.
    policy: Option<Policy>,
}

/// A line of `get nodes`.
#[derive(Deserialize)]
struct Known {
    is_here: bool,
    is_connected: bool,
}

/// A line of `get services`.
#[derive(Debug, Deserialize)]
struct Service {
    name: String,
    address: Option<Ipv4Addr>,
    elsewhere: Vec<Elsewhere>,
}

#[derive(Debug, Deserialize)]
struct Elsewhere {
    node: String,
    ready: u32,
}

impl Nodes {
    /// Starts the edges and makes them one site.
    ///
    /// # Errors
    /// Something that they need is not there, or they do not find each other; in words.
    pub(super) fn start(
        options: &Options,
        helper: &Helper,
        directory: &Path,
        seed: u64,
    ) -> Result<(Nodes, Vec<About>), String> {
        let network = Joined::build(NODES, seed).map_err(|error| error.to_string())?;
        let mut all: Vec<Node> = Vec::new();
        let mut about = Vec::new();
        for (place, host) in network.hosts().iter().enumerate() {
            let name = format!("node-{}", place + 1);
            let of_node = directory.join(&name);
            std::fs::create_dir_all(&of_node).map_err(|error| format!("{}: {error}", of_node.display()))?;
            let wanted = gateway::Options {
                parts: Vec::new(),
                runtimes: vec![gateway::Runtime::Oci],
                selvedge_program: options.selvedge_program.clone(),
                ..gateway::Options::default()
            };
            let (site, programs, missing) = Site::on(host.clone(), (&wanted, helper), &of_node)?;
            let runtime = match (options.runtime, missing.first()) {
                (Some(Runtime::Oci), Some(reason)) => return Err(reason.clone()),
                (None | Some(Runtime::Oci), None) => Runtime::Oci,
                _ => Runtime::Process,
            };
            about = programs;
            about.push(share().about(runtime));
            let node = Node::start(site, name, host.address(), runtime)?;
            if let Some(first) = all.first() {
                node.joins(first)?;
            }
            all.push(node);
        }
        let nodes = Nodes {
            all,
            network,
            options: options.clone(),
            state: State::default(),
        };
        nodes.wait_until_joined()?;
        about.extend(proxies::about());
        Ok((nodes, about))
    }

    /// Each of them.
    pub(super) fn all(&self) -> &[Node] {
        &self.all
    }

    /// Has each node the pods of a cell, lines its delay, and, where one is given, requests led by a policy; returns once
    /// each node knows.
    ///
    /// # Errors
    /// It does not become so in a minute; in words.
    pub(super) fn set(&mut self, cell: &Cell, policy: Option<Policy>) -> Result<(), String> {
        let wanted = State {
            pods: cell.pods,
            work: cell.work,
            round_trip_ms: cell.round_trip_ms,
            policy: policy.or(self.state.policy),
        };
        let has_other_pods = (wanted.pods, wanted.work) != (self.state.pods, self.state.work);
        if has_other_pods {
            for (node, count) in self.all.iter_mut().zip(wanted.pods) {
                node.scale(count, wanted.work, &self.options)?;
            }
        }
        if let Some(policy) = wanted.policy
            && (has_other_pods || wanted.policy != self.state.policy)
        {
            for node in &self.all {
                node.edge.apply(&service(policy, wanted.work))?;
            }
            self.wait_until_known(wanted.pods, policy)?;
        }
        if wanted.round_trip_ms != self.state.round_trip_ms {
            let set = self.network.set_round_trip_us(u64::from(wanted.round_trip_ms) * 1_000);
            set.map_err(|error| error.to_string())?;
            pause(ECHOES)?;
        }
        self.state = wanted;
        Ok(())
    }

    /// Where a node reaches every pod past the edges: its own where they are, others by a port of their node.
    pub(super) fn pods_seen_from(&self, place: usize) -> Vec<SocketAddr> {
        let of_node = |(other, node): (usize, &Node)| node.pods_seen(other == place);
        self.all.iter().enumerate().flat_map(of_node).collect()
    }

    /// Has something happen at the second node.
    ///
    /// # Errors
    /// A line or a pod does not do so.
    pub(super) fn happens(&self, event: Event) -> Result<(), String> {
        match event {
            Event::CutOff | Event::Returns => self.network.cut_off(SECOND).map_err(|error| error.to_string()),
            Event::Slow => self.all[SECOND].change(SLOWER * self.options.service_ms),
            Event::Moves => Ok(()),
        }
    }

    /// Has the second node be there again, which was cut off.
    ///
    /// # Errors
    /// A line does not do so.
    pub(super) fn returns(&self) -> Result<(), String> {
        self.network.mend(SECOND).map_err(|error| error.to_string())
    }

    /// Has all be as it was before; returns once each node knows.
    ///
    /// # Errors
    /// It does not become so in a minute; in words.
    pub(super) fn undo(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::CutOff | Event::Returns => {
                self.returns()?;
                self.wait_until_joined()?;
                self.wait_until_known(self.state.pods, self.state.policy.unwrap_or_default())?;
            }
            Event::Slow => self.all[SECOND].change(self.options.service_ms)?,
            Event::Moves => return Ok(()),
        }
        Ok(pause(forgotten(&self.options))?)
    }

    fn wait_until_joined(&self) -> Result<(), String> {
        let began = Instant::now();
        for node in &self.all {
            loop {
                let known: Vec<Known> = node.listed("nodes")?;
                if known.iter().filter(|one| !one.is_here && one.is_connected).count() == NODES - 1 {
                    break;
                }
                if began.elapsed() > PATIENCE {
                    let said = node.edge.run(&["get", "nodes"]).unwrap_or_default();
                    return Err(format!("{} is alone after {PATIENCE:?}: {}", node.name(), said.trim()));
                }
                pause(STEP)?;
            }
        }
        Ok(())
    }

    /// Until each node says of the service what the others have of it.
    fn wait_until_known(&mut self, pods: [u32; NODES], policy: Policy) -> Result<(), String> {
        let began = Instant::now();
        let names: Vec<String> = self.all.iter().map(|node| node.name().to_owned()).collect();
        for (place, node) in self.all.iter_mut().enumerate() {
            loop {
                let services: Vec<Service> = node.listed("services")?;
                let found = services.iter().find(|service| service.name == NAME);
                if let Some(service) = found.filter(|service| knows(service, place, (&names, pods), policy)) {
                    node.service = service.address;
                    break;
                }
                if began.elapsed() > PATIENCE {
                    return Err(format!(
                        "{} knows after {PATIENCE:?} of the service at other nodes: {found:?}; they have {pods:?}",
                        node.name()
                    ));
                }
                pause(STEP)?;
            }
        }
        Ok(())
    }
}

/// Until edges ask a node again as if nothing had been: who fails is not asked for twice as long each time (decision 51), in
/// all no longer than twice the time in which something happened.
pub(super) fn forgotten(options: &Options) -> Duration {
    const LEAST: Duration = Duration::from_secs(2);
    LEAST + 2 * options.measure()
}

/// Whether a node knows of each other what that has; of what stays where it is asked nobody tells.
fn knows(service: &Service, place: usize, (names, pods): (&[String], [u32; NODES]), policy: Policy) -> bool {
    let ready = |name: &String| {
        let there = service.elsewhere.iter().find(|other| other.node == *name);
        there.map_or(0, |there| there.ready)
    };
    let wanted = |count: u32| if policy == Policy::Local { 0 } else { count };
    let mut others = names.iter().zip(pods).enumerate().filter(|(other, _)| *other != place);
    service.address.is_some() && others.all(|(_, (name, count))| ready(name) == wanted(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_knows_once_it_says_of_each_other_what_that_has_and_of_local_pods_nothing() {
        let service = |ready: &[(&str, u32)]| Service {
            name: NAME.to_owned(),
            address: Some(Ipv4Addr::LOCALHOST),
            elsewhere: (ready.iter())
                .map(|(node, ready)| Elsewhere {
                    node: (*node).to_owned(),
                    ready: *ready,
                })
                .collect(),
        };
        let names = ["a", "b", "c"].map(str::to_owned);
        let knows = |ready, policy| knows(&service(ready), 0, (&names, [8, 3, 0]), policy);
        assert!(knows(&[("b", 3)], Policy::Random));
        assert!(!knows(&[("b", 2)], Policy::Random) && !knows(&[], Policy::Random));
        assert!(!knows(&[("b", 3)], Policy::Local) && knows(&[], Policy::Local));
    }
}
