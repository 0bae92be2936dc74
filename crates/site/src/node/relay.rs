//! Nodes that do not reach each other, and one that leads them to each other.
//!
//! Who finds that a node is there, and has not reached it by dialling, asks a node with which it is connected itself to lead to it.
//! That one opens a stream there, if it is connected itself, and passes on what both say: TLS, of which it has no keys.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_util::either::Either;

use super::dial::{DIAL_PATIENCE, MAX_DIALS, Tls, greet, shake_hands};
use super::{Event, Running, Way, now};
use crate::line::{Opening, QUIET_AFTER, Stream};

/// For dialling to reach a node that is there, before others are asked to lead to it.
const DIALLED_FOR: Duration = Duration::from_secs(3);
/// The first pause after others were asked in vain; each further one doubles it, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);
/// Nodes that are asked one after the other, before a pause.
const MAX_ASKED: usize = 8;
/// Connections that pass a node, of all pairs; more are refused.
const MAX_PASSING: usize = 128;
/// Of those that a node refuses, how many are told so at once; more are closed.
const MAX_REFUSING: usize = 64;
/// Handshakes at once of those who are led here; more are closed at once.
const MAX_LED: usize = 16;

/// What a node says that is asked to lead to another; else why it does not.
const LED: u8 = 0;

/// Why a node does not lead one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum NoRelay {
    /// Its operator does not want it to.
    #[error("it is no relay")]
    Off,
    /// It would be led to itself, or to who asks.
    #[error("it is led to itself")]
    Itself,
    /// One of the two is not connected with it, or through another.
    #[error("it is not connected itself with that node")]
    NotConnected,
    /// As many as can pass it already, of all nodes or of one of the two.
    #[error("as many connections as can pass it already")]
    Full,
}

impl NoRelay {
    /// All of them.
    pub const ALL: [NoRelay; 4] = [NoRelay::Off, NoRelay::Itself, NoRelay::NotConnected, NoRelay::Full];

    /// In a word.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            NoRelay::Off => "off",
            NoRelay::Itself => "itself",
            NoRelay::NotConnected => "not-connected",
            NoRelay::Full => "full",
        }
    }

    fn byte(self) -> u8 {
        self as u8 + 1
    }

    fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|why| why.byte() == byte)
    }
}

/// What a node has led between others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Connections that pass it now.
    pub passing: usize,
    /// That have passed it, since it started.
    pub led: u64,
    /// That it refused, by the reason.
    pub refused: BTreeMap<NoRelay, u64>,
}

/// A node's own leading of others.
#[derive(Clone)]
pub(super) struct Relay {
    is_on: bool,
    places: Arc<Semaphore>,
    refusing: Arc<Semaphore>,
    handshakes: Arc<Semaphore>,
    led: Arc<AtomicU64>,
    refused: Arc<[AtomicU64; NoRelay::ALL.len()]>,
}

impl Relay {
    pub(super) fn new(is_on: bool) -> Self {
        Relay {
            is_on,
            places: Arc::new(Semaphore::new(MAX_PASSING)),
            refusing: Arc::new(Semaphore::new(MAX_REFUSING)),
            handshakes: Arc::new(Semaphore::new(MAX_LED)),
            led: Arc::default(),
            refused: Arc::default(),
        }
    }

    pub(super) fn figures(&self) -> Relayed {
        let refused = NoRelay::ALL.into_iter().zip(&*self.refused);
        Relayed {
            passing: MAX_PASSING - self.places.available_permits(),
            led: self.led.load(Ordering::Relaxed),
            refused: refused
                .map(|(why, count)| (why, count.load(Ordering::Relaxed)))
                .collect(),
        }
    }
}

/// A node that is there and that no dial has reached.
pub(super) struct Apart {
    /// Until then nobody is asked to lead to it; `None`: somebody is being asked.
    not_before: Option<Instant>,
    /// How often all who were asked could not.
    failures: u32,
}

