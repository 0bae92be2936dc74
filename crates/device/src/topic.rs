//! The topics under `devices/`, taken apart without a copy and put together.

use std::fmt::{self, Display};

use mqtt::topic::split_level;

/// Longest device, method or call id, in bytes.
pub const MAX_ID_BYTES: usize = 128;

/// A topic `devices/{device}/…` as a client sees it inside its tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTopic<'a> {
    /// The device that the topic belongs to.
    pub device: &'a str,
    /// What the topic is for.
    pub channel: Channel<'a>,
}

/// What a topic of a device is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel<'a> {
    /// `telemetry` and all below it: readings of the device.
    Telemetry,
    /// `twin/reported`: a merge patch of the reported state, from the device.
    TwinReported,
    /// `twin/desired`: the whole desired state, retained, from the hub.
    TwinDesired,
    /// `twin/get`: asks for both states.
    TwinGet,
    /// `twin/get/result`: answers it.
    TwinGetResult,
    /// `twin/desired/set`: a merge patch of the desired state, from an application.
    TwinDesiredSet,
    /// `twin/desired/set/result`: answers it.
    TwinDesiredSetResult,
    /// `methods/{name}/{call}`: a call of a method of the device.
    MethodCall {
        /// The method.
        name: &'a str,
        /// The caller's id of this call.
        call: &'a str,
    },
    /// `methods/{name}/{call}/result`: answers it.
    MethodResult {
        /// The method.
        name: &'a str,
        /// The caller's id of the call.
        call: &'a str,
    },
    /// Anything else below the device: nothing of the hub's.
    Other,
}

impl<'a> DeviceTopic<'a> {
    /// Takes a topic name apart; `None` where it is not below `devices/{id}/`. Never allocates. Below an id that is too
    /// long for a device there is nothing of the hub's.
    #[must_use]
    pub fn parse(topic: &'a str) -> Option<Self> {
        let (device, rest) = split_level(topic.strip_prefix("devices/")?);
        let channel = match device.len() > MAX_ID_BYTES {
            true => rest.map(|_| Channel::Other)?,
            false => Channel::parse(rest?),
        };
        (!device.is_empty()).then_some(DeviceTopic { device, channel })
    }
}

impl<'a> Channel<'a> {
    fn parse(rest: &'a str) -> Self {
        match split_level(rest) {
            ("telemetry", _) => Channel::Telemetry,
            ("methods", Some(rest)) => Channel::parse_method(rest),
            ("twin", Some(rest)) => Channel::parse_twin(rest),
            _ => Channel::Other,
        }
    }

    fn parse_method(rest: &'a str) -> Self {
        let (name, Some(rest)) = split_level(rest) else {
            return Channel::Other;
        };
        match split_level(rest) {
            (call, _) if name.is_empty() || call.is_empty() => Channel::Other,
            (call, None) => Channel::MethodCall { name, call },
            (call, Some("result")) => Channel::MethodResult { name, call },
            _ => Channel::Other,
        }
    }

    fn parse_twin(rest: &str) -> Self {
        match rest {
            "reported" => Channel::TwinReported,
            "desired" => Channel::TwinDesired,
            "get" => Channel::TwinGet,
            "get/result" => Channel::TwinGetResult,
            "desired/set" => Channel::TwinDesiredSet,
            "desired/set/result" => Channel::TwinDesiredSetResult,
            _ => Channel::Other,
        }
    }
}

/// The topic name. `Telemetry` and `Other` name the topic at the root of theirs.
impl Display for DeviceTopic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "devices/{}/", self.device)?;
        match self.channel {
            Channel::Telemetry => f.write_str("telemetry"),
            Channel::TwinReported => f.write_str("twin/reported"),
            Channel::TwinDesired => f.write_str("twin/desired"),
            Channel::TwinGet => f.write_str("twin/get"),
            Channel::TwinGetResult => f.write_str("twin/get/result"),
            Channel::TwinDesiredSet => f.write_str("twin/desired/set"),
            Channel::TwinDesiredSetResult => f.write_str("twin/desired/set/result"),
            Channel::MethodCall { name, call } => write!(f, "methods/{name}/{call}"),
            Channel::MethodResult { name, call } => write!(f, "methods/{name}/{call}/result"),
            Channel::Other => Ok(()),
        }
    }
}

/// What is wrong with an id of a device, a method or a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// There is none.
    #[error("an id has at least one character")]
    Empty,
    /// Longer than [`MAX_ID_BYTES`].
    #[error("an id has at most {MAX_ID_BYTES} bytes, this one has {bytes}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// A character that would be part of a topic's or a command's syntax.
    #[error("an id cannot contain {character:?}; letters, digits, '-', '_', '.' and ':' are fine")]
    Character {
        /// The first such character.
        character: char,
    },
    /// Starts with a character that only the inside may have.
    #[error("an id starts with a letter or a digit, not with {character:?}")]
    Start {
        /// That character.
        character: char,
    },
}

