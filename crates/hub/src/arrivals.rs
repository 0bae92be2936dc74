//! Messages of other hubs: each taken once, however often it comes.
//!
//! An edge sends again whatever it has no acknowledgement for. What came of each of its epochs is a set of ranges of
//! sequences, kept in the log beside what the messages became, in one group: after a crash both are there or neither.

mod marks;

use std::collections::BTreeMap;
use std::ops::{Add, Sub};
use std::sync::Arc;

use broker::{Full, Position};
use mqtt::ReasonCode;
use serde::{Deserialize, Serialize};

use self::marks::{Kept, Log, Marks};
use crate::outbox::{CLOCKS_BEGIN_UNIX_S, Parcel};
use crate::pipeline::{self, Outcome};
use crate::shard::journal::Journal;
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Devices of a tenant that are known to be behind an edge, at most: as many as may have a twin. One more cannot be
/// called.
const DEVICES_MAX: usize = 100_000;

/// Messages of one epoch of an edge.
#[derive(Debug)]
pub struct Arriving {
    /// The edge.
    pub edge: Arc<str>,
    /// The route that sent them there.
    pub route: Arc<str>,
    /// See [`Ticket::epoch`](crate::Ticket::epoch).
    pub epoch: u64,
    /// No lower sequence is to be expected any more.
    pub floor: u64,
    /// The messages, each as [`Parcel`] has it, with their origin.
    pub parcels: Vec<Vec<u8>>,
}

/// What became of [`Arriving`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Messages that were new.
    pub new: usize,
    /// Messages that were here before.
    pub known: usize,
    /// Messages at the end that were not taken, because there is no room now.
    pub refused: usize,
}

/// The message that the pipeline has is of another hub.
#[derive(Clone, Debug)]
pub(crate) struct Provenance {
    pub(crate) edge: Arc<str>,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
    pub(crate) after: u64,
    pub(crate) received_ms: u64,
}

/// Messages that came from an edge by a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrivalFigures {
    /// Tenant of the devices.
    pub tenant: Arc<str>,
    /// The edge.
    pub edge: Arc<str>,
    /// The route there.
    pub route: Arc<str>,
    /// What became of them, restarts included.
    pub counts: ArrivalCounts,
}

/// What became of messages that came from an edge. It counts as delivered what is taken or forbidden here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrivalCounts {
    /// Those that were taken, each counted once.
    pub taken: u64,
    /// Those that were new and are none that an edge may send: `$…` topics.
    pub forbidden: u64,
    /// Those that came again, though they had been taken: their acknowledgement was lost.
    pub sent_again: u64,
    /// Those that there was no room for, and that were to come again.
    pub returned: u64,
}

impl ArrivalCounts {
    /// The greater of each of the numbers.
    fn max(self, other: Self) -> Self {
        self.with(other, u64::max)
    }

    fn with(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            taken: of(self.taken, other.taken),
            forbidden: of(self.forbidden, other.forbidden),
            sent_again: of(self.sent_again, other.sent_again),
            returned: of(self.returned, other.returned),
        }
    }
}

impl Add for ArrivalCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }
}

impl Sub for ArrivalCounts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }
}

/// All that came to a tenant from its edges.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    edges: BTreeMap<Arc<str>, Marks>,
    /// Which edge a device was last heard through; of no use for one that is registered.
    behind: BTreeMap<Box<str>, Arc<str>>,
}

impl Arrivals {
    /// A mark that the log has; positions that nothing needs any more.
    pub(crate) fn restore(&mut self, meta: &[u8], position: Position) -> Option<Position> {
        let (kept, rest) = Kept::decode(meta)?;
        let of_edge = self.edges.entry(Arc::from(&*kept.edge)).or_default();
        of_edge.restore(kept, rest, position)
    }

    /// The device was heard through this edge.
    fn heard(&mut self, device: &str, edge: &Arc<str>) {
        let has_room = self.behind.len() < DEVICES_MAX || self.behind.contains_key(device);
        if has_room && self.behind.get(device) != Some(edge) {
            self.behind.insert(device.into(), Arc::clone(edge));
        }
    }

    /// The log moves a mark.
    pub(crate) fn relocate(
        &mut self,
        journal: &mut Journal,
        tenant: u32,
        meta: &[u8],
        from: Position,
    ) -> Result<(), Full> {
        let Some((kept, _)) = Kept::decode(meta) else {
            return Ok(());
        };
        let edge = &*kept.edge;
        match self.edges.get_mut(edge) {
            Some(of_edge) => of_edge.relocate(&mut Log { journal, tenant, edge }, &kept, from),
            None => Ok(()),
        }
    }

