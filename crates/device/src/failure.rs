//! What the hub itself answers to a call.

use serde_json::Value;

use crate::calls::{CallId, LONGEST_TIMEOUT_MS, StartError};
use crate::topic::IdError;

/// Longest Correlation Data of a call in bytes: it is kept until the result comes (MQTT 5, section 3.3.2.3.6).
pub const MAX_CORRELATION_BYTES: usize = 1_024;

/// Why the hub itself answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// Device, method or call have no id that can be one.
    Id {
        /// Whose it is: `device`, `method` or `call`.
        of: &'static str,
        /// What is wrong with it.
        error: IdError,
    },
    /// The caller would wait longer than [`LONGEST_TIMEOUT_MS`].
    TimeoutTooLong {
        /// How long it would.
        timeout_ms: u64,
    },
    /// Its Correlation Data is longer than [`MAX_CORRELATION_BYTES`].
    CorrelationTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// No session of the device is connected.
    Away,
    /// A session of the device is connected, but has not subscribed to its calls.
    Deaf,
    /// No result came in time.
    TimedOut {
        /// How long it waited.
        timeout_ms: u64,
    },
    /// It was not begun.
    NotStarted(StartError),
}

impl CallFailure {
    /// As in HTTP: from 400 on.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            CallFailure::Id { .. } | CallFailure::TimeoutTooLong { .. } => 400,
            CallFailure::CorrelationTooLong { .. } => 413,
            CallFailure::Away | CallFailure::Deaf => 404,
            CallFailure::TimedOut { .. } => 504,
            CallFailure::NotStarted(StartError::InUse) => 409,
            CallFailure::NotStarted(StartError::Full { .. } | StartError::TooLarge { .. }) => 429,
        }
    }

    /// What happened, for a person.
    #[must_use]
    pub fn message(self, id: CallId<'_>) -> String {
        let CallId { device, name, call } = id;
        match self {
            CallFailure::Id { of, error } => format!("the id of the {of}: {error}"),
            CallFailure::TimeoutTooLong { timeout_ms } => format!(
                "the call would wait {} s for its result; at most {} s",
                timeout_ms / 1_000,
                LONGEST_TIMEOUT_MS / 1_000
            ),
            CallFailure::CorrelationTooLong { bytes } => {
                format!("the call has {bytes} bytes of Correlation Data; at most {MAX_CORRELATION_BYTES}")
            }
            CallFailure::Away => format!("{device} is not connected"),
            CallFailure::Deaf => {
                format!("{device} is connected but has not subscribed to devices/{device}/methods/+/+")
            }
            CallFailure::TimedOut { timeout_ms } => {
                format!("{device} did not answer \"{name}\" within {timeout_ms} ms")
            }
            CallFailure::NotStarted(StartError::InUse) => {
                format!("call \"{call}\" of \"{name}\" is still waiting for its result; use another id")
            }
            CallFailure::NotStarted(StartError::Full { limit }) => {
                format!("{limit} calls are waiting for their results, which is the limit")
            }
            CallFailure::NotStarted(StartError::TooLarge { limit_bytes }) => {
                format!(
                    "the calls that are waiting for their results may take {limit_bytes} bytes, which is too few for this one"
                )
            }
        }
    }

    /// The payload of `devices/{id}/methods/{name}/{call}/result`:
    /// `{"status":404,"payload":{"message":"pump-7 is not connected"}}`.
    #[must_use]
    pub fn payload(self, id: CallId<'_>) -> Vec<u8> {
        let message = Value::String(self.message(id));
        format!(r#"{{"status":{},"payload":{{"message":{message}}}}}"#, self.status()).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{CallFailure, CallId, StartError};
    use crate::topic::validate_id;

    #[test]
    fn the_hub_answers_with_a_status_and_what_happened() {
        let cases = [
            (
                CallFailure::Id {
                    of: "call",
                    error: validate_id("1 2").unwrap_err(),
                },
                r#"{"status":400,"payload":{"message":"the id of the call: an id cannot contain ' '; letters, digits, '-', '_', '.' and ':' are fine"}}"#,
            ),
            (
                CallFailure::TimeoutTooLong { timeout_ms: 601_000 },
                r#"{"status":400,"payload":{"message":"the call would wait 601 s for its result; at most 600 s"}}"#,
            ),
            (
                CallFailure::CorrelationTooLong { bytes: 1_025 },
                r#"{"status":413,"payload":{"message":"the call has 1025 bytes of Correlation Data; at most 1024"}}"#,
            ),
            (
                CallFailure::NotStarted(StartError::TooLarge { limit_bytes: 16 }),
                r#"{"status":429,"payload":{"message":"the calls that are waiting for their results may take 16 bytes, which is too few for this one"}}"#,
            ),
            (
                CallFailure::Away,
                r#"{"status":404,"payload":{"message":"pump-7 is not connected"}}"#,
            ),
            (
                CallFailure::Deaf,
                r#"{"status":404,"payload":{"message":"pump-7 is connected but has not subscribed to devices/pump-7/methods/+/+"}}"#,
            ),
            (
                CallFailure::TimedOut { timeout_ms: 5000 },
                r#"{"status":504,"payload":{"message":"pump-7 did not answer \"stop\" within 5000 ms"}}"#,
            ),
            (
                CallFailure::NotStarted(StartError::InUse),
                r#"{"status":409,"payload":{"message":"call \"1\" of \"stop\" is still waiting for its result; use another id"}}"#,
            ),
            (
                CallFailure::NotStarted(StartError::Full { limit: 64 }),
                r#"{"status":429,"payload":{"message":"64 calls are waiting for their results, which is the limit"}}"#,
            ),
        ];
        for (failure, expected) in cases {
            assert_eq!(
                String::from_utf8(failure.payload(CallId {
                    device: "pump-7",
                    name: "stop",
                    call: "1"
                }))
                .unwrap(),
                expected
            );
        }
    }
}
