//! How the broker names its own things: small numbers that it gave itself, never a client's.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::num::{NonZeroU32, NonZeroU64};

/// A session's place in the table of sessions; used again once that session has ended.
pub(crate) type Slot = u32;

/// A waiting message's place among the waiting; used again once nobody waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HeldId(pub(crate) NonZeroU32);

/// A group of a shared subscription; never used again, over restarts too: a client that founds a million in a second
/// has numbers for half a million years.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct GroupId(pub(crate) NonZeroU64);

/// A map whose keys no client chooses, so that a cheap hash cannot be attacked.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Spreads one integer by a multiplication (Knuth, TAOCP 6.4).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}
