//! A door: takes connections in, holds them until somebody is ready, and passes on what they say, both ways.

mod access;
mod answer;
mod ask;
mod connecting;
mod deadline;
mod driven;
mod http;
mod kept;
mod listening;
mod plain;
mod refused;
mod repeatable;
mod request;
mod rewound;
mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::supervise::Key;
use balance::scale::Demand;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::either::Either;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub(crate) use self::connecting::Beginning;
use self::connecting::{Beginnings, Connected, FIRST_PAUSE, LONGEST_PAUSE, connect};
use self::kept::Kept;
pub(crate) use self::listening::Listens;
use self::listening::{Stream, open};
use self::refused::refuse;
use crate::choice::{Choice, To};
use crate::figures::OfService;
use crate::first_bytes::{Begun, FirstBytes};
use crate::held;
use crate::idle::{Activity, Request};
use crate::nodes::{self, Call, Elsewhere, Speaks, Ways};
use crate::room::{Room, Seat};
use crate::terms::Terms;

/// In each direction of a connection.
const BUFFER_BYTES: usize = 16 << 10;
/// From a connection until somebody is ready to answer it.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// The same where what is woken has failed to start.
const FAILURE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at that.
const FAILURE_POLL: Duration = Duration::from_millis(500);
/// For a place of what another node has opened.
const SEAT_PATIENCE: Duration = Duration::from_secs(4);

/// Whom it leads to.
#[derive(Clone, Default)]
pub(crate) struct Way {
    pub(crate) backends: Arc<[SocketAddrV4]>,
    pub(crate) sleepers: Arc<[Activity]>,
    /// What other nodes have of it.
    pub(crate) elsewhere: Arc<[Elsewhere]>,
    /// How they are spread, and what else is asked for them.
    pub(crate) terms: Terms,
    pub(crate) is_no_http: bool,
    /// Other nodes may send theirs.
    pub(crate) is_told: bool,
    /// Applications here that have as many replicas as what comes needs.
    pub(crate) scalers: Arc<[Key]>,
}

/// Whether a door takes connections.
#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Opening,
    /// At this port, if at one.
    Open(Option<SocketAddrV4>),
    Closed(String),
}

/// Backends that have taken a connection since they were ready.
pub(crate) type Reached = Arc<Mutex<BTreeSet<SocketAddrV4>>>;

/// What all doors of an edge have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) reached: Reached,
    /// Told when another is reached, and when a door is open.
    pub(crate) changes: Arc<Notify>,
    pub(crate) room: Arc<Room>,
    /// To other nodes.
    pub(crate) ways: Ways,
    /// Connections of HTTP that are taken, which end with the requests that are under way once their door closes.
    pub(crate) served: TaskTracker,
}

/// A door that is open, or is being opened.
pub(crate) struct Opened {
    way: watch::Sender<Way>,
    leads: Leads,
    state: Arc<Mutex<State>>,
    closing: watch::Sender<()>,
    serving: AbortOnDropHandle<()>,
}

impl Opened {
    /// One of a tenant's, open from when that can be. `call` is what other nodes are asked for in its place.
    pub(crate) fn new(listens: Listens, way: Way, call: Call, shared: Shared) -> Self {
        let (way, leading) = watch::channel(way);
        let (closing, closes) = watch::channel(());
        let state = Arc::default();
        let door = Common {
            call,
            choice: Arc::default(),
            beginnings: Beginnings::new(),
            taken: Arc::default(),
            kept: Arc::default(),
            closes,
            shared,
        };
        let leads = Leads {
            leading,
            door: Arc::new(door),
        };
        let serving = open(listens, leads.clone(), Arc::clone(&state));
        Opened {
            way,
            leads,
            state,
            closing,
            serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        }
    }

    pub(crate) fn lead_to(&self, way: Way) {
        // The kernel lists those that are kept as somebody who is connected.
        match way.sleepers.is_empty() {
            true => self.leads.door.kept.keep_to(&way.backends),
            false => self.leads.door.kept.clear(),
        }
        if !way.terms.slow_start.is_zero() {
            let Common { choice, shared, .. } = &*self.leads.door;
            held(choice).follow(&way, &shared.ways.near());
        }
        self.way.send_replace(way);
        let way = self.way.borrow();
        held(&self.leads.door.choice).lead_to(&way);
    }

    /// Whether requests are under way to somebody that it does not lead to any more.
    pub(crate) fn is_leaving(&self, address: Ipv4Addr) -> bool {
        held(&self.leads.door.choice).is_leaving(address)
    }

    /// Takes no further connection. Of those of HTTP each ends with the requests that are under way.
    pub(crate) fn close(&self) {
        self.serving.abort();
        self.closing.send_replace(());
    }

