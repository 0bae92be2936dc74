//! The queues of one shard: what comes in, what goes out, and what the log has of it.

mod kept;
mod room;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering as Atomic};

use broker::{Now, Position};
use route::{Priority, Upstream, WhenFull};
use store::Kind;
use tokio::sync::mpsc;

pub(crate) use self::kept::Restored;
use self::kept::Telling;
use super::queue::{Place, Queue};
use super::record::MessageMeta;
use super::track::{Held, NEVER_S};
use super::{
    Allowance, CLOCKS_BEGIN_UNIX_S, Discarded, FIXED_BYTES, Fate, Feedback, Lane, Ledger, Ordering, OutboxOptions,
    Outgoing, Settled, Ticket,
};
use crate::shard::journal::{Entry, Journal};

/// Bytes of messages that are read back at once, at most.
const LOADING_BYTES_MAX: u64 = 4 << 20;
/// Bytes that a queue of normal priority may send in a round of turns; one of high priority four times as many.
const SHARE_BYTES: i64 = 16 << 10;
/// Messages that are asked for in a turn, at most: a tenth of a millisecond, so that whatever else the shard serves has
/// its turn where there is room for thousands at once.
const LOADS_PER_TURN: usize = 128;
/// Messages looked at in one turn for their age.
const EXPIRED_PER_TURN: usize = 1_024;

/// Numbers epochs: each greater than all of earlier starts, whatever the clock says, and none used twice, though the
/// directory be copied.
#[derive(Debug)]
pub(crate) struct EpochNumbers {
    start: AtomicU32,
    next: AtomicU32,
}

impl EpochNumbers {
    /// Numbers for a hub that starts now. Every one that is found in a log has to be told of before the first is taken.
    pub(crate) fn new(unix_s: u64, random: u32) -> Self {
        // So that a number fits 63 bits until 2088.
        let start = unix_s.saturating_sub(CLOCKS_BEGIN_UNIX_S).min(u64::from(u32::MAX >> 1));
        Self {
            start: AtomicU32::new(start as u32),
            next: AtomicU32::new(random),
        }
    }

    /// This one was used by an earlier start.
    pub(crate) fn saw(&self, number: u64) {
        let start = (number >> 32) as u32;
        self.start
            .fetch_max(start.saturating_add(1).min(u32::MAX >> 1), Atomic::Relaxed);
    }

    fn take(&self) -> u64 {
        // Lanes have the lowest bit.
        let random = self.next.fetch_add(2, Atomic::Relaxed) & !1;
        u64::from(self.start.load(Atomic::Relaxed)) << 32 | u64::from(random)
    }
}

/// A message to be taken in.
pub(crate) struct Incoming {
    pub(crate) queue: u32,
    /// As [`Outgoing::body`].
    pub(crate) body: Vec<u8>,
    pub(crate) received_ms: u64,
    /// What its Message Expiry Interval leaves it.
    pub(crate) expiry_s: Option<u32>,
    /// Bytes that all messages of its tenant may take.
    pub(crate) tenant_limit_bytes: u64,
    /// Whether its sender is told that there is no room, and has it still.
    pub(crate) may_come_again: bool,
}

/// What became of a message that was to be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is kept once this position is durable.
    Kept(Position),
    /// It was dropped, as its route wants it.
    Dropped,
    /// There is no room, and its sender is to be told: it is in no ledger.
    Refused,
}

/// A message that is being read back.
#[derive(Clone, Copy, Debug)]
struct Loading {
    queue: u32,
    place: Place,
    cost_bytes: u64,
    /// As [`Outgoing::term`].
    term: u32,
}

/// What fills a queue: number of the tenant, route, and the edge that the messages came from.
type Source = (u32, Arc<str>, Option<Arc<str>>);

/// What a tenant has here.
#[derive(Debug, Default)]
struct Holding {
    queues: u64,
    /// Bytes of all of them.
    bytes: u64,
}

