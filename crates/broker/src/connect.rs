//! A client comes: its session begins, goes on, or is taken over (section 3.1.4).

use std::num::NonZeroU16;

use mqtt::{Ack, ConnAck, Connect, Packet, ReasonCode, Version};

use crate::aliases::{IncomingAliases, OutgoingAliases};
use crate::cost::new_session_bytes;
use crate::ids::Slot;
use crate::session::{Live, Session, Will};
use crate::{Broker, ConnId, Full, Now, OwnedMessage, Position, Sink};

impl Broker {
    /// A client has been let in. Answers with CONNACK, or refuses with CONNACK and [`Sink::close`]. A session of the
    /// same owner and client identifier is continued, or ended by Clean Start, and its old connection closed with
    /// Session taken over (MQTT-3.1.4-3). Owed PUBRELs follow the CONNACK at once, messages with the first
    /// [`Broker::writable`]. `response_information` is what CONNACK tells a client that asks for it (MQTT-3.1.2-28).
    pub fn connect(
        &mut self,
        now: Now,
        conn: ConnId,
        connect: &Connect<'_>,
        owner: &str,
        response_information: Option<&str>,
        out: &mut dyn Sink,
    ) {
        let assigned = connect.client_id.is_empty().then(|| self.assign_client_id(now, owner));
        if assigned.is_some() && connect.version < Version::V5 && !connect.clean_start {
            return refuse(conn, ReasonCode::ClientIdentifierNotValid, out);
        }
        let client_id = assigned.as_deref().unwrap_or(connect.client_id);
        let (found, gone) = self.take_over(now, owner, client_id, connect.clean_start, out);
        let will = connect.will.as_ref().map(|will| Box::new(owned_will(will)));
        if !self.has_room_to_connect(found, owner, client_id, will.as_deref()) {
            return refuse(conn, ReasonCode::QuotaExceeded, out);
        }
        let slot = found.unwrap_or_else(|| self.begin(owner, client_id));
        let Ok(after) = self.attach(now, slot, conn, connect, will, out) else {
            return refuse(conn, ReasonCode::QuotaExceeded, out);
        };
        let answer = ConnAck {
            session_present: found.is_some(),
            assigned_client_id: assigned.as_deref(),
            response_information: response_information.filter(|_| connect.request_response_information),
            ..self.greeting(connect)
        };
        out.reply(conn, &Packet::ConnAck(Box::new(answer)), after.max(gone));
        self.owe_releases(slot, conn, out);
    }

    /// Unique for its owner, also among sessions from before a restart.
    fn assign_client_id(&mut self, now: Now, owner: &str) -> String {
        loop {
            self.assigned += 1;
            let id = format!("selvedge-{:x}-{:x}", now.unix_ms, self.assigned);
            if self.sessions.find(owner, &id).is_none() {
                return id;
            }
        }
    }

    /// Ends an old connection of the session, which is its owner no more, and the session itself if the client wants a
    /// new one. What is left, and what CONNACK has to wait for: a session that it calls gone may not come back
    /// (MQTT-3.1.2-4).
    fn take_over(
        &mut self,
        now: Now,
        owner: &str,
        id: &str,
        clean_start: bool,
        out: &mut dyn Sink,
    ) -> (Option<Slot>, Position) {
        if let Some(old) = self.sessions.find(owner, id) {
            self.abort(now, old, ReasonCode::SessionTakenOver, out);
        }
        match self.sessions.find(owner, id) {
            Some(left) if clean_start => (None, self.end(now, left, out)),
            left => (left, Position(0)),
        }
    }

    /// Whether there may be one session more, or one that goes on may come to have this will.
    fn has_room_to_connect(&self, found: Option<Slot>, owner: &str, client_id: &str, will: Option<&Will>) -> bool {
        let will_bytes = will.map_or(0, Will::bytes);
        let more_bytes = match found {
            None if self.sessions.len() >= self.limits.sessions => return false,
            None => new_session_bytes(owner, client_id) + will_bytes,
            Some(slot) => {
                let before = self.sessions.get(slot).will.as_deref().map_or(0, Will::bytes);
                will_bytes.saturating_sub(before)
            }
        };
        more_bytes == 0 || self.sessions.totals().bytes + more_bytes <= self.limits.session_bytes
    }

    fn begin(&mut self, owner: &str, client_id: &str) -> Slot {
        let id = self.new_session_id();
        self.sessions.insert(Session::new(id, owner, client_id))
    }

