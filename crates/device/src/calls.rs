//! The method calls of one tenant that wait for their result.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::deadlines::Deadlines;

/// Longest time in milliseconds that a caller may have a device take for its answer.
pub const LONGEST_TIMEOUT_MS: u64 = 600_000;

/// Calls that ran into their deadline and are remembered, so that a late result is told from one that nobody asked for.
const REMEMBERED_TIMEOUTS: usize = 256;

/// What identifies a call: an id may be used again once it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallId<'a> {
    /// The device that is called.
    pub device: &'a str,
    /// The method.
    pub name: &'a str,
    /// The caller's id of the call.
    pub call: &'a str,
}

impl CallId<'_> {
    fn bytes(&self) -> usize {
        self.device.len() + self.name.len() + self.call.len()
    }
}

/// Why a call was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The same id of the same method of the same device still waits.
    InUse,
    /// The tenant has this many calls waiting, which is its limit.
    Full {
        /// The limit.
        limit: usize,
    },
    /// With this one, the tenant's calls that wait would take more bytes than they may.
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
}

/// Bounds of the calls of one tenant that wait at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLimits {
    /// Calls.
    pub calls: usize,
    /// Bytes of their ids and of what their callers have kept with them.
    pub bytes: usize,
}

impl Default for CallLimits {
    fn default() -> Self {
        CallLimits {
            calls: 10_000,
            bytes: 16 << 20,
        }
    }
}

/// A call that was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotStarted<C> {
    /// Why.
    pub why: StartError,
    /// Whose it is.
    pub caller: C,
}

/// What a result belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished<C> {
    /// A call that waited, of this caller. Its id is free again.
    Answered(C),
    /// A call that ran into its deadline before: drop and count it.
    Late,
    /// No call of this table: drop and count it.
    Unknown,
}

/// A call that nobody answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout<'a, C> {
    /// Which.
    pub id: CallId<'a>,
    /// Whose.
    pub caller: C,
}

/// The waiting calls of one tenant, each with its caller `C`, within [`CallLimits`].
///
/// Once it has held as many calls as it will, it allocates no more, but to lengthen a name.
#[derive(Debug)]
pub struct Calls<C> {
    slots: Vec<Slot<C>>,
    free: Vec<u32>,
    by_id: HashTable<u32>,
    hasher: RandomState,
    deadlines: Deadlines,
    timed_out: VecDeque<u64>,
    limits: CallLimits,
    bytes: usize,
}

#[derive(Debug)]
struct Slot<C> {
    /// `device/name/call`; no part has a slash in it.
    key: String,
    name_at: usize,
    call_at: usize,
    hash: u64,
    /// What the call counts as.
    bytes: usize,
    /// `None` while the slot is free.
    caller: Option<C>,
}

impl<C> Calls<C> {
    /// A table without calls.
    #[must_use]
    pub fn new(limits: CallLimits) -> Self {
        Calls {
            slots: Vec::new(),
            free: Vec::new(),
            by_id: HashTable::new(),
            hasher: RandomState::new(),
            deadlines: Deadlines::default(),
            timed_out: VecDeque::new(),
            limits,
            bytes: 0,
        }
    }

    /// Calls that wait now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Begins to wait for the result of a call until `deadline_ms`. Its caller has `kept_bytes` kept with it. If the
    /// device turns out to be away, [`Calls::finish`] takes it back.
    ///
    /// # Errors
    /// The id waits already, or too many calls do, or they would take too many bytes.
    pub fn start(
        &mut self,
        id: CallId<'_>,
        caller: C,
        kept_bytes: usize,
        deadline_ms: u64,
    ) -> Result<(), NotStarted<C>> {
        let hash = self.hash(id);
        let bytes = id.bytes() + kept_bytes;
        if let Err(why) = self.check(hash, id, bytes) {
            return Err(NotStarted { why, caller });
        }
        self.bytes += bytes;
        let slot = self.free.pop().unwrap_or_else(|| self.grow());
        self.slots[slot as usize].fill(id, hash, bytes, caller);
        self.by_id
            .insert_unique(hash, slot, |slot| self.slots[*slot as usize].hash);
        self.deadlines.insert(slot, deadline_ms);
        Ok(())
    }

