//! Requests of HTTP/1.1 and HTTP/2: each is led on its own, to a node and an endpoint, over connections that are kept. Who
//! is asked by HTTP/2 is asked by it there, too, as gRPC needs it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddrV4;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::{TrySendError, http2};
use hyper::header::{CONNECTION, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::server::conn as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::either::Either;

use super::driven::Driven;
use super::kept::{Kept, Peer, Sender};
use super::request::{self, Outgoing, Sent};
use super::{ATTEMPT, BUFFER_BYTES, Leads, connect, is_method, reasons};
use crate::choice::{AtEndpoint, Choice, InFlight, SentHere, To};
use crate::idle::{self, Activity};
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
const PING_PAUSE: Duration = Duration::from_secs(30);
/// From the last byte of a request that was sent to the head of an answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// The same of another node, which may have to wake somebody first: it gives up before who asks it does.
const NODE_PATIENCE: Duration = Duration::from_secs(130);
/// For a stream to a node, and for a place there.
const OPEN_PATIENCE: Duration = Duration::from_secs(5);
/// For a connection that is kept to take the next request.
const TAKE_PATIENCE: Duration = Duration::from_millis(250);
/// For the rest of a request that is refused.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks at whether who is asked is there.
const THERE_PAUSE: Duration = Duration::from_millis(250);
/// Requests of one connection of HTTP/2 at once, and bytes of each that wait for a slow reader.
const MAX_STREAMS: u32 = 100;
const MAX_WAITING_BYTES: usize = 64 << 10;
/// Endpoints of this node that are tried for a request.
const MAX_TRIES: usize = 3;
/// Of requests that another node says it has; more are no matter.
const MAX_BUSY: u32 = 1 << 20;
/// How many requests others than the caller have at the node: between nodes alone.
const BUSY: HeaderName = HeaderName::from_static("selvedge-busy");
/// That a node says itself that it has no answer, and whether somebody may have seen the request: between nodes alone.
const FAILED: HeaderName = HeaderName::from_static("selvedge-failed");
const SEEN: HeaderValue = HeaderValue::from_static("seen");
const UNSEEN: HeaderValue = HeaderValue::from_static("unseen");
/// Of a call of gRPC that nobody has.
const GRPC_UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");

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

/// The body of an answer.
enum Answer {
    /// Of an endpoint, or of another node.
    Led { body: Incoming, end: Box<End> },
    /// Of this node itself.
    Own(Full<Bytes>),
}

/// What is over with the body of an answer.
struct End {
    _at: At,
    /// The connection that it comes by.
    sender: Option<Sender>,
    /// Where that is kept for the next request, once all that was said has been heard.
    kept: Option<(Arc<Kept>, Peer)>,
    sent: Sent,
    is_whole: bool,
    /// Why no more of it comes: said once what came before has been passed on, which hyper would keep back.
    failed: Option<hyper::Error>,
}

/// What counts a request for as long as it is under way.
struct At {
    _seat: Arc<Seat>,
    _in_flight: Option<InFlight>,
    _sent_here: Option<SentHere>,
    _endpoint: Option<AtEndpoint>,
    _requests: Vec<idle::Request>,
}

/// Why nobody has answered.
struct Failed {
    status: StatusCode,
    why: String,
    /// Whether somebody may have seen the request.
    is_seen: bool,
    /// Whether who was asked is at fault, and not who asks.
    blames: bool,
    /// The request, where all of it is here to be sent once more.
    request: Option<Box<Outgoing>>,
}

/// An answer whose head is there.
struct Head {
    response: Response<Incoming>,
    sender: Sender,
    sent: Sent,
    /// The request, where all of it is here to be sent once more.
    again: Option<Outgoing>,
}

/// One that is passed on.
struct Answered {
    head: Head,
    /// `None`: it is not kept.
    peer: Option<Peer>,
    endpoint: Option<AtEndpoint>,
    requests: Vec<idle::Request>,
}

/// What an answer is passed on by.
struct Passing {
    speaks: Speaks,
    upgrading: Option<OnUpgrade>,
    seat: Arc<Seat>,
}

impl Leads {
    /// Answers all requests of a connection: those that come `from` another node by those of this one alone.
    pub(super) async fn serve_http<S>(self, stream: S, speaks: Speaks, from: Option<String>, seat: Arc<Seat>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let from = from.map(Arc::<str>::from);
        let answering = service_fn(move |request| {
            let (mut leads, from, seat) = (self.clone(), from.clone(), Arc::clone(&seat));
            async move { Ok::<_, Infallible>(leads.answer(request, from.as_deref(), seat).await) }
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
            let _ = serving.serve_connection(stream, answering).await;
            return;
        }
        let mut serving = server::http1::Builder::new();
        serving
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_PATIENCE)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(2 * MAX_HEAD_BYTES)
            .auto_date_header(false);
        let _ = serving.serve_connection(stream, answering).with_upgrades().await;
    }

    async fn answer(&mut self, request: Request<Incoming>, from: Option<&str>, seat: Arc<Seat>) -> Response<Answer> {
        let is_grpc = request::is_grpc(request.headers());
        // The door may be gone, and whom it led to somebody else's.
        let is_over = self.leading.has_changed().is_err();
        if is_over || from.is_some() && !self.leading.borrow().is_told {
            let why = "the service is not there any more".to_owned();
            return ending(own(StatusCode::SERVICE_UNAVAILABLE, why, is_grpc));
        }
        let mut upgrading = None;
        let speaks = request::speaks(request.version());
        let request = match request::outgoing(request, &self.call.service, &mut upgrading) {
            Ok(request) => request,
            Err(why) => return ending(own(StatusCode::BAD_REQUEST, why, is_grpc)),
        };
        let passing = Passing {
            speaks,
            upgrading,
            seat,
        };
        let answered = match from {
            None => self.answer_caller(request, passing).await,
            Some(node) => self.answer_node(request, passing, node).await,
        };
        let failed = match answered {
            Ok(answer) => return answer,
            Err(failed) => failed,
        };
        // Who sends it without asking first (RFC 9110, 10.1.1) would see that nobody reads it, and not why.
        if let Some(request) = failed.request
            && from.is_none()
            && !request.headers().contains_key(EXPECT)
        {
            let _ = timeout(REFUSED_PATIENCE, Box::pin(request::discard(*request))).await;
        }
        let mut answer = own(failed.status, failed.why, is_grpc);
        if from.is_some() {
            let seen = if failed.is_seen { SEEN } else { UNSEEN };
            answer.headers_mut().insert(FAILED, seen);
        }
        answer
    }

    /// By whoever of the site is chosen, and where he has not seen it by the next one.
    async fn answer_caller(&mut self, request: Outgoing, passing: Passing) -> Result<Response<Answer>, Failed> {
        let (mut failed, mut status) = (BTreeMap::new(), StatusCode::SERVICE_UNAVAILABLE);
        let mut next = Some(request);
        while let Some(request) = next.take() {
            let chosen = Choice::choose(&self.choice, &self.leading.borrow(), &self.shared.ways.near(), &failed);
            let Some(in_flight) = chosen else {
                next = Some(request);
                break;
            };
            let may_repeat = request.method().is_idempotent();
            let began = Instant::now();
            let answered = match in_flight.to() {
                To::Here => self.ask_here(request).await,
                To::Node(node) => Box::pin(self.ask_node(request, node)).await,
            };
            match answered {
                Ok(mut answered) => {
                    let busy = answered.head.response.headers_mut().remove(BUSY);
                    let busy = busy.filter(|_| *in_flight.to() != To::Here);
                    let busy: Option<u32> = busy.and_then(|busy| busy.to_str().ok()?.parse().ok());
                    in_flight.answered(began.elapsed(), busy.map(|busy| busy.min(MAX_BUSY)));
                    return self.pass_on(answered, passing, Some(in_flight), None);
                }
                Err(why) => {
                    if why.blames {
                        in_flight.failed();
                    }
                    status = why.status;
                    next = self.once_more(why.request, why.is_seen, may_repeat);
                    failed.insert(in_flight.to().clone(), why.why);
                }
            }
        }
        Choice::refuse(&self.choice);
        Err(Failed {
            status,
            why: reasons(failed),
            is_seen: true,
            blames: false,
            request: next.map(Box::new),
        })
    }

    /// By somebody of this node, or nobody.
    async fn answer_node(
        &mut self,
        request: Outgoing,
        passing: Passing,
        node: &str,
    ) -> Result<Response<Answer>, Failed> {
        let (sent_here, beside) = Choice::take(&self.choice, node);
        let began = Instant::now();
        let mut answered = self.ask_here(request).await?;
        sent_here.answered(began.elapsed());
        let headers = answered.head.response.headers_mut();
        headers.remove(FAILED);
        headers.insert(BUSY, beside.into());
        self.pass_on(answered, passing, None, Some(sent_here))
    }

    /// Somebody of this node, and where he fails the next one. What is seldom done has its room elsewhere: this is moved
    /// for each request.
    async fn ask_here(&mut self, mut request: Outgoing) -> Result<Answered, Failed> {
        let sleepers = Arc::clone(&self.leading.borrow().sleepers);
        let requests: Vec<idle::Request> = sleepers.iter().map(Activity::begin).collect();
        let (speaks, may_repeat) = (request::speaks(request.version()), request.method().is_idempotent());
        let (mut failed, mut last, mut seen) = (Vec::new(), None, None);
        while failed.len() < MAX_TRIES && (sleepers.is_empty() || sleepers.iter().any(Activity::is_ready)) {
            let endpoint = Choice::endpoint(&self.choice, &self.leading.borrow(), &failed);
            let Some(endpoint) = endpoint else { break };
            let peer = Peer::Endpoint(endpoint.at);
            let kept = self.kept.take(&peer, speaks);
            let is_kept = kept.is_some();
            let sender = match kept {
                Some(kept) => Ok(kept),
                None => Box::pin(self.reach(&peer, endpoint.at, speaks)).await,
            };
            let why = match sender {
                Ok(sender) => match ask(sender, request, ANSWER_PATIENCE, || true).await {
                    Ok(head) => {
                        endpoint.answered();
                        return Ok(Answered {
                            head,
                            peer: Some(peer),
                            endpoint: Some(endpoint),
                            requests,
                        });
                    }
                    Err(mut why) => {
                        let Some(next) = self.once_more(why.request.take(), why.is_seen, may_repeat) else {
                            if why.blames && !is_kept {
                                endpoint.failed();
                            }
                            return Err(Failed {
                                why: format!("{}: {}", endpoint.at, why.why),
                                ..why
                            });
                        };
                        request = next;
                        seen = Some(why.status).filter(|_| why.is_seen).or(seen);
                        why.why
                    }
                },
                Err(why) => why,
            };
            last = Some(format!("{}: {why}", endpoint.at));
            // One that was kept may have been over; then a new one is made.
            if !is_kept {
                endpoint.failed();
                failed.push(endpoint.at);
            }
        }
        if sleepers.is_empty() || !failed.is_empty() {
            let why = last.unwrap_or_else(|| "nobody is ready to answer".to_owned());
            let not_sent = not_sent(why, request);
            return Err(Failed {
                status: seen.unwrap_or(not_sent.status),
                is_seen: seen.is_some(),
                ..not_sent
            });
        }
        Box::pin(self.ask_woken(request, requests)).await
    }

    /// What failed, if it may be sent once more though somebody may have seen it.
    fn once_more(&self, request: Option<Box<Outgoing>>, is_seen: bool, may_repeat: bool) -> Option<Outgoing> {
        let request = request.filter(|_| !is_seen || may_repeat && Choice::may_repeat(&self.choice));
        request.map(|request| *request)
    }

    /// Somebody of this node who is woken for that, and need not be there yet.
    async fn ask_woken(&mut self, request: Outgoing, requests: Vec<idle::Request>) -> Result<Answered, Failed> {
        let beginnings = Arc::clone(&self.beginnings);
        let woken = match connect(self, &beginnings).await {
            Ok((stream, _)) => begin(stream, request::speaks(request.version())).await,
            Err(why) => Err(why),
        };
        let sender = match woken {
            Ok(sender) => sender,
            Err(why) => return Err(not_sent(why, request)),
        };
        let head = ask(sender, request, ANSWER_PATIENCE, || true).await?;
        Ok(Answered {
            head,
            peer: None,
            endpoint: None,
            requests,
        })
    }

    /// Whoever another node finds there.
    async fn ask_node(&self, mut request: Outgoing, node: &str) -> Result<Answered, Failed> {
        let peer = Peer::Node(node.to_owned());
        let speaks = request::speaks(request.version());
        let is_there = || self.shared.ways.near().contains_key(node);
        loop {
            let kept = self.kept.take(&peer, speaks);
            let is_kept = kept.is_some();
            let sender = match kept {
                Some(kept) => kept,
                None => match self.open(&peer, node, speaks).await {
                    Ok(opened) => opened,
                    Err(why) => return Err(not_sent(why, request)),
                },
            };
            match ask(sender, request, NODE_PATIENCE, is_there).await {
                Ok(head) => {
                    if let Some(seen) = head.response.headers().get(FAILED) {
                        return Err(Failed {
                            status: head.response.status(),
                            why: format!("{node}: nobody there has an answer"),
                            is_seen: seen != UNSEEN,
                            blames: true,
                            request: head.again.map(Box::new),
                        });
                    }
                    return Ok(Answered {
                        head,
                        peer: Some(peer),
                        endpoint: None,
                        requests: Vec::new(),
                    });
                }
                Err(why) => match why.request {
                    // One that was kept may have been over.
                    Some(unsent) if is_kept && !why.is_seen => request = *unsent,
                    _ => {
                        return Err(Failed {
                            why: format!("{node}: {}", why.why),
                            ..why
                        });
                    }
                },
            }
        }
    }

    /// A stream to another node.
    async fn open(&self, peer: &Peer, node: &str, speaks: Speaks) -> Result<Sender, String> {
        let opening = self.shared.ways.call(node, &self.call, speaks);
        let stream = timeout(OPEN_PATIENCE, opening)
            .await
            .unwrap_or_else(|_| Err(format!("{node} takes no request")))?;
        Ok(self.share(peer, begin(stream, speaks).await?))
    }

    /// A connection to an endpoint of this node.
    async fn reach(&self, peer: &Peer, at: SocketAddrV4, speaks: Speaks) -> Result<Sender, String> {
        let stream = match timeout(ATTEMPT, TcpStream::connect(at)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("it does not answer".to_owned()),
        };
        let _ = stream.set_nodelay(true);
        Ok(self.share(peer, begin(stream, speaks).await?))
    }

    /// Has others use a new connection at once, if it can be shared.
    fn share(&self, peer: &Peer, sender: Sender) -> Sender {
        if self.may_keep(peer) {
            self.kept.share(peer, &sender);
        }
        sender
    }

    /// Of one that may sleep none is kept: the kernel would list it as somebody who is connected.
    fn may_keep(&self, peer: &Peer) -> bool {
        matches!(peer, Peer::Node(_)) || self.leading.borrow().sleepers.is_empty()
    }

    /// Gives the answer to who asked, as it comes.
    fn pass_on(
        &self,
        answered: Answered,
        passing: Passing,
        in_flight: Option<InFlight>,
        sent_here: Option<SentHere>,
    ) -> Result<Response<Answer>, Failed> {
        let Answered {
            head,
            peer,
            endpoint,
            requests,
        } = answered;
        let Head {
            mut response,
            sender,
            sent,
            ..
        } = head;
        let at = At {
            _seat: passing.seat,
            _in_flight: in_flight,
            _sent_here: sent_here,
            _endpoint: endpoint,
            _requests: requests,
        };
        if passing.speaks == Speaks::Http1 {
            *response.version_mut() = Version::HTTP_11;
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(caller) = passing.upgrading else {
                return Err(Failed {
                    status: StatusCode::BAD_GATEWAY,
                    why: "it speaks another protocol than it was asked by".to_owned(),
                    is_seen: true,
                    blames: true,
                    request: None,
                });
            };
            tokio::spawn(pass_bytes(caller, hyper::upgrade::on(&mut response), at));
            if let Sender::Http1(driven) = sender {
                driven.let_go();
            }
            request::strip_upgraded(response.headers_mut());
            let (parts, _) = response.into_parts();
            return Ok(Response::from_parts(parts, Answer::Own(Full::default())));
        }
        request::strip(response.headers_mut());
        let peer = peer.filter(|peer| self.may_keep(peer));
        let end = Box::new(End {
            _at: at,
            sender: Some(sender),
            kept: peer.map(|peer| (Arc::clone(&self.kept), peer)),
            sent,
            is_whole: response.body().is_end_stream(),
            failed: None,
        });
        Ok(response.map(|body| Answer::Led { body, end }))
    }
}

/// What both say in another protocol.
async fn pass_bytes(caller: OnUpgrade, answers: OnUpgrade, _at: At) {
    let Ok((caller, answers)) = tokio::try_join!(caller, answers) else {
        return;
    };
    let (mut caller, mut answers) = (TokioIo::new(caller), TokioIo::new(answers));
    let _ = copy_bidirectional_with_sizes(&mut caller, &mut answers, BUFFER_BYTES, BUFFER_BYTES).await;
}

async fn begin<S>(stream: S, speaks: Speaks) -> Result<Sender, String>
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

/// An answer of who `is_there`, as far as is known: not later than so long after the last byte that was sent.
async fn ask(
    mut sender: Sender,
    request: Outgoing,
    patience: Duration,
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
    match response(&mut sender, request, &sent, patience, is_there).await {
        Ok(response) => Ok(Head {
            response,
            sender,
            sent,
            again,
        }),
        Err(NoAnswer::Late(why)) => Err(Failed {
            status: StatusCode::GATEWAY_TIMEOUT,
            why,
            is_seen: true,
            blames: true,
            request: again.map(Box::new),
        }),
        Err(NoAnswer::Failed(mut failed)) => {
            let is_callers = failed.error().is_user();
            Err(Failed {
                status: match is_callers {
                    true => StatusCode::BAD_REQUEST,
                    false => StatusCode::BAD_GATEWAY,
                },
                why: format!("it did not answer as HTTP has it: {}", failed.error()),
                is_seen: failed.message().is_none(),
                blames: !is_callers,
                request: failed.take_message().or(again).map(Box::new),
            })
        }
    }
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
    patience: Duration,
    is_there: impl Fn() -> bool,
) -> Result<Response<Incoming>, NoAnswer> {
    let asking = match sender {
        Sender::Http1(driven) => Either::Left(driven.ask(request)),
        Sender::Http2(sender, _) => Either::Right(sender.try_send_request(request)),
    };
    let mut asking = pin!(asking);
    loop {
        match timeout(THERE_PAUSE, asking.as_mut()).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(failed)) => return Err(NoAnswer::Failed(Box::new(failed))),
            Err(_) if !is_there() => return Err(NoAnswer::Late("it is gone".to_owned())),
            Err(_) if sent.ago() >= patience => {
                let why = format!("it did not answer in {} s", patience.as_secs());
                return Err(NoAnswer::Late(why));
            }
            Err(_) => {}
        }
    }
}

fn not_sent(why: String, request: Outgoing) -> Failed {
    Failed {
        status: StatusCode::SERVICE_UNAVAILABLE,
        why,
        is_seen: false,
        blames: true,
        request: Some(Box::new(request)),
    }
}

/// What this node says itself.
fn own(status: StatusCode, why: String, is_grpc: bool) -> Response<Answer> {
    if is_grpc {
        let mut answer = Response::new(Answer::Own(Full::default()));
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert("grpc-status", GRPC_UNAVAILABLE);
        if let Ok(why) = why.replace('%', "%25").try_into() {
            headers.insert("grpc-message", why);
        }
        return answer;
    }
    let mut answer = Response::new(Answer::Own(Full::from(why + "\n")));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
    }
    answer
}

/// The last one of its connection.
fn ending(mut answer: Response<Answer>) -> Response<Answer> {
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
