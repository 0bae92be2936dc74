//! Other nodes of the same network, found by multicast DNS (RFC 6762) as services (RFC 6763): where the addresses by which nodes
//! knew each other are not theirs any more.
//!
//! What is heard names a port, and no more: it is dialled at the address that the datagram came from, and who is there its
//! certificate says. Nothing is kept of a datagram but that place.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use simple_dns::rdata::{PTR, RData, SRV, TXT};
use simple_dns::{CLASS, Label, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, ResourceRecord, TYPE};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, Socket, Type};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::Event;

/// Places that are known by it; those of more nodes are not.
pub(super) const MAX_FOUND: usize = 32;
/// For how long nothing need be heard of one.
pub(super) const FOUND_FOR: Duration = Duration::from_secs(60);

const GROUP: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 251);
const PORT: u16 = 5353;
/// How often a node says where it is, unasked.
const PAUSE: Duration = Duration::from_secs(10);
const TTL_S: u32 = 120;
/// It answers no more often (RFC 6762, 6).
const ANSWER_PAUSE: Duration = Duration::from_secs(1);
/// Between two datagrams that are read of one network, so that nobody makes it read more than 200 a second.
const READ_PAUSE: Duration = Duration::from_millis(5);
/// Of a datagram (RFC 6762, 17).
const MAX_BYTES: usize = 9_000;
/// Networks of a machine.
const MAX_DEVICES: usize = 16;

const SERVICE: &str = "_selvedge-site._tcp.local";
/// Which site a node is of.
const SITE: &str = "site";

/// What a node says of itself.
#[derive(Clone)]
pub(super) struct Announced {
    pub(super) node: String,
    /// The site, as others of it call it, too.
    pub(super) site: String,
    pub(super) port: u16,
}

/// What a datagram says.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    /// Somebody asks which nodes there are.
    Question,
    /// Another node of the site is at this port of where it comes from.
    Node(u16),
    /// Nothing that is of use.
    Nothing,
}

impl Announced {
    /// Says it on all networks of this machine, and tells of whom it hears, for as long as it is polled.
    pub(super) async fn run(self, found: mpsc::Sender<Event>) {
        let mut listening: BTreeMap<u32, AbortOnDropHandle<()>> = BTreeMap::new();
        let mut looks = interval(PAUSE);
        loop {
            looks.tick().await;
            let devices = devices();
            listening.retain(|index, task| devices.contains_key(index) && !task.is_finished());
            for (index, name) in devices {
                if listening.len() >= MAX_DEVICES || listening.contains_key(&index) {
                    continue;
                }
                match socket(index, &name) {
                    Ok(socket) => {
                        let task = tokio::spawn(self.clone().speak(socket, found.clone()));
                        listening.insert(index, AbortOnDropHandle::new(task));
                    }
                    Err(error) => tracing::debug!(device = name, %error, "no multicast DNS there"),
                }
            }
        }
    }

    /// On one network.
    async fn speak(self, socket: UdpSocket, found: mpsc::Sender<Event>) {
        let mut says = interval(PAUSE);
        says.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut bytes = vec![0; MAX_BYTES];
        let mut may_answer_at = Instant::now();
        send(&socket, question()).await;
        loop {
            let (length, from) = tokio::select! {
                _ = says.tick() => {
                    send(&socket, self.said()).await;
                    continue;
                }
                received = socket.recv_from(&mut bytes) => match received {
                    Ok(received) => received,
                    // The device is gone, or down.
                    Err(error) => return tracing::debug!(%error, "no multicast DNS there any more"),
                },
            };
            match self.heard(&bytes[..length]) {
                Heard::Node(port) => {
                    let place = SocketAddr::new(from.ip(), port);
                    let _ = found.send(Event::Found(place)).await;
                }
                Heard::Question if may_answer_at <= Instant::now() => {
                    may_answer_at = Instant::now() + ANSWER_PAUSE;
                    send(&socket, self.said()).await;
                }
                Heard::Question | Heard::Nothing => {}
            }
            sleep(READ_PAUSE).await;
        }
    }

    /// What it says, as a datagram; `None` where its name has no room in a label.
    fn said(&self) -> Option<Vec<u8>> {
        let service = Name::new(SERVICE).ok()?;
        let mut labels = vec![Label::new(self.node.as_bytes()).ok()?];
        labels.extend(service.get_labels().iter().cloned());
        let instance = Name::new_with_labels(&labels);
        let host = [Label::new(self.node.as_bytes()).ok()?, Label::new(&b"local"[..]).ok()?];
        let at = SRV {
            priority: 0,
            weight: 0,
            port: self.port,
            target: Name::new_with_labels(&host),
        };
        let of_site = TXT::new().with_attribute(SITE, Some(self.site.as_bytes())).ok()?;
        let mut packet = Packet::new_reply(0);
        packet.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
        let record = |name: &Name<'_>, data| ResourceRecord::new(name.clone().into_owned(), CLASS::IN, TTL_S, data);
        packet.answers = vec![
            record(&service, RData::PTR(PTR(instance.clone()))),
            record(&instance, RData::SRV(at)),
            record(&instance, RData::TXT(of_site)),
        ];
        packet.build_bytes_vec_compressed().ok()
    }

