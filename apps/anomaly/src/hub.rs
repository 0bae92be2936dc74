//! The connection to the hub, and what is not settled with it: readings that wait for their verdict to be safe.
//!
//! A reading is acknowledged once the hub has acknowledged what was said of it. What breaks off in between is sent again
//! by both sides, and known by its packet identifier.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::num::NonZeroU16;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use mqtt::{
    Ack, Connect, Disconnect, Packet, PacketId, Publish, QoS, ReasonCode, Subscribe, SubscriptionOptions, Version,
};

/// Readings that the hub gives at once without having an acknowledgement.
pub(crate) const READINGS_AT_ONCE: u16 = 64;
/// Those and what is said of ourselves.
const OUTSTANDING_MAX: usize = READINGS_AT_ONCE as usize + 8;
const PACKET_BYTES_MAX: u32 = 1 << 20;
const KEEP_ALIVE_S: u16 = 30;
/// After that the hub is asked whether it is there.
const SILENCE: Duration = Duration::from_secs(15);
/// The session, and with it what waits, outlives a connection by so long.
const SESSION_EXPIRY_S: u32 = 7 * 24 * 3600;
const PATIENCE: Duration = Duration::from_secs(10);

/// Where the hub is, and as whom it is asked.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// Host and port.
    pub address: String,
    /// User name.
    pub user: String,
    /// The file with what stands in place of a password.
    pub token_file: std::path::PathBuf,
    /// Client identifier.
    pub client_id: String,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Nobody is there, or not any more.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What comes is not MQTT.
    #[error("the hub says what is no MQTT: {0}")]
    Malformed(#[from] mqtt::DecodeError),
    /// It does not want us.
    #[error("the hub says: {0}")]
    Refused(String),
    /// Somebody else came under the same name.
    #[error("another program has logged in under the same client identifier; there is to be one replica")]
    TakenOver,
}

/// What comes from the hub.
#[derive(Debug)]
pub(crate) enum Event {
    /// A message.
    Message {
        /// Where it was published.
        topic: String,
        /// What it is.
        payload: Vec<u8>,
        /// Kept by the hub, from before.
        is_retained: bool,
        /// What it is acknowledged by, if it is.
        given: Option<Given>,
    },
    /// All that is retained for what was subscribed to has come.
    Subscribed,
}

/// What was published and is not acknowledged.
#[derive(Debug)]
struct Outstanding {
    packet_id: PacketId,
    topic: String,
    payload: Vec<u8>,
    retain: bool,
    /// The reading that it is of.
    of: Option<Given>,
}

/// A reading that the hub waits for the acknowledgement of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    packet_id: PacketId,
    /// A digest of topic and payload.
    content: u64,
    /// Of the session.
    session: u64,
}

/// What is not settled, which outlives connections.
#[derive(Debug, Default)]
pub(crate) struct Unsettled {
    published: VecDeque<Outstanding>,
    /// Readings whose acknowledgement may not have arrived.
    acknowledged: VecDeque<Given>,
    /// Readings that somebody has and has said nothing of yet.
    held: Vec<Given>,
    last_id: u16,
    /// Counts sessions: in a new one nobody waits for what was given in one before.
    session: u64,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    spoke: Instant,
    asked: Option<Instant>,
    is_subscribed: bool,
}

impl Given {
    fn new(packet_id: PacketId, publish: &Publish<'_>, session: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (publish.topic, publish.payload).hash(&mut hasher);
        Given {
            packet_id,
            content: hasher.finish(),
            session,
        }
    }
}

impl Unsettled {
    /// Whether more can be published.
    #[must_use]
    pub(crate) fn has_room(&self) -> bool {
        self.published.len() < OUTSTANDING_MAX
    }

    /// Whether nothing waits for an acknowledgement.
    #[must_use]
    pub(crate) fn is_settled(&self) -> bool {
        self.published.is_empty()
    }

    /// Publishes at QoS 1, over a connection or as soon as there is one; `of` is the reading that is acknowledged once
    /// this is.
    pub(crate) fn publish(
        &mut self,
        connection: Option<&mut Connection>,
        topic: String,
        payload: Vec<u8>,
        retain: bool,
        of: Option<Given>,
    ) {
        self.held.retain(|held| Some(*held) != of);
        let one = Outstanding {
            packet_id: self.next_id(),
            topic,
            payload,
            retain,
            of,
        };
        if let Some(connection) = connection {
            connection.send_publish(&one, false);
        }
        self.published.push_back(one);
    }

    /// Acknowledges a reading.
    pub(crate) fn acknowledge(&mut self, connection: Option<&mut Connection>, given: Given) {
        if given.session != self.session {
            return;
        }
        self.held.retain(|held| *held != given);
        if self.acknowledged.len() == usize::from(READINGS_AT_ONCE) {
            self.acknowledged.pop_front();
        }
        self.acknowledged.push_back(given);
        if let Some(connection) = connection {
            connection.send(&Packet::PubAck(Ack::new(given.packet_id, ReasonCode::Success)));
        }
    }