/// The queues of one shard.
pub(crate) struct Queues {
    shard: u16,
    options: OutboxOptions,
    queues: BTreeMap<u32, Queue>,
    by_source: HashMap<Source, u32>,
    /// By the number of the tenant.
    tenants: HashMap<u32, Holding>,
    numbers: Arc<EpochNumbers>,
    /// Epochs of this start by queue.
    epochs: HashMap<u32, u64>,
    carrier: mpsc::UnboundedSender<Vec<Outgoing>>,
    /// What goes out at the end of the turn.
    leaving: Vec<Outgoing>,
    loading: HashMap<Position, Loading>,
    loading_bytes: u64,
    /// What the carrier will have, and of what is there or on its way there.
    allowed: Allowance,
    away: Allowance,
    /// See [`Outgoing::term`].
    term: u32,
    /// Bytes of all queues.
    bytes: u64,
    /// Messages that wait in all queues.
    waiting: u64,
    /// The queue whose turn it is.
    turn: u32,
    /// Queues whose state the log does not have yet.
    changed: Vec<u32>,
    telling: Telling,
    /// When to look for messages that have waited too long, in seconds of the shard's clock.
    expires_at_s: u32,
    /// When to look for messages that wait again, in milliseconds of that clock.
    unparks_at_ms: u64,
    /// There was room for more when the last turn ended.
    has_more: bool,
}

/// Figures of a queue at one instant.
#[derive(Clone, Debug)]
pub struct QueueFigures {
    /// Its tenant.
    pub tenant: Arc<str>,
    /// The route that fills it.
    pub route: Arc<str>,
    /// The edge that the messages came from; `None`: clients of this hub.
    pub edge: Option<Arc<str>>,
    /// What became of its messages.
    pub ledger: Ledger,
    /// Messages that wait or are on their way, as they are counted there: with what the ledger has, as many as came.
    pub queued: u64,
    /// Messages that found no room, and whose senders were told so, since the hub started. They are in no ledger.
    pub refused: u64,
    /// Bytes that those which wait take in the log.
    pub bytes: u64,
    /// Bytes that they may take, if the route has a bound of its own.
    pub limit_bytes: Option<u64>,
    /// For how many seconds the oldest of them has waited, or up to one more; `None`: none waits.
    pub oldest_s: Option<u64>,
}

impl Queues {
    pub(crate) fn new(
        shard: u16,
        options: OutboxOptions,
        numbers: Arc<EpochNumbers>,
        carrier: mpsc::UnboundedSender<Vec<Outgoing>>,
    ) -> Self {
        Self {
            shard,
            options,
            queues: BTreeMap::new(),
            by_source: HashMap::new(),
            tenants: HashMap::new(),
            numbers,
            epochs: HashMap::new(),
            carrier,
            leaving: Vec::new(),
            loading: HashMap::new(),
            loading_bytes: 0,
            allowed: Allowance::default(),
            away: Allowance::default(),
            term: 0,
            bytes: 0,
            waiting: 0,
            turn: 0,
            changed: Vec::new(),
            telling: Telling::NOTHING,
            expires_at_s: NEVER_S,
            unparks_at_ms: u64::MAX,
            has_more: false,
        }
    }

    /// The number of a route's queue, which is made if there is none; what the route sends goes on as `settings` say.
    pub(crate) fn queue_of(&mut self, tenant_number: u32, tenant: &Arc<str>, route: &str, settings: &Upstream) -> u32 {
        let number = self.queue((tenant_number, Arc::from(route), None), tenant);
        let is_same = |queue: &&mut Queue| queue.tenant_number == tenant_number && *queue.route == *route;
        for queue in self.queues.values_mut().filter(is_same) {
            queue.settings = *settings;
        }
        number
    }

    /// The queue of the same route for what came from an edge: each has a ledger of its own, and none waits for
    /// another.
    pub(crate) fn queue_of_edge(&mut self, number: u32, edge: &Arc<str>) -> u32 {
        let queue = &self.queues[&number];
        let (tenant, settings) = (Arc::clone(&queue.tenant), queue.settings);
        let source = (queue.tenant_number, Arc::clone(&queue.route), Some(Arc::clone(edge)));
        let number = self.queue(source, &tenant);
        self.queues.get_mut(&number).expect("is there").settings = settings;
        number
    }

    fn queue(&mut self, source: Source, tenant: &Arc<str>) -> u32 {
        if let Some(number) = self.by_source.get(&source) {
            return *number;
        }
        let number = self.queues.last_key_value().map_or(0, |(last, _)| last + 1);
        let queue = Queue::new(source.0, Arc::clone(tenant), Arc::clone(&source.1), source.2.clone());
        self.add(number, source, queue);
        number
    }

    fn add(&mut self, number: u32, source: Source, queue: Queue) {
        let tenant = self.tenants.entry(queue.tenant_number).or_default();
        tenant.queues += 1;
        tenant.bytes += queue.bytes;
        self.bytes += queue.bytes;
        self.waiting += queue.waiting;
        self.by_source.insert(source, number);
        self.queues.insert(number, queue);
    }

