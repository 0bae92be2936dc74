//! A backlog over a line of 8 kbit/s: how much of what the line carries is readings, and how long a call takes beside
//! it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mqtt::{Packet, Publish, QoS, Version};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::client::{Client, acknowledge, packet_id};
use super::contender::Site;
use super::linked::{Linked, PATIENCE, Side};
use super::options::Options;
use super::pause::pause;
use super::readings::{self, PAYLOAD_BYTES, Payload};
use super::record::Figure;
use crate::generator::socket::Endpoint;
use crate::network::{Bandwidth, Counters, Means, Network, Plan, Settings, Span};
use crate::stats;

/// Of the line, in each direction.
pub(super) const BIT_PER_S: u64 = 8_000;
const ROUND_TRIP_US: u64 = 30_000;
/// Readings of the backlog for each second: more than the line carries.
const READINGS_PER_S: u64 = BIT_PER_S / 8 / PAYLOAD_BYTES as u64;
/// The link has seen how fast the line is once so many readings have arrived: three batches.
const WARM_UP_READINGS: u64 = 36;
/// Time for these, and beyond what is measured: the backlog must not end before.
const SPARE: Duration = Duration::from_secs(60);
/// Time between two calls: an open loop.
const CALL_INTERVAL: Duration = Duration::from_secs(5);
/// The hub answers by then for a device that does not.
const CALL_LIMIT: Duration = Duration::from_secs(6);
/// How long a batch may take.
const BATCH_LIMIT: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(20);
const TOPIC: &str = "devices/thin/telemetry";
const CALLS: &str = "devices/thin/methods/+/+";
const RESULTS: &str = "devices/thin/methods/+/+/result";
const NUMBER_BYTES: usize = 8;

/// Fills the edge's log, lets it drain over the line, first alone and then beside calls.
pub(super) fn measure(site: &Site, name: &str, options: &Options) -> Result<Vec<(Figure, Option<f64>)>, String> {
    let settings = Settings {
        bandwidth_bit_per_s: Bandwidth::of(BIT_PER_S),
        round_trip_us: ROUND_TRIP_US,
        ..Settings::default()
    };
    let network = site.network(&Plan {
        means: Some(Means::Relay),
        ..Plan::wan(settings, 0)
    })?;
    let linked = Linked::set_up(site, name, None, Some(&network))?;
    let (phase, edge) = (options.thin(), linked.start(Side::Edge)?);
    let messages = READINGS_PER_S * (2 * phase + SPARE).as_secs();
    let mut noise = ChaCha8Rng::seed_from_u64(0);
    let random = |payload: &mut Payload| noise.fill(&mut payload[..]);
    // Random bytes, of which none are saved by compression.
    readings::fill(&linked.endpoint(Side::Edge), TOPIC, messages, random).map_err(|error| error.to_string())?;
    let cloud = linked.start(Side::Cloud)?;
    let meter = Meter {
        linked: &linked,
        network: &network,
    };
    while meter.on_arrival()?.readings < WARM_UP_READINGS {}
    let alone = meter.over(phase, || Ok(()))?.0;
    let (beside, calls) = meter.over(phase, || {
        make_calls(&linked.endpoint(Side::Edge), &linked.endpoint(Side::Cloud), phase)
    })?;
    for server in [edge, cloud] {
        server.kill(PATIENCE)?;
    }
    let (sorted_ms, slowest_ms) = (stats::sorted(&calls), calls.iter().copied().fold(0.0, f64::max));
    let answered = calls.iter().filter(|ms| ms.is_finite()).count();
    let p50_ms = stats::quantile(&sorted_ms, 0.5).map(|estimate| estimate.value);
    Ok(vec![
        (Figure::ThinPayloadShare, Some(alone.payload_share())),
        (Figure::ThinUpPayloadShare, Some(alone.up_payload_share())),
        (Figure::ThinDownShare, Some(alone.down_share())),
        (Figure::ThinUse, Some(alone.use_of_line())),
        (Figure::ThinCallsPayloadShare, Some(beside.payload_share())),
        (Figure::CallP50Ms, p50_ms.filter(|ms| ms.is_finite())),
        (Figure::CallMaxMs, Some(slowest_ms).filter(|ms| ms.is_finite())),
        (Figure::CallsMessages, Some(calls.len() as f64)),
        (Figure::CallsLostMessages, Some((calls.len() - answered) as f64)),
    ])
}

/// What was seen of the line between edge and cloud.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    /// Readings that arrived.
    readings: u64,
    line: [Counters; 2],
}

/// What the line carried in a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Carried {
    took_s: f64,
    payload_bytes: u64,
    /// With IP headers, towards the cloud and back.
    up_bytes: u64,
    down_bytes: u64,
}

impl Carried {
    fn between(before: &Reading, after: &Reading) -> Carried {
        let [up, down] = [0, 1].map(|way| after.line[way].since(&before.line[way]).delivered_bytes);
        Carried {
            took_s: after.at.duration_since(before.at).as_secs_f64(),
            payload_bytes: (after.readings - before.readings) * u64::from(PAYLOAD_BYTES),
            up_bytes: up,
            down_bytes: down,
        }
    }

    /// Of all bytes on the line, both ways.
    fn payload_share(&self) -> f64 {
        self.payload_bytes as f64 / (self.up_bytes + self.down_bytes) as f64
    }

    /// Of those towards the cloud.
    fn up_payload_share(&self) -> f64 {
        self.payload_bytes as f64 / self.up_bytes as f64
    }

    /// Bytes that came back, as a share of all.
    fn down_share(&self) -> f64 {
        self.down_bytes as f64 / (self.up_bytes + self.down_bytes) as f64
    }