/// Whether `id` can name a device, a method or a call: letters, digits, `-`, `_`, `.`, `:`; a letter or digit first.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn validate_id(id: &str) -> Result<(), IdError> {
    if id.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong { bytes: id.len() });
    }
    let first = id.chars().next().ok_or(IdError::Empty)?;
    let is_right = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    match id
        .bytes()
        .position(|byte| !is_right(byte))
        .and_then(|at| id[at..].chars().next())
    {
        Some(character) => Err(IdError::Character { character }),
        None if !first.is_ascii_alphanumeric() => Err(IdError::Start { character: first }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Channel, DeviceTopic, validate_id};

    fn parse(topic: &str) -> Option<(&str, Channel<'_>)> {
        DeviceTopic::parse(topic).map(|t| (t.device, t.channel))
    }

    #[test]
    fn every_topic_of_the_contract_is_told_apart() {
        let cases = [
            ("telemetry", Channel::Telemetry),
            ("telemetry/motor/1", Channel::Telemetry),
            ("twin/reported", Channel::TwinReported),
            ("twin/desired", Channel::TwinDesired),
            ("twin/get", Channel::TwinGet),
            ("twin/get/result", Channel::TwinGetResult),
            ("twin/desired/set", Channel::TwinDesiredSet),
            ("twin/desired/set/result", Channel::TwinDesiredSetResult),
            (
                "methods/stop/17",
                Channel::MethodCall {
                    name: "stop",
                    call: "17",
                },
            ),
            (
                "methods/stop/17/result",
                Channel::MethodResult {
                    name: "stop",
                    call: "17",
                },
            ),
        ];
        for (rest, channel) in cases {
            assert_eq!(
                parse(&format!("devices/pump-7/{rest}")),
                Some(("pump-7", channel)),
                "{rest}"
            );
        }
    }

    #[test]
    fn near_misses_belong_to_the_device_but_to_nothing_of_the_hub() {
        for rest in [
            "",
            "telemetryx",
            "twin",
            "twin/reported/x",
            "twin/desired/set/result/x",
            "methods",
            "methods/",
            "methods/stop",
            "methods//17",
            "methods/stop/",
            "methods/stop/17/",
            "methods/stop/17/results",
            "methods/stop/17/result/x",
        ] {
            assert_eq!(
                parse(&format!("devices/pump-7/{rest}")),
                Some(("pump-7", Channel::Other)),
                "{rest:?}"
            );
        }
    }

    #[test]
    fn below_an_id_that_is_too_long_there_is_nothing_of_the_hub() {
        for (bytes, channel) in [(128, Channel::TwinGet), (129, Channel::Other)] {
            let id = "p".repeat(bytes);
            assert_eq!(parse(&format!("devices/{id}/twin/get")), Some((&*id, channel)));
            assert_eq!(parse(&format!("devices/{id}")), None);
        }
    }

    #[test]
    fn topics_elsewhere_belong_to_no_device() {
        for topic in [
            "",
            "devices",
            "devices/",
            "devices/x",
            "devices//telemetry",
            "apps/x/devices/y/twin/get",
            "Devices/x/y",
        ] {
            assert_eq!(parse(topic), None, "{topic:?}");
        }
    }

    #[test]
    fn what_is_put_together_is_taken_apart_again() {
        for channel in [
            Channel::Telemetry,
            Channel::TwinReported,
            Channel::TwinDesired,
            Channel::TwinGet,
            Channel::TwinGetResult,
            Channel::TwinDesiredSet,
            Channel::TwinDesiredSetResult,
            Channel::MethodCall {
                name: "stop",
                call: "1",
            },
            Channel::MethodResult {
                name: "stop",
                call: "1",
            },
            Channel::Other,
        ] {
            let topic = DeviceTopic { device: "d", channel };
            assert_eq!(DeviceTopic::parse(&topic.to_string()), Some(topic));
        }
    }

    #[test]
    fn an_id_that_cannot_stand_in_a_topic_is_refused_with_its_reason() {
        let long = "x".repeat(129);
        let cases = [
            ("pump-7", ""),
            ("AC:23:3F_a.b", ""),
            ("", "an id has at least one character"),
            (&long, "an id has at most 128 bytes, this one has 129"),
            (
                "a/b",
                "an id cannot contain '/'; letters, digits, '-', '_', '.' and ':' are fine",
            ),
            (
                "a+",
                "an id cannot contain '+'; letters, digits, '-', '_', '.' and ':' are fine",
            ),
            (
                "größe",
                "an id cannot contain 'ö'; letters, digits, '-', '_', '.' and ':' are fine",
            ),
            (
                "a\0",
                "an id cannot contain '\\0'; letters, digits, '-', '_', '.' and ':' are fine",
            ),
            (
                "$SYS",
                "an id cannot contain '$'; letters, digits, '-', '_', '.' and ':' are fine",
            ),
            ("-x", "an id starts with a letter or a digit, not with '-'"),
        ];
        for (id, expected) in cases {
            let found = validate_id(id).err().map(|e| e.to_string()).unwrap_or_default();
            assert_eq!(found, expected, "{id:?}");
        }
    }
}
