//! Other nodes of the site: what each has of which services, and requests to them and from them.
//!
//! Each node says to all others, for each port of its services, how many endpoints are ready there. Who calls goes to a
//! node; which of its endpoints answers, that node decides, and never sends the request on.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use site::{Known, MAX_SAID_BYTES, Site, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::held;
use crate::table::Place;

/// For who opens a stream to say what it is for.
const CALL_PATIENCE: Duration = Duration::from_secs(5);
/// For a node to say whether somebody there has a connection: longer than it waits for one to be ready.
const TAKEN_PATIENCE: Duration = Duration::from_secs(65);
/// Of what a stream is for: names have 63 bytes each.
const MAX_CALL_BYTES: usize = 256;
/// Of why nobody there has it.
const MAX_REASON_BYTES: usize = 512;
/// Services that only other nodes have, of all tenants; more are not known here.
pub(crate) const MAX_FOREIGN_SERVICES: usize = 512;
/// Ports of one service.
const MAX_PORTS: usize = 16;
/// What a node says first of a request; else a reason follows, after its length.
const TAKEN: u8 = 0;
const NOT_TAKEN: u8 = 1;

/// One port of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Call {
    /// Whose service.
    pub(crate) tenant: String,
    pub(crate) service: String,
    pub(crate) port: u16,
}

/// What a stream between nodes carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Speaks {
    /// The bytes of one connection.
    Bytes,
    /// Requests of HTTP/1.1, one after the other.
    Http1,
    /// Requests of HTTP/2, many at once.
    Http2,
}

impl Call {
    /// Of the service whose door is at that place.
    pub(crate) fn at(place: &Place, port: u16) -> Self {
        Call {
            tenant: place.tenant.clone(),
            service: place.of.clone(),
            port,
        }
    }
}

/// What there is of that at a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Has {
    /// Endpoints that are ready.
    pub(crate) endpoints: u16,
    /// Whether some sleep, that a request wakes.
    pub(crate) wakes: bool,
    /// Whether there will be more for those who ask: for requests from there no other node needs any.
    pub(crate) grows: bool,
}

/// What another node has of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    pub(crate) node: Arc<str>,
    pub(crate) has: Has,
}

/// By the service and its port.
pub(crate) type OfTenant = BTreeMap<String, BTreeMap<u16, Vec<Elsewhere>>>;

/// What other nodes have, by the tenant.
pub(crate) type Others = BTreeMap<String, OfTenant>;

/// What this node says to the others, of all services here: those that fit, and how many do not.
pub(crate) fn say(services: &BTreeMap<Call, Has>) -> (Vec<u8>, usize) {
    let mut fitting: Vec<(&Call, &Has)> = services.iter().collect();
    loop {
        let said = postcard::to_allocvec(&fitting).expect("names and numbers can be written");
        if said.len() <= MAX_SAID_BYTES {
            return (said, services.len() - fitting.len());
        }
        let fits = fitting.len() * MAX_SAID_BYTES / said.len();
        fitting.truncate(fits.min(fitting.len() - 1));
    }
}

/// What nodes that others are connected with have. Of one that is not, and of which somebody has heard within a day, it is
/// known which services it had.
pub(crate) fn heard(known: &[Known]) -> Others {
    let mut others = Others::new();
    for node in known {
        let name: Arc<str> = node.node.as_str().into();
        let said: Vec<(Call, Has)> = match postcard::from_bytes(&node.said) {
            Ok(said) => said,
            Err(error) if !node.said.is_empty() => {
                tracing::debug!(node = node.node, %error, "what it says of its services cannot be read");
                continue;
            }
            Err(_) => continue,
        };
        let is_there = node.is_alive && node.is_connected;
        for (call, has) in said {
            if !is_name(&call.tenant) || !is_name(&call.service) || call.port == 0 {
                continue;
            }
            let ports = others.entry(call.tenant).or_default().entry(call.service).or_default();
            if ports.len() >= MAX_PORTS && !ports.contains_key(&call.port) {
                continue;
            }
            let nodes: &mut Vec<Elsewhere> = ports.entry(call.port).or_default();
            // Each node has it once, whatever it says.
            if nodes.last().is_none_or(|last| last.node != name) {
                nodes.push(Elsewhere {
                    node: Arc::clone(&name),
                    has: if is_there { has } else { Has::default() },
                });
            }
        }
    }
    others
}

/// Whether it is a label of the DNS (RFC 1123, 2.1), as names of tenants and services are.
fn is_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(is_inner) && !name.starts_with('-') && !name.ends_with('-')
}

/// The way to the other nodes; there is none before the edge is in a site, and when that is over.
#[derive(Clone, Default)]
pub(crate) struct Ways {
    site: Arc<Mutex<Weak<Site>>>,
    near: Arc<Mutex<Arc<Near>>>,
}

/// Nodes that a request may go to: round trips, as far as they are known.
pub(crate) type Near = BTreeMap<String, Option<Duration>>;

impl Ways {
    /// Those of this site from now on.
    pub(crate) fn set(&self, site: Weak<Site>) {
        *held(&self.site) = site;
    }

