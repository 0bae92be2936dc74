//! Whether what runs is what is wanted.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use ring::hmac;
use ring::rand::SystemRandom;

use super::Container;

const SALT_BYTES: usize = 32;
/// Of a digest, in names: 48 bits.
const DIGEST_BYTES: usize = 6;

/// Kept by an edge, so that names of containers tell nobody what is secret in them.
pub struct Salt(hmac::Key);

impl Salt {
    /// The one that is kept there, which is made where there is none.
    ///
    /// # Errors
    /// The file can be neither read nor made, or is no such file.
    pub fn kept_at(path: &Path) -> io::Result<Self> {
        let mut bytes = [0; SALT_BYTES];
        match fs::File::open(path) {
            Ok(mut file) => file.read_exact(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let random = ring::rand::SecureRandom::fill(&SystemRandom::new(), &mut bytes);
                random.map_err(|_| io::Error::other("the system has no random numbers"))?;
                let new = path.with_extension("new");
                let mut file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .mode(0o600)
                    .open(&new)?;
                file.write_all(&bytes)?;
                file.sync_all()?;
                fs::rename(&new, path)?;
            }
            Err(error) => return Err(error),
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Tells this edge's apart from others' on the same host, in names that all can see.
    #[must_use]
    pub fn tag(&self) -> String {
        self.digest(b"tag")
    }

    /// Another for everything that differs in the containers of a replica.
    pub(super) fn revision(&self, of_replica: &[Container]) -> String {
        self.digest(&serde_json::to_vec(of_replica).expect("what a container is, is JSON"))
    }

    fn digest(&self, text: &[u8]) -> String {
        let digest = hmac::sign(&self.0, text);
        digest.as_ref()[..DIGEST_BYTES]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}
