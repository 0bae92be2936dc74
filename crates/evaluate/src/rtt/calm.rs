//! Waits until the host leaves this thread its CPU: a burst of other users' work lasts for seconds to minutes, and what
//! is measured in it is no result (rule 2).

use std::thread;
use std::time::{Duration, Instant};

use super::plan::Plan;

/// How long one look takes.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two readings of the clock above which somebody else had the CPU.
const GAP: Duration = Duration::from_micros(50);
/// Share of a look that others may have in calm times: half of what makes one message in a hundred late.
const CALM_SHARE: f64 = 0.005;
/// How long a run may wait in all: as a multiple of the time that it takes undisturbed, and at most.
const PATIENCE_OF_RUN: u32 = 2;
const PATIENCE_MAX: Duration = Duration::from_secs(90);
const HASTY_PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_secs(1);

/// How much waiting is left in a run.
pub(super) struct Patience {
    left: Duration,
}

impl Patience {
    pub(super) fn of(plan: &Plan) -> Patience {
        let most = if plan.is_hasty() { HASTY_PATIENCE } else { PATIENCE_MAX };
        Patience {
            left: most.min(plan.estimate() * PATIENCE_OF_RUN),
        }
    }

    /// Waits for calm, or until the patience has run out.
    pub(super) fn wait_for_calm(&mut self) {
        self.wait_while(|| taken_by_others() > CALM_SHARE);
    }

    fn wait_while(&mut self, mut disturbed: impl FnMut() -> bool) {
        while !self.left.is_zero() && disturbed() {
            thread::park_timeout(PAUSE);
            self.left = self.left.saturating_sub(LOOK + PAUSE);
        }
    }
}

/// The share of a short time that this thread did not have its CPU, although it wanted it.
fn taken_by_others() -> f64 {
    let began = Instant::now();
    let (mut before, mut taken) = (began, Duration::ZERO);
    loop {
        let now = Instant::now();
        let gap = now - before;
        if gap > GAP {
            taken += gap;
        }
        if now - began >= LOOK {
            return taken.as_secs_f64() / (now - began).as_secs_f64();
        }
        before = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_never_calms_down_is_waited_for_no_longer_than_patience_lasts() {
        let mut patience = Patience { left: PAUSE + 2 * LOOK };
        let mut looks = 0;
        patience.wait_while(|| {
            looks += 1;
            true
        });
        patience.wait_while(|| unreachable!("there is no patience left"));
        assert_eq!(looks, 2);
    }
}
