//! Until when the head of an answer has to be there.

use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName};
use tokio::time::{Instant, timeout};

use super::request::Sent;

/// Of a call of gRPC, as who calls sets it.
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// What is set for a request. While its body is sent no time passes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    since: Instant,
    pub(super) limit: Duration,
    /// Who asks has set it, and not the service.
    pub(super) is_of_caller: bool,
}

/// How long one who is asked has time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// From the last byte of the request that was sent.
    Sent(Duration),
    /// What is set for the request, whoever was asked before.
    Deadline(Deadline),
}

impl Deadline {
    /// From now on: what the `service` sets or who calls, by gRPC, in `headers`; `None`: neither sets less than the
    /// `longest` that any has.
    pub(super) fn of(service: Option<Duration>, headers: Option<&HeaderMap>, longest: Duration) -> Option<Self> {
        let caller = headers.and_then(|headers| grpc_timeout(headers.get(GRPC_TIMEOUT)?.to_str().ok()?));
        let is_of_caller = caller.is_some_and(|caller| caller < service.unwrap_or(longest));
        let limit = if is_of_caller { caller } else { service }?;
        Some(Deadline {
            since: Instant::now(),
            limit,
            is_of_caller,
        })
    }

    /// What it comes to before then; `None`: it is late.
    pub(super) async fn within<T>(self, sent: &Sent, answering: impl Future<Output = T>) -> Option<T> {
        let mut answering = std::pin::pin!(answering);
        loop {
            let left = self.left(sent);
            if let Ok(answered) = timeout(left, answering.as_mut()).await {
                return Some(answered);
            }
            if self.is_over(sent) {
                return None;
            }
        }
    }

    pub(super) fn is_over(&self, sent: &Sent) -> bool {
        self.left(sent).is_zero()
    }

    fn left(&self, sent: &Sent) -> Duration {
        let since = sent.last().map_or(self.since, |last| last.max(self.since));
        (since + self.limit).saturating_duration_since(Instant::now())
    }
}

impl Until {
    /// What is set, or so long where nothing is.
    pub(super) fn or(deadline: Option<Deadline>, patience: Duration) -> Self {
        deadline.map_or(Until::Sent(patience), Until::Deadline)
    }

    pub(super) fn left(&self, sent: &Sent) -> Duration {
        match self {
            Until::Sent(patience) => patience.saturating_sub(sent.ago()),
            Until::Deadline(deadline) => deadline.left(sent),
        }
    }

    /// Whether the time that is set for the request is, so that nobody else is asked.
    pub(super) fn is_over(&self, sent: &Sent) -> bool {
        matches!(self, Until::Deadline(deadline) if deadline.is_over(sent))
    }

    /// Whether who asks has set it.
    pub(super) fn is_of_caller(&self) -> bool {
        matches!(self, Until::Deadline(deadline) if deadline.is_of_caller)
    }

    pub(super) fn patience(&self) -> Duration {
        match self {
            Until::Sent(patience) => *patience,
            Until::Deadline(deadline) => deadline.limit,
        }
    }
}

/// As PROTOCOL-HTTP2 of gRPC has it: up to eight digits and a unit.
fn grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let is_number = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3_600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_of_two_counts_and_a_call_has_no_longer_than_any_other() {
        let calling = |timeout: &'static str| HeaderMap::from_iter([(GRPC_TIMEOUT, timeout.parse().unwrap())]);
        let longest = Duration::from_secs(60);
        let of = |service_s: Option<u64>, caller: Option<&'static str>| {
            let headers = caller.map(calling);
            let deadline = Deadline::of(service_s.map(Duration::from_secs), headers.as_ref(), longest)?;
            Some((deadline.limit.as_millis(), deadline.is_of_caller))
        };
        assert_eq!(of(None, None), None);
        assert_eq!(of(Some(300), None), Some((300_000, false)));
        assert_eq!(of(None, Some("250m")), Some((250, true)));
        assert_eq!(of(None, Some("2H")), None);
        assert_eq!(of(Some(1), Some("2S")), Some((1_000, false)));
        assert_eq!(of(Some(3), Some("2S")), Some((2_000, true)));
    }

    #[test]
    fn what_is_no_time_of_grpc_sets_none() {
        for text in ["", "S", "1", "123456789S", "-1S", "+1S", "1 S", "1s", "\u{e4}S"] {
            assert_eq!(grpc_timeout(text), None, "{text:?}");
        }
        assert_eq!(grpc_timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
    }
}
