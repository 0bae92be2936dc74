//! The files that become segments: two in reserve, which are for moved values alone, and one more for whatever comes.
//!
//! Only the oldest segment can be emptied, and that takes room for what is live in it, which may be all of it. The
//! reserve is that room, whatever else has filled the log or its disk. It is two files, since one is not enough where
//! the oldest segments are short: a file that goes makes room for as much as was moved out of it, but not for a whole
//! reserve, and the next one may need that. With two there is always room for another segment's values: what was moved
//! is less than one file more than what the files made anew hold.
//!
//! Which files are the reserve is a matter of how many there are: the last one that is made is the next segment.

use super::Log;
use crate::keeper::Job;
use crate::segment::SpareFile;
use crate::{Event, Options};

/// What there is of a file that becomes a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// The commit thread is taking it, or the keeper makes it, or tries to until there is space.
    Coming,
    /// It has not been asked for: the log's limit forbids it, or others come first.
    #[default]
    Missing,
}

/// Files of the reserve.
const RESERVE: usize = 2;

/// The files that become segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spares {
    /// By [`SpareFile`].
    states: [State; SpareFile::ALL.len()],
    /// Whether a file was refused since all were there last: values are refused.
    pub(super) is_full: bool,
}

impl Spares {
    pub(super) fn set(&mut self, file: SpareFile, state: State) {
        self.states[file as usize] = state;
    }

    pub(super) fn ready(&self) -> usize {
        self.states.iter().filter(|state| **state == State::Ready).count()
    }

    /// Whether there is one for the next segment, whatever is written to it.
    pub(super) fn has_next(&self) -> bool {
        self.ready() > RESERVE
    }

    /// Whether there is one for moved values.
    pub(super) fn has_reserve(&self) -> bool {
        self.ready() > 0
    }

    pub(super) fn reserve_is_whole(&self) -> bool {
        self.ready() >= RESERVE
    }

    /// Takes a file for a segment that begins.
    pub(super) fn take(&mut self) -> Option<SpareFile> {
        let is_ready = |file: &SpareFile| self.states[*file as usize] == State::Ready;
        let from = SpareFile::ALL.into_iter().rfind(is_ready)?;
        self.set(from, State::Coming);
        Some(from)
    }

    /// The file to be asked for next, if none is on its way: one at a time.
    pub(super) fn wanted(&self) -> Option<SpareFile> {
        let state = |file: &SpareFile| self.states[*file as usize];
        let mut files = SpareFile::ALL.into_iter();
        if self.states.contains(&State::Coming) {
            return None;
        }
        files.find(|file| state(file) == State::Missing)
    }
}

impl Options {
    /// Whether a log with so many bytes in segments, and these files, may have another one.
    pub(super) fn allow_another(&self, segment_bytes: u64, spares: &Spares) -> bool {
        segment_bytes + (spares.ready() as u64 + 1) * self.segment_bytes <= self.limit_bytes
    }
}

impl Log {
    pub(super) fn spare_is_used(&mut self, from: SpareFile) {
        self.spares.set(from, State::Missing);
        self.request_spares();
    }

    pub(super) fn spare_is_ready(&mut self, file: SpareFile, events: &mut Vec<Event>) {
        self.spares.set(file, State::Ready);
        if self.spares.has_next() && std::mem::take(&mut self.spares.is_full) {
            events.push(Event::Room);
        }
        self.request_spares();
    }

    /// The log is full, unless files are about to be removed: what becomes of the space that they leave is known then.
    pub(super) fn spare_is_refused(&mut self) {
        self.spares.is_full |= !self.space.is_about_to_shrink();
    }

    /// Asks for what may have become possible. What the disk refused, the keeper tries by itself.
    pub(super) fn request_spares(&mut self) {
        let Some(file) = self.spares.wanted() else { return };
        if self.options.allow_another(self.space.total_bytes(), &self.spares) {
            self.spares.set(file, State::Coming);
            self.jobs.push(Job::Spare(file));
        } else {
            self.spare_is_refused();
        }
    }
}
