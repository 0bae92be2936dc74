//! What containers said that are not there any more: of one that sleeps, of replicas that are not wanted, of a version
//! that was taken back.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use tokio::task::spawn_blocking;

use super::Key;
use crate::runtime::{Runtime, SEPARATOR};
use crate::tail;

/// Of a container: of its last start that has gone, and of the one before.
const STARTS: usize = 2;
/// Of a start, the last whole lines; however much of it there was, no more is copied.
const BYTES_MAX: usize = 1 << 20;

/// The output of the last starts of containers that are gone, until their application is deleted. Each in a file called
/// as the container is, without revision and start, and by its age: 0, 1.
#[derive(Clone, Debug)]
pub struct KeptLogs(PathBuf);

impl KeptLogs {
    /// What was said is for nobody but who runs the agent.
    pub(super) fn at(directory: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        Ok(KeptLogs(directory.to_owned()))
    }

    /// Keeps what a start said that has ended and is about to be removed. What cannot be kept holds nothing up.
    pub(super) async fn keep(&self, runtime: &dyn Runtime, start: &str) {
        // No line is shorter than a byte.
        let said = match runtime.log_tail(start, BYTES_MAX).await {
            Ok(Some(said)) => said,
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(container = start, %error, "what it said is not kept");
                return;
            }
        };
        let Some(container) = container_of(start) else { return };
        let (kept, container) = (self.clone(), container.to_owned());
        let writing = spawn_blocking(move || kept.put(&container, tail::last_lines(&said, usize::MAX, BYTES_MAX)));
        if let Err(error) = writing.await.expect("writing does not panic") {
            tracing::warn!(container = start, %error, "what it said is not kept");
        }
    }

    /// Makes what is kept of it one start older.
    fn put(&self, container: &str, said: &[u8]) -> io::Result<()> {
        let new = self.0.join(format!("{container}{SEPARATOR}new"));
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&new)?.write_all(said)?;
        for age in (1..STARTS).rev() {
            match fs::rename(self.file(container, age - 1), self.file(container, age)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(new, self.file(container, 0))
    }

    /// Containers of an application that something is kept of: replica and name.
    ///
    /// # Errors
    /// Of the directory.
    pub fn containers(&self, key: &Key) -> io::Result<BTreeSet<(u32, String)>> {
        let prefix = key.prefix();
        let container = |name: &String| {
            let mut parts = name.strip_prefix(&prefix)?.split(SEPARATOR);
            Some((parts.next()?.parse().ok()?, parts.next()?.to_owned()))
        };
        Ok(self.names()?.iter().filter_map(container).collect())
    }

    /// The last lines of a start that has gone: the last one (`age` 0) or the one before (1); none where it is not
    /// kept.
    ///
    /// # Errors
    /// Of the file.
    pub fn read(
        &self,
        key: &Key,
        replica: u32,
        container: &str,
        age: usize,
        lines: usize,
    ) -> io::Result<Option<Vec<u8>>> {
        let container = format!("{}{replica}{SEPARATOR}{container}", key.prefix());
        match fs::read(self.file(&container, age)) {
            Ok(said) => Ok(Some(tail::last_lines(&said, lines, BYTES_MAX).to_vec())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applications that something is kept of.
    pub(super) fn applications(&self) -> io::Result<BTreeSet<Key>> {
        Ok(self
            .names()?
            .iter()
            .filter_map(|name| Key::of_container(name))
            .collect())
    }

    pub(super) fn forget(&self, key: &Key) -> io::Result<()> {
        let prefix = key.prefix();
        for name in self.names()?.iter().filter(|name| name.starts_with(&prefix)) {
            fs::remove_file(self.0.join(name))?;
        }
        Ok(())
    }

    fn file(&self, container: &str, age: usize) -> PathBuf {
        self.0.join(format!("{container}{SEPARATOR}{age}"))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        let names: io::Result<Vec<Option<String>>> = entries.collect();
        Ok(names?.into_iter().flatten().collect())
    }
}

/// The name of a start, without its number and its revision.
fn container_of(start: &str) -> Option<&str> {
    let (revision, _) = start.rsplit_once(SEPARATOR)?;
    revision.rsplit_once(SEPARATOR).map(|(container, _)| container)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_container_the_last_two_are_kept_until_its_application_is_forgotten() {
        let place = tempfile::tempdir().unwrap();
        let kept = KeptLogs::at(&place.path().join("logs")).unwrap();
        let key = |application: &str| Key {
            tenant: "plant".to_owned(),
            application: application.to_owned(),
        };
        let read = |application: &str, age| {
            let said = kept.read(&key(application), 3, "main", age, 1).unwrap();
            said.map(|said| String::from_utf8(said).unwrap())
        };
        for (start, said) in [
            ("plant+site+3+main+0123ab+0", "first\n"),
            ("plant+site+3+main+0123ab+1", "second\n"),
            ("plant+site+3+main+4567cd+0", "of another version\nthird\n"),
            ("plant+site-two+3+main+0123ab+7", "other\n"),
        ] {
            kept.put(container_of(start).unwrap(), said.as_bytes()).unwrap();
        }
        assert_eq!(
            (read("site", 0), read("site", 1)),
            (Some("third\n".into()), Some("second\n".into()))
        );
        assert_eq!(
            (read("site-two", 0), read("site-two", 1)),
            (Some("other\n".into()), None)
        );
        let containers = kept.containers(&key("site")).unwrap();
        assert_eq!(containers, BTreeSet::from([(3, "main".to_owned())]));
        assert_eq!(
            kept.applications().unwrap(),
            BTreeSet::from([key("site"), key("site-two")])
        );
        kept.forget(&key("site")).unwrap();
        assert_eq!((read("site", 0), read("site-two", 0)), (None, Some("other\n".into())));
        assert_eq!(fs::read_dir(place.path().join("logs")).unwrap().count(), 1);
    }
}
