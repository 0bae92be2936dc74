//! How a log is kept.

use crate::Stopped;
use crate::disk::Disk;
use crate::error::stopped;

/// When a record counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Once the operating system has it: survives kill -9 of the process, not a power cut.
    Os,
    /// Once the disk has it (`fdatasync`): survives a power cut.
    #[default]
    Disk,
}

impl Durability {
    /// Makes what was created, renamed and removed as durable as this says.
    pub(crate) fn sync_directory(self, disk: &dyn Disk) -> Result<(), Stopped> {
        match self {
            Durability::Os => Ok(()),
            Durability::Disk => disk.sync_directory().map_err(stopped(".", "sync of the directory")),
        }
    }
}

/// How a log is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// When a record counts as durable.
    pub durability: Durability,
    /// Bytes of a segment file, allocated when it is created. Beside the newest there are a spare, which becomes the
    /// next one, and two in reserve for what is moved out of the oldest: an idle log holds four.
    pub segment_bytes: u64,
    /// Bytes that may wait in memory for the commit thread, beside as many that it is writing. Also bounds a record;
    /// at most half of `segment_bytes`.
    pub pending_bytes: usize,
    /// Bytes that all files of the log may take, the spare and the reserve among them; at least four segments. At the
    /// bound the log is
    /// [`Full`](crate::Refused::Full).
    pub limit_bytes: u64,
    /// Garbage is collected once the log takes more than this and twice its live bytes.
    pub garbage_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            durability: Durability::Disk,
            segment_bytes: 16 << 20,
            pending_bytes: 8 << 20,
            limit_bytes: 4 << 30,
            garbage_bytes: 64 << 20,
        }
    }
}

impl Options {
    /// Whether these options can be.
    ///
    /// # Errors
    /// What is wrong, as a sentence that begins with the option's name and ends with what would be right.
    pub fn check(&self) -> Result<(), String> {
        let Options {
            segment_bytes,
            pending_bytes,
            limit_bytes,
            ..
        } = *self;
        if !(64 << 10..=1 << 30).contains(&segment_bytes) {
            return Err(format!(
                "segment_bytes is {segment_bytes}; it must be from 64 KiB to 1 GiB"
            ));
        }
        if !(4096..=segment_bytes / 2).contains(&(pending_bytes as u64)) {
            let most = segment_bytes / 2;
            return Err(format!(
                "pending_bytes is {pending_bytes}; it must be from 4096 to half a segment ({most})"
            ));
        }
        if limit_bytes < 4 * segment_bytes {
            return Err(format!(
                "limit_bytes is {limit_bytes}; it must hold four segments of {segment_bytes}"
            ));
        }
        Ok(())
    }
}
