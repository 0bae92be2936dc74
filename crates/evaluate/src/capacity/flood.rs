//! QoS 1 messages to an offline persistent session, and what of them comes out of it.

use std::io;
use std::time::{Duration, Instant};

use mqtt::{Packet, PacketId};

use super::client::{Client, acknowledge, packet_id};
use crate::generator::socket::Endpoint;

const TOPIC: &str = "capacity/messages";
const SUBSCRIBER: &str = "capacity-subscriber";
/// Bytes at the start of a payload that hold the message's number.
const NUMBER_BYTES: usize = 8;
/// A publisher whose messages are not acknowledged for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Once nothing came for this long, nothing will.
const QUIET: Duration = Duration::from_secs(3);

/// Makes the session that messages are queued for, and leaves it offline.
pub(super) fn open_session(endpoint: &Endpoint) -> io::Result<()> {
    let mut client = Client::connect(endpoint, SUBSCRIBER, false)?;
    client.subscribe(TOPIC)?;
    client.disconnect()
}

/// When publishing ends.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// After so many acknowledged messages.
    Acknowledged(u64),
    /// After this time, with messages in flight.
    Elapsed(Duration),
}

/// An open loop: the schedule is fixed, and times count from it.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    pub(super) per_s: u32,
    pub(super) duration: Duration,
}

impl Pace {
    fn messages(self) -> u64 {
        (f64::from(self.per_s) * self.duration.as_secs_f64()) as u64
    }

    /// When a message is due, after the first.
    fn due(self, message: u64) -> Duration {
        Duration::from_nanos(message * 1_000_000_000 / u64::from(self.per_s))
    }
}

/// What became of published messages. A message's number is its place in the order of sending.
#[derive(Default)]
pub(super) struct Published {
    /// Time from sending to acknowledgement in µs, in the order of acknowledgement.
    pub(super) latency_us: Vec<f64>,
    /// Whether each message, by number, was acknowledged.
    pub(super) acknowledged: Vec<bool>,
    /// Seconds from the first sending to the end.
    pub(super) wall_s: f64,
}

impl Published {
    /// Messages acknowledged.
    pub(super) fn count(&self) -> u64 {
        self.latency_us.len() as u64
    }
}

/// One publisher with at most `in_flight` messages out at once: in a closed loop the next is sent when one is
/// acknowledged, in an open one when it is due.
pub(super) struct Publisher {
    client: Client,
    in_flight: u64,
    payload: Vec<u8>,
    /// What the payload's numbers begin with.
    first_number: u64,
    /// Number and time of the message in flight under each packet identifier.
    out: Vec<Option<(u64, Instant)>>,
    published: Published,
}

impl Publisher {
    pub(super) fn connect(endpoint: &Endpoint, in_flight: u16, payload_bytes: u32) -> io::Result<Publisher> {
        Ok(Publisher {
            client: Client::connect(endpoint, "capacity-publisher", true)?,
            in_flight: u64::from(in_flight),
            payload: vec![b'x'; (payload_bytes as usize).max(NUMBER_BYTES)],
            out: vec![None; usize::from(u16::MAX) + 1],
            first_number: 0,
            published: Published::default(),
        })
    }

    /// Numbers from `first_number` on, so that [`fetch`] tells these messages from those of another publisher.
    pub(super) fn numbered_from(self, first_number: u64) -> Publisher {
        Publisher { first_number, ..self }
    }

    /// Publishes, and keeps what the server has acknowledged.
    ///
    /// # Errors
    /// The connection failed, or no acknowledgement came for 30 s.
    pub(super) fn run(&mut self, until: Until) -> io::Result<()> {
        let started = Instant::now();
        while !self.is_done(until, started) {
            self.fill(until)?;
            if !self.take_acknowledgements(PATIENCE)? {
                return Err(no_acknowledgement());
            }
        }
        self.published.wall_s = started.elapsed().as_secs_f64();
        Ok(())
    }

    /// Publishes at a pace and waits for all acknowledgements; how late each message was sent in µs, not counting the
    /// time that as many were out as may be: that is the server's. It spins, since it has to send on time to a few µs.
    ///
    /// # Errors
    /// The connection failed, or no acknowledgement came for 30 s.
    pub(super) fn run_at(&mut self, pace: Pace) -> io::Result<Vec<f64>> {
        let (started, before) = (Instant::now(), self.published.count());
        let (mut late_us, mut heard, mut full) = (Vec::new(), started, started);
        while self.published.count() - before < pace.messages() {
            let next = late_us.len() as u64;
            let due = started + pace.due(next);
            let now = Instant::now();
            if next - (self.published.count() - before) >= self.in_flight {
                full = now;
            } else if next < pace.messages() && now >= due {
                self.send(before + next, due)?;
                self.client.flush()?;
                late_us.push((now - due.max(full)).as_secs_f64() * 1e6);
            }
            if self.take_acknowledgements(Duration::ZERO)? {
                heard = Instant::now();
            } else if heard.elapsed() > PATIENCE {
                return Err(no_acknowledgement());
            }
        }
        Ok(late_us)
    }

