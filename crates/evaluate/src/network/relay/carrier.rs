//! The thread that carries a line's packets.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use rustix::io::Errno;

use super::direction::Direction;
use crate::generator::clock::Clock;
use crate::generator::poller::Poller;
use crate::network::plan::MTU_BYTES;

/// Packets read from one end before the other has its turn and what is due is delivered.
const PACKETS_PER_TURN: usize = 64;
/// Key of the descriptor that wakes it; the ends have 0 and 1.
const WAKE: usize = 2;

/// Something to be done between two turns.
pub(super) type Question = Box<dyn FnOnce(&mut [Direction; 2], u64) + Send>;

/// Both directions of a line. Direction 0 begins at end 0.
pub(super) struct Carrier {
    pub(super) ends: [OwnedFd; 2],
    pub(super) directions: [Direction; 2],
    pub(super) questions: Receiver<Question>,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) clock: Clock,
}

impl Carrier {
    /// Carries until nobody can ask any more.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut poller = Poller::new(std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1))?;
        for (key, end) in self.ends.iter().enumerate() {
            poller.add(end, key)?;
        }
        poller.add(&self.wake, WAKE)?;
        loop {
            let due_ns = self.directions.iter().filter_map(Direction::due_ns).min();
            poller.wait(&self.clock, due_ns, None)?;
            for event in 0..poller.event_count() {
                match poller.ready(event).map(|ready| ready.key) {
                    Some(WAKE) if self.nobody_asks() => return Ok(()),
                    Some(WAKE) | None => {}
                    Some(end) => self.take_in(end)?,
                }
            }
            self.deliver();
        }
    }

    fn take_in(&mut self, end: usize) -> io::Result<()> {
        let mut packet = [0; MTU_BYTES];
        for _ in 0..PACKETS_PER_TURN {
            match rustix::io::read(&self.ends[end], &mut packet) {
                Ok(length) => self.directions[end].offer(self.clock.now_ns(), &packet[..length]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn deliver(&mut self) {
        for (from, direction) in self.directions.iter_mut().enumerate() {
            let to = &self.ends[1 - from];
            while let Some(packet) = direction.deliver(self.clock.now_ns()) {
                if rustix::io::write(to, &packet).is_err() {
                    direction.refused(&packet);
                }
            }
        }
    }

    /// Does what is asked; whether nobody can ask any more.
    fn nobody_asks(&mut self) -> bool {
        // Only that it can be read matters, and that it no longer can.
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        loop {
            match self.questions.try_recv() {
                Ok(question) => question(&mut self.directions, self.clock.now_ns()),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            }
        }
    }
}
