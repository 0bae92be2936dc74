//! When something is due: one deadline for each session, its earliest.

use std::collections::BTreeSet;

use crate::ids::Slot;

/// The earliest deadlines of sessions, on the monotonic clock in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeSet<(u64, Slot)>,
}

impl Timers {
    /// Moves a session's deadline from `old` to `new`.
    pub(crate) fn rearm(&mut self, slot: Slot, old: Option<u64>, new: Option<u64>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.due.remove(&(old, slot));
        }
        if let Some(new) = new {
            self.due.insert((new, slot));
        }
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A session whose deadline has come.
    pub(crate) fn first_due(&self, now_ms: u64) -> Option<Slot> {
        self.due.first().filter(|(at, _)| *at <= now_ms).map(|(_, slot)| *slot)
    }
}