impl Running {
    /// Asks others to lead to those who are there and not reached. Of two nodes that of the lower name asks first.
    pub(super) fn ask_relays(&mut self) {
        let is_apart = |node: &str| !self.is_direct(node);
        let there = self.gossip.members(now()).filter(|member| member.is_alive);
        let apart: Vec<String> = there
            .map(|member| member.node.to_owned())
            .filter(|node| is_apart(node))
            .collect();
        self.apart.retain(|node, _| apart.contains(node));
        let mut asking = self.apart.values().filter(|apart| apart.not_before.is_none()).count();
        for node in apart {
            let first = Instant::now() + DIALLED_FOR + self.precedence(&node);
            let known = self.apart.entry(node.clone()).or_insert(Apart {
                not_before: Some(first),
                failures: 0,
            });
            let is_due = known.not_before.is_some_and(|at| at <= Instant::now());
            if !is_due || asking >= MAX_DIALS || self.lines.contains_key(&node) {
                continue;
            }
            known.not_before = None;
            let failures = known.failures;
            self.ask(node, failures);
            asking += 1;
        }
    }

    /// How much longer this one waits than the other, of the two that may ask.
    fn precedence(&self, node: &str) -> Duration {
        match *self.node < *node {
            true => Duration::ZERO,
            false => DIALLED_FOR,
        }
    }

    fn ask(&mut self, node: String, failures: u32) {
        let relays = self.relays(&node, failures);
        let (connector, events) = (self.connector.clone(), self.events.clone());
        self.tasks.spawn(async move {
            let mut why = "there is nobody to ask".to_owned();
            for (relay, opening) in relays {
                let led = timeout(DIAL_PATIENCE, lead(&node, &opening, connector.clone())).await;
                match led.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok(tls) => {
                        let way = Way::Relayed {
                            relay,
                            is_asked_here: true,
                        };
                        let _ = events.send(Event::Greeted { node, tls, way }).await;
                        return;
                    }
                    Err(error) => why = format!("{relay}: {error}"),
                }
            }
            let _ = events.send(Event::NotRelayed { node, why }).await;
        });
    }

    /// Whom to ask: the nearest, and the next ones after those were asked in vain.
    fn relays(&self, node: &str, failures: u32) -> Vec<(String, Opening)> {
        let direct = self.lines.iter().filter(|(other, numbered)| {
            let is_there = numbered.line.opening().silence() <= QUIET_AFTER;
            is_there && numbered.through.is_none() && *other != node
        });
        let mut relays: Vec<(String, Opening)> = direct
            .map(|(other, numbered)| (other.clone(), numbered.line.opening().clone()))
            .collect();
        relays.sort_by_key(|(_, opening)| opening.distance().unwrap_or(Duration::MAX));
        if !relays.is_empty() {
            let asked = failures as usize * MAX_ASKED % relays.len();
            relays.rotate_left(asked);
        }
        relays.truncate(MAX_ASKED);
        relays
    }

    /// Has nobody be asked for a while: whom they led to may be put out at once.
    pub(super) fn ask_later(&mut self, node: &str, is_led: bool) {
        if let Some(apart) = self.apart.get_mut(node) {
            apart.failures = if is_led { 0 } else { apart.failures.saturating_add(1) };
            let pause = FIRST_PAUSE * (1 << apart.failures.min(3));
            apart.not_before = Some(Instant::now() + pause.min(LONGEST_PAUSE).mul_f64(rand::random_range(0.5..1.0)));
        }
    }

    /// Has others be asked at once, or when the other of the two had time to: who led to the node is gone.
    pub(super) fn ask_soon(&mut self, node: &str) {
        let soon = Instant::now() + self.precedence(node);
        if let Some(apart) = self.apart.get_mut(node)
            && let Some(not_before) = &mut apart.not_before
        {
            *not_before = soon.max(*not_before);
        }
    }

    /// Somebody asks to be led to a node.
    pub(super) fn relay(&mut self, asker: &str, target: &str, stream: Stream) {
        match self.passing(asker, target) {
            Ok((opening, places)) => {
                tracing::debug!(asker, target, "a connection of two nodes passes this one");
                self.relay.led.fetch_add(1, Ordering::Relaxed);
                self.tasks.spawn(pass(stream, opening, places));
            }
            Err(why) => {
                tracing::debug!(asker, target, %why, "a node is not led to another");
                self.relay.refused[why as usize].fetch_add(1, Ordering::Relaxed);
                if let Ok(place) = Arc::clone(&self.relay.refusing).try_acquire_owned() {
                    self.tasks.spawn(refuse(stream, why, place));
                }
            }
        }
    }

    /// How to lead there, and the places that it takes.
    fn passing(&self, asker: &str, target: &str) -> Result<(Opening, [OwnedSemaphorePermit; 3]), NoRelay> {
        if !self.relay.is_on {
            return Err(NoRelay::Off);
        }
        if target == asker || target == self.node {
            return Err(NoRelay::Itself);
        }
        let direct = |node: &str| self.lines.get(node).filter(|numbered| numbered.through.is_none());
        let (from, to) = (direct(asker), direct(target));
        let (from, to) = (from.ok_or(NoRelay::NotConnected)?, to.ok_or(NoRelay::NotConnected)?);
        let place = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_owned().map_err(|_| NoRelay::Full);
        let places = [place(&self.relay.places)?, place(&from.passing)?, place(&to.passing)?];
        Ok((to.line.opening().clone(), places))
    }

    /// Somebody is led here, by a node that cannot know who it is.
    pub(super) fn relayed(&mut self, relay: String, stream: Stream) {
        let place = Arc::clone(&self.relay.handshakes).try_acquire_owned();
        let Some(place) = place.ok().filter(|_| self.is_direct(&relay)) else {
            return;
        };
        let way = Way::Relayed {
            relay,
            is_asked_here: false,
        };
        let (acceptor, events) = (self.acceptor.clone(), self.events.clone());
        self.tasks
            .spawn(greet(Either::Right(stream), way, place, acceptor, events));
    }
}

