//! A bound on how often something happens.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

/// Lets at most so many through in a second, evenly, with a burst of one second's worth; more wait.
pub(crate) struct Pace {
    /// When the next one is due if all before it came as fast as they may.
    next: Mutex<Instant>,
}

impl Pace {
    const BURST: Duration = Duration::from_secs(1);

    pub(crate) fn new() -> Self {
        Self {
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits until one more may pass where `per_s` pass in a second.
    pub(crate) async fn wait(&self, per_s: u32) {
        let interval = Duration::from_secs(1) / per_s.max(1);
        let due = {
            let mut next = self.next.lock().expect("no holder of this lock panics");
            *next = (*next).max(Instant::now().checked_sub(Self::BURST).unwrap_or(*next)) + interval;
            *next
        };
        if due > Instant::now() {
            tokio::time::sleep_until(due).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_rate_that_changes_holds_for_the_next_that_comes() {
        let pace = Pace::new();
        let began = Instant::now();
        for _ in 0..5 {
            pace.wait(1_000_000).await;
        }
        for _ in 0..5 {
            pace.wait(100).await;
        }
        assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
    }
}
