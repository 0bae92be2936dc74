//! A door: takes connections in, holds them until somebody is ready, and passes on what they say, both ways.

use std::io;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::held;
use crate::idle::{Activity, Request};

/// Connections of a door at once; more wait in the kernel's queue, and then are refused by it.
const CONNECTIONS_MAX: usize = 4_096;
/// In each direction of a connection.
const BUFFER_BYTES: usize = 16 << 10;
/// From a connection until somebody is ready to answer it.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// The same where what is woken has failed to start.
const FAILURE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at that.
const FAILURE_POLL: Duration = Duration::from_millis(500);
/// For a connection to somebody who is ready.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// For one attempt. Who has too many waiting drops the first packet of more, which the kernel sends again after 1, 3 and 7 s.
const ATTEMPT: Duration = Duration::from_millis(250);
/// Between two attempts where what is said to be ready does not take connections yet; longer each time.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// Between two attempts to open a door that is somebody else's.
const BIND_PAUSE: Duration = Duration::from_secs(2);
/// For the first bytes of who is told that nobody answers.
const FIRST_BYTES_PATIENCE: Duration = Duration::from_millis(200);

/// Whom it leads to.
#[derive(Clone, Default)]
struct Way {
    backends: Arc<[SocketAddrV4]>,
    sleepers: Arc<[Activity]>,
}

/// Whether a door takes connections.
#[derive(Clone, Debug, Default)]
enum State {
    #[default]
    Opening,
    /// There.
    Open(SocketAddrV4),
    Closed(String),
}

/// A door that is open, or is being opened.
pub(crate) struct Opened {
    way: watch::Sender<Way>,
    state: Arc<Mutex<State>>,
    _serving: AbortOnDropHandle<()>,
}

impl Opened {
    /// Listens `at` that place, with port 0 at one that is free. `changes` is told when it is open.
    pub(crate) fn new(
        at: SocketAddrV4,
        backends: Vec<SocketAddrV4>,
        sleepers: Vec<Activity>,
        changes: Arc<Notify>,
    ) -> Self {
        let (way, leading) = watch::channel(Way {
            backends: backends.into(),
            sleepers: sleepers.into(),
        });
        let state = Arc::default();
        let serving = serve(at, leading, Arc::clone(&state), changes);
        Opened {
            way,
            state,
            _serving: AbortOnDropHandle::new(tokio::spawn(serving)),
        }
    }

    pub(crate) fn lead_to(&self, backends: Vec<SocketAddrV4>, sleepers: Vec<Activity>) {
        self.way.send_replace(Way {
            backends: backends.into(),
            sleepers: sleepers.into(),
        });
    }

    /// Why it is not open.
    pub(crate) fn trouble(&self) -> Option<String> {
        match &*held(&self.state) {
            State::Closed(why) => Some(why.clone()),
            State::Opening | State::Open(_) => None,
        }
    }

    /// Where it listens, once it is open and the port nobody else's.
    pub(crate) fn listens_at(&self) -> Option<SocketAddrV4> {
        match *held(&self.state) {
            State::Open(at) => Some(at),
            State::Opening | State::Closed(_) => None,
        }
    }
}

async fn serve(at: SocketAddrV4, leading: watch::Receiver<Way>, state: Arc<Mutex<State>>, changes: Arc<Notify>) {
    let listener = loop {
        match bind(at).await {
            Ok((listener, at)) => {
                *held(&state) = State::Open(at);
                break listener;
            }
            Err(error) => {
                let why = match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        format!("port {} is in use by another program of this machine", at.port())
                    }
                    _ => format!("{at}: {error}"),
                };
                *held(&state) = State::Closed(why);
                sleep(BIND_PAUSE).await;
            }
        }
    };
    changes.notify_one();
    let (room, turn) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Arc::new(AtomicUsize::new(0)));
    loop {
        let place = Arc::clone(&room).acquire_owned().await.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let (leading, turn) = (leading.clone(), Arc::clone(&turn));
                tokio::spawn(async move {
                    lead(stream, leading, &turn).await;
                    drop(place);
                });
            }
            // No descriptor is left, or who called has gone.
            Err(error) => {
                tracing::warn!(%at, %error, "a connection cannot be taken");
                sleep(LONGEST_PAUSE).await;
            }
        }
    }
}

