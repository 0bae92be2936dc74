//! Answers as they go to who asked: of an endpoint or another node as they come, and what this node says itself.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use tokio_util::task::AbortOnDropHandle;

use super::access::Line;
use super::kept::{Kept, Peer, Sender};
use super::request::Sent;
use crate::choice::{AtEndpoint, InFlight, SentHere};
use crate::idle;
use crate::room::Seat;

/// Of a call of gRPC that nobody has, or that had no answer in time.
const GRPC_UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");
const GRPC_DEADLINE_EXCEEDED: HeaderValue = HeaderValue::from_static("4");

/// The body of an answer.
pub(super) enum Answer {
    /// Of an endpoint, or of another node.
    Led { body: Incoming, end: Box<End> },
    /// Of this node itself.
    Own(Full<Bytes>),
}

/// What is over with the body of an answer.
pub(super) struct End {
    pub(super) _at: At,
    /// The connection that it comes by.
    pub(super) sender: Option<Sender>,
    /// Where that is kept for the next request, once all that was said has been heard.
    pub(super) kept: Option<(Arc<Kept>, Peer)>,
    pub(super) sent: Sent,
    pub(super) is_whole: bool,
    /// Why no more of it comes: said once what came before has been passed on, which hyper would keep back.
    pub(super) failed: Option<hyper::Error>,
    /// What is said of it in the log.
    pub(super) line: Option<Box<Line>>,
}

/// What counts a request for as long as it is under way.
pub(super) struct At {
    pub(super) _seat: Arc<Seat>,
    pub(super) _in_flight: Option<InFlight>,
    pub(super) _sent_here: Option<SentHere>,
    pub(super) _endpoint: Option<AtEndpoint>,
    pub(super) _requests: Vec<idle::Request>,
    /// What passes on what both say.
    pub(super) _passing: Option<AbortOnDropHandle<()>>,
}

/// What this node says itself.
pub(super) fn own(status: StatusCode, why: &str, is_grpc: bool) -> Response<Answer> {
    if is_grpc {
        let mut answer = Response::new(Answer::Own(Full::default()));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        let code = match status == StatusCode::GATEWAY_TIMEOUT {
            true => GRPC_DEADLINE_EXCEEDED,
            false => GRPC_UNAVAILABLE,
        };
        headers.insert("grpc-status", code);
        if let Ok(why) = why.replace('%', "%25").try_into() {
            headers.insert("grpc-message", why);
        }
        return answer;
    }
    let mut answer = Response::new(Answer::Own(Full::from(format!("{why}\n"))));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    answer
}

/// The last one of its connection.
pub(super) fn ending(mut answer: Response<Answer>) -> Response<Answer> {
    answer
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

impl Body for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Answer::Led { body, end } => {
                if let Some(failed) = end.failed.take() {
                    return Poll::Ready(Some(Err(failed)));
                }
                if let Some(Sender::Http1(driven)) = &mut end.sender {
                    driven.drive(context);
                }
                let frame = Pin::new(&mut *body).poll_frame(context);
                if let Poll::Ready(Some(Err(failed))) = frame {
                    end.failed = Some(failed);
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if let (Some(line), Poll::Ready(Some(Ok(frame)))) = (&mut end.line, &frame) {
                    line.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                }
                end.is_whole |= matches!(frame, Poll::Ready(None)) || body.is_end_stream();
                frame
            }
            Answer::Own(body) => Pin::new(body).poll_frame(context).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Answer::Led { body, .. } => body.is_end_stream(),
            Answer::Own(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Led { body, .. } => body.size_hint(),
            Answer::Own(body) => body.size_hint(),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let (Some((kept, peer)), Some(sender)) = (self.kept.take(), self.sender.take())
            && self.is_whole
            && self.sent.is_all()
        {
            kept.keep(peer, sender);
        }
    }
}
