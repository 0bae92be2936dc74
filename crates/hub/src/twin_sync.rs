//! Twins of two hubs, an edge's and its cloud's, become equal: each tells the other what it has, and both merge.
//!
//! Only what the log has is told: what a crash takes back nobody has been told of.

use std::sync::Arc;

use broker::Position;
use device::topic::{Channel, DeviceTopic};
use device::{Author, DecodeError, Twin};
use mqtt::QoS;

use crate::arrivals;
use crate::lost_edits::{self, LostEdit};
use crate::pipeline;
use crate::shard::tenant::{StoredTwin, Tenant, split};
use crate::shard::turn::Turn;
use crate::twin_changes::update;
use crate::twins;

/// A twin was changed here; whoever tells the other side asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TwinChange {
    /// Tenant of the device.
    pub tenant: Arc<str>,
    /// The device.
    pub device: Box<str>,
    /// The edge that it is behind, if it is behind one.
    pub edge: Option<Arc<str>>,
}

/// Says that a twin was changed here. What finds no room is found when the two sides compare their digests.
pub(crate) fn changed(tenant: &Tenant, turn: &Turn<'_>, device: &str) {
    if let Some(changes) = turn.twin_changes {
        let change = TwinChange {
            tenant: Arc::clone(&tenant.name),
            device: device.into(),
            edge: arrivals::edge_of(tenant, turn, device),
        };
        // One that finds no room is told when the sides compare their digests.
        let _ = changes.try_send(change);
    }
}

/// The twins of these devices in short; 0 for one that has none.
pub(crate) fn digests(tenant: &Tenant, devices: &[String]) -> Vec<u64> {
    let twins = devices.iter().map(|device| tenant.twins.get(&**device));
    twins.map(|stored| stored.map_or(0, digest)).collect()
}

/// A twin, whole, with the edits of both sides and those that were given up; it holds once the position is durable.
pub(crate) fn read(tenant: &Tenant, device: &str) -> (Vec<u8>, Position) {
    match tenant.twins.get(device) {
        Some(stored) => (stored.encode(), stored.position),
        None => (Twin::default().encode(), Position::default()),
    }
}

/// A twin as the other side tells it, and the edits that it knows to be given up.
#[derive(Debug)]
pub(crate) struct Told {
    twin: Twin,
    given_up: Vec<LostEdit>,
}

impl Told {
    /// # Errors
    /// The bytes are no twin.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (twin, given_up) = split(bytes);
        Ok(Self {
            twin: Twin::decode(twin)?,
            given_up: lost_edits::listed(given_up),
        })
    }
}

/// Takes in what the other side has of a twin. The bytes are what it has to be told, empty where it has all; they hold
/// once the position is durable.
pub(crate) fn merge(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, told: &Told) -> (Vec<u8>, Position) {
    let (author, now_ms) = (turn.author, turn.now.unix_ms);
    let Ok((what, after)) = update(tenant, turn, device, |stored| take_in(stored, author, told, now_ms)) else {
        // The log has no room, or no such device is known here: the next comparison finds it again.
        return (Vec::new(), Position::default());
    };
    if let Some(desired) = &what.desired {
        twins::announce_desired(tenant, turn, device, after, desired);
    }
    if let Some(reported) = &what.reported {
        tell(tenant, turn, device, Channel::TwinReported, reported);
    }
    for edit in &what.lost {
        report(tenant, turn, device, edit);
    }
    let reply = what.they_lack.then(|| read(tenant, device).0);
    (reply.unwrap_or_default(), after)
}

/// What a merge brought.
struct What {
    /// Edits that are known to be given up since then, as was found here or there.
    lost: Vec<LostEdit>,
    desired: Option<Vec<u8>>,
    reported: Option<Vec<u8>>,
    they_lack: bool,
}

fn take_in(
    stored: &mut StoredTwin,
    author: Author,
    told: &Told,
    now_ms: u64,
) -> (What, Option<impl FnOnce(&mut StoredTwin) + use<>>) {
    let merged = stored.twin.merged(author, &told.twin);
    let before = std::mem::replace(&mut stored.twin, merged.twin);
    let edits_before = stored.lost_edits.clone();
    let found = merged.conflicts.into_iter().map(LostEdit::from);
    let now = |edit| LostEdit { at_ms: now_ms, ..edit };
    let mut lost: Vec<LostEdit> = found.filter_map(|edit| stored.lost_edits.find(now(edit))).collect();
    let given_up = told.given_up.iter().cloned();
    lost.extend(given_up.filter_map(|edit| stored.lost_edits.note(now(edit))));
    let twin = &stored.twin;
    let is_changed = *twin != before || !lost.is_empty();
    let what = What {
        lost,
        desired: (before.desired != twin.desired).then(|| twin.desired_payload()),
        reported: (before.reported != twin.reported).then(|| twin.reported_payload()),
        they_lack: *twin != told.twin || !stored.lost_edits.are_among(&told.given_up),
    };
    let undo = is_changed.then_some(|stored: &mut StoredTwin| {
        stored.twin = before;
        stored.lost_edits = edits_before;
    });
    (what, undo)
}

/// An edit was given up: whoever watches learns it, and the log of the program has it.
fn report(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, edit: &LostEdit) {
    turn.counters.twin_conflicts += 1;
    let (topic, said) = (
        format!("devices/{device}/twin/desired/conflict"),
        lost_edits::json(edit),
    );
    let shown = String::from_utf8_lossy(&said);
    tracing::warn!(tenant = %tenant.name, %device, conflict = %shown, "an edit of a desired state was given up for another");
    let publish = pipeline::plain(&topic, &said, QoS::AtLeastOnce, false);
    pipeline::forward(tenant, turn, None, &publish);
}

fn tell(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, channel: Channel<'_>, payload: &[u8]) {
    let topic = DeviceTopic { device, channel }.to_string();
    let publish = pipeline::plain(&topic, payload, QoS::AtLeastOnce, false);
    pipeline::forward(tenant, turn, None, &publish);
}

/// The same on every machine.
fn digest(stored: &StoredTwin) -> u64 {
    let mut told = stored.twin.encode();
    stored.lost_edits.write_keys(&mut told);
    let hash = crate::door::fnv(&told);
    // 0 stands for none.
    hash.max(1)
}
