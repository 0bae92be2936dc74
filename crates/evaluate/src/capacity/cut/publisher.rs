//! A device that counts: each message has the next number, and it knows what became of each.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mqtt::Packet;

use crate::capacity::client::{Client, packet_id};
use crate::capacity::pause::pause;
use crate::generator::socket::Endpoint;

/// Messages out at once: as many as come in as many milliseconds.
const IN_FLIGHT: usize = 1_000;
/// Time until another try where there is no edge.
const PAUSE: Duration = Duration::from_millis(50);
/// An edge that is away, or silent, for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for the next acknowledgement while the next message is not due.
const STEP: Duration = Duration::from_millis(20);
pub(super) const DEVICE: &str = "cut";
const TOPIC: &str = "devices/cut/telemetry";
/// The member of each message that is its number.
pub(super) const STREAM: &str = "n";

/// What its sender knows of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The edge has it.
    Acknowledged,
    /// Its connection broke before that was said.
    InDoubt,
}

/// An open loop: what is due while the edge is away is sent once it is back. No message is sent twice.
pub(super) struct Publisher {
    edge: Endpoint,
    per_s: u32,
    messages: u64,
    is_given_up: AtomicBool,
}

/// What it has done so far.
struct Log {
    began: Instant,
    /// By number.
    fates: Vec<Fate>,
    /// Numbers of messages on their way, by packet identifier.
    in_flight: HashMap<u16, u64>,
    heard: Instant,
}

impl Publisher {
    pub(super) fn new(edge: Endpoint, per_s: u32, time: Duration) -> Publisher {
        Publisher {
            edge,
            per_s,
            messages: (f64::from(per_s) * time.as_secs_f64()) as u64,
            is_given_up: AtomicBool::new(false),
        }
    }

    /// Ends it early: nobody asks any more.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    /// Publishes all messages, through all that happens to the edge; what became of each, by number.
    ///
    /// # Errors
    /// The edge was away or silent for a minute.
    pub(super) fn run(&self) -> io::Result<Vec<Fate>> {
        let now = Instant::now();
        let mut log = Log {
            began: now,
            fates: Vec::with_capacity(self.messages as usize),
            in_flight: HashMap::new(),
            heard: now,
        };
        while !self.is_given_up.load(Ordering::Relaxed) {
            let ended =
                Client::connect(&self.edge, "cut-publisher", true).and_then(|client| self.publish(client, &mut log));
            match ended {
                Ok(()) => break,
                Err(error) if log.heard.elapsed() > PATIENCE => return Err(error),
                Err(_) => pause(PAUSE),
            }
            // Those on their way stay in doubt.
            log.in_flight.clear();
        }
        Ok(log.fates)
    }

    /// Until all are acknowledged that a connection carries, and there are no more; or the connection breaks.
    fn publish(&self, mut client: Client, log: &mut Log) -> io::Result<()> {
        log.heard = Instant::now();
        while !self.is_given_up.load(Ordering::Relaxed) {
            let next = log.fates.len() as u64;
            if next == self.messages && log.in_flight.is_empty() {
                return Ok(());
            }
            let due = log.began + Duration::from_secs_f64(next as f64 / f64::from(self.per_s));
            let wait = due.saturating_duration_since(Instant::now());
            let may_send = next < self.messages && log.in_flight.len() < IN_FLIGHT;
            if may_send && wait.is_zero() {
                let id = packet_id(next);
                log.in_flight.insert(id.get(), next);
                log.fates.push(Fate::InDoubt);
                client.publish(id, TOPIC, format!("{{\"{STREAM}\":{next}}}").as_bytes());
                client.flush()?;
                continue;
            }
            let came = client.receive(if may_send { wait.min(STEP) } else { STEP }, |packet, _| {
                let Packet::PubAck(ack) = packet else { return };
                if let Some(number) = log.in_flight.remove(&ack.packet_id.get()) {
                    log.fates[number as usize] = Fate::Acknowledged;
                }
            })?;
            match came || log.in_flight.is_empty() {
                true => log.heard = Instant::now(),
                false if log.heard.elapsed() > PATIENCE => {
                    return Err(io::Error::other("the edge acknowledges nothing"));
                }
                false => {}
            }
        }
        Ok(())
    }
}
