//! The shard's clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use broker::Now;

/// Tells both times of an event. All waiting goes by the first, which never jumps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now() }
    }

    pub(crate) fn now(&self) -> Now {
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place where the hub reads the wall clock"
        )]
        let wall = SystemTime::now();
        Now {
            monotonic_ms: self.start.elapsed().as_millis() as u64,
            unix_ms: wall
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
        }
    }
}
