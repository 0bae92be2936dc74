//! Changes of twins: in place, once the log has them, and taken back where it cannot.

use broker::Position;
use mqtt::ReasonCode;
use serde_json::json;
use store::Kind;

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

    /// Of the acknowledgement.
    pub(crate) fn reason(self) -> ReasonCode {
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

/// Changes a twin and has the log keep it; what `change` returned and the position that makes it safe. `change` says
/// how to take back what it did; `None`: nothing was changed.
pub(crate) fn update<R, U: FnOnce(&mut StoredTwin)>(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    change: impl FnOnce(&mut StoredTwin) -> (R, Option<U>),
) -> Result<(R, Position), Refusal> {
    let updated = try_update(tenant, turn, device, change);
    turn.counters.refused_twins += u64::from(updated.is_err());
    updated
}

fn try_update<R, U: FnOnce(&mut StoredTwin)>(
    tenant: &mut Tenant,
    turn: &mut Turn<'_>,
    device: &str,
    change: impl FnOnce(&mut StoredTwin) -> (R, Option<U>),
) -> Result<(R, Position), Refusal> {
    let room_bytes = tenant.room_bytes();
    let mut new = StoredTwin::default();
    let stored = match tenant.twins.get_mut(device) {
        Some(stored) => stored,
        None => {
            check_new(tenant, turn, device)?;
            &mut new
        }
    };
    let (result, undo) = change(stored);
    let Some(undo) = undo else {
        return Ok((result, stored.position));
    };
    let (old_position, old_bytes) = (stored.position, stored.bytes);
    keep(turn, device, stored, room_bytes).inspect_err(|_| undo(stored))?;
    let (position, bytes) = (stored.position, stored.bytes);
    if old_position == Position::default() {
        tenant.twins.insert(device.into(), new);
    }
    tenant.count_twin(old_bytes, bytes);
    Ok((result, position))
}

/// Has the log keep a twin that was changed, in place of what it has of it. It may count as `room_bytes` more than
/// before.
fn keep(turn: &mut Turn<'_>, device: &str, stored: &mut StoredTwin, room_bytes: u64) -> Result<(), Refusal> {
    let bytes = stored.memory_bytes();
    if bytes > stored.bytes.saturating_add(room_bytes) {
        return Err(Refusal::Bytes);
    }
    let body = stored.encode();
    let position = turn
        .journal
        .append(turn.tenant, Kind::Value, Entry::Twin(device), &body)
        .map_err(|_| Refusal::Log)?;
    if stored.position > Position::default() {
        turn.journal.release(stored.position);
    }
    (stored.position, stored.bytes) = (position, bytes);
    Ok(())
}

/// Whether a device that has no twin yet may have one.
fn check_new(tenant: &Tenant, turn: &Turn<'_>, device: &str) -> Result<(), Refusal> {
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
    Ok(())
}
