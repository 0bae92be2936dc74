//! A door: takes connections in, holds them until somebody is ready, and passes on what they say, both ways.

mod access;
mod answer;
mod ask;
mod connecting;
mod deadline;
mod driven;
mod http;
mod kept;
mod repeatable;
mod request;
mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::sockets::{self, At, Sockets};
use agent::supervise::Key;
use balance::scale::Demand;
use rustix::net::{AddressFamily, SocketFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::either::Either;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub(crate) use self::connecting::Beginning;
use self::connecting::{Beginnings, Connected, FIRST_PAUSE, LONGEST_PAUSE, connect};
use self::kept::Kept;
use crate::choice::{Choice, To};
use crate::figures::OfService;
use crate::first_bytes::{Begun, FirstBytes};
use crate::held;
use crate::idle::{Activity, Request};
use crate::nodes::{self, Call, Elsewhere, Speaks, Ways};
use crate::room::{Room, Seat};
use crate::terms::Terms;

/// Connections that wait in the kernel's queue of a door while there is no place for them; more are refused by it.
const QUEUE_MAX: u32 = 4_096;
/// In each direction of a connection.
const BUFFER_BYTES: usize = 16 << 10;
/// From a connection until somebody is ready to answer it.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// The same where what is woken has failed to start.
const FAILURE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at that.
const FAILURE_POLL: Duration = Duration::from_millis(500);
/// Between two attempts to open a door that is somebody else's, longer each time: another door there may just be
/// closing.
const BIND_FIRST_PAUSE: Duration = Duration::from_millis(1);
const BIND_LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Once they are that long, what is there stays.
const BIND_PATIENCE: Duration = Duration::from_millis(100);
/// For a place of what another node has opened.
const SEAT_PATIENCE: Duration = Duration::from_secs(4);
/// For the first bytes of who is told that nobody answers.
const FIRST_BYTES_PATIENCE: Duration = Duration::from_millis(200);
/// Of them.
const FIRST_BYTES: usize = 4 << 10;

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

/// How a door listens.
pub(crate) enum Listens {
    /// At a port; 0: at one that is free.
    Tcp(SocketAddrV4),
    /// At a Unix socket of the edge.
    Unix(At, Sockets),
    /// At a socket that those it leads to take over: it only sees whether somebody waits there while nobody is ready.
    Given(At, Sockets),
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

async fn open(listens: Listens, leads: Leads, state: Arc<Mutex<State>>) {
    let mut pause = BIND_FIRST_PAUSE;
    loop {
        let bound = match &listens {
            Listens::Tcp(at) => listen(*at).map(Listener::Tcp),
            Listens::Unix(at, sockets) => sockets.get(at).and_then(|socket| own(&socket)),
            Listens::Given(at, sockets) => sockets.get(at).map(Listener::Given),
        };
        match bound {
            Ok(listener) => {
                *held(&state) = State::Open(listener.port());
                leads.door.shared.changes.notify_one();
                return match listener {
                    Listener::Given(socket) => wake_for(socket, leads.leading).await,
                    listener => serve(listener, leads).await,
                };
            }
            Err(error) => {
                if pause > BIND_PATIENCE {
                    let before = std::mem::replace(&mut *held(&state), State::Closed(listens.trouble(&error)));
                    if matches!(before, State::Opening) {
                        leads.door.shared.changes.notify_one();
                    }
                }
                sleep(pause).await;
                pause = (pause * 2).min(BIND_LONGEST_PAUSE);
            }
        }
    }
}

/// A socket that listens.
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
    Given(Arc<OwnedFd>),
}

type Stream = Either<TcpStream, UnixStream>;

impl Listener {
    fn port(&self) -> Option<SocketAddrV4> {
        match self {
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(SocketAddr::V4(at)) => Some(at),
                Ok(SocketAddr::V6(_)) | Err(_) => None,
            },
            Listener::Unix(_) | Listener::Given(_) => None,
        }
    }

    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| Either::Left(stream)),
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| Either::Right(stream)),
            Listener::Given(socket) => accept(socket),
        }
    }
}

impl Listens {
    /// Why it is not open.
    fn trouble(&self, error: &io::Error) -> String {
        let is_in_use = error.kind() == io::ErrorKind::AddrInUse;
        match self {
            Listens::Tcp(at) | Listens::Given(At::Tcp(at), _) => match is_in_use {
                true => format!("port {} is in use by another program of this machine", at.port()),
                false => format!("{at}: {error}"),
            },
            Listens::Unix(At::Unix { name, .. }, _) | Listens::Given(At::Unix { name, .. }, _) => match is_in_use {
                true => format!("the socket {name} is in use by another program of this machine"),
                false => format!("the socket {name}: {error}"),
            },
            Listens::Unix(At::Tcp(at), _) => unreachable!("{at} is no Unix socket"),
        }
    }
}

/// Who waits to be taken has room in the kernel's queue: one that finds none tries again after a second.
fn listen(at: SocketAddrV4) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(at.into())?;
    socket.listen(QUEUE_MAX)
}

