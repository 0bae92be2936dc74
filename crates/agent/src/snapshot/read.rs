//! Reads a volume into an archive (POSIX.1-2001, "pax Interchange Format"), the same bytes for the same files: sorted,
//! and in pieces that begin where a change elsewhere does not move them. No link is followed.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ring::digest::{SHA256, digest};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fdatasync, fgetxattr, flistxattr, fstat, fstatfs, openat,
    readlinkat, statat,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tar::{EntryType, Header};

use super::Error;
use super::pieces::{PIECE_BYTES, Piece, Pieces};

/// Of a file that has pieces of its own, which need not be read again where it has not changed.
const LARGE_BYTES: u64 = 1 << 20;
/// Files, directories and links of a volume.
const ENTRIES_MAX: u64 = 1_000_000;
/// Directories below each other.
const DEPTH_MAX: usize = 200;
/// Of a path.
const PATH_BYTES_MAX: usize = 4_096;
/// Of an extended attribute.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;
/// Times of files are no finer than the kernel's clock.
const TICK_NS: i128 = 50_000_000;
/// File systems that change the times of a file with each first write to a page that is on disk: ext4, XFS, Btrfs,
/// F2FS.
const TRUE_TO_TIMES: [u64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];

/// A file as it was when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    is: Is,
    pub(super) pieces: Vec<Piece>,
}

/// By what a file is known not to have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Is {
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl Is {
    fn of(stat: &Stat) -> Self {
        let ns = |seconds: i128, more: i128| seconds * 1_000_000_000 + more;
        Is {
            inode: stat.st_ino,
            bytes: stat.st_size as u64,
            modified_ns: ns(stat.st_mtime.into(), stat.st_mtime_nsec.into()),
            changed_ns: ns(stat.st_ctime.into(), stat.st_ctime_nsec.into()),
        }
    }
}

/// Large files by their paths.
pub(super) type Files = BTreeMap<String, Seen>;

/// What came of reading a volume.
pub(super) struct Volume {
    /// Files, directories and links.
    pub(super) entries: u64,
    pub(super) files: Files,
    /// Paths of sockets: nobody listens there after a restore.
    pub(super) sockets: Vec<String>,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

/// Whether files change while they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// They may: what is read now need not be read again later if it has not changed by then.
    First,
    /// All that writes stands still.
    Last,
}

/// Reads the volume in `directory`; large files that are as they were `before` are not.
pub(super) fn read(directory: &Path, pieces: &mut Pieces, before: &Files, pass: Pass) -> Result<Volume, Error> {
    let failed = |errno: Errno| Error::of(directory, io::Error::from(errno));
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, directory, flags, Mode::empty()).map_err(failed)?;
    let stat = fstat(&root).map_err(failed)?;
    let kind = fstatfs(&root).map_err(failed)?.f_type as u64;
    let mut walk = Walk {
        pieces,
        before,
        pass,
        is_true_to_times: TRUE_TO_TIMES.contains(&kind),
        device: stat.st_dev,
        links: HashMap::new(),
        volume: Volume {
            entries: 0,
            files: Files::new(),
            sockets: Vec::new(),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
        },
    };
    walk.directory(&root, "", 0)?;
    let Walk { pieces, volume, .. } = walk;
    // The end of an archive.
    pieces.write(&[0; 1024])?;
    pieces.cut()?;
    Ok(volume)
}

struct Walk<'a, 'b, 'c> {
    pieces: &'a mut Pieces<'b, 'c>,
    before: &'a Files,
    pass: Pass,
    is_true_to_times: bool,
    device: u64,
    /// The first path of each file that has several.
    links: HashMap<u64, String>,
    volume: Volume,
}

