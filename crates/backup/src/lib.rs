//! All of an edge or a cloud in one sealed file, taken while it runs, and back.
//!
//! What is in a data directory is told by its form: databases of SQLite are copied in one transaction, logs as a power
//! cut would leave them (`log`), and all else as it is. The file is an archive, compressed and sealed.

mod log;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};
use seal::{Broken, Opened, Passphrase, Sealed};
use tar::{Archive, Builder, EntryType, Header};

/// Of Zstandard.
const LEVEL: i32 = 3;
const SQLITE: &[u8; 16] = b"SQLite format 3\0";
/// What a database is waited for that is written to.
const BUSY: std::time::Duration = std::time::Duration::from_secs(10);

/// Why a backup is not made, or does not come back.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no backup, or of a later version.
    #[error("this is no backup of selvedge, or one of a later version")]
    NoBackup,
    /// It cannot be opened with this.
    #[error("it cannot be opened: the passphrase is another one, or the file is damaged")]
    Shut,
    /// It is not what it was.
    #[error("the backup is damaged, or cut off, after {0} bytes")]
    Damaged(u64),
    /// Where it would come back something is.
    #[error("{}: something is there; a backup comes back into a directory that is new or empty", .0.display())]
    Occupied(PathBuf),
    /// A database.
    #[error("{}: {source}", path.display())]
    Database {
        /// Which.
        path: PathBuf,
        /// What it says.
        source: rusqlite::Error,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

/// What is wrong with the backup, or else with its file.
fn wrong(file: &Path) -> impl FnOnce(io::Error) -> Error {
    let file = file.to_owned();
    move |error| match Broken::within(&error) {
        Some(Broken::NotSealed) => Error::NoBackup,
        Some(Broken::Shut) => Error::Shut,
        Some(Broken::Damaged(bytes)) => Error::Damaged(bytes),
        None => at(&file)(error),
    }
}

/// Writes all of the data directory `data` into `file`, which has its name once it is whole, but for what is below it
/// by one of the names `left_out`.
///
/// # Errors
/// Of a file or a database.
pub fn create(data: &Path, file: &Path, passphrase: &Passphrase, left_out: impl Fn(&str) -> bool) -> Result<(), Error> {
    let part = file.with_extension("part");
    let work = file.with_extension("work");
    let done = write(data, &part, &work, passphrase, left_out);
    let _ = fs::remove_dir_all(&work);
    let done = done.and_then(|()| fs::rename(&part, file).map_err(at(file)));
    if done.is_err() {
        let _ = fs::remove_file(&part);
    }
    done
}

fn write(
    data: &Path,
    part: &Path,
    work: &Path,
    passphrase: &Passphrase,
    left_out: impl Fn(&str) -> bool,
) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(part);
    let file = file.map_err(at(part))?;
    // Databases and the ends of logs are there for a moment, unsealed.
    let _ = fs::remove_dir_all(work);
    DirBuilder::new().mode(0o700).create(work).map_err(at(work))?;
    let sealed = Sealed::begin(file, passphrase).map_err(at(part))?;
    let compressed = zstd::Encoder::new(sealed, LEVEL).map_err(at(part))?;
    let mut taking = Taking {
        data,
        work,
        out: Builder::new(compressed),
        part,
    };
    let mut names = names_in(data)?;
    names.retain(|name| !left_out(name));
    for name in names {
        taking.take(Path::new(&name))?;
    }
    let finish = || -> io::Result<()> {
        let file = taking.out.into_inner()?.finish()?.finish()?;
        file.sync_all()
    };
    finish().map_err(at(part))
}

struct Taking<'a, W: Write> {
    data: &'a Path,
    work: &'a Path,
    out: Builder<W>,
    part: &'a Path,
}

