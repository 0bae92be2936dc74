//! A node that runs: it listens, dials the others, and is told of them.

mod dial;
mod relay;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use identity::NodeKeys;
use rand::seq::IteratorRandom;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::task::AbortOnDropHandle;

use self::dial::{Accepting, DIAL_PATIENCE, MAX_HANDSHAKES, Tls, reach};
use self::relay::{Apart, Relay};
pub use self::relay::{NoRelay, Relayed};
use crate::gossip::{Gossip, Message, ROUND, SILENT_AFTER};
use crate::line::{Came, FromLine, Line, MAX_RELAYED, Opening, Out, QUIET_AFTER, Stream};
use crate::record::{Keys, MAX_CONTENT_BYTES};

/// Others that are told in a round.
const TOLD: usize = 3;
/// Dials at once; more wait for the next round.
const MAX_DIALS: usize = 16;
/// The first pause after a dial that failed; each further one doubles it, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Addresses that are dialled of one node.
const MAX_ADDRESSES: usize = 8;
/// What waits to be looked at: of each kind.
const MAX_WAITING: usize = 256;
/// Connections in whose place others came, and in which something is still under way; the oldest of more ends.
const MAX_REPLACED: usize = 64;
/// For how long the other end may still use one of those.
const REPLACED_FOR: Duration = Duration::from_secs(5);

/// Most bytes that a node can say beside where it is.
pub const MAX_SAID_BYTES: usize = MAX_CONTENT_BYTES - 1_024;

/// What a node is started with.
pub struct Options {
    /// What it proves itself by.
    pub keys: Arc<NodeKeys>,
    /// Where others connect.
    pub listeners: Vec<TcpListener>,
    /// Where others are told that it is.
    pub addresses: Vec<SocketAddr>,
    /// `host:port` of some others, by which it finds the rest.
    pub seeds: Vec<String>,
    /// Whether it leads nodes to each other that do not reach each other.
    pub is_relay: bool,
    /// See [`Gossip::new`].
    pub incarnation: u64,
}

/// Another node, as it is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its name.
    pub node: String,
    /// Where it says that it is.
    pub addresses: Vec<SocketAddr>,
    /// What it says.
    pub said: Vec<u8>,
    /// Whether somebody has heard of it within seconds.
    pub is_alive: bool,
    /// Whether there is a connection between the two.
    pub is_connected: bool,
    /// The node through which that passes; `None`: through none.
    pub through: Option<String>,
    /// When somebody last heard of it, where it is silent and that is known.
    pub silent_since: Option<std::time::Instant>,
}

/// This node among the others, for as long as this is kept.
pub struct Site {
    says: mpsc::Sender<Vec<u8>>,
    known: watch::Receiver<Arc<Vec<Known>>>,
    openings: Openings,
    relay: Relay,
    addresses: Vec<SocketAddr>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// By the name of the node.
type Openings = Arc<Mutex<BTreeMap<String, Opening>>>;

/// What a node says.
#[derive(Serialize, Deserialize)]
struct Said {
    addresses: Vec<SocketAddr>,
    what: Vec<u8>,
}

impl Site {
    /// Runs a node from now on; the streams that other nodes open come by the channel, with who did.
    ///
    /// # Errors
    /// Its certificate cannot be used.
    pub fn start(options: Options) -> Result<(Self, mpsc::Receiver<(String, Stream)>), identity::NodeKeysError> {
        let (says, saying) = mpsc::channel(1);
        let (telling, known) = watch::channel(Arc::default());
        let (requests, requested) = mpsc::channel(MAX_WAITING);
        let (events, happening) = mpsc::channel(MAX_WAITING);
        let (from_lines, coming) = mpsc::channel(MAX_WAITING);
        let openings = Openings::default();
        let said = said(&options.addresses, Vec::new());
        let mut tasks = Vec::new();
        let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
        let acceptor = TlsAcceptor::from(options.keys.server_config()?);
        let relay = Relay::new(options.is_relay);
        for listener in options.listeners {
            let accepting = Accepting {
                listener,
                acceptor: acceptor.clone(),
                handshakes: Arc::clone(&handshakes),
                events: events.clone(),
            };
            tasks.push(AbortOnDropHandle::new(tokio::spawn(accepting.run())));
        }
        let running = Running {
            acceptor,
            connector: TlsConnector::from(options.keys.client_config()?),
            gossip: Gossip::new(
                options.keys.node(),
                options.incarnation,
                said,
                Arc::clone(&options.keys),
            ),
            node: options.keys.node().to_owned(),
            addresses: options.addresses.clone(),
            seeds: options.seeds,
            lines: BTreeMap::new(),
            replaced: BTreeMap::new(),
            relay: relay.clone(),
            apart: BTreeMap::new(),
            tasks: JoinSet::new(),
            openings: Arc::clone(&openings),
            next_line: 0,
            dials: BTreeMap::new(),
            led_to: BTreeMap::new(),
            events,
            from_lines,
            requests,
            telling,
            is_new: false,
        };
        let running = tokio::spawn(running.run(saying, happening, coming));
        tasks.push(AbortOnDropHandle::new(running));
        let site = Site {
            says,
            known,
            openings,
            relay,
            addresses: options.addresses,
            _tasks: tasks,
        };
        Ok((site, requested))
    }

