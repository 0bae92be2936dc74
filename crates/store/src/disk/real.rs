//! Files of the operating system.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Disk, File};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
/// Zeros written at once where blocks cannot be allocated otherwise.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A directory, held open, so that moving or mounting over its path changes nothing.
#[derive(Debug)]
pub(crate) struct RealDisk {
    directory: OwnedFd,
}

impl RealDisk {
    pub(crate) fn open(dir: &Path) -> io::Result<RealDisk> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(RealDisk {
            directory: rustix::fs::open(dir, flags, Mode::empty())?,
        })
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<RealFile> {
        Ok(RealFile {
            fd: rustix::fs::openat(&self.directory, name, flags | OFlags::CLOEXEC, FILE_MODE)?,
        })
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.directory)? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>> {
        let file = self.open_with(name, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC)?;
        match file.allocate(bytes) {
            Ok(()) => Ok(Box::new(file)),
            Err(error) => {
                self.remove(name)?;
                Err(error)
            }
        }
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        Ok(Box::new(self.open_with(name, OFlags::RDWR)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.directory, from, &self.directory, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.directory)?)
    }
}

#[derive(Debug)]
struct RealFile {
    fd: OwnedFd,
}

impl RealFile {
    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::OPNOTSUPP) => self.write_zeros(bytes),
            other => Ok(other?),
        }
    }

    fn write_zeros(&self, bytes: u64) -> io::Result<()> {
        let mut offset = 0;
        while offset < bytes {
            let now = (bytes - offset).min(ZEROS.len() as u64);
            self.write_at(&ZEROS[..now as usize], offset)?;
            offset += now;
        }
        Ok(())
    }
}

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(rustix::fs::fstat(&self.fd)?.st_size.unsigned_abs())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match rustix::io::pread(&self.fd, &mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match rustix::io::pwrite(&self.fd, &bytes[written..], offset + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.fd)?)
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.fd, bytes)?)
    }
}
