//! Asking a container whether it has started, lives and is ready; by Kubernetes' rules.

mod tls;

use std::convert::Infallible;
use std::future::pending;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Interval, MissedTickBehavior, interval_at, timeout};

use crate::network::connections::PROBE_MARK;
use crate::runtime::Runtime;

/// What a container is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probes {
    /// Until it succeeds, the others are not asked; where it fails, the container is ended.
    pub startup: Option<Probe>,
    /// Where it fails, the container is ended.
    pub liveness: Option<Probe>,
    /// While it fails, the container is not ready.
    pub readiness: Option<Probe>,
}

/// A question that is asked again and again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// The question.
    pub ask: Ask,
    /// From the start to the first question.
    pub initial_delay: Duration,
    /// From one question to the next.
    pub period: Duration,
    /// For an answer.
    pub timeout: Duration,
    /// So many good answers in a row make it good.
    pub successes: u32,
    /// So many bad ones make it bad.
    pub failures: u32,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// A command in the container, which ends with 0.
    Exec(Vec<String>),
    /// A request, which is answered with a status from 200 to 399.
    Http {
        /// Where.
        port: u16,
        /// By TLS, whatever certificate is shown.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_tls: bool,
        /// Path and query.
        path: String,
        /// Sent along.
        headers: Vec<(String, String)>,
    },
    /// A port, which takes a connection.
    Tcp {
        /// Where.
        port: u16,
    },
}

/// Asks a container for as long as it runs.
pub(crate) struct Watch<'a> {
    pub(crate) runtime: &'a dyn Runtime,
    pub(crate) container: &'a str,
    /// Where it listens.
    pub(crate) address: Ipv4Addr,
    pub(crate) probes: &'a Probes,
}

impl Watch<'_> {
    /// Tells `ready` whether the container is ready, and if not why, each time that changes. Returns once the container
    /// has to be ended: why.
    pub(crate) async fn run(&self, mut ready: impl FnMut(Result<(), String>)) -> String {
        if let Some(startup) = &self.probes.startup
            && let Err(why) = self.follow(startup, Tally::of(startup, None)).await
        {
            return format!("it does not start: {why}");
        }
        let lives = async {
            match &self.probes.liveness {
                Some(liveness) => self.fails(liveness).await,
                None => pending().await,
            }
        };
        tokio::select! {
            why = lives => format!("it does not live: {why}"),
            never = self.tell_ready(&mut ready) => match never {},
        }
    }

    async fn tell_ready(&self, ready: &mut impl FnMut(Result<(), String>)) -> Infallible {
        let Some(readiness) = &self.probes.readiness else {
            ready(Ok(()));
            return pending().await;
        };
        let mut asking = self.every(readiness);
        let mut tally = Tally::of(readiness, None);
        loop {
            let answer = self.next(readiness, &mut asking).await;
            // Why it is not ready may become another reason.
            if tally.note(answer.is_ok()) || tally.is_good == Some(false) && answer.is_err() {
                ready(answer);
            }
        }
    }

    /// Until the answers are good, or bad: why.
    async fn follow(&self, probe: &Probe, mut tally: Tally) -> Result<(), String> {
        let mut asking = self.every(probe);
        loop {
            let answer = self.next(probe, &mut asking).await;
            if tally.note(answer.is_ok()) {
                return answer;
            }
        }
    }

    /// Until the answers are bad: why.
    async fn fails(&self, probe: &Probe) -> String {
        // It is good at first, and only a change is told.
        let failed = self.follow(probe, Tally::of(probe, Some(true))).await;
        failed.err().unwrap_or_default()
    }

    fn every(&self, probe: &Probe) -> Interval {
        let mut asking = interval_at(tokio::time::Instant::now() + probe.initial_delay, probe.period);
        asking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        asking
    }

    async fn next(&self, probe: &Probe, asking: &mut Interval) -> Result<(), String> {
        asking.tick().await;
        match timeout(probe.timeout, self.ask(&probe.ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {:?}", probe.timeout)),
        }
    }

    async fn ask(&self, ask: &Ask) -> Result<(), String> {
        match ask {
            Ask::Exec(command) => {
                let done = self.runtime.exec(self.container, command.clone()).await;
                let done = done.map_err(|error| error.to_string())?;
                match done.is_good {
                    true => Ok(()),
                    false => Err(done.words),
                }
            }
            Ask::Tcp { port } => connect(SocketAddrV4::new(self.address, *port)).await.map(drop),
            Ask::Http {
                port,
                is_tls,
                path,
                headers,
            } => {
                let to = SocketAddrV4::new(self.address, *port);
                let (stream, host) = (connect(to).await?, host(to, headers));
                let status = match is_tls {
                    true => status(to, tls::begin(stream, to, &host).await?, &host, path, headers).await?,
                    false => status(to, stream, &host, path, headers).await?,
                };
                match (200..400).contains(&status) {
                    true => Ok(()),
                    false => Err(format!("{path} answers with {status}")),
                }
            }
        }
    }
}

