//! The way of a message through the broker: match, number, log, deliver, retain.

use mqtt::{PublishProperties, QoS};

use crate::cost::PLACE_BYTES;
use crate::deliveries::{Delivered, Deliveries};
use crate::fanout::{Fanout, Source};
use crate::held::{Held, NEVER_MS};
use crate::ids::{HeldId, Slot};
use crate::log::give_up;
use crate::message::encode_body;
use crate::session::Session;
use crate::{Broker, Deadline, Dropped, Full, Keep, Message, Now, Position, Published, QueuePolicy, Record, Sink};

/// A message on its way, and the copies that were made of it because somebody has to wait.
pub(crate) struct Passing<'a> {
    pub(crate) message: &'a Message<'a>,
    pub(crate) expires_at_ms: u64,
    /// After a crash that swallows its records its publisher would send it again, or the member of a group that left
    /// it would have it again: no persistent session may have it at QoS 2 before they are durable, or it would be had
    /// twice.
    pub(crate) comes_again_if_lost: bool,
    /// The copy that the log has, for persistent sessions.
    pub(crate) logged: Option<HeldId>,
    /// The copy that only memory has, for all others.
    unlogged: Option<HeldId>,
}

impl Passing<'_> {
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self.message.keep, Keep::Never { .. })
    }

    /// Bytes that it takes where it waits, but for its properties.
    pub(crate) fn len(&self) -> usize {
        self.message.publish.topic.len() + self.message.publish.payload.len()
    }
}

impl Broker {
    /// Delivers a message to all that subscribed to its topic and retains it where asked to. Where it is refused,
    /// because the log is full or a queue under [`QueuePolicy::Refuse`], a message of QoS 2 goes to nobody (it will
    /// come again), any other to those that are connected.
    pub fn publish(&mut self, now: Now, message: &Message<'_>, out: &mut dyn Sink) -> Published {
        let mut fanout = std::mem::take(&mut self.fanout);
        self.match_topic(message, &mut fanout, out);
        let published = self.dispatch(now, message, expires_at_ms(now, message), &mut fanout, out);
        self.fanout = fanout;
        published
    }

    /// Brings the message to the sessions that were found.
    pub(crate) fn dispatch(
        &mut self,
        now: Now,
        message: &Message<'_>,
        expires_at_ms: u64,
        fanout: &mut Fanout,
        out: &mut dyn Sink,
    ) -> Published {
        let comes_again_if_lost = message.publish.qos == QoS::ExactlyOnce
            && (fanout.source != Source::Publisher || self.is_from_persistent_session(message));
        let mut passing = Passing {
            message,
            expires_at_ms,
            comes_again_if_lost,
            logged: None,
            unlogged: None,
        };
        self.number(&passing, fanout, out);
        let promised = match fanout.refused {
            Some(why) => Err(why),
            None => self
                .promise(now, &mut passing, fanout, out)
                .map_err(|Full| Dropped::LogFull),
        };
        let mut published = Published {
            sessions: fanout.matches.len(),
            after: promised.unwrap_or_default(),
            refused: promised.is_err(),
            addressee_reached: false,
        };
        let goes_to_nobody = match fanout.source {
            Source::Publisher => message.publish.qos == QoS::ExactlyOnce,
            Source::Leaver => true,
            Source::Ender => false,
        };
        if published.refused && goes_to_nobody {
            return published;
        }
        let mut sessions_reached = 0;
        for at in 0..fanout.matches.len() {
            let reached = self.deliver(at, &mut passing, promised.err(), fanout, out);
            sessions_reached += usize::from(reached);
            published.addressee_reached |= reached && self.is_addressee(message, fanout.matches[at].slot);
        }
        if let Keep::Never { .. } = message.keep {
            published.sessions = sessions_reached;
        }
        published
    }

    /// Logs all that the publisher is promised; the message first, so that its acknowledgement can wait for that
    /// alone where nothing is retained.
    fn promise(
        &mut self,
        now: Now,
        passing: &mut Passing<'_>,
        fanout: &mut Fanout,
        out: &mut dyn Sink,
    ) -> Result<Position, Full> {
        let delivered = self.log_message(now, passing, fanout, out)?;
        let retained = self
            .retain(now, passing, out)
            .inspect_err(|Full| self.withdraw(passing, out))?;
        Ok(delivered.max(retained))
    }

