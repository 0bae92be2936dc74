//! A connection to another node: TLS in which both have shown their certificates, and streams in it that either end opens.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use identity::node_of;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsStream;
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use tokio_util::task::AbortOnDropHandle;

use crate::gossip::{MAX_MESSAGE_BYTES, Message, SILENT_AFTER};

/// Streams of a connection at once, of both ends; the window of each is 256 KiB and more where the way is long.
const MAX_STREAMS: usize = 256;
const MAX_WINDOWS_BYTES: usize = 128 * 1024 * 1024;
/// Streams that the other end has opened and nobody here has looked at; more are closed at once.
const MAX_NEW_STREAMS: usize = 64;
/// Messages that wait to be sent; more are let go, as the next round says what they would have.
const MAX_WAITING_MESSAGES: usize = 8;
/// For a stream to say what it is for; for one to be opened.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);
/// After so long without a message something is sent, by which the other end knows that this one is there.
const KEPT_ALIVE: Duration = Duration::from_secs(1);

/// What the first byte of a stream says that it is for.
const GOSSIP: u8 = 0;
const REQUEST: u8 = 1;

/// A stream to a node, or from one.
pub struct Stream(Compat<yamux::Stream>);

/// What comes of a connection.
pub(crate) enum Came {
    /// A sign that the other end is there; one comes within [`KEPT_ALIVE`] of that, or of a message.
    Sign,
    /// A message of gossip.
    Message(Message),
    /// A stream for who takes requests.
    Request(Stream),
    /// It is over; nothing more comes.
    End(String),
}

/// What came, of which connection.
pub(crate) struct FromLine {
    /// The node at the other end.
    pub(crate) node: String,
    /// The connection's number.
    pub(crate) line: u64,
    pub(crate) came: Came,
}

/// Where a connection gives what comes of it. Who takes it may wait: then nothing more is read of who sent it.
#[derive(Clone)]
pub(crate) struct Out {
    pub(crate) node: String,
    pub(crate) line: u64,
    pub(crate) to: mpsc::Sender<FromLine>,
}

impl Out {
    async fn send(&self, came: Came) {
        let (node, line) = (self.node.clone(), self.line);
        // Its task ends with the node.
        let _ = self.to.send(FromLine { node, line, came }).await;
    }
}

/// A connection, for as long as this is kept.
pub(crate) struct Line {
    opening: Opening,
    messages: mpsc::Sender<Vec<u8>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

/// Opens streams in a connection.
#[derive(Clone)]
pub(crate) struct Opening(mpsc::Sender<oneshot::Sender<yamux::Stream>>);

/// Who is at the other end of TLS; `None`: none of the nodes, though somebody with a certificate of the site's authority.
pub(crate) fn peer<S>(tls: &TlsStream<S>) -> Option<String> {
    let (_, session) = tls.get_ref();
    node_of(session.peer_certificates()?.first()?)
}

impl Line {
    /// Over TLS that is agreed on.
    pub(crate) fn new<S>(tls: TlsStream<S>, is_dialled_here: bool, out: Out) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mode = match is_dialled_here {
            true => yamux::Mode::Client,
            false => yamux::Mode::Server,
        };
        let mut config = yamux::Config::default();
        config.set_max_num_streams(MAX_STREAMS);
        config.set_max_connection_receive_window(Some(MAX_WINDOWS_BYTES));
        let connection = yamux::Connection::new(tls.compat(), config, mode);
        let (asking, asked) = mpsc::channel(MAX_NEW_STREAMS);
        let (coming, come) = mpsc::channel(MAX_NEW_STREAMS);
        let (messages, waiting) = mpsc::channel(MAX_WAITING_MESSAGES);
        let opening = Opening(asking);
        let (end, told) = (out.clone(), opening.clone());
        let driving = tokio::spawn(async move {
            let why = tokio::select! {
                ended = drive(connection, asked, coming) => match ended {
                    Ok(()) => "the other end closed it".to_owned(),
                    Err(error) => error.to_string(),
                },
                why = tell(told, waiting) => why,
            };
            end.send(Came::End(why)).await;
        });
        let taking = tokio::spawn(take_streams(come, out));
        Line {
            opening,
            messages,
            _tasks: [AbortOnDropHandle::new(driving), AbortOnDropHandle::new(taking)],
        }
    }

