//! SUBSCRIBE, section 3.8, and UNSUBSCRIBE, section 3.10.

use crate::property::{self, Properties, PutProperties, not_allowed, twice};
use crate::read::Reader;
use crate::topic;
use crate::write::Sink;
use crate::{
    DecodeError, PacketId, PacketType, QoS, RetainHandling, Subscribe, SubscriptionOptions, Unsubscribe,
    UserProperties, Version,
};

impl<'a> Subscribe<'a> {
    /// A SUBSCRIBE without properties.
    pub fn new(packet_id: PacketId, filters: Vec<(&'a str, SubscriptionOptions)>) -> Self {
        Subscribe {
            packet_id,
            subscription_id: None,
            filters,
            user_properties: UserProperties::default(),
        }
    }

    pub(super) fn decode(mut reader: Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut subscribe = Subscribe::new(reader.packet_id()?, Vec::new());
        if version == Version::V5 {
            subscribe.decode_properties(&mut Properties::read(&mut reader)?)?;
        }
        while !reader.is_empty() {
            let filter = read_filter(&mut reader, version)?;
            let options = SubscriptionOptions::decode(reader.u8("Subscription Options")?, version)?;
            if options.no_local && topic::split_shared(filter)?.is_some() {
                return Err(no_local_on_shared(filter));
            }
            subscribe.filters.push((filter, options));
        }
        if subscribe.filters.is_empty() {
            return Err(DecodeError::protocol("MQTT-3.8.3-2", "SUBSCRIBE has no topic filter"));
        }
        Ok(subscribe)
    }

    fn decode_properties(&mut self, properties: &mut Properties<'a>) -> Result<(), DecodeError> {
        while let Some(id) = properties.next_id()? {
            match id {
                property::SUBSCRIPTION_IDENTIFIER if self.subscription_id.is_some() => return Err(twice(id)),
                property::SUBSCRIPTION_IDENTIFIER => self.subscription_id = Some(properties.subscription_id()?),
                _ => return Err(not_allowed(id, PacketType::Subscribe)),
            }
        }
        self.user_properties = properties.user_properties();
        Ok(())
    }

    pub(super) fn put_body(&self, version: Version, sink: &mut impl Sink) {
        sink.put_u16(self.packet_id.get());
        if version == Version::V5 {
            self.put_block(sink);
        }
        for (filter, options) in &self.filters {
            sink.put_str(filter);
            sink.put_u8(options.encode(version));
        }
    }
}

impl PutProperties for Subscribe<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        if let Some(id) = self.subscription_id {
            sink.put_u8(property::SUBSCRIPTION_IDENTIFIER);
            sink.put_varint(id as usize);
        }
        self.user_properties.put(sink);
    }
}

impl SubscriptionOptions {
    /// Options of a subscription that asks for `qos` and is at its defaults otherwise.
    pub fn at(qos: QoS) -> Self {
        SubscriptionOptions { qos, ..Self::default() }
    }

    fn decode(byte: u8, version: Version) -> Result<Self, DecodeError> {
        // 3.1 leaves the upper six bits unused.
        let byte = if version == Version::V31 { byte & 0x03 } else { byte };
        let reserved = if version == Version::V5 { 0xC0 } else { 0xFC };
        if byte & reserved != 0 {
            return Err(reserved_options(byte));
        }
        let retain_handling = match byte >> 4 {
            0 => RetainHandling::Send,
            1 => RetainHandling::SendIfNew,
            2 => RetainHandling::DoNotSend,
            _ => return Err(retain_handling_3(byte)),
        };
        let qos = QoS::from_bits(byte).ok_or_else(|| maximum_qos_3(byte))?;
        Ok(SubscriptionOptions {
            qos,
            no_local: byte & 0x04 != 0,
            retain_as_published: byte & 0x08 != 0,
            retain_handling,
        })
    }

    fn encode(self, version: Version) -> u8 {
        let qos = self.qos as u8;
        if version != Version::V5 {
            return qos;
        }
        qos | u8::from(self.no_local) << 2 | u8::from(self.retain_as_published) << 3 | (self.retain_handling as u8) << 4
    }
}

impl<'a> Unsubscribe<'a> {
    /// An UNSUBSCRIBE without properties.
    pub fn new(packet_id: PacketId, filters: Vec<&'a str>) -> Self {
        Unsubscribe {
            packet_id,
            filters,
            user_properties: UserProperties::default(),
        }
    }

    pub(super) fn decode(mut reader: Reader<'a>, version: Version) -> Result<Self, DecodeError> {
        let mut unsubscribe = Unsubscribe::new(reader.packet_id()?, Vec::new());
        if version == Version::V5 {
            let mut properties = Properties::read(&mut reader)?;
            if let Some(id) = properties.next_id()? {
                return Err(not_allowed(id, PacketType::Unsubscribe));
            }
            unsubscribe.user_properties = properties.user_properties();
        }
        while !reader.is_empty() {
            unsubscribe.filters.push(read_filter(&mut reader, version)?);
        }
        if unsubscribe.filters.is_empty() {
            return Err(DecodeError::protocol(
                "MQTT-3.10.3-2",
                "UNSUBSCRIBE has no topic filter",
            ));
        }
        Ok(unsubscribe)
    }

    pub(super) fn put_body(&self, version: Version, sink: &mut impl Sink) {
        sink.put_u16(self.packet_id.get());
        if version == Version::V5 {
            self.put_block(sink);
        }
        self.filters.iter().for_each(|filter| sink.put_str(filter));
    }
}

impl PutProperties for Unsubscribe<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        self.user_properties.put(sink);
    }
}

/// Shared subscriptions are of version 5; before it `$share` is a level like any other, and only a plain filter's
/// rules hold.
fn read_filter<'a>(reader: &mut Reader<'a>, version: Version) -> Result<&'a str, DecodeError> {
    let filter = reader.utf8("Topic Filter")?;
    match version {
        Version::V5 => topic::check_subscription(filter)?,
        Version::V31 | Version::V311 => topic::check_filter(filter)?,
    }
    Ok(filter)
}

#[cold]
fn no_local_on_shared(filter: &str) -> DecodeError {
    DecodeError::protocol("MQTT-3.8.3-4", format!("shared subscription {filter:?} has No Local"))
}

#[cold]
fn reserved_options(byte: u8) -> DecodeError {
    DecodeError::malformed(
        "MQTT-3.8.3-5",
        format!("Subscription Options {byte:#04x} have reserved bits"),
    )
}

#[cold]
fn retain_handling_3(byte: u8) -> DecodeError {
    let message = format!("Subscription Options {byte:#04x} have Retain Handling 3; it is 0, 1 or 2");
    DecodeError::protocol("section 3.8.3.1", message)
}

#[cold]
fn maximum_qos_3(byte: u8) -> DecodeError {
    DecodeError::protocol(
        "section 3.8.3.1",
        format!("Subscription Options {byte:#04x} have QoS 3; it is 0, 1 or 2"),
    )
}