    /// Takes back the record of a message that cannot be promised as a whole.
    fn withdraw(&mut self, passing: &mut Passing<'_>, out: &mut dyn Sink) {
        let Some(id) = passing.logged.take() else { return };
        let position = self.held.get(id).position;
        self.held.get_mut(id).holders += 1;
        self.held.let_go(id);
        give_up(position, out);
    }

    fn is_from_persistent_session(&self, message: &Message<'_>) -> bool {
        let from = message.from.and_then(|conn| self.sessions.by_conn(conn));
        from.is_some_and(|slot| self.sessions.get(slot).is_persistent())
    }

    fn is_addressee(&self, message: &Message<'_>, slot: Slot) -> bool {
        let is_owner = |owner: &&str| **owner == *self.sessions.get(slot).owner;
        message.addressees.iter().any(is_owner)
    }

    /// Every delivery of QoS 1 and 2 gets its number in its session, unless that cannot take it; those that the log
    /// has to keep are put on its list.
    fn number(&mut self, passing: &Passing<'_>, fanout: &mut Fanout, out: &mut dyn Sink) {
        let len = passing.len();
        for at in 0..fanout.matches.len() {
            let mut one = fanout.matches[at];
            if one.qos == QoS::AtMostOnce {
                continue;
            }
            if let Some(why) = self.refusal(one.slot, len, passing, fanout.source, out) {
                let is_kept = fanout.source == Source::Leaver;
                let is_by_policy = matches!(why, Dropped::QueueFull | Dropped::MemoryFull);
                if is_kept || is_by_policy && self.tells_publisher(passing) {
                    fanout.refused = Some(why);
                }
                if !is_kept {
                    out.dropped(why);
                }
                continue;
            }
            let session = self.sessions.get_mut(one.slot);
            let seq = session.outgoing.take_seq();
            one.seq = Some(seq);
            if passing.message.keep == Keep::Always && session.is_persistent() {
                one.logged = true;
                let id = session.id;
                fanout.ids_of(&one);
                fanout.put_on_list(id, seq, &one);
            }
            fanout.matches[at] = one;
        }
    }

    /// Whether the publisher is told of a full queue: where it is a client, and waits for an answer.
    fn tells_publisher(&self, passing: &Passing<'_>) -> bool {
        let is_asked_for = self.limits.queue_policy == QueuePolicy::Refuse;
        is_asked_for && passing.message.from.is_some() && passing.message.keep == Keep::Always
    }

    /// Why a session cannot take another message that may have to wait.
    fn refusal(
        &self,
        slot: Slot,
        len: usize,
        passing: &Passing<'_>,
        source: Source,
        out: &dyn Sink,
    ) -> Option<Dropped> {
        let session = self.sessions.get(slot);
        if session.takes_now(session.outgoing.next_seq(), |conn| out.has_room(conn)) {
            return None;
        }
        if session.live.is_none() && passing.is_transient() {
            return Some(Dropped::Offline);
        }
        let bytes = session.outgoing.waiting_bytes() + len as u64;
        let is_full = session.outgoing.waiting_len() >= self.limits.queue_messages || bytes > self.limits.queue_bytes;
        if is_full {
            return Some(Dropped::QueueFull);
        }
        // What is inherited is counted already.
        let is_new = source == Source::Publisher;
        if is_new && self.held.bytes() + len as u64 > self.limits.kept_bytes {
            return Some(Dropped::TenantFull);
        }
        if is_new && self.sessions.totals().bytes + PLACE_BYTES > self.limits.session_bytes {
            return Some(Dropped::SessionsFull);
        }
        let keep = passing.message.keep;
        let is_new_in_memory = is_new || keep == Keep::Always;
        let is_logged = keep == Keep::Always && session.is_persistent();
        let is_kept_out = is_new_in_memory && !is_logged && !self.has_memory(session, len);
        is_kept_out.then_some(Dropped::MemoryFull)
    }

