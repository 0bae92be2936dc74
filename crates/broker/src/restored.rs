//! What the log has of one session, while its records are read.

use std::collections::{BTreeMap, VecDeque};

use mqtt::{PacketId, SubscriptionOptions};

use crate::held::HeldMessages;
use crate::ids::{GroupId, IdMap};
use crate::outgoing::{Delivery, Outgoing, State};
use crate::queue::{Entry, Queue, What};
use crate::session::Will;
use crate::{Position, SessionId};

/// Numbers that are not used after a crash, so that a client does not take a new message of QoS 2 for one that it had
/// received under the same packet identifier. How many it had received nobody knows: what is sent from memory alone
/// leaves nothing in the log. This is the golden section of the identifiers: as far as can be from all that were used,
/// however often there is a crash.
const SKIPPED: u64 = 40_503;

/// All sessions of which the log has something.
#[derive(Debug, Default)]
pub(crate) struct RestoredSessions {
    sessions: Vec<(SessionId, Restored)>,
    by_id: IdMap<u64, usize>,
    /// The one that was asked for last: records of one session tend to follow one another.
    last: usize,
}

impl RestoredSessions {
    #[inline]
    pub(crate) fn get(&mut self, id: SessionId) -> &mut Restored {
        if self.sessions.get(self.last).is_none_or(|(last, _)| *last != id) {
            self.last = *self.by_id.entry(id.0).or_insert_with(|| {
                self.sessions.push((id, Restored::default()));
                self.sessions.len() - 1
            });
        }
        &mut self.sessions[self.last].1
    }

    /// By id.
    pub(crate) fn into_sorted(mut self) -> Vec<(SessionId, Restored)> {
        self.sessions.sort_unstable_by_key(|(id, _)| *id);
        self.sessions
    }
}

/// What the log has of one session.
#[derive(Debug, Default)]
pub(crate) struct Restored {
    /// Its own record; without it, the rest is of a session that is gone.
    pub(crate) found: Option<Found>,
    pub(crate) subscriptions: BTreeMap<Box<str>, RestoredSubscription>,
    pub(crate) received: BTreeMap<PacketId, Position>,
    pub(crate) messages: RestoredMessages,
}

/// A session's own record.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) position: Position,
    pub(crate) owner: Box<str>,
    pub(crate) client_id: Box<str>,
    pub(crate) expiry_s: u32,
    pub(crate) ended_unix_ms: Option<u64>,
    pub(crate) sent_seq: u64,
    pub(crate) next_seq: u64,
    pub(crate) will: Option<Box<Will>>,
}

/// A subscription's record.
#[derive(Debug)]
pub(crate) struct RestoredSubscription {
    pub(crate) position: Position,
    pub(crate) options: SubscriptionOptions,
    pub(crate) id: u32,
    pub(crate) group: Option<GroupId>,
}

/// A session's messages, in the order of the log. Mostly that is the order of their numbers as well, so that a queue
/// is back once it is read; where the log has moved old records behind new ones it is sorted, and of two records of
/// one number the later one counts.
#[derive(Debug, Default)]
pub(crate) struct RestoredMessages {
    waiting: Vec<Entry>,
    /// Bytes of them.
    bytes: u64,
    /// Whether one of them has no larger number than the one before.
    is_disordered: bool,
    /// Whether one of them is no [`What::Logged`].
    has_deliveries: bool,
    /// PUBREL is owed for these.
    released: Vec<Delivery>,
    /// Numbers of those that are over.
    done: Vec<u64>,
}

/// Records that nothing needs.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    pub(crate) positions: Vec<Position>,
}

impl Garbage {
    /// A delivery is not needed.
    pub(crate) fn let_go(&mut self, delivery: &Delivery, held: &mut HeldMessages) {
        let Some(id) = delivery.held else { return };
        let position = held.get(id).position;
        if held.let_go(id) {
            self.positions.push(position);
        }
    }

    fn take(&mut self, entry: &Entry, held: &mut HeldMessages) {
        match &entry.what {
            What::Logged(logged) => {
                held.drop_folded(logged.len);
                self.positions.push(logged.position);
            }
            What::Delivery(delivery) => self.let_go(delivery, held),
        }
    }
}

impl RestoredMessages {
    /// A message of `len` bytes that the session is to get.
    #[inline]
    pub(crate) fn push(&mut self, entry: Entry, len: u32) {
        self.is_disordered |= self.waiting.last().is_some_and(|last| last.seq >= entry.seq);
        self.has_deliveries |= matches!(entry.what, What::Delivery(_));
        self.bytes += u64::from(len);
        self.waiting.push(entry);
    }