    fn next_id(&mut self) -> PacketId {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if let Some(id) = NonZeroU16::new(self.last_id)
                && self.published.iter().all(|one| one.packet_id != id)
            {
                return id;
            }
        }
    }

    fn knows(&self, given: Given) -> bool {
        self.held.contains(&given) || self.published.iter().any(|one| one.of == Some(given))
    }
}

impl Connection {
    /// Logs in, subscribes, and sends again what was not acknowledged.
    ///
    /// # Errors
    /// It does not work out.
    pub(crate) fn open(
        login: &Login,
        unsettled: &mut Unsettled,
        filters: [(&str, QoS); 2],
        now: Instant,
    ) -> Result<Self, Error> {
        let token = std::fs::read_to_string(&login.token_file)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", login.token_file.display())))?;
        let address = login.address.to_socket_addrs()?.next();
        let address = address.ok_or_else(|| io::Error::other(format!("{} has no address", login.address)))?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        let mut connection = Connection {
            stream,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            spoke: now,
            asked: None,
            is_subscribed: false,
        };
        let is_known = connection.log_in(login, token.trim())?;
        connection.stream.set_nonblocking(true)?;
        connection.take_up(unsettled, is_known);
        connection.subscribe(unsettled, filters);
        connection.flush()?;
        Ok(connection)
    }

    /// What to wait for.
    #[must_use]
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// When [`Connection::turn`] has something to do, whatever comes.
    #[must_use]
    pub(crate) fn due(&self) -> Instant {
        self.asked.map_or(self.spoke + SILENCE, |asked| asked + PATIENCE)
    }

    /// Whether there is something to be written.
    #[must_use]
    pub(crate) fn wants_to_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether the hub has the session; waits.
    fn log_in(&mut self, login: &Login, token: &str) -> Result<bool, Error> {
        let mut connect = Connect::new(Version::V5, &login.client_id);
        connect.clean_start = false;
        connect.keep_alive_s = KEEP_ALIVE_S;
        connect.user_name = Some(&login.user);
        connect.password = Some(token.as_bytes());
        connect.session_expiry_interval_s = Some(SESSION_EXPIRY_S);
        connect.receive_maximum = NonZeroU16::new(READINGS_AT_ONCE);
        connect.maximum_packet_size = Some(PACKET_BYTES_MAX);
        self.send(&Packet::Connect(Box::new(connect)));
        self.stream.set_read_timeout(Some(PATIENCE))?;
        self.stream.set_write_timeout(Some(PATIENCE))?;
        self.stream.write_all(&std::mem::take(&mut self.outgoing))?;
        loop {
            if let Some((packet, length)) = Packet::read(&self.incoming, Version::V5, PACKET_BYTES_MAX as usize)? {
                let is_known = accepted(&packet)?;
                self.incoming.drain(..length);
                return Ok(is_known);
            }
            let mut buffer = [0; 4 << 10];
            let read = self.stream.read(&mut buffer)?;
            if read == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.incoming.extend_from_slice(&buffer[..read]);
        }
    }

    /// Sends again what was not acknowledged.
    fn take_up(&mut self, unsettled: &mut Unsettled, is_known: bool) {
        if !is_known {
            unsettled.session += 1;
            unsettled.acknowledged.clear();
            unsettled.held.clear();
        }
        for one in &unsettled.published {
            self.send_publish(one, is_known);
        }
    }

    fn subscribe(&mut self, unsettled: &mut Unsettled, filters: [(&str, QoS); 2]) {
        let filters = filters.map(|(filter, qos)| {
            let options = SubscriptionOptions {
                qos,
                ..SubscriptionOptions::default()
            };
            (filter, options)
        });
        self.send(&Packet::Subscribe(Subscribe::new(
            unsettled.next_id(),
            filters.to_vec(),
        )));
        // Its answer comes behind what is retained.
        self.send(&Packet::PingReq);
    }

