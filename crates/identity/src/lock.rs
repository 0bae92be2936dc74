//! One program at a time owns a data directory's identities.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::files;

/// Held by a running edge for its data directory, and by a command for the moment that it writes there itself.
/// Whoever is refused speaks to the holder's control socket. The kernel releases it when the process dies.
///
/// The message log has its own lock, so that a log directory elsewhere is guarded too.
#[derive(Debug)]
pub struct EdgeLock {
    // Held for its lock, which ends when it is closed.
    _file: File,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{path} is locked by process {}: an edge runs on this data directory; stop it, or use its control socket",
        pid.map_or("?".into(), |pid| pid.to_string()))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder, where it has said so.
        pid: Option<u32>,
    },
    /// The file cannot be made, written or locked.
    #[error("{path}: {source}; the data directory must be writable")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl EdgeLock {
    /// Takes the lock of `directory`, which is created if it is missing. Does not wait.
    ///
    /// # Errors
    /// Another process holds it, or the directory cannot be written.
    pub fn acquire(directory: &Path) -> Result<Self, LockError> {
        let path = directory.join("edge.lock");
        let open = || files::create_directory(directory).and_then(|()| files::open_private(&path, false));
        let failed = |source| LockError::Io {
            path: path.clone(),
            source,
        };
        let mut file = open().map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    pid: read_pid(&mut file),
                    path,
                });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        write_pid(&mut file).map_err(failed)?;
        Ok(EdgeLock { _file: file })
    }
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_holder_is_told_the_process_of_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let lock = EdgeLock::acquire(directory.path()).unwrap();
        let refused = EdgeLock::acquire(directory.path()).unwrap_err();
        assert!(
            matches!(refused, LockError::Held { pid: Some(pid), .. } if pid == std::process::id()),
            "{refused}"
        );
        drop(lock);
        EdgeLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let refused = EdgeLock::acquire(Path::new("/proc/self")).unwrap_err().to_string();
        assert!(refused.starts_with("/proc/self/edge.lock: "), "{refused}");
    }
}