    /// The session has this message; PUBREL is owed.
    pub(crate) fn push_released(&mut self, delivery: Delivery) {
        self.released.push(delivery);
    }

    /// The session needs the message with this number no more.
    pub(crate) fn push_done(&mut self, seq: u64) {
        self.done.push(seq);
    }

    /// The largest number that was ever given, as far as the log knows.
    fn newest_seq(&self) -> u64 {
        let waiting = match self.is_disordered {
            true => self.waiting.iter().map(|entry| entry.seq).max(),
            false => self.waiting.last().map(|entry| entry.seq),
        };
        let released = self.released.iter().map(|delivery| delivery.seq);
        let others = self.done.iter().copied().chain(released).max();
        waiting.max(others).unwrap_or(0)
    }

    /// What the session has to send, as its own record says how far it had come. The client of a connection that was
    /// open may have received messages of which the log knows nothing: [`SKIPPED`] numbers are not used.
    pub(crate) fn into_outgoing(mut self, found: &Found, held: &mut HeldMessages, garbage: &mut Garbage) -> Outgoing {
        let newest_seq = self.newest_seq();
        let sent_seq = found.sent_seq.min(newest_seq);
        let skipped = if found.ended_unix_ms.is_none() { SKIPPED } else { 0 };
        let next_seq = found.next_seq.max(newest_seq + 1) + skipped;
        self.done.sort_unstable();
        let released = self.take_released(held, garbage);
        self.sort(held, garbage);
        self.drop_done(held, garbage);
        if self.has_deliveries {
            self.waiting.iter_mut().for_each(|entry| entry.restore_state(sent_seq));
        }
        Outgoing::restored(Queue::restored(self.waiting, self.bytes), released, next_seq, sent_seq)
    }

    /// Those whose PUBREL is still owed; for none of them the message itself is needed.
    fn take_released(&mut self, held: &mut HeldMessages, garbage: &mut Garbage) -> VecDeque<Delivery> {
        let mut released = std::mem::take(&mut self.released);
        released.sort_by_key(|delivery| delivery.seq);
        let owed: VecDeque<_> = last_of_each(released, |delivery| delivery.seq, |old| garbage.let_go(&old, held))
            .into_iter()
            .filter(|delivery| {
                let is_over = self.done.binary_search(&delivery.seq).is_ok();
                if is_over {
                    garbage.let_go(delivery, held);
                }
                !is_over
            })
            .collect();
        self.done.extend(owed.iter().map(|delivery| delivery.seq));
        self.done.sort_unstable();
        owed
    }

    fn sort(&mut self, held: &mut HeldMessages, garbage: &mut Garbage) {
        if !self.is_disordered {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|entry| entry.seq);
        let bytes = &mut self.bytes;
        self.waiting = last_of_each(
            waiting,
            |entry| entry.seq,
            |old| {
                *bytes -= u64::from(old.len(held));
                garbage.take(&old, held);
            },
        );
    }

    fn drop_done(&mut self, held: &mut HeldMessages, garbage: &mut Garbage) {
        let mut done = self.done.iter().copied().peekable();
        let bytes = &mut self.bytes;
        if done.peek().is_none() {
            return;
        }
        self.waiting.retain(|entry| {
            while done.next_if(|seq| *seq < entry.seq).is_some() {}
            let is_over = done.peek() == Some(&entry.seq);
            if is_over {
                *bytes -= u64::from(entry.len(held));
                garbage.take(entry, held);
            }
            !is_over
        });
    }

    /// The session is gone: nothing of it is needed.
    pub(crate) fn discard(self, held: &mut HeldMessages, garbage: &mut Garbage) {
        self.waiting.iter().for_each(|entry| garbage.take(entry, held));
        self.released.iter().for_each(|delivery| garbage.let_go(delivery, held));
    }
}

impl Entry {
    fn restore_state(&mut self, sent_seq: u64) {
        if let What::Delivery(delivery) = &mut self.what {
            delivery.state = State::before(self.seq, sent_seq);
        }
    }
}

/// Of entries with the same key, which follow one another, the last; the others are `let_go`.
fn last_of_each<T>(sorted: Vec<T>, key: impl Fn(&T) -> u64, mut let_go: impl FnMut(T)) -> Vec<T> {
    let mut last: Vec<T> = Vec::with_capacity(sorted.len());
    for entry in sorted {
        match last.last_mut() {
            Some(before) if key(before) == key(&entry) => let_go(std::mem::replace(before, entry)),
            _ => last.push(entry),
        }
    }
    last
}
