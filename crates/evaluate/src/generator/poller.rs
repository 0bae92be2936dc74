//! Waits for sockets, level-triggered, or for a due time, to within a few microseconds.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use super::clock::Clock;

/// How long before a due time the timer fires and spinning begins: what a sleeping thread takes to wake up.
const SPIN_NS: u64 = 100_000;
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
    spin_ns: u64,
}

/// A socket that can do something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) key: usize,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
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
        let lead_ns = if self.spins { SPIN_NS } else { 0 };
        let wake_ns = [due_ns.map(|due| due.saturating_sub(lead_ns)), deadline_ns]
            .into_iter()
            .flatten()
            .min();
        match wake_ns {
            Some(wake_ns) if wake_ns <= now_ns => {
                self.poll(Some(Timespec::default()))?;
                if self.events.is_empty() {
                    self.spin_ns += clock.now_ns() - now_ns;
                }
            }
            Some(wake_ns) => {
                if self
                    .armed_ns
                    .is_none_or(|armed_ns| armed_ns > wake_ns || armed_ns <= now_ns)
                {
                    self.arm(wake_ns - now_ns)?;
                    self.armed_ns = Some(wake_ns);
                }
                self.poll(None)?;
            }
            None => self.poll(None)?,
        }
        Ok(())
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
            writable: flags.contains(epoll::EventFlags::OUT),
        })
    }

    /// Begins a block: its clock has a new zero.
    pub(crate) fn begin(&mut self) {
        self.armed_ns = None;
        self.spin_ns = 0;
    }

    /// Nanoseconds spent spinning in this block.
    pub(crate) fn spin_ns(&self) -> u64 {
        self.spin_ns
    }
}
