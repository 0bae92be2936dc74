//! Connections of HTTP/1.1 and HTTP/2 of who asks, and how they end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use hyper::server::conn as server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{Leads, is_method};
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
const HEAD_PATIENCE: Duration = Duration::from_secs(60);
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
        let closes = self.door.closes.clone();
        let from = from.map(Arc::<str>::from);
        let answering = service_fn(move |request| {
            let (mut leads, from, seat) = (self.clone(), from.clone(), Arc::clone(&seat));
            async move { Ok::<_, Infallible>(leads.answer(request, from.as_ref(), seat).await) }
        });
        let stream = TokioIo::new(stream);
        // Either side may end it as it likes; nobody else need know.
        if speaks == Speaks::Http2 {
            let mut serving = server::http2::Builder::new(TokioExecutor::new());
            serving
                .timer(TokioTimer::new())
                .max_concurrent_streams(MAX_STREAMS)
                .max_header_list_size(MAX_HEAD_BYTES as u32)
                .max_send_buf_size(MAX_WAITING_BYTES)
                .keep_alive_interval(PING_PAUSE)
                .auto_date_header(false);
            let serving = serving.serve_connection(stream, answering);
            return until_closed(serving, closes, |serving| serving.graceful_shutdown()).await;
        }
        let mut serving = server::http1::Builder::new();
        serving
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(2 * MAX_HEAD_BYTES)
            .auto_date_header(false);
        let serving = serving.serve_connection(stream, answering).with_upgrades();
        until_closed(serving, closes, |serving| serving.graceful_shutdown()).await;
    }
}

/// Serves a connection until it is over; once its door closes it is told so, and ends with what is under way.
async fn until_closed<C: Future>(serving: C, mut closes: watch::Receiver<()>, tell: impl Fn(Pin<&mut C>)) {
    let mut serving = pin!(serving);
    let seen = closes.clone();
    let mut closed = pin!(closes.changed());
    // Asking again each time that something comes would lock what all connections of the door share.
    let (mut waker, mut is_told) = (Waker::noop().clone(), false);
    let both = |context: &mut Context<'_>| {
        if !is_told && (!waker.will_wake(context.waker()) || !matches!(seen.has_changed(), Ok(false))) {
            waker.clone_from(context.waker());
            is_told = closed.as_mut().poll(context).is_ready();
            if is_told {
                tell(serving.as_mut());
            }
        }
        serving.as_mut().poll(context).map(drop)
    };
    std::future::poll_fn(both).await;
}
