//! What came of the epochs of one edge, bounded, and what came by each of its routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use broker::{Full, Position};
use rangemap::RangeSet;
use serde::{Deserialize, Serialize};
use store::Kind;

use super::ArrivalCounts;
use crate::shard::journal::{Entry, Journal};

/// Marks of an edge: of both lanes of as many routes as a tenant may have, those of the last sixteen starts. Of more
/// the one goes that was needed longest ago; where its messages come again, they are taken again. What an edge sends
/// again is what it has no acknowledgement for, which it sends first once it is connected: such a mark was needed last.
const MARKS_MAX: usize = 32 * route::MAX_ROUTES;
/// Ranges of all marks of an edge: above it marks go likewise. A lane has few: it keeps its order, and each message
/// says behind which one it comes.
const RANGES_MAX: usize = 1 << 16;
/// Ranges of one mark; above it the lowest gap counts as filled.
const RANGES_OF_MARK_MAX: usize = 4_096;
/// Routes of an edge that are counted each by itself: names that routes had, too. Of more the one that nothing came by
/// for longest is counted with [`OTHERS`] from then on.
const ROUTES_MAX: usize = 4 * route::MAX_ROUTES;
/// Stands for routes that are not counted each by itself any more; no manifest can name one so.
const OTHERS: &str = "(others)";

/// Says that the counts of a record are those of its route, not of its epoch.
const OF_ROUTE: u8 = 1;

/// A mark as the log has it: this, and behind it, but for the first of them, the counts, and, but for earlier versions,
/// [`OF_ROUTE`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) edge: String,
    route: String,
    epoch: u64,
    /// [`ArrivalCounts::taken`].
    messages: u64,
    taken: Vec<(u64, u64)>,
}

/// What came of one epoch.
#[derive(Debug, Default)]
pub(super) struct Mark {
    pub(super) taken: RangeSet<u64>,
    /// Where the log has it; the default: nowhere.
    pub(super) position: Position,
    /// Which touch of a mark of its edge the last of this one was.
    touched: u64,
    /// What an earlier version counted by this mark; part of what its route has.
    counted: ArrivalCounts,
}

#[derive(Debug, Default)]
struct Route {
    /// Of all epochs, those that are forgotten too.
    counts: ArrivalCounts,
    /// By epoch. There is one at least: the log has the counts with it.
    marks: BTreeMap<u64, Mark>,
}

/// The marks of one edge.
#[derive(Debug, Default)]
pub(super) struct Marks {
    routes: BTreeMap<Arc<str>, Route>,
    /// By their last touch.
    touched: BTreeMap<u64, (Arc<str>, u64)>,
    touches: u64,
    /// Of all marks.
    ranges: usize,
}

/// Whose marks, and where they are kept.
pub(super) struct Log<'a> {
    pub(super) journal: &'a mut Journal,
    /// The number of the tenant in it.
    pub(super) tenant: u32,
    pub(super) edge: &'a str,
}

impl Kept {
    /// What a record says; the rest of it is of [`Marks::restore`].
    pub(super) fn decode(meta: &[u8]) -> Option<(Self, &[u8])> {
        postcard::take_from_bytes(meta).ok()
    }
}

impl Marks {
    /// A mark that the log has; positions that nothing needs any more.
    pub(super) fn restore(&mut self, kept: Kept, rest: &[u8], position: Position) -> Option<Position> {
        // Logs of the first versions have none.
        let (counts, rest) = postcard::take_from_bytes(rest).unwrap_or((ArrivalCounts::default(), rest));
        let counts = ArrivalCounts {
            taken: kept.messages,
            ..counts
        };
        let (name, epoch) = (Arc::from(kept.route), kept.epoch);
        let older = self.remove(&name, epoch);
        let taken = kept.taken.into_iter().map(|(from, to)| from..to).collect();
        let mut mark = Mark {
            taken,
            position,
            ..Mark::default()
        };
        let route = self.routes.entry(Arc::clone(&name)).or_default();
        if rest == [OF_ROUTE] {
            route.counts = route.counts.max(counts);
        } else {
            mark.counted = counts;
            route.counts = route.counts + counts - older.as_ref().map(|mark| mark.counted).unwrap_or_default();
        }
        self.insert(&name, epoch, mark);
        Some(older?.position).filter(|position| *position > Position::default())
    }

