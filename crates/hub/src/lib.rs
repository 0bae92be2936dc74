//! MQTT on sockets: the doors, authentication, limits, shards, and the way of a message in one file (`pipeline.rs`).
//!
//! Doors run on tokio: they accept, shake hands, read the CONNECT and check who it is. Then a client's socket, TLS
//! state and leftover bytes go to the shard of its tenant: one thread, one epoll loop, no lock and no thread crossed
//! by a message. Knows nothing of containers or of the cloud.

mod acl;
mod announcements;
mod arrivals;
mod asked;
mod call_log;
mod calls;
mod config;
mod counters;
mod descriptors;
mod door;
mod edge_calls;
mod hub;
mod lost_edits;
mod outbox;
mod overheard;
mod pace;
mod pipeline;
mod posted;
mod refused;
mod reply;
mod routing;
mod shard;
mod stand_in;
mod sys;
mod twin_changes;
mod twin_sync;
mod twins;
mod upstream;

pub use arrivals::{ArrivalCounts, ArrivalFigures, Arrived, Arriving};
pub use asked::Asked;
pub use calls::{Location, TIMEOUT_MS as CALL_TIMEOUT_MS};
pub use config::{Address, Limits, Listener, TlsSource, WebDoor};
pub use counters::Counters;
pub use door::{Bound, EdgeConnection};
pub use edge_calls::{EdgeCall, EdgeCalls, NotAsked, call_failure};
pub use hub::{Hub, Options, StartError, shards_in};
pub use lost_edits::LostEdit;
pub use outbox::{
    Allowance, Discarded, Fate, Lane, Ledger, Ordering, Origin, Outbox, OutboxOptions, Outgoing, Parcel, QueueFigures,
    Settled, Settler, Ticket,
};
pub use overheard::{Overheard, Overhearing};
pub use posted::Posted;
pub use refused::{DoorFigures, Refused, RefusedCounts};
pub use shard::control::{RouteInfo, SessionInfo};
pub use shard::socket::Socket;
pub use shard::tasks::Place;
pub use shard::{Observation, TenantFigures};
pub use stand_in::StandIn;
pub use twin_sync::TwinChange;

/// Seconds of Unix time, for what compares itself with dates that others wrote.
fn unix_now_s() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "credentials carry dates of the wall clock")]
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() as i64)
}
