//! Waiting for sockets: asleep in the kernel, or awake for a short time where latency is worth a core.
//!
//! What is due wakes the loop by a timer of its own, set only where something is due earlier than it stands: a timeout
//! of the wait itself would be set and cancelled at every turn, while what is due lies seconds ahead.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags};

/// Events taken from the kernel in one turn.
const EVENTS: usize = 256;

/// Longest time that the low-latency setting stays awake without an event.
const SPIN_MAX: Duration = Duration::from_micros(200);
/// Shortest, as long as events tend to come within [`SPIN_MAX`].
const SPIN_MIN: Duration = Duration::from_micros(20);

/// What epoll says of the timer.
const TIMER: u64 = u64::MAX - 2;

pub(crate) struct Waiter {
    events: Vec<Event>,
    spin: Option<Spin>,
}

/// How long a wait may be.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// Not at all: takes what is there.
    Now,
    /// Until something happens, at the latest when it is `due_ms`, told at `now_ms`.
    Due { due_ms: u64, now_ms: u64 },
}

/// Wakes the wait once something is due.
pub(crate) struct Timer {
    fd: OwnedFd,
    /// What it stands at.
    due_ms: u64,
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

    /// Waits for events; how many there are. There may be none.
    pub(crate) fn wait(&mut self, epoll: &OwnedFd, timer: &mut Timer, until: Until) -> usize {
        self.events.clear();
        match until {
            Until::Now => poll(epoll, &mut self.events, Some(&Timespec::default())),
            Until::Due { due_ms, now_ms } => {
                timer.set(due_ms, now_ms);
                let spin = self.spin.as_mut();
                if !spin.is_some_and(|spin| spin.wait(epoll, &mut self.events)) {
                    poll(epoll, &mut self.events, None);
                }
            }
        }
        // Edge-triggered: the timer is not read, and what is due is found without it.
        self.events.retain(|event| event.data.u64() != TIMER);
        self.events.len()
    }

    pub(crate) fn event(&self, index: usize) -> (u64, EventFlags) {
        let event = self.events[index];
        (event.data.u64(), event.flags)
    }
}

impl Timer {
    /// Wakes who waits on `epoll`.
    pub(crate) fn new(epoll: &OwnedFd) -> rustix::io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(epoll, &fd, EventData::new_u64(TIMER), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { fd, due_ms: 0 })
    }

    /// Stands at `due_ms` or, if it does already, at something earlier that is still ahead.
    fn set(&mut self, due_ms: u64, now_ms: u64) {
        if now_ms < self.due_ms && self.due_ms <= due_ms || due_ms == u64::MAX {
            return;
        }
        self.due_ms = due_ms;
        // Zero would stop the timer.
        let left = Duration::from_millis(due_ms.saturating_sub(now_ms)).max(Duration::from_nanos(1));
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec::try_from(left).unwrap_or(Timespec::default()),
        };
        rustix::time::timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &once)
            .expect("a timer of the shard's own takes a time within the range");
    }
}

impl Spin {
    /// Polls without sleeping for the budget; whether something came.
    fn wait(&mut self, epoll: &OwnedFd, events: &mut Vec<Event>) -> bool {
        let start = Instant::now();
        loop {
            poll(epoll, events, Some(&Timespec::default()));
            let waited = start.elapsed();
            if !events.is_empty() {
                self.budget = (waited * 2)
                    .max(self.budget - self.budget / 8)
                    .clamp(SPIN_MIN, SPIN_MAX);
                return true;
            }
            if waited >= self.budget {
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
