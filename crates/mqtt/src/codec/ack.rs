//! PUBACK, PUBREC, PUBREL and PUBCOMP, sections 3.4 to 3.7.

use crate::property::{self, Properties, PropertySink, PutProperties, not_allowed};
use crate::read::Reader;
use crate::write::Sink;
use crate::{Ack, DecodeError, PacketType, ReasonCode, Version};

impl<'a> Ack<'a> {
    #[inline]
    pub(super) fn decode(kind: PacketType, mut reader: Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut ack = Ack::new(reader.packet_id()?, ReasonCode::Success);
        // Section 3.4.2.1: reason code and properties may be left out.
        if version == Version::V5 && !reader.is_empty() {
            ack.reason = ReasonCode::decode(&mut reader, kind)?;
            if !reader.is_empty() {
                ack.decode_properties(&mut Properties::read(&mut reader)?, kind)?;
            }
        }
        reader.finish(kind)?;
        Ok(ack)
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

    #[inline]
    pub(super) fn put_body(&self, version: Version, sink: &mut impl Sink) {
        sink.put_u16(self.packet_id.get());
        if version != Version::V5 {
            return;
        }
        let bare = self.reason_string.is_none() && self.user_properties.is_empty();
        if !bare || self.reason != ReasonCode::Success {
            sink.put_u8(self.reason as u8);
        }
        if !bare {
            self.put_block(sink);
        }
    }
}

impl PutProperties for Ack<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        sink.property_str(property::REASON_STRING, self.reason_string);
        self.user_properties.put(sink);
    }
}
