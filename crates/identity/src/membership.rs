//! What an edge that joined a cloud has of it: one file, so that certificate and key are never of two joins.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};

use crate::certificate::{CertificateError, CertificateIdentity};
use crate::client_tls::{self, Trusted};
use crate::files;
use crate::secret::{Secret, random_bytes};
use crate::tls::TlsError;

/// Name of the file in the data directory.
pub const MEMBERSHIP_FILE: &str = "membership.json";

/// An edge's place in a cloud, or in a site.
#[derive(Clone, Serialize, Deserialize)]
pub struct Membership {
    /// The edge, as the cloud calls it: `{id}` in the default tenant, else `{tenant}/{id}`.
    pub edge: String,
    /// Where the cloud is asked for certificates: `https://host:port`; of a site, the edge where it began.
    pub cloud_url: String,
    /// Where the link goes; of a site, where that edge is a node of it.
    pub link_url: String,
    /// The edge's certificate.
    pub certificate_pem: String,
    /// Its private key, PKCS #8 in PEM.
    #[serde(with = "exposed")]
    pub key_pem: Secret,
    /// The cloud's certificate authority.
    pub authority_pem: String,
    /// Whether the cloud is believed, too, where it shows a certificate that this system believes.
    pub trusts_system: bool,
    /// When the cloud gave the certificate, in seconds of Unix time.
    pub given_at_unix_s: i64,
    /// End of the certificate.
    pub not_after_unix_s: i64,
    /// When to renew it.
    pub renew_at_unix_s: i64,
}

/// Why there is no membership, or none that can be used.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not one of ours.
    #[error("{path}: {source}; join the cloud again: selvedge edge join; a site: selvedge site join")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// What is in it cannot be used.
    #[error("{MEMBERSHIP_FILE}: {0}")]
    Tls(#[from] TlsError),
}

impl Membership {
    /// What the edge of a data directory has; `None`: it joined no cloud.
    ///
    /// # Errors
    /// The file cannot be read or understood.
    pub fn read(directory: &Path) -> Result<Option<Self>, MembershipError> {
        let path = directory.join(MEMBERSHIP_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Secret::new(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(MembershipError::File { path, source }),
        };
        let read = serde_json::from_str(text.expose());
        read.map(Some)
            .map_err(|source| MembershipError::Content { path, source })
    }

    /// Puts it in place of what was there, at once, readable by its owner alone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, directory: &Path) -> Result<(), MembershipError> {
        let path = directory.join(MEMBERSHIP_FILE);
        let text = Secret::new(serde_json::to_string_pretty(self).expect("texts and numbers are JSON"));
        files::replace(&path, text.expose().as_bytes(), 0o600).map_err(|source| MembershipError::File { path, source })
    }

    /// TLS of the link: it believes the cloud alone, and shows the certificate.
    ///
    /// # Errors
    /// What is in the file cannot be used.
    pub fn link_config(&self) -> Result<Arc<ClientConfig>, MembershipError> {
        let pair = (self.certificate_pem.as_bytes(), self.key_pem.expose().as_bytes());
        Ok(client_tls::config_of_pem(&self.trusted(), Some(pair))?)
    }

    /// TLS of requests for certificates: it believes the same, and shows nothing, because an expired certificate would
    /// end the handshake.
    ///
    /// # Errors
    /// What is in the file cannot be used.
    pub fn https_config(&self) -> Result<Arc<ClientConfig>, MembershipError> {
        Ok(client_tls::config_of_pem(&self.trusted(), None)?)
    }

    /// Whether it is time to renew the certificate. A clock that is behind does not tell: then it is time where there
    /// is no link, because an end that nobody here saw may be why.
    pub fn renewal_is_due(&self, now_unix_s: i64, is_linked: bool) -> bool {
        let is_behind = now_unix_s < self.given_at_unix_s;
        self.renew_at_unix_s <= now_unix_s || is_behind && !is_linked
    }

    fn trusted(&self) -> Trusted<'_> {
        Trusted {
            authority_pem: self.authority_pem.as_bytes(),
            and_system: self.trusts_system,
        }
    }
}

/// When a certificate ends, and when to renew it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateEnd {
    /// Its beginning, in seconds of Unix time.
    pub given_at_unix_s: i64,
    /// Its end, in seconds of Unix time.
    pub not_after_unix_s: i64,
    /// Between two thirds and three quarters of its life, at random: edges that joined together do not renew together.
    pub renew_at_unix_s: i64,
}

/// When a certificate in PEM ends that lives for `valid_s` seconds from now on, by the cloud's clock.
///
/// # Errors
/// It is no certificate of an edge.
pub fn certificate_end(certificate_pem: &str, valid_s: u32) -> Result<CertificateEnd, CertificateError> {
    let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).map_err(|_| CertificateError::Unreadable)?;
    let not_after_unix_s = CertificateIdentity::from_der(&der)?.not_after_unix_s;
    let random = i64::from(u32::from_le_bytes(random_bytes()));
    let life_s = i64::from(valid_s);
    let later_s = (life_s / 12 * random) >> 32;
    Ok(CertificateEnd {
        given_at_unix_s: not_after_unix_s - life_s,
        not_after_unix_s,
        renew_at_unix_s: not_after_unix_s - life_s / 3 + later_s,
    })
}

/// The one place where the key is written.
mod exposed {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::secret::Secret;

    pub(super) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(secret.expose())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;
    use crate::name::ClientName;

    #[test]
    fn a_certificate_is_renewed_between_two_thirds_and_three_quarters_of_its_life() {
        let directory = tempfile::tempdir().unwrap();
        let now_unix_s = 1_800_000_000;
        let authority = Authority::open(directory.path(), now_unix_s).unwrap();
        let name = ClientName::new("default", "hall-1").unwrap();
        for valid_s in [60, 3_600, 30 * 86_400, 3_650 * 86_400] {
            let (_, issued) = authority.issue_client(&name, now_unix_s, valid_s).unwrap();
            let crate::Issued::Certificate { certificate_pem, .. } = issued else {
                unreachable!("a certificate was asked for")
            };
            for _ in 0..100 {
                let end = certificate_end(&certificate_pem, valid_s).unwrap();
                let life_s = i64::from(valid_s);
                assert_eq!(
                    (end.given_at_unix_s, end.not_after_unix_s),
                    (now_unix_s, now_unix_s + life_s)
                );
                let renewed_after_s = end.renew_at_unix_s - now_unix_s;
                assert!(
                    (life_s * 2 / 3..=life_s * 3 / 4).contains(&renewed_after_s),
                    "{renewed_after_s} of {life_s}"
                );
            }
        }
        assert!(certificate_end("no certificate", 60).is_err());
    }

    #[test]
    fn a_renewal_is_due_at_its_time_and_where_the_clock_is_behind_without_a_link() {
        let membership = Membership {
            edge: "hall-1".to_owned(),
            cloud_url: String::new(),
            link_url: String::new(),
            certificate_pem: String::new(),
            key_pem: Secret::new(String::new()),
            authority_pem: String::new(),
            trusts_system: false,
            given_at_unix_s: 1_000,
            not_after_unix_s: 1_300,
            renew_at_unix_s: 1_200,
        };
        let check = |now, is_linked, expected| assert_eq!(membership.renewal_is_due(now, is_linked), expected, "{now}");
        for is_linked in [false, true] {
            check(1_000, is_linked, false);
            check(1_199, is_linked, false);
            check(1_200, is_linked, true);
            check(9_999, is_linked, true);
        }
        check(0, true, false);
        check(0, false, true);
    }
}