async fn bind(at: SocketAddrV4) -> io::Result<(TcpListener, SocketAddrV4)> {
    let listener = TcpListener::bind(at).await?;
    match listener.local_addr()? {
        SocketAddr::V4(at) => Ok((listener, at)),
        SocketAddr::V6(_) => unreachable!("it is bound to an address of IPv4"),
    }
}

/// From the first byte to the last.
async fn lead(mut stream: TcpStream, mut leading: watch::Receiver<Way>, turn: &AtomicUsize) {
    let _ = stream.set_nodelay(true);
    let _requests: Vec<Request> = leading.borrow().sleepers.iter().map(Activity::begin).collect();
    match connect(&mut leading, turn).await {
        Ok(mut backend) => {
            let _ = backend.set_nodelay(true);
            // Either side may end it as it likes; nobody else need know.
            let _ = copy_bidirectional_with_sizes(&mut stream, &mut backend, BUFFER_BYTES, BUFFER_BYTES).await;
        }
        Err(why) => refuse(stream, &why).await,
    }
}

/// A connection to one of those that are ready, each in its turn. Where nobody is, those that sleep are woken, and waited
/// for.
async fn connect(leading: &mut watch::Receiver<Way>, turn: &AtomicUsize) -> Result<TcpStream, String> {
    let began = Instant::now();
    let until = began + READY_PATIENCE;
    let mut pause = FIRST_PAUSE;
    let mut last = "nobody is ready to answer".to_owned();
    loop {
        let Way { backends, sleepers } = leading.borrow_and_update().clone();
        // What one of before listened at may still be known, until this is told.
        let are_there = sleepers.is_empty() || sleepers.iter().any(Activity::is_ready);
        let backends = if are_there { backends } else { Arc::default() };
        let first = turn.fetch_add(1, Ordering::Relaxed);
        let mut is_busy = false;
        for step in 0..backends.len() {
            let backend = backends[(first + step) % backends.len()];
            match timeout(ATTEMPT, TcpStream::connect(backend)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = format!("{backend}: {error}"),
                Err(_) => (is_busy, last) = (true, format!("{backend} does not answer")),
            }
        }
        if is_busy && began.elapsed() < CONNECT_PATIENCE {
            continue;
        }
        if sleepers.is_empty() {
            return Err(last);
        }
        sleepers.iter().for_each(Activity::wake);
        let patience = match backends.is_empty() {
            true => FAILURE_POLL,
            false => pause,
        };
        if !backends.is_empty() {
            pause = LONGEST_PAUSE.min(2 * pause);
        }
        if let Ok(Err(_)) = timeout(patience, leading.changed()).await {
            return Err("it is not wanted any more".to_owned());
        }
        let failure = || sleepers.iter().find_map(Activity::failure);
        if began.elapsed() >= FAILURE_PATIENCE
            && let Some(why) = failure()
        {
            return Err(why);
        }
        if Instant::now() >= until {
            return Err(format!("it is not ready in {} s", READY_PATIENCE.as_secs()));
        }
    }
}

/// Says why to who speaks HTTP; others are cut off.
async fn refuse(mut stream: TcpStream, why: &str) {
    let mut first = [0; 8];
    let peeked = timeout(FIRST_BYTES_PATIENCE, stream.peek(&mut first)).await;
    let speaks_http = matches!(peeked, Ok(Ok(length)) if is_method(&first[..length]));
    if speaks_http {
        let body = format!("{why}\n");
        let answer = format!(
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Retry-After: 5\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
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
