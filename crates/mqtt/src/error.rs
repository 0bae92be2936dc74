//! What is said of bytes that are no packet.

use std::borrow::Cow;
use std::fmt;

use crate::ReasonCode;

/// A packet that the standard forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// What MQTT 5 tells the peer: `MalformedPacket`, `ProtocolError`, `PacketTooLarge`, `UnsupportedProtocolVersion` …
    pub reason: ReasonCode,
    /// The normative statement that was broken, such as `MQTT-3.3.1-4`, by its number in MQTT 5.0; `section 2.1.4`
    /// where the standard forbids without a numbered statement, `MQTT 3.1.1 …` where only that version does.
    pub clause: &'static str,
    /// In words, with the value that was found.
    pub message: Cow<'static, str>,
}

impl DecodeError {
    /// A packet that cannot be parsed, section 1.2.
    #[cold]
    pub(crate) fn malformed(clause: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ReasonCode::MalformedPacket, clause, message)
    }

    /// A packet that can be parsed, with data that the protocol does not allow, section 1.2.
    #[cold]
    pub(crate) fn protocol(clause: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ReasonCode::ProtocolError, clause, message)
    }

    #[cold]
    pub(crate) fn new(reason: ReasonCode, clause: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        DecodeError {
            reason,
            clause,
            message: message.into(),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.reason, self.message, self.clause)
    }
}

impl std::error::Error for DecodeError {}
