//! The client's monotonic clock: the only one a round trip is measured with (rule 4).

use std::time::Instant;

/// Nanoseconds since an origin, `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose zero is now.
    pub(crate) fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// Nanoseconds since the origin.
    pub(crate) fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }
}
