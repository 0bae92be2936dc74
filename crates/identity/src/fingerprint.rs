//! What a certificate is recognised by.

use std::fmt;

use ring::digest::{SHA256, digest};

use crate::secret::hex;

/// SHA-256 of a certificate in DER.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub(crate) [u8; 32]);

impl Fingerprint {
    /// Of a certificate in DER.
    pub fn of(der: &[u8]) -> Self {
        let digest = digest(&SHA256, der);
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
