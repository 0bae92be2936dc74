//! One client's connection, from the shard's side: its socket, what has not all arrived, what waits to be sent.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use broker::Position;
use identity::{HeldCredential, Principal};
use mqtt::{Connect, Packet, Publish, ReasonCode, Version};
use rustix::event::epoll::EventFlags;
use tokio::sync::OwnedSemaphorePermit;

use super::link::Link;

/// Bytes to a connection beyond which it counts as slow: QoS 0 messages to it are dropped, others stay in its session.
pub(crate) const ROOM_BYTES: usize = 256 * 1024;

/// Bytes of acknowledgements that wait for the disk beyond which a connection is not read.
const HELD_MAX_BYTES: usize = 64 * 1024;

/// First byte of a CONNECT packet.
const CONNECT: u8 = 0x10;

/// What epoll is asked to report, once each time, while the connection is read.
pub(crate) const READS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);

/// Who is at the other end.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The authenticated party.
    pub(crate) principal: Principal,
    /// What it has proved that by: it ends when one of these is revoked.
    pub(crate) proofs: Box<[HeldCredential]>,
    /// Where it connects from; `None` over a Unix socket.
    pub(crate) address: Option<SocketAddr>,
}

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Its CONNACK has not gone out: nothing may come before that (MQTT-3.2.0-1).
    Greeting,
    /// Its CONNECT was refused: no DISCONNECT follows the CONNACK.
    Refused,
    /// Packets are read.
    Open,
    /// Nothing more is read; what was written before goes out, then the socket closes.
    Ending,
}

pub(crate) struct Connection {
    pub(crate) peer: Peer,
    _place: OwnedSemaphorePermit,
    pub(crate) tenant: u32,
    pub(crate) version: Version,
    /// Bytes of the longest packet that its client was told it may send.
    pub(crate) packet_bytes: u32,
    pub(crate) phase: Phase,
    pub(crate) link: Link,
    /// The beginning of a packet that has not all arrived; empty, and without memory, at any other time.
    pub(crate) partial: Vec<u8>,
    /// Forwarded messages of this turn: first in its write.
    forward: Vec<u8>,
    /// Everything else of this turn: last in its write.
    replies: Vec<u8>,
    held: Option<Box<Held>>,
    /// Listed for the write at the end of the turn, among those with forwarded messages.
    pub(crate) is_first: bool,
    /// Listed for the write at the end of the turn.
    pub(crate) is_listed: bool,
    /// Its next packet waits until its tenant may publish again: it is not read.
    pub(crate) is_paused: bool,
    /// Its peer has ended it while it was paused: it ends once all that came before is served.
    pub(crate) has_ended: bool,
    /// Its peer sends no more, besides what is still to be read.
    pub(crate) has_hung_up: bool,
    /// Listed to be read again in the next turn.
    pub(crate) is_unread: bool,
    /// What epoll reports of the socket.
    pub(crate) interest: EventFlags,
    /// Was without room since it last drained, so that the broker must hear when it has some.
    was_full: Cell<bool>,
}

/// Replies that wait for the log, in order.
#[derive(Default)]
struct Held {
    bytes: VecDeque<u8>,
    replies: VecDeque<(Position, usize)>,
}

