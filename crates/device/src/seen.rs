//! Who made an edit, and which edits a document has in it. No clock is needed for either.
//!
//! A side counts its edits of a document. Brought back from a backup, it has forgotten how far it had come and counts
//! from there once more, which nobody can tell it beforehand. So each start of a hub has a number of its own, and an
//! edit is known by that and its count: an edit of yesterday that only the other side has is never taken for one
//! of today.

/// Starts of each side's hub that a document tells apart: those in which it was edited last. An edit of an earlier one
/// counts as seen.
const STARTS_MAX: usize = 8;
/// The lower half of the number of a start is random; what else the number says is only which of two was later.
const RANDOM: u64 = 0xffff_ffff;

/// Where an edit was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// At the edge, which has the last word.
    Edge,
    /// In the cloud.
    Cloud,
}

/// Who edits: a side, since one start of its hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Author {
    /// Where.
    pub side: Side,
    /// The number of the start: seconds of any clock above, 32 random bits below.
    pub start: u64,
}

/// An edit: the counter-th of its side, as far as that side knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The start of the hub in which it was made; 0: one of a version that did not tell.
    pub start: u64,
    /// 1 is the side's first edit of the document.
    pub counter: u64,
    /// Who made it.
    pub side: Side,
}

/// The edits that a document has in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub(crate) edge: Edits,
    pub(crate) cloud: Edits,
}

/// Edits of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edits {
    /// All of starts with a lower number are among them.
    pub(crate) below: u64,
    /// How many those are.
    pub(crate) earlier: u64,
    /// By their numbers.
    pub(crate) starts: Vec<Start>,
}

/// Edits of one start of a side's hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) number: u64,
    /// Edits of the side that were in the document before.
    pub(crate) before: u64,
    /// The counter of the last one.
    pub(crate) last: u64,
}

impl Author {
    /// A side whose hub starts now: `seconds` of any clock, and a number that no other start draws.
    #[must_use]
    pub fn starting(side: Side, seconds: u32, random: u32) -> Self {
        Self {
            side,
            start: u64::from(seconds) << 32 | u64::from(random.max(1)),
        }
    }
}

/// The author of a document that lives no longer than its hub.
impl From<Side> for Author {
    fn from(side: Side) -> Self {
        Self { side, start: 0 }
    }
}

impl Seen {
    /// Whether the edit of this stamp is among those seen.
    #[must_use]
    pub fn covers(&self, stamp: Stamp) -> bool {
        let edits = self.of(stamp.side);
        match edits.starts.iter().find(|start| start.number == stamp.start) {
            Some(start) => start.last >= stamp.counter,
            None => stamp.start < edits.below,
        }
    }

    /// How many they are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.edge.count().saturating_add(self.cloud.count())
    }

    pub(crate) fn of(&self, side: Side) -> &Edits {
        match side {
            Side::Edge => &self.edge,
            Side::Cloud => &self.cloud,
        }
    }

    pub(crate) fn of_mut(&mut self, side: Side) -> &mut Edits {
        match side {
            Side::Edge => &mut self.edge,
            Side::Cloud => &mut self.cloud,
        }
    }

    pub(crate) fn both(&self, other: &Seen) -> Seen {
        Seen {
            edge: self.edge.both(&other.edge),
            cloud: self.cloud.both(&other.cloud),
        }
    }

    /// The stamp of the author's next edit.
    pub(crate) fn next(&self, author: Author) -> Stamp {
        let edits = self.of(author.side);
        let (start, before) = match edits.of_run(author.start) {
            Some(start) => (start.number, start.last),
            None => (edits.later(author.start), edits.count()),
        };
        Stamp {
            side: author.side,
            start,
            // The other side may say any number.
            counter: before.saturating_add(1),
        }
    }

    /// The edit that [`Seen::next`] gave a stamp was made.
    pub(crate) fn add(&mut self, stamp: Stamp) {
        let edits = self.of_mut(stamp.side);
        match edits.starts.last_mut().filter(|last| last.number == stamp.start) {
            Some(start) => start.last = stamp.counter,
            None => edits.starts.push(Start {
                number: stamp.start,
                before: stamp.counter - 1,
                last: stamp.counter,
            }),
        }
        edits.bound();
    }
}

impl Edits {
    /// How many they are. Of what two sides have together it is no less than of either.
    pub(crate) fn count(&self) -> u64 {
        self.count_below(u64::MAX)
    }

    fn count_below(&self, number: u64) -> u64 {
        let starts = self.starts.iter().filter(|start| start.number < number);
        starts.fold(self.earlier, |count, start| count.saturating_add(start.count()))
    }

    fn both(&self, other: &Edits) -> Edits {
        let below = self.below.max(other.below);
        let mut both = Edits {
            below,
            earlier: self.count_below(below).max(other.count_below(below)),
            starts: Vec::with_capacity(self.starts.len()),
        };
        let mut starts: Vec<Start> = self.starts.iter().chain(&other.starts).copied().collect();
        starts.retain(|start| start.number >= below);
        starts.sort_unstable_by_key(|start| start.number);
        for start in starts {
            match both.starts.last_mut().filter(|last| last.number == start.number) {
                Some(same) => (same.before, same.last) = (same.before.min(start.before), same.last.max(start.last)),
                None => both.starts.push(start),
            }
        }
        both.bound();
        both
    }

    /// The last start, if it is of this run of the hub.
    pub(crate) fn of_run(&self, start: u64) -> Option<&Start> {
        self.starts.last().filter(|last| last.number & RANDOM == start & RANDOM)
    }

    /// The number that a start has among these: its own, or, where its clock is behind, one that is greater than
    /// theirs.
    pub(crate) fn later(&self, start: u64) -> u64 {
        let least = self
            .starts
            .last()
            .map_or(0, |last| last.number.saturating_add(1))
            .max(self.below);
        match start >= least {
            true => start,
            false => ((least >> 32) + 1).min(RANDOM) << 32 | start & RANDOM,
        }
    }

    pub(crate) fn bound(&mut self) {
        while self.starts.len() > STARTS_MAX {
            let first = self.starts.remove(0);
            self.below = first.number.saturating_add(1);
            self.earlier = self.earlier.saturating_add(first.count());
        }
    }
}

impl Start {
    fn count(self) -> u64 {
        self.last.saturating_sub(self.before)
    }
}
