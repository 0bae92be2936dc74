//! The queues of one shard: what comes in, what goes out, and what the log has of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering as Atomic};

use broker::{Full, Now, Position};
use route::{Priority, Upstream, WhenFull};
use store::Kind;
use tokio::sync::mpsc;

use super::queue::{Place, Queue, Returning};
use super::record::{MessageMeta, decode_message, decode_state, encode_state};
use super::track::{Held, NEVER_S};
use super::{Discarded, FIXED_BYTES, Fate, Feedback, Lane, Ledger, Ordering, OutboxOptions, Outgoing, Ticket};
use crate::shard::journal::{Entry, Journal};

/// Bytes of messages that are read back at once, at most.
const LOADING_BYTES_MAX: u64 = 4 << 20;
/// Bytes that a queue of normal priority may send in a round of turns; one of high priority four times as many.
const SHARE_BYTES: i64 = 16 << 10;
/// Messages looked at in one turn for their age.
const EXPIRED_PER_TURN: usize = 1_024;
/// Seconds since 2020 are the first half of an epoch's number, so that it fits 63 bits until 2088.
const EPOCHS_BEGIN_UNIX_S: u64 = 1_577_836_800;

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
        let start = unix_s.saturating_sub(EPOCHS_BEGIN_UNIX_S).min(u64::from(u32::MAX >> 1));
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
}

/// What became of a message that was to be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is kept once this position is durable.
    Kept(Position),
    /// It was dropped, as its route wants it.
    Dropped,
    /// There is no room, and its sender is to be told.
    Refused,
}

/// A message that is being read back.
#[derive(Clone, Copy, Debug)]
struct Loading {
    queue: u32,
    place: Place,
    cost_bytes: u64,
}

/// The queues of one shard.
pub(crate) struct Queues {
    shard: u16,
    options: OutboxOptions,
    queues: BTreeMap<u32, Queue>,
    by_route: HashMap<(u32, Arc<str>), u32>,
    numbers: Arc<EpochNumbers>,
    /// Epochs of this start by queue.
    epochs: HashMap<u32, u64>,
    carrier: mpsc::UnboundedSender<Vec<Outgoing>>,
    /// What goes out at the end of the turn.
    leaving: Vec<Outgoing>,
    loading: HashMap<Position, Loading>,
    loading_bytes: u64,
    live_credit_bytes: i64,
    backlog_credit_bytes: i64,
    /// Bytes of all queues.
    bytes: u64,
    /// The queue whose turn it is.
    turn: u32,
    /// Queues whose state the log does not have yet.
    changed: Vec<u32>,
    /// When to look for messages that have waited too long, in seconds of the shard's clock.
    expires_at_s: u32,
}