    /// Has all others know this, in place of what was said before.
    ///
    /// # Panics
    /// If it is more than [`MAX_SAID_BYTES`].
    pub async fn say(&self, what: Vec<u8>) {
        assert!(what.len() <= MAX_SAID_BYTES, "{} bytes to be said", what.len());
        // Its task ends with this.
        let _ = self.says.send(what).await;
    }

    /// The others, as they are known at any time.
    #[must_use]
    pub fn known(&self) -> watch::Receiver<Arc<Vec<Known>>> {
        self.known.clone()
    }

    /// Where others are told that it is.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Nodes that are connected, and not quiet: round trips to them, as far as they are known.
    #[must_use]
    pub fn near(&self) -> BTreeMap<String, Option<Duration>> {
        let openings = held(&self.openings);
        let near = openings.iter().filter(|(_, opening)| opening.silence() <= QUIET_AFTER);
        near.map(|(node, opening)| (node.clone(), opening.distance())).collect()
    }

    /// What was led between nodes that do not reach each other.
    #[must_use]
    pub fn relayed(&self) -> Relayed {
        self.relay.figures()
    }

    /// A stream to another node.
    ///
    /// # Errors
    /// There is no connection to it, or it is lost.
    pub async fn open(&self, node: &str) -> io::Result<Stream> {
        let opening = held(&self.openings).get(node).cloned();
        opening.ok_or(io::ErrorKind::NotConnected)?.request().await
    }
}

impl Keys for Arc<NodeKeys> {
    fn certificate(&self) -> Vec<u8> {
        NodeKeys::certificate(self).to_vec()
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        NodeKeys::sign(self, bytes).expect("a key that has signed its request signs")
    }