    /// Takes a mark out, to be changed and put back; a new one where there is none.
    pub(super) fn take(&mut self, route: &Arc<str>, epoch: u64) -> Mark {
        self.remove(route, epoch).unwrap_or_default()
    }

    /// Puts a mark back that was changed, has the log keep it, and counts what came; then forgets what is beyond the
    /// bounds. Where the mark is kept; the default: the log has no room for it.
    pub(super) fn put(
        &mut self,
        log: &mut Log<'_>,
        route: &Arc<str>,
        epoch: u64,
        mut mark: Mark,
        came: ArrivalCounts,
    ) -> Position {
        mark.bound();
        self.insert(route, epoch, mark);
        let counts = &mut self.routes.get_mut(route).expect("has the mark").counts;
        *counts = *counts + came;
        // A full log has refused the messages already; without its mark one of them may come again.
        let position = self.keep(log, route, epoch).unwrap_or_default();
        self.bound(log);
        position
    }

    /// The log moves a mark.
    pub(super) fn relocate(&mut self, log: &mut Log<'_>, kept: &Kept, from: Position) -> Result<(), Full> {
        let mark = self
            .routes
            .get(&*kept.route)
            .and_then(|of_route| of_route.marks.get(&kept.epoch));
        match mark.filter(|mark| mark.position == from) {
            Some(_) => self.keep(log, &kept.route, kept.epoch).map(drop),
            None => Ok(()),
        }
    }

    /// What came by each route.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&Arc<str>, ArrivalCounts)> {
        self.routes.iter().map(|(route, of_route)| (route, of_route.counts))
    }

    fn insert(&mut self, route: &Arc<str>, epoch: u64, mut mark: Mark) {
        self.touches += 1;
        mark.touched = self.touches;
        self.touched.insert(mark.touched, (Arc::clone(route), epoch));
        self.ranges += mark.taken.len();
        self.routes
            .entry(Arc::clone(route))
            .or_default()
            .marks
            .insert(epoch, mark);
    }

    fn remove(&mut self, route: &str, epoch: u64) -> Option<Mark> {
        let mark = self.routes.get_mut(route)?.marks.remove(&epoch)?;
        self.touched.remove(&mark.touched);
        self.ranges -= mark.taken.len();
        Some(mark)
    }

    /// Has the log keep a mark in place of what it has of it.
    fn keep(&mut self, log: &mut Log<'_>, route: &str, epoch: u64) -> Result<Position, Full> {
        let Route { counts, marks } = self.routes.get_mut(route).expect("has the mark");
        let mark = marks.get_mut(&epoch).expect("was put there");
        let kept = Kept {
            edge: log.edge.to_owned(),
            route: route.to_owned(),
            epoch,
            messages: counts.taken,
            taken: mark.taken.iter().map(|range| (range.start, range.end)).collect(),
        };
        let meta = postcard::to_allocvec(&(kept, &*counts, OF_ROUTE)).expect("memory is all that it takes");
        let is_first = mark.position == Position::default();
        let kind = if is_first { Kind::Value } else { Kind::Replacement };
        let position = log.journal.append(log.tenant, kind, Entry::Arrived(&meta), &[])?;
        let old = std::mem::replace(&mut mark.position, position);
        if !is_first {
            log.journal.release(old);
        }
        Ok(position)
    }

    fn bound(&mut self, log: &mut Log<'_>) {
        while self.routes.len() > ROUTES_MAX {
            self.forget_route(log);
        }
        while self.touched.len() > MARKS_MAX || self.ranges > RANGES_MAX {
            self.forget_mark(log);
        }
    }

    /// Forgets the mark that was touched longest ago; of a route that has no other, what it has of ranges.
    fn forget_mark(&mut self, log: &mut Log<'_>) {
        let (_, (route, epoch)) = self.touched.first_key_value().expect("there are more than may be");
        let (route, epoch) = (Arc::clone(route), *epoch);
        let mark = self.remove(&route, epoch).expect("is there");
        if !self.routes[&route].marks.is_empty() {
            return log.forget(&mark);
        }
        let emptied = Mark {
            taken: RangeSet::new(),
            ..mark
        };
        self.insert(&route, epoch, emptied);
        let _ = self.keep(log, &route, epoch);
    }

    /// Counts the route with the others by which nothing came for longest.
    fn forget_route(&mut self, log: &mut Log<'_>) {
        let last_touch = |of_route: &Route| of_route.marks.values().map(|mark| mark.touched).max();
        let routes = self.routes.iter().filter(|(route, _)| &***route != OTHERS);
        let Some(route) = routes
            .min_by_key(|(_, of_route)| last_touch(of_route))
            .map(|(route, _)| Arc::clone(route))
        else {
            return;
        };
        let epochs: Vec<u64> = self.routes[&route].marks.keys().copied().collect();
        for mark in epochs
            .into_iter()
            .filter_map(|epoch| self.remove(&route, epoch))
            .collect::<Vec<_>>()
        {
            log.forget(&mark);
        }
        let counts = self.routes.remove(&route).expect("is there").counts;
        let others = Arc::from(OTHERS);
        let mark = self.take(&others, 0);
        self.insert(&others, 0, mark);
        let of_others = &mut self.routes.get_mut(&others).expect("has a mark").counts;
        *of_others = *of_others + counts;
        let _ = self.keep(log, &others, 0);
    }
}

