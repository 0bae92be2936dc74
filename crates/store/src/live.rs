//! The account of what is still needed.

use crate::position::Position;

/// What of some values is not released yet: of a batch, an index, a segment.
///
/// A segment goes once nothing in it is live, so this must not come to nothing early. Bytes alone would, where an owner
/// releases one value twice: they would stand for those of another that is still needed. So each value counts with a
/// number of its own as well, a hash of its position, and these sum up to zero only where each value was released
/// exactly once; any other releases do so by a chance of 1 in 2^64. That costs some instructions a record, and no
/// memory a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    /// Their rounded bytes.
    pub(crate) bytes: u64,
    /// Sum of the hashes of their positions, modulo 2^64.
    pub(crate) sum: u64,
}

impl Live {
    #[inline]
    pub(crate) fn add(&mut self, position: Position) {
        self.bytes += position.rounded_len();
        self.sum = self.sum.wrapping_add(hash(position));
    }

    #[inline]
    pub(crate) fn subtract(&mut self, position: Position) {
        self.bytes = self.bytes.saturating_sub(position.rounded_len());
        self.sum = self.sum.wrapping_sub(hash(position));
    }

    pub(crate) fn add_all(&mut self, other: Live) {
        self.bytes += other.bytes;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Whether every value was released, each once.
    pub(crate) fn is_nothing(self) -> bool {
        self == Live::default()
    }

    /// Whether as many bytes were released as there were, but not each value once: some of them may still be needed.
    pub(crate) fn is_miscounted(self) -> bool {
        self.bytes == 0 && self.sum != 0
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): linear in nothing, so that no few positions at
/// regular distances cancel each other out.
#[inline]
fn hash(position: Position) -> u64 {
    let mixed = (position.0 ^ (position.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions() -> impl Iterator<Item = Position> {
        (1..=100).map(|n| Position::of(n * 128, 128))
    }

    fn all() -> Live {
        let mut live = Live::default();
        positions().for_each(|position| live.add(position));
        live
    }

    #[test]
    fn nothing_is_live_once_each_value_was_released_in_whatever_order() {
        let mut live = all();
        let (odd, even): (Vec<_>, Vec<_>) = positions().partition(|position| position.offset() % 256 == 0);
        odd.into_iter().chain(even).for_each(|position| live.subtract(position));
        assert!(live.is_nothing() && !live.is_miscounted());
    }

    #[test]
    fn a_value_that_was_released_twice_does_not_stand_for_another() {
        let mut live = all();
        positions().take(50).for_each(|position| {
            live.subtract(position);
            live.subtract(position);
        });
        assert!(live.is_miscounted() && !live.is_nothing());
    }

    #[test]
    fn values_at_regular_distances_do_not_stand_for_each_other() {
        let [one, two, three] = [128, 256, 384].map(|offset| Position::of(offset, 128));
        let mut live = Live::default();
        [one, two, three].into_iter().for_each(|position| live.add(position));
        [two, two, two].into_iter().for_each(|position| live.subtract(position));
        assert!(live.is_miscounted());
    }
}
