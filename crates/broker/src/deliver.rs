//! A message reaches a session: it leaves at once, or waits until the connection takes it.

use std::borrow::Cow;

use mqtt::{Packet, PacketId, Publish, PublishProperties, QoS};

use crate::aliases::Alias;
use crate::fanout::Fanout;
use crate::held::NEVER_MS;
use crate::ids::{HeldId, Slot};
use crate::message::decode_body;
use crate::outgoing::{Delivery, State, packet_id};
use crate::publish::{Passing, aged};
use crate::queue::{Entry, Logged, What};
use crate::session::Live;
use crate::{Broker, ConnId, Dropped, Now, Position, Sink};

/// Messages of a queue that are read back from the log at a time.
const LOAD_AHEAD: usize = 32;

/// How a message looks to one subscriber.
struct Look<'a> {
    qos: QoS,
    retain: bool,
    dup: bool,
    packet_id: Option<PacketId>,
    ids: &'a [u32],
}

impl Broker {
    /// Brings the message to the session of one match. Whether it is on its way to a connection.
    pub(crate) fn deliver(
        &mut self,
        at: usize,
        passing: &mut Passing<'_>,
        refused: Option<Dropped>,
        fanout: &mut Fanout,
        out: &mut dyn Sink,
    ) -> bool {
        let one = fanout.matches[at];
        match one.seq {
            None if one.qos == QoS::AtMostOnce => self.deliver_at_most_once(at, passing, fanout, out),
            None => false,
            Some(seq) => match refused.filter(|_| one.logged) {
                Some(why) if !self.may_have_unlogged(one.slot, passing.len(), out) => {
                    out.dropped(why);
                    false
                }
                refused => self.deliver_acknowledged(at, seq, refused.is_some(), passing, fanout, out),
            },
        }
    }

    /// Whether a session that is to have a message logged may have it all the same where it cannot be.
    fn may_have_unlogged(&self, slot: Slot, len: usize, out: &dyn Sink) -> bool {
        let session = self.sessions.get(slot);
        let leaves = || session.takes_now(session.outgoing.next_seq(), |conn| out.has_room(conn));
        session.live.is_some() && (leaves() || self.has_memory(session, len))
    }

    fn deliver_at_most_once(
        &mut self,
        at: usize,
        passing: &Passing<'_>,
        fanout: &mut Fanout,
        out: &mut dyn Sink,
    ) -> bool {
        let one = fanout.matches[at];
        let look = Look {
            qos: one.qos,
            retain: one.retain,
            dup: false,
            packet_id: None,
            ids: fanout.ids_of(&one),
        };
        let sent = match &mut self.sessions.get_mut(one.slot).live {
            None => Err(Dropped::Offline),
            Some(live) if !out.has_room(live.conn) => Err(Dropped::SlowReader),
            Some(live) => transmit(live, passing.message.publish, &look, out),
        };
        sent.inspect_err(|why| out.dropped(*why)).is_ok()
    }

    /// QoS 1 and 2: in flight at once if nothing is before it, else it waits.
    fn deliver_acknowledged(
        &mut self,
        at: usize,
        seq: u64,
        refused: bool,
        passing: &mut Passing<'_>,
        fanout: &mut Fanout,
        out: &mut dyn Sink,
    ) -> bool {
        let one = fanout.matches[at];
        let is_logged = one.logged && !refused;
        let session = self.sessions.get(one.slot);
        let after_commit = is_logged && passing.comes_again_if_lost && one.qos == QoS::ExactlyOnce;
        let leaves = !after_commit && session.takes_now(seq, |conn| out.has_room(conn));
        let is_needed_again = (session.is_persistent() || one.group.is_some()) && !passing.is_transient();
        let held = (!leaves || is_needed_again).then(|| self.hold(is_logged, passing, fanout));
        let ids = fanout.ids_of(&one);
        let delivery = Delivery {
            seq,
            held,
            group: one.group,
            ids: if held.is_some() { ids.into() } else { Box::default() },
            qos: one.qos,
            retain: one.retain,
            transient: passing.is_transient(),
            after_commit,
            state: State::Waiting,
        };
        if leaves {
            self.send_at_once(one.slot, delivery, passing.message.publish, ids, out)
        } else {
            self.let_wait(one.slot, delivery, passing, fanout, out)
        }
    }

    /// Sends a message that did not have to wait. Whether it was sent.
    fn send_at_once(
        &mut self,
        slot: Slot,
        delivery: Delivery,
        publish: &Publish<'_>,
        ids: &[u32],
        out: &mut dyn Sink,
    ) -> bool {
        let session = self.sessions.get_mut(slot);
        let Some(live) = &mut session.live else { return false };
        let look = Look {
            ids,
            ..Look::of(&delivery)
        };
        match transmit(live, publish, &look, out) {
            Ok(()) => {
                self.sessions.change(slot, |session| session.outgoing.sent(delivery));
                true
            }
            Err(why) => {
                out.dropped(why);
                let id = session.id;
                self.settle(id, &delivery, out);
                false
            }
        }
    }

