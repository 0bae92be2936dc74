//! A new process starts from what the log has, and is compared with what was promised.

use std::collections::{BTreeMap, BTreeSet};

use broker::{ConnId, Limits, Position, Record, Recovery};
use mqtt::{Connect, Disconnect, PacketId, ReasonCode, Subscribe, SubscriptionOptions, Version};

use crate::check::number;
use crate::outside::Wire;
use crate::reference::{Session, Sub};
use crate::run::{FILTERS, Run, TOPICS};

/// The connection of one that looks at what is retained.
const PROBE: u64 = u64::MAX;

impl Run {
    /// The process ends, perhaps before it has written everything, and a new one starts.
    pub(crate) fn restart(&mut self) {
        if self.rng.one_in(4) {
            self.commit_all();
        }
        let written = self.out.durable;
        self.out.trace(|| format!("restart after record {written}"));
        self.out.log.truncate(written);
        self.groups.clear();
        self.out.wires.clear();
        self.out.loads.clear();
        self.out.wills.clear();
        self.out.is_full = false;
        self.reference.crash(self.now.unix_ms);
        for (who, client) in self.clients.iter_mut().enumerate() {
            client.cut();
            // A connection that was open ends with the process; what is said of it lasts as long as the session.
            let of_open = client.will.take();
            let due = of_open.map(|(message, delay_s)| (message, self.now.unix_ms + u64::from(delay_s) * 1000));
            let is_kept = self.reference.sessions.contains_key(&who);
            client.pending_will = due.or(client.pending_will.take()).filter(|_| is_kept);
        }
        self.now.monotonic_ms = self.rng.below(50) as u64;
        self.recover();
        self.due_wills();
        self.commit_all();
        self.check_sessions();
        self.check_retained();
    }

    pub(crate) fn recover(&mut self) {
        let mut recovery = Recovery::new(self.now, self.limits.clone());
        for (at, entry) in self.out.log.iter_mut().enumerate().skip(self.out.start) {
            if entry.is_cancelled {
                continue;
            }
            let record = Record::decode(&entry.meta, &[]).expect("what was logged");
            entry.is_released = record.is_tombstone();
            recovery
                .restore(Position(at as u64 + 1), &entry.meta, entry.body.len())
                .expect("what was logged");
        }
        self.broker = recovery.finish(self.now, &mut self.out);
        self.broker.tick(self.now, &mut self.out);
    }

    /// Sessions and subscriptions are those that were promised.
    pub(crate) fn check_sessions(&mut self) {
        let found: BTreeSet<(String, String)> = self
            .broker
            .sessions()
            .map(|session| (session.owner.into(), session.client_id.into()))
            .collect();
        let expected = self.reference.sessions.keys().map(|who| &self.clients[*who]);
        let expected: BTreeSet<_> = expected
            .map(|client| (client.owner.into(), client.name.into()))
            .collect();
        assert_eq!(found, expected, "sessions after a restart");
        for (who, session) in &mut self.reference.sessions {
            let client = &self.clients[*who];
            let found: BTreeMap<&str, _> = self
                .broker
                .subscriptions(client.owner, client.name)
                .map(|one| (one.filter, one))
                .collect();
            for filter in FILTERS {
                let found = found.get(filter).map(|one| (one.options, one.subscription_id));
                if session.unsure.contains(filter) {
                    adopt(session, filter, found);
                }
                let expected = session.subs.get(filter).map(|sub| (sub.options, sub.id));
                assert_eq!(found, expected, "{filter} of client {who} after a restart");
            }
            session.unsure.clear();
        }
    }

    /// Retained messages are the last ones, or, where the publisher was not told so before a crash, ones before.
    pub(crate) fn check_retained(&mut self) {
        let found = self.probe();
        for topic in TOPICS {
            let candidates = self.reference.retained.entry(topic).or_default();
            let messages = &self.reference.messages;
            let is_found = |no: &u64| match found.get(topic) {
                Some(found) => found == no,
                None => messages[no].is_withdrawal,
            };
            let ok = candidates.iter().copied().find(is_found);
            let nothing = !found.contains_key(topic) && !self.reference.retained_for_sure.contains(topic);
            assert!(
                ok.is_some() || nothing,
                "{topic}: retained {:?}, not one of {candidates:?}",
                found.get(topic)
            );
            *candidates = ok.into_iter().collect();
        }
    }

    pub(crate) fn probe(&mut self) -> BTreeMap<String, u64> {
        self.broker.set_limits(Limits {
            subscription_bytes: u64::MAX,
            ..self.limits.clone()
        });
        let has_room = true;
        self.out.wires.insert(
            PROBE,
            Wire {
                has_room,
                ..Wire::default()
            },
        );
        let connect = Connect::new(Version::V5, "probe");
        self.broker
            .connect(self.now, ConnId(PROBE), &connect, "probe", None, &mut self.out);
        let filters = ["#", "$x/#"].map(|filter| (filter, SubscriptionOptions::default()));
        let subscribe = Subscribe::new(PacketId::MIN, filters.into());
        self.broker
            .subscribe(self.now, ConnId(PROBE), &subscribe, &mut |_| true, &mut self.out);
        self.load_all();
        let bye = Disconnect::new(ReasonCode::Success);
        self.broker.disconnect(self.now, ConnId(PROBE), &bye, &mut self.out);
        self.broker.set_limits(self.limits.clone());
        let wire = self.out.wires.remove(&PROBE).expect("just made");
        wire.publishes
            .into_iter()
            .map(|sent| (sent.topic, number(&sent.payload)))
            .collect()
    }
}

fn adopt(session: &mut Session, filter: &'static str, found: Option<(SubscriptionOptions, Option<u32>)>) {
    match found {
        Some((options, id)) => session.subs.insert(filter, Sub { options, id }),
        None => session.subs.remove(filter),
    };
}
