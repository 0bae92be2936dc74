//! The file system as the log uses it, below a trait so that tests can break it at every step.

mod real;
#[cfg(test)]
pub(crate) mod simulated;

use std::fmt::Debug;
use std::io;

pub(crate) use real::RealDisk;

/// One directory of files.
pub(crate) trait Disk: Send + Sync + Debug {
    /// Names of the files in it.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A new file of `bytes` zeros whose blocks are allocated; one of that name is replaced.
    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>>;
    fn open(&self, name: &str) -> io::Result<Box<dyn File>>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals survive a power cut.
    fn sync_directory(&self) -> io::Result<()>;
}

/// An open file.
pub(crate) trait File: Send + Sync + Debug {
    fn len(&self) -> io::Result<u64>;
    /// Fills `buffer` from `offset`; fewer bytes only where the file ends.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the content, and the length needed to read it, survive a power cut.
    fn sync(&self) -> io::Result<()>;
    fn truncate(&self, bytes: u64) -> io::Result<()>;
}

/// Whether the failure is for want of space, which may come back, rather than of the device.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