impl Log<'_> {
    fn forget(&mut self, mark: &Mark) {
        if mark.position > Position::default() {
            self.journal.release(mark.position);
        }
    }
}

impl Mark {
    fn bound(&mut self) {
        while self.taken.len() > RANGES_OF_MARK_MAX {
            let mut ranges = self.taken.iter();
            let (Some(first), Some(second)) = (ranges.next(), ranges.next()) else {
                return;
            };
            let gap = first.end..second.start;
            self.taken.insert(gap);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(taken: u64) -> ArrivalCounts {
        ArrivalCounts {
            taken,
            sent_again: 2 * taken,
            ..ArrivalCounts::default()
        }
    }

    fn restore(marks: &mut Marks, epoch: u64, taken: u64, form: u8, position: u64) -> Option<Position> {
        let kept = Kept {
            edge: "hall-1".to_owned(),
            route: "r".to_owned(),
            epoch,
            messages: taken,
            taken: vec![(0, taken)],
        };
        let rest = match form {
            0 => Vec::new(),
            1 => postcard::to_allocvec(&counts(taken)).unwrap(),
            _ => postcard::to_allocvec(&(counts(taken), OF_ROUTE)).unwrap(),
        };
        marks.restore(kept, &rest, Position(position))
    }

    #[test]
    fn records_of_earlier_versions_count_for_their_epochs_and_those_of_this_one_for_their_route() {
        let mut marks = Marks::default();
        assert_eq!(restore(&mut marks, 2, 5, 0, 1), None);
        assert_eq!(restore(&mut marks, 4, 7, 1, 2), None);
        assert_eq!(restore(&mut marks, 4, 9, 1, 3), Some(Position(2)));
        let all = |marks: &Marks| {
            marks
                .counts()
                .map(|(_, counts)| (counts.taken, counts.sent_again))
                .collect::<Vec<_>>()
        };
        assert_eq!(all(&marks), [(14, 18)]);
        assert_eq!(restore(&mut marks, 4, 15, 2, 4), Some(Position(3)));
        assert_eq!(restore(&mut marks, 6, 16, 2, 5), None);
        assert_eq!(all(&marks), [(16, 32)]);
        assert_eq!((marks.touched.len(), marks.ranges), (3, 3));
        assert!(marks.take(&"r".into(), 4).taken.contains(&14));
    }
}
