//! Reading a CONNECT, and refusing one.

use std::io;

use mqtt::{ConnAck, Connect, DecodeError, Packet, ReasonCode, Version};

use super::stream::Stream;

/// A CONNECT that has arrived: its bytes after the fixed header, and what came behind it.
pub(crate) struct Arrival {
    pub(crate) connect: Vec<u8>,
    pub(crate) early: Vec<u8>,
}

/// Why no CONNECT arrived.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoConnect {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{} ({})", .0.message, .0.clause)]
    Malformed(DecodeError),
    #[error("the first packet is no CONNECT (MQTT-3.1.0-1)")]
    Other,
}

/// Reads the first packet, of at most `limit` bytes; anything but a CONNECT is refused at its first bytes.
pub(crate) async fn read(stream: &mut Stream, limit: usize) -> Result<Arrival, NoConnect> {
    let mut bytes = Vec::new();
    loop {
        stream.read(&mut bytes).await?;
        if bytes.first().is_some_and(|first| first >> 4 != 1) {
            return Err(NoConnect::Other);
        }
        let Some(header) = mqtt::fixed_header(&bytes, limit).map_err(NoConnect::Malformed)? else {
            continue;
        };
        let end = header.header_len + header.body_len;
        if bytes.len() >= end {
            let early = bytes[end..].to_vec();
            bytes.truncate(end);
            bytes.drain(..header.header_len);
            return Ok(Arrival { connect: bytes, early });
        }
    }
}

impl Arrival {
    /// Whether a CONNACK can say what is wrong with it. MQTT 3 has no code for a malformed packet and asks to close
    /// without a word (MQTT-3.2.2-6 of 3.1.1); a version that nobody knows is answered in the words of the newest
    /// (MQTT-3.1.2-2).
    pub(crate) fn can_be_told(&self) -> bool {
        !(self.connect.starts_with(b"\0\x04MQTT\x04") || self.connect.starts_with(b"\0\x06MQIsdp\x03"))
    }

    /// The packet.
    pub(crate) fn decode(&self) -> Result<Connect<'_>, DecodeError> {
        match Packet::decode(0x10, &self.connect, Version::V5)? {
            Packet::Connect(connect) => Ok(*connect),
            _ => unreachable!("0x10 is the first byte of CONNECT"),
        }
    }
}

/// Tells a client why it may not connect, as far as its version can.
pub(crate) async fn refuse(stream: &mut Stream, version: Version, reason: ReasonCode) {
    let mut bytes = Vec::new();
    Packet::ConnAck(Box::new(ConnAck::new(reason))).encode(version, &mut bytes);
    // The client may be gone; it is refused either way.
    let _ = stream.write(&bytes).await;
}
