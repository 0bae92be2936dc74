//! Messages of other hubs: each taken once, however often it comes.
//!
//! An edge sends again whatever it has no acknowledgement for. What came of each of its epochs is a set of ranges of
//! sequences, kept in the log beside what the messages became, in one group: after a crash both are there or neither.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{Full, Position};
use mqtt::ReasonCode;
use rangemap::RangeSet;
use serde::{Deserialize, Serialize};
use store::Kind;

use crate::outbox::{CLOCKS_BEGIN_UNIX_S, Parcel};
use crate::pipeline::{self, Outcome};
use crate::shard::journal::{Entry, Journal};
use crate::shard::tenant::Tenant;
use crate::shard::turn::Turn;

/// Epochs of one edge that are remembered; of more the oldest go, and a message of theirs that comes again is taken again.
const EPOCHS_OF_EDGE_MAX: usize = 64;
/// Ranges of an epoch that are remembered; above it the lowest gap counts as filled. A lane has few: it keeps its order,
/// and each message says behind which one it comes.
const RANGES_MAX: usize = 4_096;

/// Devices of a tenant that are known to be behind an edge, at most: as many as may have a twin. One more cannot be called.
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

/// What came of one epoch.
#[derive(Debug)]
struct Mark {
    route: Arc<str>,
    /// Messages of this epoch, and of those before it that are forgotten.
    counts: ArrivalCounts,
    taken: RangeSet<u64>,
    position: Position,
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
    fn add(&mut self, other: ArrivalCounts) {
        self.taken += other.taken;
        self.forbidden += other.forbidden;
        self.sent_again += other.sent_again;
        self.returned += other.returned;
    }
}

/// A mark as the log has it: this, and behind it, but for the first of them, the counts.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    edge: String,
    route: String,
    epoch: u64,
    /// [`ArrivalCounts::taken`].
    messages: u64,
    taken: Vec<(u64, u64)>,
}

/// All that came to a tenant from its edges.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    marks: BTreeMap<(Arc<str>, u64), Mark>,
    /// Which edge a device was last heard through; of no use for one that is registered.
    behind: BTreeMap<Box<str>, Arc<str>>,
}

impl Arrivals {
    /// A mark that the log has; positions that nothing needs any more.
    pub(crate) fn restore(&mut self, meta: &[u8], position: Position) -> Option<Position> {
        let (kept, counts): (Kept, _) = postcard::take_from_bytes(meta).ok()?;
        // Logs of earlier versions have none.
        let counts: ArrivalCounts = postcard::from_bytes(counts).unwrap_or_default();
        let taken = kept.taken.into_iter().map(|(from, to)| from..to).collect();
        let mark = Mark {
            route: kept.route.into(),
            counts: ArrivalCounts {
                taken: kept.messages,
                ..counts
            },
            taken,
            position,
        };
        let older = self.marks.insert((kept.edge.into(), kept.epoch), mark)?;
        Some(older.position)
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
        let Ok((kept, _)) = postcard::take_from_bytes::<Kept>(meta) else {
            return Ok(());
        };
        let key = (Arc::from(kept.edge), kept.epoch);
        match self.marks.get_mut(&key).filter(|mark| mark.position == from) {
            Some(mark) => mark.keep(journal, tenant, &key),
            None => Ok(()),
        }
    }

    fn forget_oldest(&mut self, journal: &mut Journal, edge: &Arc<str>) {
        let of_edge = (Arc::clone(edge), 0)..=(Arc::clone(edge), u64::MAX);
        while self.marks.range(of_edge.clone()).count() > EPOCHS_OF_EDGE_MAX {
            let oldest = self.marks.range(of_edge.clone()).next().map(|(key, _)| key.clone());
            let Some(gone) = oldest.and_then(|key| self.marks.remove(&key)) else {
                return;
            };
            journal.release(gone.position);
            let mut of_edge = self.marks.range_mut(of_edge.clone());
            // Their sum stays what it was.
            if let Some((_, mark)) = of_edge.find(|(_, mark)| mark.route == gone.route) {
                mark.counts.add(gone.counts);
            }
        }
    }
}

