//! Twins over MQTT: reported state from the device, desired state to it, both asked for and answered.

use broker::{ConnId, Position};
use device::topic::{Channel, DeviceTopic};
use device::{Limits, SetOutcome, Twin};
use mqtt::{Publish, QoS, ReasonCode};
use store::Kind;

use crate::announcements::{self, Announcement};
use crate::lost_edits;
use crate::pipeline::{self, Outcome};
use crate::reply::ReplyTo;
use crate::shard::journal::Entry;
use crate::shard::tenant::{StoredTwin, Tenant};
use crate::shard::turn::Turn;
use crate::twin_changes::{Refusal, update};
use crate::twin_sync;

/// A merge patch of the reported state.
pub(crate) fn report(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    device: &str,
    publish: &Publish<'_>,
) -> Outcome {
    let author = turn.author;
    let change = |stored: &mut StoredTwin| match stored.twin.report(publish.payload, author, &Limits::default()) {
        Ok(undo) => (
            true,
            undo.map(|undo| |stored: &mut StoredTwin| stored.twin.reported.undo(undo)),
        ),
        Err(_) => (false, None),
    };
    match update(tenant, turn, device, change) {
        Err(refusal) => Outcome::now(refusal.reason()),
        Ok((false, _)) => {
            turn.counters.refused_twins += 1;
            Outcome::now(ReasonCode::PayloadFormatInvalid)
        }
        Ok((true, after)) => {
            twin_sync::changed(tenant, turn, device);
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
    let request = match Request::new(tenant, turn, from, device, Channel::TwinGetResult, publish) {
        Ok(request) => request,
        Err(refused) => return Outcome::now(refused),
    };
    let (payload, after) = read(tenant, device);
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

/// Edits of a device's desired state that were given up, as a JSON array, oldest first; they hold once the position is
/// durable.
pub(crate) fn lost_edits(tenant: &Tenant, device: &str) -> (Vec<u8>, Position) {
    let stored = tenant.twins.get(device);
    let edits: Vec<_> = stored.iter().flat_map(|stored| stored.lost_edits.iter()).collect();
    let position = stored.map_or_else(Position::default, |stored| stored.position);
    (lost_edits::json(&edits), position)
}

/// A merge patch of the desired state, answered on `twin/desired/set/result`.
pub(crate) fn set_desired(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    from: Option<ConnId>,
    device: &str,
    publish: &Publish<'_>,
) -> Outcome {
    let request = match Request::new(tenant, turn, from, device, Channel::TwinDesiredSetResult, publish) {
        Ok(request) => request,
        Err(refused) => {
            turn.counters.refused_twins += u64::from(refused == ReasonCode::QuotaExceeded);
            return Outcome::now(refused);
        }
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
    if !tenant.announcements.has_room() {
        turn.counters.refused_twins += 1;
        return Err(Refusal::Log);
    }
    let author = turn.author;
    let change = |stored: &mut StoredTwin| {
        let twin = &mut stored.twin;
        let (outcome, undo) = twin.set_desired(patch, author, &Limits::default());
        let result = twin.set_payload(&outcome);
        let desired = undo.is_some().then(|| twin.desired_payload());
        let undo = undo.map(|undo| |stored: &mut StoredTwin| stored.twin.desired.undo(undo));
        ((outcome, result, desired), undo)
    };
    let ((outcome, result, desired), after) = update(tenant, turn, device, change)?;
    if let Some(desired) = desired {
        twin_sync::changed(tenant, turn, device);
        announce_desired(tenant, turn, device, after, &desired);
    }
    turn.counters.refused_twins += u64::from(matches!(outcome, SetOutcome::Refused(_)));
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
pub(crate) fn forget(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str) -> Position {
    let Some(stored) = tenant.remove_twin(device) else {
        return Position::default();
    };
    let mut after = Position::default();
    if stored.position > Position::default() {
        match turn
            .journal
            .append(turn.tenant, Kind::Tombstone, Entry::TwinGone(device), &[])
        {
            Ok(gone) => {
                turn.journal.release(stored.position);
                after = gone;
            }
            Err(_) => tracing::error!(%device, "the log is full: the twin of a removed device comes back at a restart"),
        }
    }
    // Without payload: what was retained is no more (MQTT-3.3.1-6).
    announce_desired(tenant, turn, device, Position::default(), b"");
    after
}

/// A request, and where its answer goes.
struct Request<'a> {
    device: &'a str,
    channel: Channel<'a>,
    publish: &'a Publish<'a>,
    reply_to: Option<Box<ReplyTo>>,
}

impl<'a> Request<'a> {
    /// A request that may be answered where its sender asks for it, while there is room for the answer to wait for the
    /// log.
    ///
    /// # Errors
    /// What its sender is told instead.
    fn new(
        tenant: &Tenant,
        turn: &mut Turn<'_>,
        from: Option<ConnId>,
        device: &'a str,
        channel: Channel<'a>,
        publish: &'a Publish<'a>,
    ) -> Result<Self, ReasonCode> {
        let reply_to = ReplyTo::of(publish, from, turn).map_err(|_| ReasonCode::NotAuthorized)?;
        if !tenant.announcements.has_room() {
            return Err(ReasonCode::QuotaExceeded);
        }
        Ok(Self {
            device,
            channel,
            publish,
            reply_to,
        })
    }

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
