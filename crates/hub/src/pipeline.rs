//! The way of a message, from a PUBLISH that arrived to the acknowledgement of its sender:
//! session → access → what its topic is for → routes → subscribers.

use broker::{ConnId, Keep, Message, Position, Received};
use device::CallId;
use device::topic::{Channel, DeviceTopic};
use mqtt::{Publish, QoS, ReasonCode};

use crate::acl;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;
use crate::{calls, overheard, stand_in, twins};

/// What the sender of a message is told, and what must be durable before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) reason: ReasonCode,
    pub(crate) after: Position,
}

impl Outcome {
    /// An outcome that promises nothing.
    pub(crate) fn now(reason: ReasonCode) -> Self {
        Self {
            reason,
            after: Position::default(),
        }
    }

    /// The outcome of two that were promised together: a refusal outranks all, and somebody who has it nobody.
    pub(crate) fn and(self, other: Self) -> Self {
        let rank = |outcome: Self| match outcome.reason {
            ReasonCode::NoMatchingSubscribers => 0,
            reason if reason.is_error() => 2,
            _ => 1,
        };
        let reason = match rank(other) > rank(self) {
            true => other.reason,
            false => self.reason,
        };
        Self {
            reason,
            after: self.after.max(other.after),
        }
    }
}

/// Takes a PUBLISH of a client all the way.
pub(crate) fn publish(tenant: &mut Tenant, turn: &mut Turn<'_>, from: ConnId, publish: &Publish<'_>) {
    turn.counters.messages_received += 1;
    if let Received::New { alias } = tenant.broker.receive(turn.now, from, publish, turn) {
        let outcome = match &alias {
            None => accept(tenant, turn, from, publish),
            Some(topic) => accept(
                tenant,
                turn,
                from,
                &Publish {
                    topic,
                    ..publish.clone()
                },
            ),
        };
        if let Some(packet_id) = publish.packet_id {
            let Outcome { reason, after } = outcome;
            tenant
                .broker
                .acknowledge(turn.now, from, packet_id, publish.qos, reason, after, turn);
        }
    }
}

/// Checks that the sender may.
fn accept(tenant: &mut Tenant, turn: &mut Turn<'_>, from: ConnId, publish: &Publish<'_>) -> Outcome {
    let sender = turn.connections.get(from).map(|connection| &connection.peer.principal);
    let parsed = DeviceTopic::parse(publish.topic);
    if sender.is_some_and(|sender| acl::may_publish(sender, publish.topic, parsed.as_ref())) {
        return dispatch(tenant, turn, Some(from), parsed, publish);
    }
    turn.counters.refused_publishes += 1;
    Outcome::now(ReasonCode::NotAuthorized)
}

/// Hands the message to what its topic, taken apart in `parsed`, is for.
fn dispatch(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    parsed: Option<DeviceTopic<'_>>,
    publish: &Publish<'_>,
) -> Outcome {
    let Some(topic) = parsed else {
        return forward(tenant, turn, from, publish);
    };
    match topic.channel {
        Channel::Telemetry => telemetry(tenant, turn, from, &topic, publish),
        Channel::Other => forward(tenant, turn, from, publish),
        Channel::TwinReported => twins::report(tenant, turn, from, topic.device, publish),
        Channel::TwinGet => twins::get(tenant, turn, from, topic.device, publish),
        Channel::TwinDesiredSet => twins::set_desired(tenant, turn, from, topic.device, publish),
        Channel::MethodCall { name, call } => calls::start(
            tenant,
            turn,
            from,
            CallId {
                device: topic.device,
                name,
                call,
            },
            publish,
        ),
        Channel::MethodResult { name, call } => calls::finish(
            tenant,
            turn,
            from,
            CallId {
                device: topic.device,
                name,
                call,
            },
            publish,
        ),
        Channel::TwinDesired | Channel::TwinGetResult | Channel::TwinDesiredSetResult => {
            Outcome::now(ReasonCode::NotAuthorized)
        }
    }
}

/// Delivers readings, and shows what was accepted to who looks on.
pub(crate) fn telemetry(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    topic: &DeviceTopic<'_>,
    publish: &Publish<'_>,
) -> Outcome {
    let outcome = forward(tenant, turn, from, publish);
    if !outcome.reason.is_error() {
        overheard::copy(tenant, turn, topic, publish);
    }
    outcome
}

/// Delivers a message to its subscribers and to where the routes send a copy.
pub(crate) fn forward(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    publish: &Publish<'_>,
) -> Outcome {
    if tenant.routing.is_idle() {
        return deliver(tenant, turn, from, publish);
    }
    // The routes are the tenant's own: nobody routes while they are taken out.
    let mut routing = std::mem::take(&mut tenant.routing);
    let outcome = routing.deliver(tenant, turn, from, publish);
    tenant.routing = routing;
    outcome
}

/// Delivers a message to its subscribers.
pub(crate) fn deliver(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    publish: &Publish<'_>,
) -> Outcome {
    stand_in::hear(tenant, turn, publish.topic);
    let message = Message {
        publish,
        from,
        addressees: &[],
        keep: Keep::Always,
    };
    let published = tenant.broker.publish(turn.now, &message, turn);
    Outcome {
        reason: published.reason(),
        after: published.after,
    }
}

/// Sends something of the hub's own to whoever subscribed.
pub(crate) fn announce(tenant: &mut Tenant, turn: &mut Turn<'_>, topic: &str, payload: &[u8], qos: QoS, retain: bool) {
    stand_in::hear(tenant, turn, topic);
    let publish = plain(topic, payload, qos, retain);
    let message = Message {
        publish: &publish,
        from: None,
        addressees: &[],
        keep: Keep::Memory,
    };
    tenant.broker.publish(turn.now, &message, turn);
}

/// A PUBLISH without properties.
pub(crate) fn plain<'a>(topic: &'a str, payload: &'a [u8], qos: QoS, retain: bool) -> Publish<'a> {
    Publish {
        dup: false,
        qos,
        retain,
        topic,
        packet_id: None,
        properties: mqtt::PublishProperties::default(),
        payload,
    }
}

/// Sends the wills that came due, each the way of any message; that their clients may was checked when they connected.
pub(crate) fn send_wills(tenant: &mut Tenant, turn: &mut Turn<'_>) {
    for will in std::mem::take(turn.wills) {
        let publish = will.publish();
        dispatch(tenant, turn, None, DeviceTopic::parse(publish.topic), &publish);
    }
}