    fn has_signed(&self, node: &str, certificate: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        NodeKeys::has_signed(self, node, certificate, bytes, signature)
    }
}

/// What the task of a node is told.
enum Event {
    /// Somebody has shown who he is.
    Greeted { node: String, tls: Tls, way: Way },
    /// Nobody of this site was there.
    NotReached { place: String, why: String },
    /// Nobody led to a node.
    NotRelayed { node: String, why: String },
}

/// How somebody came to be connected.
enum Way {
    /// He has dialled.
    Accepted,
    /// This one has, at that place.
    Dialled(String),
    /// Through another node, which one of the two has asked.
    Relayed { relay: String, is_asked_here: bool },
}

impl Way {
    fn is_from_here(&self) -> bool {
        match self {
            Way::Accepted => false,
            Way::Dialled(_) => true,
            Way::Relayed { is_asked_here, .. } => *is_asked_here,
        }
    }
}

struct Dial {
    /// Until then it is not dialled again; `None`: it is being dialled.
    not_before: Option<Instant>,
    pause: Duration,
}

struct Numbered {
    line: Line,
    number: u64,
    is_from_here: bool,
    /// Through which node it passes; `None`: through none.
    through: Option<String>,
    /// Places of other pairs' connections that pass this node by this line.
    passing: Arc<Semaphore>,
}

/// A line in whose place another came.
struct Replaced {
    line: Line,
    since: Instant,
}

struct Running {
    node: String,
    addresses: Vec<SocketAddr>,
    seeds: Vec<String>,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    gossip: Gossip<Arc<NodeKeys>>,
    /// By the node at the other end.
    lines: BTreeMap<String, Numbered>,
    /// By their number.
    replaced: BTreeMap<u64, Replaced>,
    openings: Openings,
    next_line: u64,
    /// By their place, of those that are to be reached and are not.
    dials: BTreeMap<String, Dial>,
    /// Which node was found at a place.
    led_to: BTreeMap<String, String>,
    relay: Relay,
    /// Nodes that are there and that no dial has reached, by their names.
    apart: BTreeMap<String, Apart>,
    /// Dials, questions to relays, and what passes here. They end with this.
    tasks: JoinSet<()>,
    events: mpsc::Sender<Event>,
    from_lines: mpsc::Sender<FromLine>,
    requests: mpsc::Sender<(String, Stream)>,
    telling: watch::Sender<Arc<Vec<Known>>>,
    /// Somebody says something else than was told.
    is_new: bool,
}

impl Running {
    async fn run(
        mut self,
        mut saying: mpsc::Receiver<Vec<u8>>,
        mut happening: mpsc::Receiver<Event>,
        mut coming: mpsc::Receiver<FromLine>,
    ) {
        let mut rounds = interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = rounds.tick() => self.round(),
                Some(event) = happening.recv() => self.take(event),
                Some(from) = coming.recv() => self.came(from),
                said = saying.recv() => match said {
                    Some(what) => self.say(what),
                    None => return,
                },
            }
            self.tell_who_is_known();
        }
    }

    fn round(&mut self) {
        let message = self.gossip.round(now()).encode();
        for line in self.lines.values().choose_multiple(&mut rand::rng(), TOLD) {
            line.line.tell(&message);
        }
        self.end_silent();
        self.dial();
        self.ask_relays();
        while self.tasks.try_join_next().is_some() {}
    }

    fn say(&mut self, what: Vec<u8>) {
        let message = self.gossip.say(said(&self.addresses, what), now()).encode();
        for line in self.lines.values() {
            line.line.tell(&message);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Greeted { node, tls, way } => self.greeted(node, tls, way),
            Event::NotReached { place, why } => {
                tracing::debug!(place, why, "no node was reached");
                self.put_off(&place);
            }
            Event::NotRelayed { node, why } => {
                tracing::debug!(node, why, "no node leads there");
                self.ask_later(&node, false);
            }
        }
    }

    /// Has a place be dialled again after a pause, if it is to be then: who is let in may be put out at once.
    fn put_off(&mut self, place: &str) {
        if let Some(dial) = self.dials.get_mut(place) {
            dial.not_before = Some(Instant::now() + dial.pause.mul_f64(rand::random_range(0.5..1.0)));
            dial.pause = (dial.pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn came(&mut self, FromLine { node, line, came }: FromLine) {
        let is_current = self.lines.get(&node).is_some_and(|numbered| numbered.number == line);
        if !is_current && !self.replaced.contains_key(&line) {
            return;
        }
        match came {
            Came::Message(message) if is_current => self.hear(&node, message),
            Came::Message(_) => {}
            Came::Request(stream) => {
                // Where nobody takes them any more, it is closed.
                let _ = self.requests.try_send((node, stream));
            }
            Came::Relay(target, stream) => self.relay(&node, &target, stream),
            Came::Relayed(stream) => self.relayed(node, stream),
            Came::End(why) if is_current => self.end(&node, &why),
            Came::End(_) => drop(self.replaced.remove(&line)),
        }
    }

    fn hear(&mut self, from: &str, message: Message) {
        let received = self.gossip.receive(from, message, now());
        self.is_new |= received.is_new;
        for refused in received.refused {
            tracing::warn!(
                from,
                node = refused.node,
                "what a node is said to say is refused: {}",
                refused.why
            );
        }
        if let (Some(answer), Some(numbered)) = (received.answer, self.lines.get(from)) {
            numbered.line.tell(&Message::encode(&answer));
        }
    }

    fn end(&mut self, node: &str, why: &str) {
        tracing::info!(node, why, "the connection to a node of the site ended");
        let ended = self.lines.remove(node);
        held(&self.openings).remove(node);
        if ended.is_some_and(|ended| ended.through.is_some()) {
            self.ask_soon(node);
        }
    }

    fn end_silent(&mut self) {
        let is_silent = |line: &Line| line.opening().silence() > SILENT_AFTER;
        let silent = self.lines.iter().filter(|(_, numbered)| is_silent(&numbered.line));
        let silent: Vec<String> = silent.map(|(node, _)| node.clone()).collect();
        for node in silent {
            self.end(&node, "nothing comes from it");
        }
        self.replaced.retain(|_, replaced| {
            let is_used = !replaced.line.is_idle() || replaced.since.elapsed() < REPLACED_FOR;
            is_used && !is_silent(&replaced.line)
        });
    }

    fn greeted(&mut self, node: String, tls: Tls, way: Way) {
        let is_from_here = way.is_from_here();
        let through = match way {
            Way::Accepted => None,
            Way::Dialled(place) => {
                self.put_off(&place);
                self.led_to.insert(place, node.clone());
                None
            }
            Way::Relayed { relay, .. } => {
                self.ask_later(&node, true);
                Some(relay)
            }
        };
        if node == self.node || !self.is_better(&node, is_from_here, through.is_some()) {
            return;
        }
        let number = self.next_line;
        self.next_line += 1;
        let out = Out {
            node: node.clone(),
            line: number,
            to: self.from_lines.clone(),
        };
        let line = Line::new(*tls, is_from_here, out);
        tracing::info!(
            node,
            through,
            is_dialled_here = is_from_here,
            "a node of the site is connected"
        );
        line.tell(&self.gossip.round(now()).encode());
        held(&self.openings).insert(node.clone(), line.opening().clone());
        let numbered = Numbered {
            line,
            number,
            is_from_here,
            through,
            passing: Arc::new(Semaphore::new(MAX_RELAYED)),
        };
        if let Some(before) = self.lines.insert(node, numbered) {
            self.replace(before);
        }
    }

    /// Has what is under way in a line come to its end, while what is new takes the other one.
    fn replace(&mut self, before: Numbered) {
        let replaced = Replaced {
            line: before.line,
            since: Instant::now(),
        };
        self.replaced.insert(before.number, replaced);
        if self.replaced.len() > MAX_REPLACED {
            self.replaced.pop_first();
        }
    }

    /// Whether a new connection takes the place of the one that there is: a direct one that of one through another node.
    /// Where two nodes dial each other at once, both keep the one that the node of the lower name has dialled.
    fn is_better(&self, node: &str, is_from_here: bool, is_relayed: bool) -> bool {
        self.lines.get(node).is_none_or(|old| {
            if old.through.is_some() != is_relayed {
                return !is_relayed;
            }
            let is_of_lower = is_from_here == (*self.node < *node);
            is_of_lower || old.is_from_here == is_from_here
        })
    }

    /// Whether there is a line to a node that passes no other.
    fn is_direct(&self, node: &str) -> bool {
        self.lines.get(node).is_some_and(|numbered| numbered.through.is_none())
    }

    /// Dials those who are to be connected and are not, at all of their places.
    fn dial(&mut self) {
        let wanted = self.wanted();
        let is_over = |dial: &Dial| dial.not_before.is_some_and(|at| at <= Instant::now());
        self.dials
            .retain(|place, dial| !is_over(dial) || wanted.contains(place));
        self.led_to
            .retain(|place, _| wanted.contains(place) || self.seeds.contains(place));
        for place in wanted {
            let dialling = self.dials.values().filter(|dial| dial.not_before.is_none()).count();
            let dial = self.dials.entry(place.clone()).or_insert(Dial {
                not_before: Some(Instant::now()),
                pause: FIRST_PAUSE,
            });
            let is_due = dial.not_before.is_some_and(|at| at <= Instant::now());
            if !is_due || dialling >= MAX_DIALS {
                continue;
            }
            dial.not_before = None;
            let (connector, events) = (self.connector.clone(), self.events.clone());
            self.tasks.spawn(async move {
                let reached = timeout(DIAL_PATIENCE, reach(&place, connector)).await;
                let event = match reached.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok((node, tls)) => Event::Greeted {
                        node,
                        tls,
                        way: Way::Dialled(place),
                    },
                    Err(error) => Event::NotReached {
                        place,
                        why: error.to_string(),
                    },
                };
                let _ = events.send(event).await;
            });
        }
    }

    /// Where somebody may be who is not connected, or only through another.
    fn wanted(&self) -> BTreeSet<String> {
        let is_there = |place: &String| {
            let node = self.led_to.get(place);
            node.is_some_and(|node| *node == self.node || self.is_direct(node))
        };
        let seeds = self.seeds.iter().filter(|place| !is_there(place)).cloned();
        let members = self.gossip.members(now()).filter(|member| !self.is_direct(member.node));
        let members = members
            .flat_map(|member| addresses(member.content))
            .map(|address| address.to_string());
        seeds.chain(members.filter(|place| !is_there(place))).collect()
    }

    fn tell_who_is_known(&mut self) {
        if !std::mem::take(&mut self.is_new) && self.is_told() {
            return;
        }
        let known = self.gossip.members(now()).map(|member| {
            let said: Option<Said> = postcard::from_bytes(member.content).ok();
            Known {
                node: member.node.to_owned(),
                addresses: addresses(member.content),
                said: said.map(|said| said.what).unwrap_or_default(),
                is_alive: member.is_alive,
                is_connected: self.lines.contains_key(member.node),
                through: self.through(member.node).map(str::to_owned),
                silent_since: member.heard_at.filter(|_| !member.is_alive),
            }
        });
        self.telling.send_replace(Arc::new(known.collect()));
    }

    /// Whether who is there is as it was told last, whatever they say.
    fn is_told(&self) -> bool {
        let told = self.telling.borrow();
        let told = told.iter().map(|known| {
            let Known { node, through, .. } = known;
            (&**node, known.is_alive, known.is_connected, through.as_deref())
        });
        let known = self.gossip.members(now()).map(|member| {
            let node = member.node;
            (node, member.is_alive, self.lines.contains_key(node), self.through(node))
        });
        told.eq(known)
    }

    /// The node through which the line to a node passes, if it does.
    fn through(&self, node: &str) -> Option<&str> {
        self.lines.get(node)?.through.as_deref()
    }
}

fn said(addresses: &[SocketAddr], what: Vec<u8>) -> Vec<u8> {
    let addresses = addresses.iter().take(MAX_ADDRESSES).copied().collect();
    postcard::to_allocvec(&Said { addresses, what }).expect("addresses and bytes can be written")
}

fn addresses(content: &[u8]) -> Vec<SocketAddr> {
    let said: Option<Said> = postcard::from_bytes(content).ok();
    let addresses = said.map(|said| said.addresses).unwrap_or_default();
    addresses.into_iter().take(MAX_ADDRESSES).collect()
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

fn held(openings: &Openings) -> std::sync::MutexGuard<'_, BTreeMap<String, Opening>> {
    openings.lock().unwrap_or_else(PoisonError::into_inner)
}
