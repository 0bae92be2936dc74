//! The load generator: devices and the responder in one thread with one epoll set, so that every system is measured by
//! the same client and no thread of it is crossed.

pub(crate) mod block;
pub(crate) mod clock;
pub(crate) mod fleet;
pub(crate) mod frame;
pub(crate) mod login;
pub(crate) mod payload;
pub(crate) mod poller;
mod role;
mod session;
pub(crate) mod socket;

pub(crate) use role::device_id;
