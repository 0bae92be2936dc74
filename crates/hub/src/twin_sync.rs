//! Twins of two hubs, an edge's and its cloud's, become equal: each tells the other what it has, and both merge.
//!
//! Only what the log has is told: an edit that a crash took back would be made again as another, under the same number.

use std::sync::Arc;

use broker::Position;
use device::topic::{Channel, DeviceTopic};
use device::{Conflict, DecodeError, Twin};
use mqtt::QoS;
use serde_json::{Value, json};

use crate::pipeline;
use crate::shard::tenant::Tenant;
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

/// A device, and what its twin is, in short: two that are equal have equal digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwinDigest {
    /// The device.
    pub device: String,
    /// Of its twin; 0: it has none.
    pub digest: u64,
}

/// Says that a twin was changed here. What finds no room is found when the two sides compare their digests.
pub(crate) fn changed(tenant: &Tenant, turn: &Turn<'_>, device: &str) {
    if let Some(changes) = turn.twin_changes {
        let change = TwinChange {
            tenant: Arc::clone(&tenant.name),
            device: device.into(),
            edge: tenant.arrivals.edge_of(device).cloned(),
        };
        // One that finds no room is told when the sides compare their digests.
        let _ = changes.try_send(change);
    }
}

/// The twins of all devices of a tenant, registered or not, in short.
pub(crate) fn digests(tenant: &Tenant, turn: &Turn<'_>) -> Vec<TwinDigest> {
    let mut digests: Vec<TwinDigest> = tenant
        .twins
        .iter()
        .map(|(device, stored)| TwinDigest {
            device: device.to_string(),
            digest: digest(&stored.twin),
        })
        .collect();
    let unknown = turn
        .labels
        .devices(&tenant.name)
        .into_iter()
        .filter(|id| !tenant.twins.contains_key(&**id));
    digests.extend(unknown.map(|device| TwinDigest { device, digest: 0 }));
    digests
}

/// A twin, whole, with the edits of both sides; it holds once the position is durable.
pub(crate) fn read(tenant: &Tenant, device: &str) -> (Vec<u8>, Position) {
    match tenant.twins.get(device) {
        Some(stored) => (stored.twin.encode(), stored.position),
        None => (Twin::default().encode(), Position::default()),
    }
}

/// A twin as the other side tells it, and the edits that were given up there: the lines of [`Twin::encode`], and behind
/// them a line of JSON where there are such.
#[derive(Debug)]
pub(crate) struct Told {
    twin: Twin,
    given_up: Vec<Value>,
}

impl Told {
    /// # Errors
    /// The bytes are no twin.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let end = ends.map(|(at, _)| at).nth(1);
        let (twin, given_up) = bytes.split_at(end.unwrap_or(bytes.len()));
        Ok(Self {
            twin: Twin::decode(twin)?,
            given_up: serde_json::from_slice(given_up).unwrap_or_default(),
        })
    }
}

/// Takes in what the other side has of a twin. The bytes are what it has to be told, empty where it has all; they hold
/// once the position is durable.
pub(crate) fn merge(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, told: &Told) -> (Vec<u8>, Position) {
    let theirs = &told.twin;
    let side = turn.side;
    let change = |twin: &mut Twin| {
        let merged = twin.merged(side, theirs);
        let before = std::mem::replace(twin, merged.twin);
        let what = What {
            conflicts: merged.conflicts,
            desired: (before.desired != twin.desired).then(|| twin.desired_payload()),
            reported: (before.reported != twin.reported).then(|| twin.reported_payload()),
            they_lack: *twin != *theirs,
        };
        let is_changed = *twin != before;
        let undo = is_changed.then_some(|twin: &mut Twin| *twin = before);
        (what, undo)
    };
    let Ok((what, after)) = update(tenant, turn, device, change) else {
        // The log has no room, or no such device is known here: the next comparison finds it again.
        return (Vec::new(), Position::default());
    };
    if let Some(desired) = &what.desired {
        twins::announce_desired(tenant, turn, device, after, desired);
    }
    if let Some(reported) = &what.reported {
        tell(tenant, turn, device, Channel::TwinReported, reported);
    }
    let given_up: Vec<Value> = what.conflicts.iter().map(as_json).collect();
    for conflict in given_up.iter().chain(&told.given_up) {
        report(tenant, turn, device, conflict);
    }
    let mut reply = Vec::new();
    if what.they_lack {
        reply = read(tenant, device).0;
        if !given_up.is_empty() {
            reply.push(b'\n');
            reply.extend(Value::from(given_up).to_string().into_bytes());
        }
    }
    (reply, after)
}

/// What a merge brought.
struct What {
    conflicts: Vec<Conflict>,
    desired: Option<Vec<u8>>,
    reported: Option<Vec<u8>>,
    they_lack: bool,
}

fn as_json(conflict: &Conflict) -> Value {
    json!({"pointer": conflict.pointer, "kept": conflict.kept, "lost": conflict.lost})
}

/// An edit was given up: whoever watches learns it, and the log of the program has it.
fn report(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, said: &Value) {
    turn.counters.twin_conflicts += 1;
    tracing::warn!(tenant = %tenant.name, %device, conflict = %said, "an edit of a desired state was given up for another");
    let (topic, said) = (format!("devices/{device}/twin/desired/conflict"), said.to_string());
    let publish = pipeline::plain(&topic, said.as_bytes(), QoS::AtLeastOnce, false);
    pipeline::forward(tenant, turn, None, &publish);
}

fn tell(tenant: &mut Tenant, turn: &mut Turn<'_>, device: &str, channel: Channel<'_>, payload: &[u8]) {
    let topic = DeviceTopic { device, channel }.to_string();
    let publish = pipeline::plain(&topic, payload, QoS::AtLeastOnce, false);
    pipeline::forward(tenant, turn, None, &publish);
}

/// The same on every machine.
fn digest(twin: &Twin) -> u64 {
    let hash = crate::door::fnv(&twin.encode());
    // 0 stands for none.
    hash.max(1)
}
