//! Stops the time of a group of processes, and lets it go on: the freezer of control groups (cgroups(7)).

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};

use crate::cgroup::{read, value_of, write};

/// Until the time of all processes of a group stands still: one that waits for a disk may take long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at that.
const POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// That of a group, by its directory in the tree that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Freezer {
    /// Version 1.
    One(PathBuf),
    /// Version 2.
    Two(PathBuf),
}

impl Freezer {
    /// Stops the time of its processes, or lets it go on. It stands still when this returns.
    ///
    /// # Errors
    /// Of the file that could not be written; `TimedOut`: it does not stand still in two seconds, as where a process
    /// waits for a disk, and goes on.
    pub(crate) fn freeze(&self, is_frozen: bool) -> io::Result<()> {
        match is_frozen {
            true => self.freeze_within(PATIENCE),
            false => self.set(false),
        }
    }

    fn freeze_within(&self, patience: Duration) -> io::Result<()> {
        let until = Instant::now() + patience;
        self.set(true)?;
        while !self.is_frozen()? {
            if Instant::now() > until {
                self.set(false)?;
                let group = self.directory().display();
                let message = format!("the processes of {group} do not stand still in {patience:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            // The kernel tells nobody of it in version 1, and may leave out who waits for a child of `vfork` until it
            // is asked again.
            poll(&mut [], Some(&POLL))?;
            self.set(true)?;
        }
        Ok(())
    }

    /// Asks for it, and does not wait.
    pub(crate) fn set(&self, is_frozen: bool) -> io::Result<()> {
        match self {
            Freezer::One(group) => write(
                &group.join("freezer.state"),
                if is_frozen { "FROZEN" } else { "THAWED" },
            ),
            Freezer::Two(group) => write(&group.join("cgroup.freeze"), if is_frozen { "1" } else { "0" }),
        }
    }

    fn is_frozen(&self) -> io::Result<bool> {
        match self {
            Freezer::One(group) => Ok(read(&group.join("freezer.state"))?.trim() == "FROZEN"),
            Freezer::Two(group) => Ok(value_of(&read(&group.join("cgroup.events"))?, "frozen") == 1),
        }
    }

    fn directory(&self) -> &Path {
        match self {
            Freezer::One(group) | Freezer::Two(group) => group,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cgroup::{Hierarchy, Limits};

    #[test]
    fn a_freeze_returns_once_time_stands_still_and_is_taken_back_where_it_does_not() {
        let group = tempfile::tempdir().unwrap();
        let freezer = Freezer::Two(group.path().to_owned());
        let (events, asked) = (group.path().join("cgroup.events"), group.path().join("cgroup.freeze"));
        fs::write(&events, "populated 1\nfrozen 0\n").unwrap();
        let refused = freezer.freeze_within(Duration::from_millis(20)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        assert!(refused.to_string().contains("do not stand still"), "{refused}");
        assert_eq!(fs::read_to_string(&asked).unwrap(), "0");
        let kernel = std::thread::spawn(move || {
            while fs::read_to_string(&asked).unwrap() != "1" {
                poll(&mut [], Some(&POLL)).unwrap();
            }
            let new = events.with_extension("new");
            fs::write(&new, "populated 1\nfrozen 1\n").unwrap();
            fs::rename(new, events).unwrap();
        });
        freezer.freeze_within(Duration::from_secs(60)).unwrap();
        assert!(freezer.is_frozen().unwrap());
        kernel.join().unwrap();
    }

    #[test]
    fn the_time_of_programs_that_start_others_all_the_time_stands_still() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: a control group takes root");
            return;
        }
        let hierarchy = Hierarchy::of_host().expect("control groups are mounted at /sys/fs/cgroup");
        let group = hierarchy.group(&format!("starts-others-{}", std::process::id()));
        group.create(&Limits::default()).unwrap();
        let mut starts_others = std::process::Command::new("sh");
        starts_others.args([
            "-c",
            "for file; do echo $$ > $file; done; while :; do /bin/true; done",
            "sh",
        ]);
        let mut starts_others = starts_others.args(group.process_files()).spawn().unwrap();
        let frozen: Vec<io::Result<()>> = (0..60)
            .map(|_| {
                poll(&mut [], Some(&POLL)).unwrap();
                group.freeze(true)?;
                group.freeze(false)
            })
            .collect();
        group.kill().unwrap();
        starts_others.wait().unwrap();
        group.remove().unwrap();
        frozen.into_iter().collect::<io::Result<()>>().unwrap();
    }
}
