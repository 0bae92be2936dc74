//! Edge to cloud: the messages of a hub's outbox over one connection of MQTT 5, what becomes of each, and what devices
//! behind an edge are asked from the cloud.
//!
//! Both ends are here: [`edge`] dials, [`cloud`] serves the edges that the hub's doors let in. Neither knows what a
//! message means, nor what is said in a [`Talk`].

pub mod batch;
pub mod cloud;
mod devices;
pub mod edge;
mod packets;
mod talk;
mod topics;
mod wire;

pub use devices::{DeviceChange, DeviceFigures, Follow};
pub use talk::{Talk, WAITING_MAX};
pub use wire::Malformed;
