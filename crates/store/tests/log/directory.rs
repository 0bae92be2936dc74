//! The directory of a log: locked, of another version, not writable, full.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::owner::{replay, small, wait_until};
use store::{Durability, Kind, Log, OpenError, Options};

fn error_of(dir: &Path) -> OpenError {
    Log::open(dir, small(Durability::Os)).expect_err("it must not open")
}

#[test]
fn a_directory_in_use_is_refused_with_the_process_that_uses_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = Log::open(dir.path(), small(Durability::Os)).unwrap();
    let error = error_of(dir.path());
    assert!(
        matches!(&error, OpenError::Locked { pid, .. } if *pid == std::process::id().to_string()),
        "{error}"
    );
    assert!(error.to_string().contains("in use by process"), "{error}");
    drop(first);
    Log::open(dir.path(), small(Durability::Os)).unwrap();
}

#[test]
fn another_version_is_refused_with_what_was_found_and_what_would_be_right() {
    let dir = tempfile::tempdir().unwrap();
    Log::open(dir.path(), small(Durability::Os)).unwrap().0.close().unwrap();
    for other in ["selvedge log 1", "selvedge log 7"] {
        fs::write(dir.path().join("format"), other).unwrap();
        let error = error_of(dir.path());
        assert!(
            matches!(&error, OpenError::Version { found, .. } if found == other),
            "{error}"
        );
        assert!(error.to_string().contains("selvedge log 2"), "{error}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let read_only = dir.path().join("log");
    fs::create_dir(&read_only).unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&read_only, Permissions::from_mode(0o555)).unwrap();
    // Permissions bind no superuser: a thread that is nobody asks.
    let error = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                if rustix::process::geteuid().is_root() {
                    let nobody = rustix::process::Uid::from_raw(65534);
                    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                }
                error_of(&read_only)
            })
            .join()
            .unwrap()
    });
    assert!(
        matches!(&error, OpenError::ReadOnly { path, .. } if path.ends_with("lock")),
        "{error}"
    );
    assert!(error.to_string().contains("needs a writable directory"), "{error}");
}

#[test]
fn options_out_of_range_are_refused_with_the_range() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        pending_bytes: 1 << 30,
        ..small(Durability::Os)
    };
    let error = Log::open(dir.path(), options).expect_err("it must not open");
    assert!(
        error
            .to_string()
            .contains("pending_bytes is 1073741824; it must be from 4096 to half a segment"),
        "{error}"
    );
}

#[test]
fn a_directory_where_a_file_stands_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(error_of(&file).to_string().contains("creating the directory failed"));
}

#[test]
fn a_cut_off_file_is_damage_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(dir.path(), small(Durability::Os)).unwrap();
    let mut last = store::Position::NONE;
    for n in 0..50_u8 {
        last = log.append(Kind::Value, &[n], &[n; 100]).unwrap();
    }
    wait_until(&mut log, |log, _| log.durable() >= last);
    log.close().unwrap();
    let file = dir.path().join("0000000000000001.log");
    let whole = fs::read(&file).unwrap();
    for len in [0, 10, 47, 2047, 4096, 4100, 5000, whole.len() - 1] {
        fs::write(&file, &whole[..len]).unwrap();
        let (log, recovery) = Log::open(dir.path(), small(Durability::Os)).unwrap();
        let (seen, _) = replay(recovery);
        assert!(seen.len() <= 50);
        drop(log);
    }
}
