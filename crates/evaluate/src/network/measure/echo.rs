//! Round trips and losses: probes at a fixed interval (open loop) that come back as they are.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{HEADER_BYTES, LOOK, Measured, Way, connect, udp_socket};
use crate::generator::clock::Clock;
use crate::generator::poller::Poller;
use crate::network::error::trying;
use crate::network::{Host, NetworkError, Settings};

/// A probe is its number.
const PAYLOAD_BYTES: usize = 8;
/// Before the first that counts: routes are looked up once.
const WARM_UP: u64 = 10;
/// Enough for an interval of p99 (rule 5).
const PROBES: u64 = 400;
/// Where losses are expected: enough to tell 1 % from 0.5 %.
const PROBES_OF_A_LOSSY_LINE: u64 = 2_000;
const LEAST_INTERVAL_NS: u64 = 5_000_000;
/// The most that the probes may take.
const LIMIT_NS: u64 = 60_000_000_000;
/// How long after its due time the last one is waited for.
const GRACE_NS: u64 = 1_000_000_000;
const SOCKET: usize = 0;

pub(super) fn measure(near: &Host, far: &Host, settings: &Settings) -> Result<Measured, NetworkError> {
    let (prober, answerer) = (udp_socket(near)?, udp_socket(far)?);
    let to = connect(&prober, &answerer)?;
    let (answered, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let round_trips_ns = std::thread::scope(|scope| {
        scope.spawn(|| answer(&answerer, &answered, &is_over));
        let round_trips_ns = probe(&prober, settings);
        is_over.store(true, Ordering::Release);
        round_trips_ns
    });
    let round_trips_ns = round_trips_ns.map_err(trying("sending probes"))?;
    let (sent, back) = (
        round_trips_ns.len() as u64,
        round_trips_ns.iter().flatten().count() as u64,
    );
    let turned = answered.load(Ordering::Acquire);
    if back == 0 {
        return Err(NetworkError::Silence(format!(
            "none of {sent} probes came back from {to}"
        )));
    }
    let way = |probes_sent, probes_arrived| Way {
        probes_sent,
        probes_arrived,
        ..Way::default()
    };
    Ok(Measured {
        probe_bytes: HEADER_BYTES + PAYLOAD_BYTES,
        round_trips_ns,
        up: way(sent, turned),
        down: way(turned, back),
    })
}

/// Sends back what comes, and counts the probes that count.
fn answer(socket: &UdpSocket, answered: &AtomicU64, is_over: &AtomicBool) {
    // Refused for a zero duration alone.
    let _ = socket.set_read_timeout(Some(LOOK));
    let mut probe = [0; PAYLOAD_BYTES];
    while !is_over.load(Ordering::Acquire) {
        let Ok((PAYLOAD_BYTES, from)) = socket.recv_from(&mut probe) else {
            continue;
        };
        if u64::from_be_bytes(probe) >= WARM_UP {
            answered.fetch_add(1, Ordering::Release);
        }
        // A full buffer loses it as any packet, and it is then counted as lost on the way back.
        let _ = socket.send_to(&probe, from);
    }
}

/// Round trip of each probe after the warm-up; none = lost.
fn probe(socket: &UdpSocket, settings: &Settings) -> io::Result<Vec<Option<u64>>> {
    socket.set_nonblocking(true)?;
    let mut poller = Poller::new(std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1))?;
    poller.add(socket, SOCKET)?;
    let (clock, interval_ns) = (Clock::start(), interval_ns(settings));
    let count = WARM_UP + count(settings, interval_ns);
    let mut due_ns: VecDeque<u64> = (0..count).map(|number| number * interval_ns).collect();
    let mut probes = Probes::default();
    let mut end_ns = u64::MAX;
    while clock.now_ns() < end_ns && probes.back < count {
        poller.wait(&clock, due_ns.front().copied(), Some(end_ns))?;
        probes.receive(socket, &clock)?;
        if due_ns.pop_front_if(|due_ns| *due_ns <= clock.now_ns()).is_some() {
            probes.send(socket, &clock)?;
            if due_ns.is_empty() {
                end_ns = clock.now_ns() + patience_ns(settings);
            }
        }
    }
    Ok(probes.round_trips_ns.split_off(WARM_UP as usize))
}

/// With half of the line left free, so that probes do not wait for each other.
fn interval_ns(settings: &Settings) -> u64 {
    let sending_ns = settings.bandwidth_bit_per_s.sending_ns(HEADER_BYTES + PAYLOAD_BYTES);
    LEAST_INTERVAL_NS.max(2 * sending_ns)
}

fn count(settings: &Settings, interval_ns: u64) -> u64 {
    let wanted = if settings.loss > 0.0 {
        PROBES_OF_A_LOSSY_LINE
    } else {
        PROBES
    };
    wanted.min(LIMIT_NS / interval_ns)
}

fn patience_ns(settings: &Settings) -> u64 {
    2 * Duration::from_micros(settings.round_trip_us).as_nanos() as u64 + GRACE_NS
}

#[derive(Default)]
struct Probes {
    sent_ns: Vec<u64>,
    round_trips_ns: Vec<Option<u64>>,
    back: u64,
}

impl Probes {
    fn send(&mut self, socket: &UdpSocket, clock: &Clock) -> io::Result<()> {
        let number = self.sent_ns.len() as u64;
        self.sent_ns.push(clock.now_ns());
        self.round_trips_ns.push(None);
        socket.send(&number.to_be_bytes()).map(drop)
    }

    fn receive(&mut self, socket: &UdpSocket, clock: &Clock) -> io::Result<()> {
        let mut probe = [0; PAYLOAD_BYTES];
        loop {
            match socket.recv(&mut probe) {
                Ok(_) => self.settle(u64::from_be_bytes(probe), clock.now_ns()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Only what was sent counts, and each once.
    fn settle(&mut self, number: u64, now_ns: u64) {
        let number = number as usize;
        if let Some(round_trip_ns @ None) = self.round_trips_ns.get_mut(number) {
            *round_trip_ns = Some(now_ns - self.sent_ns[number]);
            self.back += 1;
        }
    }
}
