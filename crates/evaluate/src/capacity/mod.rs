//! What a broker takes and holds: memory, time until ready, and acknowledged messages that survive `kill -9`; and what
//! an edge and its cloud carry: a backlog, over a thin line too, through cuts and crashes, a thousand edges at once.
//!
//! Selvedge beside Mosquitto with persistence on, in interleaved blocks of a seeded order (rule 9). Load is a closed
//! loop (rule 1): one publisher with a fixed number of messages in flight.

mod client;
mod contender;
mod cut;
mod drain;
mod durable;
mod experiment;
mod far;
mod flood;
mod http;
mod linked;
mod live;
mod memory;
mod options;
mod pause;
mod readings;
mod ready;
mod record;
mod storm;
mod summary;
mod table;
mod thin;

pub use contender::Contender;
pub use experiment::run;
pub use options::{Options, Part};
pub(crate) use pause::pause;
pub(crate) use record::FORMAT;
pub use record::{About, CapacityRun, Figure, Sample};
pub(crate) use summary::outcome;
pub use summary::{Promise, Row, Unit, Verdict, summarise};
pub use table::table;
pub(crate) use table::{notes, shown};
