//! What must hold: after every operation, for every message that arrives, and in the end.

use broker::{ConnId, Dropped, Keep, Record};
use mqtt::{Disconnect, QoS, ReasonCode, topic};

use crate::outside::Sent;
use crate::reference::{Message, is_shared};
use crate::run::{FILTERS, Run, TOPICS};

impl Run {
    /// What must hold after every operation.
    pub(crate) fn after(&mut self) {
        self.groups.push(self.out.log.len());
        for (conn, reason) in std::mem::take(&mut self.out.closed) {
            if self.expected_closes.remove(&conn) {
                assert_eq!(reason, ReasonCode::SessionTakenOver);
                continue;
            }
            assert_eq!(reason, ReasonCode::QuotaExceeded, "{conn} was closed");
            let who = self.clients.iter().position(|client| client.conn == Some(conn));
            self.left(who.expect("it was connected"), true);
        }
        assert!(self.expected_closes.is_empty(), "a connection was not taken over");
        self.send_wills();
        let never = [
            Dropped::TooLarge,
            Dropped::Damaged,
            Dropped::RetainedFull,
            Dropped::TenantFull,
            Dropped::SessionsFull,
        ];
        assert!(self.out.drops.iter().all(|why| !never.contains(why)));
        assert!(self.reference.is_narrow || !self.out.drops.contains(&Dropped::QueueFull));
        assert!(self.reference.is_short_of_memory || !self.out.drops.contains(&Dropped::MemoryFull));
        self.out.drops.clear();
        assert_eq!(
            self.broker.statistics().subscription_bytes,
            self.reference.subscription_bytes()
        );
        if std::mem::take(&mut self.commit_later) {
            self.commit_all();
        }
    }

    /// Every will comes when it is due, and is sent the way of any message.
    fn send_wills(&mut self) {
        for will in std::mem::take(&mut self.out.wills) {
            let no = number(&String::from_utf8_lossy(will.publish().payload));
            assert!(self.expected_wills.remove(&no), "will {no} is not due");
            let message = self.reference.messages[&no].clone();
            self.route(&message, None, Keep::Always);
        }
        assert!(
            self.expected_wills.is_empty(),
            "wills {:?} are missing",
            self.expected_wills
        );
    }

    /// A PUBLISH arrives at a client.
    pub(crate) fn take_publish(&mut self, who: usize, conn: u64, sent: &Sent) {
        self.out.trace(|| format!("client {who} gets {sent:?}"));
        let client = &mut self.clients[who];
        let topic = match sent.alias {
            None => sent.topic.clone(),
            Some(alias) if sent.topic.is_empty() => client.aliases[&alias].clone(),
            Some(alias) => {
                assert!(alias <= client.alias_maximum);
                client.aliases.insert(alias, sent.topic.clone());
                sent.topic.clone()
            }
        };
        if sent.payload.is_empty() {
            // A withdrawal: which one cannot be told, but it is acknowledged like any other.
            if sent.qos > QoS::AtMostOnce {
                client.takes(sent.qos, sent.packet_id);
            }
            return;
        }
        let message = self.reference.messages[&number(&sent.payload)].clone();
        assert_eq!(topic, message.topic);
        check_expiry(&message, sent);
        let session = self.reference.sessions.get_mut(&who).expect("connected");
        if sent.qos > QoS::AtMostOnce {
            let is_first = session.arrived.insert((message.no, sent.packet_id));
            // One that its publisher has sent again is a new message to the broker.
            let is_new = is_first || self.reference.repeated.contains(&message.no);
            assert!(is_new || sent.dup, "message {} came again without DUP", message.no);
            if !client.takes(sent.qos, sent.packet_id) {
                return;
            }
        }
        let is_known =
            self.is_owed(who, conn, &message, sent) || is_replay(&message, sent) || self.is_for_group(&message, sent);
        assert!(is_known, "client {who} did not ask for {sent:?}");
    }

    /// It is what the session's own subscriptions asked for.
    fn is_owed(&mut self, who: usize, conn: u64, message: &Message, sent: &Sent) -> bool {
        let could_be_replay = is_replay(message, sent);
        let session = self.reference.sessions.get_mut(&who).expect("connected");
        let ways = session.owed.entry(message.no).or_default();
        let Some(owed) = ways
            .iter_mut()
            .find(|owed| owed.looks_like(sent.qos, sent.retain, &sent.ids))
        else {
            return false;
        };
        assert!(
            owed.only_on.is_none_or(|only| only == conn),
            "a transient message outlived its connection"
        );
        owed.seen += 1;
        if could_be_replay {
            return true;
        }
        assert!(
            sent.qos < QoS::ExactlyOnce || owed.seen == 1,
            "message {} came twice at QoS 2",
            message.no
        );
        if owed.seen == 1 && !self.reference.repeated.contains(&message.no) {
            let newest = session
                .newest
                .entry((message.from, message.topic, sent.qos))
                .or_default();
            let turn = self.reference.order[&message.no];
            assert!(*newest <= turn, "message {} came after a newer one", message.no);
            *newest = turn;
        }
        true
    }

