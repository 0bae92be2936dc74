//! How much may be on the way: what the line carries in a round trip and a slack of as long again, at most a quarter of
//! a second, so that what is sent next never waits long behind what was sent before, and the kernel is never the queue.
//!
//! A batch more may go when the line has little left to do: on a thin line a batch takes it longer than that slack, and
//! it would stand idle for each round trip.
//!
//! Rate and round trip are measured by acknowledgements: behind a proxy the kernel knows only half of the way. A packet
//! that was sent while nothing was on the way shows the round trip without a queue. Where none was for a while, the
//! line is left to run empty for a moment ([`Window::is_probing`]), else what the window itself has queued would count
//! as the line's own delay, and let it grow for ever.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::packing::BATCH_MOST_BYTES;

/// Beyond the round trip: as long again, within these bounds.
const SLACK: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// A batch takes the line for as long as a round trip, within these bounds: what is live waits for one of the backlog
/// on the line, and for as many messages at both ends.
const BATCH_TAKES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));
/// A packet that took so much longer than the shortest round trip, or as long again, waited in a queue: on a line with
/// less delay it may have been the other end, which had something else to do.
const QUEUE_LEAST: Duration = Duration::from_millis(10);
/// On the way at first, in bytes; twice as many with each round trip until a queue is seen.
const FIRST_BYTES: f64 = 2_048.0;
/// On the way at most, in bytes: 300 ms of a line of 200 Mbit/s.
const MOST_BYTES: f64 = (8 << 20) as f64;
/// A rate of so long ago still counts.
const RATE_MEMORY: Duration = Duration::from_secs(10);
/// A rate below this part of the highest may be that of an end that is slow to acknowledge, which the window would
/// follow down to nothing: it is opened anew. What counts as the highest is halved each time, so that a line that
/// really is thinner is tried a few times only.
const FALL: f64 = 0.5;
/// A round trip of so long ago still counts.
const ROUND_TRIP_MEMORY: Duration = Duration::from_secs(30);
/// A rate is that of as long at least, and of as many packets.
const RATE_SPAN: (Duration, usize) = (Duration::from_secs(1), 4);
/// A batch has no fewer bytes, however thin the line is: what is fixed for each, some 160 bytes of TCP, TLS and
/// acknowledgement, shall not be a fifth of what the line carries. It fits a packet of Ethernet.
const BATCH_LEAST_BYTES: usize = 1_280;
/// A line may turn out as many times faster as it was seen to be; but for one that has to carry batches of the least
/// size, where a queue of two of them would be felt.
const HOPE: f64 = 1.25;

/// Of the window, what is live may have on the way beyond it: it does not wait until the backlog is acknowledged.
const RESERVE: usize = 4;
/// A line that takes longer for a batch of the least size has no such reserve: it would be felt by what comes behind.
const RESERVE_TAKES_MOST: Duration = Duration::from_millis(25);

/// A packet that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) bytes: usize,
    /// Bytes that were on the way when it was sent, its own among them.
    pub(crate) ahead_bytes: usize,
    pub(crate) took: Duration,
    /// More was on the way or waited all the time, so that the line showed what it can carry.
    pub(crate) is_busy: bool,
}

/// What was seen of the line.
#[derive(Debug)]
pub(crate) struct Window {
    /// Bytes acknowledged so far.
    acknowledged_bytes: u64,
    /// When, and how many bytes by then: the last of them, while the line was busy.
    recent: VecDeque<(Instant, u64)>,
    /// Rates in bytes a second, and when they were seen; falling.
    rates: VecDeque<(Instant, f64)>,
    /// The highest rate in bytes a second, as far as it is believed.
    highest_rate: f64,
    /// Round trips of packets with their bytes, and when they were seen; rising.
    round_trips: VecDeque<(Instant, Duration, usize)>,
    /// Bytes that may be on the way until a queue is seen.
    opening_bytes: f64,
    /// Since when; `None`: one was seen.
    opening_since: Option<Instant>,
    /// What shows a queue then, at least.
    queue_least: Duration,
}

impl Window {
    pub(crate) fn new() -> Self {
        Self {
            acknowledged_bytes: 0,
            recent: VecDeque::new(),
            rates: VecDeque::new(),
            highest_rate: 0.0,
            round_trips: VecDeque::new(),
            opening_bytes: FIRST_BYTES,
            opening_since: Some(Instant::now()),
            queue_least: QUEUE_LEAST,
        }
    }

    /// A packet was acknowledged.
    pub(crate) fn acknowledged(&mut self, now: Instant, packet: Acknowledged) {
        self.acknowledged_bytes += packet.bytes as u64;
        self.note_round_trip(now, packet);
        self.open(now, packet);
        if !packet.is_busy {
            self.recent.clear();
        }
        self.recent.push_back((now, self.acknowledged_bytes));
        self.note_rate(now);
    }

