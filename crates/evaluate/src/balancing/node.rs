//! One node of the site: an edge on a host of its own, with its pods.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::process::{Command, Stdio};

use balance::Policy;
use serde::Deserialize;

use super::NODES;
use super::load;
use super::options::{Options, Runtime};
use super::pod::CHANGE;
use super::record::Work;
use crate::gateway::{About, Edge, Site, add_file, found};

/// Of the applications and of the service.
pub(super) const NAME: &str = "pods";
const IMAGE: &str = "pod:1";
/// Where a pod listens, in a network of its own.
const POD_PORT: u16 = 8_080;
/// Where the service does.
const SERVICE_PORT: u16 = 80;
/// Where other nodes reach the first pod of a node past its edge; the next ones follow.
const FIRST_PORT: u16 = 20_000;
const SITE_PORT: u16 = 7_000;
const HTTPS_PORT: u16 = 7_001;

/// One that runs.
pub(super) struct Node {
    /// It ends before what it stands on.
    pub(super) edge: Edge,
    pub(super) site: Site,
    name: String,
    address: Ipv4Addr,
    runtime: Runtime,
    /// Where its pods are reached by itself alone.
    pods: Vec<SocketAddr>,
    /// Where it reaches the service.
    pub(super) service: Option<Ipv4Addr>,
}

/// What the pods of a node may take together.
pub(super) struct Share {
    cpu_millis: u64,
    memory_bytes: u64,
}

/// The paper's nodes have 4 cores and 4 GB: each has its part of this machine's processors, and a GB for each of them.
pub(super) fn share() -> Share {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let cpu_millis = 1_000 * cores / NODES as u64;
    Share {
        cpu_millis,
        memory_bytes: cpu_millis * 1_000_000,
    }
}

impl Share {
    pub(super) fn about(&self, runtime: Runtime) -> About {
        let (cores, megabytes) = (self.cpu_millis as f64 / 1e3, self.memory_bytes / 1_000_000);
        About {
            name: "pods".to_owned(),
            version: "pods of each node".to_owned(),
            settings: format!(
                "{}, together {cores:.2} cores and {megabytes} MB, the paper's 4 and 4 GB by what this machine has",
                match runtime {
                    Runtime::Oci => "containers",
                    Runtime::Process => "processes",
                }
            ),
        }
    }
}

/// What `site invite` prints.
#[derive(Deserialize)]
struct Invitation {
    command: String,
}

impl Node {
    /// Starts its edge, and gives it the image of a pod.
    ///
    /// # Errors
    /// It does not start, in words.
    pub(super) fn start(site: Site, name: String, address: Ipv4Addr, runtime: Runtime) -> Result<Node, String> {
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
        if runtime == Runtime::Oci {
            let folder = site.make_directory("pod")?;
            add_file(&folder, &site.helper.program)?;
            let program = site.helper.program.display().to_string();
            edge.run(&["image", "build", IMAGE, &folder.display().to_string(), "--", &program])?;
        }
        Ok(Node {
            edge,
            site,
            name,
            address,
            runtime,
            pods: Vec::new(),
            service: None,
        })
    }

    /// Has it be one of the site that began with the first.
    ///
    /// # Errors
    /// One of the two refuses, in words.
    pub(super) fn joins(&self, first: &Node) -> Result<(), String> {
        let printed = first.edge.run(&["site", "invite", &self.name, "--output", "json"])?;
        let invitation: Invitation = serde_json::from_str(&printed)
            .map_err(|_| "`site invite --output json` printed no invitation".to_owned())?;
        let words: Vec<&str> = invitation.command.split_whitespace().skip(1).collect();
        self.site.enter(|| self.edge.run(&words))?.map(drop)
    }

    /// What a command lists.
    pub(super) fn listed<T: for<'a> Deserialize<'a>>(&self, what: &str) -> Result<Vec<T>, String> {
        let printed = self.edge.run(&["get", what, "--output", "json"])?;
        serde_json::from_str(&printed).map_err(|error| format!("`get {what} --output json`: {error}"))
    }

    /// Has it so many pods, each of which others reach by a port of its own.
    pub(super) fn scale(&mut self, count: u32, work: Work, options: &Options) -> Result<(), String> {
        self.limit(work)?;
        match self.runtime {
            Runtime::Oci => self.scale_containers(count, work, options),
            Runtime::Process => self.scale_programs(count, work, options),
        }
    }

    /// Those of a node share its network, and so each is an application of its own.
    fn scale_programs(&mut self, count: u32, work: Work, options: &Options) -> Result<(), String> {
        let name = |number: usize| format!("{NAME}-{number}");
        for number in count as usize..self.pods.len() {
            self.edge.delete(&name(number))?;
        }
        self.pods = Vec::new();
        for number in 0..count as usize {
            let port = FIRST_PORT + number as u16;
            let (words, program) = (self.words(port, work, options), self.site.helper.program.display());
            self.edge.apply(&deployment(&name(number), 1, port, &format!(
                "runtimeClassName: process\n      terminationGracePeriodSeconds: 0\n      containers:\n        - {{name: main, \
                 image: '{program}', args: {words}, "
            )))?;
            self.pods.push((Ipv4Addr::LOCALHOST, port).into());
        }
        for number in 0..count as usize {
            self.edge
                .wait(&name(number), |one| one.is_ready() && one.containers.len() == 1)?;
        }
        Ok(())
    }

