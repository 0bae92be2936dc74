//! The data types of section 1.5, read from the front of a slice.

use crate::{DecodeError, PacketId, PacketType};

/// Bytes of a packet that are still to be read.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// All that is left, as a payload.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Refuses bytes behind the last field.
    pub(crate) fn finish(self, kind: PacketType) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(trailing(kind, self.rest.len()))
        }
    }

    #[inline]
    pub(crate) fn take(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let Some((head, rest)) = self.rest.split_at_checked(len) else {
            return Err(short(field, len, self.len()));
        };
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let Some((head, rest)) = self.rest.split_first_chunk() else {
            return Err(short(field, N, self.len()));
        };
        self.rest = rest;
        Ok(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    #[inline]
    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array(field).map(u16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_be_bytes)
    }

    /// A Variable Byte Integer, section 1.5.5.
    #[inline]
    pub(crate) fn varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let first = self.u8(field)?;
        if first & 0x80 == 0 {
            Ok(u32::from(first))
        } else {
            self.varint_tail(u32::from(first & 0x7F), field)
        }
    }

    fn varint_tail(&mut self, mut value: u32, field: &'static str) -> Result<u32, DecodeError> {
        for shift in [7, 14, 21] {
            let byte = self.u8(field)?;
            value |= u32::from(byte & 0x7F) << shift;
            match byte {
                0 => return Err(overlong(field, value)),
                1..0x80 => return Ok(value),
                0x80.. => {}
            }
        }
        Err(DecodeError::malformed(
            "section 1.5.5",
            format!("{field} has more than four bytes"),
        ))
    }

    /// Binary Data, section 1.5.6.
    #[inline]
    pub(crate) fn binary(&mut self, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let len = self.u16(field)?;
        self.take(usize::from(len), field)
    }

    /// A UTF-8 Encoded String, section 1.5.4. Control characters and non-characters are let through, as the standard
    /// leaves open.
    #[inline]
    pub(crate) fn str(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        let text = self.utf8(field)?;
        if text.as_bytes().contains(&0) {
            Err(nul(field))
        } else {
            Ok(text)
        }
    }

    /// As [`Reader::str`] for a topic, whose check for NUL is part of the topic's own.
    #[inline]
    pub(crate) fn utf8(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        let bytes = self.binary(field)?;
        std::str::from_utf8(bytes).map_err(|error| not_utf8(field, error))
    }

    #[inline]
    pub(crate) fn packet_id(&mut self) -> Result<PacketId, DecodeError> {
        PacketId::new(self.u16("Packet Identifier")?).ok_or_else(packet_id_zero)
    }
}

#[cold]
fn short(field: &'static str, wanted: usize, left: usize) -> DecodeError {
    DecodeError::malformed(
        "section 2.1.4",
        format!("{field} takes {wanted} bytes and {left} are left"),
    )
}

#[cold]
fn trailing(kind: PacketType, count: usize) -> DecodeError {
    DecodeError::malformed(
        "section 2.1.4",
        format!("{count} bytes follow the last field of the {kind}"),
    )
}

#[cold]
fn overlong(field: &'static str, value: u32) -> DecodeError {
    DecodeError::malformed(
        "MQTT-1.5.5-1",
        format!("{field} {value} takes more bytes than it needs"),
    )
}

#[cold]
fn nul(field: &'static str) -> DecodeError {
    DecodeError::malformed("MQTT-1.5.4-2", format!("{field} contains U+0000"))
}

#[cold]
fn not_utf8(field: &'static str, error: std::str::Utf8Error) -> DecodeError {
    DecodeError::malformed(
        "MQTT-1.5.4-1",
        format!("{field} is not UTF-8 from byte {}", error.valid_up_to()),
    )
}

#[cold]
fn packet_id_zero() -> DecodeError {
    DecodeError::protocol("MQTT-2.2.1-3", "Packet Identifier is 0; it is 1 to 65535")
}
