//! The stream of a client at the door: a socket, under TLS and WebSocket framing where its door asks for them.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::shard::link::Link;
use crate::shard::websocket::{self, Answer, WebSocket};

/// Bytes read at once before a client is known.
const READ_BYTES: usize = 1024;

pub(crate) type Socket = Either<TcpStream, UnixStream>;

pub(crate) struct Stream {
    transport: Transport,
    websocket: Option<Box<WebSocket>>,
}

enum Transport {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl Stream {
    pub(crate) fn plain(socket: Socket) -> Self {
        Self {
            transport: Transport::Plain(socket),
            websocket: None,
        }
    }

    pub(crate) async fn tls(socket: Socket, config: std::sync::Arc<rustls::ServerConfig>) -> io::Result<Self> {
        let stream = TlsAcceptor::from(config).accept(socket).await?;
        Ok(Self {
            transport: Transport::Tls(Box::new(stream)),
            websocket: None,
        })
    }

    /// The certificate chain that the client proved to own, its own first.
    pub(crate) fn peer_certificates(&self) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
        match &self.transport {
            Transport::Plain(_) => None,
            Transport::Tls(stream) => stream.get_ref().1.peer_certificates(),
        }
    }

    /// From now on MQTT travels in WebSocket frames.
    pub(crate) fn begin_frames(&mut self) {
        self.websocket = Some(Box::default());
    }

    /// Appends some bytes of the client, of MQTT once frames have begun, waiting for them; the end of the stream is an
    /// error.
    pub(crate) async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        let from = bytes.len();
        self.read_some(bytes).await?;
        let Some(websocket) = &mut self.websocket else {
            return Ok(());
        };
        match websocket.unframe(bytes, from) {
            Ok(Answer::None) => Ok(()),
            Ok(Answer::Send(frames)) => self.write_raw(&frames).await,
            Ok(Answer::Close(_)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(invalid(error.0)),
        }
    }

    /// Sends bytes, of MQTT once frames have begun.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut framed = Vec::with_capacity(bytes.len() + 10);
        if self.websocket.is_some() {
            websocket::append_binary_header(bytes.len(), &mut framed);
        }
        framed.extend_from_slice(bytes);
        self.write_raw(&framed).await
    }

    async fn read_some(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.reserve_exact(READ_BYTES);
        let read = match &mut self.transport {
            Transport::Plain(socket) => socket.read_buf(bytes).await?,
            Transport::Tls(stream) => stream.read_buf(bytes).await?,
        };
        if read == 0 {
            Err(io::ErrorKind::UnexpectedEof.into())
        } else {
            Ok(())
        }
    }

    async fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.transport {
            Transport::Plain(socket) => socket.write_all(bytes).await,
            Transport::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    /// Leaves tokio: the socket and what is above it, for the loop of a shard.
    pub(crate) fn into_link(self) -> io::Result<Link> {
        let (socket, tls) = match self.transport {
            Transport::Plain(socket) => (socket, None),
            Transport::Tls(stream) => {
                let (socket, tls) = stream.into_inner();
                (socket, Some(Box::new(tls)))
            }
        };
        let socket: OwnedFd = match socket {
            Either::Left(socket) => socket.into_std()?.into(),
            Either::Right(socket) => socket.into_std()?.into(),
        };
        Link::new(socket, tls, self.websocket)
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