    /// Takes in a message. What becomes of it otherwise is counted here.
    pub(crate) fn take(&mut self, journal: &mut Journal, now: Now, incoming: Incoming) -> Taken {
        let (number, may_come_again) = (incoming.queue, incoming.may_come_again);
        let cost_bytes = incoming.body.len() as u64 + FIXED_BYTES;
        let has_room = self.make_room(number, cost_bytes, incoming.tenant_limit_bytes);
        let kept = match has_room {
            true => self.keep(journal, now, incoming).ok_or(Discarded::LogFull),
            false => Err(Discarded::Full),
        };
        let queue = self.queues.get_mut(&number).expect("a queue of a route");
        match kept {
            Ok(position) => {
                queue.ledger.received += 1;
                Taken::Kept(position)
            }
            Err(_) if queue.settings.full == WhenFull::Refuse && may_come_again => {
                queue.refused += 1;
                Taken::Refused
            }
            Err(why) => {
                queue.ledger.received += 1;
                queue.ledger.drop(why, 1);
                self.note_change(number);
                Taken::Dropped
            }
        }
    }

    /// Has the log keep a message, and sends it at once if it may go.
    fn keep(&mut self, journal: &mut Journal, now: Now, incoming: Incoming) -> Option<Position> {
        let number = incoming.queue;
        self.write_first_state(journal, number).ok()?;
        let epoch = *self.epochs.entry(number).or_insert_with(|| self.numbers.take());
        let goes_by = self.goes_by(number, epoch, now);
        let queue = &self.queues[&number];
        let expiry_s = [incoming.expiry_s, queue.settings.expiry_s].into_iter().flatten().min();
        let place = queue.next_place(epoch, goes_by.unwrap_or(Lane::Backlog));
        let meta = MessageMeta {
            place,
            received_ms: incoming.received_ms,
            expiry_s,
        };
        let mut bytes = Vec::with_capacity(64);
        meta.encode(number, &mut bytes);
        let (entry, tenant) = (Entry::OutboxMessage(&bytes), queue.tenant_number);
        let position = journal.append(tenant, Kind::Value, entry, &incoming.body).ok()?;
        let expires_s = expiry_s.map_or(NEVER_S, |s| seconds(now).saturating_add(s));
        self.expires_at_s = self.expires_at_s.min(expires_s);
        let held = Held::waiting(position, incoming.body.len() + FIXED_BYTES as usize, expires_s);
        self.change_quietly(number, |queue| {
            queue.push(place, held);
            queue.note_age(place, seconds(now));
        });
        if let Some(lane) = goes_by {
            self.send(number, place, lane, incoming.body);
        }
        Some(position)
    }

    /// The lane by which a message goes that comes now; `None`: it has to wait.
    fn goes_by(&mut self, number: u32, epoch: u64, now: Now) -> Option<Lane> {
        let queue = self.queues.get_mut(&number).expect("a queue of a route");
        if !queue.parking.is_open(now.monotonic_ms) {
            return None;
        }
        match self.options.ordering {
            Ordering::LiveFirst => {
                let is_free = self.away.live_bytes < self.allowed.live_bytes && !queue.is_live_lane_held_up(epoch);
                is_free.then_some(Lane::Live)
            }
            Ordering::Strict => {
                let is_free =
                    self.away.backlog_bytes < self.allowed.backlog_bytes && queue.waiting == 0 && queue.loading == 0;
                is_free.then_some(Lane::Backlog)
            }
        }
    }

    /// Sends a message at once, from memory.
    fn send(&mut self, number: u32, place: Place, lane: Lane, body: Vec<u8>) {
        *self.away_by(lane) += body.len() as u64 + FIXED_BYTES;
        self.change_quietly(number, |queue| queue.mark_sent(place));
        self.leave(number, place, lane, body);
    }

    /// Bytes that are away by a lane.
    fn away_by(&mut self, lane: Lane) -> &mut u64 {
        match lane {
            Lane::Live => &mut self.away.live_bytes,
            Lane::Backlog => &mut self.away.backlog_bytes,
        }
    }

    fn leave(&mut self, number: u32, place: Place, lane: Lane, body: Vec<u8>) {
        let queue = &self.queues[&number];
        let (floor, after) = queue.floor_and_after(place);
        self.leaving.push(Outgoing {
            ticket: Ticket {
                shard: self.shard,
                queue: number,
                epoch: place.epoch,
                sequence: place.sequence,
            },
            tenant: Arc::clone(&queue.tenant),
            route: Arc::clone(&queue.route),
            floor,
            after,
            lane,
            term: self.term,
            body,
        });
    }

