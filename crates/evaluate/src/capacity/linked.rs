//! A cloud and an edge behind it, as a user sets them up: both on this machine, or each on a host of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::contender::{On, Site};
use super::http::Door;
use crate::arms::{self, ServerProcess};
use crate::generator::login::Secret;
use crate::generator::socket::Endpoint;
use crate::network::{Host, Network, Place};

/// The edge's name in its cloud.
const EDGE: &str = "edge-1";
/// How long the cloud and the edge may take to be ready, to stop, and to meet.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);

/// Both, and where they are.
pub(super) struct Linked<'a> {
    pub(super) site: &'a Site,
    pub(super) directory: PathBuf,
    database: Option<String>,
    /// That of the cloud, and that of the edge.
    hosts: [Host; 2],
    /// Doors of the cloud: of clients, of edges, of HTTP without and with TLS.
    cloud: [SocketAddr; 4],
    edge: [SocketAddr; 2],
}

/// One side of the link, as commands and metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Cloud,
    Edge,
}

/// What became of the messages that routes send upstream, those of all routes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    pub(super) received: u64,
    pub(super) delivered: u64,
    pub(super) queued: u64,
    pub(super) dropped: u64,
}

impl Ledger {
    /// As the page of metrics has it.
    fn read(page: &str) -> Ledger {
        Ledger {
            received: sum(page, "selvedge_upstream_received_total"),
            delivered: sum(page, "selvedge_upstream_delivered_total"),
            queued: sum(page, "selvedge_upstream_queued_messages"),
            dropped: sum(page, "selvedge_upstream_dropped_total"),
        }
    }
}

