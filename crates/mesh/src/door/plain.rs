//! Plain requests of HTTP/1.1, as most are: a head and no more, that asks nothing of who passes it on. What is said is read
//! strictly and passed on as it stands, for a third of what `hyper` takes beside the kernel between two connections.
//! From the first other request on a connection is `hyper`'s, and so is a request that nobody has at the first attempt.

mod body;
mod caller;
mod head;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use hyper::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_util::either::Either;

use self::caller::{Answer, Caller, Heard, Silent, Wait};
pub(super) use self::caller::{Asking, is_open};
use super::ask::THERE_PAUSE;
use super::connecting::ATTEMPT;
use super::http::{ANSWER_PATIENCE, BUSY, FAILED, LATE, MAX_BUSY, NODE_PATIENCE, OPEN_PATIENCE, SEEN, UNSEEN};
use super::kept::Peer;
use super::serving::Closing;
use super::{Leads, Way};
use crate::choice::{AtEndpoint, Choice, InFlight, SentHere, To};
use crate::first_bytes::Witness;
use crate::nodes::Speaks;
use crate::terms::Terms;

/// What comes after a request.
enum Next {
    /// Another one.
    Request,
    /// Whatever it is, `hyper` has it: this request is not answered.
    Other,
    /// Nothing.
    Nothing,
}

/// Where a request goes, which counts there for as long as this is kept.
struct Course {
    began: Instant,
    peer: Peer,
    /// `None`: another node chooses.
    endpoint: Option<AtEndpoint>,
    counted: Counted,
}

/// Whose request it is.
enum Counted {
    OfCaller(InFlight),
    /// Another node has sent it, and others have so many here.
    OfNode(SentHere, u32),
}

/// Of a connection to an endpoint that was made for a request, whether that has heard of it.
type Made = Option<Witness>;

/// How an attempt ends that has no answer.
enum Untold {
    /// The connection was kept, and may have been over.
    Again,
    Next(Next),
}

/// Why there is no answer, and what is said of it.
struct Failed {
    status: StatusCode,
    why: String,
    is_seen: bool,
    /// As a connection may that is over.
    is_broken: bool,
    /// Nobody else is asked.
    is_final: bool,
}

impl Way {
    /// Whether its requests ask no more of who passes them on than plain ones have.
    fn is_plain(&self) -> bool {
        let asks_no_more = Terms {
            policy: self.terms.policy,
            slow_start: self.terms.slow_start,
            ..Terms::default()
        };
        self.sleepers.is_empty() && self.terms == asks_no_more
    }
}