    /// Puts a message behind those that wait. Whether there is a connection to wait for.
    fn let_wait(
        &mut self,
        slot: Slot,
        delivery: Delivery,
        passing: &mut Passing<'_>,
        fanout: &Fanout,
        out: &mut dyn Sink,
    ) -> bool {
        let held = delivery.held.map(|id| self.held.get(id));
        if let Some(held) = held.filter(|_| delivery.after_commit) {
            self.awaiting.push_back((held.position, slot));
            out.await_commit();
        }
        let len = held.map_or(0, |held| held.len);
        let entry = match self.folded(&delivery).filter(|_| fanout.logged == 1) {
            Some(logged) => {
                // From here on the queue knows the record, and nobody else does.
                if let Some(id) = passing.logged.take() {
                    self.held.fold(id);
                }
                Entry {
                    seq: delivery.seq,
                    what: What::Logged(logged),
                }
            }
            None => Entry::of(delivery),
        };
        self.sessions.change(slot, |session| {
            session.outgoing.wait(entry, len);
            session.live.is_some()
        })
    }

    /// The delivery, where only the log has its message and there is nothing else to know of it.
    fn folded(&self, delivery: &Delivery) -> Option<Logged> {
        let held = self.held.get(delivery.held?);
        let is_plain = delivery.group.is_none() && delivery.ids.is_empty() && !delivery.after_commit;
        let is_in_log_alone = held.is_logged() && held.body.is_none() && held.expires_at_ms == NEVER_MS;
        (is_plain && is_in_log_alone).then_some(Logged {
            position: held.position,
            len: held.len,
            qos: delivery.qos,
            retain: delivery.retain,
        })
    }

    /// [`Sink::has_room`] is true again, or for the first time.
    pub fn writable(&mut self, now: Now, conn: ConnId, out: &mut dyn Sink) {
        if let Some(slot) = self.sessions.by_conn(conn) {
            self.flush(now, slot, out);
        }
    }

    /// Sends what waits, as far as connection, window and packet identifiers go.
    pub(crate) fn flush(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) {
        while self.send_next(now, slot, out) {}
        self.replay(now, slot, out);
    }

    /// Sends or drops the first message that waits; false if it has to go on waiting.
    fn send_next(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) -> bool {
        let session = self.sessions.get(slot);
        let live = session.live.as_ref().filter(|live| out.has_room(live.conn));
        let Some(window) = live.map(|live| live.window) else {
            return false;
        };
        if session.outgoing.folded_len() > 0 {
            let held = &mut self.held;
            self.sessions.change(slot, |session| session.outgoing.unfold(1, held));
        }
        let Some(next) = self.sessions.get(slot).outgoing.sendable(window) else {
            return false;
        };
        let Some(message) = next.held.map(|id| self.held.get(id)) else {
            return false;
        };
        if next.after_commit && message.is_first_record && message.position > out.durable() {
            return false;
        }
        let is_expired = message.expires_at_ms <= now.monotonic_ms;
        if message.body.is_none() && !is_expired {
            self.load_ahead(slot, out);
            return false;
        }
        let (body, len, expires_at_ms) = (message.body.clone(), message.len, message.expires_at_ms);
        let Some(delivery) = self.sessions.change(slot, |session| session.outgoing.take_next(len)) else {
            return false;
        };
        let session = self.sessions.get_mut(slot);
        let Some(live) = &mut session.live else { return false };
        let sent = match body.as_deref().and_then(decode_body) {
            _ if is_expired => Err(Dropped::Expired),
            None => Err(Dropped::Damaged),
            Some(mut publish) => {
                publish.properties = aged(publish.properties, now, expires_at_ms);
                transmit(live, &publish, &Look::of(&delivery), out)
            }
        };
        match sent {
            Ok(()) => self.in_flight(slot, delivery, out),
            Err(why) => {
                out.dropped(why);
                let id = session.id;
                self.settle(id, &delivery, out);
            }
        }
        true
    }