impl Walk<'_, '_, '_> {
    fn directory(&mut self, directory: &OwnedFd, path: &str, depth: usize) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::file(
                path,
                &format!("is nested deeper than {DEPTH_MAX} directories"),
            ));
        }
        let mut names = Vec::new();
        let entries = Dir::read_from(directory).map_err(failed(path))?;
        for entry in entries {
            let entry = entry.map_err(failed(path))?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = String::from_utf8(name.to_vec()).map_err(|error| {
                let name = String::from_utf8_lossy(error.as_bytes()).into_owned();
                Error::file(&join(path, &name), "has a name that is not UTF-8")
            })?;
            names.push(name);
            if names.len() as u64 > ENTRIES_MAX {
                return Err(too_many());
            }
        }
        names.sort_unstable();
        for name in names {
            let path = join(path, &name);
            match self.entry(directory, &name, &path, depth) {
                // It went while it was looked at.
                Err(Error::Changed(_)) if self.pass == Pass::First => {}
                done => done?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, parent: &OwnedFd, name: &str, path: &str, depth: usize) -> Result<(), Error> {
        self.volume.entries += 1;
        if self.volume.entries > ENTRIES_MAX {
            return Err(too_many());
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(Error::file(
                path,
                &format!("has a path of more than {PATH_BYTES_MAX} bytes"),
            ));
        }
        // Elsewhere nothing of it depends on what comes before.
        if digest(&SHA256, path.as_bytes()).as_ref()[0] == 0 {
            self.pieces.cut()?;
        }
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed(path))?;
        if stat.st_dev != self.device {
            return Err(Error::file(path, "is of another file system, mounted there"));
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind != FileType::Directory && stat.st_nlink > 1 {
            if let Some(first) = self.links.get(&stat.st_ino).cloned() {
                return self.header(path, &stat, EntryType::Link, &first, &[]);
            }
            self.links.insert(stat.st_ino, path.to_owned());
        }
        match kind {
            FileType::Directory => {
                let directory = open(parent, name, OFlags::DIRECTORY).map_err(failed(path))?;
                let attributes = attributes(&directory, path)?;
                self.header(&format!("{path}/"), &stat, EntryType::Directory, "", &attributes)?;
                self.directory(&directory, path, depth + 1)
            }
            FileType::RegularFile => self.file(parent, name, path),
            FileType::Symlink => {
                let target = readlinkat(parent, name, Vec::new()).map_err(failed(path))?;
                let target = target.into_string();
                let target = target.map_err(|_| Error::file(path, "leads to a name that is not UTF-8"))?;
                self.header(path, &stat, EntryType::Symlink, &target, &[])
            }
            FileType::Fifo => self.header(path, &stat, EntryType::Fifo, "", &[]),
            FileType::Socket => {
                self.volume.sockets.push(path.to_owned());
                Ok(())
            }
            _ => Err(Error::file(path, "is a device, which no snapshot has")),
        }
    }

    fn file(&mut self, parent: &OwnedFd, name: &str, path: &str) -> Result<(), Error> {
        let file = File::from(open(parent, name, OFlags::NONBLOCK).map_err(failed(path))?);
        let before = fstat(&file).map_err(failed(path))?;
        let attributes = attributes(&file, path)?;
        self.header(path, &before, EntryType::Regular, "", &attributes)?;
        let is = Is::of(&before);
        let padding = vec![0; (is.bytes.next_multiple_of(512) - is.bytes) as usize];
        if is.bytes < LARGE_BYTES {
            self.content(file, path, is.bytes)?;
            return self.pieces.write(&padding);
        }
        self.pieces.cut()?;
        let known = self
            .before
            .get(path)
            .filter(|seen| seen.is == is && self.is_true_to_times);
        if let Some(seen) = known {
            self.pieces.refer(&seen.pieces, is.bytes)?;
            self.volume.files.insert(path.to_owned(), seen.clone());
        } else {
            self.large(file, path, is)?;
        }
        self.pieces.write(&padding)
    }

    fn large(&mut self, file: File, path: &str, is: Is) -> Result<(), Error> {
        let first = self.pieces.done.len();
        let mut can_be_known = self.pass == Pass::First && is.changed_ns + TICK_NS < now_ns();
        if can_be_known {
            // From then on a write to what is mapped into memory changes the file's times.
            can_be_known = fdatasync(&file).is_ok();
        }
        let again = file.try_clone().map_err(|error| Error::of(Path::new(path), error))?;
        self.content(file, path, is.bytes)?;
        self.pieces.cut()?;
        if can_be_known && fstat(&again).is_ok_and(|now| Is::of(&now) == is) {
            let pieces = self.pieces.done[first..].to_vec();
            self.volume.files.insert(path.to_owned(), Seen { is, pieces });
        }
        Ok(())
    }

    fn content(&mut self, mut file: File, path: &str, bytes: u64) -> Result<(), Error> {
        let mut buffer = vec![0; PIECE_BYTES.min(bytes as usize + 1)];
        let mut left = bytes;
        while left > 0 {
            let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = match file.read(&mut buffer[..most]) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::of(Path::new(path), error)),
            };
            match (read, self.pass) {
                (0, Pass::Last) => return Err(Error::Changed(path.to_owned())),
                // Whatever comes behind it stands where it would.
                (0, Pass::First) => {
                    buffer.fill(0);
                    self.pieces.write(&buffer[..most])?;
                    left -= most as u64;
                }
                (read, _) => {
                    self.pieces.write(&buffer[..read])?;
                    left -= read as u64;
                }
            }
        }
        Ok(())
    }

    fn header(
        &mut self,
        path: &str,
        stat: &Stat,
        kind: EntryType,
        link: &str,
        attributes: &[(String, Vec<u8>)],
    ) -> Result<(), Error> {
        let mut header = Header::new_ustar();
        let mut more = Vec::new();
        if !fits(&mut header, 0, path) {
            record(&mut more, "path", path.as_bytes());
        }
        if !fits(&mut header, 157, link) {
            record(&mut more, "linkpath", link.as_bytes());
        }
        for (name, value) in attributes {
            record(&mut more, &format!("SCHILY.xattr.{name}"), value);
        }
        if !more.is_empty() {
            let mut before = Header::new_ustar();
            fits(&mut before, 0, "pax");
            before.set_entry_type(EntryType::XHeader);
            before.set_mode(0o600);
            before.set_size(more.len() as u64);
            before.set_cksum();
            more.resize(more.len().next_multiple_of(512), 0);
            self.pieces.write(before.as_bytes())?;
            self.pieces.write(&more)?;
        }
        header.set_entry_type(kind);
        header.set_mode(stat.st_mode & 0o7777);
        header.set_uid(stat.st_uid.into());
        header.set_gid(stat.st_gid.into());
        header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or_default());
        header.set_size(if kind == EntryType::Regular {
            stat.st_size as u64
        } else {
            0
        });
        header.set_cksum();
        self.pieces.write(header.as_bytes())
    }
}

