//! A non-blocking TCP connection, plain or under TLS, with what it could not write yet.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::network::Host;

/// Bytes that may wait for the peer to read; beyond it a message counts as unsent.
const BACKLOG_LIMIT_BYTES: usize = 16 << 20;

/// Where a server is and how it is spoken to.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    /// Present under TLS: whom to trust, and the name that the certificate has to carry.
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// Host of an emulated network that the client is on; none = this machine.
    pub(crate) from: Option<Host>,
}

pub(crate) struct Socket {
    stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    /// Bytes for the wire, from `written` on not yet written.
    wire: Vec<u8>,
    written: usize,
}

impl Socket {
    /// Begins to connect and does not wait: a thousand clients of a line of 30 ms share its delay. What is written
    /// before the connection stands waits; that it was refused is the error of a read.
    pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<Socket> {
        let stream = match &endpoint.from {
            None => begin(endpoint.address),
            Some(host) => host.enter(|| begin(endpoint.address)).map_err(io::Error::other)?,
        }?;
        stream.set_nodelay(true)?;
        let tls = match &endpoint.tls {
            None => None,
            Some((config, name)) => {
                let mut tls = ClientConnection::new(config.clone(), name.clone()).map_err(io::Error::other)?;
                tls.set_buffer_limit(None);
                Some(Box::new(tls))
            }
        };
        Ok(Socket {
            stream,
            tls,
            wire: Vec::new(),
            written: 0,
        })
    }

    /// Appends to `inbox` what one read brings; the count of its bytes on the wire.
    ///
    /// # Errors
    /// The connection failed or ended.
    pub(crate) fn read(&mut self, scratch: &mut [u8], inbox: &mut Vec<u8>) -> io::Result<()> {
        let count = match self.stream.read(scratch) {
            Ok(0) => {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                ));
            }
            Ok(count) => count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return Ok(()),
            Err(error) => return Err(error),
        };
        match &mut self.tls {
            None => inbox.extend_from_slice(&scratch[..count]),
            Some(tls) => decrypt(tls, &scratch[..count], inbox)?,
        }
        Ok(())
    }

    /// Queues `bytes`, which become empty, and writes as much as the peer takes, in one call.
    pub(crate) fn write(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.tls {
            // The usual case writes from the caller's buffer without a copy.
            None if self.wire.is_empty() => std::mem::swap(&mut self.wire, bytes),
            None => self.wire.append(bytes),
            Some(tls) => {
                tls.writer().write_all(bytes)?;
                bytes.clear();
            }
        }
        self.flush()
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.wire)?;
            }
        }
        if self.backlog() == 0 {
            return Ok(());
        }
        match self.stream.write(&self.wire[self.written..]) {
            Ok(count) => self.written += count,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if self.backlog() == 0 {
            self.wire.clear();
            self.written = 0;
        }
        Ok(())
    }

    /// Bytes that wait for the peer to read.
    pub(crate) fn backlog(&self) -> usize {
        self.wire.len() - self.written
    }

    pub(crate) fn is_full(&self) -> bool {
        self.backlog() >= BACKLOG_LIMIT_BYTES
    }

    /// Whether more may be read although the socket has nothing: bytes of the handshake to send, for one.
    pub(crate) fn wants_write(&self) -> bool {
        self.backlog() > 0 || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }
}

fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    match net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

fn decrypt(tls: &mut ClientConnection, mut wire: &[u8], inbox: &mut Vec<u8>) -> io::Result<()> {
    while !wire.is_empty() {
        tls.read_tls(&mut wire)?;
        let state = tls.process_new_packets().map_err(io::Error::other)?;
        let start = inbox.len();
        inbox.resize(start + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut inbox[start..])?;
    }
    Ok(())
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
