//! A client of the edge that says something now and then and answers what it hears, on a thread of its own.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mqtt::{Connect, Packet, PacketId, Publish, QoS, Subscribe, SubscriptionOptions, UserProperties, Version};

/// Time between two tries to connect.
const PAUSE: Duration = Duration::from_millis(500);
/// How long it listens before it looks whether there is something to say.
const LISTENING: Duration = Duration::from_millis(50);
/// Bytes of a packet that it takes.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// Runs until it is dropped.
pub(super) struct Station {
    is_over: Arc<AtomicBool>,
}

/// Who it is.
pub(super) struct Login {
    pub(super) port: u16,
    pub(super) id: String,
    pub(super) password: String,
}

/// What it does.
pub(super) trait Work: Send + 'static {
    /// Filters that it subscribes to.
    fn filters(&self) -> Vec<String>;
    /// Now and then.
    fn speak(&mut self, line: &mut Line) -> io::Result<()>;
    /// A message came.
    fn hear(&mut self, line: &mut Line, topic: &str, payload: &[u8]) -> io::Result<()>;
}

impl Station {
    pub(super) fn start(login: Login, mut work: impl Work) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                // The edge may restart: it tries again.
                let _ = serve(&login, &mut work, &seen);
                #[expect(clippy::disallowed_methods, reason = "it has nothing else to wait for")]
                std::thread::sleep(PAUSE);
            }
        });
        Self { is_over }
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn serve(login: &Login, work: &mut impl Work, is_over: &AtomicBool) -> io::Result<()> {
    let mut line = Line::connect(login, &work.filters())?;
    while !is_over.load(Ordering::Relaxed) {
        work.speak(&mut line)?;
        for (topic, payload) in line.receive()? {
            work.hear(&mut line, &topic, &payload)?;
        }
    }
    Ok(())
}

/// Its connection.
pub(super) struct Line {
    socket: TcpStream,
    bytes: Vec<u8>,
}

impl Line {
    fn connect(login: &Login, filters: &[String]) -> io::Result<Self> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, login.port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(LISTENING))?;
        let mut connect = Connect::new(Version::V5, &login.id);
        connect.user_name = Some(&login.id);
        connect.password = Some(login.password.as_bytes());
        let mut bytes = Vec::new();
        Packet::Connect(Box::new(connect)).encode(Version::V5, &mut bytes);
        let options = |filter: &'_ String| (filter.clone(), SubscriptionOptions::default());
        let filters: Vec<_> = filters.iter().map(options).collect();
        let subscribe = Subscribe {
            packet_id: PacketId::MIN,
            subscription_id: None,
            filters: filters.iter().map(|(filter, options)| (&**filter, *options)).collect(),
            user_properties: UserProperties::default(),
        };
        Packet::Subscribe(subscribe).encode(Version::V5, &mut bytes);
        socket.write_all(&bytes)?;
        Ok(Self {
            socket,
            bytes: Vec::new(),
        })
    }

    /// Publishes at QoS 0.
    pub(super) fn send(&mut self, topic: &str, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::new();
        Publish::new(topic, QoS::AtMostOnce, None, payload).encode(Version::V5, &mut bytes);
        self.socket.write_all(&bytes)
    }

    /// The messages that come within [`LISTENING`].
    fn receive(&mut self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut some = [0; 4096];
        match self.socket.read(&mut some) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => self.bytes.extend_from_slice(&some[..len]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        let mut messages = Vec::new();
        let mut taken = 0;
        while let Some((packet, len)) = Packet::read(&self.bytes[taken..], Version::V5, PACKET_BYTES_MAX)
            .map_err(|error| io::Error::other(error.to_string()))?
        {
            taken += len;
            if let Packet::Publish(publish) = packet {
                messages.push((publish.topic.to_owned(), publish.payload.to_vec()));
            }
        }
        self.bytes.drain(..taken);
        Ok(messages)
    }
}
