//! Secrets of an application in its snapshot: its manifests of them, sealed by a passphrase.

use std::fs::File;
use std::io::{self, Read, Write};

use seal::{Broken, Opened, Passphrase, Sealed};

use super::{Error, Kept, MANIFESTS_BYTES_MAX, SECRETS, Snapshots, is_a};
use crate::image::store::at;

/// Of them as they are kept: what an envelope adds is less.
pub(super) const SEALED_BYTES_MAX: u64 = MANIFESTS_BYTES_MAX + (64 << 10);

/// Secrets that nobody reads without the passphrase.
#[derive(Clone, Debug)]
pub struct Secrets {
    pub(super) names: Vec<String>,
    pub(super) sealed: Vec<u8>,
}

impl Secrets {
    /// Seals the manifests of those that have these names.
    ///
    /// # Errors
    /// They are too long.
    pub fn seal(names: Vec<String>, manifests: &str, passphrase: &Passphrase) -> Result<Self, Error> {
        if manifests.len() as u64 > MANIFESTS_BYTES_MAX {
            return Err(Error::TooMuch(format!(
                "its Secrets have {} bytes, and may have {MANIFESTS_BYTES_MAX}",
                manifests.len()
            )));
        }
        let sealed = || -> io::Result<Vec<u8>> {
            let mut sealed = Sealed::begin(Vec::new(), passphrase)?;
            sealed.write_all(manifests.as_bytes())?;
            sealed.finish()
        };
        let sealed = sealed().map_err(|error| Error::Refused(format!("its Secrets: {error}")))?;
        Ok(Secrets { names, sealed })
    }
}

impl Snapshots {
    /// The manifests of the Secrets that are sealed in a snapshot, as YAML; none where there are none.
    ///
    /// # Errors
    /// There is no passphrase, or it is another one; or they are not what they were.
    pub fn secrets(&self, kept: &Kept, passphrase: Option<&Passphrase>) -> Result<Option<String>, Error> {
        let Some(described) = kept.manifest.layers().iter().find(|layer| is_a(layer, SECRETS)) else {
            return Ok(None);
        };
        let passphrase = passphrase.ok_or_else(|| Error::Sealed {
            name: kept.name.clone(),
            secrets: kept.about.secrets.join(", "),
        })?;
        let path = self.layout.blob_path(described.digest())?;
        let sealed = File::open(&path).map_err(at(&path))?;
        open(sealed, passphrase).map(Some)
    }
}

/// What was sealed, if the passphrase is its own.
pub(super) fn open(sealed: File, passphrase: &Passphrase) -> Result<String, Error> {
    let mut text = String::new();
    let read = Opened::begin(sealed.take(SEALED_BYTES_MAX), passphrase)
        .and_then(|opened| opened.take(MANIFESTS_BYTES_MAX + 1).read_to_string(&mut text));
    let read = read.map_err(|error| match Broken::within(&error) {
        Some(broken) => Error::Shut(broken),
        None => Error::Refused(format!("its Secrets cannot be read: {error}")),
    })?;
    match read as u64 > MANIFESTS_BYTES_MAX {
        true => Err(Error::TooMuch(format!(
            "its Secrets have more than {MANIFESTS_BYTES_MAX} bytes"
        ))),
        false => Ok(text),
    }
}