impl Leads {
    /// Answers the requests of a connection for as long as they are plain. The connection, and what was said by it that is
    /// not answered; `None`: it is over.
    pub(super) async fn serve_plain<S>(&self, stream: S, from: Option<&Arc<str>>) -> Option<(S, BytesMut)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut caller = Caller::new(stream);
        let mut closing = Closing::new(self.door.closes.clone());
        loop {
            let next = match caller.hear(&mut closing).await {
                Heard::Plain { is_for_head } => match self.course(from) {
                    Some(course) => self.answer_plain(&mut caller, is_for_head, course, &mut closing).await,
                    None => Next::Other,
                },
                Heard::Other => Next::Other,
                Heard::Nothing => Next::Nothing,
            };
            match next {
                Next::Request => {}
                Next::Other => return Some(caller.into_parts()),
                Next::Nothing => return None,
            }
        }
    }

    /// Where a plain request goes first; `None`: nowhere, or it has to be more than plain.
    fn course(&self, from: Option<&Arc<str>>) -> Option<Course> {
        // The door may be gone, and whom it led to somebody else's.
        let is_over = self.leading.has_changed().is_err();
        let way = self.leading.borrow();
        if is_over || !way.is_plain() || from.is_some() && !way.is_told {
            return None;
        }
        let choice = &self.door.choice;
        let counted = match from {
            Some(node) => {
                let (sent_here, beside) = Choice::take(choice, node);
                Counted::OfNode(sent_here, beside)
            }
            None => Counted::OfCaller(Choice::choose(
                choice,
                &way,
                &self.door.shared.ways.near(),
                &BTreeMap::new(),
            )?),
        };
        let node = match &counted {
            Counted::OfCaller(in_flight) => match in_flight.to() {
                To::Node(node) => Some(node.as_ref().to_owned()),
                To::Here => None,
            },
            Counted::OfNode(..) => None,
        };
        let (peer, endpoint) = match node {
            Some(node) => (Peer::Node(node), None),
            None => {
                let endpoint = Choice::endpoint(choice, &way, &[])?;
                (Peer::Endpoint(endpoint.at), Some(endpoint))
            }
        };
        Some(Course {
            began: Instant::now(),
            peer,
            endpoint,
            counted,
        })
    }

    async fn answer_plain<S>(
        &self,
        caller: &mut Caller<S>,
        is_for_head: bool,
        course: Course,
        closing: &mut Closing,
    ) -> Next
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut tried = Err(Untold::Again);
        if let Some(asking) = self.door.kept.take_plain(&course.peer) {
            tried = self.try_plain(caller, is_for_head, &course, asking, None).await;
        }
        if let Err(Untold::Again) = tried {
            tried = match Box::pin(self.reach_plain(&course.peer)).await {
                Some((asking, made)) => self.try_plain(caller, is_for_head, &course, asking, Some(made)).await,
                None => {
                    course.failed();
                    return Next::Other;
                }
            };
        }
        let (answer, mut asking) = match tried {
            Ok(answered) => answered,
            Err(Untold::Again) => return Next::Other,
            Err(Untold::Next(next)) => return next,
        };
        course.answered(answer.head.busy);
        let is_last = closing.is_told() || answer.head.body.has_no_end();
        let mut fields = String::new();
        if let Counted::OfNode(_, beside) = &course.counted {
            fields = format!("{BUSY}: {beside}\r\n");
        }
        if is_last {
            fields.push_str("connection: close\r\n");
        }
        let passed = caller.pass(answer, &fields, &mut asking).await;
        if passed.stays {
            self.door.kept.keep_plain(course.peer, asking);
        }
        match passed.is_whole && !is_last {
            true => Next::Request,
            false => Next::Nothing,
        }
    }

    /// Asks by a connection that was kept, or was `made` for it.
    async fn try_plain<S>(
        &self,
        caller: &mut Caller<S>,
        is_for_head: bool,
        course: &Course,
        mut asking: Asking,
        made: Option<Made>,
    ) -> Result<(Answer, Asking), Untold>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let node = course.node();
        let wait = match node {
            Some(_) => Wait {
                patience: NODE_PATIENCE,
                look_pause: THERE_PAUSE,
            },
            None => Wait {
                patience: ANSWER_PATIENCE,
                look_pause: ANSWER_PATIENCE,
            },
        };
        let is_there = || node.is_none_or(|node| self.door.shared.ways.near().contains_key(node));
        let asked = caller.ask(&mut asking, is_for_head, course.began, wait, is_there);
        let failed = match asked.await {
            Ok(answer) => match answer.head.failed.as_ref().filter(|_| node.is_some()) {
                None => return Ok((answer, asking)),
                Some(said) => Failed::of_node(answer.head.status, said),
            },
            Err(Silent::Gone) => return Err(Untold::Next(Next::Nothing)),
            Err(Silent::Late(why)) => Failed {
                status: StatusCode::GATEWAY_TIMEOUT,
                why,
                is_seen: true,
                is_broken: false,
                is_final: false,
            },
            Err(Silent::Failed { why, is_seen }) => {
                let is_unheard = matches!(&made, Some(Some(witness)) if witness.is_unheard());
                Failed {
                    status: StatusCode::BAD_GATEWAY,
                    why: format!("it did not answer as HTTP has it: {why}"),
                    is_seen: is_seen && !is_unheard,
                    is_broken: true,
                    is_final: false,
                }
            }
        };
        let may_be_over = made.is_none() && failed.is_broken;
        if !may_be_over {
            course.failed();
        }
        if failed.is_final || failed.is_seen && !Choice::may_repeat(&self.door.choice) {
            let from = matches!(course.counted, Counted::OfNode(..));
            if !from {
                Choice::refuse(&self.door.choice);
            }
            let answer = failed.answer(&course.peer, is_for_head, from);
            return Err(Untold::Next(match caller.tell(answer.as_bytes()).await {
                true => Next::Request,
                false => Next::Nothing,
            }));
        }
        Err(match may_be_over {
            true => Untold::Again,
            false => Untold::Next(Next::Other),
        })
    }

    /// A connection to an endpoint, or a stream to a node.
    async fn reach_plain(&self, peer: &Peer) -> Option<(Asking, Made)> {
        match peer {
            Peer::Endpoint(at) => {
                let stream = timeout(ATTEMPT, TcpStream::connect(at)).await.ok()?.ok()?;
                let _ = stream.set_nodelay(true);
                let witness = Witness::of(&stream).ok()?;
                Some((Either::Left(stream), Some(witness)))
            }
            Peer::Node(node) => {
                let opening = self.door.shared.ways.call(node, &self.door.call, Speaks::Http1);
                let stream = timeout(OPEN_PATIENCE, opening).await.ok()?.ok()?;
                Some((Either::Right(stream), None))
            }
        }
    }
}

impl Course {
    fn node(&self) -> Option<&str> {
        match &self.peer {
            Peer::Node(node) => Some(node),
            Peer::Endpoint(_) => None,
        }
    }

    /// It was answered; others have so many where it was, as that says.
    fn answered(&self, busy: Option<u32>) {
        let took = self.began.elapsed();
        if let Some(endpoint) = &self.endpoint {
            endpoint.answered();
        }
        match &self.counted {
            Counted::OfCaller(in_flight) => {
                let busy = busy.filter(|_| self.endpoint.is_none());
                in_flight.answered(took, busy.map(|busy| busy.min(MAX_BUSY)));
            }
            Counted::OfNode(sent_here, _) => sent_here.answered(took),
        }
    }

    /// Who was asked is at fault.
    fn failed(&self) {
        match (&self.endpoint, &self.counted) {
            (Some(endpoint), _) => endpoint.failed(),
            (None, Counted::OfCaller(in_flight)) => in_flight.failed(),
            (None, Counted::OfNode(..)) => {}
        }
    }
}

impl Failed {
    /// As another node says it.
    fn of_node(status: u16, said: &[u8]) -> Self {
        let is_late = said == LATE.as_bytes();
        let why = match is_late {
            true => "it did not answer in the time that its service sets there",
            false => "nobody there has an answer",
        };
        Failed {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY),
            why: why.to_owned(),
            is_seen: said != UNSEEN.as_bytes(),
            is_broken: false,
            is_final: is_late,
        }
    }

    /// What is said of it.
    fn answer(&self, peer: &Peer, is_for_head: bool, to_node: bool) -> String {
        let Failed { status, why, .. } = self;
        let body = match peer {
            Peer::Endpoint(at) => format!("{at}: {why}\n"),
            Peer::Node(node) => format!("{node}: {why}\n"),
        };
        let failed = match to_node {
            true => format!("{FAILED}: {}\r\n", SEEN.to_str().unwrap_or_default()),
            false => String::new(),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n{failed}\r\n",
            body.len()
        );
        match is_for_head {
            true => head,
            false => head + &body,
        }
    }
}
