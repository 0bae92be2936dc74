//! How long an edge waits before it tries its cloud again.

use std::time::Duration;

/// The first pause before another try, at most; each one doubles it.
const FIRST: Duration = Duration::from_millis(200);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(15);
/// The first pause, at most, where the cloud said that it stops: all its edges hear it at one instant, and share out as
/// much time, in which it starts again.
const STOPPED: Duration = Duration::from_secs(5);
/// A connection that lasted as long makes the next pause the first again.
const PROVEN: Duration = Duration::from_secs(30);

/// The pauses in a row.
#[derive(Debug)]
pub(super) struct Pauses {
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        Self { next: FIRST }
    }
}

impl Pauses {
    /// The longest that the next pause may be, after a connection that took as long from its beginning to its end.
    pub(super) fn next(&mut self, lasted: Duration, is_cloud_stopping: bool) -> Duration {
        if lasted >= PROVEN {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        match is_cloud_stopping {
            true => pause.max(STOPPED),
            false => pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::ZERO;

    #[test]
    fn pauses_double_to_their_limit_and_begin_anew_after_a_connection_that_lasted() {
        let mut pauses = Pauses::default();
        let seen: Vec<u128> = (0..9).map(|_| pauses.next(AT_ONCE, false).as_millis()).collect();
        assert_eq!(seen, [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 15_000, 15_000]);
        assert_eq!(pauses.next(PROVEN, false), FIRST);
    }

    #[test]
    fn where_the_cloud_stops_edges_come_back_over_seconds() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.next(PROVEN, true), STOPPED);
        assert_eq!(pauses.next(AT_ONCE, false), 2 * FIRST, "which are spread by then");
    }
}
