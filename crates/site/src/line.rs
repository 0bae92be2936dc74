//! A connection to another node: TLS in which both have shown their certificates, and streams in it that either end opens.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use identity::node_of;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_rustls::TlsStream;
use tokio_util::compat::{Compat, FuturesAsyncReadCompatExt, TokioAsyncReadCompatExt};
use tokio_util::task::AbortOnDropHandle;

use crate::gossip::{MAX_MESSAGE_BYTES, Message, SILENT_AFTER};

/// Requests that one end has opened at once in a connection; who asks for more is told so.
const MAX_REQUESTS: usize = 224;
/// Connections of other pairs that pass one end by way of the other, as either of their ends; more are refused.
pub(crate) const MAX_RELAYED: usize = 28;
/// Streams of a connection, of both ends: where there would be more, it ends. The window of each is 256 KiB and more where the
/// way is long.
const MAX_STREAMS: usize = 512;
const _: () = assert!(2 * (MAX_REQUESTS + MAX_RELAYED) < MAX_STREAMS);
const MAX_WINDOWS_BYTES: usize = 128 * 1024 * 1024;
/// Streams that the other end has opened and nobody here has looked at; more are closed at once.
const MAX_NEW_STREAMS: usize = 64;
/// Messages that wait to be sent; more are let go, as the next round says what they would have.
const MAX_WAITING_MESSAGES: usize = 8;
/// For a stream to say what it is for; for one to be opened.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);
/// How often the other end is asked for an echo, by which it knows that this one is there, and this one how far it is.
const ECHO_PAUSE: Duration = Duration::from_millis(500);
/// Where no sign came for so long, the other end is quiet: it may be gone.
pub const QUIET_AFTER: Duration = Duration::from_millis(1_200);
/// Echoes of which the fastest says how far the other end is: the others waited behind something.
const ECHOES: usize = 8;

/// What the first byte of a stream says that it is for.
const GOSSIP: u8 = 0;
const REQUEST: u8 = 1;
/// To be led to the node whose name follows, after its length.
const RELAY: u8 = 2;
/// Led here by who opened it; TLS of two nodes follows.
const RELAYED: u8 = 3;

/// What the first byte of a frame of gossip says that it is.
const MESSAGE: u8 = 0;
/// With a number, to be sent back.
const ECHO: u8 = 1;
const ECHOED: u8 = 2;

/// A stream to a node, or from one.
pub struct Stream {
    bytes: Compat<yamux::Stream>,
    /// By which it counts, where streams of its kind are bounded, and among those that its connection is needed for.
    _places: [Option<OwnedSemaphorePermit>; 2],
}

/// What comes of a connection.
pub(crate) enum Came {
    /// A message of gossip.
    Message(Message),
    /// A stream for who takes requests.
    Request(Stream),
    /// A stream that is to be led to another node.
    Relay(String, Stream),
    /// A stream of another node, led here.
    Relayed(Stream),
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
    frames: mpsc::Sender<Vec<u8>>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

/// Opens streams in a connection.
#[derive(Clone)]
pub(crate) struct Opening {
    asking: mpsc::Sender<oneshot::Sender<yamux::Stream>>,
    places: Arc<Semaphore>,
    /// Those of the streams that somebody uses, of either end.
    used: Arc<Semaphore>,
    heard: Heard,
}

/// What is known of the other end.
#[derive(Clone)]
struct Heard {
    /// When the connection was there.
    since: Instant,
    /// When a sign of it came, in microseconds from then.
    last_us: Arc<AtomicU64>,
    /// Round trip in microseconds; 0 while it is not known.
    distance_us: Arc<AtomicU64>,
}

impl Heard {
    fn now_us(&self) -> u64 {
        self.since.elapsed().as_micros() as u64
    }
}

/// Who is at the other end of TLS; `None`: none of the nodes, though somebody with a certificate of the site's authority.
pub(crate) fn peer<S>(tls: &TlsStream<S>) -> Option<String> {
    node_of(&certificate(tls))
}

/// The certificate in DER that is shown at the other end; nothing where none is.
pub(crate) fn certificate<S>(tls: &TlsStream<S>) -> Vec<u8> {
    let (_, session) = tls.get_ref();
    let shown = session.peer_certificates().and_then(<[_]>::first);
    shown.map(|shown| shown.to_vec()).unwrap_or_default()
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
        let (asking, asked) = mpsc::channel(MAX_NEW_STREAMS);
        let (coming, come) = mpsc::channel(MAX_NEW_STREAMS);
        let (frames, waiting) = mpsc::channel(MAX_WAITING_MESSAGES);
        let opening = Opening {
            asking,
            places: Arc::new(Semaphore::new(MAX_REQUESTS)),
            used: Arc::new(Semaphore::new(MAX_STREAMS)),
            heard: Heard {
                since: Instant::now(),
                last_us: Arc::default(),
                distance_us: Arc::default(),
            },
        };
        let counted = Counted {
            stream: tls,
            heard: opening.heard.clone(),
        };
        let connection = yamux::Connection::new(counted.compat(), config, mode);
        let end = out.clone();
        let hearing = Hearing {
            out,
            answers: frames.clone(),
            used: Arc::clone(&opening.used),
            heard: opening.heard.clone(),
        };
        let told = opening.clone();
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
        let taking = tokio::spawn(take_streams(come, hearing));
        Line {
            opening,
            frames,
            _tasks: [AbortOnDropHandle::new(driving), AbortOnDropHandle::new(taking)],
        }
    }