    /// Whether a message may wait for this session in memory alone. A session that ends with its connection takes no
    /// more than it leaves free (the dynamic thresholds of Choudhury and Hahne, 1998).
    pub(crate) fn has_memory(&self, session: &Session, len: usize) -> bool {
        let own = match session.is_persistent() {
            true => 0,
            false => session.outgoing.waiting_bytes(),
        };
        own + len as u64 <= self.held.free_memory(self.limits.memory_bytes)
    }

    /// One record for all persistent sessions; after what they are safe to get the message.
    fn log_message(
        &mut self,
        now: Now,
        passing: &mut Passing<'_>,
        fanout: &mut Fanout,
        out: &mut dyn Sink,
    ) -> Result<Position, Full> {
        if fanout.list.is_empty() {
            return Ok(Position(0));
        }
        encode_body(passing.message.publish, &mut fanout.body);
        let position = out.log(&Record::Message {
            deliveries: Deliveries { bytes: &fanout.list },
            expires: Deadline::logged(now, passing.expires_at_ms),
            body: &fanout.body,
        })?;
        let body = self.stays_in_memory(fanout).then(|| (*fanout.body).into());
        let held = Held::logged(position, fanout.body.len(), body, passing.expires_at_ms);
        passing.logged = Some(self.held.insert(held));
        Ok(position)
    }

    /// Whether a logged message is kept in memory as well: while there is room, and somebody needs it before long.
    fn stays_in_memory(&self, fanout: &Fanout) -> bool {
        let has_room = self
            .held
            .has_memory_for_logged(fanout.body.len() as u32, self.limits.memory_bytes);
        let near = |slot| self.sessions.get(slot).outgoing.waiting_bytes() < self.limits.queue_memory_bytes;
        has_room && fanout.matches.iter().any(|one| one.logged && near(one.slot))
    }

    /// The copy for a delivery that has to wait or may be needed again; it counts as held from now on.
    pub(crate) fn hold(&mut self, is_logged: bool, passing: &mut Passing<'_>, fanout: &mut Fanout) -> HeldId {
        let known = if is_logged { passing.logged } else { passing.unlogged };
        let id = known.unwrap_or_else(|| {
            if fanout.body.is_empty() {
                encode_body(passing.message.publish, &mut fanout.body);
            }
            let held = Held::in_memory((*fanout.body).into(), passing.expires_at_ms);
            *passing.unlogged.insert(self.held.insert(held))
        });
        self.held.get_mut(id).holders += 1;
        id
    }
}

impl Fanout {
    fn put_on_list(&mut self, session: crate::SessionId, seq: u64, one: &crate::fanout::Match) {
        let mut list = std::mem::take(&mut self.list);
        Delivered::put(
            &mut list,
            session,
            seq,
            (one.qos, one.retain),
            one.group,
            self.ids_of(one),
        );
        self.list = list;
        self.logged += 1;
    }
}

/// When the message dies, by its own interval or its sender's deadline.
fn expires_at_ms(now: Now, message: &Message<'_>) -> u64 {
    let expiry_ms = message
        .publish
        .properties
        .message_expiry_interval_s
        .map_or(NEVER_MS, |s| u64::from(s) * 1000);
    let by_interval = now.monotonic_ms.saturating_add(expiry_ms);
    match message.keep {
        Keep::Never { until_ms } => by_interval.min(until_ms),
        _ => by_interval,
    }
}

/// The properties of a message that has waited: its interval is what is left of it (MQTT-3.3.2-6).
pub(crate) fn aged<'a>(properties: PublishProperties<'a>, now: Now, expires_at_ms: u64) -> PublishProperties<'a> {
    let left_ms = expires_at_ms.saturating_sub(now.monotonic_ms);
    let left_s = properties
        .message_expiry_interval_s
        .map(|s| u32::try_from(left_ms.div_ceil(1000)).unwrap_or(s).min(s));
    PublishProperties {
        message_expiry_interval_s: left_s,
        ..properties
    }
}
