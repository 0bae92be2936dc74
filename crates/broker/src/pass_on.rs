//! What a member of a shared subscription leaves behind goes to another member (section 4.8.2).

use mqtt::{Publish, QoS};

use crate::deliver::load;
use crate::fanout::{Fanout, Source};
use crate::ids::{HeldId, Slot};
use crate::message::decode_body;
use crate::outgoing::{Delivery, State};
use crate::publish::aged;
use crate::shared::{Member, Readiness};
use crate::{Broker, Dropped, Keep, Message, Now, Sink};

/// Messages of one session that are read back at a time to be passed on.
const PASS_AHEAD: usize = 128;

/// What may be passed on of a session.
#[derive(Debug, Default)]
struct Estate {
    /// What is in memory, by seq, and who is to get it.
    heirs: Vec<(Delivery, Member)>,
    /// What only the log has.
    unread: Vec<HeldId>,
}

impl Broker {
    /// Passes on the group messages of a session without connection: to members that are connected, or to any when
    /// the session is `ending`. A QoS 2 message that was sent stays where it is (MQTT-4.8.2-4, MQTT-4.8.2-5). For
    /// its new member the message is a new one: DUP is not set. What only the log has is read back for it.
    pub(crate) fn pass_on(&mut self, now: Now, slot: Slot, ending: bool, out: &mut dyn Sink) {
        let estate = self.estate(slot, ending, out);
        let count = estate.heirs.len();
        let mut passed = Vec::with_capacity(count);
        for (delivery, heir) in estate.heirs {
            if self.bequeath(now, &delivery, heir, ending, out) {
                passed.push(delivery.seq);
            }
        }
        // What nobody takes stays in memory: more is not read where there is no room for it.
        if passed.len() == count || self.held.has_memory_for_logged(0, self.limits.memory_bytes) {
            for id in estate.unread {
                load(&mut self.held, id, slot, out);
            }
        }
        let held = &self.held;
        let is_passed = |delivery: &Delivery| passed.binary_search(&delivery.seq).is_ok();
        let id = self.sessions.get(slot).id;
        let left = self.sessions.change(slot, |session| {
            session
                .outgoing
                .extract(is_passed, |delivery| crate::log::len_of(held, delivery))
        });
        left.iter().for_each(|delivery| self.settle(id, delivery, out));
    }

    /// A message of a session without connection has been read back: once all that were asked for are there, they are
    /// passed on, and the next ones read.
    pub(crate) fn go_on_passing(&mut self, now: Now, slot: Slot, out: &mut dyn Sink) {
        let ending = self.sessions.get(slot).is_departed();
        let unread = self.estate(slot, ending, out).unread;
        if unread.iter().any(|id| self.held.is_awaited_by(*id, slot)) {
            return;
        }
        self.pass_on(now, slot, ending, out);
        if ending {
            self.bury_departed(slot, out);
        }
    }

    /// Whether something of an ending session is still to be read back and passed on.
    pub(crate) fn leaves_unread(&mut self, slot: Slot, out: &dyn Sink) -> bool {
        !self.estate(slot, true, out).unread.is_empty()
    }

    fn estate(&mut self, slot: Slot, ending: bool, out: &dyn Sink) -> Estate {
        let Broker {
            sessions,
            groups,
            held,
            limits,
            ..
        } = self;
        // What is kept for a session that lasts is not given to one that would keep it less well, while it lasts.
        let may_inherit = |member: &Member, delivery: &Delivery| {
            let is_logged = delivery.held.is_some_and(|id| held.get(id).is_logged());
            let keeps_as_well =
                member.options.qos >= delivery.qos && (!is_logged || sessions.get(member.slot).is_persistent());
            member.slot != slot && (ending || keeps_as_well)
        };
        let mut choose = |delivery: &Delivery| {
            groups.choose(delivery.group?, |member| match may_inherit(member, delivery) {
                true => sessions.get(member.slot).readiness(|conn| out.has_room(conn), ending),
                false => Readiness::Never,
            })
        };
        let outgoing = &sessions.get(slot).outgoing;
        let mut unread_bytes = 0;
        let may_leave = |delivery: &&Delivery| !(delivery.qos == QoS::ExactlyOnce && delivery.state == State::Sent);
        let mut estate = Estate::default();
        for delivery in outgoing.upcoming(outgoing.waiting_len()).filter(may_leave) {
            let (Some(id), Some(heir)) = (delivery.held, choose(delivery)) else {
                continue;
            };
            if held.get(id).body.is_some() {
                estate.heirs.push((delivery.clone(), heir));
                continue;
            }
            estate.unread.push(id);
            unread_bytes += held.get(id).len;
            if estate.unread.len() == PASS_AHEAD || !held.has_memory_for_logged(unread_bytes, limits.memory_bytes) {
                break;
            }
        }
        estate
    }

    /// Gives one message to one heir. False if it is refused, and stays where it is.
    fn bequeath(&mut self, now: Now, delivery: &Delivery, heir: Member, ending: bool, out: &mut dyn Sink) -> bool {
        let Some(held) = delivery.held.map(|id| self.held.get(id).clone()) else {
            return false;
        };
        if held.expires_at_ms <= now.monotonic_ms {
            out.dropped(Dropped::Expired);
            return true;
        }
        let Some(publish) = held.body.as_deref().and_then(decode_body) else {
            out.dropped(Dropped::Damaged);
            return true;
        };
        let properties = aged(publish.properties, now, held.expires_at_ms);
        let publish = Publish {
            qos: delivery.qos,
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
        let qos = delivery.qos.min(heir.options.qos);
        let mut fanout = Fanout::to(heir.slot, qos, delivery.retain, heir.id, delivery.group);
        fanout.source = if ending { Source::Ender } else { Source::Leaver };
        let published = self.dispatch(now, &message, held.expires_at_ms, &mut fanout, out);
        if let (Some(id), false) = (delivery.held, published.refused) {
            // Whoever waits for the old record may not go on before the new one is safe as well.
            self.held.get_mut(id).is_first_record = false;
        }
        ending || !published.refused
    }
}
