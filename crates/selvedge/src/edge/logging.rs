//! The program's log: to standard error, and its end kept for a support bundle.

use std::io::{self, Write};

use anyhow::Context;
use api::LogTail;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{EnvFilter, Registry, reload};

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

/// The program's log, once it has started.
pub(crate) struct Logging {
    /// Its end.
    pub(crate) tail: LogTail,
    filter: reload::Handle<EnvFilter, Registry>,
}

impl Logging {
    /// Starts the log.
    pub(crate) fn start(config: &Log) -> anyhow::Result<Self> {
        let tail = LogTail::default();
        let lines = fmt::layer().with_ansi(false).with_writer(Tee(tail.clone()));
        let lines = match config.format {
            LogFormat::Text => lines.boxed(),
            LogFormat::Json => lines.json().boxed(),
        };
        let (filter, handle) = reload::Layer::new(filter(config)?);
        tracing_subscriber::registry().with(filter).with(lines).init();
        Ok(Self { tail, filter: handle })
    }

    /// Another level from now on.
    pub(crate) fn set_level(&self, config: &Log) -> anyhow::Result<()> {
        Ok(self.filter.reload(filter(config)?)?)
    }
}

fn filter(config: &Log) -> anyhow::Result<EnvFilter> {
    EnvFilter::try_new(&config.level).with_context(|| format!("log.level {:?}", config.level))
}
