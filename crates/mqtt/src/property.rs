//! Properties, section 2.2.2: their identifiers, and a property block read and written.

use std::num::NonZeroU16;

use crate::read::Reader;
use crate::write::{Count, Sink};
use crate::{DecodeError, PacketType, ReasonCode, UserProperties, topic};

pub(crate) const PAYLOAD_FORMAT_INDICATOR: u8 = 0x01;
pub(crate) const MESSAGE_EXPIRY_INTERVAL: u8 = 0x02;
pub(crate) const CONTENT_TYPE: u8 = 0x03;
pub(crate) const RESPONSE_TOPIC: u8 = 0x08;
pub(crate) const CORRELATION_DATA: u8 = 0x09;
pub(crate) const SUBSCRIPTION_IDENTIFIER: u8 = 0x0B;
pub(crate) const SESSION_EXPIRY_INTERVAL: u8 = 0x11;
pub(crate) const ASSIGNED_CLIENT_IDENTIFIER: u8 = 0x12;
pub(crate) const SERVER_KEEP_ALIVE: u8 = 0x13;
pub(crate) const AUTHENTICATION_METHOD: u8 = 0x15;
pub(crate) const AUTHENTICATION_DATA: u8 = 0x16;
pub(crate) const REQUEST_PROBLEM_INFORMATION: u8 = 0x17;
pub(crate) const WILL_DELAY_INTERVAL: u8 = 0x18;
pub(crate) const REQUEST_RESPONSE_INFORMATION: u8 = 0x19;
pub(crate) const RESPONSE_INFORMATION: u8 = 0x1A;
pub(crate) const SERVER_REFERENCE: u8 = 0x1C;
pub(crate) const REASON_STRING: u8 = 0x1F;
pub(crate) const RECEIVE_MAXIMUM: u8 = 0x21;
pub(crate) const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
pub(crate) const TOPIC_ALIAS: u8 = 0x23;
pub(crate) const MAXIMUM_QOS: u8 = 0x24;
pub(crate) const RETAIN_AVAILABLE: u8 = 0x25;
pub(crate) const USER_PROPERTY: u8 = 0x26;
pub(crate) const MAXIMUM_PACKET_SIZE: u8 = 0x27;
pub(crate) const WILDCARD_SUBSCRIPTION_AVAILABLE: u8 = 0x28;
pub(crate) const SUBSCRIPTION_IDENTIFIER_AVAILABLE: u8 = 0x29;
pub(crate) const SHARED_SUBSCRIPTION_AVAILABLE: u8 = 0x2A;

/// Name of a property in the standard's words.
fn name(id: u8) -> &'static str {
    match id {
        PAYLOAD_FORMAT_INDICATOR => "Payload Format Indicator",
        MESSAGE_EXPIRY_INTERVAL => "Message Expiry Interval",
        CONTENT_TYPE => "Content Type",
        RESPONSE_TOPIC => "Response Topic",
        CORRELATION_DATA => "Correlation Data",
        SUBSCRIPTION_IDENTIFIER => "Subscription Identifier",
        SESSION_EXPIRY_INTERVAL => "Session Expiry Interval",
        ASSIGNED_CLIENT_IDENTIFIER => "Assigned Client Identifier",
        SERVER_KEEP_ALIVE => "Server Keep Alive",
        AUTHENTICATION_METHOD => "Authentication Method",
        AUTHENTICATION_DATA => "Authentication Data",
        REQUEST_PROBLEM_INFORMATION => "Request Problem Information",
        WILL_DELAY_INTERVAL => "Will Delay Interval",
        REQUEST_RESPONSE_INFORMATION => "Request Response Information",
        RESPONSE_INFORMATION => "Response Information",
        SERVER_REFERENCE => "Server Reference",
        REASON_STRING => "Reason String",
        RECEIVE_MAXIMUM => "Receive Maximum",
        TOPIC_ALIAS_MAXIMUM => "Topic Alias Maximum",
        TOPIC_ALIAS => "Topic Alias",
        MAXIMUM_QOS => "Maximum QoS",
        RETAIN_AVAILABLE => "Retain Available",
        USER_PROPERTY => "User Property",
        MAXIMUM_PACKET_SIZE => "Maximum Packet Size",
        WILDCARD_SUBSCRIPTION_AVAILABLE => "Wildcard Subscription Available",
        SUBSCRIPTION_IDENTIFIER_AVAILABLE => "Subscription Identifier Available",
        SHARED_SUBSCRIPTION_AVAILABLE => "Shared Subscription Available",
        _ => "unknown property",
    }
}