    /// Sends a message, or lets it go where the line is slow.
    pub(crate) fn tell(&self, message: &[u8]) {
        let _ = self.frames.try_send(frame(MESSAGE, message));
    }

    pub(crate) fn opening(&self) -> &Opening {
        &self.opening
    }

    /// Whether nothing passes but gossip.
    pub(crate) fn is_idle(&self) -> bool {
        self.opening.used.available_permits() == MAX_STREAMS
    }
}

impl Opening {
    /// For how long nothing has come from the other end.
    pub(crate) fn silence(&self) -> Duration {
        let last_us = self.heard.last_us.load(Ordering::Relaxed);
        Duration::from_micros(self.heard.now_us().saturating_sub(last_us))
    }

    /// Round trip to the other end, once it is known.
    pub(crate) fn distance(&self) -> Option<Duration> {
        let us = self.heard.distance_us.load(Ordering::Relaxed);
        (us > 0).then(|| Duration::from_micros(us))
    }

    /// A stream for a request.
    pub(crate) async fn request(&self) -> io::Result<Stream> {
        let place = Arc::clone(&self.places).try_acquire_owned();
        let place = place.map_err(|_| io::Error::other(format!("{MAX_REQUESTS} requests are under way there")))?;
        self.used_stream(&[REQUEST], Some(place)).await
    }

    /// A stream that the other end is to lead to a node; it says first whether it does.
    pub(crate) async fn relay(&self, node: &str) -> io::Result<Stream> {
        let purpose = [&[RELAY, node.len() as u8], node.as_bytes()].concat();
        let mut stream = self.used_stream(&purpose, None).await?;
        stream.flush().await?;
        Ok(stream)
    }

    /// A stream that is led to the other end, for another node.
    pub(crate) async fn relayed(&self) -> io::Result<Stream> {
        let mut stream = self.used_stream(&[RELAYED], None).await?;
        stream.flush().await?;
        Ok(stream)
    }

    async fn used_stream(&self, purpose: &[u8], place: Option<OwnedSemaphorePermit>) -> io::Result<Stream> {
        let used = Arc::clone(&self.used).try_acquire_owned().ok();
        let mut stream = Stream {
            bytes: self.stream().await?.compat(),
            _places: [place, used],
        };
        stream.write_all(purpose).await?;
        Ok(stream)
    }

