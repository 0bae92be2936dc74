//! The fifteen control packet types.

use std::fmt;

/// Control packet type, section 2.1.2: the upper half of a packet's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum PacketType {
    Connect = 1,
    ConnAck,
    Publish,
    PubAck,
    PubRec,
    PubRel,
    PubComp,
    Subscribe,
    SubAck,
    Unsubscribe,
    UnsubAck,
    PingReq,
    PingResp,
    Disconnect,
    Auth,
}

impl PacketType {
    /// Every type, by its number less one.
    pub const ALL: [PacketType; 15] = {
        use PacketType::*;
        [
            Connect,
            ConnAck,
            Publish,
            PubAck,
            PubRec,
            PubRel,
            PubComp,
            Subscribe,
            SubAck,
            Unsubscribe,
            UnsubAck,
            PingReq,
            PingResp,
            Disconnect,
            Auth,
        ]
    };

    /// Type that a packet's first byte names; 0 is reserved.
    pub(crate) fn of(first: u8) -> Option<PacketType> {
        Self::ALL.get(usize::from(first >> 4).wrapping_sub(1)).copied()
    }

    /// Name in the standard's spelling.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 15] = [
            "CONNECT",
            "CONNACK",
            "PUBLISH",
            "PUBACK",
            "PUBREC",
            "PUBREL",
            "PUBCOMP",
            "SUBSCRIBE",
            "SUBACK",
            "UNSUBSCRIBE",
            "UNSUBACK",
            "PINGREQ",
            "PINGRESP",
            "DISCONNECT",
            "AUTH",
        ];
        NAMES[self as usize - 1]
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