    /// Gives the session its new connection; what CONNACK has to wait for.
    fn attach(
        &mut self,
        now: Now,
        slot: Slot,
        conn: ConnId,
        connect: &Connect<'_>,
        will: Option<Box<Will>>,
        out: &mut dyn Sink,
    ) -> Result<Position, Full> {
        let live = self.live(now, conn, connect);
        let expiry_s = connect.session_expiry_s().min(self.limits.session_expiry_s);
        let before = self.sessions.change(slot, |session| {
            session.live = Some(Box::new(live));
            (
                std::mem::replace(&mut session.expiry_s, expiry_s),
                std::mem::replace(&mut session.will, will),
            )
        });
        let Ok(after) = self.log_session(now, slot, out) else {
            self.give_up(now, slot, before, out);
            return Err(Full);
        };
        self.sessions.connect(conn, slot);
        self.arm(slot);
        Ok(after)
    }

    /// The log could not take the session: a new one is gone, an old one stays as it was.
    fn give_up(&mut self, now: Now, slot: Slot, before: (u32, Option<Box<Will>>), out: &mut dyn Sink) {
        let is_persistent = self.sessions.change(slot, |session| {
            session.live = None;
            (session.expiry_s, session.will) = before;
            session.is_persistent()
        });
        if !is_persistent {
            self.end(now, slot, out);
        }
    }

    fn live(&self, now: Now, conn: ConnId, connect: &Connect<'_>) -> Live {
        let keep_alive_s = self.keep_alive_override(connect).unwrap_or(connect.keep_alive_s);
        let aliases = connect.topic_alias_maximum.min(self.limits.topic_aliases_outgoing);
        Live {
            conn,
            version: connect.version,
            silence_ms: u64::from(keep_alive_s) * 1500,
            heard_at_ms: now.monotonic_ms,
            window: connect
                .receive_maximum
                .map_or(u16::MAX, NonZeroU16::get)
                .min(self.limits.in_flight.get()),
            receive_maximum: self.limits.receive_maximum.get(),
            topic_alias_maximum: self.limits.topic_alias_maximum,
            maximum_packet_size: connect.maximum_packet_size,
            aliases_in: IncomingAliases::default(),
            aliases_out: OutgoingAliases::new(aliases),
        }
    }

    /// Server Keep Alive, which the client has to use instead of its own (MQTT-3.1.2-21); 3.x has none.
    fn keep_alive_override(&self, connect: &Connect<'_>) -> Option<u16> {
        let longest = self.limits.keep_alive_s?.get();
        let asked = connect.keep_alive_s;
        (connect.version == Version::V5 && (asked == 0 || asked > longest)).then_some(longest)
    }

    /// What every client is told of the server.
    fn greeting(&self, connect: &Connect<'_>) -> ConnAck<'static> {
        let asked_s = connect.session_expiry_s();
        let granted_s = asked_s.min(self.limits.session_expiry_s);
        ConnAck {
            session_expiry_interval_s: (granted_s != asked_s).then_some(granted_s),
            receive_maximum: Some(self.limits.receive_maximum),
            maximum_packet_size: Some(self.limits.maximum_packet_size),
            topic_alias_maximum: self.limits.topic_alias_maximum,
            server_keep_alive_s: self.keep_alive_override(connect),
            ..ConnAck::new(ReasonCode::Success)
        }
    }

    /// PUBREL again for all that were released on an earlier connection (MQTT-4.4.0-1).
    fn owe_releases(&self, slot: Slot, conn: ConnId, out: &mut dyn Sink) {
        for (packet_id, held) in self.sessions.get(slot).outgoing.released() {
            let after = held.map_or(Position(0), |held| self.held.get(held).position);
            out.reply(conn, &Packet::PubRel(Ack::new(packet_id, ReasonCode::Success)), after);
        }
    }
}

fn refuse(conn: ConnId, reason: ReasonCode, out: &mut dyn Sink) {
    out.reply(conn, &Packet::ConnAck(Box::new(ConnAck::new(reason))), Position(0));
    out.close(conn, reason);
}

fn owned_will(will: &mqtt::Will<'_>) -> Will {
    let publish = mqtt::Publish {
        dup: false,
        qos: will.qos,
        retain: will.retain,
        topic: will.topic,
        packet_id: None,
        properties: will.properties.clone(),
        payload: will.payload,
    };
    Will {
        message: OwnedMessage::new(&publish),
        delay_s: will.delay_interval_s,
    }
}