/// Figures of a queue at one instant.
#[derive(Clone, Debug)]
pub struct QueueFigures {
    /// Its tenant.
    pub tenant: Arc<str>,
    /// The route that fills it.
    pub route: Arc<str>,
    /// What became of its messages.
    pub ledger: Ledger,
    /// Bytes that those which wait take in the log.
    pub bytes: u64,
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
            by_route: HashMap::new(),
            numbers,
            epochs: HashMap::new(),
            carrier,
            leaving: Vec::new(),
            loading: HashMap::new(),
            loading_bytes: 0,
            live_credit_bytes: 0,
            backlog_credit_bytes: 0,
            bytes: 0,
            turn: 0,
            changed: Vec::new(),
            expires_at_s: NEVER_S,
        }
    }

    /// The number of a route's queue, which is made if there is none, and goes on as `settings` say.
    pub(crate) fn queue_of(&mut self, tenant_number: u32, tenant: &Arc<str>, route: &str, settings: &Upstream) -> u32 {
        let key = (tenant_number, Arc::from(route));
        let number = match self.by_route.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.queues.last_key_value().map_or(0, |(last, _)| last + 1);
                let queue = Queue::new(tenant_number, Arc::clone(tenant), Arc::clone(&key.1));
                self.queues.insert(number, queue);
                self.by_route.insert(key, number);
                number
            }
        };
        self.queues.get_mut(&number).expect("is there").settings = *settings;
        number
    }

    /// Takes in a message. What becomes of it otherwise is counted here.
    pub(crate) fn take(&mut self, journal: &mut Journal, now: Now, incoming: Incoming) -> Taken {
        let number = incoming.queue;
        let has_room = self.make_room(number, incoming.body.len() as u64 + FIXED_BYTES);
        let kept = match has_room {
            true => self.keep(journal, now, incoming).ok_or(Discarded::LogFull),
            false => Err(Discarded::Full),
        };
        let queue = self.queues.get_mut(&number).expect("a queue of a route");
        let taken = match kept {
            Ok(position) => {
                queue.ledger.received += 1;
                return Taken::Kept(position);
            }
            Err(_) if queue.settings.full == WhenFull::Refuse => Taken::Refused,
            Err(why) => {
                queue.ledger.received += 1;
                queue.ledger.drop(why, 1);
                Taken::Dropped
            }
        };
        self.note_change(number);
        taken
    }

    /// Whether there is room, after the oldest messages have gone where their routes want that.
    fn make_room(&mut self, number: u32, bytes: u64) -> bool {
        let settings = self.queues[&number].settings;
        let limit_bytes = settings.limit_bytes.unwrap_or(u64::MAX);
        let drops_oldest = settings.full == WhenFull::DropOldest;
        while self.queues[&number].bytes + bytes > limit_bytes {
            if !(drops_oldest && self.drop_oldest(number)) {
                return false;
            }
        }
        while self.bytes + bytes > self.options.bytes {
            // Who has most gives way: a small queue loses nothing to a large one.
            let largest = self.queues.iter().filter(|(_, queue)| queue.waiting > 0);
            let largest = largest.max_by_key(|(_, queue)| queue.bytes).map(|(number, _)| *number);
            let Some(largest) = largest.filter(|largest| self.may_drop_for(*largest, number)) else {
                return false;
            };
            self.drop_oldest(largest);
        }
        true
    }

    /// Whether messages of `victim` go to make room for one of `other`.
    fn may_drop_for(&self, victim: u32, other: u32) -> bool {
        let (victim_queue, other_queue) = (&self.queues[&victim], &self.queues[&other]);
        victim_queue.settings.full == WhenFull::DropOldest
            && (victim == other || victim_queue.bytes > other_queue.bytes)
    }

    fn drop_oldest(&mut self, number: u32) -> bool {
        let oldest = self.queues.get_mut(&number).and_then(Queue::first_waiting);
        if let Some((place, _)) = oldest {
            self.change(number, |queue| queue.discard(place, Discarded::Full));
        }
        oldest.is_some()
    }

    /// Has the log keep a message, and sends it at once if it may go.
    fn keep(&mut self, journal: &mut Journal, now: Now, incoming: Incoming) -> Option<Position> {
        let number = incoming.queue;
        self.write_first_state(journal, number).ok()?;
        let epoch = *self.epochs.entry(number).or_insert_with(|| self.numbers.take());
        let goes_by = self.goes_by(number, epoch);
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
        self.change_quietly(number, |queue| queue.push(place, held));
        if let Some(lane) = goes_by {
            self.send(number, place, lane, incoming.body);
        }
        Some(position)
    }

    /// The lane by which a message goes that comes now; `None`: it has to wait.
    fn goes_by(&mut self, number: u32, epoch: u64) -> Option<Lane> {
        let queue = self.queues.get_mut(&number).expect("a queue of a route");
        match self.options.ordering {
            Ordering::LiveFirst => {
                let is_free = self.live_credit_bytes > 0 && !queue.is_live_lane_held_up(epoch);
                is_free.then_some(Lane::Live)
            }
            Ordering::Strict => {
                let is_free = self.backlog_credit_bytes > 0 && queue.waiting == 0 && queue.loading == 0;
                is_free.then_some(Lane::Backlog)
            }
        }
    }

    /// Sends a message at once, from memory.
    fn send(&mut self, number: u32, place: Place, lane: Lane, body: Vec<u8>) {
        let cost_bytes = (body.len() as u64 + FIXED_BYTES) as i64;
        match lane {
            Lane::Live => self.live_credit_bytes -= cost_bytes,
            Lane::Backlog => self.backlog_credit_bytes -= cost_bytes,
        }
        self.queues.get_mut(&number).expect("is there").mark_sent(place);
        self.leave(number, place, lane, body);
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
            body,
        });
    }

    /// What the carrier says.
    pub(crate) fn hear(&mut self, feedback: Feedback) {
        self.live_credit_bytes += feedback.live_bytes as i64;
        self.backlog_credit_bytes += feedback.backlog_bytes as i64;
        for (ticket, fate) in feedback.settled {
            let Ticket {
                queue, epoch, sequence, ..
            } = ticket;
            let place = Place { epoch, sequence };
            self.change(queue, |queue| match fate {
                Fate::Delivered => queue.deliver(place),
                Fate::Refused => queue.discard(place, Discarded::Refused),
                Fate::Returned => queue.mark_waiting(place),
            });
        }
    }

    /// A body that was asked for has come, or is lost. False if it was not asked for here.
    pub(crate) fn loaded(&mut self, position: Position, body: &mut Option<Vec<u8>>) -> bool {
        let Some(loading) = self.loading.remove(&position) else {
            return false;
        };
        self.loading_bytes -= loading.cost_bytes;
        self.change_quietly(loading.queue, |queue| queue.loading -= 1);
        match body.take() {
            Some(body) => self.leave(loading.queue, loading.place, Lane::Backlog, body),
            None => {
                self.backlog_credit_bytes += loading.cost_bytes as i64;
                self.change(loading.queue, |queue| queue.discard(loading.place, Discarded::Damaged));
            }
        }
        true
    }

    /// At the end of a turn: the log learns what changed, messages that wait are asked for as far as there is credit, and
    /// what goes out goes out.
    pub(crate) fn end_turn(&mut self, journal: &mut Journal, now: Now) {
        self.expire(now);
        self.load(journal, now);
        self.write_states(journal);
        if !self.leaving.is_empty() {
            // Without a carrier the hub is ending: the log has them all.
            let _ = self.carrier.send(std::mem::take(&mut self.leaving));
        }
    }

    fn load(&mut self, journal: &mut Journal, now: Now) {
        while self.backlog_credit_bytes > 0 && self.loading_bytes < LOADING_BYTES_MAX {
            let Some(number) = self.next_in_turn() else { return };
            let queue = self.queues.get_mut(&number).expect("found just now");
            let (place, held) = queue.first_waiting().expect("one waits");
            if held.expires_s <= seconds(now) {
                self.change(number, |queue| queue.discard(place, Discarded::Expired));
                continue;
            }
            let cost_bytes = held.bytes();
            queue.mark_sent(place);
            queue.loading += 1;
            queue.share_bytes -= cost_bytes as i64;
            self.backlog_credit_bytes -= cost_bytes as i64;
            self.loading_bytes += cost_bytes;
            let loading = Loading {
                queue: number,
                place,
                cost_bytes,
            };
            journal.load(queue.tenant_number, held.position);
            self.loading.insert(held.position, loading);
        }
    }

    /// The queue that sends next. Each has a share of bytes in its turn, so that none waits for ever for another.
    fn next_in_turn(&mut self) -> Option<u32> {
        let goes_on = |queue: &Queue| queue.waiting > 0 && queue.share_bytes > 0;
        if self.queues.get(&self.turn).is_some_and(goes_on) {
            return Some(self.turn);
        }
        let behind = self.queues.range(self.turn + 1..);
        let mut in_order = behind.chain(self.queues.range(..=self.turn));
        let next = in_order
            .find(|(_, queue)| queue.waiting > 0)
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
                let Some((place, held)) = queue.first_waiting() else {
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

    /// When something waits too long, on the shard's clock in milliseconds.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        (self.expires_at_s != NEVER_S).then_some(u64::from(self.expires_at_s) * 1_000)
    }

    fn write_states(&mut self, journal: &mut Journal) {
        for number in std::mem::take(&mut self.changed) {
            match self.write_state(journal, number) {
                Ok(()) => {
                    let queue = self.queues.get_mut(&number).expect("a queue that changed");
                    queue.is_changed = false;
                    queue.unneeded.drain(..).for_each(|position| journal.release(position));
                }
                // The log is full: what is not needed stays until it can be said.
                Err(Full) => self.changed.push(number),
            }
        }
    }

    fn write_first_state(&mut self, journal: &mut Journal, number: u32) -> Result<(), Full> {
        match self.queues[&number].position == Position::default() {
            true => self.write_state(journal, number),
            false => Ok(()),
        }
    }

    fn write_state(&mut self, journal: &mut Journal, number: u32) -> Result<(), Full> {
        let queue = self.queues.get_mut(&number).expect("a queue that changed");
        let mut bytes = Vec::new();
        encode_state(&queue.kept(), number, &mut bytes);
        let is_first = queue.position == Position::default();
        let kind = if is_first { Kind::Value } else { Kind::Replacement };
        let entry = Entry::OutboxState(&bytes);
        let old = std::mem::replace(
            &mut queue.position,
            journal.append(queue.tenant_number, kind, entry, &[])?,
        );
        if !is_first {
            journal.release(old);
        }
        Ok(())
    }

    /// The log moves the state of a queue.
    pub(crate) fn relocate_state(&mut self, journal: &mut Journal, meta: &[u8], from: Position) -> Result<(), Full> {
        match decode_state(meta) {
            Some((number, _)) if self.queues.get(&number).is_some_and(|queue| queue.position == from) => {
                self.write_state(journal, number)
            }
            _ => Ok(()),
        }
    }

    /// The log moves a message.
    pub(crate) fn relocate_message(
        &mut self,
        journal: &mut Journal,
        meta: &[u8],
        body: &[u8],
        from: Position,
    ) -> Result<(), Full> {
        let Some((number, message)) = decode_message(meta) else {
            return Ok(());
        };
        let Some(queue) = self
            .queues
            .get_mut(&number)
            .filter(|queue| queue.holds(message.place, from))
        else {
            return Ok(());
        };
        let entry = Entry::OutboxMessage(meta);
        let to = journal.append(queue.tenant_number, Kind::Replacement, entry, body)?;
        queue.relocate(message.place, from, to);
        journal.release(from);
        Ok(())
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
        let before_bytes = queue.bytes;
        let result = act(queue);
        self.bytes = self.bytes - before_bytes + queue.bytes;
        result
    }

    fn note_change(&mut self, number: u32) {
        let queue = self.queues.get_mut(&number).expect("a queue that is there");
        if !std::mem::replace(&mut queue.is_changed, true) {
            self.changed.push(number);
        }
    }

    /// What became of the messages of each queue.
    pub(crate) fn figures(&self) -> Vec<QueueFigures> {
        let figures = self.queues.values().map(|queue| QueueFigures {
            tenant: Arc::clone(&queue.tenant),
            route: Arc::clone(&queue.route),
            ledger: queue.ledger,
            bytes: queue.bytes,
        });
        figures.collect()
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

/// Queues while the log is read.
#[derive(Default)]
pub(crate) struct Restored {
    queues: BTreeMap<u32, (u32, Returning)>,
}

impl Restored {
    /// A queue's state.
    pub(crate) fn state(&mut self, tenant: u32, meta: &[u8], position: Position) {
        if let Some((number, kept)) = decode_state(meta) {
            self.queue(tenant, number).state(kept, position);
        }
    }

    /// A message of a queue.
    pub(crate) fn message(&mut self, tenant: u32, meta: &[u8], body_len: usize, position: Position, now: Now) {
        let Some((number, message)) = decode_message(meta) else {
            return;
        };
        let age_s = now.unix_ms.saturating_sub(message.received_ms) / 1_000;
        let left_s = |expiry_s: u32| u64::from(expiry_s).saturating_sub(age_s) as u32;
        let expires_s = message
            .expiry_s
            .map_or(NEVER_S, |s| seconds(now).saturating_add(left_s(s)));
        let held = Held::waiting(position, body_len + FIXED_BYTES as usize, expires_s);
        self.queue(tenant, number).message(message.place, held);
    }

    fn queue(&mut self, tenant: u32, number: u32) -> &mut Returning {
        let (_, queue) = self
            .queues
            .entry(number)
            .or_insert_with(|| (tenant, Returning::default()));
        queue
    }
}

impl Queues {
    /// Brings back what the log had. `name` knows the tenants by their numbers.
    pub(crate) fn bring_back(&mut self, restored: Restored, journal: &mut Journal, name: impl Fn(u32) -> Arc<str>) {
        for (number, (tenant, returning)) in restored.queues {
            let Some((queue, unneeded)) = returning.finish(tenant, name(tenant)) else {
                tracing::error!(
                    number,
                    "the state of a queue to the cloud is lost, and its messages with it"
                );
                continue;
            };
            unneeded.into_iter().for_each(|position| journal.release(position));
            queue.epoch_numbers().for_each(|epoch| self.numbers.saw(epoch));
            self.bytes += queue.bytes;
            self.expires_at_s = 0;
            self.by_route.insert((tenant, Arc::clone(&queue.route)), number);
            self.queues.insert(number, queue);
            self.changed.push(number);
        }
    }
}
