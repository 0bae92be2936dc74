//! CONNACK, section 3.2.

use std::num::NonZeroU16;

use crate::property::{self, Properties, PropertySink, PutProperties, not_allowed};
use crate::read::Reader;
use crate::write::Sink;
use crate::{ConnAck, DecodeError, PacketType, QoS, ReasonCode, UserProperties, Version};

impl<'a> ConnAck<'a> {
    /// An answer with nothing beside its reason, and no session present.
    pub fn new(reason: ReasonCode) -> Self {
        ConnAck {
            session_present: false,
            reason,
            session_expiry_interval_s: None,
            receive_maximum: None,
            maximum_qos: None,
            retain_available: None,
            maximum_packet_size: None,
            assigned_client_id: None,
            topic_alias_maximum: 0,
            reason_string: None,
            wildcard_subscription_available: None,
            subscription_ids_available: None,
            shared_subscription_available: None,
            server_keep_alive_s: None,
            response_information: None,
            server_reference: None,
            authentication_method: None,
            authentication_data: None,
            user_properties: UserProperties::default(),
        }
    }

    pub(super) fn decode(mut reader: Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let flags = reader.u8("Connect Acknowledge Flags")?;
        let mut connack = ConnAck::new(match version {
            Version::V5 => ReasonCode::decode(&mut reader, PacketType::ConnAck)?,
            Version::V31 | Version::V311 => ReasonCode::of_connack(reader.u8("Connect Return code")?)?,
        });
        connack.decode_flags(flags, version)?;
        if version == Version::V5 {
            connack.decode_properties(&mut Properties::read(&mut reader)?)?;
        }
        reader.finish(PacketType::ConnAck)?;
        Ok(connack)
    }

    fn decode_flags(&mut self, flags: u8, version: Version) -> Result<(), DecodeError> {
        // The byte is unused in 3.1.
        if version == Version::V31 {
            return Ok(());
        }
        if flags & 0xFE != 0 {
            return Err(reserved_flags(flags));
        }
        self.session_present = flags != 0;
        if self.session_present && self.reason != ReasonCode::Success {
            return Err(session_of_a_refused_client(self.reason));
        }
        Ok(())
    }

    fn decode_properties(&mut self, properties: &mut Properties<'a>) -> Result<(), DecodeError> {
        while let Some(id) = properties.next_id()? {
            self.decode_property(id, properties)?;
        }
        self.user_properties = properties.user_properties();
        if self.authentication_data.is_some() && self.authentication_method.is_none() {
            return Err(data_without_method());
        }
        Ok(())
    }

    fn decode_property(&mut self, id: u8, properties: &mut Properties<'a>) -> Result<(), DecodeError> {
        match id {
            property::SESSION_EXPIRY_INTERVAL => self.session_expiry_interval_s = Some(properties.u32(id)?),
            property::RECEIVE_MAXIMUM => self.receive_maximum = Some(properties.receive_maximum()?),
            property::MAXIMUM_QOS => self.maximum_qos = Some(maximum_qos(properties.flag(id)?)),
            property::RETAIN_AVAILABLE => self.retain_available = Some(properties.flag(id)?),
            property::MAXIMUM_PACKET_SIZE => self.maximum_packet_size = Some(properties.maximum_packet_size()?),
            property::ASSIGNED_CLIENT_IDENTIFIER => self.assigned_client_id = Some(properties.str(id)?),
            property::TOPIC_ALIAS_MAXIMUM => self.topic_alias_maximum = properties.u16(id)?,
            property::REASON_STRING => self.reason_string = Some(properties.str(id)?),
            property::WILDCARD_SUBSCRIPTION_AVAILABLE => {
                self.wildcard_subscription_available = Some(properties.flag(id)?);
            }
            property::SUBSCRIPTION_IDENTIFIER_AVAILABLE => {
                self.subscription_ids_available = Some(properties.flag(id)?);
            }
            property::SHARED_SUBSCRIPTION_AVAILABLE => {
                self.shared_subscription_available = Some(properties.flag(id)?);
            }
            property::SERVER_KEEP_ALIVE => self.server_keep_alive_s = Some(properties.u16(id)?),
            property::RESPONSE_INFORMATION => self.response_information = Some(properties.str(id)?),
            property::SERVER_REFERENCE => self.server_reference = Some(properties.str(id)?),
            property::AUTHENTICATION_METHOD => self.authentication_method = Some(properties.str(id)?),
            property::AUTHENTICATION_DATA => self.authentication_data = Some(properties.binary(id)?),
            _ => return Err(not_allowed(id, PacketType::ConnAck)),
        }
        Ok(())
    }

