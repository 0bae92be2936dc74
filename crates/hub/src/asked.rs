//! Answers that are on their way.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;

/// The answer to a question that has its place before a tenant; `None`: the shard has ended.
///
/// Who asks many things waits for their places one after the other, and only then for the answers together. A question
/// that nobody polls would keep the place that it was given, and all others of its asker could wait for that one.
#[must_use = "the answer comes to whoever waits for it"]
#[derive(Debug)]
pub struct Asked<R>(pub(crate) oneshot::Receiver<R>);

impl<R> Future for Asked<R> {
    type Output = Option<R>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        Poll::Ready(ready!(Pin::new(&mut self.0).poll(context)).ok())
    }
}
