//! What happened to logins, credentials and calls: one JSON object a line in `audit.log`.

mod event;
mod file;
mod repeats;

use std::hash::RandomState;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

pub use event::{Action, Event};

use event::Group;
use file::RotatingFile;
use repeats::{Repeated, Repeats};

/// Bytes of lines that wait for [`Audit::flush`].
const MAX_PENDING_BYTES: usize = 256 * 1024;

/// Bounds of the audit log on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    /// Bytes of one file; then it becomes `audit.log.1`, and that `audit.log.2`.
    pub max_file_bytes: u64,
    /// Older files kept beside the one that is written.
    pub old_files: u32,
}

impl Default for AuditOptions {
    fn default() -> Self {
        AuditOptions {
            max_file_bytes: 10_000_000,
            old_files: 4,
        }
    }
}

/// The audit log. [`Audit::record`] touches memory alone; [`Audit::flush`], to be called about once a second on a
/// thread that may block, writes.
///
/// What repeats within a minute (the same refusal of the same address, the same caller calling the same method) is one
/// line at its start and one that counts the rest. Of more than 64 different refusals, or 64 different calls, in a
/// minute the rest is one count: a flood cannot push out what was logged before it.
#[derive(Debug)]
pub struct Audit {
    pending: Mutex<Pending>,
    file: Mutex<RotatingFile>,
}

#[derive(Debug, Default)]
struct Pending {
    lines: Vec<u8>,
    /// Lines that found no room, or could not be written.
    lost: u64,
    hasher: RandomState,
    refusals: Repeats,
    calls: Repeats,
}

/// Lines that stand for others.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Summary<'a> {
    Repeated {
        times: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        of: Option<&'a serde_json::value::RawValue>,
    },
    LinesLost {
        lines: u64,
    },
}

#[derive(Serialize)]
struct Line<'a, T> {
    time: &'a str,
    #[serde(flatten)]
    event: &'a T,
}

impl Audit {
    /// Opens `audit.log` in `directory`, readable by its owner alone, and goes on at its end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(directory: &Path, options: AuditOptions) -> io::Result<Self> {
        let file = RotatingFile::open(directory.join("audit.log"), options)?;
        Ok(Audit {
            pending: Mutex::default(),
            file: Mutex::new(file),
        })
    }

    /// Notes an event. Neither blocks nor fails: what finds no room is counted and said in the next line.
    pub fn record(&self, event: &Event<'_>, now_unix_s: i64) {
        self.record_times(event, 1, now_unix_s);
    }

    /// Notes an event that came `times` times, at least once, as that many calls of [`Audit::record`] would.
    pub fn record_times(&self, event: &Event<'_>, times: u64, now_unix_s: i64) {
        let mut pending = lock(&self.pending);
        pending.end_windows(now_unix_s, false);
        if pending.is_to_be_written(event, times) {
            pending.push(event, now_unix_s);
        }
    }

    /// Other bounds from now on. Older files beyond a lowered number stay until somebody removes them.
    pub fn set_options(&self, options: AuditOptions) {
        lock(&self.file).set_options(options);
    }

    /// Writes what was noted.
    ///
    /// # Errors
    /// The file cannot be written; the lines are lost, and counted in the next one.
    pub fn flush(&self, now_unix_s: i64) -> io::Result<()> {
        self.write(now_unix_s, false)
    }

    /// Writes what was noted with all counts, and waits until it is on disk; for a stop.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, now_unix_s: i64) -> io::Result<()> {
        self.write(now_unix_s, true)?;
        lock(&self.file).sync()
    }

    fn write(&self, now_unix_s: i64, finish: bool) -> io::Result<()> {
        // Taken first, so that two flushes keep the order of their lines.
        let mut file = lock(&self.file);
        let lines = lock(&self.pending).take(now_unix_s, finish);
        let written = file.append(&lines);
        if written.is_err() {
            lock(&self.pending).lost += lines.iter().filter(|byte| **byte == b'\n').count() as u64;
        }
        written
    }
}

impl Pending {
    fn is_to_be_written(&mut self, event: &Event<'_>, times: u64) -> bool {
        let Some((group, kind)) = event.repeats(&self.hasher) else {
            return true;
        };
        let repeats = match group {
            Group::Refusals => &mut self.refusals,
            Group::Calls => &mut self.calls,
        };
        repeats.is_first(kind, times, || to_json(event))
    }

    fn end_windows(&mut self, now_unix_s: i64, anyhow: bool) {
        let mut ended = self.refusals.end_window(now_unix_s, anyhow);
        ended.extend(self.calls.end_window(now_unix_s, anyhow));
        for Repeated { first, times } in &ended {
            let of = first.as_deref().and_then(|json| serde_json::from_str(json).ok());
            self.push(&Summary::Repeated { times: *times, of }, now_unix_s);
        }
    }

    fn take(&mut self, now_unix_s: i64, finish: bool) -> Vec<u8> {
        self.end_windows(now_unix_s, finish);
        let mut lines = std::mem::take(&mut self.lines);
        if self.lost > 0 {
            let lost = Summary::LinesLost {
                lines: std::mem::take(&mut self.lost),
            };
            append_line(&mut lines, &lost, now_unix_s);
        }
        lines
    }

    fn push(&mut self, event: &impl Serialize, now_unix_s: i64) {
        let before = self.lines.len();
        append_line(&mut self.lines, event, now_unix_s);
        if self.lines.len() > MAX_PENDING_BYTES {
            self.lines.truncate(before);
            self.lost += 1;
        }
    }
}

fn append_line(lines: &mut Vec<u8>, event: &impl Serialize, now_unix_s: i64) {
    let time = OffsetDateTime::from_unix_timestamp(now_unix_s)
        .ok()
        .and_then(|time| time.format(&Rfc3339).ok());
    let line = Line {
        time: time.as_deref().unwrap_or("unknown"),
        event,
    };
    lines.extend_from_slice(to_json(&line).as_bytes());
    lines.push(b'\n');
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("text and numbers are JSON")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