    pub(super) fn put_body(&self, version: Version, sink: &mut impl Sink) {
        match version {
            Version::V5 => {
                sink.put(&[u8::from(self.session_present), self.reason as u8]);
                self.put_block(sink);
            }
            Version::V311 => sink.put(&[u8::from(self.session_present), self.reason.connack_return_code()]),
            Version::V31 => sink.put(&[0, self.reason.connack_return_code()]),
        }
    }
}

impl PutProperties for ConnAck<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        sink.property_u32(property::SESSION_EXPIRY_INTERVAL, self.session_expiry_interval_s);
        sink.property_u16(property::RECEIVE_MAXIMUM, self.receive_maximum.map(NonZeroU16::get));
        // QoS 2 is said by leaving it out, section 3.2.2.3.4.
        let limited = self.maximum_qos.filter(|&qos| qos < QoS::ExactlyOnce);
        sink.property_flag(property::MAXIMUM_QOS, limited.map(|qos| qos == QoS::AtLeastOnce));
        sink.property_flag(property::RETAIN_AVAILABLE, self.retain_available);
        sink.property_u32(property::MAXIMUM_PACKET_SIZE, self.maximum_packet_size);
        sink.property_str(property::ASSIGNED_CLIENT_IDENTIFIER, self.assigned_client_id);
        let aliases = Some(self.topic_alias_maximum).filter(|&maximum| maximum > 0);
        sink.property_u16(property::TOPIC_ALIAS_MAXIMUM, aliases);
        sink.property_str(property::REASON_STRING, self.reason_string);
        sink.property_flag(
            property::WILDCARD_SUBSCRIPTION_AVAILABLE,
            self.wildcard_subscription_available,
        );
        sink.property_flag(
            property::SUBSCRIPTION_IDENTIFIER_AVAILABLE,
            self.subscription_ids_available,
        );
        sink.property_flag(
            property::SHARED_SUBSCRIPTION_AVAILABLE,
            self.shared_subscription_available,
        );
        sink.property_u16(property::SERVER_KEEP_ALIVE, self.server_keep_alive_s);
        sink.property_str(property::RESPONSE_INFORMATION, self.response_information);
        sink.property_str(property::SERVER_REFERENCE, self.server_reference);
        sink.property_str(property::AUTHENTICATION_METHOD, self.authentication_method);
        sink.property_binary(property::AUTHENTICATION_DATA, self.authentication_data);
        self.user_properties.put(sink);
    }
}

fn maximum_qos(one: bool) -> QoS {
    if one { QoS::AtLeastOnce } else { QoS::AtMostOnce }
}

#[cold]
pub(super) fn data_without_method() -> DecodeError {
    DecodeError::protocol(
        "section 3.1.2.11.10",
        "Authentication Data comes without an Authentication Method",
    )
}

#[cold]
fn reserved_flags(flags: u8) -> DecodeError {
    DecodeError::malformed(
        "MQTT-3.2.2-1",
        format!("Connect Acknowledge Flags {flags:#04x} have reserved bits"),
    )
}

#[cold]
fn session_of_a_refused_client(reason: ReasonCode) -> DecodeError {
    DecodeError::protocol(
        "MQTT-3.2.2-6",
        format!("CONNACK has Session Present with reason {reason}"),
    )
}