impl Connection {
    pub(crate) fn new(
        link: Link,
        peer: Peer,
        place: OwnedSemaphorePermit,
        tenant: u32,
        version: Version,
        packet_bytes: u32,
    ) -> Self {
        Self {
            peer,
            _place: place,
            tenant,
            version,
            packet_bytes,
            phase: Phase::Greeting,
            link,
            partial: Vec::new(),
            forward: Vec::new(),
            replies: Vec::new(),
            held: None,
            is_first: false,
            is_listed: false,
            is_paused: false,
            has_ended: false,
            interest: READS | EventFlags::ET,
            has_hung_up: false,
            is_unread: false,
            was_full: Cell::new(true),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        let waiting_bytes = self.link.unsent_bytes() + self.forward.len() + self.replies.len();
        let is_greeted = match self.phase {
            Phase::Open => true,
            Phase::Greeting => self.held.is_none(),
            Phase::Refused | Phase::Ending => false,
        };
        let has_room = is_greeted && waiting_bytes < ROOM_BYTES;
        if !has_room {
            self.was_full.set(true);
        }
        has_room
    }

    /// Whether it has room now and had none, said once.
    pub(crate) fn has_drained(&self) -> bool {
        self.phase == Phase::Open && !self.link.is_blocked() && self.was_full.take()
    }

    /// Whether epoll tells when there is something to read.
    pub(crate) fn is_watched(&self) -> bool {
        self.interest.contains(READS)
    }

    /// Whether what the client sends is still of interest.
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.phase, Phase::Greeting | Phase::Open)
    }

    pub(crate) fn publish(&mut self, publish: &Publish<'_>, pool: &mut Pool) {
        // Behind the CONNACK, as long as that has not gone out.
        let buffer = if self.phase == Phase::Greeting {
            &mut self.replies
        } else {
            &mut self.forward
        };
        pool.lend(buffer);
        publish.encode(self.version, buffer);
    }

    /// Queues a reply behind those before it; returns whether it waits for the log.
    pub(crate) fn reply(&mut self, packet: &Packet<'_>, after: Position, durable: Position, pool: &mut Pool) -> bool {
        // A PINGRESP owes nothing to the log: behind a slow disk it would cost the client.
        let is_in_order = self.held.is_none() || (matches!(packet, Packet::PingResp) && self.phase == Phase::Open);
        if after <= durable && is_in_order {
            pool.lend(&mut self.replies);
            packet.encode(self.version, &mut self.replies);
            return false;
        }
        let mut bytes = Vec::with_capacity(packet.encoded_len(self.version));
        packet.encode(self.version, &mut bytes);
        let held = self.held.get_or_insert_default();
        held.replies.push_back((after, bytes.len()));
        held.bytes.extend(bytes);
        true
    }

    /// Frees the replies that waited for exactly `position`, which will not be written.
    pub(crate) fn cancel(&mut self, position: Position) {
        if let Some(held) = &mut self.held {
            let waiting = held.replies.iter_mut().filter(|(after, _)| *after == position);
            waiting.for_each(|(after, _)| *after = Position::default());
        }
    }

    /// Moves the replies that wait no longer to the write of this turn.
    pub(crate) fn release(&mut self, durable: Position, pool: &mut Pool) {
        let Some(held) = &mut self.held else { return };
        pool.lend(&mut self.replies);
        while let Some((_, length)) = held.replies.pop_front_if(|(after, _)| *after <= durable) {
            self.replies.extend(held.bytes.drain(..length));
        }
        if held.replies.is_empty() {
            self.held = None;
        }
    }

    /// Whether as many acknowledgements wait for the disk as may.
    pub(crate) fn is_held_back(&self) -> bool {
        self.held
            .as_ref()
            .is_some_and(|held| held.bytes.len() >= HELD_MAX_BYTES)
    }

    /// Whether replies still wait for the log.
    pub(crate) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Tells a client of version 5 why its connection ends.
    pub(crate) fn say_goodbye(&mut self, reason: ReasonCode, durable: Position, pool: &mut Pool) {
        if self.version == Version::V5 && reason != ReasonCode::Success {
            let goodbye = mqtt::Disconnect {
                reason,
                session_expiry_interval_s: None,
                reason_string: None,
                server_reference: None,
                user_properties: mqtt::UserProperties::default(),
            };
            self.reply(&Packet::Disconnect(goodbye), Position::default(), durable, pool);
        }
    }

    /// One gathered write of what this turn has for the connection.
    pub(crate) fn flush(&mut self, pool: &mut Pool) -> io::Result<()> {
        let written = self.link.write(&self.forward, &self.replies);
        pool.take_back(&mut self.forward);
        pool.take_back(&mut self.replies);
        written
    }
}

/// Buffers that connections borrow for one turn, so that an idle connection holds none.
#[derive(Default)]
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
}

impl Pool {
    /// Most buffers kept, and the capacity in bytes beyond which one is not.
    const MAX_BUFFERS: usize = 64;
    const MAX_CAPACITY_BYTES: usize = 16 * 1024;

    fn lend(&mut self, buffer: &mut Vec<u8>) {
        if buffer.capacity() == 0
            && let Some(kept) = self.buffers.pop()
        {
            *buffer = kept;
        }
    }

    fn take_back(&mut self, buffer: &mut Vec<u8>) {
        let mut buffer = std::mem::take(buffer);
        if buffer.capacity() > 0
            && buffer.capacity() <= Self::MAX_CAPACITY_BYTES
            && self.buffers.len() < Self::MAX_BUFFERS
        {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

/// What a door hands over: a client that may connect, as far as its credentials and the hub's limits go.
pub(crate) struct Admitted {
    /// The connection below MQTT.
    pub(crate) link: Link,
    /// Who is there.
    pub(crate) peer: Peer,
    /// Its place among the connections that may be open; given back when it is dropped.
    pub(crate) place: OwnedSemaphorePermit,
    /// The CONNECT packet after its fixed header.
    pub(crate) connect: Vec<u8>,
    /// Bytes that came behind the CONNECT.
    pub(crate) early: Vec<u8>,
    /// Last change of the registry before the credentials were checked; a revocation since then may have missed them.
    pub(crate) seen_change: u64,
}

impl Admitted {
    /// Whether its session outlasts its connection, and so is in the log.
    pub(crate) fn is_to_be_kept(&self) -> bool {
        decode_connect(&self.connect).session_expiry_s() > 0
    }
}

/// A CONNECT, which the door has decoded before.
pub(crate) fn decode_connect(packet: &[u8]) -> Connect<'_> {
    match Packet::decode(CONNECT, packet, Version::V5) {
        Ok(Packet::Connect(connect)) => *connect,
        _ => unreachable!("the door decoded this CONNECT before"),
    }
}
