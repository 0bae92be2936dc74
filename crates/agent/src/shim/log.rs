//! A container's output, line by line, in as many bytes as it may take.
//!
//! A line is `2026-11-23T07:30:33.123456Z stdout F text`, as Kubernetes keeps it: time, stream, `F` for a whole line or
//! `P` for a part of one that goes on in the next, and the text.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::instance::LogLimits;

/// A longer line is kept in parts.
const PART_BYTES: usize = 16 << 10;

/// The log of one container, which two streams write to.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    limits: LogLimits,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    file: File,
    bytes: u64,
}

impl Log {
    /// Goes on with the log of this path.
    pub(super) fn open(path: &Path, limits: LogLimits) -> io::Result<Log> {
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(Log {
            path: path.to_owned(),
            limits,
            current: Mutex::new(Current { file, bytes }),
        })
    }

    /// Keeps all that comes, until it ends. Where it cannot be kept it is lost, and read all the same: a container is
    /// not held up by its log.
    pub(super) fn keep(&self, stream: &str, mut output: impl Read) {
        let mut buffer = vec![0; PART_BYTES];
        let mut filled = 0;
        loop {
            let read = match output.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            filled += read;
            let whole = buffer[..filled]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            for line in buffer[..whole].split_inclusive(|byte| *byte == b'\n') {
                self.put(stream, 'F', &line[..line.len() - 1]);
            }
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
            if filled == buffer.len() {
                self.put(stream, 'P', &buffer);
                filled = 0;
            }
        }
        if filled > 0 {
            self.put(stream, 'F', &buffer[..filled]);
        }
    }

    fn put(&self, stream: &str, tag: char, text: &[u8]) {
        let now = OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default();
        let mut line = format!("{now} {stream} {tag} ").into_bytes();
        line.extend_from_slice(text);
        line.push(b'\n');
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.bytes > 0
            && current.bytes + line.len() as u64 > self.limits.file_bytes
            && let Ok(file) = self.rotate()
        {
            *current = Current { file, bytes: 0 };
        }
        if current.file.write_all(&line).is_ok() {
            current.bytes += line.len() as u64;
        }
    }

    /// The oldest file goes, each other becomes one older, and a new one begins.
    fn rotate(&self) -> io::Result<File> {
        let older = |age: u32| match age {
            0 => self.path.clone(),
            age => self.path.with_extension(age.to_string()),
        };
        for age in (1..self.limits.files).rev() {
            match fs::rename(older(age - 1), older(age)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.limits.files <= 1 {
            fs::remove_file(&self.path)?;
        }
        append_to(&self.path)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LogLimits = LogLimits {
        file_bytes: 200,
        files: 3,
    };

    fn lines(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| line.split_once(' ').unwrap().1.to_owned())
            .collect()
    }

    #[test]
    fn each_line_is_kept_with_its_stream_and_the_last_one_though_it_does_not_end() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        let log = Log::open(&path, LIMITS).unwrap();
        log.keep("stdout", &b"one\n\ntwo"[..]);
        log.keep("stderr", &b"three\n"[..]);
        assert_eq!(
            lines(&path),
            ["stdout F one", "stdout F ", "stdout F two", "stderr F three"]
        );
    }

    #[test]
    fn a_long_line_is_kept_in_parts() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        let limits = LogLimits {
            file_bytes: 1 << 20,
            ..LIMITS
        };
        let long = "x".repeat(PART_BYTES + 3) + "\n";
        Log::open(&path, limits).unwrap().keep("stdout", long.as_bytes());
        let kept = lines(&path);
        assert_eq!(kept.len(), 2);
        assert!(kept[0].starts_with("stdout P x") && kept[1] == "stdout F xxx");
    }

    #[test]
    fn a_flood_takes_no_more_files_and_bytes_than_it_may() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        let flood: String = (0..100).map(|number| format!("{number}\n")).collect();
        Log::open(&path, LIMITS).unwrap().keep("stdout", flood.as_bytes());
        let mut files: Vec<_> = fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap())
            .collect();
        files.sort_by_key(fs::DirEntry::file_name);
        assert_eq!(files.len(), 3);
        assert!(files.iter().all(|file| file.metadata().unwrap().len() <= 200));
        assert_eq!(lines(&path).last().unwrap(), "stdout F 99");
    }

    #[test]
    fn a_log_that_was_there_goes_on_within_its_bounds() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        for number in 0..20 {
            Log::open(&path, LIMITS)
                .unwrap()
                .keep("stdout", format!("{number}\n").as_bytes());
        }
        assert!(fs::metadata(&path).unwrap().len() <= 200);
        assert_eq!(lines(&path).last().unwrap(), "stdout F 19");
    }
}
