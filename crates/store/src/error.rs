//! What can go wrong, each with where and what.

use std::io;
use std::path::{Path, PathBuf};

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An option is out of its range.
    #[error("the log's options cannot be used: {0}")]
    Options(String),
    /// Another process has it open.
    #[error("{dir}: the log is in use by process {pid}; stop that first or choose another directory")]
    Locked {
        /// Directory of the log.
        dir: PathBuf,
        /// The process that holds the lock, as its lock file says.
        pid: String,
    },
    /// The directory or the file system cannot be written.
    #[error("{path}: cannot be written ({source}); the log needs a writable directory")]
    ReadOnly {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Written by another version of this program.
    #[error(
        "{path}: says {found:?}, this program reads {supported:?}; run the version that wrote it, or begin with an empty directory"
    )]
    Version {
        /// The file that says so.
        path: PathBuf,
        /// What it says.
        found: String,
        /// What this program reads and writes.
        supported: &'static str,
    },
    /// Any other failure of the file system.
    #[error("{path}: {doing} failed: {source}")]
    Io {
        /// File or directory.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Names the file and what was being done, for a failure at opening.
pub(crate) fn io_error(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => OpenError::ReadOnly { path, source },
        _ => OpenError::Io { path, doing, source },
    }
}

/// Why a record was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The disk or the log's limit is full; what frees space is still taken.
    #[error("the disk or the log's limit is full")]
    Full,
    /// As much as may wait in memory waits for the commit thread.
    #[error("the disk is slower than what is written: pending_bytes are waiting")]
    Behind,
    /// No batch could hold the record.
    #[error("the record is longer than pending_bytes")]
    TooLarge,
    /// The log stopped after a failed write or sync; see [`Event::Stopped`](crate::Event::Stopped).
    #[error("the log has stopped after a failed write or sync")]
    Stopped,
}

/// Why the log stopped. A failed sync is never tried again: the kernel may have dropped the pages and would then
/// call the next one good.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {doing} failed: {reason}; the log has stopped, nothing further is durable")]
pub struct Stopped {
    /// File name within the log's directory.
    pub file: String,
    /// What was being done.
    pub doing: &'static str,
    /// What the system said.
    pub reason: String,
}

/// Names the file and what was being done, for a failure that stops the log.
pub(crate) fn stopped(file: &str, doing: &'static str) -> impl FnOnce(io::Error) -> Stopped {
    let file = file.to_owned();
    move |error| Stopped {
        file,
        doing,
        reason: error.to_string(),
    }
}

/// What should not be, and does not stop the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A segment that is to be emptied cannot be read. It stays, as do those behind it, and is tried again, in the end
    /// once a minute.
    #[error("{file}: cannot be read to be emptied ({reason}); it stays and is tried again")]
    Unreadable {
        /// File name within the log's directory.
        file: String,
        /// What the system said.
        reason: String,
    },
    /// Records of a segment that was emptied: which ones they were cannot be told.
    #[error("{0}")]
    Damaged(Damage),
    /// The owner released values of a segment more than once. It was removed only after all in it had been offered.
    #[error("{file}: values in it were released more than once; it was offered whole before it was removed")]
    Miscounted {
        /// File name within the log's directory.
        file: String,
    },
}

/// Bytes of the log that do not read back as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// File name within the log's directory.
    pub file: String,
    /// Offset in that file.
    pub offset: u64,
    /// Bytes that were skipped.
    pub bytes: u64,
    /// What they were.
    pub kind: DamageKind,
}

/// What was found damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// One or more records whose checksums do not match.
    Record,
    /// A record that the system did not read, again and again for a minute.
    Unreadable,
    /// A segment's header: the whole segment is unreadable.
    SegmentHeader,
    /// The index of a segment; its records were read instead, nothing is lost.
    Index,
    /// A segment that should lie between two others.
    MissingSegment,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Damage {
            file,
            offset,
            bytes,
            kind,
        } = self;
        match kind {
            DamageKind::Record => write!(
                f,
                "{file}: {bytes} bytes at offset {offset} are damaged and were skipped"
            ),
            DamageKind::Unreadable => write!(f, "{file}: {bytes} bytes at offset {offset} cannot be read"),
            DamageKind::SegmentHeader => write!(f, "{file}: its header is damaged, its {bytes} bytes were skipped"),
            DamageKind::Index => write!(
                f,
                "{file}: its index at offset {offset} is damaged, its records were read"
            ),
            DamageKind::MissingSegment => write!(f, "{file}: is missing"),
        }
    }
}
