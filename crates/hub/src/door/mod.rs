//! The doors: accept, shake hands, read the CONNECT, check who it is, hand the client to its shard. Nothing that
//! a stranger sends makes a door hold more than [`Limits::connect_bytes`](crate::Limits) of it.

mod admission;
mod certificate;
mod connect;
mod edge;
mod listen;
mod login_checks;
mod notices;
mod pending;
mod proxy_protocol;
mod stream;
mod turns;
mod upgrade;

pub(crate) use admission::{Doorman, fnv, place_of};
pub use edge::EdgeConnection;
pub use listen::Bound;
pub(crate) use listen::serve;