/// Nobody else has it.
fn own(socket: &OwnedFd) -> io::Result<Listener> {
    let socket = std::os::unix::net::UnixListener::from(socket.try_clone()?);
    socket.set_nonblocking(true)?;
    UnixListener::from_std(socket).map(Listener::Unix)
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

async fn serve(listener: Listener, leads: Leads) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                // Few wait for a place, and each door that only listens would have the room that this takes.
                let seat = Box::pin(leads.seat()).await;
                let leads = leads.clone();
                tokio::spawn(leads.lead(stream, seat));
            }
            // No descriptor is left, or who called has gone.
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                sleep(LONGEST_PAUSE).await;
            }
        }
    }
}

/// Wakes those that take a socket over while somebody waits there and none of them is ready. Who waits is told where
/// they do not start.
async fn wake_for(socket: Arc<OwnedFd>, mut leading: watch::Receiver<Way>) {
    // SAFETY: it owns its descriptor, which is the same for as long as it lives.
    let watched = unsafe { AsyncFd::register_with_interest(Arc::clone(&socket), Interest::READABLE) };
    let watched = match watched.map_err(io::Error::from) {
        Ok(watched) => watched,
        Err(error) => {
            tracing::error!(%error, "nobody sees who waits at a socket");
            return;
        }
    };
    loop {
        let sleepers = leading.borrow_and_update().sleepers.clone();
        if sleepers.is_empty() || sleepers.iter().any(Activity::is_ready) {
            match leading.changed().await {
                Ok(()) => continue,
                Err(_) => return,
            }
        }
        if !sockets::has_waiting(&socket) {
            tokio::select! {
                readable = watched.readable() => match readable {
                    // It is asked again, as others may have taken who waited.
                    Ok(mut readable) => readable.clear_ready(),
                    Err(_) => return,
                },
                changed = leading.changed() => if changed.is_err() { return },
            }
            continue;
        }
        let _requests: Vec<Request> = sleepers.iter().map(Activity::begin).collect();
        if let Err(why) = woken(&mut leading).await {
            while sockets::has_waiting(&socket) {
                match accept(&socket) {
                    Ok(stream) => drop(tokio::spawn(refuse(stream, Vec::new(), why.clone()))),
                    Err(error) => {
                        tracing::warn!(%error, "who waits cannot be told that nobody answers");
                        sleep(LONGEST_PAUSE).await;
                    }
                }
            }
        }
    }
}

/// One that waits; nobody else takes it meanwhile.
fn accept(socket: &OwnedFd) -> io::Result<Stream> {
    let stream = rustix::net::accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    match rustix::net::getsockname(&stream)?.address_family() {
        AddressFamily::UNIX => UnixStream::from_std(stream.into()).map(Either::Right),
        _ => TcpStream::from_std(stream.into()).map(Either::Left),
    }
}

/// Once one of those that sleep is ready.
async fn woken(leading: &mut watch::Receiver<Way>) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let sleepers = leading.borrow_and_update().sleepers.clone();
        if sleepers.iter().any(Activity::is_ready) {
            return Ok(());
        }
        wait(leading, &sleepers, began, FAILURE_POLL).await?;
    }
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

/// Says why to who speaks HTTP, as what he `said` first shows; others are cut off.
async fn refuse(mut stream: Stream, mut said: Vec<u8>, why: String) {
    if said.is_empty() {
        said.reserve(FIRST_BYTES);
        let _ = timeout(FIRST_BYTES_PATIENCE, stream.read_buf(&mut said)).await;
    }
    if is_method(&said) {
        let body = format!("{why}\n");
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Retry-After: 5\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
        // What was sent and not read would take the answer back.
        let _ = timeout(
            FIRST_BYTES_PATIENCE,
            tokio::io::copy(&mut stream, &mut tokio::io::sink()),
        )
        .await;
    }
}

/// Whether that is how a request of HTTP/1 begins (RFC 9110, 9.1).
fn is_method(first: &[u8]) -> bool {
    let methods: [&[u8]; 8] = [
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PUT ",
        b"DELETE ",
        b"OPTIONS ",
        b"PATCH ",
        b"TRACE ",
    ];
    methods.iter().any(|method| {
        let length = method.len().min(first.len());
        length > 2 && first[..length] == method[..length]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_has_asked_already_is_told_why_nobody_answers_and_so_is_who_asks_then() {
        let request = b"GET / HTTP/1.1\r\n\r\n";
        for said in [&request[..], &[]] {
            let (mut caller, door) = UnixStream::pair().unwrap();
            if said.is_empty() {
                caller.write_all(request).await.unwrap();
            }
            caller.shutdown().await.unwrap();
            refuse(Either::Right(door), said.to_vec(), "it sleeps".to_owned()).await;
            let mut answer = String::new();
            caller.read_to_string(&mut answer).await.unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("\r\nit sleeps\n"),
                "{answer}"
            );
        }
    }
}
