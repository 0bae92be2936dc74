//! How other threads reach a shard: a bounded queue, and an eventfd that its loop watches while it sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::mpsc;

/// Orders that may wait for a shard; a sender waits for a place.
const CAPACITY: usize = 1_024;

/// Wakes the loop of a shard. It costs a system call only where the loop sleeps: one that is awake looks before it
/// does.
pub(crate) struct Bell {
    eventfd: OwnedFd,
    is_asleep: AtomicBool,
}

impl Bell {
    fn new() -> io::Result<Self> {
        Ok(Self {
            eventfd: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            is_asleep: AtomicBool::new(false),
        })
    }

    /// Says that there is something to see, which was put there before.
    pub(crate) fn ring(&self) {
        // Either this thread sees that the loop falls asleep, or the loop sees what was put there.
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            // Fails only when the counter is at its maximum; then the bell rings already.
            let _ = rustix::io::write(&self.eventfd, &1u64.to_ne_bytes());
        }
    }

    /// The loop is about to sleep, and looks once more before it does.
    pub(crate) fn fall_asleep(&self) {
        self.is_asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The loop is awake.
    pub(crate) fn wake_up(&self) {
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Silences the bell, which has rung.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.eventfd, &mut [0u8; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.eventfd.as_fd()
    }
}

/// The sending half; cheap to clone.
pub(crate) struct Inbox<T> {
    queue: mpsc::Sender<T>,
    bell: Arc<Bell>,
}

impl<T> Clone for Inbox<T> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            bell: Arc::clone(&self.bell),
        }
    }
}

/// The receiving half, owned by the shard.
pub(crate) struct Orders<T> {
    queue: mpsc::Receiver<T>,
    bell: Arc<Bell>,
}

/// The shard has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended;

/// A new inbox and what the shard reads it with.
pub(crate) fn inbox<T>() -> io::Result<(Inbox<T>, Orders<T>)> {
    let bell = Arc::new(Bell::new()?);
    let (sender, receiver) = mpsc::channel(CAPACITY);
    Ok((
        Inbox {
            queue: sender,
            bell: Arc::clone(&bell),
        },
        Orders { queue: receiver, bell },
    ))
}

impl<T> Inbox<T> {
    /// Sends an order, waiting for a place in the queue.
    pub(crate) async fn send(&self, order: T) -> Result<(), Ended> {
        self.queue.send(order).await.map_err(|_| Ended)?;
        self.bell.ring();
        Ok(())
    }
}

impl<T> Orders<T> {
    pub(crate) fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn next(&mut self) -> Option<T> {
        self.queue.try_recv().ok()
    }
}
