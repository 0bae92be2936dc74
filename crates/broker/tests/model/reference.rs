//! What ought to be, kept as plainly as possible: every subscription is asked about every message.

use std::collections::{BTreeMap, BTreeSet};

use mqtt::{QoS, SubscriptionOptions, topic};

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) no: u64,
    pub(crate) topic: &'static str,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// Its payload is empty: it withdraws what is retained.
    pub(crate) is_withdrawal: bool,
    /// The client that sent it; `None` for wills and the hub.
    pub(crate) from: Option<usize>,
    pub(crate) expires_at_ms: Option<u64>,
    pub(crate) is_transient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sub {
    pub(crate) options: SubscriptionOptions,
    pub(crate) id: Option<u32>,
}

/// One message that one session may get.
#[derive(Clone, Debug)]
pub(crate) struct Owed {
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) ids: Vec<u32>,
    /// It must come in the end.
    pub(crate) certain: bool,
    pub(crate) seen: u32,
    /// The only connection that it may come on.
    pub(crate) only_on: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) subs: BTreeMap<&'static str, Sub>,
    /// By number; a message that was let in twice may be owed in two ways.
    pub(crate) owed: BTreeMap<u64, Vec<Owed>>,
    /// The newest message that has come, for each publisher, topic and QoS, by the order in which they were let in.
    pub(crate) newest: BTreeMap<(Option<usize>, &'static str, QoS), usize>,
    /// (number, packet identifier) of all that came.
    pub(crate) arrived: BTreeSet<(u64, u16)>,
    pub(crate) expiry_s: u32,
    pub(crate) ended_at_ms: Option<u64>,
    /// Subscriptions that have changed since their last acknowledgement.
    pub(crate) unsure: BTreeSet<&'static str>,
    pub(crate) unsure_acks: usize,
    /// Groups of which it has been a member, and may hold messages.
    pub(crate) groups: BTreeSet<&'static str>,
}