    /// Requests go to these from now on.
    pub(crate) fn set_near(&self, near: Near) {
        let mut held = held(&self.near);
        if **held != near {
            *held = Arc::new(near);
        }
    }

    pub(crate) fn near(&self) -> Arc<Near> {
        Arc::clone(&held(&self.near))
    }

    /// A stream to somebody at a node who has the connection; of requests, to the node itself.
    ///
    /// # Errors
    /// Why nobody there has it.
    pub(crate) async fn call(&self, node: &str, call: &Call, speaks: Speaks) -> Result<Stream, String> {
        let site = held(&self.site).upgrade().ok_or("this edge is in no site")?;
        let calling = async move {
            let mut stream = site.open(node).await?;
            drop(site);
            let call = postcard::to_allocvec(&(call, speaks)).expect("names and numbers can be written");
            stream
                .write_all(&[&(call.len() as u16).to_be_bytes(), &*call].concat())
                .await?;
            stream.flush().await?;
            match stream.read_u8().await? {
                TAKEN => Ok(Ok(stream)),
                _ => Ok(Err(reason(&mut stream).await?)),
            }
        };
        match timeout(TAKEN_PATIENCE, calling).await {
            Ok(Ok(answer)) => answer.map_err(|why| format!("{node}: {why}")),
            Ok(Err(error)) => {
                let error: io::Error = error;
                Err(format!("{node}: {error}"))
            }
            Err(_) => Err(format!("{node} does not answer")),
        }
    }
}

async fn reason(stream: &mut Stream) -> io::Result<String> {
    let length = usize::from(stream.read_u16().await?).min(MAX_REASON_BYTES);
    let mut reason = vec![0; length];
    stream.read_exact(&mut reason).await?;
    Ok(String::from_utf8_lossy(&reason).into_owned())
}

/// What a stream of another node is for.
///
/// # Errors
/// It does not say so, in five seconds.
pub(crate) async fn called(stream: &mut Stream) -> io::Result<(Call, Speaks)> {
    let saying = async {
        let length = usize::from(stream.read_u16().await?);
        if length > MAX_CALL_BYTES {
            let message = format!("it says in {length} bytes what it is for, of {MAX_CALL_BYTES} at most");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let mut call = vec![0; length];
        stream.read_exact(&mut call).await?;
        postcard::from_bytes(&call).map_err(io::Error::other)
    };
    timeout(CALL_PATIENCE, saying).await?
}

/// Says that somebody here has it.
pub(crate) const TAKEN_BYTES: &[u8] = &[TAKEN];

/// Says that nobody here has it.
pub(crate) async fn refuse(stream: &mut Stream, why: &str) -> io::Result<()> {
    let why = &why.as_bytes()[..why.floor_char_boundary(MAX_REASON_BYTES)];
    let said = [&[NOT_TAKEN][..], &(why.len() as u16).to_be_bytes(), why].concat();
    stream.write_all(&said).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(service: &str) -> Call {
        Call {
            tenant: "plant".to_owned(),
            service: service.to_owned(),
            port: 80,
        }
    }

    fn has(endpoints: u16) -> Has {
        Has {
            endpoints,
            wakes: false,
            grows: false,
        }
    }

    fn known(node: &str, said: Vec<u8>, is_there: bool) -> Known {
        Known {
            node: node.to_owned(),
            addresses: Vec::new(),
            said,
            is_alive: is_there,
            is_connected: is_there,
            through: None,
            silent_since: None,
        }
    }

    #[test]
    fn what_nodes_say_is_known_by_service_and_of_those_that_are_gone_that_they_had_it() {
        let (said, left_out) = say(&BTreeMap::from([(call("web"), has(2)), (call("db"), has(1))]));
        assert_eq!(left_out, 0);
        let others = heard(&[known("one", said.clone(), true), known("two", said, false)]);
        let of_web = &others["plant"]["web"][&80];
        let seen: Vec<(&str, u16)> = of_web.iter().map(|one| (&*one.node, one.has.endpoints)).collect();
        assert_eq!(seen, [("one", 2), ("two", 0)]);
        assert_eq!(others["plant"].len(), 2);
    }

    #[test]
    fn of_more_services_than_a_node_can_say_those_that_fit_are_said() {
        let services = (0..10_000).map(|number| (call(&format!("service-{number:05}")), has(1)));
        let (said, left_out) = say(&services.collect());
        assert!(
            said.len() <= MAX_SAID_BYTES && said.len() > MAX_SAID_BYTES * 9 / 10,
            "{}",
            said.len()
        );
        assert_eq!(heard(&[known("one", said, true)])["plant"].len(), 10_000 - left_out);
    }

    #[test]
    fn what_is_no_name_and_what_is_no_list_is_passed_over() {
        let names = ["", "-web", "web-", "Web", "web.plant", "..", &"w".repeat(64)];
        let (said, _) = say(&names.into_iter().map(|name| (call(name), has(1))).collect());
        let no_list = vec![0xff; 40];
        assert!(heard(&[known("one", said, true), known("two", no_list, true)]).is_empty());
    }
}