    /// Whether it leads to an application that has as many replicas as what comes needs.
    pub(crate) fn scales(&self, key: &Key) -> bool {
        self.way.borrow().scalers.contains(key)
    }

    /// What comes to such a one, of which so many replicas are ready.
    pub(crate) fn demand(&self, ready: u32) -> Demand {
        let way = self.way.borrow();
        let all = held(&self.leads.door.choice).demand(&way.elsewhere);
        let share = match way.backends.len() {
            0 => 1.0 / way.scalers.len() as f32,
            endpoints => ready as f32 / endpoints as f32,
        };
        Demand {
            under_way: all.under_way * share.min(1.0),
            waiting: all.waiting * share.min(1.0),
            ..all
        }
    }

    /// Wakes those of the nearest node where somebody sleeps, unless there are as many endpoints as are needed, with so many
    /// here.
    pub(crate) fn wake_elsewhere(&self, needed: u32, here: u32) {
        let elsewhere = Arc::clone(&self.way.borrow().elsewhere);
        let near = self.leads.door.shared.ways.near();
        let there = elsewhere.iter().filter(|other| near.contains_key(&*other.node));
        let endpoints: u32 = there.clone().map(|other| u32::from(other.has.endpoints)).sum();
        let asleep = there.filter(|other| other.has.wakes && other.has.endpoints == 0);
        let nearest = asleep.min_by_key(|other| near[&*other.node].unwrap_or_default());
        if let Some(nearest) = nearest.filter(|_| here + endpoints < needed) {
            let (door, node) = (Arc::clone(&self.leads.door), Arc::clone(&nearest.node));
            // Once somebody is ready there, it is over.
            tokio::spawn(async move { door.shared.ways.call(&node, &door.call, Speaks::Bytes).await });
        }
    }

    /// What it has led where.
    pub(crate) fn figures(&self) -> OfService {
        held(&self.leads.door.choice).figures(&self.leads.door.call)
    }

    /// What leads requests of other nodes to whom this leads here.
    pub(crate) fn leads(&self) -> Leads {
        self.leads.clone()
    }

    /// Why it is not open.
    pub(crate) fn trouble(&self) -> Option<String> {
        match &*held(&self.state) {
            State::Closed(why) => Some(why.clone()),
            State::Opening | State::Open(_) => None,
        }
    }

    /// Whether it is neither open nor known why it is not.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(*held(&self.state), State::Opening)
    }

    /// The port where it listens, once it is open and the port nobody else's.
    pub(crate) fn listens_at(&self) -> Option<SocketAddrV4> {
        match *held(&self.state) {
            State::Open(at) => at,
            State::Opening | State::Closed(_) => None,
        }
    }
}

/// What connections of a door are led by.
#[derive(Clone)]
pub(crate) struct Leads {
    leading: watch::Receiver<Way>,
    door: Arc<Common>,
}

/// What all connections of a door have in common.
struct Common {
    /// Whose it is, and what for.
    call: Call,
    choice: Arc<Mutex<Choice>>,
    beginnings: Beginnings,
    /// Places that its connections have.
    taken: Arc<AtomicUsize>,
    kept: Arc<Kept>,
    /// Told, or gone, once it takes no further request.
    closes: watch::Receiver<()>,
    shared: Shared,
}

/// Wakes those that sleep, and waits for news for so long. No longer than there is hope.
async fn wait(
    leading: &mut watch::Receiver<Way>,
    sleepers: &[Activity],
    began: Instant,
    pause: Duration,
) -> Result<(), String> {
    sleepers.iter().for_each(Activity::wake);
    if let Ok(Err(_)) = timeout(pause, leading.changed()).await {
        return Err("it is not wanted any more".to_owned());
    }
    if began.elapsed() >= FAILURE_PATIENCE
        && let Some(why) = sleepers.iter().find_map(Activity::failure)
    {
        return Err(why);
    }
    match began.elapsed() >= READY_PATIENCE {
        true => Err(format!("it is not ready in {} s", READY_PATIENCE.as_secs())),
        false => Ok(()),
    }
}

impl Leads {
    async fn seat(&self) -> Seat {
        self.door
            .shared
            .room
            .seat(&self.door.call.tenant, &self.door.taken)
            .await
    }

