//! A backlog at an edge whose cloud was away: how fast it goes to the cloud and into its database, and what that does to
//! messages that come meanwhile.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mqtt::{Packet, PacketId};

use super::client::{Client, acknowledge};
use super::contender::Site;
use super::flood::{Publisher, Until};
use super::linked::{Linked, Side};
use super::options::Options;
use super::record::Figure;
use crate::generator::socket::Endpoint;
use crate::stats;

/// Size of the payloads of the backlog: that of a reading.
pub(super) const PAYLOAD_BYTES: u32 = 100;
const TOPIC: &str = "devices/backlog/telemetry";
const LIVE_TOPIC: &str = "devices/live/telemetry";
/// Time between two messages that come meanwhile.
const LIVE_INTERVAL: Duration = Duration::from_millis(10);
/// How long these are measured without a backlog.
const LIVE_ALONE: Duration = Duration::from_secs(10);
/// How long the last of them may take.
const LIVE_LIMIT: Duration = Duration::from_secs(10);
/// A backlog that has not gone by then has failed.
const LIMIT: Duration = Duration::from_secs(300);
const NUMBER_BYTES: usize = 8;

/// Fills the edge's log while the cloud is away, then watches it drain.
pub(super) fn measure(site: &Site, name: &str, options: &Options) -> Result<Vec<(Figure, Option<f64>)>, String> {
    let words = |error: io::Error| error.to_string();
    let linked = Linked::set_up(site, name, options.database.as_deref())?;
    let cloud = linked.start(Side::Cloud)?;
    let mut edge = linked.start(Side::Edge)?;
    let live = Live::default();
    let (alone_us, _) = live
        .during(&linked, || std::thread::park_timeout(LIVE_ALONE))
        .map_err(words)?;
    linked.reaches((Side::Edge, &mut edge), || live.sent(), LIMIT)?;
    cloud.stop(LIMIT)?;

    let before = linked.delivered(Side::Edge)?;
    let backlog = u64::from(options.queued);
    fill(&linked.endpoint(Side::Edge), options, backlog).map_err(words)?;
    let mut cloud = linked.start(Side::Cloud)?;
    let first = linked.reaches((Side::Edge, &mut edge), || before + 1, LIMIT)?;
    let waiting = before + backlog - linked.delivered(Side::Edge)?;
    let sent_before = live.sent();
    let all = || before + backlog + live.sent() - sent_before;
    let (drained_us, drained) = live
        .during(&linked, || {
            let in_cloud = linked.reaches((Side::Edge, &mut edge), all, LIMIT)?;
            // The cloud counts from its own start, with what the edge had sent before that among it.
            let stored = linked.reaches((Side::Cloud, &mut cloud), || backlog, LIMIT)?;
            Ok::<_, String>((in_cloud, stored))
        })
        .map_err(words)?;
    let (in_cloud, stored) = drained?;
    edge.stop(LIMIT)?;
    cloud.stop(LIMIT)?;
    let per_s = |end: Instant| Some(waiting as f64 / end.duration_since(first).as_secs_f64());
    let (alone_us, drained_us) = (p99(&alone_us), p99(&drained_us));
    Ok(vec![
        (Figure::DrainedPerS, per_s(in_cloud)),
        (Figure::StoredPerS, per_s(stored)),
        (Figure::LiveP99Us, alone_us),
        (Figure::LiveDrainP99Us, drained_us),
        (
            Figure::LiveDrainRatio,
            drained_us.zip(alone_us).map(|(during, alone)| during / alone),
        ),
    ])
}

fn fill(edge: &Endpoint, options: &Options, messages: u64) -> io::Result<()> {
    let publisher = Publisher::connect(edge, options.in_flight, PAYLOAD_BYTES)?;
    publisher.to(TOPIC).run(Until::Acknowledged(messages))
}

fn p99(latency_us: &[f64]) -> Option<f64> {
    stats::quantile(&stats::sorted(latency_us), 0.99).map(|estimate| estimate.value)
}

/// Messages that come at a fixed rate, from a device at the edge to an application in the cloud: an open loop, in which
/// times count from the intended sending. Messages that do not arrive count as infinite (rules 2 and 3).
#[derive(Default)]
struct Live {
    sent: AtomicU64,
    is_over: AtomicBool,
}

impl Live {
    fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Times in µs of the messages that came while `work` was done.
    fn during<R>(&self, linked: &Linked<'_>, work: impl FnOnce() -> R) -> io::Result<(Vec<f64>, R)> {
        let (edge, cloud) = (linked.endpoint(Side::Edge), linked.endpoint(Side::Cloud));
        self.is_over.store(false, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let measuring = scope.spawn(|| self.run(&edge, &cloud));
            let done = work();
            self.is_over.store(true, Ordering::Relaxed);
            let latency_us = measuring.join().expect("measuring does not panic")?;
            Ok((latency_us, done))
        })
    }

    fn run(&self, edge: &Endpoint, cloud: &Endpoint) -> io::Result<Vec<f64>> {
        let mut app = Client::connect(cloud, "live-app", true)?;
        app.subscribe(LIVE_TOPIC)?;
        let mut device = Client::connect(edge, "live-device", true)?;
        let began = Instant::now();
        let mut latency_us: Vec<f64> = Vec::new();
        let mut last = began;
        while !self.is_over.load(Ordering::Relaxed)
            || (latency_us.contains(&f64::INFINITY) && last.elapsed() < LIVE_LIMIT)
        {
            let due = began + LIVE_INTERVAL * latency_us.len() as u32;
            if !self.is_over.load(Ordering::Relaxed) && Instant::now() >= due {
                self.send(&mut device, latency_us.len() as u64)?;
                latency_us.push(f64::INFINITY);
                last = Instant::now();
            }
            device.receive(Duration::ZERO, |_, _| ())?;
            let patience = due.saturating_duration_since(Instant::now()).min(LIVE_INTERVAL);
            app.receive(patience, |packet, out| {
                let Some((number, id)) = message(packet) else { return };
                acknowledge(id, out);
                let intended = began + LIVE_INTERVAL * number as u32;
                if let Some(one_us) = latency_us.get_mut(number as usize).filter(|us| us.is_infinite()) {
                    *one_us = intended.elapsed().as_secs_f64() * 1e6;
                }
            })?;
        }
        Ok(latency_us)
    }

    fn send(&self, device: &mut Client, number: u64) -> io::Result<()> {
        let id = PacketId::new((number % u64::from(u16::MAX)) as u16 + 1).unwrap_or(PacketId::MIN);
        device.publish(id, LIVE_TOPIC, &number.to_be_bytes());
        self.sent.fetch_add(1, Ordering::Relaxed);
        device.flush()
    }
}

fn message(packet: &Packet<'_>) -> Option<(u64, PacketId)> {
    let Packet::Publish(publish) = packet else { return None };
    let number = publish.payload.first_chunk::<NUMBER_BYTES>()?;
    Some((u64::from_be_bytes(*number), publish.packet_id?))
}
