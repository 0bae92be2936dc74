//! The files that become segments: a spare for the next one, and a reserve that is for moved values alone.
//!
//! Only the oldest segment can be emptied, and that takes room for what is live in it, which may be all of it. The
//! reserve is that room, whatever else has filled the log or its disk. It is two files, since one is not enough where
//! the oldest segments are short: a file that goes makes room for as much as was moved out of it, but not for a whole
//! reserve, and the next one may need that. With two there is always room for another segment's values: what was moved
//! is less than one file more than what the files made anew hold.
//!
//! The reserve comes before a spare: without it none is asked for.

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

/// The files that become segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spares {
    /// By [`SpareFile`].
    states: [State; SpareFile::ALL.len()],
    /// Whether a spare was refused since there was one last: values are refused.
    pub(super) is_full: bool,
}

impl Spares {
    pub(super) fn get(&self, file: SpareFile) -> State {
        self.states[file as usize]
    }

    pub(super) fn set(&mut self, file: SpareFile, state: State) {
        self.states[file as usize] = state;
    }

    /// Whether a file of the reserve is there.
    pub(super) fn has_reserve(&self) -> bool {
        self.get(SpareFile::Reserve) == State::Ready || self.get(SpareFile::SecondReserve) == State::Ready
    }

    pub(super) fn reserve_is_whole(&self) -> bool {
        self.get(SpareFile::Reserve) == State::Ready && self.get(SpareFile::SecondReserve) == State::Ready
    }

    /// Takes a file for a segment that begins: the reserve only where there is no spare.
    pub(super) fn take(&mut self) -> Option<SpareFile> {
        let is_ready = |file: &SpareFile| self.get(*file) == State::Ready;
        let from = SpareFile::ALL.into_iter().rfind(is_ready)?;
        self.set(from, State::Coming);
        Some(from)
    }

    /// The commit thread has made `from` a segment. Whatever comes after it in order the keeper gives up once it is
    /// asked for this one.
    fn used(&mut self, from: SpareFile) {
        self.set(from, State::Missing);
        for later in &mut self.states[from as usize + 1..] {
            if *later == State::Coming {
                *later = State::Missing;
            }
        }
    }

    /// The file to be asked for next, if none is on its way: one at a time, in order.
    pub(super) fn wanted(&self) -> Option<SpareFile> {
        SpareFile::ALL
            .into_iter()
            .find(|file| self.get(*file) != State::Ready)
            .filter(|file| self.get(*file) == State::Missing)
    }
}

impl Options {
    /// Whether a log with so many bytes in segments may have this file, and those before it in order.
    pub(super) fn allow(&self, segment_bytes: u64, file: SpareFile) -> bool {
        segment_bytes + (file as u64 + 1) * self.segment_bytes <= self.limit_bytes
    }
}

impl Log {
    pub(super) fn spare_is_used(&mut self, from: SpareFile) {
        self.spares.used(from);
        self.request_spares();
    }

    pub(super) fn spare_is_ready(&mut self, file: SpareFile, events: &mut Vec<Event>) {
        self.spares.set(file, State::Ready);
        if file == SpareFile::Next && std::mem::take(&mut self.spares.is_full) {
            events.push(Event::Room);
        }
        self.request_spares();
    }

    pub(super) fn spare_is_refused(&mut self) {
        self.spares.is_full = self.spares.get(SpareFile::Next) != State::Ready;
    }

    /// Asks for what may have become possible. What the disk refused, the keeper tries by itself.
    pub(super) fn request_spares(&mut self) {
        let Some(file) = self.spares.wanted() else { return };
        if self.options.allow(self.space.total_bytes(), file) {
            self.spares.set(file, State::Coming);
            self.jobs.push(Job::Spare(file));
        } else {
            self.spare_is_refused();
        }
    }
}
