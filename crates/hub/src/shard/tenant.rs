//! All that a shard knows of one tenant.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use broker::{Broker, ConnId, Position};
use device::{CallLimits, Calls, DecodeError, Twin};
use identity::Quotas;
use tokio::sync::oneshot;

use super::TenantFigures;
use super::rate::Rate;
use crate::announcements::Announcements;
use crate::arrivals::Arrivals;
use crate::lost_edits::LostEdits;
use crate::reply::ReplyTo;
use crate::routing::Routing;
use crate::stand_in::StandIn;

/// One tenant: its tree of topics and what the hub adds to it.
pub(crate) struct Tenant {
    pub(crate) name: Arc<str>,
    /// Where the log has its name.
    pub(crate) position: Position,
    pub(crate) broker: Broker,
    pub(crate) quotas: Quotas,
    /// What is left of its rate of publishing.
    pub(crate) rate: Rate,
    /// Connections that are not read until the rate lets their next PUBLISH pass, in the order of their turns.
    pub(crate) paused: VecDeque<ConnId>,
    /// Some of them are having their turn.
    pub(crate) is_resuming: bool,
    /// When they are looked at next, on the monotonic clock in milliseconds.
    pub(crate) resumes_at_ms: u64,
    /// How often a connection had to wait for the rate.
    pub(crate) pauses: u64,
    /// Connections refused because as many were open as may be.
    pub(crate) refused_connections: u64,
    pub(crate) twins: HashMap<Box<str>, StoredTwin>,
    /// Bytes of memory that the twins count as.
    pub(crate) twin_bytes: u64,
    /// Bytes that messages and twins may take together.
    stored_bytes_max: u64,
    /// What the hub has to say once the log has it.
    pub(crate) announcements: Announcements,
    pub(crate) calls: Calls<Caller>,
    /// Room for the result topic of a call that is being delivered.
    pub(crate) result_topic: String,
    pub(crate) routing: Routing,
    /// Applications that may be asleep.
    pub(crate) stand_ins: Vec<StandIn>,
    /// What came from other hubs.
    pub(crate) arrivals: Arrivals,
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
    /// Edits of its desired state that were given up.
    pub(crate) lost_edits: LostEdits,
    pub(crate) position: Position,
    /// Bytes of memory that it counts as.
    pub(crate) bytes: u64,
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
    /// On a topic of its own as well.
    OnTopic(Box<ReplyTo>),
    /// Inside the program.
    Inside(oneshot::Sender<Vec<u8>>),
}

impl StoredTwin {
    /// A twin whose content is not read yet.
    pub(crate) fn unread(position: Position) -> Self {
        Self {
            position,
            ..Self::default()
        }
    }

    /// A twin as the log has it at `position`.
    ///
    /// # Errors
    /// The bytes are no twin.
    pub(crate) fn decode(bytes: &[u8], position: Position) -> Result<Self, DecodeError> {
        let (twin, edits) = split(bytes);
        let mut stored = Self {
            twin: Twin::decode(twin)?,
            lost_edits: LostEdits::decode(edits),
            position,
            bytes: 0,
        };
        stored.bytes = stored.memory_bytes();
        Ok(stored)
    }

    /// The lines of [`Twin::encode`] and, behind them, a line of the edits that were given up, if there are such.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (mut bytes, edits) = (self.twin.encode(), self.lost_edits.encode());
        if !edits.is_empty() {
            bytes.push(b'\n');
            bytes.extend(edits);
        }
        bytes
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.twin.memory_bytes() + self.lost_edits.memory_bytes()
    }
}

/// The twin and the edits in what [`StoredTwin::encode`] made.
pub(crate) fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
    let end = ends.map(|(at, _)| at).nth(1);
    bytes.split_at(end.unwrap_or(bytes.len()))
}

impl Caller {
    /// Bytes that are kept with the call, beside this.
    pub(crate) fn kept_bytes(&self) -> usize {
        match &self.waits {
            Waits::OnTopic(reply_to) => reply_to.bytes(),
            Waits::OnResultTopic | Waits::Inside(_) => 0,
        }
    }
}

