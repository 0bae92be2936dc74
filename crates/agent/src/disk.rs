//! What a container may take of the disk, and what it has taken.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What a container may take of the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskLimits {
    /// Beside its volumes.
    pub own_bytes: Option<u64>,
    /// In volumes that go with its pod, by their names.
    pub scratch_bytes: BTreeMap<String, u64>,
}

impl DiskLimits {
    pub(crate) fn is_none(&self) -> bool {
        *self == DiskLimits::default()
    }
}

/// What an entry of a directory takes beside its content: an inode can be all that is used up.
const ENTRY_BYTES: u64 = 256;
const BLOCK_BYTES: u64 = 512;

/// What all below a directory takes of the disk, whoever changes it meanwhile; no link is followed. It is not counted
/// on once it is more than `bytes_max`, and what is nested too deep for any path counts as more than that. A directory
/// that is not there takes nothing.
///
/// # Errors
/// Of the disk.
pub(crate) fn taken_below(root: &Path, bytes_max: u64) -> io::Result<u64> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(rustix::fs::CWD, root, flags, Mode::empty());
    let root = match opened {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(0),
        Err(errno) => return Err(errno.into()),
    };
    let mut bytes = 0;
    let mut left = vec![PathBuf::from(".")];
    while let Some(path) = left.pop() {
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let directory = match openat2(&root, &path, flags, Mode::empty(), within) {
            Ok(directory) => directory,
            Err(Errno::NAMETOOLONG) => return Ok(u64::MAX),
            // It was removed, or something else took its place.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => continue,
            Err(errno) => return Err(errno.into()),
        };
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let about = match statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(about) => about,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let is_directory = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
            // One that has several names is counted by its part.
            let names = if is_directory {
                1
            } else {
                (about.st_nlink as u64).max(1)
            };
            bytes += ENTRY_BYTES + about.st_blocks as u64 * BLOCK_BYTES / names;
            if bytes > bytes_max {
                return Ok(bytes);
            }
            if is_directory {
                left.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use super::*;

    const NO_LIMIT: u64 = u64::MAX - 1;

    #[test]
    fn what_is_written_counts_once_and_nothing_that_links_lead_to() {
        let place = tempfile::tempdir().unwrap();
        let (root, other) = (place.path().join("root"), place.path().join("other"));
        fs::create_dir_all(root.join("a/b")).unwrap();
        let before = taken_below(&root, NO_LIMIT).unwrap();
        fs::write(root.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        fs::hard_link(root.join("a/b/file"), root.join("a/same")).unwrap();
        File::create(root.join("sparse")).unwrap().set_len(1 << 40).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("large"), vec![1; 4 << 20]).unwrap();
        symlink(&other, root.join("link")).unwrap();
        let taken = taken_below(&root, NO_LIMIT).unwrap() - before;
        assert!((1 << 20..3 << 19).contains(&taken), "{taken}");
        assert!(taken_below(&root, 1_000).unwrap() > 1_000);
        assert_eq!(taken_below(&root.join("none"), NO_LIMIT).unwrap(), 0);
    }

    #[test]
    fn files_without_content_count_too() {
        let place = tempfile::tempdir().unwrap();
        for number in 0..1_000 {
            File::create(place.path().join(number.to_string())).unwrap();
        }
        assert!(taken_below(place.path(), NO_LIMIT).unwrap() >= 1_000 * ENTRY_BYTES);
    }

    #[test]
    fn nothing_is_hidden_by_nesting_it() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir(&root).unwrap();
        // From below: no path is long.
        for _ in 0..3_000 {
            let next = place.path().join("next");
            fs::create_dir(&next).unwrap();
            fs::rename(&root, next.join("d")).unwrap();
            fs::rename(&next, &root).unwrap();
        }
        assert_eq!(taken_below(&root, NO_LIMIT).unwrap(), u64::MAX);
        crate::tree::remove_tree(&root).unwrap();
    }
}