    /// What the carrier says.
    pub(crate) fn hear(&mut self, now: Now, feedback: Feedback) {
        if let Some((term, allowance)) = feedback.allowed {
            (self.term, self.allowed) = (term, allowance);
        }
        let may_park = self.options.ordering == Ordering::LiveFirst;
        for Settled {
            ticket,
            fate,
            lane,
            bytes,
        } in feedback.settled
        {
            let away_bytes = self.away_by(lane);
            *away_bytes = away_bytes.saturating_sub(bytes);
            if fate == Fate::Returned {
                self.unparks_at_ms = 0;
            }
            let Ticket {
                queue, epoch, sequence, ..
            } = ticket;
            let place = Place { epoch, sequence };
            match fate {
                Fate::Delivered => self.deliver(queue, place, now),
                Fate::Refused => self.change(queue, |queue| queue.refuse(place)),
                Fate::Unsent => self.change(queue, |queue| queue.take_back(place)),
                Fate::Returned => self.change(queue, |queue| queue.put_back(place, now.monotonic_ms, may_park)),
            }
        }
        // Whoever has more to say may be gone.
        let _ = feedback.taken.map(|taken| taken.send(()));
    }

    /// A body that was asked for has come, or is lost. False if it was not asked for here.
    pub(crate) fn loaded(&mut self, position: Position, body: &mut Option<Vec<u8>>) -> bool {
        let Some(loading) = self.loading.remove(&position) else {
            return false;
        };
        self.loading_bytes -= loading.cost_bytes;
        self.change_quietly(loading.queue, |queue| queue.loading -= 1);
        match body.take() {
            Some(_) if loading.term != self.term => {
                self.away.backlog_bytes -= loading.cost_bytes;
                self.change_quietly(loading.queue, |queue| queue.take_back(loading.place));
            }
            Some(body) => self.leave(loading.queue, loading.place, Lane::Backlog, body),
            None => {
                self.away.backlog_bytes -= loading.cost_bytes;
                self.change(loading.queue, |queue| queue.discard(loading.place, Discarded::Damaged));
            }
        }
        true
    }

    /// At the end of a turn: the log learns what changed, messages that wait are asked for as far as there is room, and
    /// what goes out goes out.
    pub(crate) fn end_turn(&mut self, journal: &mut Journal, now: Now) {
        self.expire(now);
        self.unpark(now);
        self.load(journal, now);
        self.write_states_due(journal, now);
        if !self.leaving.is_empty() {
            // Without a carrier the hub is ending: the log has them all.
            let _ = self.carrier.send(std::mem::take(&mut self.leaving));
        }
    }

    fn load(&mut self, journal: &mut Journal, now: Now) {
        let has_room = |queues: &Self| {
            queues.away.backlog_bytes < queues.allowed.backlog_bytes && queues.loading_bytes < LOADING_BYTES_MAX
        };
        self.has_more = false;
        let mut asked = 0;
        while self.waiting > 0 && has_room(self) {
            let Some(number) = self.next_in_turn(now) else { return };
            if asked == LOADS_PER_TURN {
                self.has_more = true;
                return;
            }
            asked += 1;
            let queue = self.queues.get_mut(&number).expect("found just now");
            let (place, held) = queue.next_waiting().expect("one waits");
            if held.expires_s <= seconds(now) {
                self.change(number, |queue| queue.discard(place, Discarded::Expired));
                continue;
            }
            let (cost_bytes, tenant) = (held.bytes(), queue.tenant_number);
            self.change_quietly(number, |queue| {
                queue.mark_sent(place);
                queue.loading += 1;
                queue.share_bytes -= cost_bytes as i64;
            });
            self.away.backlog_bytes += cost_bytes;
            self.loading_bytes += cost_bytes;
            let loading = Loading {
                queue: number,
                place,
                cost_bytes,
                term: self.term,
            };
            journal.load(tenant, held.position);
            self.loading.insert(held.position, loading);
        }
    }

    /// The queue that sends next. Each has a share of bytes in its turn, so that none waits for ever for another.
    fn next_in_turn(&mut self, now: Now) -> Option<u32> {
        let goes_on = |queue: &Queue| queue.has_next(now.monotonic_ms) && queue.share_bytes > 0;
        if self.queues.get(&self.turn).is_some_and(goes_on) {
            return Some(self.turn);
        }
        let behind = self.queues.range(self.turn + 1..);
        let mut in_order = behind.chain(self.queues.range(..=self.turn));
        let next = in_order
            .find(|(_, queue)| queue.has_next(now.monotonic_ms))
            .map(|(number, _)| *number)?;
        let queue = self.queues.get_mut(&next).expect("found just now");
        queue.share_bytes = SHARE_BYTES * weight(queue.settings.priority);
        self.turn = next;
        Some(next)
    }

