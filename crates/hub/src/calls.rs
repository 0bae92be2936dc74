//! Method calls: to a device that is connected now, answered in time or by the hub. A call is never stored.

use std::sync::Arc;

use broker::{ConnId, Keep, Message};
use device::topic::{Channel, DeviceTopic, validate_id};
use device::{CallFailure, CallId, Finished, LONGEST_TIMEOUT_MS, MAX_CORRELATION_BYTES, NotStarted, StartError};
use mqtt::{Publish, QoS, ReasonCode, Version};
use tokio::sync::oneshot;

use crate::edge_calls;
use crate::pipeline::{self, Outcome};
use crate::reply::ReplyTo;
use crate::shard::tenant::{Caller, Tenant, Waits};
use crate::shard::turn::Turn;

/// Time in milliseconds that a device has to answer a call, unless the call says otherwise: over MQTT by its Message
/// Expiry Interval.
pub const TIMEOUT_MS: u64 = 5_000;

/// Owner of the sessions of clients without credentials.
const ANONYMOUS: &str = "";

/// A call: to the device if it is there, else answered at once, 404 or why it is refused. One that is to be answered
/// where its caller may not publish is refused as such a PUBLISH would be.
pub(crate) fn start(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    id: CallId<'_>,
    publish: &Publish<'_>,
) -> Outcome {
    let Ok(reply_to) = ReplyTo::of(publish, from, turn) else {
        return Outcome::now(ReasonCode::NotAuthorized);
    };
    let waits = reply_to.map_or(Waits::OnResultTopic, Waits::OnTopic);
    let timeout_ms = match timeout_of(id, publish) {
        Ok(timeout_ms) => timeout_ms,
        Err(failure) => return refuse(tenant, turn, from, id, failure, waits),
    };
    note(tenant, turn, from, id);
    let until_ms = turn.now.monotonic_ms + timeout_ms;
    let caller = Caller { timeout_ms, waits };
    let kept_bytes = caller.kept_bytes();
    if let Err(NotStarted { why, caller }) = tenant.calls.start(id, caller, kept_bytes, until_ms) {
        return refuse(tenant, turn, from, id, CallFailure::NotStarted(why), caller.waits);
    }
    deliver(tenant, turn, from, id, publish, until_ms);
    Outcome::now(ReasonCode::Success)
}

/// How long the device has for its answer, if the call is one that can be made.
fn timeout_of(id: CallId<'_>, publish: &Publish<'_>) -> Result<u64, CallFailure> {
    for (of, id) in [("device", id.device), ("method", id.name), ("call", id.call)] {
        validate_id(id).map_err(|error| CallFailure::Id { of, error })?;
    }
    let properties = &publish.properties;
    let bytes = properties.correlation_data.map_or(0, <[u8]>::len);
    if bytes > MAX_CORRELATION_BYTES {
        return Err(CallFailure::CorrelationTooLong { bytes });
    }
    let expiry_s = properties.message_expiry_interval_s;
    let timeout_ms = expiry_s.map_or(TIMEOUT_MS, |s| u64::from(s) * 1_000);
    match timeout_ms > LONGEST_TIMEOUT_MS {
        true => Err(CallFailure::TimeoutTooLong { timeout_ms }),
        false => Ok(timeout_ms),
    }
}

