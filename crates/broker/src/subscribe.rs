//! SUBSCRIBE and UNSUBSCRIBE, sections 3.8 and 3.10.

use mqtt::{Packet, QoS, ReasonCode, RetainHandling, SubAck, Subscribe, SubscriptionOptions, Unsubscribe, topic};

use crate::cost::subscription_bytes;
use crate::ids::{GroupId, Slot};
use crate::log::{bury, replace};
use crate::receive::is_too_deep;
use crate::session::{Session, Subscription};
use crate::shared::Member;
use crate::{Broker, ConnId, Full, Now, Position, Record, RefusedFilter, Sink};

impl Broker {
    /// SUBSCRIBE arrived; `allowed` is asked for each filter, without its `$share/{group}/`.
    /// Answers with SUBACK; retained messages follow as the connection has room.
    pub fn subscribe(
        &mut self,
        now: Now,
        conn: ConnId,
        subscribe: &Subscribe<'_>,
        allowed: &mut dyn FnMut(&str) -> bool,
        out: &mut dyn Sink,
    ) {
        let Some(slot) = self.heard(now, conn) else { return };
        // MQTT-3.8.3-4
        if subscribe
            .filters
            .iter()
            .any(|(filter, options)| options.no_local && filter.starts_with("$share/"))
        {
            return self.abort(now, slot, ReasonCode::ProtocolError, out);
        }
        let id = subscribe.subscription_id.unwrap_or(0);
        let mut after = Position(0);
        let mut reasons = Vec::with_capacity(subscribe.filters.len());
        for (filter, options) in &subscribe.filters {
            let checked = self.check_filter(filter, allowed);
            let added = checked.and_then(|matched| self.add_subscription(slot, filter, matched, *options, id, out));
            reasons.push(match added {
                Ok(record) => {
                    after = after.max(record);
                    granted(options.qos)
                }
                Err(why) => {
                    out.refused_filter(why);
                    why.reason()
                }
            });
        }
        out.reply(conn, &Packet::SubAck(SubAck::new(subscribe.packet_id, reasons)), after);
        self.flush(now, slot, out);
    }

