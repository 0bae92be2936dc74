//! Calls of devices behind edges: passed on over a link, whose other end or whose silence answers them.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use device::topic::{Channel, DeviceTopic};
use device::{CallFailure, CallId};
use mqtt::QoS;
use serde_json::json;

use crate::arrivals;
use crate::calls;
use crate::pipeline;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// A call of a device behind an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeCall {
    /// The edge.
    pub edge: Arc<str>,
    /// Tenant of the device.
    pub tenant: Arc<str>,
    /// The device.
    pub device: String,
    /// The method.
    pub name: String,
    /// The caller's id of the call.
    pub call: String,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Time in milliseconds that is left for the answer.
    pub timeout_ms: u64,
}

/// Why an edge is not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAsked {
    /// As in HTTP: 404, it is away; 429, there is no room.
    pub status: u16,
    /// What happened, for a person.
    pub message: String,
}

/// Reaches edges.
pub trait EdgeCalls: Debug + Send + Sync {
    /// Passes a call on to the edge that it names, at once: a shard waits for it.
    /// [`Hub::finish_call`](crate::Hub::finish_call) has the result later.
    ///
    /// # Errors
    /// The edge cannot be asked now.
    fn pass_on(&self, call: EdgeCall) -> Result<(), NotAsked>;

    /// What is known of an edge that was asked as long ago and has not answered, in words.
    fn state_of(&self, edge: &str, asked_ago: Duration) -> String;
}

/// The result of a call that no device gave: `{"status": …, "payload": {"message": …}}`, a status as in HTTP and words
/// for a person.
pub fn call_failure(status: u16, message: &str) -> Vec<u8> {
    json!({"status": status, "payload": {"message": message}})
        .to_string()
        .into_bytes()
}

/// The edge that a device is behind, where there are edges, and who reaches it.
pub(crate) fn edge_of<'a>(
    tenant: &Tenant,
    turn: &'a Turn<'_>,
    device: &str,
) -> Option<(&'a Arc<dyn EdgeCalls>, Arc<str>)> {
    Some((turn.edge_calls?, arrivals::edge_of(tenant, turn, device)?))
}

/// Hands a call to the edge that its device is behind; false if there is none.
pub(crate) fn hand_over(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    id: CallId<'_>,
    payload: &[u8],
    until_ms: u64,
) -> bool {
    let Some((calls, edge)) = edge_of(tenant, turn, id.device) else {
        return false;
    };
    let call = EdgeCall {
        edge,
        tenant: Arc::clone(&tenant.name),
        device: id.device.to_owned(),
        name: id.name.to_owned(),
        call: id.call.to_owned(),
        payload: payload.to_vec(),
        timeout_ms: until_ms - turn.now.monotonic_ms,
    };
    let calls = Arc::clone(calls);
    if let Err(NotAsked { status, message }) = calls.pass_on(call) {
        match status {
            404 => turn.counters.calls_away += 1,
            _ => turn.counters.refused_calls += 1,
        }
        answered(tenant, turn, id, &call_failure(status, &message));
    }
    true
}

/// What is answered to a call that its device had `timeout_ms` for; if that is behind an edge, with what is known of
/// this.
pub(crate) fn timed_out(tenant: &Tenant, turn: &Turn<'_>, id: CallId<'_>, timeout_ms: u64) -> Vec<u8> {
    let failure = CallFailure::TimedOut { timeout_ms };
    match edge_of(tenant, turn, id.device).filter(|_| !calls::is_connected(tenant, id.device)) {
        Some((calls, edge)) => {
            let state = calls.state_of(&edge, Duration::from_millis(timeout_ms));
            call_failure(failure.status(), &format!("{}: {state}", failure.message(id)))
        }
        None => failure.payload(id),
    }
}

/// The result of a call of a device behind an edge: the device's own, or that of the edge in its place.
pub(crate) fn finish(tenant: &mut Tenant, turn: &mut Turn<'_>, edge: &str, id: CallId<'_>, result: &[u8]) {
    // The edge's hub does not know by which name it is known here.
    if *result == CallFailure::Away.payload(id) {
        turn.counters.calls_away += 1;
        let message = format!("{} is not connected to its edge {edge}, which is connected", id.device);
        return answered(tenant, turn, id, &call_failure(CallFailure::Away.status(), &message));
    }
    answered(tenant, turn, id, result);
}

fn answered(tenant: &mut Tenant, turn: &mut Turn<'_>, id: CallId<'_>, result: &[u8]) {
    let CallId { device, name, call } = id;
    let topic = DeviceTopic {
        device,
        channel: Channel::MethodResult { name, call },
    }
    .to_string();
    let publish = pipeline::plain(&topic, result, QoS::AtLeastOnce, false);
    calls::finish(tenant, turn, None, id, &publish);
}