/// Answers a call that is not made; what its PUBLISH is acknowledged with. Only what there may be room for later is
/// a matter of quota: a client of version 3 would be closed for it, so that it comes back, but this one has its answer.
fn refuse(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    id: CallId<'_>,
    failure: CallFailure,
    waits: Waits,
) -> Outcome {
    turn.counters.refused_calls += 1;
    answer(tenant, turn, id, &failure.payload(id), waits);
    let caller = from.and_then(|from| turn.connections.get(from));
    let hears_reasons = caller.is_some_and(|caller| caller.version == Version::V5);
    Outcome::now(match failure {
        CallFailure::Id { .. } => ReasonCode::TopicNameInvalid,
        CallFailure::NotStarted(StartError::Full { .. } | StartError::TooLarge { .. }) if hears_reasons => {
            ReasonCode::QuotaExceeded
        }
        _ => ReasonCode::ImplementationSpecificError,
    })
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
    if let Err(NotStarted { why, caller }) = tenant.calls.start(id, caller, 0, until_ms) {
        refuse(tenant, turn, None, id, CallFailure::NotStarted(why), caller.waits);
        return;
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

/// Sends a call that has started to its device, with where the result belongs, or answers it 404. Where devices need no
/// credentials, an anonymous session may be any device.
fn deliver(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    id: CallId<'_>,
    publish: &Publish<'_>,
    until_ms: u64,
) {
    let mut result_topic = std::mem::take(&mut tenant.result_topic);
    result_topic.clear();
    result_topic.push_str(publish.topic);
    result_topic.push_str("/result");
    let mut call = publish.clone();
    call.retain = false;
    call.properties.response_topic = Some(&result_topic);
    call.properties.message_expiry_interval_s = None;
    let owners = [id.device, ANONYMOUS];
    let message = Message {
        publish: &call,
        from,
        addressees: if tenant.is_open { &owners } else { &owners[..1] },
        keep: Keep::Never { until_ms },
    };
    let published = tenant.broker.publish(turn.now, &message, turn);
    tenant.result_topic = result_topic;
    if !published.addressee_reached && edge_calls::hand_over(tenant, turn, id, publish.payload, until_ms) {
        return;
    }
    if !published.addressee_reached
        && let Finished::Answered(caller) = tenant.calls.finish(id)
    {
        turn.counters.calls_away += 1;
        let failure = why_unreached(tenant, id.device);
        answer(tenant, turn, id, &failure.payload(id), caller.waits);
    }
}

/// Where a device is reached at some moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A connection of it is here.
    Here,
    /// It is behind this edge, which knows whether it is there.
    Edge(Arc<str>),
    /// It is away.
    Nowhere,
}

/// Where a call of the device would go now.
pub(crate) fn locate(tenant: &Tenant, turn: &Turn<'_>, device: &str) -> Location {
    if is_connected(tenant, device) {
        return Location::Here;
    }
    edge_calls::edge_of(tenant, turn, device).map_or(Location::Nowhere, |(_, edge)| Location::Edge(edge))
}

/// Why nobody got a call of this device.
fn why_unreached(tenant: &Tenant, device: &str) -> CallFailure {
    match is_connected(tenant, device) {
        true => CallFailure::Deaf,
        false => CallFailure::Away,
    }
}

pub(crate) fn is_connected(tenant: &Tenant, device: &str) -> bool {
    let broker = &tenant.broker;
    broker.is_owner_connected(device) || tenant.is_open && broker.is_connected(ANONYMOUS, device)
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
        let payload = edge_calls::timed_out(tenant, turn, id, timeout_ms);
        answer(tenant, turn, id, &payload, waits);
    }
}

/// The hub's own answer in place of the device's.
fn answer(tenant: &mut Tenant, turn: &mut Turn<'_>, id: CallId<'_>, payload: &[u8], waits: Waits) {
    let CallId { device, name, call } = id;
    let topic = DeviceTopic {
        device,
        channel: Channel::MethodResult { name, call },
    }
    .to_string();
    // That of an id which is none may be longer than a topic can be.
    if topic.len() <= mqtt::topic::MAXIMUM_LEN {
        pipeline::announce(tenant, turn, &topic, payload, QoS::AtLeastOnce, false);
    }
    reply(tenant, turn, waits, payload, QoS::AtLeastOnce);
}

/// An answer to who waits for it beside the subscribers of the result topic.
fn reply(tenant: &mut Tenant, turn: &mut Turn<'_>, waits: Waits, payload: &[u8], qos: QoS) {
    match waits {
        Waits::OnResultTopic => {}
        // Whoever asked may have given up.
        Waits::Inside(answer) => drop(answer.send(payload.to_vec())),
        Waits::OnTopic(to) => to.send(tenant, turn, payload, qos),
    }
}