    /// How much of what the line can carry towards the cloud it did.
    fn use_of_line(&self) -> f64 {
        self.up_bytes as f64 * 8.0 / (BIT_PER_S as f64 * self.took_s)
    }
}

struct Meter<'a> {
    linked: &'a Linked<'a>,
    network: &'a Network,
}

impl Meter<'_> {
    /// At the moment at which readings arrive: then no part of a batch is counted without its readings.
    fn on_arrival(&self) -> Result<Reading, String> {
        let (before, until) = (self.linked.arrived()?, Instant::now() + BATCH_LIMIT);
        loop {
            let readings = self.linked.arrived()?;
            if readings != before {
                let record = self
                    .network
                    .line(Span::EdgeCloud)
                    .record()
                    .map_err(|error| error.to_string())?;
                let line = record.counters.ok_or("the line counts nothing")?;
                let at = Instant::now();
                return Ok(Reading { at, readings, line });
            }
            if Instant::now() > until {
                return Err(format!("no reading arrived in {BATCH_LIMIT:?}; {before} had before"));
            }
            pause(STEP);
        }
    }

    /// What the line carries from one arrival to the first after `time`, in which `work` is done.
    fn over<R: Send>(
        &self,
        time: Duration,
        work: impl FnOnce() -> Result<R, String> + Send,
    ) -> Result<(Carried, R), String> {
        let before = self.on_arrival()?;
        let done = work()?;
        pause(time.saturating_sub(before.at.elapsed()));
        Ok((Carried::between(&before, &self.on_arrival()?), done))
    }
}

/// Calls the device from the cloud, in an open loop for `time`: milliseconds of each call from when it was due,
/// infinite where the device's answer did not come.
fn make_calls(edge: &Endpoint, cloud: &Endpoint, time: Duration) -> Result<Vec<f64>, String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let device = scope.spawn(|| serve_calls(edge, &is_over));
        let called = call(cloud, time);
        is_over.store(true, Ordering::Relaxed);
        let served = device.join().expect("serving does not panic");
        called.and_then(|called| served.map(|()| called))
    })
    .map_err(|error| error.to_string())
}

/// The device: answers each call with what it was sent.
fn serve_calls(edge: &Endpoint, is_over: &AtomicBool) -> std::io::Result<()> {
    let mut device = Client::connect(edge, "thin-device", true)?;
    device.subscribe(CALLS)?;
    while !is_over.load(Ordering::Relaxed) {
        device.receive(STEP, |packet, out| {
            let Packet::Publish(call) = packet else { return };
            call.packet_id.inspect(|id| acknowledge(*id, out));
            let topic = format!("{}/result", call.topic);
            Publish::new(&topic, QoS::AtMostOnce, None, call.payload).encode(Version::V311, out);
        })?;
    }
    Ok(())
}

fn call(cloud: &Endpoint, time: Duration) -> std::io::Result<Vec<f64>> {
    let mut app = Client::connect(cloud, "thin-app", true)?;
    app.subscribe(RESULTS)?;
    let (began, mut calls_ms) = (Instant::now(), Vec::new());
    let due = |call: usize| CALL_INTERVAL * call as u32;
    loop {
        let elapsed = began.elapsed();
        if elapsed >= due(calls_ms.len()) && elapsed < time {
            let number = calls_ms.len() as u64;
            let topic = format!("devices/thin/methods/echo/{number}");
            app.publish(packet_id(number), &topic, &number.to_be_bytes());
            app.flush()?;
            calls_ms.push(f64::INFINITY);
        }
        let is_all = !calls_ms.contains(&f64::INFINITY);
        if elapsed >= time && (is_all || elapsed >= due(calls_ms.len()) + CALL_LIMIT) {
            return Ok(calls_ms);
        }
        app.receive(STEP, |packet, out| {
            let Packet::Publish(result) = packet else { return };
            result.packet_id.inspect(|id| acknowledge(*id, out));
            // The hub's own answer, that the device gave none, is no number.
            let Some(number) = number(result.payload) else { return };
            if let Some(ms) = calls_ms.get_mut(number as usize) {
                *ms = (began.elapsed() - due(number as usize)).as_secs_f64() * 1e3;
            }
        })?;
    }
}

fn number(payload: &[u8]) -> Option<u64> {
    <[u8; NUMBER_BYTES]>::try_from(payload).map(u64::from_be_bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_bytes_on_the_line_headers_and_acknowledgements_among_them() {
        let line = |up_bytes, down_bytes| {
            [up_bytes, down_bytes].map(|delivered_bytes| Counters {
                delivered_bytes,
                ..Counters::default()
            })
        };
        let at = Instant::now();
        let before = Reading {
            at,
            readings: 100,
            line: line(50_000, 7_000),
        };
        let after = Reading {
            at: at + Duration::from_secs(100),
            readings: 900,
            line: line(150_000, 12_000),
        };
        let carried = Carried::between(&before, &after);
        assert_eq!(carried.payload_bytes, 80_000);
        assert_eq!(carried.payload_share(), 80_000.0 / 105_000.0);
        assert_eq!(carried.up_payload_share(), 0.8);
        assert_eq!(carried.down_share(), 5_000.0 / 105_000.0);
        assert_eq!(carried.use_of_line(), 1.0);
    }

    #[test]
    fn the_hubs_own_answer_is_no_answer_of_the_device() {
        assert_eq!(number(&7_u64.to_be_bytes()), Some(7));
        assert_eq!(number(b"{\"status\":504,\"payload\":{}}"), None);
    }
}