    /// From the first byte to the last.
    async fn lead(mut self, mut stream: Stream, seat: Seat) {
        if let Either::Left(tcp) = &stream {
            let _ = tcp.set_nodelay(true);
            let may_be_http = {
                let way = self.leading.borrow();
                (!way.elsewhere.is_empty() || !way.scalers.is_empty() || way.terms.need_the_door()) && !way.is_no_http
            };
            let speaks = match may_be_http {
                true => serving::spoken(tcp).await,
                false => Speaks::Bytes,
            };
            if speaks != Speaks::Bytes {
                return self.serve_http(stream, speaks, None, Arc::new(seat)).await;
            }
        }
        let mut first = FirstBytes::default();
        let mut failed = BTreeMap::new();
        loop {
            let chosen = Choice::choose(
                &self.door.choice,
                &self.leading.borrow(),
                &self.door.shared.ways.near(),
                &failed,
            );
            let Some(in_flight) = chosen else { break };
            let reached = || in_flight.reached();
            let led = match in_flight.to() {
                To::Here => self.lead_here(&mut stream, &mut first, &[], reached).await,
                To::Node(node) => self.lead_to_node(&mut stream, &mut first, node, reached).await,
            };
            match led {
                Ok(()) => return,
                Err(why) => {
                    in_flight.failed();
                    failed.insert(in_flight.to().clone(), why);
                }
            }
        }
        Choice::refuse(&self.door.choice);
        refuse(stream, first.said(), reasons(failed)).await;
    }

    /// What another node has opened, which goes to nobody but those here.
    pub(crate) async fn lead_of_node(mut self, mut stream: site::Stream, speaks: Speaks, node: String) {
        if !self.leading.borrow().is_told {
            let _ = nodes::refuse(&mut stream, "its service keeps to its own node").await;
            return;
        }
        let Ok(seat) = timeout(SEAT_PATIENCE, self.seat()).await else {
            let _ = nodes::refuse(&mut stream, "it has no room for one more").await;
            return;
        };
        if speaks != Speaks::Bytes {
            if stream.write_all(nodes::TAKEN_BYTES).await.is_ok() {
                self.serve_http(stream, speaks, Some(node), Arc::new(seat)).await;
            }
            return;
        }
        let (mut first, greeting) = (FirstBytes::default(), nodes::TAKEN_BYTES);
        let (sent_here, _) = Choice::take(&self.door.choice, &node);
        let reached = || sent_here.reached();
        if let Err(why) = self.lead_here(&mut stream, &mut first, greeting, reached).await {
            let _ = nodes::refuse(&mut stream, &why).await;
        }
    }

    /// To somebody here: who calls is greeted once there is one, and he `is_reached` once he has it. Else why there is
    /// none: nobody has what was said `first`.
    async fn lead_here<S>(
        &mut self,
        stream: &mut S,
        first: &mut FirstBytes,
        greeting: &[u8],
        is_reached: impl Fn(),
    ) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let _requests: Vec<Request> = self.leading.borrow().sleepers.iter().map(Activity::begin).collect();
        let connected = connect(self).await?;
        if stream.write_all(greeting).await.is_err() {
            return Ok(());
        }
        self.lead_by(connected, stream, first, is_reached).await
    }

    /// By a connection that was made, and where nobody has that by others.
    async fn lead_by<S>(
        &mut self,
        mut connected: Connected,
        stream: &mut S,
        first: &mut FirstBytes,
        is_reached: impl Fn(),
    ) -> Result<(), String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let until = Instant::now() + READY_PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let Connected {
                stream: mut backend,
                endpoint,
                beginning,
            } = connected;
            let _ = backend.set_nodelay(true);
            match first.pass(stream, &backend, beginning).await {
                Ok(Begun::Taken) => {
                    is_reached();
                    // Either side may end it as it likes; nobody else need know.
                    let _ = copy_bidirectional_with_sizes(stream, &mut backend, BUFFER_BYTES, BUFFER_BYTES).await;
                    return Ok(());
                }
                // It is not to come to anybody later, as it is made anew.
                Ok(Begun::Forgotten) => {
                    let _ = backend.set_zero_linger();
                    drop((backend, endpoint));
                }
                Err(_) => return Ok(()),
            }
            if Instant::now() >= until {
                return Err(format!("it had no room for one more in {} s", READY_PATIENCE.as_secs()));
            }
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(2 * pause);
            connected = connect(self).await?;
        }
    }

    /// As [`Leads::lead_here`], to whom another node finds there.
    async fn lead_to_node(
        &self,
        stream: &mut Stream,
        first: &mut FirstBytes,
        node: &str,
        is_reached: impl Fn(),
    ) -> Result<(), String> {
        let mut far = self.door.shared.ways.call(node, &self.door.call, Speaks::Bytes).await?;
        is_reached();
        let said = std::mem::take(first).said();
        if far.write_all(&said).await.is_ok() {
            let _ = copy_bidirectional_with_sizes(stream, &mut far, BUFFER_BYTES, BUFFER_BYTES).await;
        }
        Ok(())
    }
}

/// Why nobody of those who were asked has it.
fn reasons(failed: BTreeMap<To, String>) -> String {
    match failed.is_empty() {
        true => "nobody is ready to answer".to_owned(),
        false => failed.into_values().collect::<Vec<_>>().join("; "),
    }
}
