//! A request of HTTP as it is sent on: what is of its connection alone stays behind, what two could read differently is
//! refused.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Uri, Version};
use tokio::time::Instant;

use super::repeatable::Repeatable;
use crate::held;
use crate::nodes::Speaks;

/// What is of one connection, and not of the request (RFC 9110, 7.6.1).
const OF_CONNECTION: [HeaderName; 6] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRANSFER_ENCODING,
    UPGRADE,
];

pub(super) type Outgoing = Request<Upload>;

/// The body of a request.
pub(super) struct Upload {
    body: Source,
    sent: Sent,
}

/// Where it comes from.
enum Source {
    /// There is none.
    Nowhere,
    /// Who asks.
    Caller(Incoming),
    /// Who asks, and what is kept of it, of which this reading has that number.
    Again(Arc<Mutex<Repeatable<Incoming>>>, u32),
}

/// How much of a body has been sent.
#[derive(Clone)]
pub(super) struct Sent(Arc<State>);

struct State {
    since: Instant,
    /// The last of it, from then.
    last_ms: AtomicU64,
    is_all: AtomicBool,
}

impl Upload {
    /// What is said by HTTP/2 can be refused unseen after some of it was sent, so that its beginning is kept.
    fn new(body: Option<Incoming>, speaks: Speaks) -> Self {
        let sent = Sent(Arc::new(State {
            since: Instant::now(),
            last_ms: AtomicU64::new(0),
            is_all: AtomicBool::new(body.is_none()),
        }));
        let body = match (body, speaks) {
            (None, _) => Source::Nowhere,
            (Some(body), Speaks::Http2) => Source::Again(Arc::new(Mutex::new(Repeatable::new(body))), 0),
            (Some(body), _) => Source::Caller(body),
        };
        Upload { body, sent }
    }

    pub(super) fn sent(&self) -> Sent {
        self.sent.clone()
    }

    /// The same from its beginning. What reads this one finds no more once the other is read.
    fn again(&self) -> Option<Self> {
        let body = match &self.body {
            Source::Nowhere => return Some(Upload::new(None, Speaks::Http1)),
            Source::Caller(_) => return None,
            Source::Again(kept, reading) => Source::Again(Arc::clone(kept), reading + 1),
        };
        let sent = self.sent.clone();
        Some(Upload { body, sent })
    }

    /// Whether all of it is still here.
    pub(super) fn is_whole(&self) -> bool {
        match &self.body {
            Source::Nowhere | Source::Caller(_) => true,
            Source::Again(kept, _) => held(kept).is_whole,
        }
    }

    /// It will not be sent again.
    pub(super) fn forget(&self) {
        if let Source::Again(kept, _) = &self.body {
            held(kept).forget();
        }
    }
}

impl Sent {
    /// For how long nothing of it was sent, since it began.
    pub(super) fn ago(&self) -> Duration {
        let last = Duration::from_millis(self.0.last_ms.load(Ordering::Relaxed));
        self.0.since.elapsed().saturating_sub(last)
    }

    /// When the last of it was sent; `None`: there is none, or none was.
    pub(super) fn last(&self) -> Option<Instant> {
        let last_ms = self.0.last_ms.load(Ordering::Relaxed);
        (last_ms > 0).then(|| self.0.since + Duration::from_millis(last_ms))
    }

    pub(super) fn is_all(&self) -> bool {
        self.0.is_all.load(Ordering::Relaxed)
    }

    fn note(&self, is_all: bool) {
        let now_ms = self.0.since.elapsed().as_millis() as u64;
        self.0.last_ms.store(now_ms, Ordering::Relaxed);
        self.0.is_all.store(is_all, Ordering::Relaxed);
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let Upload { body, sent } = self.get_mut();
        let (frame, is_all) = match body {
            Source::Nowhere => return Poll::Ready(None),
            Source::Caller(body) => {
                let frame = Pin::new(&mut *body).poll_frame(context);
                (frame, body.is_end_stream())
            }
            Source::Again(kept, reading) => {
                let mut kept = held(kept);
                let frame = kept.poll_frame(*reading, context);
                (frame, kept.is_over(*reading))
            }
        };
        if let Poll::Ready(frame) = &frame {
            sent.note(frame.is_none() || is_all);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Source::Nowhere => true,
            Source::Caller(body) => body.is_end_stream(),
            Source::Again(kept, reading) => held(kept).is_over(*reading),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Source::Nowhere => SizeHint::with_exact(0),
            Source::Caller(body) => body.size_hint(),
            Source::Again(kept, _) => held(kept).size_hint(),
        }
    }
}