    async fn stream(&self) -> io::Result<yamux::Stream> {
        let (opened, opening) = oneshot::channel();
        let opened = async {
            self.asking.send(opened).await.ok()?;
            opening.await.ok()
        };
        match timeout(STREAM_PATIENCE, opened).await {
            Ok(Some(stream)) => Ok(stream),
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

/// Sends frames in a stream of this end, and asks for echoes. Why it ended.
async fn tell(opening: Opening, mut frames: mpsc::Receiver<Vec<u8>>) -> String {
    let telling = async {
        let mut stream = opening.stream().await?.compat();
        stream.write_all(&[GOSSIP]).await?;
        let mut echoes = interval(ECHO_PAUSE);
        echoes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let frame = tokio::select! {
                _ = echoes.tick() => frame(ECHO, &opening.heard.now_us().to_be_bytes()),
                next = frames.recv() => match next {
                    Some(next) => next,
                    None => return Ok(()),
                },
            };
            timeout(SILENT_AFTER, stream.write_all(&frame)).await??;
            stream.flush().await?;
        }
    };
    let told: io::Result<()> = telling.await;
    told.map_or_else(|error| error.to_string(), |()| "it is not needed any more".to_owned())
}

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32 + 1;
    [&length.to_be_bytes()[..], &[kind], content].concat()
}

async fn take_streams(mut come: mpsc::Receiver<yamux::Stream>, hearing: Hearing) {
    let mut taking = JoinSet::new();
    while let Some(stream) = come.recv().await {
        while taking.try_join_next().is_some() {}
        let hearing = hearing.clone();
        taking.spawn(async move {
            // One that says nothing in time, or something else, is closed.
            if let Ok(Ok(came)) = timeout(STREAM_PATIENCE, hearing.purpose(stream)).await {
                let came = match came {
                    Purpose::Gossip(stream) => Came::End(hearing.hear(stream).await),
                    Purpose::Other(came) => came,
                };
                hearing.out.send(came).await;
            }
        });
    }
}

/// What a stream is for.
enum Purpose {
    Gossip(Compat<yamux::Stream>),
    Other(Came),
}

/// What is heard of the other end, and where that goes.
#[derive(Clone)]
struct Hearing {
    out: Out,
    /// Frames to it; more than may wait are let go.
    answers: mpsc::Sender<Vec<u8>>,
    used: Arc<Semaphore>,
    heard: Heard,
}

impl Hearing {
    /// What the other end says that a stream is for.
    async fn purpose(&self, stream: yamux::Stream) -> io::Result<Purpose> {
        let mut stream = stream.compat();
        let purpose = stream.read_u8().await?;
        if purpose == GOSSIP {
            return Ok(Purpose::Gossip(stream));
        }
        let used = Arc::clone(&self.used).try_acquire_owned().ok();
        let mut stream = Stream {
            bytes: stream,
            _places: [None, used],
        };
        Ok(Purpose::Other(match purpose {
            REQUEST => Came::Request(stream),
            RELAY => Came::Relay(read_name(&mut stream).await?, stream),
            RELAYED => Came::Relayed(stream),
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }))
    }

    /// Takes frames as they come. Why they ended.
    async fn hear(&self, mut stream: Compat<yamux::Stream>) -> String {
        let mut echoes_us = VecDeque::with_capacity(ECHOES);
        loop {
            let bytes = match read_frame(&mut stream).await {
                Ok(bytes) => bytes,
                Err(error) => return error.to_string(),
            };
            match &*bytes {
                [MESSAGE, message @ ..] => match Message::decode(message) {
                    Ok(message) => self.out.send(Came::Message(message)).await,
                    Err(error) => return format!("it sent what is no message: {error}"),
                },
                [ECHO, number @ ..] if number.len() == size_of::<u64>() => {
                    let _ = self.answers.try_send(frame(ECHOED, number));
                }
                [ECHOED, number @ ..] => {
                    let Ok(sent_us) = number.try_into().map(u64::from_be_bytes) else {
                        return "it sent an echo of nothing".to_owned();
                    };
                    echoes_us.truncate(ECHOES - 1);
                    echoes_us.push_front(self.heard.now_us().saturating_sub(sent_us).max(1));
                    let fastest_us = echoes_us.iter().copied().min().unwrap_or_default();
                    self.heard.distance_us.store(fastest_us, Ordering::Relaxed);
                }
                _ => return "it sent a frame of no known kind".to_owned(),
            }
        }
    }
}

async fn read_name(stream: &mut Stream) -> io::Result<String> {
    let mut name = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut name).await?;
    String::from_utf8(name).map_err(|_| io::ErrorKind::InvalidData.into())
}

async fn read_frame(stream: &mut Compat<yamux::Stream>) -> io::Result<Vec<u8>> {
    let length = stream.read_u32().await? as usize;
    if length > MAX_MESSAGE_BYTES + 1 {
        let message = format!("it sent a message of {length} bytes, of {MAX_MESSAGE_BYTES} at most");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// What comes of the other end is a sign of it.
struct Counted<S> {
    stream: S,
    heard: Heard,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, bytes);
        if read.is_ready() {
            self.heard.last_us.store(self.heard.now_us(), Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_read(context, bytes)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.bytes).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.bytes).poll_shutdown(context)
    }
}
