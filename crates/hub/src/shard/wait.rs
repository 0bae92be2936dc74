//! Waiting for sockets: asleep in the kernel, or awake for a short time where latency is worth a core.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventFlags};

/// Events taken from the kernel in one turn.
const EVENTS: usize = 256;

/// Longest time that the low-latency setting stays awake without an event.
const SPIN_MAX: Duration = Duration::from_micros(200);
/// Shortest, as long as events tend to come within [`SPIN_MAX`].
const SPIN_MIN: Duration = Duration::from_micros(20);

pub(crate) struct Waiter {
    events: Vec<Event>,
    spin: Option<Spin>,
}

/// How long to stay awake: twice the time that events lately took to come, if that is not too long.
struct Spin {
    budget: Duration,
}

impl Waiter {
    pub(crate) fn new(low_latency: bool) -> Self {
        Self {
            events: Vec::with_capacity(EVENTS),
            spin: low_latency.then_some(Spin { budget: SPIN_MAX }),
        }
    }

    /// Waits for events, at most `timeout_ms` where there is one; how many there are.
    pub(crate) fn wait(&mut self, epoll: &OwnedFd, timeout_ms: Option<u64>) -> usize {
        self.events.clear();
        if let Some(spin) = &mut self.spin
            && spin.wait(epoll, &mut self.events, timeout_ms)
        {
            return self.events.len();
        }
        let timeout = timeout_ms.map(|ms| Timespec::try_from(Duration::from_millis(ms)).unwrap_or(Timespec::default()));
        poll(epoll, &mut self.events, timeout.as_ref());
        self.events.len()
    }

    pub(crate) fn event(&self, index: usize) -> (u64, EventFlags) {
        let event = self.events[index];
        (event.data.u64(), event.flags)
    }
}

impl Spin {
    /// Polls without sleeping for the budget; whether something came.
    fn wait(&mut self, epoll: &OwnedFd, events: &mut Vec<Event>, timeout_ms: Option<u64>) -> bool {
        let start = Instant::now();
        let budget = timeout_ms.map_or(self.budget, |ms| self.budget.min(Duration::from_millis(ms)));
        loop {
            poll(epoll, events, Some(&Timespec::default()));
            let waited = start.elapsed();
            if !events.is_empty() {
                self.budget = (waited * 2)
                    .max(self.budget - self.budget / 8)
                    .clamp(SPIN_MIN, SPIN_MAX);
                return true;
            }
            if waited >= budget {
                self.budget = (self.budget - self.budget / 4).max(SPIN_MIN);
                return false;
            }
            std::hint::spin_loop();
        }
    }
}

/// One epoll_wait; an interruption by a signal is no event.
fn poll(epoll: &OwnedFd, events: &mut Vec<Event>, timeout: Option<&Timespec>) {
    let waited = epoll::wait(epoll, rustix::buffer::spare_capacity(events), timeout);
    match waited {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => panic!("epoll_wait failed on the shard's own descriptor: {error}"),
    }
}
