//! The connected clients of one arm: the responder, if the arm needs one, and the devices.

use std::io;

use mqtt::{QoS, Version};

use super::clock::Clock;
use super::login::{Login, RESPONDER_ID};
use super::poller::Poller;
use super::role::{Answer, Role, device_id};
use super::session::Identity;
use super::socket::{Endpoint, Socket};

/// Clients that may be connecting at once: below the accept queue of any server.
const CONNECTING_AT_ONCE: usize = 64;
/// A fleet that makes no progress for this long while connecting has failed.
const CONNECT_PATIENCE_NS: u64 = 10_000_000_000;
/// Bytes taken by one read.
const READ_BYTES: usize = 256 << 10;

/// What the clients of an arm speak.
#[derive(Clone, Debug)]
pub(crate) enum Protocol {
    /// MQTT through a broker. The responder subscribes `responder_filter`.
    Mqtt {
        version: Version,
        responder_filter: String,
        login: Login,
    },
    /// Frames through a relay to a responder.
    Relay,
    /// Frames to a server that answers by itself.
    Echo,
}

/// How to connect to an arm.
#[derive(Clone)]
pub(crate) struct Access {
    /// Where devices connect.
    pub(crate) endpoint: Endpoint,
    /// Where our responder connects; none where the server answers by itself, or the responder is a process of its own.
    pub(crate) responder: Option<Endpoint>,
    pub(crate) protocol: Protocol,
}

struct Link {
    socket: Socket,
    role: Role,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    open: bool,
    watching_writable: bool,
}

/// All connections of one arm, and the one thread's view of them.
pub(crate) struct Fleet {
    links: Vec<Link>,
    responders: usize,
    scratch: Vec<u8>,
    /// Answers since last taken.
    pub(crate) answers: Vec<Answer>,
    /// The first thing that went wrong.
    pub(crate) failure: Option<String>,
    pub(crate) poller: Poller,
    pub(crate) clock: Clock,
}

impl Fleet {
    /// Connects `devices` devices and their responder, and waits until all have subscribed.
    ///
    /// # Errors
    /// A connection that is refused, fails, or makes no progress for ten seconds.
    pub(crate) fn connect(access: &Access, devices: u32, qos: QoS, spins: bool) -> Result<Fleet, String> {
        let responders = usize::from(access.responder.is_some());
        let mut fleet = Fleet {
            links: Vec::with_capacity(responders + devices as usize),
            responders,
            scratch: vec![0; READ_BYTES],
            answers: Vec::new(),
            failure: None,
            poller: Poller::new(spins).map_err(|error| format!("no epoll set: {error}"))?,
            clock: Clock::start(),
        };
        fleet.connect_all(access, responders + devices as usize, qos)?;
        Ok(fleet)
    }

    fn connect_all(&mut self, access: &Access, total: usize, qos: QoS) -> Result<(), String> {
        let mut ready = 0;
        while ready < total {
            while self.links.len() < total && self.links.len() - ready < CONNECTING_AT_ONCE {
                self.open_link(access, qos)
                    .map_err(|error| format!("{}: {error}", access.endpoint.address))?;
            }
            let patience_ends_ns = self.clock.now_ns() + CONNECT_PATIENCE_NS;
            self.turn(None, Some(patience_ends_ns))
                .map_err(|error| error.to_string())?;
            if let Some(failure) = self.failure.take() {
                return Err(failure);
            }
            if self.clock.now_ns() >= patience_ends_ns {
                let waiting = self.links.len() - ready;
                return Err(format!(
                    "{ready} of {total} clients are connected, {waiting} wait without an answer"
                ));
            }
            ready = self.links.iter().filter(|link| link.role.is_ready()).count();
        }
        Ok(())
    }

    fn open_link(&mut self, access: &Access, qos: QoS) -> io::Result<()> {
        let key = self.links.len();
        let device = key.checked_sub(self.responders).map(|device| device as u32);
        let role = match (&access.protocol, device) {
            (Protocol::Mqtt { version, .. }, Some(device)) => Role::mqtt_device(device, *version, qos),
            (
                Protocol::Mqtt {
                    version,
                    responder_filter,
                    ..
                },
                None,
            ) => Role::mqtt_responder(*version, qos, responder_filter),
            (Protocol::Relay | Protocol::Echo, Some(device)) => Role::FrameDevice { device, ready: false },
            (Protocol::Relay | Protocol::Echo, None) => Role::FrameResponder { ready: false },
        };
        let login = match &access.protocol {
            Protocol::Mqtt { login, .. } => login.of(device),
            Protocol::Relay | Protocol::Echo => None,
        };
        let identity = Identity {
            client_id: device.map_or_else(|| RESPONDER_ID.to_owned(), device_id),
            login,
        };
        let endpoint = access.responder.as_ref().filter(|_| device.is_none());
        let socket = Socket::connect(endpoint.unwrap_or(&access.endpoint))?;
        self.poller.add(&socket, key)?;
        let mut link = Link {
            socket,
            role,
            inbox: Vec::new(),
            outbox: Vec::new(),
            open: true,
            watching_writable: false,
        };
        link.role.greet(&identity, &mut link.outbox);
        self.links.push(link);
        self.write(key);
        Ok(())
    }