/// One message that one member of a group is to get.
#[derive(Clone, Debug)]
pub(crate) struct GroupOwed {
    pub(crate) certain: bool,
    pub(crate) once: bool,
    pub(crate) seen: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Reference {
    pub(crate) sessions: BTreeMap<usize, Session>,
    pub(crate) messages: BTreeMap<u64, Message>,
    pub(crate) acknowledged: BTreeSet<u64>,
    /// When each message was let in first, by number.
    pub(crate) order: BTreeMap<u64, usize>,
    /// Messages that have been let in twice, because their sender had no answer: their order is open.
    pub(crate) repeated: BTreeSet<u64>,
    /// What may be retained, by topic: the last is what should be; the others what a crash may bring back.
    pub(crate) retained: BTreeMap<&'static str, Vec<u64>>,
    /// Topics of which a retained message was acknowledged.
    pub(crate) retained_for_sure: BTreeSet<&'static str>,
    pub(crate) groups: BTreeMap<(&'static str, u64), GroupOwed>,
    /// Queues are short: what nobody can be told of, because it has no publisher, is dropped at their bound.
    pub(crate) is_narrow: bool,
    /// What waits in memory alone may have no room there.
    pub(crate) is_short_of_memory: bool,
    /// What a subscription to each filter counts as.
    pub(crate) bytes_of: BTreeMap<&'static str, u64>,
}

/// A subscription's filter without its group.
pub(crate) fn matched(filter: &str) -> &str {
    topic::split_shared(filter)
        .expect("well-formed")
        .map_or(filter, |(_, inner)| inner)
}

pub(crate) fn is_shared(filter: &str) -> bool {
    filter.starts_with("$share/")
}

impl Message {
    /// Its number; a withdrawal says nothing.
    pub(crate) fn payload(&self) -> String {
        if self.is_withdrawal {
            String::new()
        } else {
            self.no.to_string()
        }
    }
}

impl Reference {
    /// The message has been let in and goes to all that want it. Returns how each session should get it.
    pub(crate) fn route(
        &mut self,
        message: &Message,
        refused: bool,
        conns: &BTreeMap<usize, u64>,
    ) -> Vec<(usize, Owed)> {
        self.messages.insert(message.no, message.clone());
        let turn = self.order.len();
        if *self.order.entry(message.no).or_insert(turn) != turn {
            self.repeated.insert(message.no);
        }
        let mut all = Vec::new();
        for (client, session) in &mut self.sessions {
            let conn = conns.get(client).copied();
            let Some(owed) = session.expect(*client, message) else {
                continue;
            };
            // What the log does not have waits in memory.
            let is_bounded = self.is_narrow || self.is_short_of_memory && session.expiry_s == 0;
            let is_dropped = is_bounded && message.from.is_none();
            let is_certain = owed.qos > QoS::AtMostOnce && !refused && !is_dropped && message.expires_at_ms.is_none();
            let certain = is_certain && !message.is_transient && (conn.is_some() || session.expiry_s > 0);
            let only_on = message.is_transient.then_some(conn.unwrap_or(0));
            let owed = Owed {
                certain,
                only_on,
                ..owed
            };
            all.push((*client, owed.clone()));
            let ways = session.owed.entry(message.no).or_default();
            match ways
                .iter_mut()
                .find(|way| way.looks_like(owed.qos, owed.retain, &owed.ids))
            {
                Some(way) => way.certain |= certain,
                None => ways.push(owed),
            }
        }
        self.route_to_groups(message, refused);
        if message.retain && !refused && !message.is_transient {
            self.retained.entry(message.topic).or_default().push(message.no);
        }
        all
    }

    fn route_to_groups(&mut self, message: &Message, refused: bool) {
        let mut groups: BTreeMap<&'static str, Vec<(QoS, bool)>> = BTreeMap::new();
        for session in self.sessions.values() {
            for (filter, sub) in &session.subs {
                if is_shared(filter) && topic::matches(matched(filter), message.topic) {
                    groups
                        .entry(filter)
                        .or_default()
                        .push((sub.options.qos.min(message.qos), session.expiry_s > 0));
                }
            }
        }
        for (filter, members) in groups {
            let safe = members.iter().all(|(qos, lasts)| *qos > QoS::AtMostOnce && *lasts);
            let certain =
                safe && !refused && !self.is_narrow && !message.is_transient && message.expires_at_ms.is_none();
            let once = members.iter().all(|(qos, _)| *qos == QoS::ExactlyOnce);
            let group = self
                .groups
                .entry((filter, message.no))
                .or_insert(GroupOwed { certain, once, seen: 0 });
            group.certain = certain;
            group.once &= once;
        }
    }

    /// The client asks for a subscription; whether there is room for it.
    pub(crate) fn subscribe(&mut self, client: usize, filter: &'static str, sub: Sub, room_bytes: u64) -> bool {
        let taken_bytes = self.subscription_bytes();
        let session = self.sessions.get_mut(&client).expect("connected");
        session.unsure_acks += 1;
        if !session.subs.contains_key(filter) && taken_bytes + self.bytes_of[filter] > room_bytes {
            return false;
        }
        session.subs.insert(filter, sub);
        session.unsure.insert(filter);
        if is_shared(filter) {
            session.groups.insert(filter);
        }
        true
    }

    /// What all subscriptions together count as.
    pub(crate) fn subscription_bytes(&self) -> u64 {
        let filters = self.sessions.values().flat_map(|session| session.subs.keys());
        filters.map(|filter| self.bytes_of[filter]).sum()
    }

    /// The publisher has been told that the message is safe.
    pub(crate) fn acknowledged(&mut self, no: u64) {
        self.acknowledged.insert(no);
        let message = &self.messages[&no];
        if let Some(candidates) = self.retained.get_mut(message.topic)
            && let Some(at) = candidates.iter().position(|candidate| *candidate == no)
        {
            candidates.drain(..at);
            self.retained_for_sure.insert(message.topic);
        }
    }

    /// A message that is retained under this topic.
    pub(crate) fn any_retained(&self, topic: &'static str) -> Message {
        Message {
            no: 0,
            topic,
            qos: QoS::AtMostOnce,
            retain: true,
            is_withdrawal: false,
            from: None,
            expires_at_ms: None,
            is_transient: false,
        }
    }

    pub(crate) fn end(&mut self, client: usize) {
        let Some(session) = self.sessions.remove(&client) else {
            return;
        };
        for filter in &session.groups {
            self.groups
                .iter_mut()
                .filter(|((group, _), _)| group == filter)
                .for_each(|(_, owed)| owed.certain = false);
        }
    }

    /// The broker has crashed: what nobody was told to be safe may be gone.
    pub(crate) fn crash(&mut self, now_ms: u64) {
        let ended: Vec<usize> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.expiry_s == 0)
            .map(|(client, _)| *client)
            .collect();
        let acknowledged = &self.acknowledged;
        for filter in ended.iter().flat_map(|client| &self.sessions[client].groups) {
            // Its publisher sends it again, and the member that had it is forgotten.
            self.groups
                .iter_mut()
                .filter(|((group, no), _)| group == filter && !acknowledged.contains(no))
                .for_each(|(_, owed)| owed.once = false);
        }
        ended.into_iter().for_each(|client| self.end(client));
        let acknowledged = &self.acknowledged;
        for session in self.sessions.values_mut() {
            session.ended_at_ms.get_or_insert(now_ms);
            for (no, ways) in &mut session.owed {
                ways.iter_mut()
                    .for_each(|owed| owed.certain &= acknowledged.contains(no));
            }
        }
        self.groups
            .iter_mut()
            .for_each(|((_, no), owed)| owed.certain &= acknowledged.contains(no));
    }
}

impl Owed {
    pub(crate) fn looks_like(&self, qos: QoS, retain: bool, ids: &[u32]) -> bool {
        (self.qos, self.retain, &*self.ids) == (qos, retain, ids)
    }
}

impl Session {
    /// How the session should get the message, if its own subscriptions ask for it.
    fn expect(&self, client: usize, message: &Message) -> Option<Owed> {
        let asks = |filter: &str, sub: &Sub| {
            !is_shared(filter)
                && topic::matches(filter, message.topic)
                && !(sub.options.no_local && message.from == Some(client))
        };
        let subs: Vec<&Sub> = self
            .subs
            .iter()
            .filter(|(filter, sub)| asks(filter, sub))
            .map(|(_, sub)| sub)
            .collect();
        let qos = subs.iter().map(|sub| sub.options.qos).max()?.min(message.qos);
        let retain = message.retain && subs.iter().any(|sub| sub.options.retain_as_published);
        let mut ids: Vec<u32> = subs.iter().filter_map(|sub| sub.id).collect();
        ids.sort_unstable();
        Some(Owed {
            qos,
            retain,
            ids,
            certain: false,
            seen: 0,
            only_on: None,
        })
    }
}
