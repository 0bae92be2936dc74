//! Method calls: to a device that is connected now, answered in time or by the hub. A call is never stored.

use broker::{ConnId, Keep, Message};
use device::topic::{Channel, DeviceTopic};
use device::{CallFailure, CallId, Finished};
use mqtt::{Publish, QoS, ReasonCode};
use tokio::sync::oneshot;

use crate::pipeline::{self, Outcome};
use crate::shard::tenant::{Caller, ReplyTo, Tenant, Waits};
use crate::shard::turn::Turn;

/// Time in milliseconds that a device has to answer a call, unless the call's Message Expiry Interval says otherwise.
pub(crate) const TIMEOUT_MS: u64 = 5_000;

/// A call: to the device if it is there, else answered 404 at once.
pub(crate) fn start(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    id: CallId<'_>,
    publish: &Publish<'_>,
) -> Outcome {
    note(tenant, turn, from, id);
    let timeout_ms = publish
        .properties
        .message_expiry_interval_s
        .map_or(TIMEOUT_MS, |s| u64::from(s) * 1_000);
    let until_ms = turn.now.monotonic_ms + timeout_ms;
    let caller = Caller {
        timeout_ms,
        waits: reply_to(publish),
    };
    if let Err(error) = tenant.calls.start(id, caller, until_ms) {
        turn.counters.refused_calls += 1;
        answer(tenant, turn, id, CallFailure::NotStarted(error), reply_to(publish));
        return Outcome::now(ReasonCode::QuotaExceeded);
    }
    deliver(tenant, turn, from, id, publish, until_ms);
    Outcome::now(ReasonCode::Success)
}

fn note(tenant: &Tenant, turn: &mut Turn<'_>, from: Option<ConnId>, id: CallId<'_>) {
    let caller = from.and_then(|from| turn.connections.get(from));
    let caller = match caller.map(|caller| &*caller.peer.principal.id) {
        None => "(will)",
        Some("") => "(anonymous)",
        Some(id) => id,
    };
    turn.call_log
        .note(turn.now.monotonic_ms, &tenant.name, caller, id.device, id.name);
}

/// A call from inside the program, whose result goes to `answer`.
pub(crate) fn start_local(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    id: CallId<'_>,
    payload: &[u8],
    timeout_ms: u64,
    answer_to: oneshot::Sender<Vec<u8>>,
) {
    begin(
        tenant,
        turn,
        id,
        payload,
        Caller {
            timeout_ms,
            waits: Waits::Inside(answer_to),
        },
    );
}

/// A call that a route makes: its result goes to the subscribers of its topic.
pub(crate) fn start_unattended(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, name: &str, payload: &[u8]) {
    tenant.route_calls += 1;
    turn.call_log
        .note(turn.now.monotonic_ms, &tenant.name, "(route)", device, name);
    let call = format!("route-{}", tenant.route_calls);
    let id = CallId {
        device,
        name,
        call: &call,
    };
    begin(
        tenant,
        turn,
        id,
        payload,
        Caller {
            timeout_ms: TIMEOUT_MS,
            waits: Waits::OnResultTopic,
        },
    );
}

fn begin(tenant: &mut Tenant, turn: &mut Turn<'_>, id: CallId<'_>, payload: &[u8], caller: Caller) {
    let until_ms = turn.now.monotonic_ms + caller.timeout_ms;
    if let Err(error) = tenant.calls.start(id, caller, until_ms) {
        turn.counters.refused_calls += 1;
        // The caller learns from the closed channel, which is all that is left of it.
        return tracing::warn!(?error, device = id.device, "a call could not start");
    }
    let topic = DeviceTopic {
        device: id.device,
        channel: Channel::MethodCall {
            name: id.name,
            call: id.call,
        },
    }
    .to_string();
    let publish = pipeline::plain(&topic, payload, QoS::AtLeastOnce, false);
    deliver(tenant, turn, None, id, &publish, until_ms);
}

/// Sends a call that has started to its device, or answers it 404.
fn deliver(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    id: CallId<'_>,
    publish: &Publish<'_>,
    until_ms: u64,
) {
    let mut call = publish.clone();
    call.retain = false;
    call.properties.response_topic = None;
    call.properties.message_expiry_interval_s = None;
    let message = Message {
        publish: &call,
        from,
        addressee: Some(id.device),
        keep: Keep::Never { until_ms },
    };
    let published = tenant.broker.publish(turn.now, &message, turn);
    let is_reached = published.addressee_reached || (tenant.is_open && published.sessions > 0);
    if !is_reached && let Finished::Answered(caller) = tenant.calls.finish(id) {
        turn.counters.calls_away += 1;
        answer(tenant, turn, id, CallFailure::Away, caller.waits);
    }
}

/// A result from the device: to its caller, once; late ones are dropped and counted.
pub(crate) fn finish(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    id: CallId<'_>,
    publish: &Publish<'_>,
) -> Outcome {
    let Finished::Answered(caller) = tenant.calls.finish(id) else {
        turn.counters.late_results += 1;
        return Outcome::now(ReasonCode::Success);
    };
    let outcome = pipeline::forward(tenant, turn, from, publish);
    reply(tenant, turn, caller.waits, publish.payload, publish.qos);
    outcome
}

/// Ends the calls whose time is over.
pub(crate) fn expire(tenant: &mut Tenant, turn: &mut Turn<'_>) {
    while let Some(timeout) = tenant.calls.next_timeout(turn.now.monotonic_ms) {
        turn.counters.calls_timed_out += 1;
        let CallId { device, name, call } = timeout.id;
        let (device, name, call) = (device.to_owned(), name.to_owned(), call.to_owned());
        let Caller { timeout_ms, waits } = timeout.caller;
        let id = CallId {
            device: &device,
            name: &name,
            call: &call,
        };
        answer(tenant, turn, id, CallFailure::TimedOut { timeout_ms }, waits);
    }
}

/// The hub's own answer in place of the device's.
fn answer(tenant: &mut Tenant, turn: &mut Turn<'_>, id: CallId<'_>, failure: CallFailure, waits: Waits) {
    let CallId { device, name, call } = id;
    let topic = DeviceTopic {
        device,
        channel: Channel::MethodResult { name, call },
    }
    .to_string();
    let payload = failure.payload(id);
    pipeline::announce(tenant, turn, &topic, &payload, QoS::AtLeastOnce, false);
    reply(tenant, turn, waits, &payload, QoS::AtLeastOnce);
}

/// An answer to who waits for it beside the subscribers of the result topic.
fn reply(tenant: &mut Tenant, turn: &mut Turn<'_>, waits: Waits, payload: &[u8], qos: QoS) {
    match waits {
        Waits::OnResultTopic => {}
        // Whoever asked may have given up.
        Waits::Inside(answer) => drop(answer.send(payload.to_vec())),
        Waits::OnTopic(to) => {
            let mut publish = pipeline::plain(&to.topic, payload, qos, false);
            publish.properties.correlation_data = to.correlation_data.as_deref();
            pipeline::forward(tenant, turn, None, &publish);
        }
    }
}

/// Where an application of MQTT 5 wants its answer.
fn reply_to(publish: &Publish<'_>) -> Waits {
    let Some(topic) = publish.properties.response_topic else {
        return Waits::OnResultTopic;
    };
    let correlation_data = publish.properties.correlation_data.map(Into::into);
    Waits::OnTopic(Box::new(ReplyTo {
        topic: topic.into(),
        correlation_data,
    }))
}
