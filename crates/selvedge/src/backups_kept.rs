//! Backups that are made by themselves, and those that go.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use time::OffsetDateTime;

use crate::node::unix_now_s;

/// Between two looks at whether one is due.
const LOOK: Duration = Duration::from_secs(60);
/// Until the next try, where one could not be made.
const AGAIN: Duration = Duration::from_secs(600);
const ENDING: &str = "backup";
/// What one that was not finished leaves beside it.
const UNFINISHED: [&str; 2] = ["part", "work"];

/// How backups of a node are made and kept.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    /// Whose they are.
    pub(crate) data: PathBuf,
    /// Where they are.
    pub(crate) directory: PathBuf,
    /// Which of those there are this node's: what their names begin with.
    pub(crate) name: String,
    /// From one to the next.
    pub(crate) every: Duration,
    /// So many stay.
    pub(crate) keep: usize,
    /// What seals them.
    pub(crate) passphrase_file: PathBuf,
}

impl Schedule {
    /// Makes and removes them as long as the program runs.
    pub(crate) fn keep(self) {
        tokio::spawn(async move {
            loop {
                let schedule = self.clone();
                let looking = tokio::task::spawn_blocking(move || schedule.look(unix_now_s()));
                let pause = match looking.await.expect("making a backup does not panic") {
                    Ok(()) => LOOK,
                    Err(error) => {
                        tracing::error!("no backup was made; it is tried again in {AGAIN:?}: {error:#}");
                        AGAIN
                    }
                };
                tokio::time::sleep(pause).await;
            }
        });
    }

    fn look(&self, now_s: i64) -> anyhow::Result<()> {
        let directory = &self.directory;
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
        let all = self.all(ENDING)?;
        let every_s = i64::try_from(self.every.as_secs())?;
        let (last, oldest_new) = (self.name_at(now_s), self.name_at(now_s - every_s));
        if !all.iter().any(|name| *name > oldest_new && *name <= last) {
            let file = directory.join(&last);
            self.make(&file)?;
            tracing::info!(file = %file.display(), "a backup was made");
        }
        // One of a time that has not come was named by a clock that was wrong, and is left to somebody to look at.
        let mut going: Vec<String> = self.all(ENDING)?.into_iter().filter(|name| *name <= last).collect();
        going.truncate(going.len().saturating_sub(self.keep));
        for ending in UNFINISHED {
            going.extend(self.all(ending)?.into_iter().filter(|name| *name <= oldest_new));
        }
        for path in going.iter().map(|name| directory.join(name)) {
            let removed = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            removed.with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// By a process of its own: what it takes of memory is gone with it.
    fn make(&self, file: &Path) -> anyhow::Result<()> {
        let made = Command::new("/proc/self/exe")
            .args(["backup", "create"])
            .arg(file)
            .arg("--data")
            .arg(&self.data)
            .arg("--passphrase-file")
            .arg(&self.passphrase_file)
            .stdin(Stdio::null())
            .output()?;
        if !made.status.success() {
            bail!("{}", String::from_utf8_lossy(&made.stderr).trim());
        }
        Ok(())
    }

    fn name_at(&self, now_s: i64) -> String {
        let at = OffsetDateTime::from_unix_timestamp(now_s).unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = at.to_calendar_date();
        let (hour, minute, second) = at.to_hms();
        let at = format!(
            "{year:04}{:02}{day:02}-{hour:02}{minute:02}{second:02}",
            u8::from(month)
        );
        format!("{}-{at}.{ENDING}", self.name)
    }

    /// Names of those that are there with this ending, the oldest first.
    fn all(&self, ending: &str) -> anyhow::Result<Vec<String>> {
        let entries = fs::read_dir(&self.directory).with_context(|| self.directory.display().to_string())?;
        let names = entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok());
        let is_meant = |name: &String| {
            let at = name.strip_prefix(&*self.name).and_then(|name| name.strip_prefix('-'));
            let at = at.and_then(|at| at.strip_suffix(ending)?.strip_suffix('.'));
            at.is_some_and(is_time)
        };
        let mut all: Vec<String> = names.filter(is_meant).collect();
        all.sort_unstable();
        Ok(all)
    }
}

/// Such as `20261126-231500`.
fn is_time(text: &str) -> bool {
    let is_number = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('-')
        .is_some_and(|(day, time)| is_number(day, 8) && is_number(time, 6))
}
