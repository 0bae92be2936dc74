//! Requests of HTTP/1.1 and HTTP/2: each is led on its own, to a node and an endpoint, over connections that are kept. Who
//! is asked by HTTP/2 is asked by it there, too, as gRPC needs it.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Incoming};
use hyper::header::{EXPECT, HeaderName, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tokio::io::{copy_bidirectional_with_sizes, duplex};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::access::Line;
use super::answer::{Answer, At, End, ending, own};
use super::ask::{Failed, Head, ask, begin, not_sent};
use super::connecting::{ATTEMPT, connect};
use super::deadline::{Deadline, Until};
use super::kept::{Peer, Sender};
use super::request::{self, Outgoing};
use super::{BUFFER_BYTES, Leads, reasons};
use crate::choice::{AtEndpoint, Choice, InFlight, SentHere, To};
use crate::first_bytes::{FirstBytes, Witness};
use crate::idle::{self, Activity};
use crate::nodes::Speaks;
use crate::room::Seat;
use crate::terms::Terms;

/// From the last byte of a request that was sent to the head of an answer.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// The same of another node, which may have to wake somebody first: it gives up before who asks it does.
pub(super) const NODE_PATIENCE: Duration = Duration::from_secs(130);
/// For a stream to a node, and for a place there.
pub(super) const OPEN_PATIENCE: Duration = Duration::from_secs(5);
/// For the rest of a request that is refused.
const REFUSED_PATIENCE: Duration = Duration::from_secs(1);
/// Endpoints of this node that are tried for a request, and more of them while that takes no longer than one attempt: many
/// that have just been started may not listen yet.
const MAX_TRIES: usize = 3;
/// Of requests that another node says it has; more are no matter.
pub(super) const MAX_BUSY: u32 = 1 << 20;
/// How many requests others than the caller have at the node: between nodes alone.
pub(super) const BUSY: HeaderName = HeaderName::from_static("selvedge-busy");
/// That a node says itself that it has no answer, and whether somebody may have seen the request: between nodes alone.
pub(super) const FAILED: HeaderName = HeaderName::from_static("selvedge-failed");
pub(super) const SEEN: HeaderValue = HeaderValue::from_static("seen");
pub(super) const UNSEEN: HeaderValue = HeaderValue::from_static("unseen");
/// The same where its time there is over.
pub(super) const LATE: HeaderValue = HeaderValue::from_static("late");

/// One that is passed on.
struct Answered {
    head: Head,
    /// `None`: it is not kept.
    peer: Option<Peer>,
    endpoint: Option<AtEndpoint>,
    requests: Vec<idle::Request>,
    passing: Option<AbortOnDropHandle<()>>,
}

/// What a request is led by.
struct Course {
    deadline: Option<Deadline>,
    /// How often it may be asked once more though somebody may have seen it.
    retries: u32,
    /// `None`: nobody wants one.
    line: Option<Box<Line>>,
}

impl Course {
    fn begin(leads: &Leads, request: &Request<Incoming>, terms: Terms, is_grpc: bool, from: Option<&Arc<str>>) -> Self {
        let calls = is_grpc.then_some(request.headers());
        let line = || Line::begin(&leads.door, request.method(), request.uri(), from);
        Course {
            deadline: Deadline::of(terms.timeout, calls, ANSWER_PATIENCE),
            retries: terms.retries,
            line: terms.is_logged.then(line),
        }
    }

    fn tries(&mut self, at: SocketAddrV4) {
        if let Some(line) = &mut self.line {
            line.tries += 1;
            line.endpoint = Some(at);
        }
    }
}

/// What an answer is passed on by.
struct Passing {
    speaks: Speaks,
    upgrading: Option<OnUpgrade>,
    seat: Arc<Seat>,
}

impl Leads {
    /// A request of who asks, or `from` another node.
    pub(super) async fn answer(
        &mut self,
        request: Request<Incoming>,
        from: Option<&Arc<str>>,
        seat: Arc<Seat>,
    ) -> Response<Answer> {
        let (terms, is_told) = {
            let way = self.leading.borrow();
            (way.terms, way.is_told)
        };
        let is_grpc = request::is_grpc(request.headers());
        let mut course = Course::begin(self, &request, terms, is_grpc, from);
        // The door may be gone, and whom it led to somebody else's.
        let is_over = self.leading.has_changed().is_err();
        if is_over || from.is_some() && !is_told {
            let why = "the service is not there any more";
            let mut answer = answer_oneself(course, StatusCode::SERVICE_UNAVAILABLE, why, is_grpc);
            if from.is_some() {
                answer.headers_mut().insert(FAILED, UNSEEN);
            }
            return ending(answer);
        }
        let mut upgrading = None;
        let speaks = request::speaks(request.version());
        let request = match request::outgoing(request, &self.door.call.service, &mut upgrading) {
            Ok(request) => request,
            Err(why) => return ending(answer_oneself(course, StatusCode::BAD_REQUEST, &why, is_grpc)),
        };
        let passing = Passing {
            speaks,
            upgrading,
            seat,
        };
        let answered = match course.deadline {
            None => self.answer_all(request, passing, from, &mut course).await,
            Some(deadline) => {
                let sent = request.body().sent();
                let answering = Box::pin(self.answer_all(request, passing, from, &mut course));
                let answered = deadline.within(&sent, answering).await;
                match answered {
                    Some(answered) if answered.is_ok() || !deadline.is_over(&sent) => answered,
                    _ => Err(self.late(deadline)),
                }
            }
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
        let seen = match (failed.is_late, failed.is_seen) {
            (true, _) => LATE,
            (false, true) => SEEN,
            (false, false) => UNSEEN,
        };
        let mut answer = answer_oneself(course, failed.status, &failed.why, is_grpc);
        if from.is_some() {
            answer.headers_mut().insert(FAILED, seen);
        }
        answer
    }

    async fn answer_all(
        &mut self,
        request: Outgoing,
        passing: Passing,
        from: Option<&Arc<str>>,
        course: &mut Course,
    ) -> Result<Response<Answer>, Failed> {
        match from {
            None => self.answer_caller(request, passing, course).await,
            Some(node) => self.answer_node(request, passing, node, course).await,
        }
    }

    /// The time that is set for it is over.
    fn late(&self, deadline: Deadline) -> Failed {
        Choice::late(&self.door.choice, !deadline.is_of_caller);
        let set_by = if deadline.is_of_caller {
            "who asks sets"
        } else {
            "it sets"
        };
        Failed {
            status: StatusCode::GATEWAY_TIMEOUT,
            why: format!(
                "{} did not answer in the {:?} that {set_by}",
                self.door.call.service, deadline.limit
            ),
            is_seen: true,
            is_late: true,
            blames: false,
            request: None,
        }
    }

    /// By whoever of the site is chosen, and where he has not seen it by the next one.
    async fn answer_caller(
        &mut self,
        request: Outgoing,
        passing: Passing,
        course: &mut Course,
    ) -> Result<Response<Answer>, Failed> {
        let (mut failed, mut status) = (BTreeMap::new(), StatusCode::SERVICE_UNAVAILABLE);
        let mut next = Some(request);
        while let Some(request) = next.take() {
            let chosen = Choice::choose(
                &self.door.choice,
                &self.leading.borrow(),
                &self.door.shared.ways.near(),
                &failed,
            );
            let Some(in_flight) = chosen else {
                next = Some(request);
                break;
            };
            if let Some(line) = &mut course.line {
                line.goes(&in_flight);
            }
            let may_repeat = request.method().is_idempotent();
            let began = Instant::now();
            let answered = match in_flight.to() {
                To::Here => self.ask_here(request, course).await,
                To::Node(node) => Box::pin(self.ask_node(request, node, course)).await,
            };
            match answered {
                Ok(mut answered) => {
                    let busy = answered.head.response.headers_mut().remove(BUSY);
                    let busy = busy.filter(|_| *in_flight.to() != To::Here);
                    let busy: Option<u32> = busy.and_then(|busy| busy.to_str().ok()?.parse().ok());
                    in_flight.answered(began.elapsed(), busy.map(|busy| busy.min(MAX_BUSY)));
                    return self.pass_on(answered, passing, Some(in_flight), None, course);
                }
                Err(why) => {
                    if why.blames {
                        in_flight.failed();
                    }
                    if why.is_late {
                        return Err(why);
                    }
                    status = why.status;
                    next = self.once_more(why.request, why.is_seen, may_repeat, course);
                    failed.insert(in_flight.to().clone(), why.why);
                }
            }
        }
        Choice::refuse(&self.door.choice);
        Err(Failed {
            status,
            why: reasons(failed),
            is_seen: true,
            is_late: false,
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
        course: &mut Course,
    ) -> Result<Response<Answer>, Failed> {
        let (sent_here, beside) = Choice::take(&self.door.choice, node);
        let began = Instant::now();
        let mut answered = self.ask_here(request, course).await?;
        sent_here.answered(began.elapsed());
        let headers = answered.head.response.headers_mut();
        headers.remove(FAILED);
        headers.insert(BUSY, beside.into());
        self.pass_on(answered, passing, None, Some(sent_here), course)
    }

    /// Somebody of this node, and where he fails the next one. What is seldom done has its room elsewhere: this is moved
    /// for each request.
    async fn ask_here(&mut self, mut request: Outgoing, course: &mut Course) -> Result<Answered, Failed> {
        let sleepers = Arc::clone(&self.leading.borrow().sleepers);
        let requests: Vec<idle::Request> = sleepers.iter().map(Activity::begin).collect();
        let (speaks, may_repeat) = (request::speaks(request.version()), request.method().is_idempotent());
        let (mut failed, mut last, mut seen) = (Vec::new(), None, None);
        let mut may_be_kept = true;
        // Of those that are woken for it many may wait, for whom not all have room: they are led to it with more care.
        let beginning = (!sleepers.is_empty()).then(|| self.door.beginnings.begin());
        let may_go = sleepers.is_empty() || self.door.beginnings.are_few() && sleepers.iter().any(Activity::is_ready);
        let mut tries_until = None;
        while may_go && (failed.len() < MAX_TRIES || tries_until > Some(Instant::now())) {
            let endpoint = Choice::endpoint(&self.door.choice, &self.leading.borrow(), &failed);
            let Some(endpoint) = endpoint else { break };
            let peer = Peer::Endpoint(endpoint.at);
            course.tries(endpoint.at);
            let kept = may_be_kept.then(|| self.door.kept.take(&peer, speaks)).flatten();
            let is_kept = kept.is_some();
            let (sender, witness) = match kept {
                Some(kept) => (Ok(kept), None),
                None => match Box::pin(self.reach(&peer, endpoint.at, speaks)).await {
                    Ok((sender, witness)) => (Ok(sender), Some(witness)),
                    Err(why) => (Err(why), None),
                },
            };
            let until = Until::or(course.deadline, ANSWER_PATIENCE);
            let why = match sender {
                Ok(sender) => match ask(sender, request, until, || true).await {
                    Ok(head) => {
                        endpoint.answered();
                        return Ok(Answered {
                            head,
                            peer: Some(peer),
                            endpoint: Some(endpoint),
                            requests,
                            passing: None,
                        });
                    }
                    Err(mut why) => {
                        if why.is_seen && witness.is_some_and(|witness| witness.is_unheard()) {
                            (why.is_seen, why.status) = (false, StatusCode::SERVICE_UNAVAILABLE);
                        }
                        let next = self.once_more(why.request.take(), why.is_seen, may_repeat, course);
                        let Some(next) = next else {
                            if why.blames && (!is_kept || why.status == StatusCode::GATEWAY_TIMEOUT) {
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
            may_be_kept = !is_kept;
            if !is_kept {
                endpoint.failed();
                failed.push(endpoint.at);
                tries_until.get_or_insert_with(|| Instant::now() + ATTEMPT);
            }
        }
        drop(beginning);
        if sleepers.is_empty() || seen.is_some() {
            let why = last.unwrap_or_else(|| "nobody is ready to answer".to_owned());
            let not_sent = not_sent(why, request);
            return Err(Failed {
                status: seen.unwrap_or(not_sent.status),
                is_seen: seen.is_some(),
                ..not_sent
            });
        }
        Box::pin(self.ask_woken(request, requests, course)).await
    }

    /// What failed, if it may be sent once more though somebody may have seen it.
    fn once_more(
        &self,
        request: Option<Box<Outgoing>>,
        is_seen: bool,
        may_repeat: bool,
        course: &mut Course,
    ) -> Option<Outgoing> {
        if is_seen && request.is_some() {
            let is_left = may_repeat && course.retries > 0 && Choice::may_repeat(&self.door.choice);
            course.retries = course.retries.checked_sub(1).filter(|_| is_left)?;
        }
        request.map(|request| *request)
    }

    /// Somebody of this node who is woken for that, need not be there yet, and may have no room for all who come.
    async fn ask_woken(
        &mut self,
        request: Outgoing,
        requests: Vec<idle::Request>,
        course: &mut Course,
    ) -> Result<Answered, Failed> {
        let connected = match connect(self).await {
            Ok(connected) => connected,
            Err(why) => return Err(not_sent(why, request)),
        };
        course.tries(connected.endpoint.at);
        let (near, mut far) = duplex(BUFFER_BYTES);
        let (mut leads, (tell, mut told)) = (self.clone(), oneshot::channel());
        let passing = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut first = FirstBytes::default();
            if let Err(why) = leads.lead_by(connected, &mut far, &mut first, || {}).await {
                let _ = tell.send(why);
            }
        }));
        let sender = match begin(near, request::speaks(request.version())).await {
            Ok(sender) => sender,
            Err(why) => return Err(not_sent(why, request)),
        };
        let until = Until::or(course.deadline, ANSWER_PATIENCE);
        match ask(sender, request, until, || true).await {
            Ok(head) => Ok(Answered {
                head,
                peer: None,
                endpoint: None,
                requests,
                passing: Some(passing),
            }),
            Err(failed) => Err(match told.try_recv() {
                Ok(nobody) => Failed {
                    status: StatusCode::SERVICE_UNAVAILABLE,
                    why: nobody,
                    is_seen: false,
                    ..failed
                },
                Err(_) => failed,
            }),
        }
    }

    /// Whoever another node finds there.
    async fn ask_node(&self, mut request: Outgoing, node: &str, course: &Course) -> Result<Answered, Failed> {
        let peer = Peer::Node(node.to_owned());
        let speaks = request::speaks(request.version());
        let is_there = || self.door.shared.ways.near().contains_key(node);
        let mut may_be_kept = true;
        loop {
            let kept = may_be_kept.then(|| self.door.kept.take(&peer, speaks)).flatten();
            let is_kept = kept.is_some();
            let sender = match kept {
                Some(kept) => kept,
                None => match self.open(&peer, node, speaks).await {
                    Ok(opened) => opened,
                    Err(why) => return Err(not_sent(why, request)),
                },
            };
            match ask(sender, request, Until::or(course.deadline, NODE_PATIENCE), is_there).await {
                Ok(head) => {
                    if let Some(seen) = head.response.headers().get(FAILED) {
                        let is_late = seen == LATE;
                        let why = match is_late {
                            true => "it did not answer in the time that its service sets there",
                            false => "nobody there has an answer",
                        };
                        return Err(Failed {
                            status: head.response.status(),
                            why: format!("{node}: {why}"),
                            is_seen: seen != UNSEEN,
                            is_late,
                            blames: true,
                            request: head.again.filter(|_| !is_late).map(Box::new),
                        });
                    }
                    return Ok(Answered {
                        head,
                        peer: Some(peer),
                        endpoint: None,
                        requests: Vec::new(),
                        passing: None,
                    });
                }
                Err(why) => match why.request {
                    // One that was kept may have been over.
                    Some(unsent) if is_kept && !why.is_seen => (request, may_be_kept) = (*unsent, false),
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
        let opening = self.door.shared.ways.call(node, &self.door.call, speaks);
        let stream = timeout(OPEN_PATIENCE, opening)
            .await
            .unwrap_or_else(|_| Err(format!("{node} takes no request")))?;
        Ok(self.share(peer, begin(stream, speaks).await?))
    }

    /// A connection to an endpoint of this node.
    async fn reach(&self, peer: &Peer, at: SocketAddrV4, speaks: Speaks) -> Result<(Sender, Witness), String> {
        let stream = match timeout(ATTEMPT, TcpStream::connect(at)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => return Err("it does not answer".to_owned()),
        };
        let _ = stream.set_nodelay(true);
        let witness = Witness::of(&stream).map_err(|error| error.to_string())?;
        Ok((self.share(peer, begin(stream, speaks).await?), witness))
    }

    /// Has others use a new connection at once, if it can be shared.
    fn share(&self, peer: &Peer, sender: Sender) -> Sender {
        if self.may_keep(peer) {
            self.door.kept.share(peer, &sender);
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
        course: &mut Course,
    ) -> Result<Response<Answer>, Failed> {
        let Answered {
            head,
            peer,
            endpoint,
            requests,
            passing: passing_bytes,
        } = answered;
        let Head {
            mut response,
            sender,
            sent,
            again,
        } = head;
        if let Some(again) = again {
            again.body().forget();
        }
        // Of one that may sleep none is kept: the kernel would list it as somebody who is connected.
        let may_keep = requests.is_empty();
        let at = At {
            _seat: passing.seat,
            _in_flight: in_flight,
            _sent_here: sent_here,
            _endpoint: endpoint,
            _requests: requests,
            _passing: passing_bytes,
        };
        if let Some(line) = &mut course.line {
            line.status = Some(response.status().as_u16());
        }
        if passing.speaks == Speaks::Http1 {
            *response.version_mut() = Version::HTTP_11;
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(caller) = passing.upgrading else {
                return Err(Failed {
                    status: StatusCode::BAD_GATEWAY,
                    why: "it speaks another protocol than it was asked by".to_owned(),
                    is_seen: true,
                    is_late: false,
                    blames: true,
                    request: None,
                });
            };
            let line = course.line.take();
            tokio::spawn(pass_bytes(caller, hyper::upgrade::on(&mut response), at, line));
            if let Sender::Http1(driven) = sender {
                driven.let_go();
            }
            request::strip_upgraded(response.headers_mut());
            let (parts, _) = response.into_parts();
            return Ok(Response::from_parts(parts, Answer::Own(Full::default())));
        }
        request::strip(response.headers_mut());
        let peer = peer.filter(|_| may_keep);
        let end = Box::new(End {
            _at: at,
            sender: Some(sender),
            kept: peer.map(|peer| (Arc::clone(&self.door.kept), peer)),
            sent,
            is_whole: response.body().is_end_stream(),
            failed: None,
            line: course.line.take(),
        });
        Ok(response.map(|body| Answer::Led { body, end }))
    }
}

/// What both say in another protocol.
async fn pass_bytes(caller: OnUpgrade, answers: OnUpgrade, _at: At, line: Option<Box<Line>>) {
    let Ok((caller, answers)) = tokio::try_join!(caller, answers) else {
        return;
    };
    let (mut caller, mut answers) = (TokioIo::new(caller), TokioIo::new(answers));
    let passed = copy_bidirectional_with_sizes(&mut caller, &mut answers, BUFFER_BYTES, BUFFER_BYTES).await;
    if let (Some(mut line), Ok((_, bytes))) = (line, passed) {
        line.bytes = bytes;
    }
}

/// What this node says itself, and of it in the log.
fn answer_oneself(course: Course, status: StatusCode, why: &str, is_grpc: bool) -> Response<Answer> {
    let answer = own(status, why, is_grpc);
    if let Some(mut line) = course.line {
        line.answers_oneself(&answer, why);
    }
    answer
}