impl<W: Write> Taking<'_, W> {
    fn take(&mut self, path: &Path) -> Result<(), Error> {
        let from = self.data.join(path);
        let about = match from.symlink_metadata() {
            Ok(about) => about,
            // It was there for a moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(at(&from)(error)),
        };
        if about.is_dir() {
            self.directory(path, about.permissions().mode())?;
            if log::is_one(&from) {
                return self.log(path);
            }
            for name in names_in(&from)? {
                self.take(&path.join(name))?;
            }
            return Ok(());
        }
        if !about.is_file() || is_of_a_moment(path) {
            return Ok(());
        }
        let Some(file) = present(File::open(&from)).map_err(at(&from))? else {
            return Ok(());
        };
        match is_database(&file).map_err(at(&from))? {
            true => self.database(path, &from, about.permissions().mode()),
            false => self.file(path, &file, about.permissions().mode()),
        }
    }

    fn directory(&mut self, path: &Path, mode: u32) -> Result<(), Error> {
        let mut header = header(EntryType::Directory, mode, 0);
        let added = self.out.append_data(&mut header, path, io::empty());
        added.map_err(at(self.part))
    }

    fn file(&mut self, path: &Path, file: &File, mode: u32) -> Result<(), Error> {
        let from = self.data.join(path);
        let bytes = file.metadata().map_err(at(&from))?.len();
        let mut header = header(EntryType::Regular, mode, bytes);
        // What is written behind it meanwhile is of later.
        let added = self.out.append_data(&mut header, path, Whole { file, left: bytes });
        added.map_err(at(&from))
    }

    /// All of it as one moment had it.
    fn database(&mut self, path: &Path, from: &Path, mode: u32) -> Result<(), Error> {
        let copy = self.work.join("database");
        let failed = |source| Error::Database {
            path: from.to_owned(),
            source,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(from, flags).map_err(failed)?;
        database.busy_timeout(BUSY).map_err(failed)?;
        let into = copy.to_string_lossy().into_owned();
        database.execute("VACUUM INTO ?1", [into]).map_err(failed)?;
        let file = File::open(&copy).map_err(at(&copy))?;
        let bytes = file.metadata().map_err(at(&copy))?.len();
        let mut header = header(EntryType::Regular, mode, bytes);
        let added = self.out.append_data(&mut header, path, file);
        added.map_err(at(&copy))?;
        fs::remove_file(&copy).map_err(at(&copy))
    }

    fn log(&mut self, path: &Path) -> Result<(), Error> {
        let directory = self.data.join(path);
        let format = File::open(directory.join(log::FORMAT)).map_err(at(&directory))?;
        self.file(&path.join(log::FORMAT), &format, 0o600)?;
        for segment in log::copied(&directory, self.work)? {
            let mut header = header(EntryType::Regular, 0o600, segment.bytes);
            let added = self
                .out
                .append_data(&mut header, path.join(&segment.name), segment.read());
            added.map_err(at(&directory.join(&segment.name)))?;
        }
        Ok(())
    }
}

/// No more and no less than so many bytes.
struct Whole<'a> {
    file: &'a File,
    left: u64,
}

impl Read for Whole<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            let message = "it became shorter while it was read; try again";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn header(kind: EntryType, mode: u32, bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode & 0o7777);
    header.set_size(bytes);
    header.set_cksum();
    header
}

fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Locks, files that have not their name yet, and what a database has beside it: its copy has all of that.
fn is_of_a_moment(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ends = [".lock", ".new", ".part", "-wal", "-shm", "-journal"];
    ends.iter().any(|end| name.ends_with(end))
}

fn is_database(mut file: &File) -> io::Result<bool> {
    let mut magic = [0; 16];
    let mut filled = 0;
    while filled < magic.len() {
        match file.read(&mut magic[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    io::Seek::rewind(&mut file)?;
    Ok(magic == *SQLITE)
}

fn names_in(directory: &Path) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        names.push(entry.map_err(at(directory))?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Puts what is in a backup into the directory `data`, which is new or empty: all of it or nothing.
///
/// # Errors
/// It cannot be opened, is damaged, or something is there; or of a file.
pub fn restore(file: &Path, data: &Path, passphrase: &Passphrase) -> Result<(), Error> {
    let is_there = data.exists();
    if is_there && !names_in(data)?.is_empty() {
        return Err(Error::Occupied(data.to_owned()));
    }
    let sealed = File::open(file).map_err(at(file))?;
    let opened = Opened::begin(sealed, passphrase).map_err(wrong(file))?;
    let new = data.with_extension("part");
    let _ = fs::remove_dir_all(&new);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&new)
        .map_err(at(&new))?;
    let done = unpack(opened, &new).map_err(wrong(file)).and_then(|()| {
        if is_there {
            fs::remove_dir(data).map_err(at(data))?;
        }
        fs::rename(&new, data).map_err(at(data))
    });
    if done.is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    done
}

fn unpack(opened: Opened<File>, into: &Path) -> io::Result<()> {
    let mut archive = Archive::new(zstd::Decoder::new(opened)?);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(false);
    archive.unpack(into)?;
    // To the end that says that it is one.
    let mut rest = archive.into_inner();
    io::copy(&mut rest, &mut io::sink())?;
    let mut sealed = rest.finish().into_inner();
    io::copy(&mut sealed, &mut io::sink())?;
    sync_all(into)
}

fn sync_all(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_all(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests;
