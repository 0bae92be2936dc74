//! The program's log: to standard error, and its end kept for a support bundle.

use std::io::{self, Write};

use anyhow::Context;
use api::LogTail;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::config::{Log, LogFormat};

/// Writes to both places.
#[derive(Clone)]
struct Tee(LogTail);

impl Write for Tee {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(bytes)?;
        // A log that nobody reads any more does not end the edge.
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl MakeWriter<'_> for Tee {
    type Writer = Tee;

    fn make_writer(&self) -> Tee {
        self.clone()
    }
}

/// Starts the log; its end.
pub(crate) fn start(config: &Log) -> anyhow::Result<LogTail> {
    let filter = EnvFilter::try_new(&config.level).with_context(|| format!("log.level {:?}", config.level))?;
    let tail = LogTail::default();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(Tee(tail.clone()));
    match config.format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    Ok(tail)
}
