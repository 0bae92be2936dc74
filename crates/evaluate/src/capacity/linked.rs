//! A cloud and an edge behind it, on loopback, as a user sets them up.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::contender::Site;
use crate::arms::{self, ServerProcess};
use crate::generator::socket::Endpoint;

/// The edge's name in its cloud.
const EDGE: &str = "edge-1";
/// How long the cloud and the edge may take to be ready, to stop, and to meet.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(20);
/// Bytes of a page of metrics, at most.
const PAGE_BYTES_MAX: u64 = 4 << 20;

/// Both, and where they are.
pub(super) struct Linked<'a> {
    site: &'a Site,
    directory: PathBuf,
    database: Option<String>,
    /// Doors of the cloud: of clients, of edges, of HTTP without and with TLS.
    cloud: [SocketAddr; 4],
    edge: [SocketAddr; 2],
}

/// One side of the link, as commands and metrics name it.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Cloud,
    Edge,
}

impl<'a> Linked<'a> {
    /// Sets both up, and starts neither. `database`: PostgreSQL's URL, if it is not the embedded one.
    pub(super) fn set_up(site: &'a Site, name: &str, database: Option<&str>) -> Result<Linked<'a>, String> {
        let free = || arms::free_address().map_err(|error| format!("no free port on loopback: {error}"));
        let linked = Linked {
            site,
            directory: site.directory.join(name),
            database: database.map(str::to_owned),
            cloud: [free()?, free()?, free()?, free()?],
            edge: [free()?, free()?],
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

    fn data(&self, side: Side) -> PathBuf {
        self.directory.join(match side {
            Side::Cloud => "cloud",
            Side::Edge => "edge",
        })
    }

    /// Where clients of a side find it.
    pub(super) fn endpoint(&self, side: Side) -> Endpoint {
        let address = match side {
            Side::Cloud => self.cloud[0],
            Side::Edge => self.edge[0],
        };
        Endpoint {
            address,
            tls: None,
            from: None,
        }
    }

    fn let_in(&self) -> Result<(), String> {
        let added = self.site.add("edge", EDGE, &self.data(Side::Cloud))?;
        let (password, file) = (self.directory.join("password"), self.configuration());
        let quoted = |path: &Path| format!("'{}'", path.display());
        let text = format!(
            "data = {data}\nallow_anonymous = true\n[listen]\nmqtt = [\"{mqtt}\"]\nhttp = [\"{http}\"]\n\
             [store]\nlimit_bytes = 34359738368\n\
             [link]\nurl = \"mqtts://{link}\"\nuser_name = \"{EDGE}\"\npassword_file = {password}\nca = {ca}\nbytes = 17179869184\n",
            data = quoted(&self.data(Side::Edge)),
            mqtt = self.edge[0],
            http = self.edge[1],
            link = self.cloud[1],
            password = quoted(&password),
            ca = quoted(&self.data(Side::Cloud).join("ca.pem")),
        );
        for (path, text) in [(&password, &added.0), (&file, &text)] {
            std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        let data = self.data(Side::Edge).display().to_string();
        let unlimited = ["tenant", "set", "default", "--upstream-bytes", "none", "--data", &data];
        self.site.selvedge(&unlimited).map(|_| ())
    }

    fn configuration(&self) -> PathBuf {
        self.directory.join("edge.toml")
    }

    /// Starts a side, and waits until it accepts connections.
    pub(super) fn start(&self, side: Side) -> Result<ServerProcess, String> {
        let arguments = match side {
            Side::Edge => ["edge", "--config"]
                .map(str::to_owned)
                .into_iter()
                .chain([self.configuration().display().to_string()])
                .collect(),
            Side::Cloud => self.cloud_arguments(),
        };
        let directory = self.data(side);
        let mut server = self.site.start_selvedge(&arguments, &directory)?;
        server.wait_until_ready(self.endpoint(side).address)?;
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

    /// Messages that a side has brought to where its routes send them: from the edge to the cloud, there into the database.
    pub(super) fn delivered(&self, side: Side) -> Result<u64, String> {
        let address = match side {
            Side::Cloud => self.cloud[2],
            Side::Edge => self.edge[1],
        };
        let page = fetch_metrics(address).map_err(|error| format!("metrics of {address}: {error}"))?;
        let lines = page
            .lines()
            .filter(|line| line.starts_with("selvedge_upstream_delivered_total{"));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        Ok(values.sum())
    }

    /// Waits until a side, which is `server`, has brought so many messages there; when that was, to 20 ms.
    pub(super) fn reaches(
        &self,
        (side, server): (Side, &mut ServerProcess),
        messages: impl Fn() -> u64,
        limit: Duration,
    ) -> Result<Instant, String> {
        let until = Instant::now() + limit;
        loop {
            let delivered = self.delivered(side)?;
            if delivered >= messages() {
                return Ok(Instant::now());
            }
            if server.ended_within(STEP) {
                return Err(server.ended().unwrap_or_default());
            }
            if Instant::now() > until {
                return Err(format!("{delivered} of {} messages after {limit:?}", messages()));
            }
        }
    }
}

impl Drop for Linked<'_> {
    fn drop(&mut self) {
        // What stays goes with the run's directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn fetch_metrics(address: SocketAddr) -> std::io::Result<String> {
    let mut socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    socket.take(PAGE_BYTES_MAX).read_to_string(&mut page)?;
    Ok(page)
}
