//! One client from its first byte to its shard.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use identity::{
    Audit, CertificateIdentity, Event, Identity, Login, Presented, PrincipalKind, Refusal, Throttle, network,
};
use mqtt::{Connect, ReasonCode, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::certificate;
use super::connect::{self, Arrival, NoConnect};
use super::edge::{EdgeConnection, Transport};
use super::login_checks::{LoginChecks, Turn};
use super::notices::{Notices, quoted};
use super::pending::{Pending, Ticket};
use super::proxy_protocol;
use super::stream::{Socket, Stream};
use super::turns::Turns;
use super::upgrade::{NoUpgrade, upgrade};
use crate::config::{Limits, Listener};
use crate::pace::Pace;
use crate::refused::{DoorCounters, Refused};
use crate::routing::LabelSource;
use crate::shard::Order;
use crate::shard::connection::{Admitted, Peer};
use crate::shard::inbox::Inbox;
use crate::unix_now_s;

/// Where a client of a Unix socket comes from.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// How often a place among the connections is looked for where there is none, and after which pause.
const PLACE_TRIES: u32 = 5;
const PLACE_RETRY: Duration = Duration::from_millis(10);

/// Decides who comes in; shared by all doors.
pub(crate) struct Doorman {
    limits: ArcSwap<Limits>,
    identity: Arc<Identity>,
    audit: Arc<Audit>,
    shards: Vec<Inbox<Order>>,
    /// Who takes the connections of edges; `None`: nobody, and they are refused.
    edges: Option<mpsc::Sender<EdgeConnection>>,
    labels: LabelSource,
    pending: Arc<Pending>,
    pace: Pace,
    handshakes: Turns,
    throttle: Mutex<Throttle>,
    /// Exchanged whole when its number changes: what is being checked then is let finish beside the new ones.
    login_checks: ArcSwap<LoginChecks>,
    /// One permit is taken for each open connection.
    places: Arc<Semaphore>,
    notices: Notices,
    pub(crate) counters: DoorCounters,
}

/// Why a client does not come in.
#[derive(Debug, thiserror::Error)]
enum TurnedAway {
    #[error("{0}")]
    Socket(#[from] io::Error),
    #[error("{0}")]
    Certificate(String),
    #[error("{0}")]
    NoUpgrade(#[from] NoUpgrade),
    #[error("{0}")]
    NoConnect(#[from] NoConnect),
    #[error("user name {user_name:?}: {refusal}")]
    Login { user_name: String, refusal: Refusal },
    #[error("too many failed logins; next try in {0} s")]
    Throttled(u64),
    #[error("as many logins of its address wait to be checked as may")]
    LoginsWaiting,
    #[error("enhanced authentication, which is not offered")]
    Method,
    #[error("as many connections as may are open")]
    Full,
    #[error("the hub is stopping")]
    Stopping,
    #[error("an edge, and this hub is no cloud")]
    Edge,
}

impl TurnedAway {
    fn why(&self) -> Refused {
        match self {
            TurnedAway::Socket(_) | TurnedAway::NoUpgrade(_) | TurnedAway::NoConnect(NoConnect::Socket(_)) => {
                Refused::Broken
            }
            TurnedAway::Certificate(_) => Refused::Certificate,
            TurnedAway::NoConnect(NoConnect::Malformed(_)) => Refused::Malformed,
            TurnedAway::NoConnect(NoConnect::Other) => Refused::NoConnect,
            TurnedAway::Login { .. } => Refused::Login,
            TurnedAway::Throttled(_) => Refused::Throttled,
            TurnedAway::LoginsWaiting => Refused::LoginsWaiting,
            TurnedAway::Method => Refused::AuthenticationMethod,
            TurnedAway::Full => Refused::Connections,
            TurnedAway::Stopping => Refused::Stopping,
            TurnedAway::Edge => Refused::Login,
        }
    }
}

impl Doorman {
    pub(crate) fn new(
        limits: Limits,
        identity: Arc<Identity>,
        audit: Arc<Audit>,
        shards: Vec<Inbox<Order>>,
        edges: Option<mpsc::Sender<EdgeConnection>>,
        labels: LabelSource,
    ) -> Self {
        Self {
            edges,
            labels,
            pending: Arc::default(),
            pace: Pace::new(),
            handshakes: Turns::default(),
            throttle: Mutex::new(Throttle::default()),
            login_checks: ArcSwap::new(LoginChecks::new(limits.login_checks)),
            places: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            notices: Notices::default(),
            counters: DoorCounters::default(),
            limits: ArcSwap::from_pointee(limits),
            identity,
            audit,
            shards,
        }
    }

    /// The limits that clients meet.
    pub(crate) fn limits(&self) -> Arc<Limits> {
        self.limits.load_full()
    }

    /// Changes the limits that clients meet from now on.
    pub(crate) fn set_limits(&self, limits: Limits) {
        if limits.login_checks != self.limits.load().login_checks {
            self.login_checks.store(LoginChecks::new(limits.login_checks));
        }
        self.limits.store(Arc::new(limits));
    }

    /// Waits until one more connection may be accepted.
    pub(crate) async fn pace(&self) {
        let per_s = self.limits.load().connects_per_s;
        self.pace.wait(per_s).await;
    }

    /// Lets one client in, or turns it away, in its own task and within the time for that.
    pub(crate) fn receive(self: &Arc<Self>, socket: Socket, address: Option<SocketAddr>, listener: &Listener) {
        self.counters.accepted();
        let (doorman, listener) = (Arc::clone(self), listener.clone());
        let limits = self.limits.load();
        let timeout = limits.connect_timeout;
        let ticket = self.pending.begin(origin_of(address));
        let number = ticket.number();
        let handshake = tokio::spawn(async move {
            match tokio::time::timeout(timeout, doorman.admit(socket, address, &listener, &ticket)).await {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => {
                    doorman.counters.refused(reason.why());
                    doorman.notice(address, &reason);
                }
                Err(_) => {
                    doorman.counters.refused(Refused::Unfinished);
                    let reason = format!("no CONNECT, or no check of its login, within {} s", timeout.as_secs());
                    doorman.notice(address, &reason);
                }
            }
        });
        let (handshake, limit) = (handshake.abort_handle(), limits.pending_connects);
        if self.pending.watch(number, handshake, limit) {
            self.counters.refused(Refused::Unfinished);
        }
    }

    /// Says in the log that a client was turned away.
    fn notice(&self, address: Option<SocketAddr>, reason: &dyn std::fmt::Display) {
        if let Some(untold) = self.notices.next(Instant::now()) {
            let untold = (untold > 0).then_some(untold);
            tracing::info!(?address, %reason, untold, "client turned away");
        }
    }

    async fn admit(
        &self,
        mut socket: Socket,
        address: Option<SocketAddr>,
        door: &Listener,
        ticket: &Ticket,
    ) -> Result<(), TurnedAway> {
        let address = match door.proxy_protocol {
            true => proxy_protocol::read_header(&mut socket).await?.or(address),
            false => address,
        };
        ticket.comes_from(origin_of(address));
        let mut stream = match &door.tls {
            Some(source) => {
                let shaken = self.handshakes.take(Stream::tls(socket, source.load_full())).await;
                shaken.map_err(|error| self.handshake_failed(error, address))?
            }
            None => Stream::plain(socket),
        };
        if let Some(door) = &door.websocket {
            upgrade(&mut stream, door).await?;
        }
        let arrival = self.read_connect(&mut stream).await?;
        let connect = arrival.decode().expect("decoded when it arrived");
        if connect.authentication_method.is_some() {
            connect::refuse(&mut stream, connect.version, ReasonCode::BadAuthenticationMethod).await;
            return Err(TurnedAway::Method);
        }
        let Some(place) = self.place_soon().await else {
            connect::refuse(&mut stream, connect.version, ReasonCode::ServerBusy).await;
            return Err(TurnedAway::Full);
        };
        if !ticket.logs_in(self.limits.load().pending_connects) {
            connect::refuse(&mut stream, connect.version, ReasonCode::ServerBusy).await;
            return Err(TurnedAway::LoginsWaiting);
        }
        let seen_change = self.identity.registry().last_change();
        let Login { principal, proofs } = match self.log_in(&stream, &connect, address).await {
            Ok(login) => login,
            Err(turned_away) => {
                connect::refuse(&mut stream, connect.version, reason_told(&turned_away)).await;
                return Err(turned_away);
            }
        };
        let peer = Peer {
            principal,
            proofs,
            address,
        };
        if peer.principal.kind == PrincipalKind::Edge {
            return self.admit_edge(stream, peer, arrival, seen_change, place).await;
        }
        let principal = &peer.principal;
        let shard = &self.shards[place_of(&principal.tenant, self.shards.len())];
        let link = stream.into_link()?;
        let Arrival { connect, early } = arrival;
        let client = Admitted {
            link,
            peer,
            place,
            connect,
            early,
            seen_change,
        };
        shard
            .send(Order::Admit(Box::new(client)))
            .await
            .map_err(|_| TurnedAway::Stopping)
    }

    async fn admit_edge(
        &self,
        mut stream: Stream,
        peer: Peer,
        arrival: Arrival,
        seen_change: u64,
        place: OwnedSemaphorePermit,
    ) -> Result<(), TurnedAway> {
        let Some(edges) = &self.edges else {
            connect::refuse(&mut stream, Version::V5, ReasonCode::NotAuthorized).await;
            return Err(TurnedAway::Edge);
        };
        let Arrival { connect, early } = arrival;
        let edge = EdgeConnection {
            transport: Transport::Door(stream),
            peer,
            connect,
            early,
            labels: self.labels.clone(),
            seen_change,
            _place: place,
        };
        edges.send(edge).await.map_err(|_| TurnedAway::Stopping)
    }

    /// A certificate that is refused is a login that is, and accounted for.
    fn handshake_failed(&self, error: io::Error, address: Option<SocketAddr>) -> TurnedAway {
        let Some(refusal) = certificate::refusal(&error) else {
            return error.into();
        };
        self.account_for(address.map(|address| address.ip()), "", &refusal);
        TurnedAway::Certificate(refusal)
    }

    /// A place among the connections that may be open, in a moment if there is none: a peer sees its connection end
    /// before its place is free, and may be back at once.
    async fn place_soon(&self) -> Option<OwnedSemaphorePermit> {
        for _ in 0..PLACE_TRIES {
            if let Some(place) = self.place() {
                return Some(place);
            }
            tokio::time::sleep(PLACE_RETRY).await;
        }
        self.place()
    }

    /// A place among the connections that may be open.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let open = Semaphore::MAX_PERMITS - self.places.available_permits();
        (open <= self.limits.load().connections).then_some(place)
    }

    async fn read_connect(&self, stream: &mut Stream) -> Result<Arrival, TurnedAway> {
        let read = connect::read(stream, self.limits.load().connect_bytes).await;
        let (error, can_be_told) = match read {
            Ok(arrival) => match arrival.decode() {
                Ok(_) => return Ok(arrival),
                Err(error) => (error, arrival.can_be_told()),
            },
            Err(NoConnect::Malformed(error)) => (error, true),
            Err(other) => return Err(other.into()),
        };
        if can_be_told {
            connect::refuse(stream, Version::V5, error.reason).await;
        }
        Err(NoConnect::Malformed(error).into())
    }

    async fn log_in(
        &self,
        stream: &Stream,
        connect: &Connect<'_>,
        address: Option<SocketAddr>,
    ) -> Result<Login, TurnedAway> {
        let from = address.map(|address| address.ip());
        let address = from.unwrap_or(NOWHERE);
        let user_name = connect.user_name.unwrap_or_default().to_owned();
        self.check_throttle(from, &user_name)?;
        let turn = self.login_checks.load_full().turn(network(address)).await;
        // Those that came before it may have failed meanwhile.
        self.check_throttle(from, &user_name)?;
        let password = connect.password.map(<[u8]>::to_vec);
        let certificate = stream
            .peer_certificates()
            .and_then(|chain| CertificateIdentity::from_der(chain.first()?).ok());
        match self.check(turn, user_name.clone(), password, certificate).await {
            Ok(login) => {
                self.throttle(|throttle| throttle.succeeded(address, &user_name));
                Ok(login)
            }
            Err(refusal) => {
                self.account_for(from, &user_name, &refusal);
                if refusal.is_failed_login() {
                    self.throttle(|throttle| throttle.failed(address, &user_name, Instant::now()));
                }
                let user_name = quoted(&user_name);
                Err(TurnedAway::Login { user_name, refusal })
            }
        }
    }

    /// After too many failed logins no more is looked at for a time.
    fn check_throttle(&self, from: Option<IpAddr>, user_name: &str) -> Result<(), TurnedAway> {
        let address = from.unwrap_or(NOWHERE);
        let Some(wait) = self.throttle(|throttle| throttle.wait(address, user_name, Instant::now())) else {
            return Ok(());
        };
        self.account_for(from, user_name, &"too many failed logins");
        Err(TurnedAway::Throttled(wait.as_secs() + 1))
    }

    fn account_for(&self, address: Option<IpAddr>, user_name: &str, reason: &dyn std::fmt::Display) {
        let reason = reason.to_string();
        let event = Event::LoginRefused {
            address,
            user_name,
            reason: &reason,
        };
        self.audit.record(&event, unix_now_s());
    }

    /// Checks credentials on a thread of their own: it may hash a password.
    async fn check(
        &self,
        turn: Turn,
        user_name: String,
        password: Option<Vec<u8>>,
        certificate: Option<CertificateIdentity>,
    ) -> Result<Login, Refusal> {
        let identity = Arc::clone(&self.identity);
        let checking = tokio::task::spawn_blocking(move || {
            // The thread goes on where the client is given up meanwhile, and its memory counts until it is done.
            let _turn = turn;
            let presented = Presented {
                user_name: Some(&user_name).filter(|name| !name.is_empty()).map(String::as_str),
                password: password.as_deref(),
                certificate: certificate.as_ref(),
            };
            identity.authenticate(&presented, unix_now_s())
        });
        checking.await.expect("checking credentials does not panic")
    }

    fn throttle<R>(&self, act: impl FnOnce(&mut Throttle) -> R) -> R {
        act(&mut self.throttle.lock().expect("no holder of this lock panics"))
    }
}

/// Which clients share what there is before a login: those of one address.
fn origin_of(address: Option<SocketAddr>) -> IpAddr {
    network(address.map_or(NOWHERE, |address| address.ip()))
}

/// The shard of a tenant. All that a tenant's clients share lives there, so that no shard ever asks another.
pub(crate) fn place_of(tenant: &str, shards: usize) -> usize {
    (fnv(tenant.as_bytes()) % shards as u64) as usize
}

/// FNV-1a: the same everywhere and for ever.
pub(crate) fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What a client is told; never why its credentials were refused.
fn reason_told(turned_away: &TurnedAway) -> ReasonCode {
    match turned_away {
        TurnedAway::Throttled(_) => ReasonCode::ConnectionRateExceeded,
        TurnedAway::Login {
            refusal: Refusal::Unavailable(_),
            ..
        } => ReasonCode::ServerUnavailable,
        TurnedAway::Login {
            refusal: Refusal::NoCredentials | Refusal::Disabled,
            ..
        } => ReasonCode::NotAuthorized,
        _ => ReasonCode::BadUserNameOrPassword,
    }
}

#[cfg(test)]
mod tests {
    use identity::{AuditOptions, IdentityOptions};

    use super::*;

    fn doorman(limits: Limits, identity: Identity, audit: Audit) -> Doorman {
        let identity = Arc::new(identity);
        let labels = LabelSource::new(&identity).unwrap();
        Doorman::new(limits, identity, audit.into(), Vec::new(), None, labels)
    }

    #[tokio::test]
    async fn another_number_of_login_checks_holds_at_once_and_lets_those_under_way_finish() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity::open(directory.path(), IdentityOptions::default(), 0).unwrap();
        let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
        let doorman = doorman(Limits::default(), identity, audit);
        let under_way = doorman.login_checks.load_full().turn(NOWHERE).await;
        let change = |login_checks, expected| {
            doorman.set_limits(Limits {
                login_checks,
                ..Limits::default()
            });
            assert_eq!(doorman.login_checks.load().free(), expected);
        };
        change(2, 1);
        change(5, 5);
        change(1, 1);
        drop(under_way);
        assert_eq!(doorman.login_checks.load().free(), 1);
    }

    #[tokio::test]
    async fn a_client_that_is_given_up_keeps_its_place_among_the_checks_until_its_hash_is_done() {
        let directory = tempfile::tempdir().unwrap();
        let identity = Identity::open(directory.path(), IdentityOptions::default(), 0).unwrap();
        let audit = Audit::open(directory.path(), AuditOptions::default()).unwrap();
        let limits = Limits {
            login_checks: 1,
            ..Limits::default()
        };
        let doorman = Arc::new(doorman(limits, identity, audit));
        let login_checks = doorman.login_checks.load_full();
        let turn = login_checks.turn(NOWHERE).await;
        let given_up = tokio::spawn(async move {
            doorman
                .check(turn, "nobody".into(), Some(b"a guess".into()), None)
                .await
        });
        tokio::task::yield_now().await;
        given_up.abort();
        assert!(given_up.await.unwrap_err().is_cancelled());
        assert_eq!(login_checks.free(), 0);
        login_checks.turn(NOWHERE).await;
    }
}
