//! The cloud end's telemetry database: readings in, each once; rows out.
//!
//! A [`Database`] takes batches of [`Reading`]s and writes their rows and, in the same transaction, the mark of each
//! (edge, epoch): the sequences that are in. A reading whose sequence is in is skipped, so an edge may send again
//! whatever it is unsure of, after any crash of either side, to any number of ingest processes. [`Queries`] reads, on a
//! connection of its own, while others write.
//!
//! Both block and belong on a thread of their own, not in an async task. Every wait has a limit; what can be tried
//! again later is [`Error::Away`] or [`Error::Full`], and then nothing of the transaction was stored, or (a connection
//! lost in COMMIT) all of it: offering it again is right either way.

mod background;
mod clock;
mod database;
mod decode;
mod engine;
mod error;
pub mod history;
mod ingest;
mod live;
mod location;
mod mark;
mod names;
mod postgres;
pub mod pump;
mod query;
mod reading;
mod retention;
mod source_time;
mod sqlite;
mod told;
pub mod upkeep;
mod value;

pub use database::{Database, Gap, Ingested, Mark};
pub use decode::{MAX_DEPTH, MAX_QUALITY_BYTES, MAX_STREAMS};
pub use error::Error;
pub use live::{Feed, Filter, MAX_WATCHERS, MAX_WATCHERS_OF_TENANT, Seen, TooMany, Watch};
pub use mark::MAX_RANGES;
pub use names::MAX_STREAMS_PER_DEVICE;
pub use query::{Bucket, Cursor, NoCursor, Page, Point, Queries, Rejected, StoredPoint};
pub use reading::{MAX_NAME_BYTES, MAX_NUMBER, Origin, OriginError, Reading};
pub use retention::Retention;
pub use value::Value;