    fn note_round_trip(&mut self, now: Instant, packet: Acknowledged) {
        let is_clean = packet.ahead_bytes == packet.bytes;
        if is_clean && self.is_probing(now) {
            self.round_trips.clear();
        }
        let shortest = self.round_trips.front().map(|(_, took, _)| *took);
        if !is_clean && shortest.is_some_and(|shortest| shortest <= packet.took) {
            return;
        }
        let is_longer = |(_, took, _): &mut (Instant, Duration, usize)| *took >= packet.took;
        while self.round_trips.pop_back_if(is_longer).is_some() {}
        self.round_trips.push_back((now, packet.took, packet.bytes));
        while self.round_trips.len() > 1 && now.duration_since(self.round_trips[0].0) > ROUND_TRIP_MEMORY {
            self.round_trips.pop_front();
        }
    }

    /// Doubles each round trip while all of the window is used, until a queue shows that the line is full.
    fn open(&mut self, now: Instant, packet: Acknowledged) {
        let is_of_opening = |since| now.checked_sub(packet.took).is_some_and(|sent| sent >= since);
        if !self.opening_since.is_some_and(is_of_opening) {
            return;
        }
        let shortest = self.round_trips.front().map_or(packet.took, |(_, took, _)| *took);
        if packet.took > shortest + shortest.clamp(self.queue_least, SLACK.1) {
            self.opening_since = None;
        } else if packet.ahead_bytes as f64 * 2.0 >= self.opening_bytes {
            self.opening_bytes = (self.opening_bytes + packet.bytes as f64).min(MOST_BYTES);
        }
    }

    fn note_rate(&mut self, now: Instant) {
        let (span, packets) = RATE_SPAN;
        while self.recent.len() > packets && now.duration_since(self.recent[1].0) > span {
            self.recent.pop_front();
        }
        let (since, before) = self.recent[0];
        let took_s = now.duration_since(since).as_secs_f64();
        if took_s < 0.05 {
            return;
        }
        let rate = (self.acknowledged_bytes - before) as f64 / took_s;
        while self.rates.pop_back_if(|(_, lower)| *lower <= rate).is_some() {}
        self.rates.push_back((now, rate));
        while self.rates.len() > 1 && now.duration_since(self.rates[0].0) > RATE_MEMORY {
            self.rates.pop_front();
        }
        self.look_for_fall(now);
    }

    fn look_for_fall(&mut self, now: Instant) {
        let rate = self.rates[0].1;
        self.highest_rate = self.highest_rate.max(rate);
        if self.opening_since.is_none() && rate < self.highest_rate * FALL {
            self.highest_rate /= 2.0;
            self.opening_bytes = self.bytes() as f64;
            self.opening_since = Some(now);
            // It may be the other end that is slow, and no queue at all.
            self.queue_least = SLACK.1;
        }
    }

    /// The rate of the line in bytes a second, if it has shown one.
    pub(crate) fn rate_bytes_per_s(&self) -> Option<f64> {
        self.rates.front().map(|(_, rate)| *rate)
    }

