//! Counts what repeats within a minute.

use std::collections::HashMap;

const WINDOW_S: i64 = 60;
const MAX_DIFFERENT: usize = 64;

/// Events of one group in the present minute.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    window_start_unix_s: i64,
    seen: HashMap<u64, Repeated>,
    /// Events that found no place among the different ones.
    others: u64,
}

/// An event and how often it came again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Repeated {
    /// The first of them in JSON; `None` for all that had no place.
    pub(super) first: Option<String>,
    pub(super) times: u64,
}

impl Repeats {
    /// Whether this event, which came `times` times, is to be written: the first of its kind in this minute, with a
    /// place to count it.
    pub(super) fn is_first(&mut self, kind: u64, times: u64, json: impl FnOnce() -> String) -> bool {
        if let Some(repeated) = self.seen.get_mut(&kind) {
            repeated.times += times;
            return false;
        }
        if self.seen.len() == MAX_DIFFERENT {
            self.others += times;
            return false;
        }
        self.seen.insert(
            kind,
            Repeated {
                first: Some(json()),
                times: times - 1,
            },
        );
        true
    }

    /// Ends the minute if it is over, or anyhow; what repeated in it.
    pub(super) fn end_window(&mut self, now_unix_s: i64, anyhow: bool) -> Vec<Repeated> {
        // Not an interval: a clock set back ends it too.
        if !anyhow && (0..WINDOW_S).contains(&(now_unix_s - self.window_start_unix_s)) {
            return Vec::new();
        }
        self.window_start_unix_s = now_unix_s;
        let others = Repeated {
            first: None,
            times: std::mem::take(&mut self.others),
        };
        self.seen
            .drain()
            .map(|(_, repeated)| repeated)
            .chain([others])
            .filter(|found| found.times > 0)
            .collect()
    }
}
