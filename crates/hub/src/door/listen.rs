//! Listening sockets.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio_util::either::Either;

use super::admission::Doorman;
use super::stream::Socket;
use crate::StartError;
use crate::config::{Address, Listener};

/// Pause after a failed accept (no descriptors left, say), so that the door does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that the kernel holds for a door that is busy.
const BACKLOG: u32 = 4_096;

/// A listener with its socket bound, so that nobody else has its address. Clients cannot connect yet.
pub struct Bound {
    socket: Either<TcpSocket, UnixListener>,
    listener: Listener,
}

/// A listener that clients can connect to.
pub(crate) struct Listening {
    socket: Either<TcpListener, UnixListener>,
    listener: Listener,
}

impl Bound {
    /// Binds the socket of a listener. Must run inside a tokio runtime.
    ///
    /// # Errors
    /// [`StartError::Bind`] names the address and what is wrong with it.
    pub fn new(listener: Listener) -> Result<Self, StartError> {
        let bound = match &listener.address {
            Address::Tcp(address) => bind_tcp(*address).map(Either::Left),
            Address::Unix(path) => listen_unix(path).map(Either::Right),
        };
        match bound {
            Ok(socket) => Ok(Self { socket, listener }),
            Err(source) => Err(StartError::Bind {
                address: listener.address,
                source,
            }),
        }
    }

    /// The address that clients connect to, with the port that port 0 became.
    pub fn local_address(&self) -> Address {
        match &self.socket {
            Either::Left(socket) => socket.local_addr().map_or(self.listener.address.clone(), Address::Tcp),
            Either::Right(_) => self.listener.address.clone(),
        }
    }

    /// Lets clients connect.
    pub(crate) fn listen(self) -> Result<Listening, StartError> {
        let socket = match self.socket {
            Either::Left(socket) => socket.listen(BACKLOG).map(Either::Left),
            Either::Right(socket) => Ok(Either::Right(socket)),
        };
        match socket {
            Ok(socket) => Ok(Listening {
                socket,
                listener: self.listener,
            }),
            Err(source) => Err(StartError::Bind {
                address: self.listener.address,
                source,
            }),
        }
    }
}

impl Listening {
    async fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match &self.socket {
            Either::Left(socket) => {
                let (stream, address) = socket.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Either::Left(stream), Some(address)))
            }
            Either::Right(socket) => Ok((Either::Right(socket.accept().await?.0), None)),
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// A socket left behind by a process that is gone is replaced; one that somebody listens on is not.
fn listen_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        other => other,
    }
}

/// Lets clients in until the task is dropped.
pub(crate) async fn serve(door: Listening, doorman: Arc<Doorman>) {
    loop {
        doorman.pace().await;
        match door.accept().await {
            Ok((socket, address)) => doorman.receive(socket, address, &door.listener),
            Err(error) => {
                tracing::warn!(%error, address = %door.listener.address, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
