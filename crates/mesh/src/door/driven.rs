//! A connection of HTTP/1.1 to whom requests are led, driven by who waits for an answer: a task of its own would be woken
//! four times for each request.

use std::pin::Pin;
use std::task::{Context, Waker};

use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::request::Upload;
use super::serving::MAX_HEAD_BYTES;

/// One, which takes one request after the other. Nothing of it goes on while nobody drives it.
pub(super) struct Driven {
    sender: SendRequest<Upload>,
    /// `None`: it is over.
    connection: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Driven {
    pub(super) async fn begin<S>(stream: S) -> Result<Self, String>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut asking = http1::Builder::new();
        asking.max_buf_size(2 * MAX_HEAD_BYTES);
        let handshake = asking.handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| error.to_string())?;
        // How it ended is said to who waits for an answer.
        let connection = async move { drop(connection.with_upgrades().await) };
        Ok(Driven {
            sender,
            connection: Some(Box::pin(connection)),
        })
    }

    /// Sends and receives what can be.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && connection.as_mut().poll(context).is_ready()
        {
            self.connection = None;
        }
    }

    /// Whether the next request may be sent, as far as is known.
    pub(super) fn is_open(&mut self) -> bool {
        self.drive(&mut Context::from_waker(Waker::noop()));
        self.connection.is_some() && !self.sender.is_closed()
    }

    /// Until the next request may be sent; `false`: it is over.
    pub(super) async fn is_ready(&mut self) -> bool {
        let ready = |context: &mut Context<'_>| {
            self.drive(context);
            self.sender.poll_ready(context)
        };
        std::future::poll_fn(ready).await.is_ok()
    }

    /// The head of the answer.
    pub(super) async fn ask(
        &mut self,
        request: Request<Upload>,
    ) -> Result<Response<Incoming>, TrySendError<Request<Upload>>> {
        let mut asking = std::pin::pin!(self.sender.try_send_request(request));
        std::future::poll_fn(|context| {
            self.drive(context);
            asking.as_mut().poll(context)
        })
        .await
    }

    /// Goes on by itself: another protocol is spoken from now on.
    pub(super) fn let_go(self) {
        if let Some(connection) = self.connection {
            tokio::spawn(connection);
        }
    }
}
