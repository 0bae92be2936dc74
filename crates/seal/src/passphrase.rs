//! What something is sealed by.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zeroize::Zeroizing;

/// Shorter ones are guessed.
const BYTES_LEAST: usize = 12;
/// Of a file that holds one.
const BYTES_MAX: usize = 64 << 10;

/// A passphrase, or a key: wiped from memory when it is dropped, and shown to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(Zeroizing<Vec<u8>>);

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(redacted)")
    }
}

/// Why something is no passphrase.
#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    /// It is too short.
    #[error("the passphrase has less than {BYTES_LEAST} bytes; a file of 32 random bytes is a good one")]
    Weak,
    /// It is too long.
    #[error("the passphrase has more than {BYTES_MAX} bytes; a file of 32 random bytes is a good one")]
    Long,
    /// Its file.
    #[error(transparent)]
    File(#[from] io::Error),
}

impl Passphrase {
    /// Takes the bytes over; the caller keeps no copy.
    ///
    /// # Errors
    /// It is too short, or too long.
    pub fn new(bytes: Vec<u8>) -> Result<Self, PassphraseError> {
        let bytes = Zeroizing::new(bytes);
        match bytes.len() {
            ..BYTES_LEAST => Err(PassphraseError::Weak),
            BYTES_LEAST..=BYTES_MAX => Ok(Passphrase(bytes)),
            _ => Err(PassphraseError::Long),
        }
    }

    /// The one in a file; an end of line is no part of it.
    ///
    /// # Errors
    /// As [`Passphrase::new`], or of the file, without its path.
    pub fn read(path: &Path) -> Result<Self, PassphraseError> {
        // As long as it may become, so that no copy of it is left elsewhere.
        let mut read = Zeroizing::new(Vec::with_capacity(BYTES_MAX + 2));
        File::open(path)?.take(BYTES_MAX as u64 + 1).read_to_end(&mut read)?;
        while read.ends_with(b"\n") || read.ends_with(b"\r") {
            read.pop();
        }
        Self::new(std::mem::take(&mut *read))
    }

    /// The bytes, for what makes a key of them, or sends them on.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}
