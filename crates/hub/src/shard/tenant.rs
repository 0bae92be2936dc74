//! All that a shard knows of one tenant.

use std::collections::HashMap;
use std::sync::Arc;

use broker::{Broker, Position};
use device::{Calls, Twin};
use tokio::sync::oneshot;

use crate::routing::Routing;

/// Method calls of a tenant that may wait for their results; one more is answered 429.
const CALLS_MAX: usize = 10_000;

/// One tenant: its tree of topics and what the hub adds to it.
pub(crate) struct Tenant {
    pub(crate) name: Arc<str>,
    /// Where the log has its name.
    pub(crate) position: Position,
    pub(crate) broker: Broker,
    pub(crate) twins: HashMap<Box<str>, StoredTwin>,
    pub(crate) calls: Calls<Caller>,
    pub(crate) routing: Routing,
    /// Numbers the calls that routes make.
    pub(crate) route_calls: u64,
    /// When the tenant is told next what the hub says of itself.
    pub(crate) reports_at_ms: u64,
    /// Clients without credentials have the whole tree: whose session a device is cannot be told.
    pub(crate) is_open: bool,
}

/// A device's twin and where the log has it.
#[derive(Default)]
pub(crate) struct StoredTwin {
    pub(crate) twin: Twin,
    pub(crate) position: Position,
}

/// Who waits for the result of a method call.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) timeout_ms: u64,
    pub(crate) waits: Waits,
}

/// Where the result of a call is awaited.
#[derive(Debug)]
pub(crate) enum Waits {
    /// On the result topic alone.
    OnResultTopic,
    /// On a topic of its own as well: Response Topic and Correlation Data of MQTT 5.
    OnTopic(Box<ReplyTo>),
    /// Inside the program.
    Inside(oneshot::Sender<Vec<u8>>),
}

/// Response Topic and Correlation Data of a call.
#[derive(Debug)]
pub(crate) struct ReplyTo {
    pub(crate) topic: Box<str>,
    pub(crate) correlation_data: Option<Box<[u8]>>,
}

impl Tenant {
    pub(crate) fn new(name: Arc<str>, position: Position, broker: Broker, is_open: bool) -> Self {
        Self {
            name,
            position,
            broker,
            twins: HashMap::new(),
            calls: Calls::new(CALLS_MAX),
            routing: Routing::default(),
            route_calls: 0,
            reports_at_ms: 0,
            is_open,
        }
    }

    /// When something of this tenant is due, on the monotonic clock in milliseconds.
    pub(crate) fn next_deadline_ms(&self) -> u64 {
        let due = [
            self.broker.next_deadline(),
            self.calls.next_deadline_ms(),
            Some(self.reports_at_ms),
        ];
        due.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}
