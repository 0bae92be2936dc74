//! What a Service's annotations ask for its requests.

use std::time::Duration;

use balance::{Policy, UnknownPolicy};
use manifest::workload::Service;

use crate::table::{OWN, duration, is_no_http};

/// By what they are spread over the nodes of a site.
const BALANCE: &str = "selvedge.dev/balance";
/// How long what has just become ready has fewer of them.
const SLOW_START: &str = "selvedge.dev/slow-start";
/// How long one may take until the head of its answer is there.
const TIMEOUT: &str = "selvedge.dev/timeout";
/// How often one is repeated that somebody may have seen.
const RETRIES: &str = "selvedge.dev/retries";
/// Whether a line is written of each.
const ACCESS_LOG: &str = "selvedge.dev/access-log";
/// All of them.
pub(crate) const NAMES: [&str; 5] = [BALANCE, SLOW_START, TIMEOUT, RETRIES, ACCESS_LOG];
/// Those that have a meaning for requests of HTTP alone.
const OF_HTTP: [&str; 3] = [TIMEOUT, RETRIES, ACCESS_LOG];

const MAX_SLOW_START: Duration = Duration::from_secs(15 * 60);
const MIN_TIMEOUT: Duration = Duration::from_millis(1);
const MAX_TIMEOUT: Duration = Duration::from_secs(60 * 60);
const MAX_RETRIES: u32 = 10;

/// How the requests of a service are led.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) policy: Policy,
    /// Zero: what is ready has all that it is to have.
    pub(crate) slow_start: Duration,
    /// `None`: as long as any.
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: u32,
    pub(crate) is_logged: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            policy: Policy::default(),
            slow_start: Duration::ZERO,
            timeout: None,
            retries: MAX_RETRIES,
            is_logged: false,
        }
    }
}

impl Terms {
    /// Those of a service, which has been checked.
    pub(crate) fn of(service: &Service) -> Self {
        let mut terms = Terms::default();
        for (name, value) in &service.metadata.annotations {
            let _ = terms.read(name, value);
        }
        terms
    }

    /// Whether they can be kept only where each request is seen, so that the kernel may lead none past the door.
    pub(crate) fn need_the_door(&self) -> bool {
        !self.slow_start.is_zero() || self.timeout.is_some() || self.is_logged
    }

    fn read(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            BALANCE => {
                let policy: Result<Policy, UnknownPolicy> = value.parse();
                self.policy = policy.map_err(|unknown| unknown.to_string())?;
            }
            SLOW_START => self.slow_start = time(value, Duration::ZERO, MAX_SLOW_START)?,
            TIMEOUT => self.timeout = Some(time(value, MIN_TIMEOUT, MAX_TIMEOUT)?),
            RETRIES => {
                let retries = value.parse().ok().filter(|retries| *retries <= MAX_RETRIES);
                self.retries = retries.ok_or(format!("{value:?} is no number from 0 to {MAX_RETRIES}"))?;
            }
            ACCESS_LOG => {
                self.is_logged = value
                    .parse()
                    .map_err(|_| format!("{value:?} is neither true nor false"))?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// What of them cannot be, as path and words.
pub(crate) fn unsupported(service: &Service) -> Vec<(String, String)> {
    let ports = &service.spec.ports;
    let no_http = ports.iter().filter_map(|port| port.app_protocol.as_deref());
    let no_http: Vec<&str> = no_http.filter(|protocol| is_no_http(protocol)).collect();
    let is_no_http = !ports.is_empty() && no_http.len() == ports.len();
    let own = service.metadata.annotations.iter();
    let own = own.filter(|(name, _)| name.starts_with(OWN));
    let wrong = own.filter_map(|(name, value)| {
        let why = match Terms::default().read(name, value) {
            Err(why) => why,
            Ok(()) if is_no_http && OF_HTTP.contains(&name.as_str()) => {
                format!("is of requests of HTTP alone, and appProtocol says {}", no_http[0])
            }
            Ok(()) => return None,
        };
        Some((format!("metadata.annotations.{name}"), why))
    });
    wrong.collect()
}

fn time(text: &str, least: Duration, most: Duration) -> Result<Duration, String> {
    let found = duration(text).ok_or_else(|| format!("{text:?} is no time; one is 500ms, 10s or 5m"))?;
    match (least..=most).contains(&found) {
        true => Ok(found),
        false => Err(format!(
            "{text:?} is not from {} ms to {} s",
            least.as_millis(),
            most.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, value: &str) -> Result<Terms, String> {
        let mut terms = Terms::default();
        terms.read(name, value).map(|()| terms)
    }

    #[test]
    fn what_is_written_is_meant_and_nothing_else_changes() {
        let default = Terms::default();
        assert!(!default.need_the_door());
        let slow = read(SLOW_START, "30s").unwrap();
        assert_eq!((slow.slow_start, slow.need_the_door()), (Duration::from_secs(30), true));
        let short = read(TIMEOUT, "250ms").unwrap();
        assert_eq!(
            (short.timeout, short.need_the_door()),
            (Some(Duration::from_millis(250)), true)
        );
        assert_eq!(read(RETRIES, "0").unwrap(), Terms { retries: 0, ..default });
        assert!(read(ACCESS_LOG, "true").unwrap().is_logged);
        assert_eq!(read(ACCESS_LOG, "false").unwrap(), default);
    }

    #[test]
    fn what_cannot_be_is_said_with_what_can() {
        for (name, value, said) in [
            (SLOW_START, "soon", "\"soon\" is no time; one is 500ms, 10s or 5m"),
            (SLOW_START, "1h", "\"1h\" is not from 0 ms to 900 s"),
            (TIMEOUT, "0s", "\"0s\" is not from 1 ms to 3600 s"),
            (TIMEOUT, "-1s", "\"-1s\" is no time; one is 500ms, 10s or 5m"),
            (RETRIES, "often", "\"often\" is no number from 0 to 10"),
            (RETRIES, "11", "\"11\" is no number from 0 to 10"),
            (ACCESS_LOG, "yes", "\"yes\" is neither true nor false"),
        ] {
            assert_eq!(read(name, value).unwrap_err(), said);
        }
    }
}
