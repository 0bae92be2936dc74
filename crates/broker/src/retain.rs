//! Retained messages come, go, and are given to new subscribers (sections 3.3.1.3 and 3.8.3.1).

use mqtt::{Publish, QoS};

use crate::fanout::Fanout;
use crate::held::Held;
use crate::ids::Slot;
use crate::log::replace;
use crate::message::{decode_body, encode_body};
use crate::publish::{Passing, aged};
use crate::retained::{Retained, Search, just_behind};
use crate::session::{Replay, Subscription};
use crate::{Broker, Deadline, Dropped, Full, Keep, Message, Now, Position, Record, Sink};

/// Retained topics that may be looked at in one turn, for all sessions together.
pub(crate) const VISITS: usize = 4_096;

impl Broker {
    /// Retains the message where it asks for it; after what that is safe.
    pub(crate) fn retain(&mut self, now: Now, passing: &Passing<'_>, out: &mut dyn Sink) -> Result<Position, Full> {
        let publish = passing.message.publish;
        if !publish.retain || passing.is_transient() {
            return Ok(Position(0));
        }
        if publish.payload.is_empty() {
            return self.unretain(publish.topic, out);
        }
        let mut body = Vec::new();
        encode_body(publish, &mut body);
        if let Err(why) = self.check_room_to_retain(passing, body.len()) {
            out.dropped(why);
            return Ok(Position(0));
        }
        let position = self.log_retained(now, passing, &body, out)?;
        let held = Held::logged(position, body.len(), Some(body.into()), passing.expires_at_ms);
        let len = held.len;
        let held = self.held.insert(Held {
            holders: 1,
            is_retained: true,
            ..held
        });
        let retained = Retained {
            held,
            qos: publish.qos,
            len,
            expires_at_ms: passing.expires_at_ms,
            is_of_client: passing.message.keep == Keep::Always,
        };
        if let Some(old) = self.retained.insert(publish.topic, retained) {
            self.held.let_go(old.held);
        }
        Ok(position)
    }

    /// Whether a client may retain this. What the caller itself says is bounded by the caller: a bound on what clients
    /// retain must not leave it with a state that is no longer so.
    fn check_room_to_retain(&self, passing: &Passing<'_>, len: usize) -> Result<(), Dropped> {
        if passing.message.keep != Keep::Always {
            return Ok(());
        }
        let kept = self.retained.of_clients();
        let old = self.retained.get(passing.message.publish.topic);
        let old = old.filter(|old| old.is_of_client);
        let (old_count, old_bytes) = old.map_or((0, 0), |old| (1, u64::from(old.len)));
        if kept.messages - old_count >= self.limits.retained_messages
            || kept.bytes - old_bytes + len as u64 > self.limits.retained_bytes
        {
            return Err(Dropped::RetainedFull);
        }
        if self.held.bytes() - old_bytes + len as u64 > self.limits.kept_bytes {
            return Err(Dropped::TenantFull);
        }
        Ok(())
    }

    fn log_retained(
        &mut self,
        now: Now,
        passing: &Passing<'_>,
        body: &[u8],
        out: &mut dyn Sink,
    ) -> Result<Position, Full> {
        let publish = passing.message.publish;
        if passing.message.keep != Keep::Always {
            self.bury_retained(publish.topic, out)?;
            return Ok(Position(0));
        }
        let old = self.retained_record(publish.topic);
        let expires = Deadline::logged(now, passing.expires_at_ms);
        replace(
            &Record::Retained {
                topic: publish.topic,
                qos: publish.qos,
                expires,
                body,
            },
            old,
            out,
        )
    }

    /// Where the log has the retained message of a topic.
    fn retained_record(&self, topic: &str) -> Position {
        self.retained
            .get(topic)
            .map_or(Position(0), |old| self.held.get(old.held).position)
    }

    /// An empty payload takes the retained message away (MQTT-3.3.1-6).
    fn unretain(&mut self, topic: &str, out: &mut dyn Sink) -> Result<Position, Full> {
        let after = self.bury_retained(topic, out)?;
        if let Some(old) = self.retained.remove(topic) {
            self.held.let_go(old.held);
        }
        Ok(after)
    }

    /// Logs that nothing is retained under a topic; after what that is safe. Where nothing is retained any more, the
    /// tombstone that says so may still have to be written.
    fn bury_retained(&mut self, topic: &str, out: &mut dyn Sink) -> Result<Position, Full> {
        let old = self.retained_record(topic);
        if old != Position(0) {
            self.newest_unretained = out.replace(&Record::RetainedGone { topic }, old)?;
        }
        Ok(self.newest_unretained)
    }

    /// Takes away all retained messages.
    ///
    /// # Errors
    /// [`Full`]: some are still there.
    pub fn unretain_all(&mut self, out: &mut dyn Sink) -> Result<(), Full> {
        while let Some(topic) = self.retained.any_topic() {
            self.unretain(&topic, out)?;
        }
        Ok(())
    }

