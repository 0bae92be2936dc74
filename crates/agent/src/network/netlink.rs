//! Links, addresses, routes and neighbours of the kernel, by `rtnetlink(7)`.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoBridgePort, InfoData, InfoKind, InfoPortData, InfoPortKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo,
    LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily as Family, SocketType, socket};

/// The link `lo`, which is the first of each name space.
pub(super) const LOOPBACK: u32 = 1;
/// `RT_TABLE_LOCAL`.
const TABLE_OF_THIS_MACHINE: u8 = 255;

/// An address of the link layer.
pub(super) type Mac = [u8; 6];

/// One end of a pair of links: what is sent to one comes out of the other.
pub(super) struct End<'a> {
    pub(super) name: &'a str,
    pub(super) mac: Mac,
    pub(super) group: u32,
}

/// What becomes of packets to a network.
pub(super) enum Way {
    /// They go to that link.
    Link {
        link: u32,
        /// On it; `None`: to whom they are for.
        gateway: Option<Ipv4Addr>,
        /// Whom those are from that the host sends itself.
        source: Option<Ipv4Addr>,
    },
    /// They are for this machine.
    Here,
    /// They are refused.
    Nowhere,
}

/// A network that this machine knows a way to.
pub(super) struct Known {
    pub(super) network: Ipv4Addr,
    pub(super) prefix_len: u8,
    pub(super) link: Option<u32>,
}

