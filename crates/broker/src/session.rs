//! One session, section 4.1: what the broker knows of a client, connected or not.

use mqtt::{SubscriptionOptions, Version};

use crate::aliases::{IncomingAliases, OutgoingAliases};
use crate::cost::session_bytes;
use crate::ids::{GroupId, Slot};
use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::sessions::Totals;
use crate::shared::Readiness;
use crate::subscriptions::Target;
use crate::{ConnId, LoggedWill, Now, OwnedMessage, Position, SessionId};

/// A Session Expiry Interval that never ends (section 3.1.2.11.2).
const FOR_EVER_S: u32 = u32::MAX;

/// What the name of a departed session begins with, and that of no client can contain (MQTT-1.5.4-2).
pub(crate) const DEPARTED: char = '\0';

/// All that MQTT asks to be kept of a client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) owner: Box<str>,
    pub(crate) client_id: Box<str>,
    pub(crate) expiry_s: u32,
    /// Its record; zero if it has none.
    pub(crate) record: Position,
    /// By filter.
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    /// Its connection; `None` while there is none.
    pub(crate) live: Option<Box<Live>>,
    pub(crate) will: Option<Box<Will>>,
    /// When its connection ended, on the monotonic clock; below zero if that was long before this start.
    pub(crate) ended_at_ms: i64,
    /// The deadline that the timers have of it.
    pub(crate) armed_ms: Option<u64>,
    /// The subscription whose retained messages it is being given.
    pub(crate) replay: Option<Box<Replay>>,
    /// How many subscriptions have retained messages to come.
    pub(crate) owed_replays: usize,
    /// It is among those that the broker goes on searching retained messages for.
    pub(crate) is_searching: bool,
    /// The last fan-out that met it, and its place in there.
    pub(crate) met: (u64, u32),
}

/// A subscription of the session.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// The whole filter, `$share/…` included.
    pub(crate) filter: Box<str>,
    pub(crate) options: SubscriptionOptions,
    /// Subscription Identifier; zero for none.
    pub(crate) id: u32,
    /// Where it is a shared one.
    pub(crate) group: Option<GroupId>,
    /// Its record; zero if it has none.
    pub(crate) record: Position,
    /// Retained messages are still to be given for it.
    pub(crate) owes_retained: bool,
}

impl Subscription {
    /// The filter that topics are matched with.
    pub(crate) fn matched_filter(&self) -> &str {
        match (self.group, mqtt::topic::split_shared(&self.filter)) {
            (Some(_), Ok(Some((_, inner)))) => inner,
            _ => &self.filter,
        }
    }

    pub(crate) fn target(&self, slot: Slot) -> Target {
        match self.group {
            Some(group) => Target::Group(group),
            None => Target::Session {
                slot,
                options: self.options,
                id: self.id,
            },
        }
    }
}

/// The connection of a session.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) conn: ConnId,
    pub(crate) version: Version,
    /// One and a half times the Keep Alive; zero for none.
    pub(crate) silence_ms: u64,
    pub(crate) heard_at_ms: u64,
    /// Messages of QoS 1 and 2 that may be in flight to it.
    pub(crate) window: u16,
    /// Receive Maximum and Topic Alias Maximum that it was told.
    pub(crate) receive_maximum: u16,
    pub(crate) topic_alias_maximum: u16,
    /// Bytes of the largest packet that it takes.
    pub(crate) maximum_packet_size: Option<u32>,
    pub(crate) aliases_in: IncomingAliases,
    pub(crate) aliases_out: OutgoingAliases,
}

/// What is to be said when the client is gone.
#[derive(Debug)]
pub(crate) struct Will {
    pub(crate) message: OwnedMessage,
    pub(crate) delay_s: u32,
}

impl Will {
    /// Bytes of its message.
    pub(crate) fn bytes(&self) -> u64 {
        self.message.body().len() as u64
    }

    pub(crate) fn logged(&self) -> LoggedWill<'_> {
        let publish = self.message.publish();
        LoggedWill {
            delay_s: self.delay_s,
            qos: publish.qos,
            retain: publish.retain,
            body: self.message.body(),
        }
    }

    /// The will that the log has; `None` if it is none.
    pub(crate) fn restored(logged: &LoggedWill<'_>) -> Option<Box<Will>> {
        let message = OwnedMessage::from_parts(logged.qos, logged.retain, logged.body)?;
        let delay_s = logged.delay_s;
        Some(Box::new(Will { message, delay_s }))
    }
}