    /// Takes what comes and sends what follows from it, for as long as the connections stand; why they do no more.
    ///
    /// # Errors
    /// The machine refused to wait.
    pub(crate) fn serve(mut self) -> io::Result<String> {
        loop {
            self.turn(None, None)?;
            if let Some(failure) = self.failure.take() {
                return Ok(failure);
            }
        }
    }

    /// Whether the connections still stand; takes what the server may have sent meanwhile.
    pub(crate) fn is_alive(&mut self) -> bool {
        let now_ns = self.clock.now_ns();
        self.failure.is_none() && self.turn(None, Some(now_ns)).is_ok() && self.failure.is_none()
    }

    /// Sends `payload` from `device`; when it left, or none where it could not.
    pub(crate) fn send(&mut self, device: u32, payload: &[u8]) -> Option<u64> {
        let key = self.responders + device as usize;
        let link = &mut self.links[key];
        if !link.open || link.socket.is_full() || !link.role.send(payload, &mut link.outbox) {
            return None;
        }
        let sent_ns = self.clock.now_ns();
        self.write(key);
        Some(sent_ns)
    }

    /// Waits for sockets or times as [`Poller::wait`] does, then takes what came and writes what follows from it.
    ///
    /// # Errors
    /// The wait itself failed. Failures of connections are kept in `failure`.
    fn turn(&mut self, due_ns: Option<u64>, deadline_ns: Option<u64>) -> io::Result<()> {
        for event in 0..self.wait(due_ns, deadline_ns)? {
            self.take(event).into_iter().for_each(|key| self.write(key));
        }
        Ok(())
    }

    /// Waits as [`Poller::wait`] does; how many events there are to [`Fleet::take`].
    ///
    /// # Errors
    /// The wait itself failed.
    pub(crate) fn wait(&mut self, due_ns: Option<u64>, deadline_ns: Option<u64>) -> io::Result<usize> {
        self.poller.wait(&self.clock, due_ns, deadline_ns)?;
        Ok(self.poller.event_count())
    }

    /// Takes what came with one event; the connection that may have something to [`Fleet::write`] since then.
    pub(crate) fn take(&mut self, event: usize) -> Option<usize> {
        let ready = self.poller.ready(event)?;
        if ready.readable && self.links[ready.key].open {
            self.read(ready.key)
                .unwrap_or_else(|problem| self.close(ready.key, &problem));
        }
        Some(ready.key)
    }

    fn read(&mut self, key: usize) -> Result<(), String> {
        let link = &mut self.links[key];
        link.socket
            .read(&mut self.scratch, &mut link.inbox)
            .map_err(|error| error.to_string())?;
        let now_ns = self.clock.now_ns();
        let taken = link
            .role
            .receive(&link.inbox, &mut link.outbox, &self.clock, now_ns, &mut self.answers)?;
        if taken == link.inbox.len() {
            link.inbox.clear();
        } else {
            link.inbox.drain(..taken);
        }
        Ok(())
    }

    /// Writes what a connection has to send, as far as its peer takes it.
    pub(crate) fn write(&mut self, key: usize) {
        let link = &mut self.links[key];
        if !link.open || (link.outbox.is_empty() && !link.socket.wants_write()) {
            return;
        }
        if let Err(error) = link.socket.write(&mut link.outbox) {
            return self.close(key, &error.to_string());
        }
        let waits = link.socket.backlog() > 0;
        if waits != link.watching_writable {
            link.watching_writable = waits;
            if let Err(error) = self.poller.watch_writable(&link.socket, key, waits) {
                self.close(key, &error.to_string());
            }
        }
    }

    fn close(&mut self, key: usize, problem: &str) {
        let link = &mut self.links[key];
        link.open = false;
        // A socket that cannot be removed is not in the set.
        let _ = self.poller.remove(&link.socket);
        let who = key
            .checked_sub(self.responders)
            .map_or_else(|| RESPONDER_ID.to_owned(), |d| device_id(d as u32));
        self.failure.get_or_insert_with(|| format!("{who}: {problem}"));
    }
}
