//! Twins over MQTT: reported state from the device, desired state to it, both asked for and answered.

use broker::{ConnId, Position};
use device::topic::{Channel, DeviceTopic};
use device::{Limits, SetOutcome, Side, Twin};
use mqtt::{Publish, QoS, ReasonCode};
use store::Kind;

use crate::pipeline::{self, Outcome};
use crate::shard::journal::Entry;
use crate::shard::tenant::{StoredTwin, Tenant};
use crate::shard::turn::Turn;

/// Twins of a tenant that may exist, unless its quota of devices is tighter; a change to one more is refused with Quota
/// exceeded.
const TWINS_MAX: u64 = 100_000;

/// A merge patch of the reported state.
pub(crate) fn report(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    device: &str,
    publish: &Publish<'_>,
) -> Outcome {
    let change = |twin: &mut Twin| twin.report(publish.payload, Side::Edge, &Limits::default());
    match update(tenant, turn, device, change) {
        Err(reason) => Outcome::now(reason),
        Ok((Err(_), _)) => {
            turn.counters.refused_twins += 1;
            Outcome::now(ReasonCode::PayloadFormatInvalid)
        }
        Ok((Ok(_), after)) => {
            let forwarded = pipeline::forward(tenant, turn, from, publish);
            Outcome {
                reason: forwarded.reason,
                after: forwarded.after.max(after),
            }
        }
    }
}

/// A question for both states, answered on `twin/get/result`.
pub(crate) fn get(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, publish: &Publish<'_>) -> Outcome {
    let payload = read(tenant, device);
    answer(tenant, turn, device, Channel::TwinGetResult, &payload, publish);
    Outcome::now(ReasonCode::Success)
}

/// Both states of a device, whole, with their versions.
pub(crate) fn read(tenant: &Tenant, device: &str) -> Vec<u8> {
    match tenant.twins.get(device) {
        Some(stored) => stored.twin.get_payload(),
        None => Twin::default().get_payload(),
    }
}

/// A merge patch of the desired state, answered on `twin/desired/set/result`.
pub(crate) fn set_desired(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, publish: &Publish<'_>) -> Outcome {
    match patch_desired(tenant, turn, device, publish.payload) {
        Err(reason) => Outcome::now(reason),
        Ok((result, after)) => {
            answer(tenant, turn, device, Channel::TwinDesiredSetResult, &result, publish);
            Outcome {
                reason: ReasonCode::Success,
                after,
            }
        }
    }
}

/// Changes the desired state and tells the device. The answer says: accepted with its version, conflict with the
/// present state, or what is wrong with the patch; it holds once the position is durable.
pub(crate) fn patch_desired(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    patch: &[u8],
) -> Result<(Vec<u8>, Position), ReasonCode> {
    let change = |twin: &mut Twin| {
        let outcome = twin.set_desired(patch, Side::Edge, &Limits::default());
        (twin.set_payload(&outcome), twin.desired_payload(), outcome)
    };
    let ((result, desired, outcome), after) = update(tenant, turn, device, change)?;
    match outcome {
        SetOutcome::Accepted { changed: true, .. } => announce_desired(tenant, turn, device, &desired),
        SetOutcome::Refused(_) => turn.counters.refused_twins += 1,
        SetOutcome::Accepted { .. } | SetOutcome::Conflict { .. } => {}
    }
    Ok((result, after))
}

/// Tells the device, now and whenever it subscribes, what is desired of it.
pub(crate) fn announce_desired(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, desired: &[u8]) {
    let topic = DeviceTopic {
        device,
        channel: Channel::TwinDesired,
    }
    .to_string();
    pipeline::announce(tenant, turn, &topic, desired, QoS::AtLeastOnce, true);
}

/// Forgets the twin of a device that was removed: one of the same id that is added later begins anew.
pub(crate) fn forget(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str) {
    let Some(stored) = tenant.twins.remove(device) else {
        return;
    };
    if stored.position > Position::default() {
        match turn
            .journal
            .append(turn.tenant, Kind::Tombstone, Entry::TwinGone(device), &[])
        {
            Ok(_) => turn.journal.release(stored.position),
            Err(_) => tracing::error!(%device, "the log is full: the twin of a removed device comes back at a restart"),
        }
    }
    // Without payload: what was retained is no more (MQTT-3.3.1-6).
    announce_desired(tenant, turn, device, b"");
}

/// Changes a twin and has the log keep it; what `change` returned and the position that makes it safe.
fn update<R>(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    change: impl FnOnce(&mut Twin) -> R,
) -> Result<(R, Position), ReasonCode> {
    let updated = try_update(tenant, turn, device, change);
    turn.counters.refused_twins += u64::from(updated.is_err());
    updated
}

fn try_update<R>(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    change: impl FnOnce(&mut Twin) -> R,
) -> Result<(R, Position), ReasonCode> {
    if device::topic::validate_id(device).is_err() {
        return Err(ReasonCode::TopicNameInvalid);
    }
    let stored = tenant.twins.get(device);
    let twins_max = tenant.quotas.devices.unwrap_or(TWINS_MAX).min(TWINS_MAX);
    if stored.is_none() && tenant.twins.len() as u64 >= twins_max {
        return Err(ReasonCode::QuotaExceeded);
    }
    let (before, position) = stored.map_or((Twin::default(), Position::default()), |stored| {
        (stored.twin.clone(), stored.position)
    });
    let mut twin = before.clone();
    let result = change(&mut twin);
    if twin == before {
        return Ok((result, position));
    }
    let body = twin.encode();
    let position = turn
        .journal
        .append(turn.tenant, Kind::Value, Entry::Twin(device), &body)
        .map_err(|_| ReasonCode::QuotaExceeded)?;
    let old = tenant.twins.insert(device.into(), StoredTwin { twin, position });
    if let Some(old) = old.filter(|old| old.position > Position::default()) {
        turn.journal.release(old.position);
    }
    Ok((result, position))
}

/// Answers a request on its result topic, and where a client of MQTT 5 asked for the answer.
fn answer(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    channel: Channel<'_>,
    payload: &[u8],
    request: &Publish<'_>,
) {
    let topic = DeviceTopic { device, channel }.to_string();
    let mut publish = pipeline::plain(&topic, payload, request.qos, false);
    publish.properties.correlation_data = request.properties.correlation_data;
    pipeline::forward(tenant, turn, None, &publish);
}
