//! Messages that come at a fixed rate, from a device at an edge to an application in the cloud: an open loop, in which
//! times count from the intended sending. Messages that do not arrive count as infinite (rules 2 and 3).

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mqtt::{Packet, PacketId};

use super::client::{Client, acknowledge, packet_id};
use super::pause::pause;
use crate::generator::socket::Endpoint;
use crate::priority::First;
use crate::stats;

const TOPIC: &str = "devices/live/telemetry";
/// How many are measured where nothing else happens: enough for a 99th percentile.
const ALONE: u32 = 1_000;
/// How long the last of them may take.
const LIMIT: Duration = Duration::from_secs(10);
const NUMBER_BYTES: usize = 8;

/// Such messages.
pub(super) struct Live {
    edge: Endpoint,
    cloud: Endpoint,
    /// Time between two messages.
    interval: Duration,
    sent: AtomicU64,
    is_over: AtomicBool,
}

/// Times in µs of messages in the order of sending.
pub(super) struct Latency(Vec<f64>);

impl Latency {
    /// The 99th percentile; none where too few were sent, or more are lost than it leaves out.
    pub(super) fn p99_us(&self) -> Option<f64> {
        let p99 = stats::quantile(&stats::sorted(&self.0), 0.99).map(|estimate| estimate.value);
        p99.filter(|us| us.is_finite())
    }

    /// Those that did not arrive.
    pub(super) fn lost(&self) -> u64 {
        self.0.iter().filter(|us| us.is_infinite()).count() as u64
    }
}

impl Live {
    pub(super) fn new(edge: Endpoint, cloud: Endpoint, interval: Duration) -> Live {
        Live {
            edge,
            cloud,
            interval,
            sent: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Where nothing else happens.
    pub(super) fn alone(&self) -> io::Result<Latency> {
        Ok(self.during(|| pause(self.interval * ALONE))?.0)
    }

    /// While `work` is done.
    pub(super) fn during<R>(&self, work: impl FnOnce() -> R) -> io::Result<(Latency, R)> {
        self.is_over.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let measuring = scope.spawn(|| self.run());
            let done = work();
            self.is_over.store(true, Ordering::Relaxed);
            let latency_us = measuring.join().expect("measuring does not panic")?;
            Ok((Latency(latency_us), done))
        })
    }

    fn run(&self) -> io::Result<Vec<f64>> {
        let mut app = Client::connect(&self.cloud, "live-app", true)?;
        app.subscribe(TOPIC)?;
        let mut device = Client::connect(&self.edge, "live-device", true)?;
        // It stands for machines of their own: whatever else this one has to do delays them as little as may be.
        let _first = First::claim();
        let began = Instant::now();
        let mut latency_us: Vec<f64> = Vec::new();
        let mut last = began;
        while !self.is_over.load(Ordering::Relaxed) || (latency_us.contains(&f64::INFINITY) && last.elapsed() < LIMIT) {
            let is_over = self.is_over.load(Ordering::Relaxed);
            let due = began + self.interval * latency_us.len() as u32;
            if !is_over && Instant::now() >= due {
                self.send(&mut device, latency_us.len() as u64)?;
                latency_us.push(f64::INFINITY);
                last = Instant::now();
            }
            device.receive(Duration::ZERO, |_, _| ())?;
            // Nothing more is due once it is over: who runs first and did not sleep then would keep a line on this CPU
            // from bringing the last messages.
            let patience = if is_over {
                self.interval
            } else {
                due.saturating_duration_since(Instant::now()).min(self.interval)
            };
            app.receive(patience, |packet, out| {
                let Some((number, id)) = message(packet) else { return };
                acknowledge(id, out);
                let intended = began + self.interval * number as u32;
                if let Some(one_us) = latency_us.get_mut(number as usize).filter(|us| us.is_infinite()) {
                    *one_us = intended.elapsed().as_secs_f64() * 1e6;
                }
            })?;
        }
        Ok(latency_us)
    }

    fn send(&self, device: &mut Client, number: u64) -> io::Result<()> {
        device.publish(packet_id(number), TOPIC, &number.to_be_bytes());
        self.sent.fetch_add(1, Ordering::Relaxed);
        device.flush()
    }
}

fn message(packet: &Packet<'_>) -> Option<(u64, PacketId)> {
    let Packet::Publish(publish) = packet else { return None };
    let number = publish.payload.first_chunk::<NUMBER_BYTES>()?;
    Some((u64::from_be_bytes(*number), publish.packet_id?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_that_is_lost_is_none_and_each_lost_message_is_counted() {
        let latency = |lost: usize| {
            let came = 1_000 - lost;
            let us = (0..1_000).map(|message| if message < came { 1.0 } else { f64::INFINITY });
            Latency(us.collect())
        };
        assert_eq!((latency(5).p99_us(), latency(5).lost()), (Some(1.0), 5));
        assert_eq!((latency(50).p99_us(), latency(50).lost()), (None, 50));
    }
}