impl<'a> Linked<'a> {
    /// Sets both up, and starts neither. `database`: PostgreSQL's URL, if it is not the embedded one. Without a
    /// `network` both are on this machine.
    pub(super) fn set_up(
        site: &'a Site,
        name: &str,
        database: Option<&str>,
        network: Option<&Network>,
    ) -> Result<Linked<'a>, String> {
        let host = |place| network.map_or_else(Host::loopback, |network| network.host(place).clone());
        let hosts = [host(Place::Cloud), host(Place::Edge)];
        let free = |side: Side| arms::free_address(Some(&hosts[side as usize]));
        let linked = Linked {
            site,
            directory: site.directory.join(name),
            database: database.map(str::to_owned),
            cloud: [
                free(Side::Cloud)?,
                free(Side::Cloud)?,
                free(Side::Cloud)?,
                free(Side::Cloud)?,
            ],
            edge: [free(Side::Edge)?, free(Side::Edge)?],
            hosts: hosts.clone(),
        };
        for side in [Side::Cloud, Side::Edge] {
            let data = linked.data(side);
            std::fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        }
        // The first start makes the authority that the edge is to believe.
        linked.start(Side::Cloud)?.stop(PATIENCE)?;
        linked.let_in()?;
        Ok(linked)
    }

    pub(super) fn data(&self, side: Side) -> PathBuf {
        self.directory.join(match side {
            Side::Cloud => "cloud",
            Side::Edge => "edge",
        })
    }

    fn host(&self, side: Side) -> &Host {
        &self.hosts[side as usize]
    }

    /// Where clients of a side find it; they are on its host.
    pub(super) fn endpoint(&self, side: Side) -> Endpoint {
        let address = match side {
            Side::Cloud => self.cloud[0],
            Side::Edge => self.edge[0],
        };
        Endpoint {
            address,
            tls: None,
            from: Some(self.host(side).clone()),
        }
    }

    /// Where a side speaks HTTP.
    pub(super) fn door(&self, side: Side) -> Door {
        let address = match side {
            Side::Cloud => self.cloud[2],
            Side::Edge => self.edge[1],
        };
        Door {
            address,
            host: self.host(side).clone(),
        }
    }

    fn let_in(&self) -> Result<(), String> {
        let added = self.site.add("edge", &[EDGE.to_owned()], &self.data(Side::Cloud))?;
        let added = added
            .first()
            .ok_or_else(|| format!("no password was made for {EDGE}"))?;
        let listen = format!("mqtt = [\"{}\"]\nhttp = [\"{}\"]\n", self.edge[0], self.edge[1]);
        let edge = EdgeFiles {
            name: EDGE,
            password: added,
            head: "",
            listen: &listen,
            store: "limit_bytes = 34359738368\n",
            link: "bytes = 17179869184\n",
        };
        self.write(&edge, &self.directory, &self.data(Side::Edge))?;
        let data = self.data(Side::Edge).display().to_string();
        let unlimited = ["tenant", "set", "default", "--upstream-bytes", "none", "--data", &data];
        self.site.selvedge(&unlimited).map(|_| ())
    }

    /// Writes the configuration of an edge of this cloud into `directory`.
    pub(super) fn write(&self, edge: &EdgeFiles<'_>, directory: &Path, data: &Path) -> Result<(), String> {
        let password = directory.join("password");
        let quoted = |path: &Path| format!("'{}'", path.display());
        let text = format!(
            "data = {data}\nallow_anonymous = true\n{head}[listen]\n{listen}[store]\n{store}\
             [link]\nurl = \"mqtts://{link}\"\nuser_name = \"{name}\"\npassword_file = {password}\nca = {ca}\n{more}",
            data = quoted(data),
            head = edge.head,
            listen = edge.listen,
            store = edge.store,
            link = self.cloud[1],
            name = edge.name,
            password = quoted(&password),
            ca = quoted(&self.data(Side::Cloud).join("ca.pem")),
            more = edge.link,
        );
        for (path, text) in [(password, &edge.password.0), (configuration(directory), &text)] {
            std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Starts a side, and waits until it accepts connections.
    pub(super) fn start(&self, side: Side) -> Result<ServerProcess, String> {
        let (arguments, cpu) = match side {
            Side::Edge => (edge_arguments(&self.directory), self.site.cpus.server),
            Side::Cloud => (self.cloud_arguments(), self.site.cpus.cloud),
        };
        let (directory, host) = (self.data(side), self.host(side));
        let mut server = self.site.start_selvedge(&arguments, &directory, On { host, cpu })?;
        let address = self.endpoint(side).address;
        let ready = host.enter(|| server.wait_until_ready(address));
        ready.map_err(|error| error.to_string())??;
        Ok(server)
    }

    fn cloud_arguments(&self) -> Vec<String> {
        let mut arguments = vec!["cloud".to_owned(), "--allow-anonymous".to_owned(), "--data".to_owned()];
        arguments.push(self.data(Side::Cloud).display().to_string());
        for (flag, address) in ["--mqtt", "--mqtts", "--http", "--https"].iter().zip(self.cloud) {
            arguments.extend([(*flag).to_owned(), address.to_string()]);
        }
        if let Some(url) = &self.database {
            arguments.extend(["--database".to_owned(), url.clone()]);
        }
        arguments
    }

    /// What a side's ledgers say: of the edge's way to the cloud, in the cloud of the way into the database.
    pub(super) fn ledger(&self, side: Side) -> Result<Ledger, String> {
        Ok(Ledger::read(&self.door(side).get("/metrics", None)?))
    }

    /// Messages that came to the cloud from its edges, each counted once.
    pub(super) fn arrived(&self) -> Result<u64, String> {
        let page = self.door(Side::Cloud).get("/metrics", None)?;
        Ok(sum(&page, "selvedge_edge_messages_total"))
    }

    /// Waits until a side, which is `server`, has brought so many messages to where its routes send them; when that
    /// was, to 20 ms.
    pub(super) fn reaches(
        &self,
        (side, server): (Side, &mut ServerProcess),
        messages: impl Fn() -> u64,
        limit: Duration,
    ) -> Result<Instant, String> {
        self.waits_for((side, server), limit, |ledger| ledger.delivered >= messages())
    }

    /// Waits until the ledger of a side, which is `server`, is as asked; when that was, to 20 ms.
    pub(super) fn waits_for(
        &self,
        (side, server): (Side, &mut ServerProcess),
        limit: Duration,
        is_so: impl Fn(&Ledger) -> bool,
    ) -> Result<Instant, String> {
        let until = Instant::now() + limit;
        loop {
            let ledger = self.ledger(side)?;
            if is_so(&ledger) {
                return Ok(Instant::now());
            }
            if server.ended_within(STEP) {
                return Err(server.ended().unwrap_or_default());
            }
            if Instant::now() > until {
                return Err(format!("after {limit:?} its ledger is {ledger:?}"));
            }
        }
    }
}

/// What is an edge's own.
pub(super) struct EdgeFiles<'a> {
    pub(super) name: &'a str,
    pub(super) password: &'a Secret,
    /// Lines of its configuration: before all parts, and of three of them.
    pub(super) head: &'a str,
    pub(super) listen: &'a str,
    pub(super) store: &'a str,
    pub(super) link: &'a str,
}

fn configuration(directory: &Path) -> PathBuf {
    directory.join("edge.toml")
}

/// Of an edge whose configuration is in `directory`.
pub(super) fn edge_arguments(directory: &Path) -> Vec<String> {
    let file = configuration(directory).display().to_string();
    vec!["edge".to_owned(), "--config".to_owned(), file]
}

/// All values of a metric together.
fn sum(page: &str, name: &str) -> u64 {
    let of_metric = page
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    of_metric
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

impl Drop for Linked<'_> {
    fn drop(&mut self) {
        // What stays goes with the run's directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_is_the_sum_over_routes_and_reasons() {
        let page = "# TYPE selvedge_upstream_received_total counter\n\
            selvedge_upstream_received_total{tenant=\"default\",route=\"a\"} 7\n\
            selvedge_upstream_received_total{tenant=\"default\",route=\"b\"} 2\n\
            selvedge_upstream_delivered_total{tenant=\"default\",route=\"a\"} 4\n\
            selvedge_upstream_dropped_total{tenant=\"default\",route=\"a\",reason=\"expired\"} 1\n\
            selvedge_upstream_dropped_total{tenant=\"default\",route=\"a\",reason=\"full\"} 1\n\
            selvedge_upstream_queued_messages{tenant=\"default\",route=\"a\"} 3\n\
            selvedge_upstream_queued_bytes{tenant=\"default\",route=\"a\"} 300\n";
        let ledger = Ledger {
            received: 9,
            delivered: 4,
            queued: 3,
            dropped: 2,
        };
        assert_eq!(Ledger::read(page), ledger);
    }
}