    /// Drops what has waited too long, once a second.
    fn expire(&mut self, now: Now) {
        let now_s = seconds(now);
        if now_s < self.expires_at_s {
            return;
        }
        self.expires_at_s = NEVER_S;
        let numbers: Vec<u32> = self.queues.keys().copied().collect();
        for number in numbers {
            for _ in 0..EXPIRED_PER_TURN {
                let queue = self.queues.get_mut(&number).expect("listed just now");
                let Some((place, held)) = queue.oldest_waiting() else {
                    break;
                };
                if held.expires_s > now_s {
                    let looks_again_s = if held.expires_s == NEVER_S {
                        NEVER_S
                    } else {
                        held.expires_s
                    };
                    self.expires_at_s = self.expires_at_s.min(looks_again_s);
                    break;
                }
                self.change(number, |queue| queue.discard(place, Discarded::Expired));
                self.expires_at_s = self.expires_at_s.min(now_s);
            }
        }
    }

    /// What was aside for long enough waits again.
    fn unpark(&mut self, now: Now) {
        if now.monotonic_ms < self.unparks_at_ms {
            return;
        }
        for queue in self.queues.values_mut() {
            let before = queue.waiting;
            queue.unpark(now.monotonic_ms);
            self.waiting = self.waiting - before + queue.waiting;
        }
        let due_ms = self
            .queues
            .values()
            .filter_map(|queue| queue.parking.due_ms(now.monotonic_ms));
        self.unparks_at_ms = due_ms.min().unwrap_or(u64::MAX);
    }

    /// Whether more may go out than the last turn had time for.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more
    }

    /// When something waits too long or waits again, on the shard's clock in milliseconds.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        let expires_ms = match self.expires_at_s {
            NEVER_S => u64::MAX,
            at_s => u64::from(at_s) * 1_000,
        };
        let due_ms = self.unparks_at_ms.min(expires_ms).min(self.telling.due_ms());
        Some(due_ms).filter(|due_ms| *due_ms != u64::MAX)
    }

    fn change(&mut self, number: u32, act: impl FnOnce(&mut Queue)) {
        if self.queues.contains_key(&number) {
            self.change_quietly(number, act);
            self.note_change(number);
        }
    }

    /// Changes a queue in a way that the log can tell without its state.
    fn change_quietly<R>(&mut self, number: u32, act: impl FnOnce(&mut Queue) -> R) -> R {
        let queue = self.queues.get_mut(&number).expect("a queue that is there");
        let (before_bytes, before_waiting) = (queue.bytes, queue.waiting);
        let result = act(queue);
        self.bytes = self.bytes - before_bytes + queue.bytes;
        self.waiting = self.waiting - before_waiting + queue.waiting;
        let tenant = self.tenants.get_mut(&queue.tenant_number);
        let tenant = tenant.expect("a tenant with a queue");
        tenant.bytes = tenant.bytes - before_bytes + queue.bytes;
        result
    }

    /// What became of the messages of each queue.
    pub(crate) fn figures(&self, now: Now) -> Vec<QueueFigures> {
        let age_s = |came_s: i64| u64::try_from(i64::from(seconds(now)) - came_s).unwrap_or_default();
        let figures = self.queues.values().map(|queue| QueueFigures {
            tenant: Arc::clone(&queue.tenant),
            route: Arc::clone(&queue.route),
            edge: queue.edge.clone(),
            ledger: queue.ledger,
            queued: queue.queued(),
            refused: queue.refused,
            bytes: queue.bytes,
            limit_bytes: queue.settings.limit_bytes,
            oldest_s: queue.oldest_came_s().map(age_s),
        });
        figures.collect()
    }

    /// Bytes that the messages of all queues may take.
    pub(crate) fn limit_bytes(&self) -> u64 {
        self.options.bytes
    }
}

fn seconds(now: Now) -> u32 {
    u32::try_from(now.monotonic_ms / 1_000).unwrap_or(NEVER_S - 1)
}

fn weight(priority: Priority) -> i64 {
    match priority {
        Priority::High => 4,
        Priority::Normal => 1,
    }
}