/// The request as it is sent on, and what becomes of its connection if it is to speak another protocol then. Why it is not
/// sent on, else.
pub(super) fn outgoing(
    mut request: Request<Incoming>,
    service: &str,
    upgrading: &mut Option<OnUpgrade>,
) -> Result<Outgoing, String> {
    if request.method() == Method::CONNECT {
        return Err("CONNECT is not led anywhere".to_owned());
    }
    let speaks = speaks(request.version());
    let headers = request.headers();
    let hosts = headers.get_all(HOST).iter().count();
    let is_named = speaks == Speaks::Http2 && request.uri().authority().is_some();
    if hosts > 1 || hosts == 0 && !is_named && request.version() != Version::HTTP_10 {
        return Err(format!(
            "there is one Host in a request, and there are {hosts} (RFC 9112, 3.2)"
        ));
    }
    // RFC 9110, 7.8.
    let may_upgrade = request.version() == Version::HTTP_11 && names_upgrade(headers);
    let upgrade = headers.get(UPGRADE).filter(|_| may_upgrade).cloned();
    let takes_trailers = headers.get(TE).is_some_and(|value| value == "trailers");
    if upgrade.is_some() {
        *upgrading = Some(hyper::upgrade::on(&mut request));
    }
    let (mut parts, body) = request.into_parts();
    strip(&mut parts.headers);
    if let Some(upgrade) = upgrade {
        parts.headers.insert(UPGRADE, upgrade);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let body = Upload::new(Some(body).filter(|body| !body.is_end_stream()), speaks);
    // What the target says goes before what the field says (RFC 9112, 3.2.2; RFC 9113, 8.3.1).
    let authority = parts.uri.authority().cloned();
    let host = parts.headers.remove(HOST);
    let path = parts.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    if speaks == Speaks::Http2 {
        let of_host = || Authority::try_from(host.as_ref()?.as_bytes()).ok();
        let authority = authority.or_else(of_host).ok_or("its Host is no name of one")?;
        let uri = Uri::builder()
            .scheme(Scheme::HTTP)
            .authority(authority)
            .path_and_query(path);
        parts.uri = uri.build().map_err(|error| error.to_string())?;
        if takes_trailers {
            parts.headers.insert(TE, HeaderValue::from_static("trailers"));
        }
    } else {
        let named = authority.and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
        let host = named.or(host).or_else(|| HeaderValue::from_str(service).ok());
        parts.headers.insert(HOST, host.ok_or("its Host is no name of one")?);
        parts.uri = Uri::from(path);
        parts.version = Version::HTTP_11;
        if body.size_hint().exact().is_none() {
            parts
                .headers
                .insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
    }
    Ok(Request::from_parts(parts, body))
}

/// The same once more, where all of it can be here.
pub(super) fn again(request: &Outgoing) -> Option<Outgoing> {
    let mut again = Request::new(request.body().again()?);
    *again.version_mut() = request.version();
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    Some(again)
}

/// Reads the rest of it, and forgets it.
pub(super) async fn discard(request: Outgoing) {
    let mut body = request.into_body();
    while let Some(Ok(_)) = body.frame().await {}
}

/// What a request of that version is sent on by.
pub(super) fn speaks(version: Version) -> Speaks {
    match version == Version::HTTP_2 {
        true => Speaks::Http2,
        false => Speaks::Http1,
    }
}

/// Whether it is a call of gRPC, whose callers look at no status but its own.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let rest = kind.strip_prefix("application/grpc");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

/// Takes away what is of a connection alone, and what that names.
pub(super) fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = connection_names(headers).filter_map(|name| name.parse().ok()).collect();
    for name in named.iter().filter(|name| **name != HOST).chain(&OF_CONNECTION) {
        headers.remove(name);
    }
}

/// The same of an answer after which another protocol is spoken, as it says.
pub(super) fn strip_upgraded(headers: &mut HeaderMap) {
    let upgrade = headers.get(UPGRADE).cloned();
    strip(headers);
    if let Some(upgrade) = upgrade {
        headers.insert(UPGRADE, upgrade);
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

fn names_upgrade(headers: &HeaderMap) -> bool {
    connection_names(headers).any(|name| name.eq_ignore_ascii_case("upgrade"))
}

fn connection_names(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',').map(str::trim))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn what_is_of_a_connection_stays_behind_with_what_it_names_and_the_host_does_not() {
        let mut all = headers(&[
            ("host", "web"),
            ("connection", "keep-alive, X-Own"),
            ("connection", "host"),
            ("x-own", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("upgrade", "websocket"),
            ("accept", "*/*"),
        ]);
        strip(&mut all);
        assert_eq!(all, headers(&[("host", "web"), ("accept", "*/*")]));
    }

    #[test]
    fn an_answer_that_changes_the_protocol_says_to_which() {
        let mut all = headers(&[
            ("connection", "Upgrade, x-own"),
            ("upgrade", "websocket"),
            ("x-own", "1"),
        ]);
        strip_upgraded(&mut all);
        assert_eq!(all, headers(&[("upgrade", "websocket"), ("connection", "upgrade")]));
    }

    #[test]
    fn calls_of_grpc_are_known_and_those_of_grpc_web_are_none() {
        for (kind, is_one) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(&headers(&[("content-type", kind)])), is_one, "{kind}");
        }
    }
}
