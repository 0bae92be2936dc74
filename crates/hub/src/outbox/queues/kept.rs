//! What the log has of the queues.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{Full, Now, Position};
use store::Kind;

use super::super::queue::{Place, Returning};
use super::super::record::{decode_message, decode_state, encode_state};
use super::super::track::{Held, NEVER_S};
use super::super::{CLOCKS_BEGIN_UNIX_S, FIXED_BYTES};
use super::{Queues, seconds};
use crate::shard::journal::{Entry, Journal};

/// How long the log may not know of what was delivered, in milliseconds. Nobody waits to hear of it, and a state of its
/// own for every acknowledgement costs each a commit, and so a flush of the disk's cache. What is forgotten by a crash
/// is sent again, and known at the other end.
const TELLING_MS: u64 = 100;
/// Bytes of the log that are not given back meanwhile, at most.
const TELLING_BYTES: u64 = 1 << 20;

/// When the log is told of what changed.
#[derive(Debug)]
pub(super) struct Telling {
    due_ms: u64,
    /// Bytes of messages that the log need not keep any more.
    delivered_bytes: u64,
}

impl Telling {
    /// There is nothing to tell.
    pub(super) const NOTHING: Telling = Telling {
        due_ms: u64::MAX,
        delivered_bytes: 0,
    };

    /// A message of so many bytes was delivered.
    fn delivered(&mut self, now: Now, bytes: u64) {
        self.delivered_bytes += bytes;
        let waits_ms = if self.delivered_bytes > TELLING_BYTES {
            0
        } else {
            TELLING_MS
        };
        self.due_ms = self.due_ms.min(now.monotonic_ms + waits_ms);
    }

    pub(super) fn due_ms(&self) -> u64 {
        self.due_ms
    }
}

impl Queues {
    /// The other end has a message.
    pub(super) fn deliver(&mut self, number: u32, place: Place, now: Now) {
        if !self.queues.contains_key(&number) {
            return;
        }
        let before_bytes = self.bytes;
        self.change_quietly(number, |queue| queue.deliver(place));
        self.telling.delivered(now, before_bytes - self.bytes);
        self.list_changed(number);
    }

    /// The state of a queue is told at the end of this turn.
    pub(super) fn note_change(&mut self, number: u32) {
        self.telling.due_ms = 0;
        self.list_changed(number);
    }

    fn list_changed(&mut self, number: u32) {
        let queue = self.queues.get_mut(&number).expect("a queue that is there");
        if !std::mem::replace(&mut queue.is_changed, true) {
            self.changed.push(number);
        }
    }

    /// Tells the log what is due, and everything where that costs no commit of its own, or frees space that is short.
    pub(super) fn write_states_due(&mut self, journal: &mut Journal, now: Now) {
        if self.changed.is_empty() {
            return;
        }
        let is_due = self.telling.due_ms <= now.monotonic_ms;
        if is_due || journal.has_pending() || journal.is_making_room() {
            self.write_states(journal);
            if !self.changed.is_empty() {
                self.telling.due_ms = now.monotonic_ms + TELLING_MS;
            }
        }
    }

    /// Tells the log everything.
    pub(crate) fn write_states(&mut self, journal: &mut Journal) {
        self.telling = Telling::NOTHING;
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

    pub(super) fn write_first_state(&mut self, journal: &mut Journal, number: u32) -> Result<(), Full> {
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
        let received_s = message.received_ms / 1_000;
        let age_s = match received_s < CLOCKS_BEGIN_UNIX_S {
            true => 0,
            false => (now.unix_ms / 1_000).saturating_sub(received_s),
        };
        let left_s = |expiry_s: u32| u64::from(expiry_s).saturating_sub(age_s) as u32;
        let expires_s = message
            .expiry_s
            .map_or(NEVER_S, |s| seconds(now).saturating_add(left_s(s)));
        let held = Held::waiting(position, body_len + FIXED_BYTES as usize, expires_s);
        let came_s = i64::from(seconds(now)) - age_s as i64;
        self.queue(tenant, number).message(message.place, held, came_s);
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
            self.expires_at_s = 0;
            let source = (tenant, Arc::clone(&queue.route), queue.edge.clone());
            self.add(number, source, queue);
            self.note_change(number);
        }
    }
}