    /// The filter that topics are to be matched with, if it may be subscribed to.
    fn check_filter<'f>(
        &self,
        filter: &'f str,
        allowed: &mut dyn FnMut(&str) -> bool,
    ) -> Result<&'f str, RefusedFilter> {
        let shared = topic::split_shared(filter).map_err(|_| RefusedFilter::Invalid)?;
        let matched = shared.map_or(filter, |(_, matched)| matched);
        if topic::check_filter(matched).is_err() || is_too_deep(matched, self.limits.topic_levels) {
            return Err(RefusedFilter::Invalid);
        }
        if allowed(matched) {
            Ok(matched)
        } else {
            Err(RefusedFilter::NotAuthorized)
        }
    }

    /// Makes a subscription, or replaces the one with the same filter (MQTT-3.8.4-3); after what it is safe.
    fn add_subscription(
        &mut self,
        slot: Slot,
        filter: &str,
        matched: &str,
        options: SubscriptionOptions,
        id: u32,
        out: &mut dyn Sink,
    ) -> Result<Position, RefusedFilter> {
        let session = self.sessions.get(slot);
        let found = session.subscription(filter);
        if found.is_err() {
            self.check_room_to_subscribe(session, filter)?;
        }
        let old = found.map_or(Position(0), |at| session.subscriptions[at].record);
        let group = (matched.len() != filter.len()).then(|| self.groups.number(filter));
        let record = log_subscription(session, filter, options, (id, group), old, out)?;
        let subscription = self.link(slot, filter, matched, options, id, record);
        if found.is_err() {
            self.subscription_bytes += subscription_bytes(filter);
        }
        let wants_retained = match options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => found.is_err(),
            RetainHandling::DoNotSend => false,
        };
        let begins_replay = wants_retained && subscription.group.is_none();
        self.sessions
            .change(slot, |session| put(&mut session.subscriptions, found, subscription));
        if begins_replay {
            self.begin_replay(slot, found.unwrap_or_else(|at| at));
        }
        Ok(record)
    }

    fn check_room_to_subscribe(&self, session: &Session, filter: &str) -> Result<(), RefusedFilter> {
        if session.subscriptions.len() >= self.limits.subscriptions_per_session {
            return Err(RefusedFilter::SessionFull);
        }
        if self.subscription_bytes + subscription_bytes(filter) > self.limits.subscription_bytes {
            return Err(RefusedFilter::TenantFull);
        }
        Ok(())
    }

    /// Makes the filter find the session, or its group.
    pub(crate) fn link(
        &mut self,
        slot: Slot,
        filter: &str,
        matched: &str,
        options: SubscriptionOptions,
        id: u32,
        record: Position,
    ) -> Subscription {
        let is_shared = matched.len() != filter.len();
        let group = is_shared.then(|| self.groups.join(filter, Member { slot, options, id }));
        let subscription = Subscription {
            filter: filter.into(),
            options,
            id,
            group,
            record,
            owes_retained: false,
        };
        self.subscriptions.insert(matched, subscription.target(slot));
        subscription
    }

    /// Makes the filter find the session, or its group without members, no more.
    pub(crate) fn unlink(&mut self, slot: Slot, subscription: &Subscription) {
        self.subscription_bytes -= subscription_bytes(&subscription.filter);
        let is_last = subscription.group.is_none_or(|group| self.groups.leave(group, slot));
        if is_last {
            self.subscriptions
                .remove(subscription.matched_filter(), subscription.target(slot));
        }
    }

    /// UNSUBSCRIBE arrived. Answers with UNSUBACK.
    pub fn unsubscribe(&mut self, now: Now, conn: ConnId, unsubscribe: &Unsubscribe<'_>, out: &mut dyn Sink) {
        let Some(slot) = self.heard(now, conn) else { return };
        let mut after = Position(0);
        let mut reasons = Vec::with_capacity(unsubscribe.filters.len());
        for filter in &unsubscribe.filters {
            reasons.push(match self.remove_subscription(slot, filter, out) {
                Ok(Some(record)) => {
                    after = after.max(record);
                    ReasonCode::Success
                }
                Ok(None) => ReasonCode::NoSubscriptionExisted,
                Err(Full) => ReasonCode::QuotaExceeded,
            });
        }
        out.reply(
            conn,
            &Packet::UnsubAck(SubAck::new(unsubscribe.packet_id, reasons)),
            after,
        );
    }

    fn remove_subscription(&mut self, slot: Slot, filter: &str, out: &mut dyn Sink) -> Result<Option<Position>, Full> {
        let session = self.sessions.get_mut(slot);
        let Ok(at) = session.subscription(filter) else {
            return Ok(None);
        };
        let gone = Record::SubscriptionGone {
            session: session.id,
            filter,
        };
        let after = bury(&gone, session.subscriptions[at].record, out)?;
        let subscription = self.sessions.change(slot, |session| session.subscriptions.remove(at));
        self.unlink(slot, &subscription);
        self.end_replay(slot, &subscription);
        Ok(Some(after))
    }
}

fn log_subscription(
    session: &Session,
    filter: &str,
    options: SubscriptionOptions,
    (id, group): (u32, Option<GroupId>),
    old: Position,
    out: &mut dyn Sink,
) -> Result<Position, Full> {
    if !session.is_persistent() {
        return Ok(old);
    }
    let subscription_id = Some(id).filter(|id| *id != 0);
    replace(
        &Record::Subscription {
            session: session.id,
            filter,
            options,
            subscription_id,
            group: group.map(|group| group.0),
        },
        old,
        out,
    )
}

/// Puts a subscription where that of its filter was found, or would be. What is owed to the old one is owed to the new.
fn put(subscriptions: &mut Vec<Subscription>, found: Result<usize, usize>, subscription: Subscription) {
    match found {
        Ok(at) => {
            let owes_retained = subscriptions[at].owes_retained;
            subscriptions[at] = Subscription {
                owes_retained,
                ..subscription
            };
        }
        Err(at) => {
            reserve(subscriptions);
            subscriptions.insert(at, subscription);
        }
    }
}

/// Most sessions have one subscription: the first takes the room of one.
pub(crate) fn reserve<T>(list: &mut Vec<T>) {
    if list.is_empty() {
        list.reserve_exact(1);
    }
}

fn granted(qos: QoS) -> ReasonCode {
    match qos {
        QoS::AtMostOnce => ReasonCode::Success,
        QoS::AtLeastOnce => ReasonCode::GrantedQoS1,
        QoS::ExactlyOnce => ReasonCode::GrantedQoS2,
    }
}
