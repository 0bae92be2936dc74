//! Messages that wait: in memory, in the log, or both. Each is there once, however many sessions wait for it.

use std::num::NonZeroU32;
use std::sync::Arc;

use crate::Position;
use crate::ids::{HeldId, IdMap, Slot};
use crate::slab::Slab;

/// The deadline of what never expires.
pub(crate) const NEVER_MS: u64 = u64::MAX;

/// A message that waits, or a record that stands for one.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// The message; `None` while only the log has it.
    pub(crate) body: Option<Arc<[u8]>>,
    /// Bytes of the message.
    pub(crate) len: u32,
    /// Its record; zero if it is not in the log.
    pub(crate) position: Position,
    /// Deadline on the monotonic clock.
    pub(crate) expires_at_ms: u64,
    /// How many deliveries need it.
    pub(crate) holders: u32,
    /// Its record is the only one that was ever made of it, so that it may be taken back before it is written.
    pub(crate) is_first_record: bool,
    /// It is retained, and in no queue.
    pub(crate) is_retained: bool,
}

impl Held {
    pub(crate) fn is_logged(&self) -> bool {
        self.position != Position(0)
    }

    /// A message that only this process knows.
    pub(crate) fn in_memory(body: Arc<[u8]>, expires_at_ms: u64) -> Self {
        Held {
            position: Position(0),
            ..Held::logged(Position(0), body.len(), Some(body), expires_at_ms)
        }
    }

    /// A record that was just made, which nobody holds yet.
    pub(crate) fn logged(position: Position, len: usize, body: Option<Arc<[u8]>>, expires_at_ms: u64) -> Self {
        let len = u32::try_from(len).expect("a packet is shorter than 2^28 bytes");
        Held {
            body,
            len,
            position,
            expires_at_ms,
            holders: 0,
            is_first_record: true,
            is_retained: false,
        }
    }
}

/// Bytes of messages in memory, or on their way there from the log.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// Of retained messages, which have a bound of their own.
    retained: u64,
    /// Of queued messages that the log has as well.
    logged: u64,
    /// Of all others.
    unlogged: u64,
}

impl Memory {
    /// Where a message counts.
    fn of(&mut self, held: &Held) -> &mut u64 {
        match (held.is_retained, held.is_logged()) {
            (true, _) => &mut self.retained,
            (false, true) => &mut self.logged,
            (false, false) => &mut self.unlogged,
        }
    }

    fn queued(&self) -> u64 {
        self.logged + self.unlogged
    }
}

/// All messages that wait.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    slab: Slab<Held>,
    /// What is being read back from the log, and the sessions that wait for it.
    loading: IdMap<u64, (HeldId, Vec<Slot>)>,
    memory: Memory,
    bytes: u64,
}

impl HeldMessages {
    /// Bytes of all messages in memory, or on their way there from the log.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.retained + self.memory.queued()
    }

    /// What is left of `bound` bytes for queued messages in memory.
    pub(crate) fn free_memory(&self, bound: u64) -> u64 {
        bound.saturating_sub(self.memory.queued())
    }

    /// Whether `len` bytes more that the log has may be in memory as well: half of `bound` is for what it has not.
    pub(crate) fn has_memory_for_logged(&self, len: u32, bound: u64) -> bool {
        let len = u64::from(len);
        self.memory.logged + len <= bound / 2 && len <= self.free_memory(bound)
    }

    /// Bytes of all messages, in memory or not, folded or not.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn insert(&mut self, held: Held) -> HeldId {
        *self.memory.of(&held) += memory_of(&held);
        self.bytes += u64::from(held.len);
        let index = self.slab.insert(held);
        HeldId(NonZeroU32::new(index + 1).expect("counts from one"))
    }

    /// Forgets a message that one queue alone needs and knows the record of, but for its bytes.
    pub(crate) fn fold(&mut self, id: HeldId) {
        let held = self.slab.take(index(id));
        debug_assert!(held.body.is_none() && held.holders == 1, "nobody else needs it");
    }

    /// A message of which a queue has known the record so far.
    pub(crate) fn unfold(&mut self, held: Held) -> HeldId {
        self.bytes -= u64::from(held.len);
        self.insert(held)
    }

    /// Counts the bytes of a message that one queue knows the record of.
    pub(crate) fn add_folded(&mut self, len: u32) {
        self.bytes += u64::from(len);
    }

    /// Such a message is needed no more.
    pub(crate) fn drop_folded(&mut self, len: u32) {
        self.bytes -= u64::from(len);
    }

    pub(crate) fn get(&self, id: HeldId) -> &Held {
        self.slab.get(index(id))
    }

    /// For changes that leave `body` as it is.
    pub(crate) fn get_mut(&mut self, id: HeldId) -> &mut Held {
        self.slab.get_mut(index(id))
    }

    /// One delivery less needs it; true if that was the last.
    pub(crate) fn let_go(&mut self, id: HeldId) -> bool {
        let held = self.get_mut(id);
        held.holders -= 1;
        if held.holders > 0 {
            return false;
        }
        let held = self.slab.take(index(id));
        let was_loading = self.loading.remove(&held.position.0).is_some();
        let in_memory = if was_loading {
            u64::from(held.len)
        } else {
            memory_of(&held)
        };
        *self.memory.of(&held) -= in_memory;
        self.bytes -= u64::from(held.len);
        true
    }

    /// The session waits for the message to be read back; true if that has to be asked for. It counts as in memory
    /// from then on.
    pub(crate) fn wait_for(&mut self, id: HeldId, slot: Slot) -> bool {
        let held = self.slab.get(index(id));
        let (_, waiting) = self.loading.entry(held.position.0).or_insert_with(|| (id, Vec::new()));
        let first = waiting.is_empty();
        if first {
            *self.memory.of(held) += u64::from(held.len);
        }
        if !waiting.contains(&slot) {
            waiting.push(slot);
        }
        first
    }

    /// Whether the message is being read back.
    pub(crate) fn is_loading(&self, id: HeldId) -> bool {
        self.loading.contains_key(&self.get(id).position.0)
    }

    /// Whether the session waits for the message to be read back.
    pub(crate) fn is_awaited_by(&self, id: HeldId, slot: Slot) -> bool {
        let loading = self.loading.get(&self.get(id).position.0);
        loading.is_some_and(|(_, waiting)| waiting.contains(&slot))
    }

    /// The message has been read back; the sessions that waited for it.
    pub(crate) fn loaded(&mut self, position: Position, body: &[u8]) -> Vec<Slot> {
        let Some((id, waiting)) = self.loading.remove(&position.0) else {
            return Vec::new();
        };
        let held = self.slab.get_mut(index(id));
        held.body = Some(body.into());
        let count = self.memory.of(held);
        *count = *count - u64::from(held.len) + body.len() as u64;
        waiting
    }

    /// Leaves a message to the log alone, if that has it.
    pub(crate) fn unload(&mut self, id: HeldId) {
        let held = self.slab.get_mut(index(id));
        if held.is_logged() {
            *self.memory.of(held) -= memory_of(held);
            held.body = None;
        }
    }

    /// Its record stands at another place now.
    pub(crate) fn moved(&mut self, id: HeldId, position: Position) {
        let held = self.get_mut(id);
        held.position = position;
        held.is_first_record = false;
    }
}

fn index(id: HeldId) -> u32 {
    id.0.get() - 1
}

fn memory_of(held: &Held) -> u64 {
    held.body.as_ref().map_or(0, |body| body.len() as u64)
}
