//! The broker's state, and what all its parts do with it. Each part of its face stands in a file of its own.

use std::collections::VecDeque;

use mqtt::ReasonCode;

use crate::fanout::Fanout;
use crate::held::HeldMessages;
use crate::ids::Slot;
use crate::retain::VISITS;
use crate::retained::RetainedMessages;
use crate::sessions::Sessions;
use crate::shared::Groups;
use crate::subscriptions::SubscriptionTree;
use crate::timers::Timers;
use crate::{ConnId, Limits, Now, Position, SessionId, Sink};

/// The sessions, subscriptions and retained messages of one tree of topics. Events of connections that it does not
/// know (any more) are ignored.
#[derive(Debug)]
pub struct Broker {
    pub(crate) limits: Limits,
    pub(crate) sessions: Sessions,
    pub(crate) subscriptions: SubscriptionTree,
    /// What they take, by [`subscription_bytes`](crate::cost::subscription_bytes).
    pub(crate) subscription_bytes: u64,
    pub(crate) groups: Groups,
    pub(crate) retained: RetainedMessages,
    /// The newest record that says that a message is retained no more.
    pub(crate) newest_unretained: Position,
    pub(crate) held: HeldMessages,
    pub(crate) timers: Timers,
    /// Sessions whose next message must not leave before a record is durable, by that record.
    pub(crate) awaiting: VecDeque<(Position, Slot)>,
    /// Retained topics that may still be looked at in this turn.
    pub(crate) visits: usize,
    /// Sessions whose search among them goes on in the next turn.
    pub(crate) searching: VecDeque<Slot>,
    pub(crate) next_session: u64,
    /// Client identifiers that were assigned.
    pub(crate) assigned: u64,
    /// Kept between messages, so that one that passes needs no memory of its own.
    pub(crate) fanout: Fanout,
}

impl Broker {
    /// An empty broker.
    pub fn new(limits: Limits) -> Broker {
        Broker {
            limits,
            sessions: Sessions::default(),
            subscriptions: SubscriptionTree::new(),
            subscription_bytes: 0,
            groups: Groups::default(),
            retained: RetainedMessages::default(),
            newest_unretained: Position(0),
            held: HeldMessages::default(),
            timers: Timers::default(),
            awaiting: VecDeque::new(),
            visits: VISITS,
            searching: VecDeque::new(),
            next_session: 1,
            assigned: 0,
            fanout: Fanout::default(),
        }
    }

    pub(crate) fn new_session_id(&mut self) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        id
    }

    /// The session of a connection that has just been heard from.
    pub(crate) fn heard(&mut self, now: Now, conn: ConnId) -> Option<Slot> {
        let slot = self.sessions.by_conn(conn)?;
        if let Some(live) = &mut self.sessions.get_mut(slot).live {
            live.heard_at_ms = now.monotonic_ms;
        }
        Some(slot)
    }

    /// What the connection sends waits for its caller: its keep alive begins anew.
    pub fn keep_alive(&mut self, now: Now, conn: ConnId) {
        self.heard(now, conn);
    }

    /// Tells the timers when the session has something to do.
    pub(crate) fn arm(&mut self, slot: Slot) {
        let session = self.sessions.get_mut(slot);
        let next = session.next_deadline();
        self.timers.rearm(slot, session.armed_ms, next);
        session.armed_ms = next;
    }

    /// Ends the session's connection from this side; its will is due.
    pub(crate) fn abort(&mut self, now: Now, slot: Slot, reason: ReasonCode, out: &mut dyn Sink) {
        let Some(conn) = self.sessions.get(slot).live.as_ref().map(|live| live.conn) else {
            return;
        };
        self.detach(now, slot, out);
        out.close(conn, reason);
    }
}
