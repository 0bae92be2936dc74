//! Garbage collection: the oldest segment is emptied and removed, in the order of the log.
//!
//! Only ever the oldest: a tombstone in it can undo nothing that is older, so it goes with its segment, and however
//! old a value is, it moves to the head when its turn comes.
//!
//! A segment in which nothing is live goes unread. One of which as many bytes were released as it held, but not each
//! value once ([`Live`](crate::live::Live)), may hold what is needed: it is offered whole first, and named.

use super::Log;
use crate::emptying::Offer;
use crate::keeper::{Job, Removal};
use crate::shared::Note;
use crate::space::Segment;
use crate::{Event, Fault, Position, segment};

/// Bytes of values offered at once, at most.
const OFFER_BYTES_MAX: usize = 256 << 10;
/// Segments that a log may have however little is in them.
const SEGMENTS_FREE: usize = 16;

/// How far the oldest segment has been emptied.
#[derive(Debug, Default)]
pub(super) enum Collection {
    #[default]
    Idle,
    /// The keeper reads what is to be offered.
    Reading { number: u64, from: usize },
    /// The owner has the offers of the entries from `from` to `next`.
    Answering {
        number: u64,
        from: usize,
        next: Option<usize>,
        refused_before: u64,
    },
    /// Some of the owner's answers were refused; the same is offered again when there is room.
    Paused { number: u64, from: usize },
    /// The log is being closed.
    Disabled,
}

impl Collection {
    /// Whether the owner's thread takes the next step, when it can.
    pub(super) fn waits_for_owner(&self) -> bool {
        matches!(self, Collection::Answering { .. } | Collection::Paused { .. })
    }

    pub(super) fn disable(&mut self) {
        *self = Collection::Disabled;
    }
}

impl Log {
    /// Moves collection on by what can be done now.
    pub(super) fn collect(&mut self) {
        self.take_answers();
        while self.oldest_is_dead() {
            self.remove_oldest();
        }
        match self.collection {
            Collection::Idle if self.should_collect() => {
                let number = self.space.oldest().map_or(0, |oldest| oldest.number);
                self.offer(number, 0);
            }
            Collection::Paused { number, from } if self.batch.len() == 0 && self.oldest_can_move() => {
                self.offer(number, from);
            }
            _ => {}
        }
    }

    /// Hands the offers to the owner, unless their segment has gone since.
    pub(super) fn take_offer(
        &mut self,
        number: u64,
        records: Vec<Event>,
        next: Option<usize>,
        events: &mut Vec<Event>,
    ) {
        match self.collection {
            Collection::Reading { number: expected, from } if expected == number => {
                let refused_before = self.moves_refused;
                self.collection = Collection::Answering {
                    number,
                    from,
                    next,
                    refused_before,
                };
                events.extend(records);
            }
            _ => {}
        }
    }

    fn take_answers(&mut self) {
        let Collection::Answering {
            number,
            from,
            next,
            refused_before,
        } = self.collection
        else {
            return;
        };
        if self.moves_refused != refused_before {
            self.collection = Collection::Paused { number, from };
        } else if let Some(next) = next {
            // Goes on at once if the batch has room for the next answers, else when the batch is written.
            if self.batch.len() <= self.options.pending_bytes / 2 {
                self.offer(number, next);
            }
        } else {
            self.remove_oldest();
        }
    }

    fn offer(&mut self, number: u64, from: usize) {
        let Some(oldest) = self.space.oldest() else { return };
        let bytes = OFFER_BYTES_MAX.min(self.options.pending_bytes / 4);
        let end = oldest.end;
        self.jobs.push(Job::Offer(Offer {
            number,
            end,
            from,
            bytes,
        }));
        self.collection = Collection::Reading { number, from };
    }

    /// Whether nothing in the oldest segment is needed and nothing is written to it.
    fn oldest_is_dead(&self) -> bool {
        self.oldest_is_closed() && self.space.oldest().is_some_and(|oldest| oldest.live.is_nothing())
    }

    /// What the segment's values were replaced by is safe before the file goes.
    fn remove_oldest(&mut self) {
        if let Some(oldest) = self.space.remove_oldest() {
            let Segment { number, file_bytes, .. } = oldest;
            self.removals
                .push_back((Position::before(self.batch.end()), Removal { number, file_bytes }));
            if oldest.live.is_miscounted() {
                let file = segment::name(oldest.number);
                self.shared.note(Note::Fault(Fault::Miscounted { file }));
            }
        }
        if !matches!(self.collection, Collection::Disabled) {
            self.collection = Collection::Idle;
        }
    }

    pub(super) fn dispatch_removals(&mut self) {
        let durable = self.durable();
        while let Some((_, removal)) = self.removals.pop_front_if(|(after, _)| *after <= durable) {
            self.jobs.push(Job::Remove(removal));
        }
    }

    fn should_collect(&self) -> bool {
        if !self.oldest_is_closed() {
            return false;
        }
        let is_miscounted = self.space.oldest().is_some_and(|oldest| oldest.live.is_miscounted());
        let (held, live) = (self.space.record_bytes(), self.space.live_bytes());
        let segments_needed = (held / self.options.segment_bytes) as usize;
        let is_wasteful = held > 2 * live + self.options.garbage_bytes;
        let is_scattered = self.space.count() > SEGMENTS_FREE + 2 * segments_needed;
        is_miscounted || is_wasteful || is_scattered || self.frees_a_full_log()
    }

    /// Whether a log that is full has enough garbage for collection, and room for what is to be moved. Where tombstones
    /// find hardly any room, what they took and ended is enough, else nothing could ever free space; and where the
    /// reserve is in use, collection goes on until it is whole again.
    pub(super) fn frees_a_full_log(&self) -> bool {
        if !self.spares.is_full || !self.oldest_can_move() {
            return false;
        }
        let a_little = self.options.segment_bytes / 16;
        let is_urgent = self.free_bytes() < a_little || !self.spares.reserve_is_whole();
        let enough = if is_urgent {
            a_little
        } else {
            self.options.segment_bytes
        };
        self.space.record_bytes() > self.space.live_bytes() + enough
    }

    /// Whether there is room for all that is live in the oldest segment.
    fn oldest_can_move(&self) -> bool {
        if self.spares.has_next() {
            return true;
        }
        // Else a file is on its way, and nothing need be taken from the reserve.
        self.spares.is_full && (self.spares.has_reserve() || self.moving_bytes() <= self.free_bytes())
    }

    /// Bytes that the values of the oldest segment take in another one, with their index, about: they may have grown a
    /// little.
    pub(super) fn moving_bytes(&self) -> u64 {
        let Some(oldest) = self.space.oldest() else { return 0 };
        let (live, records) = (oldest.live.bytes, (oldest.end - oldest.base).max(1));
        live + live * oldest.index_bytes / records + live / 8
    }

    fn oldest_is_closed(&self) -> bool {
        self.space.count() > usize::from(self.newest_is_open)
    }
}