/// A property block that is being read: identifiers one by one, each with its value asked for by its type.
pub(crate) struct Properties<'a> {
    block: &'a [u8],
    values: Reader<'a>,
    /// A bit for every identifier that came before; all are below 64.
    seen: u64,
    /// The part of the block from its first User Property to the end of its last.
    user_start: usize,
    user_end: usize,
    /// Bytes of it that are User Properties.
    user_len: usize,
}

impl<'a> Properties<'a> {
    /// Takes a Property Length and as many bytes.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let len = reader.varint("Property Length")?;
        let block = reader.take(len as usize, "property block")?;
        Ok(Properties {
            block,
            values: Reader::new(block),
            seen: 0,
            user_start: 0,
            user_end: 0,
            user_len: 0,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// The next identifier but those of User Properties, which are gathered. Only a Subscription Identifier may come
    /// twice.
    pub(crate) fn next_id(&mut self) -> Result<Option<u8>, DecodeError> {
        while !self.values.is_empty() {
            let id = self.values.u8("property identifier")?;
            if id != USER_PROPERTY {
                return self.note(id).map(Some);
            }
            self.user_property()?;
        }
        Ok(None)
    }

    fn note(&mut self, id: u8) -> Result<u8, DecodeError> {
        let bit = 1_u64.checked_shl(u32::from(id)).unwrap_or(0);
        if self.seen & bit != 0 && id != SUBSCRIPTION_IDENTIFIER {
            return Err(twice(id));
        }
        self.seen |= bit;
        Ok(id)
    }

    /// A UTF-8 String Pair, section 1.5.7.
    fn user_property(&mut self) -> Result<(), DecodeError> {
        let start = self.block.len() - self.values.len() - 1;
        self.values.str("name of a User Property")?;
        self.values.str("value of a User Property")?;
        if self.user_len == 0 {
            self.user_start = start;
        }
        self.user_end = self.block.len() - self.values.len();
        self.user_len += self.user_end - start;
        Ok(())
    }

    /// What [`Properties::next_id`] gathered, when it has come to the end.
    pub(crate) fn user_properties(&self) -> UserProperties<'a> {
        UserProperties::from_block(&self.block[self.user_start..self.user_end], self.user_len)
    }

    pub(crate) fn u16(&mut self, id: u8) -> Result<u16, DecodeError> {
        self.values.u16(name(id))
    }

    pub(crate) fn u32(&mut self, id: u8) -> Result<u32, DecodeError> {
        self.values.u32(name(id))
    }

    pub(crate) fn str(&mut self, id: u8) -> Result<&'a str, DecodeError> {
        self.values.str(name(id))
    }

    pub(crate) fn binary(&mut self, id: u8) -> Result<&'a [u8], DecodeError> {
        self.values.binary(name(id))
    }

    /// A byte that is 0 or 1.
    pub(crate) fn flag(&mut self, id: u8) -> Result<bool, DecodeError> {
        match self.values.u8(name(id))? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(not_a_flag(id, other)),
        }
    }

    /// A Response Topic, which is a topic name (MQTT-3.3.2-14).
    pub(crate) fn response_topic(&mut self) -> Result<&'a str, DecodeError> {
        let name = self.values.utf8(name(RESPONSE_TOPIC))?;
        topic::check_name_by("MQTT-3.3.2-14", name)?;
        Ok(name)
    }

    /// A Receive Maximum, which is not 0, sections 3.1.2.11.3 and 3.2.2.3.3.
    pub(crate) fn receive_maximum(&mut self) -> Result<NonZeroU16, DecodeError> {
        NonZeroU16::new(self.u16(RECEIVE_MAXIMUM)?).ok_or_else(|| zero(RECEIVE_MAXIMUM, "section 3.1.2.11.3"))
    }

    /// A Maximum Packet Size, which is not 0, sections 3.1.2.11.4 and 3.2.2.3.6.
    pub(crate) fn maximum_packet_size(&mut self) -> Result<u32, DecodeError> {
        match self.u32(MAXIMUM_PACKET_SIZE)? {
            0 => Err(zero(MAXIMUM_PACKET_SIZE, "section 3.1.2.11.4")),
            size => Ok(size),
        }
    }

    /// A Subscription Identifier, which is not 0, section 3.8.2.1.2.
    pub(crate) fn subscription_id(&mut self) -> Result<u32, DecodeError> {
        match self.values.varint(name(SUBSCRIPTION_IDENTIFIER))? {
            0 => Err(zero(SUBSCRIPTION_IDENTIFIER, "section 3.8.2.1.2")),
            id => Ok(id),
        }
    }

    /// A Topic Alias, which is not 0 (MQTT-3.3.2-8).
    pub(crate) fn topic_alias(&mut self) -> Result<NonZeroU16, DecodeError> {
        NonZeroU16::new(self.u16(TOPIC_ALIAS)?).ok_or_else(topic_alias_zero)
    }
}

