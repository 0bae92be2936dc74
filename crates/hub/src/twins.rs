//! Twins over MQTT: reported state from the device, desired state to it, both asked for and answered.

use broker::{ConnId, Position};
use device::topic::{Channel, DeviceTopic};
use device::{Limits, SetOutcome, Side, Twin};
use mqtt::{Publish, QoS, ReasonCode};
use serde_json::json;
use store::Kind;

use crate::announcements::{self, Announcement};
use crate::pipeline::{self, Outcome};
use crate::reply::ReplyTo;
use crate::shard::journal::Entry;
use crate::shard::tenant::{StoredTwin, Tenant};
use crate::shard::turn::Turn;

/// Twins of a tenant that may exist, unless its quota of devices is tighter; a change to one more is refused with Quota
/// exceeded.
const TWINS_MAX: u64 = 100_000;

/// Why a twin was not changed, whatever the patch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// No device can have this id.
    Name,
    /// No such device is registered: what nobody removes is not made.
    Unknown,
    /// The tenant has as many twins as it may.
    Twins {
        /// How many.
        limit: u64,
    },
    /// What the tenant stores would be more than its quota.
    Bytes,
    /// The log has no room, is behind, or has stopped.
    Log,
}

impl Refusal {
    fn status(self) -> u16 {
        match self {
            Refusal::Name => 400,
            Refusal::Unknown => 404,
            Refusal::Twins { .. } | Refusal::Bytes => 429,
            Refusal::Log => 507,
        }
    }

    fn reason(self) -> ReasonCode {
        match self {
            Refusal::Name | Refusal::Unknown => ReasonCode::TopicNameInvalid,
            Refusal::Twins { .. } | Refusal::Bytes | Refusal::Log => ReasonCode::QuotaExceeded,
        }
    }

    fn message(self, device: &str) -> String {
        match self {
            Refusal::Name => format!("no device can have the id \"{device}\""),
            Refusal::Unknown => format!("no device \"{device}\" is registered"),
            Refusal::Twins { limit } => format!("the tenant has {limit} twins, which is its limit"),
            Refusal::Bytes => "the twins and messages of the tenant take as many bytes as it may store".to_owned(),
            Refusal::Log => "the log takes no change now: it is full, behind, or has stopped".to_owned(),
        }
    }

    /// The payload of `devices/{id}/twin/desired/set/result`.
    pub(crate) fn payload(self, device: &str) -> Vec<u8> {
        let answer = json!({"status": self.status(), "message": self.message(device)});
        answer.to_string().into_bytes()
    }
}

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
        Err(refusal) => Outcome::now(refusal.reason()),
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
pub(crate) fn get(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    device: &str,
    publish: &Publish<'_>,
) -> Outcome {
    let Ok(reply_to) = ReplyTo::of(publish, from, turn) else {
        return Outcome::now(ReasonCode::NotAuthorized);
    };
    if !tenant.announcements.has_room() {
        return Outcome::now(ReasonCode::QuotaExceeded);
    }
    let (payload, after) = read(tenant, device);
    let request = Request {
        device,
        channel: Channel::TwinGetResult,
        publish,
        reply_to,
    };
    request.answer(tenant, turn, after, &payload);
    Outcome::now(ReasonCode::Success)
}

/// Both states of a device, whole, with their versions; they hold once the position is durable.
pub(crate) fn read(tenant: &Tenant, device: &str) -> (Vec<u8>, Position) {
    match tenant.twins.get(device) {
        Some(stored) => (stored.twin.get_payload(), stored.position),
        None => (Twin::default().get_payload(), Position::default()),
    }
}

