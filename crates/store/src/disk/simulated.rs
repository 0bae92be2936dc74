//! A disk in memory that remembers every change, fails when told, and shows what a crash would leave of it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use rand::Rng;
use rand::rngs::StdRng;

use super::{Disk, File};
use crate::Position;
use crate::segment::{self, SpareFile};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;
const EIO: i32 = 5;

/// A change, in the order in which they happened.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Create {
        file: usize,
        name: String,
        bytes: u64,
    },
    Rename {
        from: String,
        to: String,
    },
    Remove {
        name: String,
    },
    SyncDirectory,
    Write {
        file: usize,
        at: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        file: usize,
        bytes: u64,
    },
    Sync {
        file: usize,
    },
    /// Nothing on the disk: the log reported this position as durable.
    Durable(Position),
}

/// What is left, beside what was synced, of the changes since.
pub(crate) enum Crash<'r> {
    /// All of it: the process was killed, the system lives. Of the last write only these bytes had been taken.
    Kill { last_write_bytes: usize },
    /// Each sector of it with this probability, in any order: a power cut. Of the directory the first few.
    PowerCut { share: f64, random: &'r mut StdRng },
}

#[derive(Clone, Debug, Default)]
struct State {
    names: BTreeMap<String, usize>,
    files: Vec<Vec<u8>>,
    changes: Vec<Change>,
    /// Changes until one fails with EIO.
    fails_after: Option<usize>,
    /// Bytes that all files may take.
    capacity_bytes: Option<u64>,
    /// File and bytes of it of which every read fails with EIO.
    unreadable: Option<(usize, Range<u64>)>,
}

/// A disk in memory. Its clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct SimulatedFile {
    disk: SimulatedDisk,
    file: usize,
}

impl SimulatedDisk {
    /// Lets the change after `changes` more fail.
    pub(crate) fn fail_after(&self, changes: usize) {
        self.state().fails_after = Some(changes);
    }

    /// Lets every read fail that touches these bytes of a file.
    pub(crate) fn make_unreadable(&self, name: &str, bytes: Range<u64>) {
        let mut state = self.state();
        state.unreadable = Some((state.names[name], bytes));
    }

    /// Lets every read of the oldest segment fail, whichever that is by now.
    pub(crate) fn make_oldest_unreadable(&self) {
        let mut state = self.state();
        let oldest = state.names.iter().find(|(name, _)| segment::number(name).is_some());
        state.unreadable = oldest.map(|(_, file)| (*file, 0..u64::MAX));
    }

    /// Lets all be read again.
    pub(crate) fn make_readable(&self) {
        self.state().unreadable = None;
    }

    /// Lets files be created only while all take no more than `bytes`.
    pub(crate) fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity_bytes = bytes;
    }

    /// Notes that the log reported `position` as durable.
    pub(crate) fn mark_durable(&self, position: Position) {
        let mut state = self.state();
        let is_news = !matches!(state.changes.last(), Some(Change::Durable(before)) if *before == position);
        if is_news {
            state.changes.push(Change::Durable(position));
        }
    }

    pub(crate) fn changes(&self) -> Vec<Change> {
        self.state().changes.clone()
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.state().used_bytes()
    }

    /// Content of a file, to be changed behind the log's back.
    pub(crate) fn with_content<T>(&self, name: &str, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut state = self.state();
        let file = state.names[name];
        change(&mut state.files[file])
    }

    /// The same content, on a disk of its own.
    pub(crate) fn copy(&self) -> SimulatedDisk {
        SimulatedDisk {
            state: Arc::new(Mutex::new(self.state().clone())),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.state();
        match &mut state.fails_after {
            Some(0) => return Err(io::Error::from_raw_os_error(EIO)),
            Some(left) => *left -= 1,
            None => {}
        }
        state.apply(&change)?;
        state.changes.push(change);
        Ok(())
    }
}

impl State {
    fn used_bytes(&self) -> u64 {
        self.names.values().map(|file| self.files[*file].len() as u64).sum()
    }

