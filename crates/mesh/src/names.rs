//! Names of services, for containers: a small server of the DNS (RFC 1035) that asks the host's for all other names.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use simple_dns::rdata::{A, RData};
use simple_dns::{CLASS, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use crate::table::Pods;

/// Of the DNS (RFC 1035, 2.3.4, and RFC 6891).
const PORT: u16 = 53;
const DATAGRAM_BYTES_MAX: usize = 4_096;
/// Questions at once; more are left unanswered, and asked again by who asks.
const QUESTIONS_MAX: usize = 256;
/// For an answer of the host's server of names.
const PATIENCE: Duration = Duration::from_secs(3);
/// A service keeps its address; one that is made anew may have another.
const TTL_S: u32 = 5;
/// Between two attempts to listen.
const LISTEN_PAUSE: Duration = Duration::from_secs(30);
/// Where no descriptor is left for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// What names of services end with; with the second of these in clusters.
const DOMAINS: [[&str; 2]; 2] = [["selvedge", "local"], ["cluster", "local"]];
/// The edge itself, below the first of them.
const EDGE: &str = "edge";

/// Who has which names, and who may know them.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Services of each tenant.
    services: BTreeMap<String, BTreeMap<String, Ipv4Addr>>,
    /// Whose containers are where.
    tenants: HashMap<Ipv4Addr, String>,
}

/// What is known of a name.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    At(Ipv4Addr),
    /// There is none, and nobody else knows one.
    Absent,
    /// Others may know.
    NotOurs,
}

impl Names {
    pub(crate) fn add(&mut self, tenant: &str, pods: &Pods<'_>, services: &BTreeMap<String, Ipv4Addr>) {
        let addresses = pods.values().flatten().filter_map(|pod| pod.address);
        self.tenants
            .extend(addresses.map(|address| (address, tenant.to_owned())));
        self.services.insert(tenant.to_owned(), services.clone());
    }

    /// What `asker` may know of a name, by its labels: `NAME`, `NAME.TENANT`, and both with `svc` and a domain behind
    /// them.
    fn find(&self, asker: Ipv4Addr, labels: &[&str], edge: Ipv4Addr) -> Known {
        let (own, is_ours) = match labels {
            [front @ .., one, other] if DOMAINS.contains(&[one, other]) => (front, true),
            _ => (labels, false),
        };
        let own = match own {
            [front @ .., "svc"] => front,
            [EDGE] if is_ours => return Known::At(edge),
            other => other,
        };
        let asking = self.tenants.get(&asker);
        let found = match own {
            [name] => asking.and_then(|tenant| self.services.get(tenant)?.get(*name)),
            [name, tenant] if asking.is_some_and(|asking| asking == tenant) => {
                self.services.get(*tenant).and_then(|services| services.get(*name))
            }
            _ => None,
        };
        match (found, is_ours || labels.len() == 1) {
            (Some(address), _) => Known::At(*address),
            (None, true) => Known::Absent,
            (None, false) => Known::NotOurs,
        }
    }
}

/// Answers containers, for as long as it is polled.
pub(crate) async fn serve(gateway: Ipv4Addr, names: Arc<RwLock<Names>>) {
    loop {
        let at = (gateway, PORT);
        let sockets = async { Ok::<_, io::Error>((UdpSocket::bind(at).await?, TcpListener::bind(at).await?)) };
        match sockets.await {
            Ok((datagrams, connections)) => {
                let server = Arc::new(Server {
                    gateway,
                    names: Arc::clone(&names),
                    room: Semaphore::new(QUESTIONS_MAX),
                });
                let datagrams = Arc::new(datagrams);
                let of_datagrams = Arc::clone(&server).answer_datagrams(datagrams);
                tokio::join!(of_datagrams, server.answer_connections(connections));
            }
            Err(error) => {
                tracing::warn!(%gateway, %error, "containers find no names of services: port 53 cannot be listened at");
                sleep(LISTEN_PAUSE).await;
            }
        }
    }
}

struct Server {
    gateway: Ipv4Addr,
    names: Arc<RwLock<Names>>,
    room: Semaphore,
}

