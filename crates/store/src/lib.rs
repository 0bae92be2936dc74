//! What survives: an append-only, segmented log with group commit. Knows nothing of what its records mean.
//!
//! One thread, the *owner*, appends records to a batch in memory and never waits for a disk. [`Log::submit`] hands
//! the batch to the commit thread when that is idle, so that batch *k* is written and synced while *k + 1* fills: one
//! write and one sync for all that wait. [`Log::durable`] says how far the log is safe.
//!
//! A record is a small `meta`, enough to rebuild the owner's state, and a `body` that need not be read for that. The
//! owner says which records nothing needs any more ([`Log::release`]); the oldest segment is emptied by offering what
//! is left of it to the owner, which appends it again ([`Event::Relocate`]), so files stay bounded however long one
//! record lives. Room for that is kept in reserve: a log that is full of garbage never stays full.

mod batch;
mod commit;
mod directory;
mod disk;
mod emptying;
mod error;
mod event;
mod index;
mod keeper;
mod live;
mod log;
mod options;
mod position;
mod reader;
mod record;
mod recovery;
mod retries;
mod scan;
mod schedule;
mod segment;
mod shared;
mod space;
#[cfg(test)]
mod tests;

pub use error::{Damage, DamageKind, Fault, OpenError, Refused, Stopped};
pub use event::Event;
pub use log::{Kind, LOADS_MAX, Log, Usage};
pub use options::{Durability, Options};
pub use position::Position;
pub use recovery::{Recovered, Recovery, Report};
pub use schedule::run_soon;