impl Arrivals {
    /// What came, by edge and route.
    pub(crate) fn figures(&self, tenant: &Arc<str>) -> Vec<ArrivalFigures> {
        let mut sums: BTreeMap<(&Arc<str>, &Arc<str>), ArrivalCounts> = BTreeMap::new();
        for ((edge, _), mark) in &self.marks {
            sums.entry((edge, &mark.route)).or_default().add(mark.counts);
        }
        let figures = sums.into_iter().map(|((edge, route), counts)| ArrivalFigures {
            tenant: Arc::clone(tenant),
            edge: Arc::clone(edge),
            route: Arc::clone(route),
            counts,
        });
        figures.collect()
    }
}

impl Mark {
    fn new(route: &Arc<str>) -> Self {
        Self {
            route: Arc::clone(route),
            counts: ArrivalCounts::default(),
            taken: RangeSet::new(),
            position: Position::default(),
        }
    }

    fn ranges(&self) -> Vec<(u64, u64)> {
        self.taken.iter().map(|range| (range.start, range.end)).collect()
    }

    /// Has the log keep the mark in place of what it has of it.
    fn keep(&mut self, journal: &mut Journal, tenant: u32, key: &(Arc<str>, u64)) -> Result<(), Full> {
        let kept = Kept {
            edge: key.0.to_string(),
            route: self.route.to_string(),
            epoch: key.1,
            messages: self.counts.taken,
            taken: self.ranges(),
        };
        let meta = postcard::to_allocvec(&(kept, self.counts)).expect("memory is all that it takes");
        let is_first = self.position == Position::default();
        let kind = if is_first { Kind::Value } else { Kind::Replacement };
        let position = journal.append(tenant, kind, Entry::Arrived(&meta), &[])?;
        let old = std::mem::replace(&mut self.position, position);
        if !is_first {
            journal.release(old);
        }
        Ok(())
    }

    fn bound(&mut self) {
        while self.taken.len() > RANGES_MAX {
            let mut ranges = self.taken.iter();
            let (Some(first), Some(second)) = (ranges.next(), ranges.next()) else {
                return;
            };
            let gap = first.end..second.start;
            self.taken.insert(gap);
        }
    }
}

/// The edge that a device is behind: the one that it logs in at, or, where it is not registered, was last heard through.
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
    let key = (Arc::clone(&arriving.edge), arriving.epoch);
    let mark = arrivals
        .marks
        .entry(key.clone())
        .or_insert_with(|| Mark::new(&arriving.route));
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
            mark.counts.sent_again += 1;
            continue;
        }
        let is_forbidden = parcel.publish.topic.starts_with('$');
        let outcome = take_one(tenant, turn, &arriving.edge, &parcel);
        if outcome.reason.is_error() {
            arrived.refused = arriving.parcels.len() - at;
            mark.counts.returned += arrived.refused as u64;
            break;
        }
        mark.taken
            .insert(origin.after.min(origin.sequence)..origin.sequence + 1);
        match is_forbidden {
            true => mark.counts.forbidden += 1,
            false => mark.counts.taken += 1,
        }
        arrived.new += 1;
        after = after.max(outcome.after);
        devices.extend(device::topic::DeviceTopic::parse(parcel.publish.topic).map(|topic| topic.device.to_owned()));
    }
    let is_complete = arrived.refused == 0;
    if is_complete && arriving.floor > 0 {
        mark.taken.insert(0..arriving.floor);
    }
    mark.bound();
    // A full log has refused the messages already; without its mark one of them may come again.
    let _ = mark.keep(turn.journal, turn.tenant, &key);
    after = after.max(mark.position);
    arrivals.forget_oldest(turn.journal, &arriving.edge);
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