/// A socket to the kernel, in the network name space it was opened in.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0 })
    }

    /// A pair of links, one end of which is in another name space.
    pub(super) fn add_pair(&mut self, here: &End<'_>, there: &End<'_>, space: BorrowedFd<'_>) -> io::Result<()> {
        let described = |end: &End<'_>| {
            vec![
                LinkAttribute::IfName(end.name.to_owned()),
                LinkAttribute::Address(end.mac.to_vec()),
                LinkAttribute::Group(end.group),
            ]
        };
        let mut other = LinkMessage::default();
        other.attributes = described(there);
        other.attributes.push(LinkAttribute::NetNsFd(space.as_raw_fd()));
        let mut link = LinkMessage::default();
        link.attributes = described(here);
        link.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        self.create(RouteNetlinkMessage::NewLink(link))
    }

    pub(super) fn set_group(&mut self, link: u32, group: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = link;
        message.attributes = vec![LinkAttribute::Group(group)];
        self.change(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Has the ports of a bridge send back where it came from what is for who sent it.
    pub(super) fn set_turning_back(&mut self, bridge: u32) -> io::Result<()> {
        let answers = self.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        let ports = answers.into_iter().filter_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) if link.attributes.contains(&LinkAttribute::Controller(bridge)) => {
                Some(link.header.index)
            }
            _ => None,
        });
        for port in ports {
            let mut message = LinkMessage::default();
            message.header.index = port;
            let settings = vec![InfoBridgePort::HairpinMode(true)];
            message.attributes = vec![LinkAttribute::LinkInfo(vec![
                LinkInfo::PortKind(InfoPortKind::Bridge),
                LinkInfo::PortData(InfoPortData::BridgePort(settings)),
            ])];
            self.change(RouteNetlinkMessage::NewLink(message), 0)?;
        }
        Ok(())
    }

    pub(super) fn set_up(&mut self, link: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = link;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.change(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// An address of this machine, or of the container where it is called in one; there is nothing amiss if it has it.
    pub(super) fn add_address(&mut self, link: u32, address: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix_len;
        message.header.index = link;
        message.attributes = vec![
            AddressAttribute::Local(IpAddr::V4(address)),
            AddressAttribute::Address(IpAddr::V4(address)),
        ];
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// There is nothing amiss if there is one.
    pub(super) fn add_route(&mut self, network: Ipv4Addr, prefix_len: u8, way: &Way) -> io::Result<()> {
        let route = RouteNetlinkMessage::NewRoute(route(network, prefix_len, way));
        self.change(route, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Has it be nobody else's: of all who want that at once, one gets it.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`]: it is somebody's.
    pub(super) fn claim(&mut self, network: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
        self.create(RouteNetlinkMessage::NewRoute(route(network, prefix_len, &Way::Nowhere)))
    }

    pub(super) fn give_up(&mut self, network: Ipv4Addr, prefix_len: u8) -> io::Result<()> {
        let claim = RouteNetlinkMessage::DelRoute(route(network, prefix_len, &Way::Nowhere));
        self.change(claim, 0)
    }

    /// Who has an address on a link, so that nobody has to ask.
    pub(super) fn add_neighbour(&mut self, link: u32, address: Ipv4Addr, mac: Mac) -> io::Result<()> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = link;
        message.header.state = NeighbourState::Permanent;
        message.attributes = vec![
            NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        self.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Networks that this machine knows a way to, but for the way to all others, with the link that it is at.
    pub(super) fn networks(&mut self) -> io::Result<Vec<Known>> {
        let mut asked = RouteMessage::default();
        asked.header.address_family = AddressFamily::Inet;
        let answers = self.ask(RouteNetlinkMessage::GetRoute(asked), NLM_F_DUMP)?;
        let network = |answer| {
            let RouteNetlinkMessage::NewRoute(route) = answer else {
                return None;
            };
            let to = route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Destination(RouteAddress::Inet(network)) => Some(*network),
                _ => None,
            });
            let link = route.attributes.iter().find_map(|attribute| match attribute {
                RouteAttribute::Oif(link) => Some(*link),
                _ => None,
            });
            Some(Known {
                network: to?,
                prefix_len: route.header.destination_prefix_length,
                link,
            })
        };
        Ok(answers.into_iter().filter_map(network).collect())
    }

    /// Names of all links but the loopback.
    pub(super) fn links(&mut self) -> io::Result<Vec<String>> {
        let answers = self.ask(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)?;
        let name = |answer| {
            let RouteNetlinkMessage::NewLink(link) = answer else {
                return None;
            };
            let mut names = link.attributes.into_iter().filter_map(|attribute| match attribute {
                LinkAttribute::IfName(name) => Some(name),
                _ => None,
            });
            names.next().filter(|_| link.header.index != LOOPBACK)
        };
        Ok(answers.into_iter().filter_map(name).collect())
    }

    fn create(&mut self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.change(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.ask(message, NLM_F_ACK | flags).map(drop)
    }

    /// All answers, until the kernel says that these are all.
    fn ask(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = &datagram[..];
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                let (header, payload) = answer.into_parts();
                // Each begins at a multiple of four.
                rest = rest
                    .get((header.length as usize).next_multiple_of(4)..)
                    .unwrap_or_default();
                if header.sequence_number != self.sequence {
                    continue;
                }
                match payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(answer) => answers.push(answer),
                    _ => {}
                }
            }
        }
    }
}

fn route(network: Ipv4Addr, prefix_len: u8, way: &Way) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = prefix_len;
    message.header.table = RouteHeader::RT_TABLE_MAIN;
    message.header.protocol = RouteProtocol::Static;
    message.header.scope = RouteScope::Universe;
    if prefix_len > 0 {
        let network = RouteAttribute::Destination(RouteAddress::Inet(network));
        message.attributes.push(network);
    }
    match way {
        Way::Link { link, gateway, source } => {
            message.header.kind = RouteType::Unicast;
            if gateway.is_none() {
                message.header.scope = RouteScope::Link;
            }
            let gateway = gateway.map(RouteAddress::Inet).map(RouteAttribute::Gateway);
            let source = source.map(RouteAddress::Inet).map(RouteAttribute::PrefSource);
            message.attributes.push(RouteAttribute::Oif(*link));
            message.attributes.extend(gateway.into_iter().chain(source));
        }
        Way::Here => {
            message.header.kind = RouteType::Local;
            message.header.table = TABLE_OF_THIS_MACHINE;
            message.header.scope = RouteScope::Host;
            message.attributes.push(RouteAttribute::Oif(LOOPBACK));
        }
        Way::Nowhere => message.header.kind = RouteType::Unreachable,
    }
    message
}

/// The number of a link of the present name space.
pub(super) fn index(name: &str) -> io::Result<u32> {
    let any = socket(Family::INET, SocketType::DGRAM, None)?;
    Ok(name_to_index(any, name)?)
}
