//! MQTT 3.1, 3.1.1 and 5.0: bytes to packets and back. Knows no socket, session or clock.
//!
//! A reader finds the end of a packet with [`fixed_header`], takes it apart with [`Packet::decode`], or does both with
//! [`Packet::read`]. A decoded packet borrows from the bytes it was read from; a payload is never copied. What depends
//! on who sends (a Subscription Identifier in a client's PUBLISH) or on what was sent before is left to the session.
//!
//! ```
//! use mqtt::{Packet, Publish, QoS, Version};
//!
//! let mut bytes = Vec::new();
//! Packet::Publish(Publish::new("plant/7", QoS::AtMostOnce, None, b"21.5")).encode(Version::V5, &mut bytes);
//!
//! let (packet, len) = Packet::read(&bytes, Version::V5, 1024)?.expect("the whole packet is there");
//! let Packet::Publish(publish) = packet else { panic!("was a PUBLISH") };
//! assert_eq!((publish.topic, publish.payload, len), ("plant/7", b"21.5".as_slice(), bytes.len()));
//!
//! let error = Packet::read(b"\x36\x00", Version::V5, 1024).expect_err("QoS 3 does not exist");
//! assert_eq!(error.clause, "MQTT-3.3.1-4");
//! # Ok::<(), mqtt::DecodeError>(())
//! ```

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
