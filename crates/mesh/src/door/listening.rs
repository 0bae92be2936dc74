//! Where a door listens, and who takes its connections.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::sockets::{self, At, Sockets};
use rustix::net::{AddressFamily, SocketFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::either::Either;

use super::connecting::LONGEST_PAUSE;
use super::refused::refuse;
use super::{FAILURE_POLL, Leads, State, Way, wait};
use crate::held;
use crate::idle::{Activity, Request};

/// Connections that wait in the kernel's queue of a door while there is no place for them; more are refused by it.
const QUEUE_MAX: u32 = 4_096;
/// Between two attempts to open a door that is somebody else's, longer each time: another door there may just be
/// closing.
const BIND_FIRST_PAUSE: Duration = Duration::from_millis(1);
const BIND_LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Once they are that long, what is there stays.
const BIND_PATIENCE: Duration = Duration::from_millis(100);

pub(super) type Stream = Either<TcpStream, UnixStream>;

/// How a door listens.
pub(crate) enum Listens {
    /// At a port; 0: at one that is free.
    Tcp(SocketAddrV4),
    /// At a Unix socket of the edge.
    Unix(At, Sockets),
    /// At a socket that those it leads to take over: it only sees whether somebody waits there while nobody is ready.
    Given(At, Sockets),
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

/// Takes connections from when that can be.
pub(super) async fn open(listens: Listens, leads: Leads, state: Arc<Mutex<State>>) {
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
