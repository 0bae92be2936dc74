//! What the log's threads report, and what follows from it.

use super::{Log, Spare};
use crate::keeper::Job;
use crate::shared::Note;
use crate::{Damage, DamageKind, Event, Position};

impl Log {
    pub(super) fn take_note(&mut self, note: Note, events: &mut Vec<Event>) {
        self.changed = true;
        match note {
            Note::Loaded(event) => {
                self.loads -= 1;
                events.push(event);
            }
            Note::Fault(fault) => events.push(Event::Fault(fault)),
            Note::Offered { number, records, next } => self.take_offer(number, records, next, events),
            Note::Sealed { number, file_bytes } => {
                self.space.set_file_bytes(number, file_bytes);
                self.retry_spare();
            }
            Note::Rolled { sealable } => {
                self.request_spare();
                if let Some((number, end)) = sealable {
                    self.jobs.push(Job::Seal { number, end });
                }
            }
            Note::Removed => self.retry_spare(),
            Note::SpareReady => {
                if self.spare == Spare::Refused {
                    events.push(Event::Room);
                }
                self.spare = Spare::Ready;
            }
            Note::SpareRefused => self.spare = Spare::Refused,
            Note::Stopped(stopped) => {
                events.push(Event::Stopped(stopped.clone()));
                self.stopped.get_or_insert(stopped);
            }
        }
    }

    /// Asks again for a spare that the log's own limit refused; what the disk refused, the keeper tries by itself.
    fn retry_spare(&mut self) {
        if self.spare == Spare::Refused && self.spare_is_within_limit() {
            self.jobs.push(Job::Spare);
        }
    }

    fn request_spare(&mut self) {
        if self.spare_is_within_limit() {
            self.jobs.push(Job::Spare);
        } else {
            self.spare = Spare::Refused;
        }
    }

    pub(super) fn spare_is_within_limit(&self) -> bool {
        self.space.total_bytes() + self.options.segment_bytes <= self.options.limit_bytes
    }

    pub(super) fn dispatch_loads(&mut self) {
        let durable = self.durable();
        while let Some(position) = self
            .deferred_loads
            .front()
            .copied()
            .filter(|position| *position <= durable)
        {
            self.deferred_loads.pop_front();
            match self.space.holding(position) {
                Some(segment) => self.jobs.push(Job::Load {
                    position,
                    number: segment.number,
                }),
                None => self.shared.note(Note::Loaded(lost(position))),
            }
        }
    }
}

/// The event for a record of a segment that is gone.
fn lost(position: Position) -> Event {
    let (offset, bytes) = (position.offset(), position.rounded_len());
    Event::Lost {
        position,
        damage: Damage {
            file: String::new(),
            offset,
            bytes,
            kind: DamageKind::MissingSegment,
        },
    }
}
