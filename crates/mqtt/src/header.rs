//! The fixed header, section 2.1: where a packet ends and whether it may be let in at all.

use crate::{DecodeError, PacketType, ReasonCode, Version};

/// Where one packet ends in a stream of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedHeader {
    /// Packet type and flags.
    pub first: u8,
    /// Bytes of the fixed header itself: 2 to 5.
    pub header_len: usize,
    /// Remaining Length: bytes of the packet after the fixed header.
    pub body_len: usize,
}

impl FixedHeader {
    /// Bytes of the whole packet.
    pub fn packet_len(&self) -> usize {
        self.header_len + self.body_len
    }

    /// Refuses what `version` forbids in a header that another version allows.
    pub(crate) fn check(&self, version: Version) -> Result<(), DecodeError> {
        if version == Version::V5 && self.body_len >> (7 * (self.header_len - 2)) == 0 && self.header_len > 2 {
            return Err(overlong(self.body_len));
        }
        Ok(())
    }
}

/// Reads the fixed header at the start of `bytes`; `None` if more bytes are needed to tell.
///
/// # Errors
/// A length over `maximum_packet_size` (whole packet, in bytes) is `PacketTooLarge`, said before anything of the body
/// need be there; a type or flags that no packet has, or a length of more than four bytes, is `MalformedPacket`.
pub fn fixed_header(bytes: &[u8], maximum_packet_size: usize) -> Result<Option<FixedHeader>, DecodeError> {
    let Some((&first, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    check_first(first)?;
    let mut body_len = 0;
    for (index, &byte) in rest.iter().take(4).enumerate() {
        body_len |= usize::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            let header = FixedHeader {
                first,
                header_len: index + 2,
                body_len,
            };
            return if header.packet_len() > maximum_packet_size {
                Err(too_large(header, maximum_packet_size))
            } else {
                Ok(Some(header))
            };
        }
    }
    if rest.len() < 4 {
        Ok(None)
    } else {
        Err(length_of_five_bytes())
    }
}

/// First bytes that the packets of some version have, section 2.1.3.
const KNOWN: [bool; 256] = {
    let mut known = [false; 256];
    let mut first = 0x10;
    while first < 256 {
        known[first] = match first >> 4 {
            3 => first & 0x06 != 0x06 && first & 0x0E != 0x08,
            // In 3.1 PUBREL, SUBSCRIBE and UNSUBSCRIBE carry a DUP flag.
            6 | 8 | 10 => first & 0x07 == 0x02,
            _ => first & 0x0F == 0,
        };
        first += 1;
    }
    known
};

#[inline]
fn check_first(first: u8) -> Result<(), DecodeError> {
    if KNOWN[usize::from(first)] {
        Ok(())
    } else {
        Err(unknown(first))
    }
}

#[cold]
fn unknown(first: u8) -> DecodeError {
    match PacketType::of(first) {
        None => no_type(first),
        Some(PacketType::Publish) if first & 0x06 == 0x06 => qos_3(first),
        Some(PacketType::Publish) => dup_at_qos_0(first),
        Some(kind) => flags(first, kind),
    }
}

/// The type that a first byte names, if `version` has it with those flags.
#[inline]
pub(crate) fn packet_type(first: u8, version: Version) -> Result<PacketType, DecodeError> {
    check_first(first)?;
    let Some(kind) = PacketType::of(first) else {
        return Err(no_type(first));
    };
    let dup = kind != PacketType::Publish && first & 0x08 != 0;
    if dup && version != Version::V31 {
        return Err(flags(first, kind));
    }
    if kind == PacketType::Auth && version != Version::V5 {
        return Err(no_type(first));
    }
    Ok(kind)
}

#[cold]
fn no_type(first: u8) -> DecodeError {
    DecodeError::malformed("section 2.1.2", format!("packet type {} is reserved", first >> 4))
}

#[cold]
fn flags(first: u8, kind: PacketType) -> DecodeError {
    let (clause, expected) = match kind {
        PacketType::PubRel => ("MQTT-3.6.1-1", 2),
        PacketType::Subscribe => ("MQTT-3.8.1-1", 2),
        PacketType::Unsubscribe => ("MQTT-3.10.1-1", 2),
        PacketType::Disconnect => ("MQTT-3.14.1-1", 0),
        PacketType::Auth => ("MQTT-3.15.1-1", 0),
        _ => ("MQTT-2.1.3-1", 0),
    };
    DecodeError::malformed(
        clause,
        format!("{kind} has fixed header flags {:#x}, not {expected:#x}", first & 0x0F),
    )
}

#[cold]
fn qos_3(first: u8) -> DecodeError {
    DecodeError::malformed(
        "MQTT-3.3.1-4",
        format!("PUBLISH flags {:#x} have QoS 3; QoS is 0, 1 or 2", first & 0x0F),
    )
}

#[cold]
fn dup_at_qos_0(first: u8) -> DecodeError {
    DecodeError::malformed(
        "MQTT-3.3.1-2",
        format!("PUBLISH flags {:#x} have DUP at QoS 0", first & 0x0F),
    )
}

#[cold]
fn length_of_five_bytes() -> DecodeError {
    DecodeError::malformed("section 1.5.5", "Remaining Length has more than four bytes")
}

#[cold]
fn overlong(value: usize) -> DecodeError {
    DecodeError::malformed(
        "MQTT-1.5.5-1",
        format!("Remaining Length {value} takes more bytes than it needs"),
    )
}

#[cold]
fn too_large(header: FixedHeader, maximum: usize) -> DecodeError {
    let message = format!(
        "a packet of {} bytes; at most {maximum} are accepted",
        header.packet_len()
    );
    DecodeError::new(ReasonCode::PacketTooLarge, "MQTT-3.2.2-15", message)
}
