//! What the hub itself answers to a call.

use serde_json::Value;

use crate::calls::{CallId, StartError};

/// Why the hub itself answers a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
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
    /// 404, 504, 409 or 429.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            CallFailure::Away | CallFailure::Deaf => 404,
            CallFailure::TimedOut { .. } => 504,
            CallFailure::NotStarted(StartError::InUse) => 409,
            CallFailure::NotStarted(StartError::Full { .. }) => 429,
        }
    }

    /// What happened, for a person.
    #[must_use]
    pub fn message(self, id: CallId<'_>) -> String {
        let CallId { device, name, call } = id;
        match self {
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

    #[test]
    fn the_hub_answers_with_a_status_and_what_happened() {
        let cases = [
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
