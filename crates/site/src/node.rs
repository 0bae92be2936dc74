//! A node that runs: it listens, dials the others, and is told of them.

mod dial;
mod known;
mod mdns;
mod relay;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use identity::{Bans, NodeKeys};
use rand::seq::IteratorRandom;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::task::AbortOnDropHandle;

use self::dial::{Accepting, Dial, MAX_HANDSHAKES, Tls};
pub use self::known::Known;
use self::known::said;
use self::mdns::{Announced, FOUND_FOR, MAX_FOUND};
use self::relay::{Apart, Relay};
pub use self::relay::{NoRelay, Relayed};
use crate::gossip::{Gossip, Message, ROUND, SILENT_AFTER};
use crate::line::{Came, FromLine, Line, MAX_RELAYED, Opening, Out, QUIET_AFTER, Stream, certificate};
use crate::record::{Keys, MAX_CONTENT_BYTES};

/// Others that are told in a round.
const TOLD: usize = 3;
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
    /// Whether it finds others of the same network by multicast DNS, and they it.
    pub is_announced: bool,
    /// Who was banned when it ended.
    pub bans: Bans,
    /// See [`Gossip::new`].
    pub incarnation: u64,
}

/// This node among the others, for as long as this is kept.
pub struct Site {
    orders: mpsc::Sender<Order>,
    bans: watch::Receiver<Arc<Bans>>,
    known: watch::Receiver<Arc<Vec<Known>>>,
    openings: Openings,
    relay: Relay,
    addresses: Vec<SocketAddr>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// By the name of the node.
type Openings = Arc<Mutex<BTreeMap<String, Opening>>>;

impl Site {
    /// Runs a node from now on; the streams that other nodes open come by the channel, with who did.
    ///
    /// # Errors
    /// Its certificate cannot be used.
    pub fn start(options: Options) -> Result<(Self, mpsc::Receiver<(String, Stream)>), identity::NodeKeysError> {
        let (orders, ordered) = mpsc::channel(1);
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
        if options.is_announced
            && let Some(Ok(at)) = options.listeners.first().map(TcpListener::local_addr)
        {
            let announced = Announced {
                node: options.keys.node().to_owned(),
                site: options.keys.site().to_string(),
                port: at.port(),
            };
            tasks.push(AbortOnDropHandle::new(tokio::spawn(announced.run(events.clone()))));
        }
        for listener in options.listeners {
            let accepting = Accepting {
                listener,
                acceptor: acceptor.clone(),
                handshakes: Arc::clone(&handshakes),
                events: events.clone(),
            };
            tasks.push(AbortOnDropHandle::new(tokio::spawn(accepting.run())));
        }
        let (node, keys) = (options.keys.node(), Arc::clone(&options.keys));
        let gossip = Gossip::new(node, options.incarnation, said, options.bans, keys);
        let (banning, bans) = watch::channel(Arc::new(gossip.bans().clone()));
        let running = Running {
            acceptor,
            connector: TlsConnector::from(options.keys.client_config()?),
            gossip,
            keys: Arc::clone(&options.keys),
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
            found: BTreeMap::new(),
            events,
            from_lines,
            requests,
            telling,
            banning,
            is_new: false,
        };
        let running = tokio::spawn(running.run(ordered, happening, coming));
        tasks.push(AbortOnDropHandle::new(running));
        let site = Site {
            orders,
            bans,
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
        let _ = self.orders.send(Order::Say(what)).await;
    }

    /// Has these nodes be banned from now on, in place of those before, here and by all who hear of it. What the site's
    /// authority has not signed, or has signed before what is known, changes nothing.
    pub async fn ban(&self, bans: Bans) {
        let _ = self.orders.send(Order::Ban(bans)).await;
    }

    /// Who is banned, at any time.
    #[must_use]
    pub fn bans(&self) -> watch::Receiver<Arc<Bans>> {
        self.bans.clone()
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

    fn has_banned(&self, bans: &Bans) -> bool {
        NodeKeys::has_banned(self, bans)
    }

    fn is_banned(&self, certificate: &[u8], bans: &Bans) -> bool {
        bans.has(certificate)
    }
}

/// What a node is to do.
enum Order {
    Say(Vec<u8>),
    Ban(Bans),
}

/// What the task of a node is told.
enum Event {
    /// Somebody has shown who he is.
    Greeted { node: String, tls: Tls, way: Way },
    /// Nobody of this site was there.
    NotReached { place: String, why: String },
    /// Somebody of the same network says that a node is there.
    Found(SocketAddr),
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

struct Numbered {
    line: Line,
    number: u64,
    /// Of the node at the other end, in DER.
    certificate: Vec<u8>,
    is_from_here: bool,
    /// Through which node it passes; `None`: through none.
    through: Option<String>,
    /// Places of other pairs' connections that pass this node by this line.
    passing: Arc<Semaphore>,
}

/// A line in whose place another came.
struct Replaced {
    line: Line,
    certificate: Vec<u8>,
    since: Instant,
}

struct Running {
    node: String,
    addresses: Vec<SocketAddr>,
    seeds: Vec<String>,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    gossip: Gossip<Arc<NodeKeys>>,
    keys: Arc<NodeKeys>,
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
    /// Places of nodes that others of the same network told of, and when they did last.
    found: BTreeMap<String, Instant>,
    relay: Relay,
    /// Nodes that are there and that no dial has reached, by their names.
    apart: BTreeMap<String, Apart>,
    /// Dials, questions to relays, and what passes here. They end with this.
    tasks: JoinSet<()>,
    events: mpsc::Sender<Event>,
    from_lines: mpsc::Sender<FromLine>,
    requests: mpsc::Sender<(String, Stream)>,
    telling: watch::Sender<Arc<Vec<Known>>>,
    banning: watch::Sender<Arc<Bans>>,
    /// Somebody says something else than was told.
    is_new: bool,
}

impl Running {
    async fn run(
        mut self,
        mut ordered: mpsc::Receiver<Order>,
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
                order = ordered.recv() => match order {
                    Some(Order::Say(what)) => self.say(what),
                    Some(Order::Ban(bans)) => self.ban(bans),
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
        self.found.retain(|_, heard_at| heard_at.elapsed() < FOUND_FOR);
        self.dial();
        self.ask_relays();
        while self.tasks.try_join_next().is_some() {}
    }

    fn say(&mut self, what: Vec<u8>) {
        let message = self.gossip.say(said(&self.addresses, what), now());
        self.tell_all(&message);
    }

    fn ban(&mut self, bans: Bans) {
        match self.gossip.ban(bans, now()) {
            Ok(message) => {
                self.tell_all(&message);
                self.end_banned();
            }
            Err(why) => tracing::warn!("who is banned is not known: {why}"),
        }
    }

    fn tell_all(&self, message: &Message) {
        let message = message.encode();
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
            Event::Found(place) => {
                let place = place.to_string();
                if self.found.len() < MAX_FOUND || self.found.contains_key(&place) {
                    self.found.insert(place, Instant::now());
                }
            }
            Event::NotRelayed { node, why } => {
                tracing::debug!(node, why, "no node leads there");
                self.ask_later(&node, false);
            }
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
        if received.bans_are_new {
            // Who is connected hears of it now, and all others in the rounds.
            let message = self.gossip.round(now());
            self.tell_all(&message);
            self.end_banned();
        }
    }

    /// Nodes that are banned, or not any more, have changed.
    fn end_banned(&mut self) {
        let gossip = &self.gossip;
        let banned = self
            .lines
            .iter()
            .filter(|(_, line)| gossip.is_banned(&line.certificate));
        let banned: Vec<String> = banned.map(|(node, _)| node.clone()).collect();
        self.replaced
            .retain(|_, replaced| !gossip.is_banned(&replaced.certificate));
        if gossip.is_banned(NodeKeys::certificate(&self.keys)) {
            tracing::error!(
                "this node is banned from its site; it is let in again by: selvedge site invite, where the site began"
            );
        }
        for node in banned {
            self.end(&node, "it is banned from the site");
        }
        self.is_new = true;
        self.banning.send_replace(Arc::new(self.gossip.bans().clone()));
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
        let certificate = certificate(&tls);
        if self.gossip.is_banned(&certificate) {
            return tracing::debug!(node, through, "a node that is banned from the site was refused");
        }
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
            certificate,
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
            certificate: before.certificate,
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
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}

fn held(openings: &Openings) -> std::sync::MutexGuard<'_, BTreeMap<String, Opening>> {
    openings.lock().unwrap_or_else(PoisonError::into_inner)
}
