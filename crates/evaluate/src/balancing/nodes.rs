//! A site of edges, each on a host of its own with pods of its own.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use balance::Policy;
use serde::Deserialize;

use super::options::Options;
use super::pod::CHANGE;
use super::record::Event;
use super::{NODES, load, proxies};
use crate::arms::Helper;
use crate::gateway::{self, About, Edge, Runtime, Site, add_file, found};
use crate::interrupt::pause;
use crate::network::Joined;

/// Of the applications and of the service.
const NAME: &str = "pods";
const IMAGE: &str = "pod:1";
/// Where a pod listens, in a network of its own.
const POD_PORT: u16 = 8_080;
/// Where the service does.
const SERVICE_PORT: u16 = 80;
/// Where other nodes reach the first pod of a node past its edge; the next ones follow.
const FIRST_PORT: u16 = 20_000;
const SITE_PORT: u16 = 7_000;
const HTTPS_PORT: u16 = 7_001;
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
    round_trip_ms: u32,
    /// None: no service was applied yet.
    policy: Option<Policy>,
}

/// One of them.
pub(super) struct Node {
    edge: Edge,
    pub(super) site: Site,
    name: String,
    address: Ipv4Addr,
    /// Where its pods are reached by itself alone.
    pods: Vec<Ipv4Addr>,
    /// Where it reaches the service.
    service: Option<Ipv4Addr>,
}

/// What `site invite` prints.
#[derive(Deserialize)]
struct Invitation {
    command: String,
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
                runtimes: vec![Runtime::Oci],
                selvedge_program: options.selvedge_program.clone(),
                ..gateway::Options::default()
            };
            let (site, programs, missing) = Site::on(host.clone(), (&wanted, helper), &of_node)?;
            if let Some(reason) = missing.first() {
                return Err(reason.clone());
            }
            about = programs;
            let node = Node::start(site, name, host.address())?;
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

    /// Has each node as many pods, lines this delay, and, where one is given, requests led by a policy; returns once
    /// each node knows.
    ///
    /// # Errors
    /// It does not become so in a minute; in words.
    pub(super) fn set(&mut self, pods: [u32; NODES], round_trip_ms: u32, policy: Option<Policy>) -> Result<(), String> {
        let wanted = State {
            pods,
            round_trip_ms,
            policy: policy.or(self.state.policy),
        };
        if wanted.pods != self.state.pods {
            for (node, count) in self.all.iter_mut().zip(pods) {
                node.scale(count, &self.options)?;
            }
        }
        if let Some(policy) = wanted.policy
            && (wanted.policy, wanted.pods) != (self.state.policy, self.state.pods)
        {
            for node in &self.all {
                node.edge.apply(&service(policy))?;
            }
            self.wait_until_known(pods, policy)?;
        }
        if round_trip_ms != self.state.round_trip_ms {
            let set = self.network.set_round_trip_us(u64::from(round_trip_ms) * 1_000);
            set.map_err(|error| error.to_string())?;
            pause(ECHOES)?;
        }
        self.state = wanted;
        Ok(())
    }

    /// Where a node reaches every pod past the edges: its own where they are, others by a port of their node.
    pub(super) fn pods_seen_from(&self, place: usize) -> Vec<SocketAddr> {
        let of_node = |(other, node): (usize, &Node)| -> Vec<SocketAddr> {
            let reached = |(number, pod): (usize, &Ipv4Addr)| match other == place {
                true => SocketAddr::from((*pod, POD_PORT)),
                false => SocketAddr::from((node.address, FIRST_PORT + number as u16)),
            };
            node.pods.iter().enumerate().map(reached).collect()
        };
        self.all.iter().enumerate().flat_map(of_node).collect()
    }

    /// Has something happen at the second node.
    ///
    /// # Errors
    /// A line or a pod does not do so.
    pub(super) fn happens(&self, event: Event) -> Result<(), String> {
        match event {
            Event::CutOff => self.network.cut_off(SECOND).map_err(|error| error.to_string()),
            Event::Slow => self.all[SECOND].change(SLOWER * self.options.service_ms),
            Event::Moves => Ok(()),
        }
    }

    /// Has all be as it was before; returns once each node knows.
    ///
    /// # Errors
    /// It does not become so in a minute; in words.
    pub(super) fn undo(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::CutOff => {
                self.network.mend(SECOND).map_err(|error| error.to_string())?;
                self.wait_until_joined()?;
                self.wait_until_known(self.state.pods, self.state.policy.unwrap_or_default())
            }
            Event::Slow => self.all[SECOND].change(self.options.service_ms),
            Event::Moves => Ok(()),
        }
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
                    return Err(format!("{} is alone after {PATIENCE:?}: {}", node.name, said.trim()));
                }
                pause(STEP)?;
            }
        }
        Ok(())
    }

    /// Until each node says of the service what the others have of it.
    fn wait_until_known(&mut self, pods: [u32; NODES], policy: Policy) -> Result<(), String> {
        let began = Instant::now();
        let names: Vec<String> = self.all.iter().map(|node| node.name.clone()).collect();
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
                        node.name
                    ));
                }
                pause(STEP)?;
            }
        }
        Ok(())
    }
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

