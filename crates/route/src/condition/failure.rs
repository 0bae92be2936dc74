//! Why a condition has no answer for a message.

use super::{MAX_PAYLOAD_BYTES, MAX_STEPS};

/// Counted as a failure of the route; the message is not routed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure<'a> {
    #[error("the payload is not JSON")]
    PayloadNotJson,
    #[error("the payload has {bytes} bytes; a condition reads at most {MAX_PAYLOAD_BYTES}")]
    PayloadTooLarge { bytes: usize },
    #[error("the topic names no device")]
    NoDevice,
    #[error("there is no {what} {name:?}; has() asks whether there is")]
    Missing { what: &'static str, name: &'a str },
    #[error("there is no element {index} in a list of {len}")]
    OutOfList { index: i64, len: usize },
    #[error("{operation} is not possible with {left}{}{right}", if right.is_empty() { "" } else { " and " })]
    WrongTypes {
        operation: &'static str,
        left: &'static str,
        right: &'static str,
    },
    #[error("{operation} has no result: overflow, division by zero or not a number")]
    NoResult { operation: &'static str },
    #[error("it takes more than {MAX_STEPS} steps")]
    TooExpensive,
}
