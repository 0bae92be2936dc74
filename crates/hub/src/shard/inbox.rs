//! How other threads reach a shard: a bounded queue and an eventfd that its loop watches.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::mpsc;

/// Orders that may wait for a shard; a sender waits for a place.
const CAPACITY: usize = 1_024;

/// The sending half; cheap to clone.
pub(crate) struct Inbox<T> {
    queue: mpsc::Sender<T>,
    bell: Arc<OwnedFd>,
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
    bell: Arc<OwnedFd>,
}

/// The shard has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended;

/// A new inbox and what the shard reads it with.
pub(crate) fn inbox<T>() -> io::Result<(Inbox<T>, Orders<T>)> {
    let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
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
        // Fails only when the counter is at its maximum; then the bell rings already.
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        Ok(())
    }
}

impl<T> Orders<T> {
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Silences the bell; every order sent before is then in the queue.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&*self.bell, &mut [0u8; 8]);
    }

    pub(crate) fn next(&mut self) -> Option<T> {
        self.queue.try_recv().ok()
    }
}
