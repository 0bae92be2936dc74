//! MQTT as pure state: the sessions, subscriptions, retained messages, wills and QoS flows of one tree of topics
//! (one tenant). Events and `now` go in; what follows from them is written into the caller's [`Sink`].
//! Knows no socket, file or clock, and nothing of who may do what.
//!
//! The way of a message: [`Broker::receive`] (alias, QoS 2 duplicates) → the caller's own checks →
//! [`Broker::publish`] (match, log, deliver, retain), once for each topic it goes to → [`Broker::acknowledge`].
//! What waits for the log goes on with [`Broker::committed`].

mod acknowledge;
mod aliases;
mod broker;
mod connect;
mod cost;
mod deliver;
mod deliveries;
mod depart;
mod fanout;
mod held;
mod ids;
mod incoming;
mod leave;
mod limits;
mod log;
mod message;
mod outgoing;
mod pass_on;
mod publish;
mod queue;
mod receive;
mod record;
mod record_bytes;
mod recovery;
mod relocate;
mod restored;
mod retain;
mod retained;
mod session;
mod sessions;
mod shared;
mod sink;
mod slab;
mod subscribe;
mod subscriptions;
mod tick;
mod timers;
mod view;
mod wire;

pub use broker::Broker;
pub use deliveries::{Delivered, Deliveries};
pub use limits::{Limits, QueuePolicy};
pub use message::{Keep, Message, OwnedMessage, Published, Received};
pub use record::{Damaged, Deadline, LoggedWill, Record, SessionId};
pub use recovery::Recovery;
pub use sink::{Dropped, Full, RefusedFilter, Sink};
pub use view::{SessionView, Statistics, SubscriptionView};

/// A connection, as the hub that owns the sockets names it. Never used again for another one.
///
/// It is the owner epoch of its session: of each session at most one connection is the owner, and every takeover
/// ([`Broker::connect`], which answers when it is done) makes a new one the owner and the old one nobody. All that a
/// connection asks for names it, and what names one that is no owner (any more) is ignored: it changes and promises
/// nothing. What was promised to an older owner and waits for the log is refused where it would be kept: the hub finds
/// no connection of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId(pub u64);

/// A place in the log. Positions grow with every record; zero is before all of them and always durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position(pub u64);

/// The time of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of a clock that never jumps; all waiting is measured by it.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970, used only for what must outlast a restart.
    pub unix_ms: u64,
}
