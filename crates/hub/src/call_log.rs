//! The method calls that clients make, gathered for the audit log: the loop does not wait for it, and allocates nothing
//! for a call like one of the same second.

use std::sync::Arc;

use identity::{Audit, Event};
use tokio::sync::mpsc;

use crate::unix_now_s;

/// Time between two reports in milliseconds.
const REPORT_EVERY_MS: u64 = 1_000;

/// Different calls of one report; the others are counted as one more.
const KINDS_MAX: usize = 64;

/// Reports that may wait to be written; a shard that finds no place tries again with its next report.
const REPORTS_MAX: usize = 64;

/// Calls of one method by one caller.
pub(crate) struct Made {
    tenant: Arc<str>,
    caller: Box<str>,
    device: Box<str>,
    method: Box<str>,
    times: u64,
}

/// The calls of one shard since its last report.
pub(crate) struct CallLog {
    made: Vec<Made>,
    /// The place of the call before, which the next one is most often like.
    latest: usize,
    due_ms: Option<u64>,
    reports: mpsc::Sender<Vec<Made>>,
}

/// A channel of reports.
pub(crate) fn channel() -> (mpsc::Sender<Vec<Made>>, mpsc::Receiver<Vec<Made>>) {
    mpsc::channel(REPORTS_MAX)
}

impl CallLog {
    pub(crate) fn new(reports: mpsc::Sender<Vec<Made>>) -> Self {
        Self {
            made: Vec::new(),
            latest: 0,
            due_ms: None,
            reports,
        }
    }

    /// Notes a call.
    pub(crate) fn note(&mut self, now_ms: u64, tenant: &Arc<str>, caller: &str, device: &str, method: &str) {
        self.due_ms.get_or_insert(now_ms + REPORT_EVERY_MS);
        let is_alike =
            |made: &Made| *made.method == *method && *made.caller == *caller && Arc::ptr_eq(&made.tenant, tenant);
        if !self.made.get(self.latest).is_some_and(is_alike) {
            let known = self.made.iter().position(is_alike);
            self.latest = known.unwrap_or(self.made.len().min(KINDS_MAX));
        }
        if let Some(made) = self.made.get_mut(self.latest) {
            made.times += 1;
            return;
        }
        self.made.push(Made {
            tenant: Arc::clone(tenant),
            caller: caller.into(),
            device: device.into(),
            method: method.into(),
            times: 1,
        });
    }

    /// When [`CallLog::report`] has something to do.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    /// Hands over what was noted, once it is due.
    pub(crate) fn report(&mut self, now_ms: u64) {
        if self.due_ms.is_some_and(|due_ms| due_ms <= now_ms) {
            self.hand_over(now_ms);
        }
    }

    fn hand_over(&mut self, now_ms: u64) {
        match self.reports.try_reserve() {
            Ok(place) => {
                place.send(self.made.drain(..).collect());
                self.due_ms = None;
            }
            Err(_) => self.due_ms = Some(now_ms + REPORT_EVERY_MS),
        }
    }

    /// Hands over the rest, at the end of the shard.
    pub(crate) fn finish(mut self) {
        self.hand_over(0);
    }
}

/// Writes reports into the audit log until the last shard has ended.
pub(crate) async fn keep(mut reports: mpsc::Receiver<Vec<Made>>, audit: Arc<Audit>) {
    while let Some(report) = reports.recv().await {
        report.iter().for_each(|made| record(&audit, made));
    }
}

fn record(audit: &Audit, made: &Made) {
    let event = Event::CallMade {
        tenant: &made.tenant,
        caller: &made.caller,
        device: &made.device,
        method: &made.method,
    };
    audit.record_times(&event, made.times, unix_now_s());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_a_second_are_one_report_with_their_count() {
        let (reports, mut written) = channel();
        let mut log = CallLog::new(reports);
        let tenant: Arc<str> = "default".into();
        for _ in 0..5 {
            log.note(10, &tenant, "dashboard", "pump-7", "stop");
        }
        log.note(10, &tenant, "dashboard", "pump-7", "start");
        log.report(500);
        assert!(written.try_recv().is_err());
        log.report(log.due_ms().unwrap());
        let mut report = written.try_recv().unwrap();
        report.sort_by_key(|made| made.times);
        let counts: Vec<_> = report.iter().map(|made| (&*made.method, made.times)).collect();
        assert_eq!(counts, [("start", 1), ("stop", 5)]);
        assert_eq!(log.due_ms(), None);
    }

    #[test]
    fn a_caller_of_many_methods_takes_no_more_room() {
        let (reports, mut written) = channel();
        let mut log = CallLog::new(reports);
        for number in 0..10_000 {
            log.note(0, &"default".into(), "dashboard", "pump-7", &format!("m{number}"));
        }
        log.finish();
        let report = written.try_recv().unwrap();
        assert_eq!(report.len(), KINDS_MAX + 1);
        assert_eq!(report.iter().map(|made| made.times).sum::<u64>(), 10_000);
    }
}