async fn connect(to: SocketAddrV4) -> Result<TcpStream, String> {
    let connect = async {
        let socket = TcpSocket::new_v4()?;
        // Who may not mark it has no networks whose use is counted.
        let _ = SockRef::from(&socket).set_mark(PROBE_MARK);
        socket.connect(to.into()).await
    };
    connect.await.map_err(|error| format!("port {}: {error}", to.port()))
}

/// Whom a request is for: as its headers say, else where it goes.
fn host(to: SocketAddrV4, headers: &[(String, String)]) -> String {
    let said = headers.iter().find(|(name, _)| is_host(name));
    said.map_or_else(|| to.to_string(), |(_, value)| value.clone())
}

fn is_host(name: &str) -> bool {
    name.eq_ignore_ascii_case("host")
}

/// The status that a request is answered with; the body is not read.
async fn status(
    to: SocketAddrV4,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    host: &str,
    path: &str,
    headers: &[(String, String)],
) -> Result<u16, String> {
    let wrong = |error: &dyn std::error::Error| format!("port {}: {error}", to.port());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| wrong(&error))?;
    let mut request = Request::builder()
        .uri(path)
        .header(header::CONNECTION, "close")
        .header(header::HOST, host);
    for (name, value) in headers.iter().filter(|(name, _)| !is_host(name)) {
        request = request.header(name, value);
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|error| wrong(&error))?;
    let answer = pin!(sender.send_request(request));
    let connection = pin!(connection);
    let answer = match select(answer, connection).await {
        Either::Left((answer, _)) => answer,
        // It may have ended with the answer.
        Either::Right((_, answer)) => answer.await,
    };
    Ok(answer.map_err(|error| wrong(&error))?.status().as_u16())
}

/// What comes of answers in a row.
#[derive(Clone, Copy, Debug)]
struct Tally {
    /// What they came to; `None`: nothing yet.
    is_good: Option<bool>,
    /// The last answer, and how often it came in a row.
    last: Option<bool>,
    in_a_row: u32,
    successes: u32,
    failures: u32,
}

impl Tally {
    fn of(probe: &Probe, is_good: Option<bool>) -> Tally {
        Tally {
            is_good,
            last: None,
            in_a_row: 0,
            successes: probe.successes,
            failures: probe.failures,
        }
    }

    /// Whether it comes to something else with this answer.
    fn note(&mut self, is_good: bool) -> bool {
        self.in_a_row = if self.last == Some(is_good) {
            self.in_a_row + 1
        } else {
            1
        };
        self.last = Some(is_good);
        let needed = if is_good { self.successes } else { self.failures };
        let changes = self.is_good != Some(is_good) && self.in_a_row >= needed;
        if changes {
            self.is_good = Some(is_good);
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(is_good: Option<bool>, answers: &str) -> String {
        let mut tally = Tally {
            is_good,
            last: None,
            in_a_row: 0,
            successes: 2,
            failures: 3,
        };
        let change = |answer: char| if tally.note(answer == '+') { answer } else { '.' };
        answers.chars().map(change).collect()
    }

    #[test]
    fn so_many_answers_in_a_row_change_what_is_so() {
        assert_eq!(changes(None, "+-++-+---++"), "...+....-.+");
        assert_eq!(changes(None, "----"), "..-.");
        assert_eq!(changes(Some(true), "++--+---"), ".......-");
        assert_eq!(changes(Some(false), "---++--+---"), "....+.....-");
    }
}