    /// Sends a message, or lets it go where the line is slow.
    pub(crate) fn tell(&self, message: &[u8]) {
        let _ = self.messages.try_send(message.to_vec());
    }

    pub(crate) fn opening(&self) -> Opening {
        self.opening.clone()
    }
}

impl Opening {
    /// A stream for a request.
    pub(crate) async fn request(&self) -> io::Result<Stream> {
        let mut stream = self.stream().await?;
        stream.write_all(&[REQUEST]).await?;
        Ok(stream)
    }

    async fn stream(&self) -> io::Result<Stream> {
        let (opened, opening) = oneshot::channel();
        let opened = async {
            self.0.send(opened).await.ok()?;
            opening.await.ok()
        };
        match timeout(STREAM_PATIENCE, opened).await {
            Ok(Some(stream)) => Ok(Stream(stream.compat())),
            Ok(None) => Err(io::ErrorKind::NotConnected.into()),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// Carries the connection until it is over.
async fn drive<S>(
    mut connection: yamux::Connection<S>,
    mut asked: mpsc::Receiver<oneshot::Sender<yamux::Stream>>,
    coming: mpsc::Sender<yamux::Stream>,
) -> yamux::Result<()>
where
    S: futures_util::AsyncRead + futures_util::AsyncWrite + Unpin,
{
    let mut asking = None;
    poll_fn(|context| {
        loop {
            if asking.is_none()
                && let Poll::Ready(Some(next)) = asked.poll_recv(context)
            {
                asking = Some(next);
            }
            if asking.is_some()
                && let Poll::Ready(opened) = connection.poll_new_outbound(context)
            {
                let asking: oneshot::Sender<_> = asking.take().expect("somebody asks");
                // Who asked may have given up.
                let _ = asking.send(opened?);
                continue;
            }
            match connection.poll_next_inbound(context) {
                // One more than may wait is closed by being dropped.
                Poll::Ready(Some(stream)) => drop(coming.try_send(stream?)),
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

/// Sends messages in a stream of this end, each after its length; an empty one says that this end is there. Why it ended.
async fn tell(opening: Opening, mut messages: mpsc::Receiver<Vec<u8>>) -> String {
    let telling = async {
        let mut stream = opening.stream().await?;
        stream.write_all(&[GOSSIP]).await?;
        loop {
            let message = match timeout(KEPT_ALIVE, messages.recv()).await {
                Ok(Some(message)) => message,
                Ok(None) => return Ok(()),
                Err(_) => Vec::new(),
            };
            let bytes = [&(message.len() as u32).to_be_bytes(), &*message].concat();
            timeout(SILENT_AFTER, stream.write_all(&bytes)).await??;
            stream.flush().await?;
        }
    };
    let told: io::Result<()> = telling.await;
    told.map_or_else(|error| error.to_string(), |()| "it is not needed any more".to_owned())
}

async fn take_streams(mut come: mpsc::Receiver<yamux::Stream>, out: Out) {
    let mut taking = JoinSet::new();
    while let Some(stream) = come.recv().await {
        while taking.try_join_next().is_some() {}
        let out = out.clone();
        taking.spawn(async move {
            let mut stream = Stream(stream.compat());
            match timeout(STREAM_PATIENCE, stream.read_u8()).await {
                Ok(Ok(GOSSIP)) => {
                    let why = hear(stream, &out).await;
                    out.send(Came::End(why)).await;
                }
                Ok(Ok(REQUEST)) => out.send(Came::Request(stream)).await,
                // One that says nothing, or something else, is closed.
                _ => {}
            }
        });
    }
}

/// Takes messages as they come. Why they ended.
async fn hear(mut stream: Stream, out: &Out) -> String {
    loop {
        match frame(&mut stream).await {
            Ok(bytes) if bytes.is_empty() => out.send(Came::Sign).await,
            Ok(bytes) => match Message::decode(&bytes) {
                Ok(message) => out.send(Came::Message(message)).await,
                Err(error) => return format!("it sent what is no message: {error}"),
            },
            Err(error) => return error.to_string(),
        }
    }
}

async fn frame(stream: &mut Stream) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > MAX_MESSAGE_BYTES {
        let message = format!("it sent a message of {length} bytes, of {MAX_MESSAGE_BYTES} at most");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, bytes)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
