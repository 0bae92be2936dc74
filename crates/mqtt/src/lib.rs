//! MQTT 3.1, 3.1.1 and 5.0: bytes to packets and back. Knows no socket, session or clock.
//!
//! A reader finds the end of a packet with [`fixed_header`], takes it apart with [`Packet::decode`], or does both with
//! [`Packet::read`]. A decoded packet borrows from the bytes it was read from; a payload is never copied. What depends
//! on who sends (a Subscription Identifier in a client's PUBLISH) or on what was sent before is left to the session.

mod codec;
mod error;
mod header;
mod packet;
mod packet_type;
mod property;
mod read;
mod reason;
pub mod topic;
mod user_properties;
mod write;

pub use error::DecodeError;
pub use header::{FixedHeader, fixed_header};
pub use packet::*;
pub use packet_type::PacketType;
pub use reason::ReasonCode;
pub use user_properties::{UserProperties, UserPropertiesBuf, UserPropertiesIter};
