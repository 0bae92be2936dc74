//! Waits for sockets, level-triggered, or for a due time, to within a few microseconds.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use super::clock::Clock;

/// How long before a due time the timer fires and spinning begins: what a sleeping thread takes to wake up.
const SPIN_NS: u64 = 100_000;
/// How long a closed loop spins for an answer before it sleeps: longer than any part of a round trip on one machine.
/// Its own sleeping and waking, which cost more than its work, are then no part of what it measures.
const ANSWER_SPIN_NS: u64 = 300_000;
/// The most that one look without result counts as spinning: one that took longer was interrupted, and the CPU was
/// somebody else's meanwhile.
const LOOK_NS: u64 = 5_000;
/// Events taken in one turn.
const EVENTS: usize = 256;
const TIMER: u64 = u64::MAX;

/// One epoll set with its timer.
pub(crate) struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    events: Vec<epoll::Event>,
    /// When the timer fires, on the clock of this block; it fires too early rather than being set for every wait.
    armed_ns: Option<u64>,
    spins: bool,
    /// Whether it spins for answers too.
    spins_for_answers: bool,
    spin_ns: u64,
}

/// A socket that can do something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) key: usize,
    /// Whether there is something to read, or the connection's end; else there is room to write.
    pub(crate) readable: bool,
}

impl Poller {
    /// `spins`: whether a core can be spared for spinning before a due time.
    pub(crate) fn new(spins: bool) -> io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        // Edge-triggered, alone of all: a firing then need not be read away.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), flags)?;
        Ok(Poller {
            epoll,
            timer,
            events: Vec::with_capacity(EVENTS),
            armed_ns: None,
            spins,
            spins_for_answers: false,
            spin_ns: 0,
        })
    }

    pub(crate) fn add(&self, socket: impl AsFd, key: usize) -> io::Result<()> {
        Ok(epoll::add(
            &self.epoll,
            socket,
            epoll::EventData::new_u64(key as u64),
            epoll::EventFlags::IN,
        )?)
    }

    /// Also waits for room to write, or no more.
    pub(crate) fn watch_writable(&self, socket: impl AsFd, key: usize, writable: bool) -> io::Result<()> {
        let flags = if writable {
            epoll::EventFlags::IN | epoll::EventFlags::OUT
        } else {
            epoll::EventFlags::IN
        };
        Ok(epoll::modify(
            &self.epoll,
            socket,
            epoll::EventData::new_u64(key as u64),
            flags,
        )?)
    }

    pub(crate) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, socket)?)
    }

    /// Waits until a socket is ready, `due_ns` (to be met exactly) or `deadline_ns` (about), whichever is first.
    pub(crate) fn wait(&mut self, clock: &Clock, due_ns: Option<u64>, deadline_ns: Option<u64>) -> io::Result<()> {
        let now_ns = clock.now_ns();
        let until_ns = [due_ns, deadline_ns].into_iter().flatten().min();
        let lead_ns = if self.spins { SPIN_NS } else { 0 };
        let wake_ns = until_ns.map(|until_ns| until_ns.saturating_sub(lead_ns));
        if let Some(until_ns) = until_ns.filter(|_| wake_ns <= Some(now_ns)) {
            return self.spin(clock, now_ns, until_ns);
        }
        if self.spins_for_answers {
            let patience_ends_ns = now_ns + ANSWER_SPIN_NS;
            self.spin(
                clock,
                now_ns,
                wake_ns.map_or(patience_ends_ns, |wake_ns| wake_ns.min(patience_ends_ns)),
            )?;
            if !self.events.is_empty() {
                return Ok(());
            }
        }
        self.sleep(clock, wake_ns)
    }

    /// Looks, at least once, until there is something or `until_ns` has come. All looks that found nothing were
    /// spinning.
    fn spin(&mut self, clock: &Clock, mut now_ns: u64, until_ns: u64) -> io::Result<()> {
        loop {
            self.poll(Some(Timespec::default()))?;
            if !self.events.is_empty() {
                return Ok(());
            }
            let looked_ns = clock.now_ns();
            self.spin_ns += (looked_ns - now_ns).min(LOOK_NS);
            now_ns = looked_ns;
            if now_ns >= until_ns {
                return Ok(());
            }
        }
    }

    /// Sleeps until there is something or `wake_ns` has come.
    fn sleep(&mut self, clock: &Clock, wake_ns: Option<u64>) -> io::Result<()> {
        let now_ns = clock.now_ns();
        let Some(wake_ns) = wake_ns else {
            return self.poll(None);
        };
        if wake_ns <= now_ns {
            return Ok(());
        }
        let is_armed = |armed_ns| (now_ns + 1..=wake_ns).contains(&armed_ns);
        if !self.armed_ns.is_some_and(is_armed) {
            self.arm(wake_ns - now_ns)?;
            self.armed_ns = Some(wake_ns);
        }
        self.poll(None)
    }

    /// Sets the timer anew.
    fn arm(&self, in_ns: u64) -> io::Result<()> {
        let value = Timespec {
            tv_sec: (in_ns / 1_000_000_000) as i64,
            tv_nsec: (in_ns % 1_000_000_000) as i64,
        };
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    fn poll(&mut self, timeout: Option<Timespec>) -> io::Result<()> {
        self.events.clear();
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            timeout.as_ref(),
        ) {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Events that the last wait found.
    pub(crate) fn event_count(&self) -> usize {
        self.events.len()
    }

    /// The socket of an event; none for the timer's.
    pub(crate) fn ready(&self, event: usize) -> Option<Ready> {
        let event = self.events.get(event).filter(|event| event.data.u64() != TIMER)?;
        let flags = event.flags;
        Some(Ready {
            key: event.data.u64() as usize,
            readable: flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR),
        })
    }

    /// Begins a block: its clock has a new zero. `closed`: it is a closed loop, which spins for its answers where a
    /// core can be spared.
    pub(crate) fn begin(&mut self, closed: bool) {
        self.armed_ns = None;
        self.spin_ns = 0;
        self.spins_for_answers = closed && self.spins;
    }

    /// Nanoseconds spent spinning in this block.
    pub(crate) fn spin_ns(&self) -> u64 {
        self.spin_ns
    }
}