    fn scale_containers(&mut self, count: u32, work: Work, options: &Options) -> Result<(), String> {
        let (words, program) = (self.words(POD_PORT, work, options), self.site.helper.program.display());
        self.edge.apply(&deployment(NAME, count, POD_PORT, &format!(
            "terminationGracePeriodSeconds: 0\n      containers:\n        - {{name: main, image: '{IMAGE}', command: ['{program}'], \
             args: {words}, "
        )))?;
        let application = self.edge.wait(NAME, |one| {
            one.replicas == count && one.is_ready() && one.containers.len() == count as usize
        })?;
        let addresses = application.containers.iter().map(|container| {
            let address = container.address.as_deref().unwrap_or_default();
            let ip: Ipv4Addr = address.parse().map_err(|_| format!("a pod's address is {address:?}"))?;
            Ok((ip, POD_PORT).into())
        });
        self.pods = addresses.collect::<Result<_, String>>()?;
        let led = self.pods.iter().enumerate().map(|(number, pod)| {
            let port = usize::from(FIRST_PORT) + number;
            format!("ip daddr {} tcp dport {port} dnat to {pod}\n", self.address)
        });
        let rules = format!(
            "add table ip evaluate\ndelete table ip evaluate\ntable ip evaluate {{\nchain prerouting {{\ntype nat hook \
             prerouting priority dstnat - 10; policy accept;\n{}}}\n}}\n",
            led.collect::<String>()
        );
        self.site.enter(|| nft(&rules))?
    }

    /// A pod that takes no time would take all that it may have.
    fn limit(&self, work: Work) -> Result<(), String> {
        let share = share();
        let cpu_millis = match work {
            Work::Wait | Work::Calculate => share.cpu_millis.to_string(),
            Work::None => "none".to_owned(),
        };
        let memory_bytes = share.memory_bytes.to_string();
        let limits = ["--app-cpu-millis", &cpu_millis, "--app-memory-bytes", &memory_bytes];
        self.edge.run(&[&["tenant", "set", "default"], &limits[..]].concat())?;
        Ok(())
    }

    /// What a pod is started with, as a list of YAML.
    fn words(&self, port: u16, work: Work, options: &Options) -> String {
        let work = match work {
            Work::Wait => "wait",
            Work::Calculate => "calculate",
            Work::None => "none",
        };
        let words = self.site.helper.arguments(&[
            "pod",
            "--listen",
            &format!("0.0.0.0:{port}"),
            "--service-ms",
            &options.service_ms.to_string(),
            "--work",
            work,
            "--name",
            &self.name,
        ]);
        serde_json::to_string(&words).unwrap_or_default()
    }

    /// Has its pods take another time for each request.
    pub(super) fn change(&self, service_ms: u32) -> Result<(), String> {
        let tell = |pod: &SocketAddr| {
            let told = load::tell(*pod, &format!("{CHANGE}{service_ms}"));
            told.map_err(|error| format!("a pod of {}, told to take {service_ms} ms: {error}", self.name))
        };
        self.site.enter(|| self.pods.iter().try_for_each(tell))?
    }

    /// Where its pods are reached, in their order: by itself, or by others by a port of it.
    pub(super) fn pods_seen(&self, by_itself: bool) -> Vec<SocketAddr> {
        let reached = |(number, pod): (usize, &SocketAddr)| match by_itself {
            true => *pod,
            false => SocketAddr::from((self.address, FIRST_PORT + number as u16)),
        };
        self.pods.iter().enumerate().map(reached).collect()
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

/// So many replicas of a pod, whose container begins so.
fn deployment(name: &str, replicas: u32, port: u16, container: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  replicas: {replicas}\n  selector: \
         {{matchLabels: {{pod: {name}}}}}\n  template:\n    metadata: {{labels: {{pod: {name}, app: {NAME}}}}}\n    spec:\n      \
         {container}ports: [{{name: web, containerPort: {port}}}]}}\n"
    )
}

/// The service, led by a policy. Where it is of one node the kernel would lead past the door, which is to be measured where
/// nothing else is: to start slowly takes a door.
pub(super) fn service(policy: Policy, work: Work) -> String {
    let more = match work {
        Work::Wait | Work::Calculate => "",
        Work::None => ", selvedge.dev/slow-start: 100ms",
    };
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {NAME}, annotations: {{selvedge.dev/balance: {}{more}}}}}\nspec:\n  \
         selector: {{app: {NAME}}}\n  ports: [{{port: {SERVICE_PORT}, targetPort: web, appProtocol: http}}]\n",
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
