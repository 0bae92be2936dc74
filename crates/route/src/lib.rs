//! Message routes, compiled: which messages (a topic filter), under which condition (CEL), copied to which targets.
//! Pure: it reads a message and names what is to be sent; it sends nothing and knows no socket or clock.
//!
//! [`CompiledRoute::compile`] checks a manifest's route as far as it can be checked before a message comes;
//! [`Routes`] holds those of a tenant and [`Routes::evaluate`]s them for each message. Without conditions that
//! allocates nothing.

mod compile;
mod condition;
mod filter;
mod routes;
mod template;

pub use compile::{CompiledRoute, RouteError};
pub use condition::{Lookup, MAX_CONDITION_BYTES, MAX_CONDITION_DEPTH, MAX_PAYLOAD_BYTES, MAX_STEPS};
pub use manifest::{Priority, Upstream, WhenFull};
pub use routes::{Action, Counters, Delivery, Full, LastFailure, MAX_HOPS, MAX_ROUTES, Message, Routes};