    /// Takes away what has expired.
    pub(crate) fn expire_retained(&mut self, now: Now, out: &mut dyn Sink) {
        while let Some(topic) = self.retained.first_expired(now.monotonic_ms) {
            let record = self.retained_record(&topic);
            if self.unretain(&topic, out).is_err() {
                // The deadline stands in the record as well: without a tombstone it is gone all the same.
                out.release(record);
                if let Some(old) = self.retained.remove(&topic) {
                    self.held.let_go(old.held);
                }
            }
        }
    }

    /// A new subscription is to be given the retained messages that it matches, from the first on.
    pub(crate) fn begin_replay(&mut self, slot: Slot, at: usize) {
        let session = self.sessions.get_mut(slot);
        let subscription = &mut session.subscriptions[at];
        session.owed_replays += usize::from(!subscription.owes_retained);
        subscription.owes_retained = true;
        match &mut session.replay {
            Some(replay) if replay.filter != subscription.filter => {}
            replay => *replay = Some(Replay::of(&subscription.filter)),
        }
    }

    /// A subscription is gone.
    pub(crate) fn end_replay(&mut self, slot: Slot, subscription: &Subscription) {
        let session = self.sessions.get_mut(slot);
        session.owed_replays -= usize::from(subscription.owes_retained);
        if session
            .replay
            .as_ref()
            .is_some_and(|replay| replay.filter == subscription.filter)
        {
            session.replay = session.next_replay(&subscription.filter);
        }
    }

    /// Goes on for those whose search was too long for one turn, as far as one more goes.
    pub(crate) fn go_on_searching(&mut self, now: Now, out: &mut dyn Sink) {
        self.visits = VISITS;
        for _ in 0..self.searching.len() {
            if self.visits == 0 {
                return;
            }
            let Some(slot) = self.searching.pop_front() else { return };
            if self.sessions.try_get(slot).is_some() {
                self.sessions.get_mut(slot).is_searching = false;
                self.flush(now, slot, out);
            }
        }
    }

    /// Gives retained messages as far as the connection takes them.
    pub(crate) fn replay(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) {
        while self.replay_next(now, slot, out) {}
    }

    /// Gives the next retained message; false if there is none, or it has to wait.
    fn replay_next(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) -> bool {
        let Broker {
            sessions,
            retained,
            visits,
            ..
        } = self;
        let session = sessions.get(slot);
        let has_room = session.live.as_ref().is_some_and(|live| out.has_room(live.conn));
        let Some(replay) = session.replay.as_ref().filter(|_| has_room) else {
            return false;
        };
        let Ok(at) = session.subscription(&replay.filter) else {
            return false;
        };
        let (most, id) = (session.subscriptions[at].options.qos, session.subscriptions[at].id);
        let (topic, retained) = match retained.next_match(&replay.filter, replay.from.as_deref(), visits) {
            Search::Found(topic, retained) => (topic, retained),
            Search::Over => {
                self.finish_replay(slot, at);
                return true;
            }
            Search::Paused(from) => {
                self.pause_replay(slot, from);
                return false;
            }
        };
        let qos = most.min(retained.qos);
        let is_open = session.takes_now(session.outgoing.next_seq(), |conn| out.has_room(conn));
        if qos != QoS::AtMostOnce && !is_open {
            return false;
        }
        if self.held.get(retained.held).body.is_none() {
            crate::deliver::load(&mut self.held, retained.held, slot, out);
            return false;
        }
        let from = just_behind(topic).into();
        if let Some(replay) = &mut self.sessions.get_mut(slot).replay {
            replay.from = Some(from);
        }
        self.give(now, retained, Fanout::to(slot, qos, true, id, None), out);
        true
    }

    /// The search goes on in the next turn.
    fn pause_replay(&mut self, slot: Slot, from: Box<str>) {
        let session = self.sessions.get_mut(slot);
        if let Some(replay) = &mut session.replay {
            replay.from = Some(from);
        }
        if !std::mem::replace(&mut session.is_searching, true) {
            self.searching.push_back(slot);
        }
    }

    fn finish_replay(&mut self, slot: Slot, at: usize) {
        let session = self.sessions.get_mut(slot);
        session.subscriptions[at].owes_retained = false;
        session.owed_replays -= 1;
        session.replay = session.next_replay(&session.subscriptions[at].filter);
    }

    /// Gives a retained message that is in memory to one session.
    fn give(&mut self, now: Now, retained: Retained, mut fanout: Fanout, out: &mut dyn Sink) {
        let held = self.held.get(retained.held).clone();
        let Some(publish) = held.body.as_deref().and_then(decode_body) else {
            return out.dropped(Dropped::Damaged);
        };
        if held.expires_at_ms <= now.monotonic_ms {
            return;
        }
        let properties = aged(publish.properties, now, held.expires_at_ms);
        let publish = Publish {
            qos: retained.qos,
            properties,
            ..publish
        };
        let keep = if held.is_logged() { Keep::Always } else { Keep::Memory };
        let message = Message {
            publish: &publish,
            from: None,
            addressees: &[],
            keep,
        };
        self.dispatch(now, &message, held.expires_at_ms, &mut fanout, out);
    }
}
