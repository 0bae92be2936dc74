//! Removes what containers have written, however deep it is.

use std::fs;
use std::io;
use std::path::Path;

/// Removes a directory with all that is in it; no link in it is followed. Nobody writes there any more.
///
/// Directories are moved up and emptied one by one, so that it takes neither memory nor descriptors for each level, and
/// no path is too long: whoever wrote them may have nested some ten thousand.
///
/// # Errors
/// Of a file; `NotFound` where there is no such directory.
pub(crate) fn remove_tree(root: &Path) -> io::Result<()> {
    let mut moved: u64 = 0;
    loop {
        let mut is_empty = true;
        for entry in fs::read_dir(root)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                fs::remove_file(entry.path())?;
                continue;
            }
            is_empty = false;
            for below in fs::read_dir(entry.path())? {
                let below = below?;
                if !below.file_type()?.is_dir() {
                    fs::remove_file(below.path())?;
                    continue;
                }
                move_up(&below.path(), root, &mut moved)?;
            }
            fs::remove_dir(entry.path())?;
        }
        if is_empty {
            return fs::remove_dir(root);
        }
    }
}

/// To a name that nothing there has.
fn move_up(directory: &Path, root: &Path, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        let place = root.join(format!(".gone-{moved}"));
        if place.symlink_metadata().is_err() {
            return fs::rename(directory, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn all_of_a_tree_goes_and_nothing_that_it_leads_to() {
        let place = tempfile::tempdir().unwrap();
        let (root, other) = (place.path().join("root"), place.path().join("other"));
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir_all(root.join(".gone-1")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "1").unwrap();
        fs::write(root.join("a/b/file"), "1").unwrap();
        symlink(&other, root.join("a/b/link")).unwrap();
        symlink(&other, root.join("link")).unwrap();
        remove_tree(&root).unwrap();
        assert!(!root.exists() && other.join("kept").exists());
        assert_eq!(remove_tree(&root).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_tree_that_is_deeper_than_any_path_goes_on_a_small_stack() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        fs::create_dir(&root).unwrap();
        // From below: no path is long.
        for _ in 0..5_000 {
            let next = place.path().join("next");
            fs::create_dir(&next).unwrap();
            fs::rename(&root, next.join("d")).unwrap();
            fs::rename(&next, &root).unwrap();
        }
        let work = move || remove_tree(&root).unwrap();
        let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(work);
        thread.unwrap().join().unwrap();
    }
}
