//! The first paper's three models: a cloud on the cloud's host, an edge on the edge's, set up as a user does, by their
//! own commands. In D-C the device speaks to the cloud and the edge's host only routes; in D-E-C the edge's link
//! carries its messages to the cloud and the calls back; in D-E there is no cloud.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use serde::Deserialize;

use super::selvedge::{self, RESPONDER_FILTER};
use super::{RunningArm, ServerProcess, Site, certificates};
use crate::generator::device_id;
use crate::generator::fleet::{Access, Protocol};
use crate::generator::login::{Login, Passwords, RESPONDER_ID, Secret};
use crate::generator::socket::Endpoint;
use crate::network::Place;
use crate::rtt::ArmKind;

/// The edge's name in its cloud.
const EDGE: &str = "edge-1";
/// How long an edge may take to reach its cloud, and how often it is asked.
const LINK_LIMIT: Duration = Duration::from_secs(20);
const LINK_STEP: Duration = Duration::from_millis(20);

/// Starts a model, its files in a directory of its own.
pub(super) fn start(kind: &ArmKind, site: &Site, name: &str) -> Result<RunningArm, String> {
    let (program, version) = selvedge::find(site.selvedge_program.as_ref(), &site.helper)?;
    let model = Model {
        site,
        program,
        directory: site.directory.join(name),
        durability: if *kind == ArmKind::DeviceEdgeCloudDisk {
            "disk"
        } else {
            "os"
        },
    };
    let (access, servers, where_) = match kind {
        ArmKind::DeviceCloud => model.device_cloud()?,
        ArmKind::DeviceEdge => model.device_edge()?,
        _ => model.device_edge_cloud()?,
    };
    let (tls, durability) = (if site.tls { "TLS" } else { "no TLS" }, model.durability);
    Ok(RunningArm {
        access,
        ready_ms: Some(servers.iter().map(|server| server.ready_ms).sum()),
        carried: Vec::new(),
        servers: servers
            .into_iter()
            .map(|server| (server.place, server.process))
            .collect(),
        version,
        settings: format!("{where_}; passwords, ACL, a route, twins; devices with {tls}; durability {durability}"),
    })
}

type Started = (Access, Vec<Server>, &'static str);

struct Model<'a> {
    site: &'a Site,
    program: PathBuf,
    directory: PathBuf,
    durability: &'static str,
}

/// A cloud or an edge that runs.
struct Server {
    place: Place,
    process: ServerProcess,
    ready_ms: f64,
}

/// Where a cloud or an edge will run, and where devices and apps will find it.
struct Node {
    place: Place,
    directory: PathBuf,
    data: PathBuf,
    door: SocketAddr,
}

