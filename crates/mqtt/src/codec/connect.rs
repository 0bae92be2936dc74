//! CONNECT, section 3.1, with its will.

use std::num::NonZeroU16;

use super::connack::data_without_method;
use crate::property::{self, Properties, PropertySink, PutProperties, not_allowed};
use crate::read::Reader;
use crate::topic;
use crate::write::Sink;
use crate::{Connect, DecodeError, PacketType, PublishProperties, QoS, ReasonCode, UserProperties, Version, Will};

const RESERVED: u8 = 0x01;
const CLEAN_START: u8 = 0x02;
const WILL: u8 = 0x04;
const WILL_QOS: u8 = 0x18;
const WILL_RETAIN: u8 = 0x20;
const PASSWORD: u8 = 0x40;
const USER_NAME: u8 = 0x80;

impl<'a> Connect<'a> {
    /// A clean start without keep-alive, will or credentials.
    pub fn new(version: Version, client_id: &'a str) -> Self {
        Connect {
            version,
            clean_start: true,
            keep_alive_s: 0,
            client_id,
            will: None,
            user_name: None,
            password: None,
            session_expiry_interval_s: None,
            receive_maximum: None,
            maximum_packet_size: None,
            topic_alias_maximum: 0,
            request_response_information: false,
            request_problem_information: true,
            authentication_method: None,
            authentication_data: None,
            user_properties: UserProperties::default(),
        }
    }

    /// Version that the body of a CONNECT announces, so that it can be answered in that version even where the rest is
    /// malformed.
    ///
    /// # Errors
    /// A protocol name or level that is none of ours is `UnsupportedProtocolVersion` (MQTT-3.1.2-1, MQTT-3.1.2-2).
    pub fn announced_version(body: &[u8]) -> Result<Version, DecodeError> {
        read_version(&mut Reader::new(body))
    }

    pub(super) fn decode(mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let version = read_version(&mut reader)?;
        let flags = reader.u8("Connect Flags")?;
        check_flags(flags, version)?;
        let mut connect = Connect::new(version, "");
        connect.clean_start = flags & CLEAN_START != 0;
        connect.keep_alive_s = reader.u16("Keep Alive")?;
        if version == Version::V5 {
            connect.decode_properties(&mut Properties::read(&mut reader)?)?;
        }
        connect.client_id = reader.str("Client Identifier")?;
        if flags & WILL != 0 {
            connect.will = Some(Will::decode(&mut reader, flags, version)?);
        }
        connect.decode_credentials(&mut reader, flags)?;
        reader.finish(PacketType::Connect)?;
        Ok(connect)
    }

    fn decode_credentials(&mut self, reader: &mut Reader<'a>, flags: u8) -> Result<(), DecodeError> {
        // 3.1, section 3.1: where the packet ends before a user name or password that its flags name, it has none.
        let may_be_missing = self.version == Version::V31;
        if flags & USER_NAME != 0 && !(may_be_missing && reader.is_empty()) {
            self.user_name = Some(reader.str("User Name")?);
        }
        if flags & PASSWORD != 0 && !(may_be_missing && reader.is_empty()) {
            self.password = Some(reader.binary("Password")?);
        }
        Ok(())
    }

    fn decode_properties(&mut self, properties: &mut Properties<'a>) -> Result<(), DecodeError> {
        while let Some(id) = properties.next_id()? {
            match id {
                property::SESSION_EXPIRY_INTERVAL => self.session_expiry_interval_s = Some(properties.u32(id)?),
                property::RECEIVE_MAXIMUM => self.receive_maximum = Some(properties.receive_maximum()?),
                property::MAXIMUM_PACKET_SIZE => self.maximum_packet_size = Some(properties.maximum_packet_size()?),
                property::TOPIC_ALIAS_MAXIMUM => self.topic_alias_maximum = properties.u16(id)?,
                property::REQUEST_RESPONSE_INFORMATION => self.request_response_information = properties.flag(id)?,
                property::REQUEST_PROBLEM_INFORMATION => self.request_problem_information = properties.flag(id)?,
                property::AUTHENTICATION_METHOD => self.authentication_method = Some(properties.str(id)?),
                property::AUTHENTICATION_DATA => self.authentication_data = Some(properties.binary(id)?),
                _ => return Err(not_allowed(id, PacketType::Connect)),
            }
        }
        self.user_properties = properties.user_properties();
        if self.authentication_data.is_some() && self.authentication_method.is_none() {
            return Err(data_without_method());
        }
        Ok(())
    }

    pub(super) fn put_body(&self, sink: &mut impl Sink) {
        sink.put_str(protocol_name(self.version));
        sink.put(&[self.version as u8, self.flags()]);
        sink.put_u16(self.keep_alive_s);
        if self.version == Version::V5 {
            self.put_block(sink);
        }
        sink.put_str(self.client_id);
        if let Some(will) = &self.will {
            will.put(self.version, sink);
        }
        if let Some(user_name) = self.user_name {
            sink.put_str(user_name);
        }
        if let Some(password) = self.password {
            sink.put_binary(password);
        }
    }

    fn flags(&self) -> u8 {
        let mut flags = self.will.as_ref().map_or(0, Will::flags);
        flags |= if self.clean_start { CLEAN_START } else { 0 };
        flags |= if self.user_name.is_some() { USER_NAME } else { 0 };
        flags | if self.password.is_some() { PASSWORD } else { 0 }
    }
}

