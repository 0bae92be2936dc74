//! What may be seen from outside: sessions for listings, figures for `$SYS` and metrics.

use mqtt::SubscriptionOptions;

use crate::session::Session;
use crate::sessions::Totals;
use crate::{Broker, ConnId};

/// A session, as listings show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView<'a> {
    /// To whom it belongs.
    pub owner: &'a str,
    /// Its client identifier.
    pub client_id: &'a str,
    /// Its connection.
    pub conn: Option<ConnId>,
    /// Seconds that it outlives its connection; `u32::MAX` is for ever.
    pub expiry_s: u32,
    /// Number of its subscriptions.
    pub subscriptions: usize,
    /// Messages that wait.
    pub queued_messages: usize,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Messages sent and not acknowledged.
    pub in_flight: usize,
}

/// A subscription, as listings show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscriptionView<'a> {
    /// The whole filter, `$share/…` included.
    pub filter: &'a str,
    /// Its options.
    pub options: SubscriptionOptions,
    /// Its Subscription Identifier.
    pub subscription_id: Option<u32>,
}

/// Figures of a broker at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Sessions, connected or not.
    pub sessions: usize,
    /// Bytes of memory that they count as, but for subscriptions and the messages themselves.
    pub session_bytes: u64,
    /// Those with a connection.
    pub connected: usize,
    /// Subscriptions, those of shared groups included.
    pub subscriptions: usize,
    /// Bytes of memory that they count as.
    pub subscription_bytes: u64,
    /// Retained messages.
    pub retained_messages: usize,
    /// Their bytes.
    pub retained_bytes: u64,
    /// Messages that wait in sessions.
    pub queued_messages: usize,
    /// Their bytes, counted for each session.
    pub queued_bytes: u64,
    /// Messages sent and not acknowledged.
    pub in_flight: usize,
    /// Bytes of messages held in memory, each counted once.
    pub memory_bytes: u64,
    /// Bytes of messages that wait or are retained, in memory or in the log, each counted once.
    pub kept_bytes: u64,
}

impl Broker {
    /// All sessions, in a stable order.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.sessions.iter().map(view)
    }

    /// That of this owner and client identifier.
    pub fn session(&self, owner: &str, client_id: &str) -> Option<SessionView<'_>> {
        let slot = self.sessions.find(owner, client_id)?;
        Some(view(self.sessions.get(slot)))
    }

    /// Sessions with a connection.
    pub fn connected(&self) -> usize {
        self.sessions.connected()
    }

    /// Whether this session is there and has a connection.
    pub fn is_connected(&self, owner: &str, client_id: &str) -> bool {
        let found = self.sessions.find(owner, client_id);
        found.is_some_and(|slot| self.sessions.get(slot).live.is_some())
    }

    /// Whether any session of this owner has a connection.
    pub fn is_owner_connected(&self, owner: &str) -> bool {
        self.sessions.is_owner_connected(owner)
    }

    /// The subscriptions of a session, by filter.
    pub fn subscriptions(&self, owner: &str, client_id: &str) -> impl Iterator<Item = SubscriptionView<'_>> {
        let session = self.sessions.find(owner, client_id).map(|slot| self.sessions.get(slot));
        session
            .into_iter()
            .flat_map(|session| &session.subscriptions)
            .map(|subscription| SubscriptionView {
                filter: &subscription.filter,
                options: subscription.options,
                subscription_id: Some(subscription.id).filter(|id| *id != 0),
            })
    }

    /// Figures of this instant; visits nothing.
    pub fn statistics(&self) -> Statistics {
        let Totals {
            subscriptions,
            queued_messages,
            queued_bytes,
            in_flight,
            bytes,
        } = self.sessions.totals();
        Statistics {
            sessions: self.sessions.len(),
            session_bytes: bytes,
            connected: self.sessions.connected(),
            subscriptions,
            subscription_bytes: self.subscription_bytes,
            retained_messages: self.retained.len(),
            retained_bytes: self.retained.bytes(),
            queued_messages,
            queued_bytes,
            in_flight,
            memory_bytes: self.held.memory_bytes(),
            kept_bytes: self.held.bytes(),
        }
    }
}

fn view(session: &Session) -> SessionView<'_> {
    let totals = session.totals();
    SessionView {
        owner: &session.owner,
        client_id: &session.client_id,
        conn: session.live.as_ref().map(|live| live.conn),
        expiry_s: session.expiry_s,
        subscriptions: totals.subscriptions,
        queued_messages: totals.queued_messages,
        queued_bytes: totals.queued_bytes,
        in_flight: totals.in_flight,
    }
}