impl Model<'_> {
    fn device_cloud(&self) -> Result<Started, String> {
        let cloud = self.node(Place::Cloud)?;
        let passwords = Passwords {
            devices: self.devices(&cloud)?,
            responder: self.responder(&cloud)?,
        };
        let link = self.site.free_address(Place::Cloud)?;
        let server = self.start(&cloud, &self.cloud_arguments(&cloud, link)?)?;
        let access = self.access((&cloud, &cloud), passwords)?;
        Ok((access, vec![server], "device → cloud"))
    }

    fn device_edge(&self) -> Result<Started, String> {
        let edge = self.node(Place::Edge)?;
        let passwords = Passwords {
            devices: self.devices(&edge)?,
            responder: self.responder(&edge)?,
        };
        let server = self.start(&edge, &self.arguments(&edge, "edge"))?;
        let access = self.access((&edge, &edge), passwords)?;
        Ok((access, vec![server], "device → edge, without a cloud"))
    }

    fn device_edge_cloud(&self) -> Result<Started, String> {
        let (cloud, edge) = (self.node(Place::Cloud)?, self.node(Place::Edge)?);
        let link = self.site.free_address(Place::Cloud)?;
        let passwords = Passwords {
            devices: self.devices(&edge)?,
            responder: self.responder(&cloud)?,
        };
        let credential = self.one(&cloud, "edge", EDGE)?;
        let cloud_server = self.start(&cloud, &self.cloud_arguments(&cloud, link)?)?;
        let configuration = joined(&cloud, &edge, link, &credential)?;
        let mut arguments = self.arguments(&edge, "edge");
        arguments.extend(["--config".to_owned(), configuration]);
        let mut edge_server = self.start(&edge, &arguments)?;
        self.linked(&edge, &mut edge_server.process)?;
        let access = self.access((&edge, &cloud), passwords)?;
        let where_ = "device → edge → cloud over the link (TLS)";
        Ok((access, vec![edge_server, cloud_server], where_))
    }

    fn node(&self, place: Place) -> Result<Node, String> {
        let directory = self
            .directory
            .join(if place == Place::Cloud { "cloud" } else { "edge" });
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Node {
            place,
            data: directory.join("data"),
            directory,
            door: self.site.free_address(place)?,
        })
    }

    fn devices(&self, node: &Node) -> Result<Vec<Secret>, String> {
        let ids: Vec<String> = (0..self.site.devices).map(device_id).collect();
        selvedge::add(&self.program, "device", &ids, &node.data)
    }

    /// The app, and the route to it.
    fn responder(&self, node: &Node) -> Result<Secret, String> {
        selvedge::apply_route(&self.program, &node.directory, &node.data)?;
        self.one(node, "app", RESPONDER_ID)
    }

    fn one(&self, node: &Node, kind: &str, id: &str) -> Result<Secret, String> {
        let added = selvedge::add(&self.program, kind, &[id.to_owned()], &node.data)?;
        added
            .into_iter()
            .next()
            .ok_or_else(|| format!("no password was made for {id}"))
    }

    fn arguments(&self, node: &Node, role: &str) -> Vec<String> {
        let door = if self.site.tls { "--mqtts" } else { "--mqtt" };
        let (data, address) = (node.data.display().to_string(), node.door.to_string());
        [role, "--data", &data, door, &address, "--durability", self.durability]
            .map(str::to_owned)
            .into()
    }

    /// `link`: the door for edges, which is there whether or not one comes.
    fn cloud_arguments(&self, node: &Node, link: SocketAddr) -> Result<Vec<String>, String> {
        let mut arguments = self.arguments(node, "cloud");
        // Its usual ports are taken by the clouds of other arms on the same host.
        let [http, https] = [
            self.site.free_address(Place::Cloud)?,
            self.site.free_address(Place::Cloud)?,
        ];
        for (door, address) in [("--http", http), ("--https", https), ("--mqtts", link)] {
            arguments.extend([door.to_owned(), address.to_string()]);
        }
        Ok(arguments)
    }

    fn start(&self, node: &Node, arguments: &[String]) -> Result<Server, String> {
        let helper = self.site.helper_at(node.place);
        let cpu = self.site.cpu_at(node.place);
        let mut process = ServerProcess::start(&helper, cpu, &self.program, arguments, &node.directory)?;
        let ready_ms = self.site.wait_until_ready(node.place, &mut process, node.door)?;
        Ok(Server {
            place: node.place,
            process,
            ready_ms,
        })
    }

    /// Waits until the edge has its cloud.
    fn linked(&self, edge: &Node, process: &mut ServerProcess) -> Result<(), String> {
        let data = edge.data.display().to_string();
        let limit = process.age() + LINK_LIMIT;
        loop {
            let printed = selvedge::output_of(&self.program, &["get", "link", "--data", &data, "--output", "json"])?;
            let link: Link = serde_json::from_str(&printed)
                .map_err(|error| format!("`selvedge get link --output json` printed no link: {error}"))?;
            if link.is_connected {
                return Ok(());
            }
            if process.ended_within(LINK_STEP) {
                return Err(process.ended().unwrap_or_default());
            }
            if process.age() > limit {
                let why = link.last_error.unwrap_or_default();
                return Err(format!("the edge did not reach its cloud in {LINK_LIMIT:?}: {why}"));
            }
        }
    }

    /// Devices are at the first node's door, the responder beside the second.
    fn access(&self, (near, far): (&Node, &Node), passwords: Passwords) -> Result<Access, String> {
        Ok(Access {
            endpoint: self.endpoint(near, Place::Device)?,
            responder: Some(self.endpoint(far, far.place)?),
            protocol: Protocol::Mqtt {
                version: self.site.protocol,
                responder_filter: RESPONDER_FILTER.to_owned(),
                login: Login::Own(Arc::new(passwords)),
            },
        })
    }

    fn endpoint(&self, node: &Node, from: Place) -> Result<Endpoint, String> {
        let tls = if self.site.tls {
            let trust = certificates::trusting(&node.data.join("ca.pem"))?;
            Some((Arc::new(trust), ServerName::IpAddress(node.door.ip().into())))
        } else {
            None
        };
        Ok(Endpoint {
            address: node.door,
            tls,
            from: self.site.host(from).cloned(),
        })
    }
}

/// What `selvedge get link --output json` prints of it.
#[derive(Deserialize)]
struct Link {
    is_connected: bool,
    last_error: Option<String>,
}

/// Writes down the edge's way to its cloud; the path of its configuration.
fn joined(cloud: &Node, edge: &Node, link: SocketAddr, credential: &Secret) -> Result<String, String> {
    let (password, file) = (edge.directory.join("cloud.password"), edge.directory.join("edge.toml"));
    // No door but those of the flags: the usual one without TLS would be in the way of another edge's.
    let text = format!(
        "[listen]\nmqtt = []\n[link]\nurl = \"mqtts://{link}\"\nuser_name = \"{EDGE}\"\npassword_file = {}\nca = {}\n",
        quoted(&password),
        quoted(&cloud.data.join("ca.pem")),
    );
    for (path, text) in [(&password, credential.0.as_str()), (&file, &text)] {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(file.display().to_string())
}

/// As TOML has it, which here is as JSON has it.
fn quoted(path: &Path) -> String {
    serde_json::Value::from(path.display().to_string()).to_string()
}