/// The next User Property of a block that was read before; other properties are passed over.
pub(crate) fn next_user_property<'a>(block: &mut Reader<'a>) -> Option<(&'a str, &'a str)> {
    while !block.is_empty() {
        let id = block.u8("property identifier").ok()?;
        if id == USER_PROPERTY {
            return block.str("name").ok().zip(block.str("value").ok());
        }
        skip(id, block).ok()?;
    }
    None
}

fn skip(id: u8, block: &mut Reader<'_>) -> Result<(), DecodeError> {
    match id {
        PAYLOAD_FORMAT_INDICATOR
        | REQUEST_PROBLEM_INFORMATION
        | REQUEST_RESPONSE_INFORMATION
        | MAXIMUM_QOS
        | RETAIN_AVAILABLE
        | WILDCARD_SUBSCRIPTION_AVAILABLE
        | SUBSCRIPTION_IDENTIFIER_AVAILABLE
        | SHARED_SUBSCRIPTION_AVAILABLE => block.u8(name(id)).map(drop),
        SERVER_KEEP_ALIVE | RECEIVE_MAXIMUM | TOPIC_ALIAS_MAXIMUM | TOPIC_ALIAS => block.u16(name(id)).map(drop),
        MESSAGE_EXPIRY_INTERVAL | SESSION_EXPIRY_INTERVAL | WILL_DELAY_INTERVAL | MAXIMUM_PACKET_SIZE => {
            block.u32(name(id)).map(drop)
        }
        SUBSCRIPTION_IDENTIFIER => block.varint(name(id)).map(drop),
        _ => block.binary(name(id)).map(drop),
    }
}

/// The error for an identifier that a packet does not have, section 2.2.2.2.
#[cold]
pub(crate) fn not_allowed(id: u8, packet: PacketType) -> DecodeError {
    DecodeError::malformed(
        "section 2.2.2.2",
        format!("{} ({id:#04x}) has no place in {packet}", name(id)),
    )
}

/// The error for a property that may come once and came again.
#[cold]
pub(crate) fn twice(id: u8) -> DecodeError {
    DecodeError::protocol("section 2.2.2.2", format!("{} ({id:#04x}) comes twice", name(id)))
}

#[cold]
fn zero(id: u8, clause: &'static str) -> DecodeError {
    DecodeError::protocol(clause, format!("{} is 0", name(id)))
}

#[cold]
fn topic_alias_zero() -> DecodeError {
    DecodeError::new(ReasonCode::TopicAliasInvalid, "MQTT-3.3.2-8", "Topic Alias is 0")
}

#[cold]
fn not_a_flag(id: u8, value: u8) -> DecodeError {
    DecodeError::protocol("section 2.2.2.2", format!("{} is {value}; it is 0 or 1", name(id)))
}

/// A set of properties that can be written.
pub(crate) trait PutProperties {
    fn put_properties(&self, sink: &mut impl Sink);

    /// Bytes of the properties without the Property Length.
    fn properties_len(&self) -> usize {
        let mut count = Count::default();
        self.put_properties(&mut count);
        count.0
    }

    /// Writes Property Length and properties.
    fn put_block(&self, sink: &mut impl Sink) {
        sink.put_varint(self.properties_len());
        self.put_properties(sink);
    }
}

/// Writes one property, if it is there.
pub(crate) trait PropertySink: Sink {
    #[inline]
    fn property_flag(&mut self, id: u8, value: Option<bool>) {
        if let Some(value) = value {
            self.put(&[id, u8::from(value)]);
        }
    }

    #[inline]
    fn property_u16(&mut self, id: u8, value: Option<u16>) {
        if let Some(value) = value {
            self.put_u8(id);
            self.put_u16(value);
        }
    }

    #[inline]
    fn property_u32(&mut self, id: u8, value: Option<u32>) {
        if let Some(value) = value {
            self.put_u8(id);
            self.put_u32(value);
        }
    }

    #[inline]
    fn property_str(&mut self, id: u8, value: Option<&str>) {
        self.property_binary(id, value.map(str::as_bytes));
    }

    #[inline]
    fn property_binary(&mut self, id: u8, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.put_u8(id);
            self.put_binary(value);
        }
    }
}

impl<S: Sink> PropertySink for S {}