fn join(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}

fn open(parent: &OwnedFd, name: &str, more: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | more;
    openat(parent, name, flags, Mode::empty())
}

/// What is not there any more, or of another kind, has changed.
fn failed(path: &str) -> impl Fn(Errno) -> Error {
    move |errno| match errno {
        Errno::NOENT | Errno::LOOP | Errno::NOTDIR | Errno::NXIO => Error::Changed(path.to_owned()),
        errno => Error::of(Path::new(path), io::Error::from(errno)),
    }
}

fn too_many() -> Error {
    Error::TooMuch(format!("the volume has more than {ENTRIES_MAX} files"))
}

fn now_ns() -> i128 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

/// Writes a text into a field of 100 bytes, as far as it fits.
fn fits(header: &mut Header, at: usize, text: &str) -> bool {
    let most = text.len().min(100);
    header.as_mut_bytes()[at..at + most].copy_from_slice(&text.as_bytes()[..most]);
    text.len() <= 100
}

/// `LENGTH NAME=VALUE\n`, where the length counts its own digits.
fn record(records: &mut Vec<u8>, name: &str, value: &[u8]) {
    let rest = name.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    records.extend_from_slice(format!("{length} {name}=").as_bytes());
    records.extend_from_slice(value);
    records.push(b'\n');
}

/// Those that a restore gives back.
fn attributes(file: &impl AsFd, path: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let mut names = vec![0_u8; ATTRIBUTE_BYTES_MAX];
    let length = match flistxattr(file, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(errno) => return Err(failed(path)(errno)),
    };
    let mut found = Vec::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = String::from_utf8_lossy(name).into_owned();
        // The host's own labels; what is restored gets its own.
        if name.starts_with("security.") && name != "security.capability" {
            continue;
        }
        if name != "security.capability" && !name.starts_with("user.") {
            return Err(Error::file(
                path,
                &format!("has the attribute {name}, which no snapshot keeps"),
            ));
        }
        let mut value = vec![0_u8; ATTRIBUTE_BYTES_MAX];
        let length = fgetxattr(file, name.as_str(), &mut value[..]).map_err(failed(path))?;
        value.truncate(length);
        found.push((name, value));
    }
    found.sort_unstable();
    Ok(found)
}
