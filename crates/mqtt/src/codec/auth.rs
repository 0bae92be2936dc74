//! AUTH, section 3.15.

use crate::property::{self, Properties, PropertySink, PutProperties, not_allowed};
use crate::read::Reader;
use crate::write::Sink;
use crate::{Auth, DecodeError, PacketType, ReasonCode, UserProperties};

impl<'a> Auth<'a> {
    /// A step of enhanced authentication, section 4.12.
    pub fn new(reason: ReasonCode, method: Option<&'a str>, data: Option<&'a [u8]>) -> Self {
        let user_properties = UserProperties::default();
        let (authentication_method, authentication_data) = (method, data);
        Auth {
            reason,
            authentication_method,
            authentication_data,
            reason_string: None,
            user_properties,
        }
    }

    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let mut auth = Auth::new(ReasonCode::Success, None, None);
        // Section 3.15.2.1: a success without properties may have no content.
        if !reader.is_empty() {
            auth.reason = ReasonCode::decode(&mut reader, PacketType::Auth)?;
            auth.decode_properties(&mut Properties::read(&mut reader)?)?;
            reader.finish(PacketType::Auth)?;
        }
        Ok(auth)
    }

    fn decode_properties(&mut self, properties: &mut Properties<'a>) -> Result<(), DecodeError> {
        while let Some(id) = properties.next_id()? {
            match id {
                property::AUTHENTICATION_METHOD => self.authentication_method = Some(properties.str(id)?),
                property::AUTHENTICATION_DATA => self.authentication_data = Some(properties.binary(id)?),
                property::REASON_STRING => self.reason_string = Some(properties.str(id)?),
                _ => return Err(not_allowed(id, PacketType::Auth)),
            }
        }
        self.user_properties = properties.user_properties();
        if self.authentication_method.is_none() {
            return Err(DecodeError::protocol(
                "section 3.15.2.2.2",
                "AUTH has no Authentication Method",
            ));
        }
        Ok(())
    }

    pub(super) fn put_body(&self, sink: &mut impl Sink) {
        if self.reason != ReasonCode::Success || self.properties_len() > 0 {
            sink.put_u8(self.reason as u8);
            self.put_block(sink);
        }
    }
}

impl PutProperties for Auth<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        sink.property_str(property::AUTHENTICATION_METHOD, self.authentication_method);
        sink.property_binary(property::AUTHENTICATION_DATA, self.authentication_data);
        sink.property_str(property::REASON_STRING, self.reason_string);
        self.user_properties.put(sink);
    }
}