    /// Reads what is there: messages, and whether the connection has ended behind them.
    pub(crate) fn receive(&mut self, unsettled: &mut Unsettled) -> (Vec<Event>, Result<(), Error>) {
        let mut events = Vec::new();
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => return (events, Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())),
            Ok(read) => self.incoming.extend_from_slice(&buffer[..read]),
            Err(error) if is_later(&error) => {}
            Err(error) => return (events, Err(error.into())),
        }
        self.asked = None;
        let done = self.take_apart(unsettled, &mut events);
        (events, done)
    }

    fn take_apart(&mut self, unsettled: &mut Unsettled, events: &mut Vec<Event>) -> Result<(), Error> {
        let incoming = std::mem::take(&mut self.incoming);
        let mut at = 0;
        while let Some((packet, length)) = Packet::read(&incoming[at..], Version::V5, PACKET_BYTES_MAX as usize)? {
            at += length;
            events.extend(self.handle(unsettled, &packet)?);
        }
        self.incoming = incoming;
        self.incoming.drain(..at);
        Ok(())
    }

    fn handle(&mut self, unsettled: &mut Unsettled, packet: &Packet<'_>) -> Result<Option<Event>, Error> {
        match packet {
            Packet::Publish(publish) => Ok(self.message(unsettled, publish)),
            Packet::PubAck(ack) => self.settled(unsettled, ack).map(|()| None),
            Packet::SubAck(answer) => match answer.reasons.iter().find(|reason| reason.is_error()) {
                Some(reason) => Err(Error::Refused(format!("{reason}, of a subscription"))),
                None => Ok(None),
            },
            Packet::PingResp if !self.is_subscribed => {
                self.is_subscribed = true;
                Ok(Some(Event::Subscribed))
            }
            Packet::Disconnect(Disconnect {
                reason: ReasonCode::SessionTakenOver,
                ..
            }) => Err(Error::TakenOver),
            Packet::Disconnect(why) => Err(Error::Refused(why.reason.to_string())),
            _ => Ok(None),
        }
    }

    fn message(&mut self, unsettled: &mut Unsettled, publish: &Publish<'_>) -> Option<Event> {
        let given = publish.packet_id.map(|id| Given::new(id, publish, unsettled.session));
        if let Some(given) = given {
            if publish.dup && unsettled.acknowledged.contains(&given) {
                unsettled.acknowledge(Some(self), given);
                return None;
            }
            if unsettled.knows(given) {
                return None;
            }
            unsettled.held.push(given);
        }
        Some(Event::Message {
            topic: publish.topic.to_owned(),
            payload: publish.payload.to_vec(),
            is_retained: publish.retain,
            given,
        })
    }

    /// What the hub does not take is said again, over another connection.
    fn settled(&mut self, unsettled: &mut Unsettled, ack: &Ack<'_>) -> Result<(), Error> {
        let Some(at) = unsettled
            .published
            .iter()
            .position(|one| one.packet_id == ack.packet_id)
        else {
            return Ok(());
        };
        if ack.reason.is_error() {
            return Err(Error::Refused(format!(
                "{}, of {}",
                ack.reason, unsettled.published[at].topic
            )));
        }
        if let Some(given) = unsettled.published.remove(at).and_then(|settled| settled.of) {
            unsettled.acknowledge(Some(self), given);
        }
        Ok(())
    }

    /// Writes what there is to be written, as far as it goes, and asks a hub that is silent whether it is there.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn turn(&mut self, now: Instant) -> Result<(), Error> {
        if self.asked.is_some_and(|asked| now >= asked + PATIENCE) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it says nothing").into());
        }
        if self.wants_to_write() {
            self.spoke = now;
        }
        if self.asked.is_none() && now >= self.spoke + SILENCE {
            self.send(&Packet::PingReq);
            self.spoke = now;
            self.asked = Some(now);
        }
        self.flush()
    }

    /// Says that it ends, so that nobody waits.
    pub(crate) fn close(mut self) {
        self.send(&Packet::Disconnect(Disconnect::new(ReasonCode::Success)));
        let _ = self.flush();
    }

    fn flush(&mut self) -> Result<(), Error> {
        while !self.outgoing.is_empty() {
            match self.stream.write(&self.outgoing) {
                Ok(written) => drop(self.outgoing.drain(..written)),
                Err(error) if is_later(&error) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn send_publish(&mut self, one: &Outstanding, again: bool) {
        let mut publish = Publish::new(&one.topic, QoS::AtLeastOnce, Some(one.packet_id), &one.payload);
        publish.dup = again;
        publish.retain = one.retain;
        self.send(&Packet::Publish(publish));
    }

    fn send(&mut self, packet: &Packet<'_>) {
        packet.encode(Version::V5, &mut self.outgoing);
    }
}

/// Whether the hub lets us in, and whether it has the session.
fn accepted(packet: &Packet<'_>) -> Result<bool, Error> {
    let Packet::ConnAck(answer) = packet else {
        return Err(Error::Refused("nothing that answers a CONNECT".into()));
    };
    if answer.reason != ReasonCode::Success {
        return Err(Error::Refused(answer.reason.to_string()));
    }
    let at_once = answer
        .receive_maximum
        .map_or(usize::from(u16::MAX), |maximum| usize::from(maximum.get()));
    if at_once < OUTSTANDING_MAX {
        let message = format!("it takes {at_once} messages at once; it is to take {OUTSTANDING_MAX}");
        return Err(Error::Refused(message));
    }
    Ok(answer.session_present)
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
