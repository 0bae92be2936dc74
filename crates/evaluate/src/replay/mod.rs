//! Real readings to send: rows of a recorded data set, or of this machine itself.

mod columns;
mod machine;
mod rows;
mod timestamp;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};

use crate::rtt::{Reading, Trace};
pub use machine::{Machine, record};
pub use rows::Rows;

/// Readings that a replay holds at most; later rows are left out and counted.
pub const MAX_READINGS: usize = 1_000_000;
/// Bytes of a file that are read at most: an unclosed quote or a device file must not fill the memory.
pub const MAX_BYTES: u64 = 256 << 20;
/// Rejected rows that are named; all are counted.
pub const MAX_NAMED: usize = 10;

/// A data set ready to be sent, and what of it cannot be.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Its readings.
    pub trace: Trace,
    /// Rows that were left out.
    pub rejected: Rejected,
}

/// Rows that make no reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected {
    /// How many.
    pub count: usize,
    /// The first of them: line and reason.
    pub named: Vec<(u64, String)>,
}

/// Who sends a data set, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Devices that take the rows in turn.
    pub devices: u32,
    /// How many times faster than recorded.
    pub speed: f64,
}

/// Why a data set cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file is no table of readings.
    #[error("{}: {reason}", path.display())]
    NoReadings {
        /// The file.
        path: PathBuf,
        /// What is missing, and what would be right.
        reason: String,
    },
}

/// Reads the rows of a CSV file as readings that the devices take in turn, with the times of their column, `speed`
/// times faster. A row earlier than the one before is sent right after it.
///
/// # Errors
/// The file cannot be read, is larger than [`MAX_BYTES`], has no column of times or not one good row.
pub fn read(path: &Path, pace: Pace) -> Result<Replay, ReplayError> {
    let unreadable = |error| ReplayError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let no_readings = |reason: String| ReplayError::NoReadings {
        path: path.to_owned(),
        reason,
    };
    let file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    if bytes > MAX_BYTES {
        return Err(no_readings(format!(
            "{bytes} bytes, at most {MAX_BYTES} can be replayed"
        )));
    }
    let mut hashed = Hashed {
        from: file.take(MAX_BYTES),
        context: Context::new(&SHA256),
    };
    let (readings, rejected) = readings(&mut hashed, pace).map_err(no_readings)?;
    // What lies behind the last row that was taken belongs to the file's hash too.
    io::copy(&mut hashed, &mut io::sink()).map_err(unreadable)?;
    let source = path
        .file_name()
        .map_or_else(|| path.to_owned(), PathBuf::from)
        .display()
        .to_string();
    Ok(Replay {
        trace: Trace {
            source,
            sha256: hexadecimal(hashed.context),
            readings,
        },
        rejected,
    })
}

fn readings(from: impl Read, pace: Pace) -> Result<(Vec<Reading>, Rejected), String> {
    let mut rows = Rows::new(from)?;
    let mut rejected = Rejected::default();
    let mut readings: Vec<Reading> = Vec::new();
    let mut first_ns = None;
    for row in &mut rows {
        let row = match row {
            Ok(row) if readings.len() < MAX_READINGS => row,
            Ok(row) => {
                rejected.add(
                    row.line,
                    &format!("over the {MAX_READINGS} readings that a replay holds"),
                );
                continue;
            }
            Err(bad) => {
                rejected.add(bad.line, &bad.reason);
                continue;
            }
        };
        let since_first = row.time_ns - *first_ns.get_or_insert(row.time_ns);
        let scaled_ns = (since_first.max(0) as f64 / pace.speed) as u64;
        let before_ns = readings.last().map_or(0, |before| before.at_ns);
        let device = (readings.len() % pace.devices.max(1) as usize) as u32;
        readings.push(Reading {
            at_ns: scaled_ns.max(before_ns),
            device,
            json: row.json,
        });
    }
    if readings.is_empty() {
        return Err(format!("not one row is a reading; {rejected}"));
    }
    Ok((readings, rejected))
}

impl Rejected {
    fn add(&mut self, line: u64, reason: &str) {
        self.count += 1;
        if self.named.len() < MAX_NAMED {
            self.named.push((line, reason.to_owned()));
        }
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows left out", self.count)?;
        for (line, reason) in &self.named {
            write!(f, "\n  line {line}: {reason}")?;
        }
        if self.count > self.named.len() {
            write!(f, "\n  and {} more", self.count - self.named.len())?;
        }
        Ok(())
    }
}

/// Hashes what is read through it.
struct Hashed<R> {
    from: R,
    context: Context,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.context.update(&buffer[..count]);
        Ok(count)
    }
}

fn hexadecimal(context: Context) -> String {
    context
        .finish()
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests;