/// Has a node lead to another, which shows that it is that one.
async fn lead(node: &str, relay: &Opening, connector: TlsConnector) -> io::Result<Tls> {
    let mut stream = relay.relay(node).await?;
    match stream.read_u8().await? {
        LED => {}
        other => {
            let why = NoRelay::of_byte(other).map(|why| why.to_string());
            return Err(io::Error::other(why.unwrap_or_else(|| format!("it refuses ({other})"))));
        }
    }
    let (found, tls) = shake_hands(Either::Right(stream), connector).await?;
    match found == node {
        true => Ok(tls),
        false => Err(io::Error::other(format!("it leads to {found}"))),
    }
}

/// Passes on what both say until one of the two ends, or its connection does.
async fn pass(mut from: Stream, to: Opening, _places: [OwnedSemaphorePermit; 3]) {
    let Ok(to) = to.relayed().await else {
        let _ = say(&mut from, NoRelay::NotConnected.byte()).await;
        return;
    };
    if say(&mut from, LED).await.is_err() {
        return;
    }
    let ((mut from_asker, mut to_asker), (mut from_target, mut to_target)) = (split(from), split(to));
    // TLS ends as a whole: who has closed one way is gone, and holds no place.
    tokio::select! {
        _ = copy(&mut from_asker, &mut to_target) => {}
        _ = copy(&mut from_target, &mut to_asker) => {}
    }
}

async fn refuse(mut stream: Stream, why: NoRelay, _place: OwnedSemaphorePermit) {
    let _ = timeout(DIAL_PATIENCE, say(&mut stream, why.byte())).await;
}

async fn say(stream: &mut Stream, byte: u8) -> io::Result<()> {
    stream.write_all(&[byte]).await?;
    stream.flush().await
}