/// A merge patch of the desired state, answered on `twin/desired/set/result`.
pub(crate) fn set_desired(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    device: &str,
    publish: &Publish<'_>,
) -> Outcome {
    let Ok(reply_to) = ReplyTo::of(publish, from, turn) else {
        return Outcome::now(ReasonCode::NotAuthorized);
    };
    let request = Request {
        device,
        channel: Channel::TwinDesiredSetResult,
        publish,
        reply_to,
    };
    match patch_desired(tenant, turn, device, publish.payload) {
        Err(refusal) => {
            request.answer(tenant, turn, Position::default(), &refusal.payload(device));
            Outcome::now(refusal.reason())
        }
        Ok((result, after)) => {
            request.answer(tenant, turn, after, &result);
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
) -> Result<(Vec<u8>, Position), Refusal> {
    let change = |twin: &mut Twin| {
        let outcome = twin.set_desired(patch, Side::Edge, &Limits::default());
        (twin.set_payload(&outcome), twin.desired_payload(), outcome)
    };
    let ((result, desired, outcome), after) = update(tenant, turn, device, change)?;
    match outcome {
        SetOutcome::Accepted { changed: true, .. } => announce_desired(tenant, turn, device, after, &desired),
        SetOutcome::Refused(_) => turn.counters.refused_twins += 1,
        SetOutcome::Accepted { .. } | SetOutcome::Conflict { .. } => {}
    }
    Ok((result, after))
}

/// Tells the device, once all up to `after` is durable and whenever it subscribes, what is desired of it.
pub(crate) fn announce_desired(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    after: Position,
    desired: &[u8],
) {
    let topic = DeviceTopic {
        device,
        channel: Channel::TwinDesired,
    }
    .to_string();
    let announcement = Announcement {
        topic: &topic,
        payload: desired,
        qos: QoS::AtLeastOnce,
        correlation_data: None,
        retain: true,
    };
    announcements::send_after(tenant, turn, after, &announcement);
}

/// Forgets the twin of a device that was removed: one of the same id that is added later begins anew.
pub(crate) fn forget(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str) {
    let Some(stored) = tenant.remove_twin(device) else {
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
    announce_desired(tenant, turn, device, Position::default(), b"");
}

/// Changes a twin and has the log keep it; what `change` returned and the position that makes it safe.
fn update<R>(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    change: impl FnOnce(&mut Twin) -> R,
) -> Result<(R, Position), Refusal> {
    let updated = try_update(tenant, turn, device, change);
    turn.counters.refused_twins += u64::from(updated.is_err());
    updated
}

fn try_update<R>(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    change: impl FnOnce(&mut Twin) -> R,
) -> Result<(R, Position), Refusal> {
    let (before, position) = match tenant.twins.get(device) {
        Some(stored) => (stored.twin.clone(), stored.position),
        None => (make(tenant, turn, device)?, Position::default()),
    };
    let mut twin = before.clone();
    let result = change(&mut twin);
    if twin == before {
        return Ok((result, position));
    }
    let is_new = position == Position::default();
    let old_bytes = if is_new { 0 } else { before.memory_bytes() };
    if !tenant.has_room_for_twin(old_bytes, twin.memory_bytes()) {
        return Err(Refusal::Bytes);
    }
    if !tenant.announcements.has_room() {
        return Err(Refusal::Log);
    }
    let body = twin.encode();
    let position = turn
        .journal
        .append(turn.tenant, Kind::Value, Entry::Twin(device), &body)
        .map_err(|_| Refusal::Log)?;
    let old = tenant.put_twin(device, StoredTwin { twin, position });
    if let Some(old) = old.filter(|old| old.position > Position::default()) {
        turn.journal.release(old.position);
    }
    Ok((result, position))
}

/// The twin of a device that has none yet.
fn make(tenant: &Tenant, turn: &Turn<'_>, device: &str) -> Result<Twin, Refusal> {
    if device::topic::validate_id(device).is_err() {
        return Err(Refusal::Name);
    }
    if !tenant.is_open && !turn.labels.has_device(&tenant.name, device) {
        return Err(Refusal::Unknown);
    }
    let limit = tenant.quotas.devices.unwrap_or(TWINS_MAX).min(TWINS_MAX);
    if tenant.twins.len() as u64 >= limit {
        return Err(Refusal::Twins { limit });
    }
    Ok(Twin::default())
}

/// A request, and where its answer goes.
struct Request<'a> {
    device: &'a str,
    channel: Channel<'a>,
    publish: &'a Publish<'a>,
    reply_to: Option<Box<ReplyTo>>,
}

impl Request<'_> {
    /// Answers once all up to `after` is durable.
    fn answer(&self, tenant: &mut Tenant, turn: &mut Turn<'_>, after: Position, payload: &[u8]) {
        let (device, channel) = (self.device, self.channel);
        let topic = DeviceTopic { device, channel }.to_string();
        let answer = Announcement {
            topic: &topic,
            payload,
            qos: self.publish.qos,
            correlation_data: self.publish.properties.correlation_data,
            retain: false,
        };
        announcements::send_after(tenant, turn, after, &answer);
        if let Some(reply_to) = &self.reply_to {
            announcements::send_after(tenant, turn, after, &reply_to.announcement(payload, self.publish.qos));
        }
    }
}
