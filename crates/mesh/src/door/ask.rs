//! One request to somebody, by a connection, and the head of its answer.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_util::either::Either;

use super::deadline::Until;
use super::driven::Driven;
use super::kept::Sender;
use super::request::{self, Outgoing, Sent};
use super::serving::{MAX_HEAD_BYTES, MAX_WAITING_BYTES, PING_PAUSE};
use crate::nodes::Speaks;

/// For a connection that is kept to take the next request.
const TAKE_PATIENCE: Duration = Duration::from_millis(250);
/// Between two looks at whether who is asked is there.
pub(super) const THERE_PAUSE: Duration = Duration::from_millis(250);

/// Why nobody has answered.
pub(super) struct Failed {
    pub(super) status: StatusCode,
    pub(super) why: String,
    /// Whether somebody may have seen the request.
    pub(super) is_seen: bool,
    /// The time that is set for it is over, so that nobody else is asked.
    pub(super) is_late: bool,
    /// Whether who was asked is at fault, and not who asks.
    pub(super) blames: bool,
    /// The request, where all of it is here to be sent once more.
    pub(super) request: Option<Box<Outgoing>>,
}

/// An answer whose head is there.
pub(super) struct Head {
    pub(super) response: Response<Incoming>,
    pub(super) sender: Sender,
    pub(super) sent: Sent,
    /// The request, where all of it is here to be sent once more.
    pub(super) again: Option<Outgoing>,
}

pub(super) async fn begin<S>(stream: S, speaks: Speaks) -> Result<Sender, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if speaks == Speaks::Http2 {
        let mut asking = http2::Builder::new(TokioExecutor::new());
        asking
            .timer(TokioTimer::new())
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .max_send_buf_size(MAX_WAITING_BYTES)
            .keep_alive_interval(PING_PAUSE);
        let (sender, connection) = asking
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        return Ok(Sender::Http2(sender, Arc::default()));
    }
    Driven::begin(stream).await.map(Sender::Http1)
}

/// An answer of who `is_there`, as far as is known: not later than it has to be.
pub(super) async fn ask(
    mut sender: Sender,
    request: Outgoing,
    until: Until,
    is_there: impl Fn() -> bool,
) -> Result<Head, Failed> {
    let ready = async {
        match &mut sender {
            Sender::Http1(driven) => driven.is_ready().await,
            Sender::Http2(sender, _) => sender.ready().await.is_ok(),
        }
    };
    if !timeout(TAKE_PATIENCE, ready).await.unwrap_or(false) {
        return Err(not_sent("the connection ended".to_owned(), request));
    }
    let again = request::again(&request);
    let sent = request.body().sent();
    let answered = response(&mut sender, request, &sent, until, is_there).await;
    let again = again.filter(|again| again.body().is_whole());
    match answered {
        Ok(response) => Ok(Head {
            response,
            sender,
            sent,
            again,
        }),
        Err(NoAnswer::Late(why)) => {
            let is_late = until.is_over(&sent);
            Err(Failed {
                status: StatusCode::GATEWAY_TIMEOUT,
                why,
                is_seen: true,
                is_late,
                // How little time a caller gives is nobody's fault who is asked.
                blames: !(is_late && until.is_of_caller()),
                request: again.filter(|_| !is_late).map(Box::new),
            })
        }
        Err(NoAnswer::Failed(mut failed)) => {
            let is_callers = failed.error().is_user();
            Err(Failed {
                status: match is_callers {
                    true => StatusCode::BAD_REQUEST,
                    false => StatusCode::BAD_GATEWAY,
                },
                why: format!("it did not answer as HTTP has it: {}", failed.error()),
                is_seen: failed.message().is_none() && !is_unseen(failed.error()),
                is_late: false,
                blames: !is_callers,
                request: failed.take_message().or(again).map(Box::new),
            })
        }
    }
}

/// Whether who was asked says that he has not looked at it (RFC 9113, 6.8 and 8.7): h2 gives those alone that are beyond
/// the last that another end that goes away has seen that reason.
fn is_unseen(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        let is_refused = cause.is_reset() && cause.reason() == Some(h2::Reason::REFUSED_STREAM);
        cause.is_remote() && (cause.is_go_away() || is_refused)
    })
}

/// Why there is no answer to what was sent.
enum NoAnswer {
    Failed(Box<TrySendError<Outgoing>>),
    Late(String),
}

async fn response(
    sender: &mut Sender,
    request: Outgoing,
    sent: &Sent,
    until: Until,
    is_there: impl Fn() -> bool,
) -> Result<Response<Incoming>, NoAnswer> {
    let asking = match sender {
        Sender::Http1(driven) => Either::Left(driven.ask(request)),
        Sender::Http2(sender, _) => Either::Right(sender.try_send_request(request)),
    };
    let mut asking = pin!(asking);
    loop {
        let left = until.left(sent);
        if left.is_zero() {
            return Err(NoAnswer::Late(format!("it did not answer in {:?}", until.patience())));
        }
        match timeout(THERE_PAUSE.min(left), asking.as_mut()).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(failed)) => return Err(NoAnswer::Failed(Box::new(failed))),
            Err(_) if !is_there() => return Err(NoAnswer::Late("it is gone".to_owned())),
            Err(_) => {}
        }
    }
}

pub(super) fn not_sent(why: String, request: Outgoing) -> Failed {
    Failed {
        status: StatusCode::SERVICE_UNAVAILABLE,
        why,
        is_seen: false,
        is_late: false,
        blames: true,
        request: Some(Box::new(request)),
    }
}
