//! A client of MQTT 3.1.1 that waits: one connection, one packet after another.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use mqtt::{
    Ack, Connect, Packet, PacketId, Publish, PublishProperties, QoS, ReasonCode, Subscribe, SubscriptionOptions,
    UserProperties, Version,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::generator::socket::{Endpoint, Socket};

const VERSION: Version = Version::V311;
const MAXIMUM_PACKET_SIZE: usize = 1 << 20;
/// Bytes taken by one read.
const READ_BYTES: usize = 64 << 10;
/// How long a server may take to answer CONNECT, SUBSCRIBE or PINGREQ.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// One connection.
pub(super) struct Client {
    socket: Socket,
    inbox: Vec<u8>,
    scratch: Vec<u8>,
    /// Bytes to be sent by the next [`Client::flush`].
    out: Vec<u8>,
}

impl Client {
    /// Connects and sends CONNECT, without waiting for the answer. A `clean` session ends with its connection, any
    /// other stays.
    pub(super) fn begin(endpoint: &Endpoint, client_id: &str, clean: bool) -> io::Result<Client> {
        let mut client = Client {
            socket: Socket::connect(endpoint)?,
            inbox: Vec::new(),
            scratch: vec![0; READ_BYTES],
            out: Vec::new(),
        };
        connect_packet(client_id, clean).encode(VERSION, &mut client.out);
        client.flush()?;
        Ok(client)
    }

    /// Waits for the CONNACK; whether the server has a session for this client.
    pub(super) fn accepted(&mut self) -> io::Result<bool> {
        self.answer(|packet| match packet {
            Packet::ConnAck(ack) if ack.reason == ReasonCode::Success => Some(ack.session_present),
            _ => None,
        })
    }

    /// Connects and waits for the CONNACK.
    pub(super) fn connect(endpoint: &Endpoint, client_id: &str, clean: bool) -> io::Result<Client> {
        let mut client = Client::begin(endpoint, client_id, clean)?;
        client.accepted()?;
        Ok(client)
    }

    /// Subscribes at QoS 1 and waits for the SUBACK.
    pub(super) fn subscribe(&mut self, filter: &str) -> io::Result<()> {
        let options = SubscriptionOptions {
            qos: QoS::AtLeastOnce,
            ..SubscriptionOptions::default()
        };
        let subscribe = Subscribe {
            packet_id: PacketId::MIN,
            subscription_id: None,
            filters: vec![(filter, options)],
            user_properties: UserProperties::default(),
        };
        Packet::Subscribe(subscribe).encode(VERSION, &mut self.out);
        self.flush()?;
        self.answer(|packet| match packet {
            Packet::SubAck(ack) if ack.reasons.iter().all(|reason| (*reason as u8) < 0x80) => Some(()),
            _ => None,
        })
    }

    /// Ends the connection in good order and waits until the server has closed it.
    pub(super) fn disconnect(mut self) -> io::Result<()> {
        self.out.extend_from_slice(&[0xE0, 0]);
        self.flush()?;
        let deadline = Instant::now() + ANSWER_LIMIT;
        while Instant::now() < deadline {
            match self.receive(ANSWER_LIMIT, |_, _| ()) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(
            ErrorKind::TimedOut,
            "the server did not close after DISCONNECT",
        ))
    }

    /// Appends a QoS 1 PUBLISH to what the next [`Client::flush`] sends.
    pub(super) fn publish(&mut self, packet_id: PacketId, topic: &str, payload: &[u8]) {
        let publish = Publish {
            dup: false,
            qos: QoS::AtLeastOnce,
            retain: false,
            topic,
            packet_id: Some(packet_id),
            properties: PublishProperties::default(),
            payload,
        };
        Packet::Publish(publish).encode(VERSION, &mut self.out);
    }

    /// Sends what waits, as far as the server takes it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return self.socket.flush();
        }
        self.socket.write(&mut self.out)
    }

    /// Waits at most `limit` for bytes, hands the whole packets among them to `on_packet`, which may append to what is
    /// to be sent, and sends it. False where nothing came.
    pub(super) fn receive(
        &mut self,
        limit: Duration,
        mut on_packet: impl FnMut(&Packet<'_>, &mut Vec<u8>),
    ) -> io::Result<bool> {
        if !self.wait(limit)? {
            return Ok(false);
        }
        self.socket.read(&mut self.scratch, &mut self.inbox)?;
        let mut taken = 0;
        while let Some((packet, length)) =
            Packet::read(&self.inbox[taken..], VERSION, MAXIMUM_PACKET_SIZE).map_err(|error| malformed(&error))?
        {
            taken += length;
            on_packet(&packet, &mut self.out);
        }
        self.inbox.drain(..taken);
        self.flush()?;
        Ok(true)
    }

    /// The connection alone, without buffers: what an idle client keeps.
    pub(super) fn into_socket(self) -> Socket {
        self.socket
    }

    fn wait(&self, limit: Duration) -> io::Result<bool> {
        let flags = if self.socket.wants_write() {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        };
        let timeout = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        Ok(poll(&mut [PollFd::new(&self.socket, flags)], Some(&timeout))? > 0)
    }

    fn answer<T>(&mut self, mut wanted: impl FnMut(&Packet<'_>) -> Option<T>) -> io::Result<T> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let (mut found, mut other) = (None, None);
        while found.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            let came = self.receive(left, |packet, _| {
                found = found.take().or_else(|| wanted(packet));
                other = Some(format!("{packet:?}"));
            })?;
            if !came {
                return Err(io::Error::new(ErrorKind::TimedOut, "the server does not answer"));
            }
            if let (None, Some(packet)) = (&found, other.take()) {
                return Err(io::Error::other(format!("the server answered {packet}")));
            }
        }
        found.ok_or_else(|| io::Error::other("no answer"))
    }
}

/// The PUBACK of a message.
pub(super) fn acknowledge(packet_id: PacketId, out: &mut Vec<u8>) {
    Packet::PubAck(Ack::new(packet_id, ReasonCode::Success)).encode(VERSION, out);
}

/// The packet identifier of a message: none is used again before 65,534 others.
pub(super) fn packet_id(number: u64) -> PacketId {
    let id = (number % u64::from(u16::MAX)) as u16 + 1;
    PacketId::new(id).unwrap_or(PacketId::MIN)
}

fn connect_packet(client_id: &str, clean: bool) -> Packet<'_> {
    Packet::Connect(Box::new(Connect {
        version: VERSION,
        clean_start: clean,
        keep_alive_s: 0,
        client_id,
        will: None,
        user_name: None,
        password: None,
        session_expiry_interval_s: None,
        receive_maximum: None,
        maximum_packet_size: None,
        topic_alias_maximum: 0,
        request_response_information: false,
        request_problem_information: true,
        authentication_method: None,
        authentication_data: None,
        user_properties: UserProperties::default(),
    }))
}

fn malformed(error: &mqtt::DecodeError) -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        format!(
            "the server sent a packet that {} forbids: {}",
            error.clause, error.message
        ),
    )
}
