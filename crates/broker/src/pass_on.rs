//! What a member of a shared subscription leaves behind goes to another member (section 4.8.2).

use mqtt::{Publish, QoS};

use crate::fanout::Fanout;
use crate::ids::Slot;
use crate::message::decode_body;
use crate::outgoing::{Delivery, State};
use crate::publish::aged;
use crate::shared::{Member, Readiness};
use crate::{Broker, Dropped, Keep, Message, Now, Sink};

impl Broker {
    /// Passes on the group messages of a session without connection: to members that are connected, or to any when
    /// the session is `ending`. A QoS 2 message that was sent stays where it is (MQTT-4.8.2-4, MQTT-4.8.2-5). For
    /// its new member the message is a new one: DUP is not set.
    pub(crate) fn pass_on(&mut self, now: Now, slot: Slot, ending: bool, out: &mut dyn Sink) {
        let heirs = self.heirs(slot, ending, out);
        if heirs.is_empty() {
            return;
        }
        let held = &self.held;
        let session = self.sessions.get_mut(slot);
        let is_inherited = |delivery: &Delivery| heirs.binary_search_by_key(&delivery.seq, |(seq, _)| *seq).is_ok();
        let id = session.id;
        let left = session
            .outgoing
            .extract(is_inherited, |delivery| crate::log::len_of(held, delivery));
        for (delivery, (_, heir)) in left.iter().zip(heirs) {
            self.bequeath(now, delivery, heir, out);
            self.settle(id, delivery, out);
        }
    }

    /// Who is to get which of the deliveries, by seq. A message that only the log has stays.
    fn heirs(&mut self, slot: Slot, ending: bool, out: &dyn Sink) -> Vec<(u64, Member)> {
        let Broker {
            sessions, groups, held, ..
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
        outgoing
            .upcoming(outgoing.waiting_len())
            .filter(|delivery| !(delivery.qos == QoS::ExactlyOnce && delivery.state == State::Sent))
            .filter(|delivery| delivery.held.is_some_and(|id| held.get(id).body.is_some()))
            .filter_map(|delivery| Some((delivery.seq, choose(delivery)?)))
            .collect()
    }

    fn bequeath(&mut self, now: Now, delivery: &Delivery, heir: Member, out: &mut dyn Sink) {
        let Some(held) = delivery.held.map(|id| self.held.get(id).clone()) else {
            return;
        };
        if held.expires_at_ms <= now.monotonic_ms {
            return out.dropped(Dropped::Expired);
        }
        let Some(publish) = held.body.as_deref().and_then(decode_body) else {
            return;
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
            addressee: None,
            keep,
        };
        let qos = delivery.qos.min(heir.options.qos);
        let mut fanout = Fanout::to(heir.slot, qos, delivery.retain, heir.id, delivery.group);
        fanout.is_inherited = true;
        self.dispatch(now, &message, held.expires_at_ms, &mut fanout, out);
    }
}