impl Node {
    fn start(site: Site, name: String, address: Ipv4Addr) -> Result<Node, String> {
        let file = site.make_directory("settings")?.join("edge.toml");
        std::fs::write(&file, format!("[site]\nname = \"{name}\"\n"))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let options = [
            "--config".to_owned(),
            file.display().to_string(),
            "--site".to_owned(),
            format!("{address}:{SITE_PORT}"),
            "--https".to_owned(),
            format!("{address}:{HTTPS_PORT}"),
        ];
        let edge = Edge::start_with(&site, "edge", &options)?;
        let folder = site.make_directory("pod")?;
        add_file(&folder, &site.helper.program)?;
        let program = site.helper.program.display().to_string();
        edge.run(&["image", "build", IMAGE, &folder.display().to_string(), "--", &program])?;
        Ok(Node {
            edge,
            site,
            name,
            address,
            pods: Vec::new(),
            service: None,
        })
    }

    fn joins(&self, first: &Node) -> Result<(), String> {
        let printed = first.edge.run(&["site", "invite", &self.name, "--output", "json"])?;
        let invitation: Invitation = serde_json::from_str(&printed)
            .map_err(|_| "`site invite --output json` printed no invitation".to_owned())?;
        let words: Vec<&str> = invitation.command.split_whitespace().skip(1).collect();
        self.site.enter(|| self.edge.run(&words))?.map(drop)
    }

    /// What a command lists.
    fn listed<T: for<'a> Deserialize<'a>>(&self, what: &str) -> Result<Vec<T>, String> {
        let printed = self.edge.run(&["get", what, "--output", "json"])?;
        serde_json::from_str(&printed).map_err(|error| format!("`get {what} --output json`: {error}"))
    }

    /// Has it so many pods, and the kernel lead to each of them by a port of its own.
    fn scale(&mut self, count: u32, options: &Options) -> Result<(), String> {
        self.edge.apply(&self.deployment(count, options))?;
        let application = self.edge.wait(NAME, |one| {
            one.replicas == count && one.is_ready() && one.containers.len() == count as usize
        })?;
        let addresses = application.containers.iter().map(|container| {
            let address = container.address.as_deref().unwrap_or_default();
            address.parse().map_err(|_| format!("a pod's address is {address:?}"))
        });
        self.pods = addresses.collect::<Result<_, String>>()?;
        let led = self.pods.iter().enumerate().map(|(number, pod)| {
            let port = usize::from(FIRST_PORT) + number;
            format!("ip daddr {} tcp dport {port} dnat to {pod}:{POD_PORT}\n", self.address)
        });
        let rules = format!(
            "add table ip evaluate\ndelete table ip evaluate\ntable ip evaluate {{\nchain prerouting {{\ntype nat hook \
             prerouting priority dstnat - 10; policy accept;\n{}}}\n}}\n",
            led.collect::<String>()
        );
        self.site.enter(|| nft(&rules))?
    }

    fn deployment(&self, count: u32, options: &Options) -> String {
        let words = self.site.helper.arguments(&[
            "pod",
            "--listen",
            &format!("0.0.0.0:{POD_PORT}"),
            "--service-ms",
            &options.service_ms.to_string(),
            "--name",
            &self.name,
        ]);
        let arguments = serde_json::to_string(&words).unwrap_or_default();
        let program = self.site.helper.program.display();
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {NAME}}}\nspec:\n  replicas: {count}\n  selector: \
             {{matchLabels: {{app: {NAME}}}}}\n  template:\n    metadata: {{labels: {{app: {NAME}}}}}\n    spec:\n      \
             terminationGracePeriodSeconds: 0\n      containers:\n        - {{name: main, image: '{IMAGE}', command: \
             ['{program}'], args: {arguments}}}\n"
        )
    }

    /// Has its pods take another time for each request.
    fn change(&self, service_ms: u32) -> Result<(), String> {
        let tell = |pod: &Ipv4Addr| {
            let told = load::tell((*pod, POD_PORT).into(), &format!("{CHANGE}{service_ms}"));
            told.map_err(|error| format!("a pod of {}, told to take {service_ms} ms: {error}", self.name))
        };
        self.site.enter(|| self.pods.iter().try_for_each(tell))?
    }

    /// How it is called, and what its pods answer.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where other nodes reach it.
    pub(super) fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Where its clients ask the site.
    pub(super) fn door(&self) -> Result<SocketAddr, String> {
        let address = self.service.ok_or("the service has no address")?;
        Ok((address, SERVICE_PORT).into())
    }
}

fn service(policy: Policy) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {NAME}, annotations: {{selvedge.dev/balance: {}}}}}\nspec:\n  \
         selector: {{app: {NAME}}}\n  ports: [{{port: {SERVICE_PORT}, targetPort: {POD_PORT}, appProtocol: http}}]\n",
        policy.name()
    )
}

/// Gives the kernel rules, of the network namespace of the calling thread.
fn nft(rules: &str) -> Result<(), String> {
    let mut command = Command::new(found("nft", "nftables")?);
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let failed = |error: std::io::Error| format!("nft: {error}");
    let mut child = command.stderr(Stdio::piped()).spawn().map_err(failed)?;
    let mut input = child.stdin.take().ok_or("nft takes no rules")?;
    // One that stops at a bad line reads no further: its status says so.
    let _ = input.write_all(rules.as_bytes());
    drop(input);
    let output = child.wait_with_output().map_err(failed)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("nft: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
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
