//! A simulated device: a pump that says how warm it is, as often as it is told to, and that can be told to rest.

use std::io;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::station::{Line, Login, Station, Work};

/// Time between two readings, unless it is told another.
const INTERVAL: Duration = Duration::from_secs(1);
/// Bounds of what it can be told.
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.1..=3_600.0;
/// By how much a rest cools it, and for how long about.
const REST_CELSIUS: f64 = 6.0;
const REST_S: f64 = 20.0;

/// A pump.
struct Pump {
    id: String,
    number: u8,
    began: Instant,
    interval: Duration,
    next: Instant,
    rested: Option<Instant>,
}

/// Starts the pump of this number.
pub(super) fn start(login: Login, number: u8) -> Station {
    let pump = Pump {
        id: login.id.clone(),
        number,
        began: Instant::now(),
        interval: INTERVAL,
        next: Instant::now(),
        rested: None,
    };
    Station::start(login, pump)
}

impl Work for Pump {
    fn filters(&self) -> Vec<String> {
        let of_device = |what| format!("devices/{}/{what}", self.id);
        vec![of_device("methods/+/+"), of_device("twin/desired")]
    }

    fn speak(&mut self, line: &mut Line) -> io::Result<()> {
        let now = Instant::now();
        if now < self.next {
            return Ok(());
        }
        self.next = now + self.interval;
        let payload = format!(r#"{{"celsius": {:.2}, "running": true}}"#, self.celsius());
        line.send(&format!("devices/{}/telemetry", self.id), payload.as_bytes())
    }

    fn hear(&mut self, line: &mut Line, topic: &str, payload: &[u8]) -> io::Result<()> {
        if topic.ends_with("/twin/desired") {
            return self.follow(line, payload);
        }
        let method = topic.split('/').nth(3);
        if method == Some("rest") {
            self.rested = Some(Instant::now());
        }
        // What it was called with, if that is JSON.
        let said: Value = serde_json::from_slice(payload).unwrap_or_default();
        let result = json!({"status": 200, "payload": said}).to_string();
        line.send(&format!("{topic}/result"), result.as_bytes())
    }
}

impl Pump {
    /// It warms up and cools down with time, each pump by a rhythm of its own.
    fn celsius(&self) -> f64 {
        let (elapsed_s, number) = (self.began.elapsed().as_secs_f64(), f64::from(self.number));
        let rest = self.rested.map_or(0.0, |since| {
            REST_CELSIUS * (-since.elapsed().as_secs_f64() / REST_S).exp()
        });
        40.0 + number + 5.0 * (elapsed_s / 30.0 + number).sin() - rest
    }

    /// Does what is desired, and reports it.
    fn follow(&mut self, line: &mut Line, desired: &[u8]) -> io::Result<()> {
        let desired: Value = serde_json::from_slice(desired).unwrap_or_default();
        let Some(interval_s) = desired["interval_s"].as_f64().filter(|s| INTERVAL_S.contains(s)) else {
            return Ok(());
        };
        self.interval = Duration::from_secs_f64(interval_s);
        self.next = self.next.min(Instant::now() + self.interval);
        let reported = json!({"interval_s": interval_s}).to_string();
        line.send(&format!("devices/{}/twin/reported", self.id), reported.as_bytes())
    }
}
