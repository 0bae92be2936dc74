//! The program's log: to standard error, and its end kept for a support bundle.
//!
//! A thread of its own writes to standard error. What nobody takes there in time is lost and counted; nothing of the
//! edge waits for it.

use std::io;

use anyhow::Context;
use api::LogTail;
use tracing::Metadata;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::writer::MakeWriterExt;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, Registry, reload};

use super::config::{Log, LogFormat};

/// Lines that may wait to be written.
const WAITING_LINES: usize = 4096;

/// What a line can say, from little to much; "off" is none.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The parts that say anything.
const PARTS: [&str; 4] = [ACCESS, "api", "hub", "selvedge"];

/// The part that has a line for each request of a service that asks for it (`mesh`): of the end that is kept it would
/// leave nothing else.
const ACCESS: &str = "access";

/// The program's log, once it has started.
pub(crate) struct Logging {
    /// Its end.
    pub(crate) tail: LogTail,
    /// Counts the lines that were lost.
    pub(crate) losses: ErrorCounter,
    filter: reload::Handle<EnvFilter, Registry>,
    /// Writes what still waits when the program ends.
    _writer: WorkerGuard,
}

impl Logging {
    /// Starts the log.
    pub(crate) fn start(config: &Log) -> anyhow::Result<Self> {
        let tail = LogTail::default();
        let (writer, guard) = writer(io::stderr());
        let losses = writer.error_counter();
        let kept = tail.clone();
        let lines = fmt::layer()
            .with_ansi(false)
            .with_writer((move || kept.clone()).with_filter(is_kept).and(writer));
        let lines = match config.format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().boxed(),
        };
        let (filter, handle) = reload::Layer::new(filter(config)?);
        tracing_subscriber::registry().with(filter).with(lines).init();
        Ok(Self {
            tail,
            losses,
            filter: handle,
            _writer: guard,
        })
    }

    /// Another level from now on.
    pub(crate) fn set_level(&self, config: &Log) -> anyhow::Result<()> {
        Ok(self.filter.reload(filter(config)?)?)
    }
}

fn is_kept(line: &Metadata<'_>) -> bool {
    line.target() != ACCESS
}

fn writer(to: impl io::Write + Send + 'static) -> (NonBlocking, WorkerGuard) {
    NonBlockingBuilder::default()
        .lossy(true)
        .buffered_lines_limit(WAITING_LINES)
        .thread_name("log")
        .finish(to)
}

fn filter(config: &Log) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(&config.level).with_context(|| format!("log.level {:?}", config.level))
}

/// Whether `level` is one, or several by part, such as `info,hub=debug`. What else the filter would take as the name of
/// a part that there is none of, and be silent.
pub(super) fn check_level(level: &str) -> Result<(), String> {
    level.split(',').map(str::trim).try_for_each(|directive| {
        let (part, level) = match directive.split_once('=') {
            Some((part, level)) => (Some(part), level),
            None => (None, directive),
        };
        if let Some(part) = part {
            known("part", part.split("::").next().unwrap_or_default(), &PARTS)?;
        }
        known("level", &level.to_ascii_lowercase(), &LEVELS)
    })
}

fn known(what: &str, found: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&found) {
        return Ok(());
    }
    Err(match manifest::nearest(found, known.iter().copied()) {
        Some(near) => format!("unknown {what} \"{found}\"; did you mean \"{near}\"?"),
        None => format!("unknown {what} \"{found}\"; there are {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn levels_and_parts_are_known_by_name() {
        for good in ["info", "off", "WARN", "info,hub=debug", "warn, hub::door=trace,api=off"] {
            assert_eq!(check_level(good), Ok(()), "{good}");
        }
        let check = |level: &str, expected: &str| assert_eq!(check_level(level), Err(expected.to_owned()));
        check("wran", "unknown level \"wran\"; did you mean \"warn\"?");
        check("info,hb=debug", "unknown part \"hb\"; did you mean \"hub\"?");
        check(
            "info,hub=loud",
            "unknown level \"loud\"; there are off, error, warn, info, debug, trace",
        );
        check("", "unknown level \"\"; there are off, error, warn, info, debug, trace");
    }

    /// Takes a line only when told to.
    struct Stalled(mpsc::Receiver<()>);

    impl Write for Stalled {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_reader_that_stalls_does_not_take_is_lost_and_counted() {
        let (release, stalled) = mpsc::sync_channel::<()>(0);
        let (mut writer, _guard) = writer(Stalled(stalled));
        for _ in 0..WAITING_LINES + 10 {
            writer.write_all(b"line\n").unwrap();
        }
        let lost = writer.error_counter().dropped_lines();
        assert!((9..=10).contains(&lost), "{lost}: one may be in the writer's hand");
        drop(release);
    }
}
