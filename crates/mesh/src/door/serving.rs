//! Connections of HTTP/1.1 and HTTP/2 of who asks, and how they end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn as server;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Leads;
use super::answer::Answer;
use super::refused::is_method;
use super::rewound::Rewound;
use crate::nodes::Speaks;
use crate::room::Seat;

/// For the first bytes of a connection by which it is seen what is spoken; some wait to be spoken to.
const SPOKEN_PATIENCE: Duration = Duration::from_millis(100);
const SPOKEN_PAUSE: Duration = Duration::from_millis(1);
/// As many bytes as the shortest method has, with the space behind it.
const SPOKEN_BYTES: usize = 4;
/// Of the head of a request or an answer; more is refused, and so are more than 100 fields, as hyper has it.
pub(super) const MAX_HEAD_BYTES: usize = 64 << 10;
/// From the end of a request to the end of the next one's head.
pub(super) const HEAD_PATIENCE: Duration = Duration::from_secs(60);
/// Between two signs of life of a connection of HTTP/2 on which requests are under way.
pub(super) const PING_PAUSE: Duration = Duration::from_secs(30);
/// Requests of one connection of HTTP/2 at once, and bytes of each that wait for a slow reader.
const MAX_STREAMS: u32 = 100;
pub(super) const MAX_WAITING_BYTES: usize = 64 << 10;

/// What who calls speaks, as his first bytes show, which stay where they are.
pub(super) async fn spoken(stream: &TcpStream) -> Speaks {
    let hearing = async {
        let mut first = [0; SPOKEN_BYTES];
        loop {
            match stream.peek(&mut first).await {
                Ok(0) | Err(_) => return Speaks::Bytes,
                // RFC 9113, 3.4.
                Ok(SPOKEN_BYTES) if first == *b"PRI " => return Speaks::Http2,
                Ok(SPOKEN_BYTES) if is_method(&first) => return Speaks::Http1,
                Ok(SPOKEN_BYTES) => return Speaks::Bytes,
                // The rest of them may be on the way.
                Ok(_) => sleep(SPOKEN_PAUSE).await,
            }
        }
    };
    timeout(SPOKEN_PATIENCE, hearing).await.unwrap_or(Speaks::Bytes)
}

impl Leads {
    /// Answers all requests of a connection: those that come `from` another node by those of this one alone.
    pub(super) async fn serve_http<S>(self, stream: S, speaks: Speaks, from: Option<String>, seat: Arc<Seat>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let _served = self.door.shared.served.token();
        let from = from.map(Arc::<str>::from);
        if speaks == Speaks::Http2 {
            return Box::pin(self.serve_http2(stream, from, seat)).await;
        }
        if let Some((stream, said)) = self.serve_plain(stream, from.as_ref()).await {
            Box::pin(self.serve_http1(Rewound::new(stream, said), from, seat)).await;
        }
    }

    async fn serve_http1<S>(self, stream: S, from: Option<Arc<str>>, seat: Arc<Seat>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let closing = Closing::new(self.door.closes.clone());
        let mut serving = server::http1::Builder::new();
        serving
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(2 * MAX_HEAD_BYTES)
            .auto_date_header(false);
        let serving = serving.serve_connection(TokioIo::new(stream), self.answering(from, seat));
        until_closed(serving.with_upgrades(), closing, |serving| serving.graceful_shutdown()).await;
    }

    async fn serve_http2<S>(self, stream: S, from: Option<Arc<str>>, seat: Arc<Seat>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let closing = Closing::new(self.door.closes.clone());
        let mut serving = server::http2::Builder::new(TokioExecutor::new());
        serving
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .max_send_buf_size(MAX_WAITING_BYTES)
            .keep_alive_interval(PING_PAUSE)
            .auto_date_header(false);
        let serving = serving.serve_connection(TokioIo::new(stream), self.answering(from, seat));
        until_closed(serving, closing, |serving| serving.graceful_shutdown()).await;
    }

    fn answering(
        self,
        from: Option<Arc<str>>,
        seat: Arc<Seat>,
    ) -> impl HttpService<Incoming, ResBody = Answer, Error = Infallible, Future: Send + 'static> + Send {
        service_fn(move |request| {
            let (mut leads, from, seat) = (self.clone(), from.clone(), Arc::clone(&seat));
            async move { Ok::<_, Infallible>(leads.answer(request, from.as_ref(), seat).await) }
        })
    }
}

/// Whether a door has closed, as one of its connections asks.
pub(super) struct Closing {
    closes: watch::Receiver<()>,
    closed: Pin<Box<dyn Future<Output = ()> + Send>>,
    waker: Waker,
    is_told: bool,
}

impl Closing {
    pub(super) fn new(closes: watch::Receiver<()>) -> Self {
        let mut closing = closes.clone();
        let closed = async move { drop(closing.changed().await) };
        Closing {
            closes,
            closed: Box::pin(closed),
            waker: Waker::noop().clone(),
            is_told: false,
        }
    }

    pub(super) fn is_told(&self) -> bool {
        self.is_told || !matches!(self.closes.has_changed(), Ok(false))
    }

    /// The same; who asks is woken once it has.
    pub(super) fn poll_told(&mut self, context: &mut Context<'_>) -> bool {
        // Asking each time that something comes would lock what all connections of the door share.
        if !self.is_told && (!self.waker.will_wake(context.waker()) || self.is_told()) {
            self.waker.clone_from(context.waker());
            self.is_told = self.closed.as_mut().poll(context).is_ready();
        }
        self.is_told
    }
}

/// Serves a connection until it is over; once its door closes it is told so, and ends with what is under way.
async fn until_closed<C: Future>(serving: C, mut closing: Closing, tell: impl Fn(Pin<&mut C>)) {
    let (mut serving, mut is_told) = (pin!(serving), false);
    // Either side may end it as it likes; nobody else need know.
    let both = |context: &mut Context<'_>| {
        if !is_told && closing.poll_told(context) {
            is_told = true;
            tell(serving.as_mut());
        }
        serving.as_mut().poll(context).map(drop)
    };
    std::future::poll_fn(both).await;
}