/// Retained messages for one new subscription, given as the connection takes them.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) filter: Box<str>,
    /// All topics before this string have been looked at.
    pub(crate) from: Option<Box<str>>,
}

impl Replay {
    pub(crate) fn of(filter: &str) -> Box<Replay> {
        let filter = filter.into();
        Box::new(Replay { filter, from: None })
    }
}

impl Session {
    pub(crate) fn new(id: SessionId, owner: &str, client_id: &str) -> Self {
        Session {
            id,
            owner: owner.into(),
            client_id: client_id.into(),
            expiry_s: 0,
            record: Position(0),
            subscriptions: Vec::new(),
            outgoing: Outgoing::new(),
            incoming: Incoming::default(),
            live: None,
            will: None,
            ended_at_ms: 0,
            armed_ms: None,
            replay: None,
            owed_replays: 0,
            is_searching: false,
            met: (0, 0),
        }
    }

    /// What it has.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            subscriptions: self.subscriptions.len(),
            queued_messages: self.outgoing.waiting_len(),
            queued_bytes: self.outgoing.waiting_bytes(),
            in_flight: self.outgoing.in_flight_len(),
            bytes: session_bytes(self),
        }
    }

    /// Whether it outlives its connection.
    pub(crate) fn is_persistent(&self) -> bool {
        self.expiry_s > 0
    }

    /// Whether it has ended, and is there only until what other members of its groups are to get has been read back.
    pub(crate) fn is_departed(&self) -> bool {
        self.client_id.starts_with(DEPARTED)
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.live.as_ref().map(|live| live.version)
    }

    /// Whether a new message of QoS 1 or 2 with this number could leave at once.
    pub(crate) fn takes_now(&self, seq: u64, has_room: impl Fn(ConnId) -> bool) -> bool {
        let live = self.live.as_ref().filter(|live| has_room(live.conn));
        live.is_some_and(|live| self.outgoing.is_open(seq, live.window))
    }

    pub(crate) fn subscription(&self, filter: &str) -> Result<usize, usize> {
        self.subscriptions
            .binary_search_by(|subscription| (*subscription.filter).cmp(filter))
    }

    /// The subscription whose turn it is to be given retained messages after that with this filter.
    pub(crate) fn next_replay(&self, filter: &str) -> Option<Box<Replay>> {
        if self.owed_replays == 0 {
            return None;
        }
        let start = self.subscription(filter).unwrap_or_else(|at| at);
        let (before, behind) = self.subscriptions.split_at(start);
        let next = behind
            .iter()
            .chain(before)
            .find(|subscription| subscription.owes_retained);
        next.map(|subscription| Replay::of(&subscription.filter))
    }

    /// The next thing to happen without an event: keep-alive, will or end, on the monotonic clock.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        match &self.live {
            Some(live) => (live.silence_ms > 0).then(|| live.heard_at_ms.saturating_add(live.silence_ms)),
            None => [self.will_at_ms(), self.ends_at_ms()].into_iter().flatten().min(),
        }
    }

    /// When the will of a session without connection is due.
    pub(crate) fn will_at_ms(&self) -> Option<u64> {
        self.will.as_ref().map(|will| self.after_end_ms(will.delay_s))
    }

    /// When a session without connection ends.
    pub(crate) fn ends_at_ms(&self) -> Option<u64> {
        (self.expiry_s != FOR_EVER_S).then(|| self.after_end_ms(self.expiry_s))
    }

    fn after_end_ms(&self, wait_s: u32) -> u64 {
        let at_ms = self.ended_at_ms.saturating_add(i64::from(wait_s) * 1000);
        u64::try_from(at_ms).unwrap_or(0)
    }

    /// When its connection ended, on the wall clock as it is now.
    pub(crate) fn ended_unix_ms(&self, now: Now) -> u64 {
        let ago_ms = (now.monotonic_ms as i64).saturating_sub(self.ended_at_ms);
        now.unix_ms.saturating_sub(u64::try_from(ago_ms).unwrap_or(0))
    }

    /// How well it could take a message of a group. Without connection it keeps only what may be `kept`.
    pub(crate) fn readiness(&self, has_room: impl Fn(ConnId) -> bool, kept: bool) -> Readiness {
        match &self.live {
            Some(_) if self.takes_now(self.outgoing.next_seq(), has_room) => Readiness::Ready,
            Some(_) => Readiness::Busy,
            None if kept => Readiness::Away,
            None => Readiness::Never,
        }
    }
}