    fn check(&self, hash: u64, id: CallId<'_>, bytes: usize) -> Result<(), StartError> {
        let CallLimits {
            calls,
            bytes: limit_bytes,
        } = self.limits;
        if self.find(hash, id).is_some() {
            return Err(StartError::InUse);
        }
        if self.len() >= calls {
            return Err(StartError::Full { limit: calls });
        }
        if self.bytes + bytes > limit_bytes {
            return Err(StartError::TooLarge { limit_bytes });
        }
        Ok(())
    }

    /// Takes in the result of a call.
    pub fn finish(&mut self, id: CallId<'_>) -> Finished<C> {
        let hash = self.hash(id);
        match self.find(hash, id) {
            Some(slot) => Finished::Answered(self.take(slot)),
            None if self.timed_out.contains(&hash) => Finished::Late,
            None => Finished::Unknown,
        }
    }

    /// When the next call runs out, on the clock of the deadlines.
    #[must_use]
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.next_ms()
    }

    /// The next call whose deadline has come; ask until there is none.
    pub fn next_timeout(&mut self, now_ms: u64) -> Option<Timeout<'_, C>> {
        let slot = self.deadlines.due(now_ms)?;
        if self.timed_out.len() == REMEMBERED_TIMEOUTS {
            self.timed_out.pop_front();
        }
        self.timed_out.push_back(self.slots[slot as usize].hash);
        let caller = self.take(slot);
        Some(Timeout {
            id: self.slots[slot as usize].id(),
            caller,
        })
    }

    fn hash(&self, id: CallId<'_>) -> u64 {
        self.hasher.hash_one(id)
    }

    fn find(&self, hash: u64, id: CallId<'_>) -> Option<u32> {
        self.by_id
            .find(hash, |slot| self.slots[*slot as usize].id() == id)
            .copied()
    }

    fn grow(&mut self) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("fewer calls than connections");
        self.slots.push(Slot {
            key: String::new(),
            name_at: 0,
            call_at: 0,
            hash: 0,
            bytes: 0,
            caller: None,
        });
        slot
    }

    fn take(&mut self, slot: u32) -> C {
        let hash = self.slots[slot as usize].hash;
        self.by_id
            .find_entry(hash, |found| *found == slot)
            .expect("an occupied slot is indexed")
            .remove();
        self.deadlines.remove(slot);
        self.free.push(slot);
        self.bytes -= self.slots[slot as usize].bytes;
        self.slots[slot as usize]
            .caller
            .take()
            .expect("an occupied slot has a caller")
    }
}

impl<C> Slot<C> {
    fn fill(&mut self, id: CallId<'_>, hash: u64, bytes: usize, caller: C) {
        self.key.clear();
        self.key.push_str(id.device);
        self.key.push('/');
        self.name_at = self.key.len();
        self.key.push_str(id.name);
        self.key.push('/');
        self.call_at = self.key.len();
        self.key.push_str(id.call);
        self.hash = hash;
        self.bytes = bytes;
        self.caller = Some(caller);
    }

    fn id(&self) -> CallId<'_> {
        CallId {
            device: &self.key[..self.name_at - 1],
            name: &self.key[self.name_at..self.call_at - 1],
            call: &self.key[self.call_at..],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CallId, CallLimits, Calls, Finished, NotStarted, StartError, Timeout};

    fn id<'a>(name: &'a str, call: &'a str) -> CallId<'a> {
        CallId {
            device: "pump-7",
            name,
            call,
        }
    }

    fn calls_of<C>(calls: usize) -> Calls<C> {
        Calls::new(CallLimits { calls, bytes: 1_000 })
    }

    #[test]
    fn a_result_finds_its_caller_once() {
        let mut calls = calls_of(10);
        calls.start(id("stop", "1"), 'a', 0, 5000).unwrap();
        calls.start(id("stop", "2"), 'b', 0, 5000).unwrap();
        calls.start(id("start", "1"), 'c', 0, 5000).unwrap();
        assert_eq!(calls.finish(id("stop", "2")), Finished::Answered('b'));
        assert_eq!(calls.finish(id("stop", "2")), Finished::Unknown);
        assert_eq!(calls.finish(id("start", "1")), Finished::Answered('c'));
        assert_eq!(
            calls.finish(CallId {
                device: "pump-8",
                ..id("stop", "1")
            }),
            Finished::Unknown
        );
        assert_eq!(calls.len(), 1);
    }

