//! The private key of an edge, which never leaves it.

use std::io;
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, DistinguishedName, KeyPair, SigningKey};

use crate::files;
use crate::renewal::to_be_signed;
use crate::secret::Secret;

/// File in the data directory with the key of a join that has no answer yet.
const PENDING_FILE: &str = "join.key";

/// A P-256 key.
pub struct EdgeKey(KeyPair);

/// Why there is no key, or nothing can be made with it.
#[derive(Debug, thiserror::Error)]
pub enum EdgeKeyError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot be used.
    #[error("key: {0}")]
    Key(#[from] rcgen::Error),
}

impl EdgeKey {
    /// A new key.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn generate() -> Result<Self, EdgeKeyError> {
        Ok(Self(KeyPair::generate()?))
    }

    /// Reads a key in PEM (PKCS #8).
    ///
    /// # Errors
    /// It is none.
    pub fn from_pem(pem: &Secret) -> Result<Self, EdgeKeyError> {
        Ok(Self(KeyPair::from_pem(pem.expose())?))
    }

    /// The key of the join that was begun in `directory` and not ended, or a new one, which is on disk before anybody
    /// hears of it: a token is bound to the key that it is first used with.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn pending(directory: &Path) -> Result<Self, EdgeKeyError> {
        let path = directory.join(PENDING_FILE);
        let file = |source| EdgeKeyError::File {
            path: path.clone(),
            source,
        };
        match std::fs::read_to_string(&path) {
            Ok(pem) => {
                // One that cannot be read is no loss: nothing was made with it that anybody has.
                if let Ok(key) = Self::from_pem(&Secret::new(pem)) {
                    return Ok(key);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(file(error)),
        }
        let key = Self::generate()?;
        files::replace(&path, key.pem().expose().as_bytes(), 0o600).map_err(file)?;
        Ok(key)
    }

    /// Forgets the key of a join that has ended.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget_pending(directory: &Path) -> Result<(), EdgeKeyError> {
        let path = directory.join(PENDING_FILE);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(EdgeKeyError::File { path, source }),
            _ => Ok(()),
        }
    }

    /// The key in PEM (PKCS #8).
    pub fn pem(&self) -> Secret {
        Secret::new(self.0.serialize_pem())
    }

    /// A request for a certificate (PKCS #10) in PEM, which names nobody: who it is for is said elsewhere.
    ///
    /// # Errors
    /// Signing failed.
    pub fn request_pem(&self) -> Result<String, EdgeKeyError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        Ok(params.serialize_request(&self.0)?.pem()?)
    }

    /// What shows a cloud that whoever has this key wants the certificate that `request_pem` asks for.
    ///
    /// # Errors
    /// Signing failed.
    pub fn sign_renewal(&self, request_pem: &str) -> Result<Vec<u8>, EdgeKeyError> {
        Ok(self.0.sign(&to_be_signed(request_pem))?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_of_a_join_is_its_owners_alone_and_the_same_until_the_join_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let first = EdgeKey::pending(directory.path()).unwrap();
        let mode = std::fs::metadata(directory.path().join(PENDING_FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(EdgeKey::pending(directory.path()).unwrap().pem() == first.pem());
        EdgeKey::forget_pending(directory.path()).unwrap();
        EdgeKey::forget_pending(directory.path()).unwrap();
        assert!(EdgeKey::pending(directory.path()).unwrap().pem() != first.pem());
    }

    #[test]
    fn half_a_key_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(PENDING_FILE), "-----BEGIN PRIV").unwrap();
        let key = EdgeKey::pending(directory.path()).unwrap();
        assert!(EdgeKey::pending(directory.path()).unwrap().pem() == key.pem());
    }
}
