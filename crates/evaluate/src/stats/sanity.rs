//! Laws that any honest measurement keeps (rules 2 and 10); a result that breaks one is not a result.

use serde::Serialize;

/// How far Little's law may be off.
const LITTLES_LAW_TOLERANCE: f64 = 0.05;
/// Share of its cores above which the generator, not the system, may have been measured.
const GENERATOR_CPU_BOUND: f64 = 0.8;
/// Send lag that is always allowed, in µs.
const SEND_LAG_FLOOR_US: f64 = 100.0;
/// Send lag allowed as a share of the median response.
const SEND_LAG_OF_MEDIAN: f64 = 0.1;

/// Share of packets that the emulated line may deliver late.
const LATE_PACKETS: f64 = 0.1;

/// One law and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Which law.
    pub law: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// The values it was tested with, in words.
    pub detail: String,
}

/// What a closed loop did in one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LittlesLaw {
    /// Messages out at once, or waiting their think time.
    pub concurrency: f64,
    /// Messages answered.
    pub answered: u64,
    /// In which time, in s.
    pub wall_s: f64,
    /// Mean time from send to answer, in s.
    pub mean_response_s: f64,
    /// Time from an answer to the next send, in s.
    pub think_s: f64,
}

/// Little's law: concurrency = rate × (response + think time), within 5 %.
pub fn littles_law(loop_: &LittlesLaw) -> Check {
    let rate = loop_.answered as f64 / loop_.wall_s;
    let found = rate * (loop_.mean_response_s + loop_.think_s);
    let error = found / loop_.concurrency - 1.0;
    Check {
        law: "Little's law",
        holds: error.abs() <= LITTLES_LAW_TOLERANCE,
        detail: format!(
            "{rate:.0} msg/s × {:.1} µs = {found:.2} messages in the loop of {}, {:+.1} % (bound ±5 %)",
            (loop_.mean_response_s + loop_.think_s) * 1e6,
            loop_.concurrency,
            error * 100.0
        ),
    }
}

/// The emulated line delivers its packets on time, but for one in ten: else the emulator was measured.
pub fn line_on_time(late: u64, delivered: u64) -> Check {
    let share = late as f64 / delivered.max(1) as f64;
    Check {
        law: "emulated line on time",
        holds: share <= LATE_PACKETS,
        detail: format!(
            "{:.1} % of {delivered} packets delivered more than 100 µs late (bound {:.0} %)",
            share * 100.0,
            LATE_PACKETS * 100.0
        ),
    }
}

/// Where the messages of a block went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Counted at sending.
    pub sent: u64,
    /// Counted at receiving.
    pub answered: u64,
    /// Counted by the timeout.
    pub lost: u64,
    /// Counted at the end.
    pub in_flight: u64,
    /// Samples that hold both a send and a receive time, which must be the answered ones.
    pub sampled: u64,
}

/// sent = answered + lost + in flight, and every answer has its sample.
pub fn accounting(exchange: &Exchange) -> Check {
    let Exchange {
        sent,
        answered,
        lost,
        in_flight,
        sampled,
    } = *exchange;
    Check {
        law: "messages add up",
        holds: sent == answered + lost + in_flight && answered == sampled,
        detail: format!(
            "sent {sent} = answered {answered} + lost {lost} + in flight {in_flight}; {sampled} samples of answers"
        ),
    }
}

/// Clocks run forward: nothing is sent before its time or received before it was sent. `messages` holds intended, sent
/// and received of each in one clock; a message not sent or not answered lacks the last ones.
pub fn monotonic(messages: impl Iterator<Item = (u64, Option<u64>, Option<u64>)>) -> Check {
    let backwards = messages
        .filter(|(intended, sent, received)| {
            sent.is_some_and(|sent| sent < *intended || received.is_some_and(|received| received < sent))
                || (sent.is_none() && received.is_some())
        })
        .count();
    Check {
        law: "clocks run forward",
        holds: backwards == 0,
        detail: format!("{backwards} messages received before they were sent, or sent before their time"),
    }
}

/// Work of the generator, spinning apart, below 80 % of its cores.
pub fn generator_cpu(busy_s: f64, wall_s: f64, cores: usize) -> Check {
    let share = busy_s / (wall_s * cores as f64);
    Check {
        law: "generator has time to spare",
        holds: share < GENERATOR_CPU_BOUND,
        detail: format!("{:.0} % of {cores} core(s) busy (bound 80 %)", share * 100.0),
    }
}

/// Rule 2: p99 of the send lag at most max(100 µs, 10 % of the median response), all in µs.
pub fn send_lag(lag_p99_us: f64, median_response_us: f64) -> Check {
    // With the median among the losses only the floor is left to hold it against.
    let share = if median_response_us.is_finite() {
        SEND_LAG_OF_MEDIAN * median_response_us
    } else {
        0.0
    };
    let bound = share.max(SEND_LAG_FLOOR_US);
    Check {
        law: "generator sends on time",
        holds: lag_p99_us <= bound,
        detail: format!("p99 of the send lag {lag_p99_us:.1} µs (bound {bound:.0} µs)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(answered: u64) -> LittlesLaw {
        LittlesLaw {
            concurrency: 8.0,
            answered,
            wall_s: 2.0,
            mean_response_s: 0.001,
            think_s: 0.003,
        }
    }

    #[test]
    fn littles_law_holds_within_five_percent() {
        assert!(littles_law(&closed(4000)).holds);
        assert!(littles_law(&closed(3801)).holds);
        assert!(!littles_law(&closed(3799)).holds);
        assert!(!littles_law(&closed(4201)).holds);
    }

    #[test]
    fn the_load_balancing_papers_figures_break_littles_law() {
        // 1,493 req/s of a closed loop of 100 would take 67 ms each, not 6.
        let claim = LittlesLaw {
            concurrency: 100.0,
            answered: 1493,
            wall_s: 1.0,
            mean_response_s: 0.006,
            think_s: 0.0,
        };
        assert!(!littles_law(&claim).holds);
    }

    #[test]
    fn a_message_that_is_nowhere_breaks_the_account() {
        let whole = Exchange {
            sent: 10,
            answered: 7,
            lost: 2,
            in_flight: 1,
            sampled: 7,
        };
        assert!(accounting(&whole).holds);
        assert!(!accounting(&Exchange { lost: 1, ..whole }).holds);
        assert!(!accounting(&Exchange { sampled: 6, ..whole }).holds);
    }

    #[test]
    fn an_answer_before_its_message_breaks_the_clock() {
        assert!(monotonic([(5, Some(5), Some(6)), (7, None, None), (8, Some(9), None)].into_iter()).holds);
        assert!(!monotonic([(5, Some(6), Some(5))].into_iter()).holds);
        assert!(!monotonic([(5, Some(4), Some(6))].into_iter()).holds);
        assert!(!monotonic([(5, None, Some(6))].into_iter()).holds);
    }

    #[test]
    fn a_generator_busy_for_four_fifths_of_its_cores_is_too_busy() {
        assert!(generator_cpu(1.59, 2.0, 1).holds);
        assert!(!generator_cpu(1.6, 2.0, 1).holds);
        assert!(generator_cpu(1.6, 2.0, 2).holds);
    }

    #[test]
    fn lag_is_held_against_the_larger_of_a_tenth_of_the_median_and_100_us() {
        assert!(send_lag(100.0, 80.0).holds);
        assert!(!send_lag(101.0, 80.0).holds);
        assert!(send_lag(5000.0, 50_000.0).holds);
        assert!(!send_lag(5001.0, 50_000.0).holds);
        assert!(!send_lag(101.0, f64::INFINITY).holds);
    }
}