    #[test]
    fn an_id_may_be_used_again_once_it_is_answered_and_not_before() {
        let mut calls = calls_of(10);
        calls.start(id("stop", "1"), 'a', 0, 5000).unwrap();
        let (why, caller) = (StartError::InUse, 'b');
        assert_eq!(
            calls.start(id("stop", "1"), 'b', 0, 5000),
            Err(NotStarted { why, caller })
        );
        assert_eq!(calls.finish(id("stop", "1")), Finished::Answered('a'));
        assert_eq!(calls.start(id("stop", "1"), 'c', 0, 5000), Ok(()));
        assert_eq!(calls.finish(id("stop", "1")), Finished::Answered('c'));
    }

    #[test]
    fn calls_run_out_at_their_deadline_in_its_order() {
        let mut calls = calls_of(10);
        calls.start(id("stop", "1"), 'a', 0, 5000).unwrap();
        calls.start(id("stop", "2"), 'b', 0, 3000).unwrap();
        calls.start(id("stop", "3"), 'c', 0, 4000).unwrap();
        assert_eq!(calls.finish(id("stop", "3")), Finished::Answered('c'));
        assert_eq!(calls.next_deadline_ms(), Some(3000));
        assert_eq!(calls.next_timeout(2999), None);
        assert_eq!(
            calls.next_timeout(6000),
            Some(Timeout {
                id: id("stop", "2"),
                caller: 'b'
            })
        );
        assert_eq!(
            calls.next_timeout(6000),
            Some(Timeout {
                id: id("stop", "1"),
                caller: 'a'
            })
        );
        assert_eq!(calls.next_timeout(6000), None);
        assert_eq!((calls.next_deadline_ms(), calls.is_empty()), (None, true));
    }

    #[test]
    fn a_result_after_the_deadline_is_late_not_unknown() {
        let mut calls = calls_of(10);
        calls.start(id("stop", "1"), 'a', 0, 1).unwrap();
        assert!(calls.next_timeout(1).is_some());
        assert_eq!(calls.finish(id("stop", "1")), Finished::Late);
        assert_eq!(calls.finish(id("stop", "2")), Finished::Unknown);
    }

    #[test]
    fn the_limit_refuses_one_more_and_frees_with_each_answer() {
        let mut calls = calls_of(2);
        calls.start(id("stop", "1"), 'a', 0, 1).unwrap();
        calls.start(id("stop", "2"), 'b', 0, 2).unwrap();
        let (why, caller) = (StartError::Full { limit: 2 }, 'c');
        assert_eq!(calls.start(id("stop", "3"), 'c', 0, 3), Err(NotStarted { why, caller }));
        calls.finish(id("stop", "1"));
        assert_eq!(calls.start(id("stop", "3"), 'c', 0, 3), Ok(()));
    }

    #[test]
    fn the_bytes_of_all_that_wait_are_bounded_and_freed_with_each_end() {
        let mut calls = calls_of(10);
        calls.start(id("stop", "1"), 'a', 600, 1).unwrap();
        calls.start(id("stop", "2"), 'b', 300, 2).unwrap();
        let (why, caller) = (StartError::TooLarge { limit_bytes: 1_000 }, 'c');
        // The ids of each are 11 bytes: 922 are taken.
        let refused = calls.start(id("stop", "3"), 'c', 68, 3);
        assert_eq!(refused, Err(NotStarted { why, caller }));
        assert_eq!(calls.start(id("stop", "3"), 'c', 67, 3), Ok(()));
        assert!(calls.next_timeout(1).is_some());
        assert_eq!(calls.start(id("stop", "4"), 'd', 600, 4), Ok(()));
        for call in ["2", "3", "4"] {
            assert!(matches!(calls.finish(id("stop", call)), Finished::Answered(_)));
        }
        assert_eq!(calls.bytes, 0);
    }

    #[test]
    fn slots_are_used_again_so_that_the_table_does_not_grow() {
        let mut calls = calls_of(1000);
        for round in 0..1000u64 {
            let (one, two) = (round.to_string(), (round + 7).to_string());
            calls.start(id("stop", &one), round, 0, round).unwrap();
            calls.start(id("start", &two), round, 0, round + 9).unwrap();
            assert_eq!(calls.next_timeout(round).map(|t| t.caller), Some(round));
            assert_eq!(calls.finish(id("start", &two)), Finished::Answered(round));
        }
        assert_eq!((calls.slots.len(), calls.timed_out.len()), (2, 256));
    }
}
