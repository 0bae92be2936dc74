//! The deadlines of the occupied slots of a table, earliest first.

/// A binary heap whose entries know where they stand, so that an answered call leaves nothing behind: its size is
/// that of the table at all times.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    heap: Vec<Entry>,
    /// Where in `heap` each slot's entry is; meaningless for slots without one.
    places: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline_ms: u64,
    slot: u32,
}

impl Deadlines {
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.heap.first().map(|entry| entry.deadline_ms)
    }

    /// The slot with the earliest deadline, if that has come.
    pub(crate) fn due(&self, now_ms: u64) -> Option<u32> {
        self.heap
            .first()
            .filter(|entry| entry.deadline_ms <= now_ms)
            .map(|entry| entry.slot)
    }

    /// The slot has no deadline yet.
    pub(crate) fn insert(&mut self, slot: u32, deadline_ms: u64) {
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, u32::MAX);
        }
        self.heap.push(Entry { deadline_ms, slot });
        self.rise(self.heap.len() - 1);
    }

    /// The slot has a deadline.
    pub(crate) fn remove(&mut self, slot: u32) {
        let at = self.places[slot as usize] as usize;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.rise(at);
            self.sink(self.places[self.heap[at].slot as usize] as usize);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].deadline_ms <= self.heap[at].deadline_ms {
                break;
            }
            self.swap(at, parent);
            at = parent;
        }
        self.note(at);
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = (2 * at + 1)..(2 * at + 3).min(self.heap.len());
            let Some(child) = children.min_by_key(|child| self.heap[*child].deadline_ms) else {
                break;
            };
            if self.heap[at].deadline_ms <= self.heap[child].deadline_ms {
                break;
            }
            self.swap(at, child);
            at = child;
        }
        self.note(at);
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.note(a);
        self.note(b);
    }

    fn note(&mut self, at: usize) {
        let place = u32::try_from(at).expect("a heap is no longer than its table");
        self.places[self.heap[at].slot as usize] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::Deadlines;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_earliest_deadline_comes_first_whatever_was_removed(
            deadlines in prop::collection::vec(0u64..50, 1..60),
            removed in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let mut expected: Vec<Option<u64>> = deadlines.iter().copied().map(Some).collect();
            let mut heap = Deadlines::default();
            for (slot, deadline_ms) in deadlines.iter().enumerate() {
                heap.insert(u32::try_from(slot).unwrap(), *deadline_ms);
            }
            for index in removed {
                let slot = index.index(deadlines.len());
                if expected[slot].take().is_some() {
                    heap.remove(u32::try_from(slot).unwrap());
                }
            }
            while let Some(earliest) = expected.iter().flatten().copied().min() {
                prop_assert_eq!(heap.next_ms(), Some(earliest));
                prop_assert_eq!(earliest.checked_sub(1).and_then(|before| heap.due(before)), None);
                let slot = heap.due(earliest).unwrap();
                prop_assert_eq!(expected[slot as usize].take(), Some(earliest));
                heap.remove(slot);
            }
            prop_assert_eq!(heap.next_ms(), None);
        }
    }
}
