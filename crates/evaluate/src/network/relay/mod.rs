//! A line without the kernel's help: two TUN devices, each in the namespace of one host, and a thread between them.

mod carrier;
mod direction;
mod tun;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};

use carrier::{Carrier, Question};
use direction::Direction;
pub(super) use tun::create as create_tun;

use super::error::trying;
use super::{Counters, NetworkError, Settings};
use crate::generator::clock::Clock;
use crate::priority;

/// One line; dropping it ends the thread and, with it, both devices.
pub(super) struct Relay {
    /// None while it ends.
    questions: Option<SyncSender<Question>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    said: Arc<Said>,
}

/// What the thread says of itself.
#[derive(Default)]
struct Said {
    /// Whether it runs before all ordinary threads.
    runs_first: OnceLock<bool>,
    /// Why it ended before its time.
    failure: OnceLock<String>,
}

impl Relay {
    /// Begins to carry packets between the two devices. `stream` tells apart lines that share a seed.
    pub(super) fn start(
        ends: [OwnedFd; 2],
        settings: Settings,
        (seed, stream): (u64, u64),
    ) -> Result<Relay, NetworkError> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        let wake = Arc::new(wake.map_err(trying("making an eventfd"))?);
        let (questions, asked) = sync_channel(1);
        let carrier = Carrier {
            ends,
            directions: [0, 1].map(|side| Direction::new(settings, seed, 2 * stream + side)),
            questions: asked,
            wake: Arc::clone(&wake),
            clock: Clock::start(),
        };
        let said = Arc::new(Said::default());
        let thread = carry(carrier, Arc::clone(&said)).map_err(trying("starting the thread of a line"))?;
        let relay = Relay {
            questions: Some(questions),
            wake,
            thread: Some(thread),
            said,
        };
        // It carries once it answers.
        relay.counters().map(|_| relay)
    }

    pub(super) fn set(&self, settings: Settings) -> Result<(), NetworkError> {
        self.ask(move |direction, now_ns| direction.set(now_ns, settings))
            .map(drop)
    }

    pub(super) fn cut(&self) -> Result<(), NetworkError> {
        self.ask(|direction, _| direction.cut()).map(drop)
    }

    pub(super) fn mend(&self) -> Result<(), NetworkError> {
        self.ask(|direction, _| direction.mend()).map(drop)
    }

    /// Whether its thread runs before all ordinary ones.
    pub(super) fn runs_first(&self) -> bool {
        self.said.runs_first.get().copied().unwrap_or_default()
    }

    /// Of both directions, that towards the cloud first.
    pub(super) fn counters(&self) -> Result<[Counters; 2], NetworkError> {
        self.ask(|direction, _| direction.counters())
    }

    /// Does something to each direction between two turns of the thread, and waits for it.
    fn ask<T: Send + 'static>(
        &self,
        what: impl Fn(&mut Direction, u64) -> T + Send + 'static,
    ) -> Result<[T; 2], NetworkError> {
        let (answer, answered) = sync_channel(1);
        let question: Question = Box::new(move |directions, now_ns| {
            // Whoever asked waits below.
            let _ = answer.send(directions.each_mut().map(|direction| what(direction, now_ns)));
        });
        let asked = self
            .questions
            .as_ref()
            .is_some_and(|questions| questions.send(question).is_ok());
        self.wake_up();
        let ended = || NetworkError::RelayEnded(self.said.failure.get().cloned().unwrap_or_default());
        asked.then(|| answered.recv().ok()).flatten().ok_or_else(ended)
    }

    fn wake_up(&self) {
        // It can fail only where 2^64 wake-ups wait already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

fn carry(carrier: Carrier, said: Arc<Said>) -> io::Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("line".to_owned());
    thread.spawn(move || {
        // Both are set by this thread alone.
        let _ = said.runs_first.set(priority::run_first());
        if let Err(error) = carrier.run() {
            let _ = said.failure.set(error.to_string());
        }
    })
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.questions = None;
        self.wake_up();
        if let Some(thread) = self.thread.take() {
            // That it panicked was printed, and is told to whoever asks it something.
            let _ = thread.join();
        }
    }
}
