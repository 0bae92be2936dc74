//! Who gets a message: one entry for each session, with all that its matching subscriptions say.

use mqtt::{Publish, QoS};

use crate::ids::{GroupId, Slot};
use crate::shared::Member;
use crate::subscriptions::Target;
use crate::{Broker, Dropped, Keep, Message, Sink};

/// One session that gets the message, once, at the highest QoS that its subscriptions ask for (MQTT-3.3.4-2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    pub(crate) slot: Slot,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    /// Where it gets it as a member of this group.
    pub(crate) group: Option<GroupId>,
    first_id: u32,
    /// Its number in the session, once that has taken it (QoS 1 and 2).
    pub(crate) seq: Option<u64>,
    /// Whether the message's record names it.
    pub(crate) logged: bool,
}

const NO_ID: u32 = u32::MAX;

/// Where a message comes from, and so what becomes of it when it is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Source {
    /// Somebody published it. At QoS 2 it will come again and goes to nobody, else to all that are connected.
    #[default]
    Publisher,
    /// A member of a shared subscription that has left, and keeps what is refused.
    Leaver,
    /// A member of a shared subscription whose session ends: what is refused goes to those that are connected.
    Ender,
}

/// The matches of one message, and what is needed to put them together.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    pub(crate) source: Source,
    /// Why a session that asked for the message cannot have it, where its publisher is to be told.
    pub(crate) refused: Option<Dropped>,
    round: u64,
    pub(crate) matches: Vec<Match>,
    groups: Vec<GroupId>,
    /// Subscription Identifiers, chained by the place of the next one.
    ids: Vec<(u32, u32)>,
    ids_of_one: Vec<u32>,
    /// The list of deliveries of the message's record.
    pub(crate) list: Vec<u8>,
    /// How many are on it.
    pub(crate) logged: usize,
    /// The message as it is logged and kept.
    pub(crate) body: Vec<u8>,
}

impl Fanout {
    fn clear(&mut self) {
        self.matches.clear();
        self.groups.clear();
        self.ids.clear();
        self.list.clear();
        self.logged = 0;
        self.refused = None;
        self.body.clear();
    }

    /// For a message that goes to one session alone.
    pub(crate) fn to(slot: Slot, qos: QoS, retain: bool, id: u32, group: Option<GroupId>) -> Fanout {
        let mut fanout = Fanout::default();
        fanout.push(slot, qos, retain, group);
        fanout.add_id(0, id);
        fanout
    }

    fn push(&mut self, slot: Slot, qos: QoS, retain: bool, group: Option<GroupId>) {
        self.matches.push(Match {
            slot,
            qos,
            retain,
            group,
            first_id: NO_ID,
            seq: None,
            logged: false,
        });
    }

    fn add_id(&mut self, at: usize, id: u32) {
        if id != 0 {
            let next = std::mem::replace(&mut self.matches[at].first_id, self.ids.len() as u32);
            self.ids.push((id, next));
        }
    }

    /// The Subscription Identifiers of a match, in ascending order.
    pub(crate) fn ids_of(&mut self, one: &Match) -> &[u32] {
        self.ids_of_one.clear();
        let mut at = one.first_id;
        while let Some((id, next)) = self.ids.get(at as usize) {
            self.ids_of_one.push(*id);
            at = *next;
        }
        self.ids_of_one.sort_unstable();
        &self.ids_of_one
    }
}

impl Broker {
    /// Finds all that get the message: sessions by their own subscriptions first, then one member of each group.
    pub(crate) fn match_topic(&mut self, message: &Message<'_>, fanout: &mut Fanout, out: &dyn Sink) {
        fanout.clear();
        fanout.round += 1;
        let publish = message.publish;
        let from = message.from.and_then(|conn| self.sessions.by_conn(conn));
        let Broker {
            subscriptions,
            sessions,
            ..
        } = self;
        subscriptions.matches(publish.topic, &mut |target| match *target {
            Target::Group(group) => fanout.groups.push(group),
            // MQTT-3.8.3-3
            Target::Session { slot, options, .. } if options.no_local && from == Some(slot) => {}
            Target::Session { slot, options, id } => {
                let met = &mut sessions.get_mut(slot).met;
                if met.0 != fanout.round {
                    *met = (fanout.round, fanout.matches.len() as u32);
                    fanout.push(slot, QoS::AtMostOnce, false, None);
                }
                let at = met.1 as usize;
                fanout.add_id(at, id);
                let one = &mut fanout.matches[at];
                one.qos = one.qos.max(options.qos.min(publish.qos));
                one.retain |= publish.retain && options.retain_as_published;
            }
        });
        self.match_groups(publish, message.keep, fanout, out);
    }

    fn match_groups(&mut self, publish: &Publish<'_>, keep: Keep, fanout: &mut Fanout, out: &dyn Sink) {
        let kept = !matches!(keep, Keep::Never { .. });
        for at in 0..fanout.groups.len() {
            let group = fanout.groups[at];
            let sessions = &self.sessions;
            let readiness = |member: &Member| sessions.get(member.slot).readiness(|conn| out.has_room(conn), kept);
            let Some(Member { slot, options, id }) = self.groups.choose(group, readiness) else {
                continue;
            };
            let retain = publish.retain && options.retain_as_published;
            fanout.push(slot, options.qos.min(publish.qos), retain, Some(group));
            fanout.add_id(fanout.matches.len() - 1, id);
        }
    }
}