impl PutProperties for Connect<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        sink.property_u32(property::SESSION_EXPIRY_INTERVAL, self.session_expiry_interval_s);
        sink.property_u16(property::RECEIVE_MAXIMUM, self.receive_maximum.map(NonZeroU16::get));
        sink.property_u32(property::MAXIMUM_PACKET_SIZE, self.maximum_packet_size);
        let aliases = Some(self.topic_alias_maximum).filter(|&maximum| maximum > 0);
        sink.property_u16(property::TOPIC_ALIAS_MAXIMUM, aliases);
        let wants_response_information = self.request_response_information.then_some(true);
        sink.property_flag(property::REQUEST_RESPONSE_INFORMATION, wants_response_information);
        let no_problem_information = (!self.request_problem_information).then_some(false);
        sink.property_flag(property::REQUEST_PROBLEM_INFORMATION, no_problem_information);
        sink.property_str(property::AUTHENTICATION_METHOD, self.authentication_method);
        sink.property_binary(property::AUTHENTICATION_DATA, self.authentication_data);
        self.user_properties.put(sink);
    }
}

impl<'a> Will<'a> {
    /// A will at QoS 0 without properties.
    pub fn new(topic: &'a str, payload: &'a [u8]) -> Self {
        let properties = PublishProperties::default();
        Will {
            qos: QoS::AtMostOnce,
            retain: false,
            topic,
            payload,
            delay_interval_s: 0,
            properties,
        }
    }

    fn decode(reader: &mut Reader<'a>, flags: u8, version: Version) -> Result<Self, DecodeError> {
        let mut will = Will::new("", &[]);
        will.qos = QoS::from_bits(flags >> 3).ok_or_else(|| will_qos_3(flags))?;
        will.retain = flags & WILL_RETAIN != 0;
        if version == Version::V5 {
            will.decode_properties(&mut Properties::read(reader)?)?;
        }
        will.topic = reader.utf8("Will Topic")?;
        topic::check_name(will.topic)?;
        will.payload = reader.binary("Will Payload")?;
        Ok(will)
    }

    fn decode_properties(&mut self, properties: &mut Properties<'a>) -> Result<(), DecodeError> {
        while let Some(id) = properties.next_id()? {
            match id {
                property::WILL_DELAY_INTERVAL => self.delay_interval_s = properties.u32(id)?,
                _ => self.properties.decode_shared(id, properties, PacketType::Connect)?,
            }
        }
        self.properties.user_properties = properties.user_properties();
        Ok(())
    }

    fn flags(&self) -> u8 {
        WILL | (self.qos as u8) << 3 | if self.retain { WILL_RETAIN } else { 0 }
    }

    fn put(&self, version: Version, sink: &mut impl Sink) {
        if version == Version::V5 {
            self.put_block(sink);
        }
        sink.put_str(self.topic);
        sink.put_binary(self.payload);
    }
}

impl PutProperties for Will<'_> {
    fn put_properties(&self, sink: &mut impl Sink) {
        let delay = Some(self.delay_interval_s).filter(|&delay| delay > 0);
        sink.property_u32(property::WILL_DELAY_INTERVAL, delay);
        self.properties.put_shared(sink);
    }
}

fn protocol_name(version: Version) -> &'static str {
    if version == Version::V31 { "MQIsdp" } else { "MQTT" }
}

fn read_version(reader: &mut Reader<'_>) -> Result<Version, DecodeError> {
    let name = reader.binary("Protocol Name")?;
    if name != b"MQTT" && name != b"MQIsdp" {
        return Err(unsupported_name(name));
    }
    match (name, reader.u8("Protocol Version")?) {
        (b"MQIsdp", 3) => Ok(Version::V31),
        (b"MQTT", 4) => Ok(Version::V311),
        (b"MQTT", 5) => Ok(Version::V5),
        (_, level) => Err(unsupported_level(name, level)),
    }
}

/// What the Connect Flags say of each other. In 3.1 the reserved bit is unused and a will's bits count only with a
/// will.
fn check_flags(flags: u8, version: Version) -> Result<(), DecodeError> {
    if flags & PASSWORD != 0 && flags & USER_NAME == 0 && version != Version::V5 {
        return Err(bad_flags(
            "MQTT 3.1.1 MQTT-3.1.2-22",
            flags,
            "a password without a user name",
        ));
    }
    if version == Version::V31 {
        return Ok(());
    }
    match flags {
        _ if flags & RESERVED != 0 => Err(bad_flags("MQTT-3.1.2-3", flags, "the reserved bit")),
        _ if flags & WILL != 0 => Ok(()),
        _ if flags & WILL_QOS != 0 => Err(bad_flags("MQTT-3.1.2-11", flags, "a Will QoS without a will")),
        _ if flags & WILL_RETAIN != 0 => Err(bad_flags("MQTT-3.1.2-13", flags, "Will Retain without a will")),
        _ => Ok(()),
    }
}

#[cold]
fn unsupported_name(name: &[u8]) -> DecodeError {
    let message = format!(
        "protocol name \"{}\"; it is \"MQTT\", in 3.1 \"MQIsdp\"",
        name.escape_ascii()
    );
    DecodeError::new(ReasonCode::UnsupportedProtocolVersion, "MQTT-3.1.2-1", message)
}

#[cold]
fn unsupported_level(name: &[u8], level: u8) -> DecodeError {
    let message = format!(
        "protocol {} {level}; known are MQIsdp 3, MQTT 4 and MQTT 5",
        name.escape_ascii()
    );
    DecodeError::new(ReasonCode::UnsupportedProtocolVersion, "MQTT-3.1.2-2", message)
}

#[cold]
fn bad_flags(clause: &'static str, flags: u8, what: &'static str) -> DecodeError {
    DecodeError::malformed(clause, format!("Connect Flags {flags:#04x} have {what}"))
}

#[cold]
fn will_qos_3(flags: u8) -> DecodeError {
    bad_flags("MQTT-3.1.2-12", flags, "Will QoS 3")
}
