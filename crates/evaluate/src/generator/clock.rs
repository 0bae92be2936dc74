//! The client's monotonic clock: the only one a round trip is measured with (rule 4).

use std::time::{Duration, Instant};

/// Nanoseconds since an origin, `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose zero is `lead` from now, so that what is due at zero can be prepared.
    pub(crate) fn starting_in(lead: Duration) -> Clock {
        Clock {
            origin: Instant::now() + lead,
        }
    }

    /// Nanoseconds since the origin; 0 before it.
    pub(crate) fn now_ns(&self) -> u64 {
        Instant::now().saturating_duration_since(self.origin).as_nanos() as u64
    }
}
