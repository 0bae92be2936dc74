//! DISCONNECT, section 3.14.

use crate::property::{self, Properties, PropertySink, PutProperties, not_allowed};
use crate::read::Reader;
use crate::write::Sink;
use crate::{DecodeError, Disconnect, PacketType, ReasonCode, UserProperties, Version};

impl<'a> Disconnect<'a> {
    /// A disconnection with nothing beside its reason.
    pub fn new(reason: ReasonCode) -> Self {
        Disconnect {
            reason,
            session_expiry_interval_s: None,
            reason_string: None,
            server_reference: None,
            user_properties: UserProperties::default(),
        }
    }

    pub(super) fn decode(mut reader: Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut disconnect = Disconnect::new(ReasonCode::Success);
        // Sections 3.14.2.1 and 3.14.2.2.1: reason code and properties may be left out.
        if version == Version::V5 && !reader.is_empty() {
            disconnect.reason = ReasonCode::decode(&mut reader, PacketType::Disconnect)?;
            if !reader.is_empty() {
                disconnect.decode_properties(&mut Properties::read(&mut reader)?)?;
            }
        }
        reader.finish(PacketType::Disconnect)?;
        Ok(disconnect)
    }

    fn decode_properties(&mut self, properties: &mut Properties<'a>) -> Result<(), DecodeError> {
        while let Some(id) = properties.next_id()? {
            match id {
                property::SESSION_EXPIRY_INTERVAL => self.session_expiry_interval_s = Some(properties.u32(id)?),
                property::REASON_STRING => self.reason_string = Some(properties.str(id)?),
                property::SERVER_REFERENCE => self.server_reference = Some(properties.str(id)?),
                _ => return Err(not_allowed(id, PacketType::Disconnect)),
            }
        }
        self.user_properties = properties.user_properties();
        Ok(())
    }

    pub(super) fn put_body(&self, version: Version, sink: &mut impl Sink) {
        if version != Version::V5 {
            return;
        }
        let bare = self.properties_len() == 0;
        if !bare || self.reason != ReasonCode::Success {
            sink.put_u8(self.reason as u8);
        }
        if !bare {
            self.put_block(sink);
        }
    }
}

impl PutProperties for Disconnect<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        sink.property_u32(property::SESSION_EXPIRY_INTERVAL, self.session_expiry_interval_s);
        sink.property_str(property::REASON_STRING, self.reason_string);
        sink.property_str(property::SERVER_REFERENCE, self.server_reference);
        self.user_properties.put(sink);
    }
}