    fn apply(&mut self, change: &Change) -> io::Result<()> {
        match change {
            Change::Create { file, name, bytes } => {
                if self
                    .capacity_bytes
                    .is_some_and(|capacity| self.used_bytes() + bytes > capacity)
                {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                self.files.resize(self.files.len().max(file + 1), Vec::new());
                self.files[*file] = vec![0; *bytes as usize];
                self.names.insert(name.clone(), *file);
            }
            Change::Rename { from, to } => {
                let file = self.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
                self.names.insert(to.clone(), file);
            }
            Change::Remove { name } => drop(self.names.remove(name).ok_or(io::ErrorKind::NotFound)?),
            Change::Write { file, at, bytes } => write(&mut self.files[*file], *at, bytes),
            Change::Truncate { file, bytes } => self.files[*file].resize(*bytes as usize, 0),
            Change::Sync { .. } | Change::SyncDirectory | Change::Durable(_) => {}
        }
        Ok(())
    }
}

fn write(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    content.resize(content.len().max(end), 0);
    content[at as usize..end].copy_from_slice(bytes);
}

/// What the disk holds when the machine stops after `changes`.
pub(crate) fn after_crash(changes: &[Change], crash: Crash<'_>) -> SimulatedDisk {
    after_crash_of(&SimulatedDisk::default(), changes, crash)
}

/// The same, of a disk that held what `before` holds.
pub(crate) fn after_crash_of(before: &SimulatedDisk, changes: &[Change], mut crash: Crash<'_>) -> SimulatedDisk {
    let mut state = before.state().clone();
    state.changes.clear();
    let synced_directory = last(changes, |change| matches!(change, Change::SyncDirectory));
    let mut synced = BTreeMap::new();
    for (at, change) in changes.iter().enumerate() {
        if let Change::Sync { file } = change {
            synced.insert(*file, at);
        }
    }
    let mut directory_lives = true;
    for (at, change) in changes.iter().enumerate() {
        let is_last = at + 1 == changes.len();
        let kept = match (change, &mut crash) {
            (Change::Write { file, at, bytes }, Crash::Kill { last_write_bytes }) if is_last => {
                let bytes = bytes[..(*last_write_bytes).min(bytes.len())].to_vec();
                vec![Change::Write {
                    file: *file,
                    at: *at,
                    bytes,
                }]
            }
            (_, Crash::Kill { .. }) => vec![change.clone()],
            (Change::Write { file, .. } | Change::Truncate { file, .. }, Crash::PowerCut { share, random }) => {
                if synced.get(file).is_some_and(|synced| at < *synced) {
                    vec![change.clone()]
                } else {
                    sectors(change, *share, random)
                }
            }
            (Change::Rename { .. } | Change::Remove { .. }, Crash::PowerCut { share, random }) => {
                directory_lives &= synced_directory.is_some_and(|synced| at < synced) || random.random_bool(*share);
                if directory_lives {
                    vec![change.clone()]
                } else {
                    Vec::new()
                }
            }
            (_, Crash::PowerCut { .. }) => vec![change.clone()],
        };
        for change in kept {
            state.apply(&change).expect("what happened once happens again");
        }
        if !directory_lives {
            // A name that is created again later would only hide what is looked for.
            break_names(&mut state);
        }
    }
    SimulatedDisk {
        state: Arc::new(Mutex::new(state)),
    }
}

/// After the first lost change of the directory nothing is known of the files that become segments: they are not there.
fn break_names(state: &mut State) {
    for file in SpareFile::ALL {
        state.names.remove(file.name());
    }
}

fn last(changes: &[Change], is: impl Fn(&Change) -> bool) -> Option<usize> {
    changes.iter().rposition(is)
}

/// Those sectors of a change that reached the disk.
fn sectors(change: &Change, share: f64, random: &mut StdRng) -> Vec<Change> {
    let Change::Write { file, at, bytes } = change else {
        return if random.random_bool(share) {
            vec![change.clone()]
        } else {
            Vec::new()
        };
    };
    let (mut kept, mut from) = (Vec::new(), 0);
    while from < bytes.len() {
        let start = at + from as u64;
        let to = bytes.len().min(from + (SECTOR_BYTES - start % SECTOR_BYTES) as usize);
        if random.random_bool(share) {
            kept.push(Change::Write {
                file: *file,
                at: start,
                bytes: bytes[from..to].to_vec(),
            });
        }
        from = to;
    }
    kept
}

impl Disk for SimulatedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.state().names.keys().cloned().collect())
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>> {
        let file = self.state().files.len();
        self.change(Change::Create {
            file,
            name: name.to_owned(),
            bytes,
        })?;
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            file,
        }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let file = *self.state().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(SimulatedFile {
            disk: self.clone(),
            file,
        }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Change::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(Change::Remove { name: name.to_owned() })
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.change(Change::SyncDirectory)
    }
}

impl File for SimulatedFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let end = offset + buffer.len() as u64;
        let fails = |(file, bytes): &(usize, Range<u64>)| *file == self.file && bytes.start < end && offset < bytes.end;
        if state.unreadable.as_ref().is_some_and(fails) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        let content = state.files[self.file].get(offset as usize..).unwrap_or_default();
        let read = content.len().min(buffer.len());
        buffer[..read].copy_from_slice(&content[..read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.change(Change::Write {
            file: self.file,
            at: offset,
            bytes: bytes.to_vec(),
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.change(Change::Sync { file: self.file })
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.disk.change(Change::Truncate { file: self.file, bytes })
    }
}