    fn heard(&self, bytes: &[u8]) -> Heard {
        let (Ok(packet), Ok(service)) = (Packet::parse(bytes), Name::new(SERVICE)) else {
            return Heard::Nothing;
        };
        if !packet.has_flags(PacketFlag::RESPONSE) {
            let is_of_service = |question: &Question<'_>| {
                question.qname == service && matches!(question.qtype, QTYPE::TYPE(TYPE::PTR) | QTYPE::ANY)
            };
            return match packet.questions.iter().any(is_of_service) {
                true => Heard::Question,
                false => Heard::Nothing,
            };
        }
        let records = || packet.answers.iter().chain(&packet.additional_records);
        let others = records().filter_map(|record| match &record.rdata {
            RData::SRV(at) if record.name.is_subdomain_of(&service) && at.port != 0 => Some((&record.name, at.port)),
            _ => None,
        });
        let is_of_site = |instance: &Name<'_>| {
            records().any(|record| match &record.rdata {
                RData::TXT(text) if record.name == *instance => text
                    .iter_raw()
                    .any(|(key, value)| key == SITE.as_bytes() && value == Some(self.site.as_bytes())),
                _ => false,
            })
        };
        let is_other = |instance: &Name<'_>| {
            let first = instance.get_labels().first();
            first.is_some_and(|label| label.as_ref() != self.node.as_bytes())
        };
        let node = others
            .into_iter()
            .find(|(instance, _)| is_other(instance) && is_of_site(instance));
        node.map_or(Heard::Nothing, |(_, port)| Heard::Node(port))
    }
}

/// Asks which nodes there are.
fn question() -> Option<Vec<u8>> {
    let mut packet = Packet::new_query(0);
    let (asked, class) = (QTYPE::TYPE(TYPE::PTR), QCLASS::CLASS(CLASS::IN));
    packet
        .questions
        .push(Question::new(Name::new(SERVICE).ok()?, asked, class, false));
    packet.build_bytes_vec().ok()
}

/// What cannot be sent now is said again.
async fn send(socket: &UdpSocket, datagram: Option<Vec<u8>>) {
    if let Some(datagram) = datagram {
        let _ = socket.send_to(&datagram, (GROUP, PORT)).await;
    }
}

/// Network devices of this machine but the loopback, by their numbers.
fn devices() -> BTreeMap<u32, String> {
    let listed = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let named = listed.filter_map(|device| device.file_name().into_string().ok());
    let numbered = named.filter(|name| name != "lo").filter_map(|name| {
        let index = std::fs::read_to_string(format!("/sys/class/net/{name}/ifindex")).ok()?;
        Some((index.trim().parse().ok()?, name))
    });
    numbered.collect()
}

/// Hears and speaks on one network, beside others of this machine that do.
fn socket(index: u32, device: &str) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind_device(Some(device.as_bytes()))?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT)).into())?;
    socket.join_multicast_v4_n(&GROUP, &InterfaceIndexOrAddress::Index(index))?;
    // RFC 6762, 11.
    socket.set_multicast_ttl_v4(255)?;
    UdpSocket::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(node: &str, site: &str, port: u16) -> Announced {
        Announced {
            node: node.to_owned(),
            site: site.to_owned(),
            port,
        }
    }

    #[test]
    fn a_node_hears_of_others_of_its_site_and_neither_of_itself_nor_of_other_sites() {
        let own = node("hall-1", "sha256:aa", 8444);
        assert_eq!(
            own.heard(&node("hall.2", "sha256:aa", 9000).said().unwrap()),
            Heard::Node(9000)
        );
        for other in [
            node("hall-1", "sha256:aa", 9000),
            node("hall-2", "sha256:bb", 9000),
            node("hall-2", "sha256:aa", 0),
        ] {
            assert_eq!(own.heard(&other.said().unwrap()), Heard::Nothing, "{}", other.node);
        }
        assert_eq!(own.heard(&question().unwrap()), Heard::Question);
        assert_eq!(node(&"n".repeat(64), "sha256:aa", 1).said(), None);
    }

    proptest! {
        #[test]
        fn datagrams_at_random_or_with_a_byte_changed_name_a_port_at_most(
            bytes in prop::collection::vec(any::<u8>(), 0..600), place in any::<prop::sample::Index>(), byte in any::<u8>()
        ) {
            let own = node("hall-1", "sha256:aa", 8444);
            own.heard(&bytes);
            let mut said = node("hall-2", "sha256:aa", 9000).said().unwrap();
            let place = place.index(said.len());
            said[place] = byte;
            own.heard(&said);
        }
    }
}
