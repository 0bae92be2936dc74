//! SUBACK, section 3.9, and UNSUBACK, section 3.11.

use crate::property::{self, Properties, PropertySink, PutProperties, not_allowed};
use crate::read::Reader;
use crate::write::Sink;
use crate::{DecodeError, PacketId, PacketType, ReasonCode, SubAck, UserProperties, Version};

impl<'a> SubAck<'a> {
    /// An answer with nothing beside its reasons.
    pub fn new(packet_id: PacketId, reasons: Vec<ReasonCode>) -> Self {
        SubAck {
            packet_id,
            reasons,
            reason_string: None,
            user_properties: UserProperties::default(),
        }
    }

    pub(super) fn decode(kind: PacketType, mut reader: Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut suback = SubAck::new(reader.packet_id()?, Vec::new());
        if version == Version::V5 {
            suback.decode_properties(&mut Properties::read(&mut reader)?, kind)?;
        } else if kind == PacketType::UnsubAck {
            return reader.finish(kind).map(|()| suback);
        }
        if reader.is_empty() {
            return Err(no_reason(kind));
        }
        suback.reasons = match version {
            Version::V5 => reader
                .rest()
                .iter()
                .map(|&code| ReasonCode::of(code, kind))
                .collect::<Result<_, _>>()?,
            Version::V31 | Version::V311 => reader
                .rest()
                .iter()
                .map(|&code| ReasonCode::of_suback(code))
                .collect::<Result<_, _>>()?,
        };
        Ok(suback)
    }

    fn decode_properties(&mut self, properties: &mut Properties<'a>, kind: PacketType) -> Result<(), DecodeError> {
        while let Some(id) = properties.next_id()? {
            match id {
                property::REASON_STRING => self.reason_string = Some(properties.str(id)?),
                _ => return Err(not_allowed(id, kind)),
            }
        }
        self.user_properties = properties.user_properties();
        Ok(())
    }

    pub(super) fn put_body(&self, version: Version, sink: &mut impl Sink) {
        sink.put_u16(self.packet_id.get());
        if version == Version::V5 {
            self.put_block(sink);
            self.reasons.iter().for_each(|&reason| sink.put_u8(reason as u8));
        } else {
            self.reasons
                .iter()
                .for_each(|reason| sink.put_u8(reason.suback_return_code()));
        }
    }

    /// As the body of an UNSUBACK, which has no return codes before version 5.
    pub(super) fn put_unsuback_body(&self, version: Version, sink: &mut impl Sink) {
        match version {
            Version::V5 => self.put_body(version, sink),
            Version::V31 | Version::V311 => sink.put_u16(self.packet_id.get()),
        }
    }
}

impl PutProperties for SubAck<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        sink.property_str(property::REASON_STRING, self.reason_string);
        self.user_properties.put(sink);
    }
}

#[cold]
fn no_reason(kind: PacketType) -> DecodeError {
    let clause = if kind == PacketType::SubAck {
        "MQTT-3.9.3-1"
    } else {
        "MQTT-3.11.3-1"
    };
    DecodeError::protocol(clause, format!("{kind} answers no topic filter"))
}