    /// Messages acknowledged so far.
    pub(super) fn acknowledged(&self) -> u64 {
        self.published.count()
    }

    /// What the server had acknowledged by its end, counting what was still on its way.
    pub(super) fn after_the_end(mut self) -> Published {
        // Ends by the end of the connection, whichever way the kernel words it.
        while self.take_acknowledgements(QUIET).unwrap_or(false) {}
        self.published
    }

    fn is_done(&self, until: Until, started: Instant) -> bool {
        match until {
            Until::Acknowledged(count) => self.published.count() >= count,
            Until::Elapsed(limit) => started.elapsed() >= limit,
        }
    }

    fn fill(&mut self, until: Until) -> io::Result<()> {
        let most = match until {
            Until::Acknowledged(count) => count,
            Until::Elapsed(_) => u64::MAX,
        };
        loop {
            let number = self.published.acknowledged.len() as u64;
            if number >= most || number - self.published.count() >= self.in_flight {
                return self.client.flush();
            }
            self.send(number, Instant::now())?;
        }
    }

    /// Sends a message whose time counts from `due`.
    fn send(&mut self, number: u64, due: Instant) -> io::Result<()> {
        let id = packet_id(number);
        let slot = &mut self.out[usize::from(id.get())];
        if slot.is_some() {
            return Err(io::Error::other(
                "a message was passed over while 65,535 later ones were acknowledged",
            ));
        }
        *slot = Some((number, due));
        self.payload[..NUMBER_BYTES].copy_from_slice(&(self.first_number + number).to_be_bytes());
        self.published.acknowledged.push(false);
        self.client.publish(id, TOPIC, &self.payload);
        Ok(())
    }

    fn take_acknowledgements(&mut self, limit: Duration) -> io::Result<bool> {
        let Publisher {
            client, out, published, ..
        } = self;
        client.receive(limit, |packet, _| {
            let Packet::PubAck(ack) = packet else { return };
            if let Some((number, sent)) = out[usize::from(ack.packet_id.get())].take() {
                published.acknowledged[number as usize] = true;
                published.latency_us.push(sent.elapsed().as_secs_f64() * 1e6);
            }
        })
    }
}

fn no_acknowledgement() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no acknowledgement for 30 s")
}

/// What came out of the session.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fetched {
    /// Messages that were acknowledged to the publisher and did not come.
    pub(super) lost: u64,
    /// Deliveries beyond the first of a message.
    pub(super) duplicates: u64,
}

/// Connects the session again, takes all that it holds, and holds it against what was `acknowledged`, by number.
pub(super) fn fetch(endpoint: &Endpoint, acknowledged: &[bool]) -> io::Result<Fetched> {
    let mut client = Client::begin(endpoint, SUBSCRIBER, false)?;
    let (mut came, mut fetched) = (vec![false; acknowledged.len()], Fetched::default());
    while client.receive(QUIET, |packet, out| {
        let Some((number, id)) = message(packet) else { return };
        if let Some(seen) = came.get_mut(number as usize) {
            fetched.duplicates += u64::from(std::mem::replace(seen, true));
        }
        acknowledge(id, out);
    })? {}
    let missing = acknowledged
        .iter()
        .zip(&came)
        .filter(|(acked, came)| **acked && !**came);
    fetched.lost = missing.count() as u64;
    Ok(fetched)
}

/// Connects the session again until its first message comes, and leaves that unacknowledged.
pub(super) fn first_message(endpoint: &Endpoint) -> io::Result<()> {
    let mut client = Client::begin(endpoint, SUBSCRIBER, false)?;
    let mut came = false;
    while !came {
        if !client.receive(PATIENCE, |packet, _| came |= message(packet).is_some())? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no queued message for 30 s"));
        }
    }
    Ok(())
}

fn message(packet: &Packet<'_>) -> Option<(u64, PacketId)> {
    let Packet::Publish(publish) = packet else { return None };
    let number = publish.payload.first_chunk::<NUMBER_BYTES>()?;
    Some((u64::from_be_bytes(*number), publish.packet_id?))
}