    /// The delivery was sent; the message is kept only where it may be needed again.
    fn in_flight(&mut self, slot: Slot, mut delivery: Delivery, out: &mut dyn Sink) {
        let session = self.sessions.get_mut(slot);
        let is_needed_again = (session.is_persistent() || delivery.group.is_some()) && !delivery.transient;
        if !is_needed_again {
            let id = session.id;
            self.settle(id, &delivery, out);
            delivery.held = None;
            delivery.ids = Box::default();
        }
        // It is read back if it has to be sent again; those that have never been sent need the room more.
        if let Some(id) = delivery
            .held
            .filter(|_| !self.held.has_memory_for_logged(0, self.limits.memory_bytes))
        {
            self.held.unload(id);
        }
        self.sessions.change(slot, |session| session.outgoing.sent(delivery));
    }

    /// Asks for the next messages of the queue that only the log has, as far as there is memory for them; for the
    /// first one in any case, so that every queue goes on.
    fn load_ahead(&mut self, slot: Slot, out: &mut dyn Sink) {
        let Broker {
            sessions, held, limits, ..
        } = self;
        sessions.change(slot, |session| session.outgoing.unfold(LOAD_AHEAD, held));
        for (turn, delivery) in sessions.get(slot).outgoing.upcoming(LOAD_AHEAD).enumerate() {
            let Some(id) = delivery.held.filter(|id| held.get(*id).body.is_none()) else {
                continue;
            };
            if turn > 0 && !held.is_loading(id) && !held.has_memory_for_logged(held.get(id).len, limits.memory_bytes) {
                break;
            }
            load(held, id, slot, out);
        }
    }

    /// More of the log outlasts a crash than before ([`Sink::durable`]): sends what had to wait for that, and asks to
    /// be called again ([`Sink::await_commit`]) if something has to wait on.
    pub fn committed(&mut self, now: Now, out: &mut dyn Sink) {
        let durable = out.durable();
        while let Some((_, slot)) = self.awaiting.pop_front_if(|(record, _)| *record <= durable) {
            if self.sessions.try_get(slot).is_some() {
                self.flush(now, slot, out);
            }
        }
        if !self.awaiting.is_empty() {
            out.await_commit();
        }
    }

    /// The answer to [`Sink::load`]: the record's body, `None` if it is damaged.
    pub fn loaded(&mut self, now: Now, position: Position, body: Option<&[u8]>, out: &mut dyn Sink) {
        // A body without bytes is no message, so that what is damaged is dropped where it would be sent.
        for slot in self.held.loaded(position, body.unwrap_or_default()) {
            match self.sessions.try_get(slot).map(|session| session.live.is_some()) {
                Some(true) => self.flush(now, slot, out),
                Some(false) => self.go_on_passing(now, slot, out),
                None => {}
            }
        }
    }
}

/// Has the message read back for the session, unless that is under way.
pub(crate) fn load(held: &mut crate::held::HeldMessages, id: HeldId, slot: Slot, out: &mut dyn Sink) {
    if held.wait_for(id, slot) {
        out.load(held.get(id).position);
    }
}

impl<'a> Look<'a> {
    fn of(delivery: &'a Delivery) -> Self {
        Look {
            qos: delivery.qos,
            retain: delivery.retain,
            dup: delivery.state == State::Sent,
            packet_id: Some(packet_id(delivery.seq)),
            ids: &delivery.ids,
        }
    }
}

/// Writes the message as this subscriber is to see it, unless it is larger than the client takes.
fn transmit(live: &mut Live, publish: &Publish<'_>, look: &Look<'_>, out: &mut dyn Sink) -> Result<(), Dropped> {
    let alias = live.aliases_out.of(publish.topic);
    let packet = dressed(publish, look, alias);
    if let Some(maximum) = live.maximum_packet_size {
        let len = Packet::Publish(packet.clone()).encoded_len(live.version);
        if len > maximum as usize {
            return Err(Dropped::TooLarge);
        }
    }
    out.publish(live.conn, &packet);
    if let Alias::New(_) = alias {
        live.aliases_out.learn(publish.topic);
    }
    Ok(())
}

fn dressed<'a>(publish: &Publish<'a>, look: &Look<'a>, alias: Alias) -> Publish<'a> {
    let (topic, topic_alias) = match alias {
        Alias::None => (publish.topic, None),
        Alias::New(alias) => (publish.topic, Some(alias)),
        Alias::Known(alias) => ("", Some(alias)),
    };
    let properties = &publish.properties;
    Publish {
        dup: look.dup,
        qos: look.qos,
        retain: look.retain,
        topic,
        packet_id: look.packet_id,
        properties: PublishProperties {
            topic_alias,
            subscription_ids: Cow::Borrowed(look.ids),
            payload_is_utf8: properties.payload_is_utf8,
            message_expiry_interval_s: properties.message_expiry_interval_s,
            response_topic: properties.response_topic,
            correlation_data: properties.correlation_data,
            content_type: properties.content_type,
            user_properties: properties.user_properties,
        },
        payload: publish.payload,
    }
}
