//! PUBLISH, section 3.3, and the properties it shares with a will.

use std::num::NonZeroU16;

use crate::property::{self, Properties, PropertySink, PutProperties, not_allowed};
use crate::read::Reader;
use crate::topic;
use crate::write::{Count, FIXED_HEADER_MAX_LEN, Sink};
use crate::{DecodeError, PacketId, PacketType, Publish, PublishProperties, QoS, Version};

impl<'a> Publish<'a> {
    /// A message without properties. `packet_id` is there exactly when `qos` is above 0.
    pub fn new(topic: &'a str, qos: QoS, packet_id: Option<PacketId>, payload: &'a [u8]) -> Self {
        let properties = PublishProperties::default();
        Publish {
            dup: false,
            qos,
            retain: false,
            topic,
            packet_id,
            properties,
            payload,
        }
    }

    /// Appends the packet's bytes to `out`, as [`Packet::encode`](crate::Packet::encode) does, without a copy of the
    /// packet.
    ///
    /// # Panics
    /// Where [`Packet::encode`](crate::Packet::encode) does.
    #[inline]
    pub fn encode(&self, version: Version, out: &mut Vec<u8>) {
        let mut body = Count::default();
        self.put_body(version, &mut body);
        out.reserve(body.0 + FIXED_HEADER_MAX_LEN);
        out.put_u8((PacketType::Publish as u8) << 4 | self.flags());
        out.put_varint(body.0);
        self.put_body(version, out);
    }

    #[inline]
    pub(super) fn decode(first: u8, mut reader: Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let qos = QoS::from_bits(first >> 1).ok_or_else(qos_3)?;
        let topic = reader.utf8("Topic Name")?;
        let packet_id = match qos {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce | QoS::ExactlyOnce => Some(reader.packet_id()?),
        };
        let properties = match version {
            Version::V5 => PublishProperties::decode(&mut reader)?,
            Version::V31 | Version::V311 => PublishProperties::default(),
        };
        check_topic(topic, properties.topic_alias, version)?;
        let (dup, retain) = (first & 0x08 != 0, first & 0x01 != 0);
        Ok(Publish {
            dup,
            qos,
            retain,
            topic,
            packet_id,
            properties,
            payload: reader.rest(),
        })
    }

    pub(super) fn flags(&self) -> u8 {
        u8::from(self.dup) << 3 | (self.qos as u8) << 1 | u8::from(self.retain)
    }

    #[inline]
    pub(super) fn put_body(&self, version: Version, sink: &mut impl Sink) {
        sink.put_str(self.topic);
        if let Some(packet_id) = self.packet_id {
            sink.put_u16(packet_id.get());
        }
        match version {
            Version::V5 if self.properties.is_empty() => sink.put_u8(0),
            Version::V5 => self.properties.put_block(sink),
            Version::V31 | Version::V311 => {}
        }
        sink.put(self.payload);
    }
}

/// A topic alias may stand for the name, section 3.3.2.3.4.
#[inline]
fn check_topic(topic: &str, alias: Option<NonZeroU16>, version: Version) -> Result<(), DecodeError> {
    match (topic.is_empty(), alias) {
        (true, Some(_)) => Ok(()),
        (true, None) if version == Version::V5 => Err(no_topic()),
        _ => topic::check_name_by("MQTT-3.3.2-2", topic),
    }
}

impl<'a> PublishProperties<'a> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let mut properties = Properties::read(reader)?;
        if properties.is_empty() {
            Ok(Self::default())
        } else {
            Self::decode_some(&mut properties)
        }
    }

    fn decode_some(properties: &mut Properties<'a>) -> Result<Self, DecodeError> {
        let mut read = Self::default();
        while let Some(id) = properties.next_id()? {
            match id {
                property::TOPIC_ALIAS => read.topic_alias = Some(properties.topic_alias()?),
                property::SUBSCRIPTION_IDENTIFIER => {
                    read.subscription_ids.to_mut().push(properties.subscription_id()?);
                }
                _ => read.decode_shared(id, properties, PacketType::Publish)?,
            }
        }
        read.user_properties = properties.user_properties();
        Ok(read)
    }

    /// Takes the properties of a PUBLISH apart, which stand alone in `bytes` behind their length (section 3.3.2.3).
    ///
    /// # Errors
    /// As [`Packet::decode`](crate::Packet::decode).
    pub fn read_block(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let properties = Self::decode(&mut reader)?;
        match reader.rest() {
            [] => Ok(properties),
            _ => Err(DecodeError::malformed(
                "section 3.3.2.3",
                "there are bytes behind the properties",
            )),
        }
    }

    /// Appends the properties behind their length, as a PUBLISH has them.
    pub fn write_block(&self, out: &mut Vec<u8>) {
        self.put_block(out);
    }

    /// Whether there is nothing to write, as in most messages.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let told = self.payload_is_utf8 | self.message_expiry_interval_s.is_some() | self.topic_alias.is_some();
        let answer = self.response_topic.is_some() | self.correlation_data.is_some() | self.content_type.is_some();
        !(told | answer) && self.subscription_ids.is_empty() && self.user_properties.is_empty()
    }

    /// The properties of a message that a will has too, section 3.1.3.2.
    pub(super) fn decode_shared(
        &mut self,
        id: u8,
        properties: &mut Properties<'a>,
        packet: PacketType,
    ) -> Result<(), DecodeError> {
        match id {
            property::PAYLOAD_FORMAT_INDICATOR => self.payload_is_utf8 = properties.flag(id)?,
            property::MESSAGE_EXPIRY_INTERVAL => self.message_expiry_interval_s = Some(properties.u32(id)?),
            property::RESPONSE_TOPIC => self.response_topic = Some(properties.response_topic()?),
            property::CORRELATION_DATA => self.correlation_data = Some(properties.binary(id)?),
            property::CONTENT_TYPE => self.content_type = Some(properties.str(id)?),
            _ => return Err(not_allowed(id, packet)),
        }
        Ok(())
    }

    /// Writes what [`PublishProperties::decode_shared`] reads, and the User Properties.
    pub(super) fn put_shared(&self, sink: &mut impl Sink) {
        sink.property_flag(property::PAYLOAD_FORMAT_INDICATOR, self.payload_is_utf8.then_some(true));
        sink.property_u32(property::MESSAGE_EXPIRY_INTERVAL, self.message_expiry_interval_s);
        sink.property_str(property::RESPONSE_TOPIC, self.response_topic);
        sink.property_binary(property::CORRELATION_DATA, self.correlation_data);
        sink.property_str(property::CONTENT_TYPE, self.content_type);
        self.user_properties.put(sink);
    }
}

impl PutProperties for PublishProperties<'_> {
    #[inline]
    fn put_properties(&self, sink: &mut impl Sink) {
        sink.property_u16(property::TOPIC_ALIAS, self.topic_alias.map(NonZeroU16::get));
        for &id in self.subscription_ids.iter() {
            sink.put_u8(property::SUBSCRIPTION_IDENTIFIER);
            sink.put_varint(id as usize);
        }
        self.put_shared(sink);
    }
}

#[cold]
fn qos_3() -> DecodeError {
    DecodeError::malformed("MQTT-3.3.1-4", "PUBLISH has QoS 3; QoS is 0, 1 or 2")
}

#[cold]
fn no_topic() -> DecodeError {
    DecodeError::protocol("section 3.3.2.1", "PUBLISH has neither a Topic Name nor a Topic Alias")
}