    /// It is for a group of which the client is a member.
    fn is_for_group(&mut self, message: &Message, sent: &Sent) -> bool {
        let [id] = sent.ids[..] else { return false };
        let filter = FILTERS[id as usize - 1];
        if !is_shared(filter) {
            return false;
        }
        let Some(group) = self.reference.groups.get_mut(&(filter, message.no)) else {
            return false;
        };
        group.seen += 1;
        // One that has joined since may have it at QoS 1.
        group.once &= sent.qos == QoS::ExactlyOnce;
        assert!(
            !group.once || group.seen == 1,
            "message {} came twice at QoS 2 to {filter}",
            message.no
        );
        true
    }

    /// Everybody comes back, reads and acknowledges; then nothing that was promised may be missing.
    pub(crate) fn finish(&mut self) {
        self.out.is_full = false;
        self.limits.queue_messages = usize::MAX;
        self.broker.set_limits(self.limits.clone());
        self.all_come_back();
        let mut rounds = 0;
        while !self.is_quiet() {
            rounds += 1;
            assert!(rounds < 10_000, "it never comes to rest");
            if rounds == 100 {
                // One of 3.1.1 that sends again as soon as it is back may find its own reader without room each time.
                self.limits.memory_bytes = 1 << 20;
                self.broker.set_limits(self.limits.clone());
            }
            self.commit_all();
            self.load_all();
            for who in 0..self.clients.len() {
                self.open(who);
                self.read_and_acknowledge(who);
                self.after();
            }
            self.all_come_back();
        }
        self.check_nothing_is_missing();
        self.check_retained();
        self.check_nothing_is_left();
    }

    /// One of 3.1.1 may have been closed because there was no room for what it published.
    fn all_come_back(&mut self) {
        for who in 0..self.clients.len() {
            if self.clients[who].conn.is_none() && self.clients[who].is_lasting {
                self.connect_as(who, false, None);
                self.after();
            }
        }
    }

    fn is_quiet(&self) -> bool {
        let is_read = self
            .out
            .wires
            .values()
            .all(|wire| wire.has_room && wire.publishes.is_empty() && wire.replies.is_empty());
        let is_done = |client: &crate::client::Client| {
            client.conn.is_none() || client.due.is_empty() && client.unacknowledged.is_empty()
        };
        is_read && self.clients.iter().all(is_done) && self.out.loads.is_empty() && !self.out.is_commit_awaited
    }

    fn check_nothing_is_missing(&self) {
        for (who, session) in &self.reference.sessions {
            let owed = session
                .owed
                .iter()
                .flat_map(|(no, ways)| ways.iter().map(move |owed| (no, owed)));
            for (no, owed) in owed.filter(|(_, owed)| owed.certain) {
                let is_withdrawal = self.reference.messages[no].is_withdrawal;
                assert!(owed.seen > 0 || is_withdrawal, "message {no} for client {who} is lost");
            }
        }
        for ((filter, no), owed) in self.reference.groups.iter().filter(|(_, owed)| owed.certain) {
            let is_withdrawal = self.reference.messages[no].is_withdrawal;
            assert!(owed.seen > 0 || is_withdrawal, "message {no} for {filter} is lost");
        }
        let statistics = self.broker.statistics();
        assert_eq!(
            (
                statistics.queued_messages,
                statistics.queued_bytes,
                statistics.in_flight
            ),
            (0, 0, 0)
        );
    }

    /// When all sessions and retained messages are gone, no memory and no record is left.
    fn check_nothing_is_left(&mut self) {
        for who in 0..self.clients.len() {
            self.connect_as(who, true, None);
            self.after();
            let conn = self.clients[who].conn.expect("just connected");
            let bye = Disconnect {
                session_expiry_interval_s: Some(0),
                ..Disconnect::new(ReasonCode::Success)
            };
            self.broker.disconnect(self.now, ConnId(conn), &bye, &mut self.out);
            self.clients[who].cut();
            self.after();
        }
        // Members of groups that have left may have left something unread.
        self.commit_all();
        self.load_all();
        for topic in TOPICS {
            let withdrawal = Message {
                is_withdrawal: true,
                ..self.reference.any_retained(topic)
            };
            self.route(&withdrawal, None, Keep::Always);
        }
        let left = self.out.live_records();
        let left: Vec<_> = left
            .iter()
            .map(|entry| Record::decode(&entry.meta, &entry.body))
            .collect();
        assert!(left.is_empty(), "still in the log: {left:?}");
        assert_eq!(self.broker.statistics(), broker::Statistics::default());
    }
}

/// It could be a retained message for a new subscription.
fn is_replay(message: &Message, sent: &Sent) -> bool {
    let asked = |id: &u32| topic::matches(FILTERS[*id as usize - 1], message.topic);
    let is_plausible = sent.retain && message.retain && sent.qos <= message.qos;
    is_plausible && sent.ids.len() <= 1 && sent.ids.iter().all(asked)
}

fn check_expiry(message: &Message, sent: &Sent) {
    let left_s = message.expires_at_ms.map(|at_ms| {
        assert!(
            sent.at_ms < at_ms,
            "message {} was sent after it had expired",
            message.no
        );
        (at_ms - sent.at_ms).div_ceil(1000) as u32
    });
    assert_eq!(sent.expiry_s, left_s, "expiry of message {}", message.no);
}

pub(crate) fn number(payload: &str) -> u64 {
    payload.parse().expect("a message's number")
}
