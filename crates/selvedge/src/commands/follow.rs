//! A log as it is written: what is there of it, and then what comes.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::engine;
use agent::instance::Instance;
use anyhow::Context;
use tokio::time::{Instant, sleep, timeout_at};

/// Of what is there; of more only the end is shown.
const BYTES_MAX: usize = 4 << 20;

/// What a container says, wherever it is kept.
pub(super) enum Output {
    File(Followed),
    InEngine { followed: engine::Followed, is_over: bool },
}

impl Output {
    /// Of a container by its files, from so many lines before its end on.
    pub(super) async fn open(containers: &Path, name: &str, lines: usize) -> anyhow::Result<Self> {
        if let Some(container) = Instance::at(&containers.join(name)).in_engine()? {
            return Ok(Output::InEngine {
                followed: engine::Followed::open(container, lines).await?,
                is_over: false,
            });
        }
        let log = agent::local::log(containers, name);
        let followed = Followed::open(&log, lines).with_context(|| log.display().to_string())?;
        Ok(Output::File(followed))
    }

    /// Whole lines that come in so long.
    pub(super) async fn more(&mut self, time: Duration) -> anyhow::Result<String> {
        let until = Instant::now() + time;
        let (followed, is_over) = match self {
            Output::File(followed) => {
                sleep(time).await;
                return Ok(followed.more()?);
            }
            Output::InEngine { followed, is_over } => (followed, is_over),
        };
        let mut text = Vec::new();
        while !*is_over && text.len() < BYTES_MAX {
            match timeout_at(until, followed.next()).await {
                Ok(Ok(Some(line))) => text.extend(line),
                Ok(Ok(None)) => *is_over = true,
                Ok(Err(error)) => return Err(error.into()),
                Err(_) => return Ok(String::from_utf8_lossy(&text).into_owned()),
            }
        }
        if *is_over {
            tokio::time::sleep_until(until).await;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// A log that is followed; it may be rotated.
pub(super) struct Followed {
    path: PathBuf,
    file: File,
    /// What is shown next.
    text: Vec<u8>,
}

impl Followed {
    /// From so many lines before its end on.
    fn open(path: &Path, lines: usize) -> io::Result<Self> {
        let mut followed = Followed {
            path: path.to_owned(),
            file: File::open(path)?,
            text: Vec::new(),
        };
        followed.read()?;
        let text = &followed.text;
        let ends = text.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
        let from = ends.map(|(at, _)| at + 1).nth(lines).unwrap_or(0);
        followed.text.drain(..from.max(text.len().saturating_sub(BYTES_MAX)));
        Ok(followed)
    }

    /// Whole lines that have come since.
    fn more(&mut self) -> io::Result<String> {
        self.read()?;
        // Its next file begins where this one has ended.
        match File::open(&self.path) {
            Ok(next) if next.metadata()?.ino() != self.file.metadata()?.ino() => {
                self.read()?;
                self.file = next;
                self.read()?;
            }
            Ok(_) => {}
            // It is being rotated, or was removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let whole = self.text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.text.drain(..whole).collect();
        Ok(String::from_utf8_lossy(&lines).into_owned())
    }

    fn read(&mut self) -> io::Result<()> {
        self.file.read_to_end(&mut self.text).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn lines_come_once_and_whole_also_from_the_next_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("log");
        fs::write(&path, "one\ntwo\nthr").unwrap();
        let mut followed = Followed::open(&path, 1).unwrap();
        assert_eq!(followed.more().unwrap(), "two\n");
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"ee\n").unwrap();
        assert_eq!(followed.more().unwrap(), "three\n");
        file.write_all(b"four\n").unwrap();
        fs::rename(&path, place.path().join("log.1")).unwrap();
        assert_eq!(followed.more().unwrap(), "four\n");
        fs::write(&path, "five\n").unwrap();
        assert_eq!(followed.more().unwrap(), "five\n");
        assert_eq!(followed.more().unwrap(), "");
    }
}