impl Server {
    async fn answer_datagrams(self: Arc<Self>, socket: Arc<UdpSocket>) {
        let mut question = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            let Ok((length, from)) = socket.recv_from(&mut question).await else {
                continue;
            };
            let Ok(_room) = self.room.try_acquire() else { continue };
            let (server, socket, question) = (Arc::clone(&self), Arc::clone(&socket), question[..length].to_vec());
            tokio::spawn(async move {
                if let Some(answer) = server.answer(&question, from.ip(), ask_by_datagram).await {
                    let _ = socket.send_to(&answer, from).await;
                }
            });
        }
    }

    /// One question each (RFC 7766 allows more, and whoever has more connects again).
    async fn answer_connections(self: Arc<Self>, listener: TcpListener) {
        loop {
            let Ok((mut stream, from)) = listener.accept().await else {
                sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Ok(_room) = self.room.try_acquire() else { continue };
            let server = Arc::clone(&self);
            tokio::spawn(async move {
                let answering = async {
                    let question = read_framed(&mut stream).await?;
                    if let Some(answer) = server.answer(&question, from.ip(), ask_by_connection).await {
                        write_framed(&mut stream, &answer).await?;
                    }
                    Ok::<_, io::Error>(())
                };
                let _ = timeout(2 * PATIENCE, answering).await;
            });
        }
    }

    /// Nothing where that is no question.
    async fn answer<F>(&self, question: &[u8], from: IpAddr, ask: impl Fn(SocketAddr, Vec<u8>) -> F) -> Option<Vec<u8>>
    where
        F: Future<Output = io::Result<Vec<u8>>>,
    {
        if let Some(own) = self.own_answer(question, from)? {
            return Some(own);
        }
        for server in servers_of_host(self.gateway) {
            if let Ok(Ok(answer)) = timeout(PATIENCE, ask(server, question.to_vec())).await {
                return Some(answer);
            }
        }
        let mut reply = Packet::parse(question).ok()?.into_reply();
        *reply.rcode_mut() = RCODE::ServerFailure;
        reply.build_bytes_vec().ok()
    }

    /// `None`: it is no question. `Some(None)`: others know.
    #[expect(clippy::option_option, reason = "both say something else")]
    fn own_answer(&self, question: &[u8], from: IpAddr) -> Option<Option<Vec<u8>>> {
        let asked = Packet::parse(question).ok()?;
        if asked.has_flags(PacketFlag::RESPONSE) {
            return None;
        }
        let one = asked.questions.first()?;
        let name = one.qname.to_string().to_ascii_lowercase();
        let labels: Vec<&str> = name.split('.').filter(|label| !label.is_empty()).collect();
        let asker = match from {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => return None,
        };
        let known = {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            names.find(asker, &labels, self.gateway)
        };
        let mut reply = Packet::new_reply(asked.id());
        reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
        if asked.has_flags(PacketFlag::RECURSION_DESIRED) {
            reply.set_flags(PacketFlag::RECURSION_DESIRED);
        }
        reply.questions.push(one.clone());
        match known {
            Known::NotOurs => return Some(None),
            Known::Absent => *reply.rcode_mut() = RCODE::NameError,
            Known::At(address) => {
                // Of other types it has none, which is an answer, too (RFC 2308, 2.2).
                if matches!(one.qtype, QTYPE::TYPE(TYPE::A) | QTYPE::ANY) {
                    let data = RData::A(A::from(address));
                    reply
                        .answers
                        .push(ResourceRecord::new(one.qname.clone(), CLASS::IN, TTL_S, data));
                }
            }
        }
        Some(reply.build_bytes_vec().ok())
    }
}

/// As the host has them now (`resolv.conf(5)`).
fn servers_of_host(gateway: Ipv4Addr) -> Vec<SocketAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let words = text.lines().filter_map(|line| line.strip_prefix("nameserver"));
    let addresses = words.filter_map(|word| word.trim().parse::<IpAddr>().ok());
    let others = addresses.filter(|address| *address != IpAddr::V4(gateway));
    others.take(3).map(|address| SocketAddr::new(address, PORT)).collect()
}

async fn ask_by_datagram(server: SocketAddr, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let own: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // A port of its own, that nobody can guess, for each question (RFC 5452, 9.2).
    let socket = UdpSocket::bind(own).await?;
    socket.connect(server).await?;
    socket.send(&question).await?;
    let mut answer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let length = socket.recv(&mut answer).await?;
        if length >= 2 && answer[..2] == question[..2] {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

async fn ask_by_connection(server: SocketAddr, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    write_framed(&mut stream, &question).await?;
    read_framed(&mut stream).await
}

/// Its length before it (RFC 1035, 4.2.2).
async fn read_framed(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

async fn write_framed(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let framed = [&length.to_be_bytes()[..], message].concat();
    stream.write_all(&framed).await
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE_AT: Ipv4Addr = Ipv4Addr::new(10, 112, 0, 1);
    const ASKER: Ipv4Addr = Ipv4Addr::new(10, 112, 0, 2);
    const WEB: Ipv4Addr = Ipv4Addr::new(10, 112, 8, 1);

    fn names() -> Names {
        let of_plant = BTreeMap::from([("web".to_owned(), WEB)]);
        let of_acme = BTreeMap::from([("db".to_owned(), Ipv4Addr::new(10, 112, 8, 2))]);
        Names {
            services: BTreeMap::from([("plant".to_owned(), of_plant), ("acme".to_owned(), of_acme)]),
            tenants: HashMap::from([(ASKER, "plant".to_owned())]),
        }
    }

    fn find(name: &str) -> Known {
        let labels: Vec<&str> = name.split('.').collect();
        names().find(ASKER, &labels, EDGE_AT)
    }

    #[test]
    fn a_service_of_the_own_tenant_is_found_by_all_its_names() {
        for name in [
            "web",
            "web.plant",
            "web.plant.svc",
            "web.plant.svc.selvedge.local",
            "web.plant.svc.cluster.local",
            "web.svc.selvedge.local",
        ] {
            assert_eq!(find(name), Known::At(WEB), "{name}");
        }
        assert_eq!(find("edge.selvedge.local"), Known::At(EDGE_AT));
    }

    #[test]
    fn nobody_learns_names_of_another_tenant() {
        for name in [
            "db.acme.svc.selvedge.local",
            "db",
            "db.plant.svc.selvedge.local",
            "db.svc.selvedge.local",
        ] {
            assert_eq!(find(name), Known::Absent, "{name}");
        }
        assert_eq!(find("db.acme"), Known::NotOurs);
        let labels = ["web", "plant", "svc", "selvedge", "local"];
        assert_eq!(
            names().find(Ipv4Addr::new(10, 9, 9, 9), &labels, EDGE_AT),
            Known::Absent
        );
    }

    #[test]
    fn other_names_are_left_to_others() {
        for name in ["example.com", "www.example.com", "selvedge.example"] {
            assert_eq!(find(name), Known::NotOurs, "{name}");
        }
    }
}
