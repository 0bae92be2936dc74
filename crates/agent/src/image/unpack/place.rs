//! Where a layer is unpacked. Paths are followed within it alone, symbolic links too: the kernel sees to that
//! (`openat2(2)`, `RESOLVE_IN_ROOT`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags, chmodat,
    chownat, fchmod, fchown, fsetxattr, futimens, linkat, mkdirat, mknodat, openat, openat2, statat, symlinkat,
    unlinkat, utimensat,
};
use rustix::io::Errno;

use super::headers::Entry;

/// Directories below each other.
const DEPTH_MAX: usize = 256;
/// So often the kernel may be unsure of a path before that is an error.
const UNSURE_MAX: u32 = 10_000;
/// Of which a hole consists of some.
const BLOCK_BYTES: usize = 16 << 10;
/// Of a directory that is there only because something is in it.
const MODE: u32 = 0o755;
/// Of a directory, in overlayfs: it shows nothing of the layers below.
const OPAQUE_ATTRIBUTE: &str = "trusted.overlay.opaque";

/// The directory of the layer.
pub(crate) struct Place {
    root: OwnedFd,
}

impl Place {
    pub(crate) fn open(path: &Path) -> io::Result<Place> {
        let root = openat(CWD, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Place { root })
    }

    /// A file below the root, to be read.
    pub(crate) fn file(&self, path: &str) -> io::Result<File> {
        // Nobody may ever write to a pipe that it is.
        Ok(self.within(path, OFlags::RDONLY | OFlags::NONBLOCK)?.into())
    }

    /// A file or directory below the root, as something to mount; a directory is made where nothing is there.
    pub(crate) fn part(&self, path: &str) -> io::Result<File> {
        let open = || self.within(path, OFlags::PATH);
        match open() {
            Err(Errno::NOENT) => {
                let parts: Vec<&str> = path
                    .split('/')
                    .filter(|part| !part.is_empty() && *part != ".")
                    .collect();
                self.parent(&parts)?;
                Ok(open()?.into())
            }
            opened => Ok(opened?.into()),
        }
    }

    /// The directory of this path below the root; what is not there of it is made.
    pub(super) fn parent(&self, parts: &[&str]) -> io::Result<Parent> {
        if parts.len() > DEPTH_MAX {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        let mut path = String::from(".");
        let mut directory = self.directory(&path)?;
        for part in parts {
            path = path + "/" + part;
            directory = match self.directory(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match mkdirat(&directory, *part, Mode::from_raw_mode(MODE)) {
                        Ok(()) | Err(Errno::EXIST) => self.directory(&path)?,
                        Err(errno) => return Err(errno.into()),
                    }
                }
                opened => opened?,
            };
        }
        Ok(Parent(directory))
    }

    fn directory(&self, path: &str) -> io::Result<OwnedFd> {
        Ok(self.within(path, OFlags::DIRECTORY)?)
    }

    /// Opens what is at this path below the root. The kernel is not sure of a `..` while anything is renamed or mounted
    /// anywhere on the host, and then has it asked again (`openat2(2)`, `EAGAIN`).
    fn within(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let open = || openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve);
        for _ in 0..UNSURE_MAX {
            match open() {
                Err(Errno::AGAIN) => thread::yield_now(),
                opened => return opened,
            }
        }
        open()
    }
}

/// A directory that entries are made in, by names that are no paths.
pub(super) struct Parent(OwnedFd);

impl Parent {
    pub(super) fn directory(&self, name: &str, entry: &Entry) -> io::Result<()> {
        if !self.is_directory(name)? {
            self.clear(name)?;
            mkdirat(&self.0, name, Mode::from_raw_mode(MODE))?;
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(&self.0, name, flags, Mode::empty())?;
        finish(&directory, entry)
    }

    pub(super) fn file(&self, name: &str, entry: &Entry, content: &mut impl Read) -> io::Result<()> {
        self.clear(name)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, name, flags, Mode::from_raw_mode(0o600))?;
        let mut file = File::from(file);
        copy_sparse(content, &mut file)?;
        finish(&file.into(), entry)
    }

    pub(super) fn symbolic_link(&self, name: &str, entry: &Entry) -> io::Result<()> {
        self.clear(name)?;
        symlinkat(&entry.link, &self.0, name)?;
        let (uid, gid) = owner(entry);
        chownat(&self.0, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(utimensat(&self.0, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    pub(super) fn hard_link(&self, name: &str, from: &Parent, target: &str) -> io::Result<()> {
        self.clear(name)?;
        Ok(linkat(&from.0, target, &self.0, name, AtFlags::empty())?)
    }

    pub(super) fn fifo(&self, name: &str, entry: &Entry) -> io::Result<()> {
        self.clear(name)?;
        mknodat(&self.0, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
        let (uid, gid) = owner(entry);
        chownat(&self.0, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(chmodat(
            &self.0,
            name,
            Mode::from_raw_mode(entry.mode),
            AtFlags::empty(),
        )?)
    }

    /// What the layers below have of this name is not seen.
    pub(super) fn white_out(&self, name: &str) -> io::Result<()> {
        self.clear(name)?;
        Ok(mknodat(&self.0, name, FileType::CharacterDevice, Mode::empty(), 0)?)
    }

    /// What the layers below have in this directory is not seen.
    pub(super) fn hide_below(&self) -> io::Result<()> {
        Ok(fsetxattr(&self.0, OPAQUE_ATTRIBUTE, b"y", XattrFlags::empty())?)
    }

    fn is_directory(&self, name: &str) -> io::Result<bool> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Nothing has this name any more.
    fn clear(&self, name: &str) -> io::Result<()> {
        match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(Errno::ISDIR | Errno::PERM) => self.clear_directory(name),
            Err(errno) => Err(errno.into()),
        }
    }

    /// No deeper than a layer can have made it.
    fn clear_directory(&self, name: &str) -> io::Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = Parent(openat(&self.0, name, flags, Mode::empty())?);
        for entry in Dir::read_from(&directory.0)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                directory.clear(&name)?;
            }
        }
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }
}

/// Blocks of zeros become holes.
fn copy_sparse(content: &mut impl Read, file: &mut File) -> io::Result<()> {
    let mut block = [0; BLOCK_BYTES];
    let mut length = 0;
    loop {
        let mut filled = 0;
        while filled < BLOCK_BYTES {
            match content.read(&mut block[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        length += filled as u64;
        if block[..filled].iter().all(|byte| *byte == 0) {
            file.seek(SeekFrom::Current(filled as i64))?;
        } else {
            file.write_all(&block[..filled])?;
        }
        if filled < BLOCK_BYTES {
            return file.set_len(length);
        }
    }
}

/// Owner before mode: a change of owner takes away the set-user-ID bit.
fn finish(made: &OwnedFd, entry: &Entry) -> io::Result<()> {
    let (uid, gid) = owner(entry);
    fchown(made, uid, gid)?;
    fchmod(made, Mode::from_raw_mode(entry.mode))?;
    for (name, value) in &entry.attributes {
        // Others are the file system's own: with them a layer could make what it may not.
        if name == "security.capability" || name.starts_with("user.") {
            fsetxattr(made, name.as_str(), value, XattrFlags::empty())?;
        }
    }
    Ok(futimens(made, &times(entry))?)
}

fn owner(entry: &Entry) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)))
}

fn times(entry: &Entry) -> Timestamps {
    let time = Timespec {
        tv_sec: entry.modified_s,
        tv_nsec: 0,
    };
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}
