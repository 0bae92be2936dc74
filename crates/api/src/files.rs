//! Files that outlive a power cut: each has its old content or the new one, never a part.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::wrong::{Done, Wrong};

/// Runs what reads or writes files, which blocks.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Done<T> {
    let worked = tokio::task::spawn_blocking(work).await;
    worked
        .map_err(|error| Wrong::here(error.to_string()))?
        .map_err(Wrong::here)
}

/// Writes a file below the data directory `data`, readable by its owner alone; once this returns, it survives a power
/// cut.
pub(crate) fn replace(data: &Path, path: &Path, content: &[u8]) -> Result<(), String> {
    let directory = path.parent().expect("a file has a directory");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    let temporary = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    };
    made.and_then(|()| write()).map_err(|error| named(path, &error))?;
    sync_directories(data, path)
}

/// Removes a file below the data directory `data`; whether it was there.
pub(crate) fn remove(data: &Path, path: &Path) -> Result<bool, String> {
    match std::fs::remove_file(path) {
        Ok(()) => sync_directories(data, path).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(named(path, &error)),
    }
}

/// Syncs the directory of a file and those above it up to the data directory: any of them may be new.
fn sync_directories(data: &Path, path: &Path) -> Result<(), String> {
    path.ancestors()
        .skip(1)
        .take_while(|directory| directory.starts_with(data))
        .try_for_each(|directory| File::open(directory)?.sync_all())
        .map_err(|error| named(path, &error))
}

pub(crate) fn named(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
