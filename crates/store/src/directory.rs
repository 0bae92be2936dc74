//! The log's directory: who uses it, and which version wrote it.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::OpenError;
use crate::error::io_error;

const LOCK: &str = "lock";
const FORMAT: &str = "format";
/// What the format file says. The number grows with every change of the bytes of segments, or of what the owner
/// writes into its records, that this program could not read.
const FORMAT_SUPPORTED: &str = "selvedge log 2";
/// More of a format file is not read.
const FORMAT_BYTES_MAX: u64 = 256;

/// Holds the directory until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: fs::File,
}

/// Creates the directory if need be, locks it, and checks its version.
pub(crate) fn prepare(dir: &Path) -> Result<Lock, OpenError> {
    fs::create_dir_all(dir).map_err(io_error(dir, "creating the directory"))?;
    let lock = acquire(dir)?;
    check_format(dir)?;
    Ok(lock)
}

fn acquire(dir: &Path) -> Result<Lock, OpenError> {
    let path = dir.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(io_error(&path, "opening the lock"))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Err(locked(dir, &file)),
        Err(error) => return Err(io_error(&path, "locking")(error.into())),
    }
    let write = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    write.map_err(io_error(&path, "writing the process id"))?;
    Ok(Lock { _file: file })
}

fn locked(dir: &Path, file: &fs::File) -> OpenError {
    let mut pid = String::new();
    // The lock holds whatever the file says: who holds it is a help only.
    let _ = file.take(FORMAT_BYTES_MAX).read_to_string(&mut pid);
    OpenError::Locked {
        dir: dir.to_owned(),
        pid: pid.trim().to_owned(),
    }
}

fn check_format(dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(FORMAT);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(&path).map_err(io_error(&path, "opening"))?;
    let mut found = Vec::new();
    (&file)
        .take(FORMAT_BYTES_MAX)
        .read_to_end(&mut found)
        .map_err(io_error(&path, "reading"))?;
    let found = String::from_utf8_lossy(&found).trim().to_owned();
    match found.as_str() {
        FORMAT_SUPPORTED => Ok(()),
        // New, or a crash came between its creation and its first byte: then there is no segment either.
        "" => {
            let write = writeln!(file, "{FORMAT_SUPPORTED}").and_then(|()| file.sync_all());
            write.map_err(io_error(&path, "writing"))
        }
        _ => Err(OpenError::Version {
            path,
            found,
            supported: FORMAT_SUPPORTED,
        }),
    }
}
