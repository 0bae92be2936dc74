//! What the log's threads report, and what follows from it.

use super::Log;
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
                self.request_spares();
            }
            Note::Rolled { from, sealable } => {
                self.spare_is_used(from);
                if let Some((number, end)) = sealable {
                    self.jobs.push(Job::Seal { number, end });
                }
            }
            Note::Removed { file_bytes } => {
                self.space.removed(file_bytes);
                self.request_spares();
            }
            Note::SpareReady(file) => self.spare_is_ready(file, events),
            Note::SpareRefused => self.spare_is_refused(),
            Note::Stopped(stopped) => {
                events.push(Event::Stopped(stopped.clone()));
                self.stopped.get_or_insert(stopped);
            }
        }
    }

    pub(super) fn dispatch_loads(&mut self) {
        if self.deferred_loads.is_empty() {
            return;
        }
        let durable = self.durable();
        let (mut jobs, mut lost) = (Vec::new(), Vec::new());
        while let Some(position) = self.deferred_loads.pop_front_if(|position| *position <= durable) {
            match self.space.holding(position) {
                Some(segment) => jobs.push(Job::Load {
                    position,
                    number: segment.number,
                }),
                None => lost.push(Note::Loaded(missing(position))),
            }
        }
        if !jobs.is_empty() {
            self.jobs.extend(jobs);
        }
        self.shared.note_all(&mut lost);
    }
}

/// The event for a record of a segment that is gone.
fn missing(position: Position) -> Event {
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
