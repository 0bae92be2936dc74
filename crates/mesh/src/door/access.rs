//! A line of the log for each request of a service that asks for it.

use std::net::SocketAddrV4;
use std::sync::Arc;

use hyper::body::Body;
use hyper::http::uri::Uri;
use hyper::{Method, Response};
use tokio::time::Instant;

use super::Common;
use super::answer::Answer;
use crate::choice::{InFlight, Spill, To};

/// Of a path, and of why nobody answered; the rest is left out.
const MAX_TEXT_BYTES: usize = 1_024;

/// One, written when the answer is over, or whoever asked is gone. What the program's log cannot take in time is lost,
/// and counted there.
pub(super) struct Line {
    door: Arc<Common>,
    began: Instant,
    method: Method,
    /// What the request asks for; a query may hold what is nobody's business.
    path: String,
    /// The node that sent it here.
    from: Option<Arc<str>>,
    /// The node that it went to last, where that is another one.
    node: Option<Arc<str>>,
    pub(super) endpoint: Option<SocketAddrV4>,
    spilled: Option<Spill>,
    /// How many endpoints and nodes were asked.
    pub(super) tries: u32,
    pub(super) status: Option<u16>,
    /// Of the answer's body.
    pub(super) bytes: u64,
    /// Why this node answered itself.
    why: Option<String>,
}

impl Line {
    pub(super) fn begin(door: &Arc<Common>, method: &Method, uri: &Uri, from: Option<&Arc<str>>) -> Box<Self> {
        Box::new(Line {
            door: Arc::clone(door),
            began: Instant::now(),
            method: method.clone(),
            path: shortened(uri.path()).to_owned(),
            from: from.cloned(),
            node: None,
            endpoint: None,
            spilled: None,
            tries: 0,
            status: None,
            bytes: 0,
            why: None,
        })
    }

    /// It goes there next.
    pub(super) fn goes(&mut self, in_flight: &InFlight) {
        self.endpoint = None;
        self.spilled = in_flight.spilled();
        self.node = match in_flight.to() {
            To::Here => None,
            To::Node(node) => {
                self.tries += 1;
                Some(Arc::clone(node))
            }
        };
    }

    /// This node says itself why nobody else has.
    pub(super) fn answers_oneself(&mut self, answer: &Response<Answer>, why: &str) {
        self.status = Some(answer.status().as_u16());
        self.bytes = answer.body().size_hint().exact().unwrap_or_default();
        self.why = Some(shortened(why).to_owned());
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let call = &self.door.call;
        // Text is written with quotes, and with escapes for what is not printable.
        tracing::info!(
            target: "access",
            tenant = call.tenant,
            service = call.service,
            port = call.port,
            method = self.method.as_str(),
            path = self.path,
            status = self.status,
            bytes = self.bytes,
            took_ms = self.began.elapsed().as_micros() as f64 / 1e3,
            from = self.from.as_deref(),
            node = self.node.as_deref(),
            endpoint = self.endpoint.map(tracing::field::display),
            spilled = self.spilled.map(Spill::name),
            tries = self.tries,
            why = self.why,
        );
    }
}

fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}
