//! How much may be on the way: what the line carries in a round trip and a quarter of a second, so that what is sent
//! next never waits long behind what was sent before, and the kernel is never the queue.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Beyond the round trip.
const SLACK: Duration = Duration::from_millis(250);
/// A batch takes the line for no longer.
const BATCH: Duration = Duration::from_millis(500);
/// On the way at first, in bytes: what a line of 64 kbit/s carries in half a second.
const FIRST_BYTES: f64 = 4_096.0;
/// On the way at most, in bytes: 300 ms of a line of 100 Mbit/s.
const MOST_BYTES: f64 = (4 << 20) as f64;
/// Rates and round trips of so long ago still count.
const MEMORY: Duration = Duration::from_secs(10);
/// A batch has no fewer bytes, however thin the line is: else headers are most of what it carries.
const BATCH_LEAST_BYTES: usize = 640;
/// A batch has no more.
const BATCH_MOST_BYTES: usize = 128 << 10;

/// What was seen of the line.
#[derive(Debug)]
pub(crate) struct Window {
    /// Bytes acknowledged so far.
    acknowledged_bytes: u64,
    /// When, and how many bytes by then: the last second of them.
    recent: VecDeque<(Instant, u64)>,
    /// Rates in bytes a second, and when they were seen; falling.
    rates: VecDeque<(Instant, f64)>,
    /// Round trips, and when they were seen; rising.
    round_trips: VecDeque<(Instant, Duration)>,
    /// Bytes that may be on the way until the rate is known.
    opening_bytes: f64,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            acknowledged_bytes: 0,
            recent: VecDeque::new(),
            rates: VecDeque::new(),
            round_trips: VecDeque::new(),
            opening_bytes: FIRST_BYTES,
        }
    }

    /// A packet was acknowledged; `is_busy`: more waited all the time, so that the line showed what it can carry.
    pub(crate) fn acknowledged(&mut self, now: Instant, bytes: usize, took: Duration, is_busy: bool) {
        self.acknowledged_bytes += bytes as u64;
        let forget = |at: &Instant| now.duration_since(*at) > MEMORY;
        while self.round_trips.back().is_some_and(|(_, longer)| *longer >= took) {
            self.round_trips.pop_back();
        }
        self.round_trips.push_back((now, took));
        while self.round_trips.len() > 1 && self.round_trips.front().is_some_and(|(at, _)| forget(at)) {
            self.round_trips.pop_front();
        }
        // Doubles each round trip, until the line shows its rate.
        self.opening_bytes = (self.opening_bytes + bytes as f64).min(MOST_BYTES);
        if !is_busy {
            self.recent.clear();
        }
        self.recent.push_back((now, self.acknowledged_bytes));
        self.note_rate(now, forget);
    }

    fn note_rate(&mut self, now: Instant, forget: impl Fn(&Instant) -> bool) {
        while self.recent.len() > 2 && now.duration_since(self.recent[1].0) > Duration::from_secs(1) {
            self.recent.pop_front();
        }
        let Some((since, before)) = self.recent.front().copied() else {
            return;
        };
        let took_s = now.duration_since(since).as_secs_f64();
        if took_s < 0.05 {
            return;
        }
        let rate = (self.acknowledged_bytes - before) as f64 / took_s;
        while self.rates.back().is_some_and(|(_, lower)| *lower <= rate) {
            self.rates.pop_back();
        }
        self.rates.push_back((now, rate));
        while self.rates.len() > 1 && self.rates.front().is_some_and(|(at, _)| forget(at)) {
            self.rates.pop_front();
        }
    }

    /// The rate of the line in bytes a second, if it has shown one.
    pub(crate) fn rate_bytes_per_s(&self) -> Option<f64> {
        self.rates.front().map(|(_, rate)| *rate)
    }

    /// The shortest round trip of late.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        self.round_trips.front().map(|(_, took)| *took)
    }

    /// Bytes that may be on the way.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = match (self.rate_bytes_per_s(), self.round_trip()) {
            (Some(rate), Some(round_trip)) => {
                let carried = rate * (round_trip + SLACK).as_secs_f64();
                // What was carried in a window that was too small says little: it may open further.
                carried.max(self.opening_bytes.min(carried * 2.0))
            }
            _ => self.opening_bytes,
        };
        bytes.clamp(1.0, MOST_BYTES) as usize
    }

    /// Bytes of a batch.
    pub(crate) fn batch_bytes(&self) -> usize {
        let bytes = match self.rate_bytes_per_s() {
            Some(rate) => (rate * BATCH.as_secs_f64()) as usize,
            None => self.opening_bytes as usize,
        };
        bytes.clamp(BATCH_LEAST_BYTES, BATCH_MOST_BYTES)
    }
}