impl Tenant {
    pub(crate) fn new(name: Arc<str>, position: Position, broker: Broker, is_open: bool) -> Self {
        Self {
            name,
            position,
            broker,
            quotas: Quotas::default(),
            rate: Rate::default(),
            paused: VecDeque::new(),
            is_resuming: false,
            resumes_at_ms: u64::MAX,
            pauses: 0,
            refused_connections: 0,
            twins: HashMap::new(),
            twin_bytes: 0,
            stored_bytes_max: u64::MAX,
            announcements: Announcements::default(),
            arrivals: Arrivals::default(),
            calls: Calls::new(CallLimits::default()),
            result_topic: String::new(),
            routing: Routing::default(),
            stand_ins: Vec::new(),
            route_calls: 0,
            reports_at_ms: 0,
            is_open,
        }
    }

    /// Bounds it from now on: as the hub does, and by its own quotas where those are tighter.
    pub(crate) fn set_bounds(&mut self, limits: &broker::Limits, quotas: &Quotas) {
        if self.quotas != *quotas {
            self.quotas = *quotas;
            self.rate = Rate::new(quotas);
        }
        let tighter = |bound: u64, quota: Option<u64>| bound.min(quota.unwrap_or(u64::MAX));
        let sessions = quotas.sessions.and_then(|sessions| usize::try_from(sessions).ok());
        self.stored_bytes_max = tighter(limits.kept_bytes, quotas.stored_bytes);
        self.broker.set_limits(broker::Limits {
            sessions: limits.sessions.min(sessions.unwrap_or(usize::MAX)),
            session_bytes: tighter(limits.session_bytes, quotas.session_bytes),
            subscription_bytes: tighter(limits.subscription_bytes, quotas.subscription_bytes),
            kept_bytes: self.stored_bytes_max.saturating_sub(self.twin_bytes),
            ..limits.clone()
        });
    }

    /// Bytes that twins may take beside those that they and messages take.
    pub(crate) fn room_bytes(&self) -> u64 {
        let stored_bytes = self.broker.statistics().kept_bytes + self.twin_bytes;
        self.stored_bytes_max.saturating_sub(stored_bytes)
    }

    /// Puts a twin in place of the one before.
    pub(crate) fn put_twin(&mut self, device: &str, stored: StoredTwin) {
        let bytes = stored.bytes;
        let old = self.twins.insert(device.into(), stored);
        self.count_twin(old.map_or(0, |old| old.bytes), bytes);
    }

    pub(crate) fn remove_twin(&mut self, device: &str) -> Option<StoredTwin> {
        let old = self.twins.remove(device)?;
        self.count_twin(old.bytes, 0);
        Some(old)
    }

    /// A twin counts as `bytes` in place of `old_bytes`: messages have the room that is left.
    pub(crate) fn count_twin(&mut self, old_bytes: u64, bytes: u64) {
        self.twin_bytes = self.twin_bytes - old_bytes + bytes;
        let left_bytes = self.stored_bytes_max.saturating_sub(self.twin_bytes);
        self.broker.set_kept_bytes(left_bytes);
    }

    pub(crate) fn figures(&self) -> TenantFigures {
        TenantFigures {
            name: Arc::clone(&self.name),
            broker: self.broker.statistics(),
            twins: self.twins.len(),
            twin_bytes: self.twin_bytes,
            paused: self.paused.len(),
            pauses: self.pauses,
            refused_connections: self.refused_connections,
        }
    }

    /// Whether one more connection may open for this session.
    pub(crate) fn may_connect(&self, owner: &str, client_id: &str) -> bool {
        let is_full = |connections| self.broker.connected() as u64 >= connections;
        !self.quotas.connections.is_some_and(is_full) || self.broker.is_connected(owner, client_id)
    }

    /// When something of this tenant is due, on the monotonic clock in milliseconds.
    pub(crate) fn next_deadline_ms(&self) -> u64 {
        let due = [
            self.broker.next_deadline(),
            self.calls.next_deadline_ms(),
            Some(self.reports_at_ms),
            Some(self.resumes_at_ms),
        ];
        due.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}