    /// What came, by edge and route.
    pub(crate) fn figures(&self, tenant: &Arc<str>) -> Vec<ArrivalFigures> {
        let of_edges = self.edges.iter().flat_map(|(edge, of_edge)| {
            let of_routes = of_edge.counts();
            of_routes.map(move |(route, counts)| (edge, route, counts))
        });
        let figures = of_edges.map(|(edge, route, counts)| ArrivalFigures {
            tenant: Arc::clone(tenant),
            edge: Arc::clone(edge),
            route: Arc::clone(route),
            counts,
        });
        figures.collect()
    }
}

/// The edge that a device is behind: the one that it logs in at, or, where it is not registered, was last heard
/// through.
pub(crate) fn edge_of(tenant: &Tenant, turn: &Turn<'_>, device: &str) -> Option<Arc<str>> {
    match turn.labels.home(&tenant.name, device) {
        Some(home) => home,
        None => tenant.arrivals.behind.get(device).cloned(),
    }
}

/// Takes messages of an edge the way of any message, each once, in their order; what became of them, which holds once
/// the position is durable.
pub(crate) fn take(tenant: &mut Tenant, turn: &mut Turn<'_>, arriving: &Arriving) -> (Arrived, Position) {
    let mut arrivals = std::mem::take(&mut tenant.arrivals);
    let of_edge = arrivals.edges.entry(Arc::clone(&arriving.edge)).or_default();
    let mut mark = of_edge.take(&arriving.route, arriving.epoch);
    let mut came = ArrivalCounts::default();
    let mut arrived = Arrived {
        new: 0,
        known: 0,
        refused: 0,
    };
    let mut after = mark.position;
    let mut devices = Vec::new();
    for (at, parcel) in arriving.parcels.iter().enumerate() {
        let Ok(parcel) = Parcel::decode(parcel) else { continue };
        let Some(origin) = parcel.origin else { continue };
        if mark.taken.contains(&origin.sequence) {
            arrived.known += 1;
            came.sent_again += 1;
            continue;
        }
        let is_forbidden = parcel.publish.topic.starts_with('$');
        let outcome = take_one(tenant, turn, &arriving.edge, &parcel);
        if outcome.reason.is_error() {
            arrived.refused = arriving.parcels.len() - at;
            came.returned += arrived.refused as u64;
            break;
        }
        mark.taken
            .insert(origin.after.min(origin.sequence)..origin.sequence + 1);
        match is_forbidden {
            true => came.forbidden += 1,
            false => came.taken += 1,
        }
        arrived.new += 1;
        after = after.max(outcome.after);
        devices.extend(device::topic::DeviceTopic::parse(parcel.publish.topic).map(|topic| topic.device.to_owned()));
    }
    let is_complete = arrived.refused == 0;
    if is_complete && arriving.floor > 0 {
        mark.taken.insert(0..arriving.floor);
    }
    let mut log = Log {
        journal: turn.journal,
        tenant: turn.tenant,
        edge: &arriving.edge,
    };
    after = after.max(of_edge.put(&mut log, &arriving.route, arriving.epoch, mark, came));
    for device in devices {
        arrivals.heard(&device, &arriving.edge);
    }
    tenant.arrivals = arrivals;
    (arrived, after)
}

fn take_one(tenant: &mut Tenant, turn: &mut Turn<'_>, edge: &Arc<str>, parcel: &Parcel<'_>) -> Outcome {
    let origin = parcel.origin.expect("looked at by the caller");
    turn.counters.messages_received += 1;
    if parcel.publish.topic.starts_with('$') {
        // No edge forwards these; what cannot be taken is not asked for again.
        turn.counters.refused_publishes += 1;
        return Outcome::now(ReasonCode::Success);
    }
    let received_ms = match parcel.received_ms {
        unset if unset / 1_000 < CLOCKS_BEGIN_UNIX_S => turn.now.unix_ms,
        received_ms => received_ms,
    };
    turn.provenance = Some(Provenance {
        edge: Arc::clone(edge),
        epoch: origin.epoch,
        sequence: origin.sequence,
        after: origin.after,
        received_ms,
    });
    let outcome = pipeline::forward(tenant, turn, None, &parcel.publish);
    turn.provenance = None;
    outcome
}