    /// The shortest round trip of late, without the time that the line took for the packet itself; but half of it at
    /// least, for a line that was not busy may be faster than its rate.
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        let (_, took, _) = self.round_trips.front()?;
        Some(self.way()?.max(*took / 2))
    }

    /// The same, for a line that shows its rate.
    fn way(&self) -> Option<Duration> {
        let (_, took, bytes) = self.round_trips.front()?;
        let own_s = self.rate_bytes_per_s().map_or(0.0, |rate| *bytes as f64 / rate);
        Some(took.saturating_sub(Duration::from_secs_f64(own_s)))
    }

    /// Whether the next packet is to be sent alone, so that its round trip has no queue in it.
    pub(crate) fn is_probing(&self, now: Instant) -> bool {
        let newest = self.round_trips.back();
        newest.is_some_and(|(seen, _, _)| now.duration_since(*seen) > ROUND_TRIP_MEMORY)
    }

    /// The time that the line takes for so many bytes; none where that is not known.
    pub(crate) fn takes(&self, bytes: usize) -> Duration {
        let hope = if self.batch_bytes() > BATCH_LEAST_BYTES {
            HOPE
        } else {
            1.0
        };
        let rate = self.rate_bytes_per_s().map(|rate| rate * hope);
        rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 / rate))
    }

    /// When the line is free that now has acknowledged a packet and left others on the way: what it acknowledges has
    /// left it a round trip ago.
    pub(crate) fn free_at(&self, now: Instant, on_the_way_bytes: usize) -> Instant {
        let left_at = now.checked_sub(self.way().unwrap_or_default()).unwrap_or(now);
        left_at + self.takes(on_the_way_bytes)
    }

    /// Until when a line that is free at `free_at` is left to do what it has.
    pub(crate) fn refills_at(&self, free_at: Instant) -> Instant {
        free_at.checked_sub(self.slack()).unwrap_or(free_at)
    }

    fn slack(&self) -> Duration {
        self.round_trip().unwrap_or(SLACK.1).clamp(SLACK.0, SLACK.1)
    }

    /// Whether a packet more may go, where so many bytes are on the way and the line is free at `free_at`.
    pub(crate) fn has_room(&self, now: Instant, on_the_way_bytes: usize, free_at: Instant) -> bool {
        let is_probing = self.is_probing(now) && on_the_way_bytes > 0;
        let bytes = match now >= self.refills_at(free_at) {
            true => self.bytes() + self.batch_bytes(),
            false => self.bytes(),
        };
        !is_probing && on_the_way_bytes < bytes
    }

    /// Whether a live packet may go where [`Window::has_room`] says no, with so many bytes of live packets on the way.
    pub(crate) fn has_reserve(&self, now: Instant, live_bytes: usize) -> bool {
        let is_fast = self.rate_bytes_per_s().is_some() && self.takes(BATCH_LEAST_BYTES) <= RESERVE_TAKES_MOST;
        is_fast && !self.is_probing(now) && live_bytes < self.bytes() / RESERVE
    }

    /// Bytes that may be on the way; the last packet may exceed them.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = match (self.rate_bytes_per_s(), self.round_trip()) {
            (Some(rate), Some(round_trip)) if self.opening_since.is_none() => {
                rate * (round_trip + self.slack()).as_secs_f64()
            }
            _ => self.opening_bytes,
        };
        bytes.clamp(1.0, MOST_BYTES) as usize
    }

    /// Bytes of a batch on the line.
    pub(crate) fn batch_bytes(&self) -> usize {
        let (least, most) = BATCH_TAKES;
        let takes = self.round_trip().unwrap_or(most).clamp(least, most);
        let bytes = match self.rate_bytes_per_s() {
            Some(rate) => (rate * takes.as_secs_f64()) as usize,
            None => self.opening_bytes as usize / 2,
        };
        bytes.clamp(BATCH_LEAST_BYTES, BATCH_MOST_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line and a sender who always has more: packets queue before the line, then take a round trip.
    struct Line {
        window: Window,
        bytes_per_s: f64,
        round_trip: Duration,
        now: Instant,
        is_free_at: Instant,
        /// When it is free for all that the sender knows.
        free_at: Instant,
        /// When each is acknowledged, when it was sent, and what it is.
        on_the_way: VecDeque<(Instant, Instant, Acknowledged)>,
        carried_bytes: usize,
        longest: Duration,
    }

    impl Line {
        fn new(bytes_per_s: f64, round_trip_ms: u64) -> Self {
            let now = Instant::now();
            Self {
                window: Window::new(),
                bytes_per_s,
                round_trip: Duration::from_millis(round_trip_ms),
                now,
                is_free_at: now,
                free_at: now,
                on_the_way: VecDeque::new(),
                carried_bytes: 0,
                longest: Duration::ZERO,
            }
        }

        fn on_the_way_bytes(&self) -> usize {
            self.on_the_way.iter().map(|(_, _, packet)| packet.bytes).sum()
        }

        fn send(&mut self) {
            let bytes = self.window.batch_bytes();
            let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_s);
            self.is_free_at = self.is_free_at.max(self.now) + takes;
            let packet = Acknowledged {
                bytes,
                ahead_bytes: self.on_the_way_bytes() + bytes,
                took: Duration::ZERO,
                is_busy: true,
            };
            self.free_at = self.free_at.max(self.now) + self.window.takes(bytes);
            let back = self.is_free_at + self.round_trip;
            self.on_the_way.push_back((back, self.now, packet));
        }

        /// The share of what the line could have carried, and the longest way of a packet, both after the first fifth.
        fn run(&mut self, time: Duration) -> (f64, Duration) {
            let (start, end) = (self.now + time / 5, self.now + time);
            (self.carried_bytes, self.longest) = (0, Duration::ZERO);
            while self.now < end {
                while self.window.has_room(self.now, self.on_the_way_bytes(), self.free_at) {
                    self.send();
                }
                let (back, sent, packet) = self.on_the_way.pop_front().expect("something is on the way");
                let refills_at = self.window.refills_at(self.free_at);
                if self.now < refills_at && refills_at < back {
                    self.on_the_way.push_front((back, sent, packet));
                    self.now = refills_at;
                    continue;
                }
                self.now = back;
                let took = back - sent;
                self.window.acknowledged(back, Acknowledged { took, ..packet });
                self.free_at = self.window.free_at(self.now, self.on_the_way_bytes());
                if back > start {
                    self.carried_bytes += packet.bytes;
                    self.longest = self.longest.max(took);
                }
            }
            let share = self.carried_bytes as f64 / (self.bytes_per_s * (time * 4 / 5).as_secs_f64());
            (share, self.longest)
        }
    }

    #[test]
    fn a_line_is_kept_busy_and_what_is_sent_waits_for_little_more_than_a_batch_whatever_rate_and_round_trip() {
        for bytes_per_s in [1_000.0, 4_000.0, 16_000.0, 1_250_000.0, 8_000_000.0] {
            for round_trip_ms in [1, 30, 300] {
                let mut line = Line::new(bytes_per_s, round_trip_ms);
                let (share, longest) = line.run(Duration::from_secs(200));
                let least_batch = Duration::from_secs_f64(BATCH_LEAST_BYTES as f64 / bytes_per_s);
                let bound = line.round_trip + 4 * SLACK.1.max(least_batch);
                assert!(share > 0.9, "{bytes_per_s} B/s, {round_trip_ms} ms: {share}");
                assert!(
                    longest < bound,
                    "{bytes_per_s} B/s, {round_trip_ms} ms: {longest:?} of {bound:?}"
                );
            }
        }
    }

    #[test]
    fn beyond_a_full_window_what_is_live_has_a_quarter_of_it_but_not_on_a_line_that_would_be_held_up() {
        for (bytes_per_s, has_reserve) in [(1e3, false), (1e6, true)] {
            let mut line = Line::new(bytes_per_s, 30);
            line.run(Duration::from_secs(20));
            let (window, now) = (&line.window, line.now);
            assert!(!window.has_room(now, 2 * window.bytes() + window.batch_bytes(), line.free_at));
            assert_eq!(window.has_reserve(now, 0), has_reserve, "{bytes_per_s} bytes/s");
            assert!(!window.has_reserve(now, window.bytes() / 4));
        }
    }

    #[test]
    fn a_line_that_gets_thinner_or_faster_is_found_out() {
        let mut line = Line::new(1_250_000.0, 30);
        line.run(Duration::from_secs(20));
        line.bytes_per_s = 10_000.0;
        line.run(Duration::from_secs(100));
        let rate = line.window.rate_bytes_per_s().unwrap();
        assert!((9_000.0..12_000.0).contains(&rate), "{rate}");
        line.bytes_per_s = 1_250_000.0;
        line.run(Duration::from_secs(60));
        assert!(line.window.rate_bytes_per_s().unwrap() > 1_000_000.0);
    }

    #[test]
    fn an_end_that_acknowledges_slowly_does_not_draw_the_window_down_to_nothing() {
        let mut line = Line::new(8_000_000.0, 5);
        line.run(Duration::from_secs(20));
        // Now and then one is acknowledged at once, and keeps the shortest round trip in memory.
        for _ in 0..6 {
            line.round_trip = Duration::from_millis(5);
            line.run(Duration::from_millis(20));
            line.round_trip = Duration::from_millis(60);
            line.run(Duration::from_secs(10));
        }
        let (share, _) = line.run(Duration::from_secs(10));
        assert!(share > 0.2, "{share}");
    }

    #[test]
    fn a_cloud_that_stood_still_and_is_slow_to_answer_leaves_the_line_as_fast_as_it_was() {
        let mut line = Line::new(8_000_000.0, 5);
        line.run(Duration::from_secs(20));
        line.is_free_at = line.now + Duration::from_secs(15);
        line.round_trip = Duration::from_millis(180);
        line.run(Duration::from_secs(16));
        let (share, longest) = line.run(Duration::from_secs(10));
        assert!(share > 0.9, "{share}");
        assert!(longest < Duration::from_secs(1), "{longest:?}");
    }

    #[test]
    fn little_traffic_says_nothing_of_the_line() {
        let mut window = Window::new();
        let start = Instant::now();
        for second in 0..100 {
            let packet = Acknowledged {
                bytes: 100,
                ahead_bytes: 100,
                took: Duration::from_millis(30),
                is_busy: false,
            };
            window.acknowledged(start + Duration::from_secs(second), packet);
        }
        assert_eq!(
            (window.rate_bytes_per_s(), window.bytes()),
            (None, FIRST_BYTES as usize)
        );
    }
}
