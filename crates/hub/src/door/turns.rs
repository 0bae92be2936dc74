//! Handshakes take turns: one step of one of them, then whoever else is ready.
//!
//! A step of TLS takes a core longer than anything else that the doors' thread does. Where a thousand edges come back
//! at once, each of those that are connected would wait behind a step of every one of them. Nobody has a turn while it
//! waits for the other end, so that one who is slow keeps nobody from coming in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

/// The one turn that there is.
pub(super) struct Turns(Arc<Semaphore>);

impl Default for Turns {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Turns {
    /// `work`, which makes each of its steps when it has the turn.
    pub(super) fn take<F: Future>(&self, work: F) -> Taking<F> {
        Taking {
            turn: PollSemaphore::new(Arc::clone(&self.0)),
            work: Box::pin(work),
        }
    }
}

/// Work in turns.
pub(super) struct Taking<F> {
    turn: PollSemaphore,
    work: Pin<Box<F>>,
}

impl<F: Future> Future for Taking<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let turn = ready!(self.turn.poll_acquire(context));
        let step = self.work.as_mut().poll(context);
        // The next one has it once all have run that are ready by now: a task that is new is the last of them.
        tokio::spawn(async move { drop(turn) });
        step
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::{JoinSet, yield_now};

    use super::*;

    const STEPS: usize = 5;
    const HANDSHAKES: usize = 100;

    /// Is ready again at once, behind all that are ready by now. tokio's own waits for sockets to be looked at as well.
    async fn go_behind() {
        let mut has_gone = false;
        let once = poll_fn(|context| {
            context.waker().wake_by_ref();
            match std::mem::replace(&mut has_gone, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        once.await;
    }

    async fn handshake(steps: Arc<AtomicUsize>) {
        for _ in 0..STEPS {
            steps.fetch_add(1, Ordering::Relaxed);
            go_behind().await;
        }
    }

    /// Most steps between two turns of a task that is always ready, while handshakes are made.
    async fn steps_between_turns(steps: Arc<AtomicUsize>) -> usize {
        let (mut most, mut before) = (0, 0);
        while before < HANDSHAKES * STEPS {
            go_behind().await;
            let now = steps.load(Ordering::Relaxed);
            most = most.max(now - before);
            before = now;
        }
        most
    }

    #[tokio::test]
    async fn whoever_is_ready_waits_for_a_step_of_one_handshake_however_many_there_are() {
        let (turns, steps) = (Turns::default(), Arc::new(AtomicUsize::new(0)));
        let ready = tokio::spawn(steps_between_turns(Arc::clone(&steps)));
        let mut handshakes = JoinSet::new();
        for _ in 0..HANDSHAKES {
            handshakes.spawn(turns.take(handshake(Arc::clone(&steps))));
        }
        assert_eq!(handshakes.join_all().await.len(), HANDSHAKES);
        assert_eq!(ready.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn one_who_waits_for_the_other_end_has_no_turn_and_one_who_gives_up_takes_none_along() {
        let turns = Turns::default();
        let silent = tokio::spawn(turns.take(std::future::pending::<()>()));
        yield_now().await;
        let steps = Arc::new(AtomicUsize::new(0));
        turns.take(handshake(Arc::clone(&steps))).await;
        silent.abort();
        assert!(silent.await.unwrap_err().is_cancelled());
        turns.take(handshake(Arc::clone(&steps))).await;
        assert_eq!(steps.load(Ordering::Relaxed), 2 * STEPS);
    }
}
