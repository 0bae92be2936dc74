//! A file that is renamed when it is full.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::AuditOptions;
use crate::files;

#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    options: AuditOptions,
    file: File,
    len_bytes: u64,
}

impl RotatingFile {
    pub(super) fn open(path: PathBuf, options: AuditOptions) -> io::Result<Self> {
        let file = files::open_private(&path, true)?;
        let len_bytes = file.metadata()?.len();
        Ok(RotatingFile {
            path,
            options,
            file,
            len_bytes,
        })
    }

    pub(super) fn set_options(&mut self, options: AuditOptions) {
        self.options = options;
    }

    /// Appends whole lines.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.len_bytes > 0 && self.len_bytes + lines.len() as u64 > self.options.max_file_bytes {
            self.rotate()?;
        }
        let written = self.file.write_all(lines);
        if written.is_err() {
            // Not a torn line in front of those that come once there is space again.
            let _ = self.file.set_len(self.len_bytes);
            return written;
        }
        self.len_bytes += lines.len() as u64;
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        for number in (0..self.options.old_files).rev() {
            rename_if_there(&self.numbered(number), &self.numbered(number + 1))?;
        }
        if self.options.old_files == 0 {
            std::fs::remove_file(&self.path)?;
        }
        *self = Self::open(self.path.clone(), self.options)?;
        Ok(())
    }

    fn numbered(&self, number: u32) -> PathBuf {
        match number {
            0 => self.path.clone(),
            number => self.path.with_added_extension(number.to_string()),
        }
    }
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
