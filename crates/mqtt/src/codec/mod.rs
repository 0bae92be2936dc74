//! Each packet's bytes, a file for each: how it is read, how it is written.

mod ack;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod publish;
mod suback;
mod subscribe;

use crate::header::{fixed_header, packet_type};
use crate::read::Reader;
use crate::write::{Count, FIXED_HEADER_MAX_LEN, Sink};
use crate::{Ack, Auth, ConnAck, Connect, Disconnect, Publish, SubAck, Subscribe, Unsubscribe};
use crate::{DecodeError, Packet, PacketType, Version};

impl<'a> Packet<'a> {
    /// Takes one packet apart: its first byte, the bytes after its fixed header, the version of the connection
    /// (a CONNECT says its own and ignores it).
    ///
    /// # Errors
    /// Everything the standard calls malformed or a protocol error, told apart.
    pub fn decode(first: u8, body: &'a [u8], version: Version) -> Result<Packet<'a>, DecodeError> {
        let kind = packet_type(first, version)?;
        let reader = Reader::new(body);
        Ok(match kind {
            PacketType::Publish => Packet::Publish(Publish::decode(first, reader, version)?),
            PacketType::PubAck => Packet::PubAck(Ack::decode(kind, reader, version)?),
            PacketType::PubRec => Packet::PubRec(Ack::decode(kind, reader, version)?),
            PacketType::PubRel => Packet::PubRel(Ack::decode(kind, reader, version)?),
            PacketType::PubComp => Packet::PubComp(Ack::decode(kind, reader, version)?),
            PacketType::Connect => Packet::Connect(Box::new(Connect::decode(reader)?)),
            PacketType::ConnAck => Packet::ConnAck(Box::new(ConnAck::decode(reader, version)?)),
            PacketType::Subscribe => Packet::Subscribe(Subscribe::decode(reader, version)?),
            PacketType::SubAck => Packet::SubAck(SubAck::decode(kind, reader, version)?),
            PacketType::Unsubscribe => Packet::Unsubscribe(Unsubscribe::decode(reader, version)?),
            PacketType::UnsubAck => Packet::UnsubAck(SubAck::decode(kind, reader, version)?),
            PacketType::PingReq => reader.finish(kind).map(|()| Packet::PingReq)?,
            PacketType::PingResp => reader.finish(kind).map(|()| Packet::PingResp)?,
            PacketType::Disconnect => Packet::Disconnect(Disconnect::decode(reader, version)?),
            PacketType::Auth => Packet::Auth(Auth::decode(reader)?),
        })
    }

    /// Takes apart the packet at the start of `bytes` and says how many bytes it is; `None` if it is not all there.
    ///
    /// # Errors
    /// Those of [`fixed_header`] and [`Packet::decode`], and in version 5 a Remaining Length that takes more bytes than
    /// it needs (MQTT-1.5.5-1), which earlier versions allow.
    pub fn read(
        bytes: &'a [u8],
        version: Version,
        maximum_packet_size: usize,
    ) -> Result<Option<(Packet<'a>, usize)>, DecodeError> {
        let Some(header) = fixed_header(bytes, maximum_packet_size)? else {
            return Ok(None);
        };
        header.check(version)?;
        let Some(body) = bytes.get(header.header_len..header.packet_len()) else {
            return Ok(None);
        };
        Ok(Some((
            Packet::decode(header.first, body, version)?,
            header.packet_len(),
        )))
    }

    /// Appends the packet's bytes to `out`. What `version` lacks is left out: its properties, and AUTH as a whole
    /// before version 5. A CONNECT is written in its own version.
    ///
    /// # Panics
    /// If a string or binary field is longer than 65,535 bytes, or the packet than 268,435,460: no packet can carry it.
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        if let Packet::Publish(publish) = self {
            return publish.encode(version, out);
        }
        if !self.exists_in(version) {
            return;
        }
        let body_len = self.body_len(version);
        out.reserve(body_len + FIXED_HEADER_MAX_LEN);
        out.put_u8(self.first_byte());
        out.put_varint(body_len);
        self.put_body(version, out);
    }

    /// Bytes that [`Packet::encode`] would append.
    ///
    /// # Panics
    /// Where [`Packet::encode`] does.
    pub fn encoded_len(&self, version: Version) -> usize {
        if !self.exists_in(version) {
            return 0;
        }
        let body_len = self.body_len(version);
        let mut header = Count(1);
        header.put_varint(body_len);
        header.0 + body_len
    }

    /// The packet's type.
    pub fn packet_type(&self) -> PacketType {
        match self {
            Packet::Connect(_) => PacketType::Connect,
            Packet::ConnAck(_) => PacketType::ConnAck,
            Packet::Publish(_) => PacketType::Publish,
            Packet::PubAck(_) => PacketType::PubAck,
            Packet::PubRec(_) => PacketType::PubRec,
            Packet::PubRel(_) => PacketType::PubRel,
            Packet::PubComp(_) => PacketType::PubComp,
            Packet::Subscribe(_) => PacketType::Subscribe,
            Packet::SubAck(_) => PacketType::SubAck,
            Packet::Unsubscribe(_) => PacketType::Unsubscribe,
            Packet::UnsubAck(_) => PacketType::UnsubAck,
            Packet::PingReq => PacketType::PingReq,
            Packet::PingResp => PacketType::PingResp,
            Packet::Disconnect(_) => PacketType::Disconnect,
            Packet::Auth(_) => PacketType::Auth,
        }
    }

    fn exists_in(&self, version: Version) -> bool {
        version == Version::V5 || !matches!(self, Packet::Auth(_))
    }

    fn first_byte(&self) -> u8 {
        let flags = match self {
            Packet::Publish(publish) => publish.flags(),
            Packet::PubRel(_) | Packet::Subscribe(_) | Packet::Unsubscribe(_) => 0x02,
            _ => 0,
        };
        (self.packet_type() as u8) << 4 | flags
    }

    fn body_len(&self, version: Version) -> usize {
        let mut count = Count::default();
        self.put_body(version, &mut count);
        count.0
    }

    fn put_body(&self, version: Version, sink: &mut impl Sink) {
        match self {
            Packet::Publish(publish) => publish.put_body(version, sink),
            Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubRel(ack) | Packet::PubComp(ack) => {
                ack.put_body(version, sink);
            }
            Packet::Connect(connect) => connect.put_body(sink),
            Packet::ConnAck(connack) => connack.put_body(version, sink),
            Packet::Subscribe(subscribe) => subscribe.put_body(version, sink),
            Packet::SubAck(suback) => suback.put_body(version, sink),
            Packet::Unsubscribe(unsubscribe) => unsubscribe.put_body(version, sink),
            Packet::UnsubAck(unsuback) => unsuback.put_unsuback_body(version, sink),
            Packet::PingReq | Packet::PingResp => {}
            Packet::Disconnect(disconnect) => disconnect.put_body(version, sink),
            Packet::Auth(auth) => auth.put_body(sink),
        }
    }
}
