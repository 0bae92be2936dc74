//! The edge's own certificate authority: for the server's certificate where an operator has none, and for devices.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    PublicKeyData, SanType, SerialNumber, SigningKey,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::edge_key::EdgeKeyError;
use crate::enrol::Issued;
use crate::files;
use crate::fingerprint::Fingerprint;
use crate::invitation::EnrolmentOptions;
use crate::name::ClientName;
use crate::node::ANY_NODE;
use crate::registry::ClientCertificate;
use crate::secret::{Secret, hex, random_bytes};

const DAY_S: i64 = 86_400;
const AUTHORITY_VALID_S: i64 = 20 * 365 * DAY_S;

/// Under the 398 days that browsers allow.
const SERVER_VALID_S: i64 = 397 * DAY_S;

/// Certificates are valid from a little earlier, for clients whose clocks are behind.
const BACKDATED_S: i64 = DAY_S;

/// 2026-01-01: a board that says it is earlier has no time yet, and would sign what has expired once it has.
const EARLIEST_UNIX_S: i64 = 1_767_225_600;

/// Signs with a P-256 key in `ca.key`, which never leaves the data directory; `ca.pem` is what clients are to trust.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
    certificate: CertificateDer<'static>,
}

/// Why the authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold what it should, or the two do not belong together.
    #[error("{path} {what}; restore ca.pem and ca.key from one backup, or remove both to start a new authority")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A name or address that no certificate can carry.
    #[error("\"{0}\" is neither a host name nor an IP address that a certificate can carry")]
    Name(String),
    /// Signing failed.
    #[error("certificate not made: {0}")]
    Sign(#[from] rcgen::Error),
}

/// A server's certificate chain and key.
pub(crate) struct ServerKey {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: PrivateKeyDer<'static>,
}

impl Authority {
    /// Opens the authority in `directory`; makes a new one if there is no `ca.pem`.
    ///
    /// # Errors
    /// The files cannot be read, written or understood, or do not belong together.
    pub fn open(directory: &Path, now_unix_s: i64) -> Result<Self, AuthorityError> {
        let (certificate_path, key_path) = (directory.join("ca.pem"), directory.join("ca.key"));
        if !certificate_path.exists() {
            create(&certificate_path, &key_path, now_unix_s)?;
        }
        let certificate_pem = read(&certificate_path)?;
        let key_pem = Secret::new(read(&key_path)?);
        let unusable = |path: &Path, what| AuthorityError::Unusable {
            path: path.into(),
            what,
        };
        let key = KeyPair::from_pem(key_pem.expose()).map_err(|_| unusable(&key_path, "is not a private key"))?;
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .map_err(|_| unusable(&certificate_path, "is not a certificate"))?;
        if !belongs(&certificate, &key) {
            return Err(unusable(&key_path, "is not the key of ca.pem"));
        }
        let issuer = Issuer::from_ca_cert_der(&certificate, key)
            .map_err(|_| unusable(&certificate_path, "is not a certificate authority"))?;
        Ok(Authority {
            issuer,
            certificate_pem,
            certificate,
        })
    }

    /// The authority's certificate in PEM, for clients.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    pub(crate) fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// A new key and a certificate for a server of these host names and IP addresses. Kept nowhere: another start
    /// makes another, which clients of this authority trust as well.
    pub(crate) fn issue_server(&self, names: &[String], now_unix_s: i64) -> Result<ServerKey, AuthorityError> {
        let mut params = params(now_unix_s, SERVER_VALID_S);
        params.subject_alt_names = names
            .iter()
            .map(|name| alternative_name(name))
            .collect::<Result<_, _>>()?;
        params
            .distinguished_name
            .push(DnType::CommonName, names.first().map_or("selvedge", String::as_str));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(ServerKey {
            chain: vec![certificate.der().clone(), self.certificate.clone()],
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        })
    }

    /// SHA-256 of the authority's certificate in DER: what a join token carries, so that an edge knows its cloud.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// Signs by its key: ECDSA on P-256 with SHA-256, ASN.1.
    pub(crate) fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, EdgeKeyError> {
        Ok(self.issuer.key().sign(bytes)?)
    }

    /// From when on what is certified now is valid, in seconds of Unix time.
    pub(crate) fn first_second(now_unix_s: i64) -> i64 {
        now_unix_s.max(EARLIEST_UNIX_S) - BACKDATED_S
    }

    /// Whether a certificate in DER was signed with the authority's key, whenever that was.
    pub(crate) fn has_signed(&self, certificate: &X509Certificate<'_>) -> bool {
        X509Certificate::from_der(&self.certificate)
            .is_ok_and(|(_, own)| certificate.verify_signature(Some(own.public_key())).is_ok())
    }

    /// A new key for a client, and a certificate for it.
    pub(crate) fn issue_client(
        &self,
        name: &ClientName,
        now_unix_s: i64,
        valid_s: u32,
    ) -> Result<(ClientCertificate, Issued), AuthorityError> {
        let key = KeyPair::generate()?;
        let options = EnrolmentOptions {
            certificate_valid_s: valid_s,
            renewal_grace_s: 0,
            are_nodes: false,
        };
        let (row, certificate_pem) = self.certify(name, &key, now_unix_s, options)?;
        let issued = Issued::Certificate {
            serial: row.serial.clone(),
            certificate_pem,
            key_pem: Secret::new(key.serialize_pem()),
        };
        Ok((row, issued))
    }

    /// A certificate in PEM for a client, or a node of a site, that has its key.
    pub(crate) fn certify(
        &self,
        name: &ClientName,
        key: &impl PublicKeyData,
        now_unix_s: i64,
        options: EnrolmentOptions,
    ) -> Result<(ClientCertificate, String), AuthorityError> {
        let mut params = params(now_unix_s, options.certificate_valid_s.into());
        params.distinguished_name.push(DnType::CommonName, &**name.id());
        params
            .distinguished_name
            .push(DnType::OrganizationName, &**name.tenant());
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if options.are_nodes {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
            params.subject_alt_names = vec![alternative_name(ANY_NODE)?];
        }
        let serial = serial();
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        let certificate = params.signed_by(key, &self.issuer)?;
        let row = ClientCertificate {
            serial: hex(&serial),
            not_after_unix_s: params.not_after.unix_timestamp(),
        };
        Ok((row, certificate.pem()))
    }
}

fn create(certificate_path: &Path, key_path: &Path, now_unix_s: i64) -> Result<(), AuthorityError> {
    let mut params = params(now_unix_s, AUTHORITY_VALID_S);
    // Distinct for each edge, so that a client that trusts several finds the right one.
    let name = format!("Selvedge edge {}", hex(&random_bytes::<8>()));
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let write = |path: &Path, content: &str, mode| {
        files::replace(path, content.as_bytes(), mode).map_err(|source| AuthorityError::Io {
            path: path.into(),
            source,
        })
    };
    // The certificate last: where it is, the key is.
    write(key_path, Secret::new(key.serialize_pem()).expose(), 0o600)?;
    write(certificate_path, &certificate.pem(), 0o644)
}

fn params(now_unix_s: i64, valid_s: i64) -> CertificateParams {
    let now_unix_s = now_unix_s.max(EARLIEST_UNIX_S);
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = instant(Authority::first_second(now_unix_s));
    params.not_after = instant(now_unix_s + valid_s);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

/// Clamped to what X.509 can say: the year 9999.
fn instant(unix_s: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(unix_s.clamp(0, 253_402_300_799)).expect("a time that has been clamped")
}

/// 127 random bits: positive, and of the same bytes in DER.
fn serial() -> [u8; 16] {
    let mut serial = random_bytes::<16>();
    serial[0] = serial[0] & 0x7f | 0x40;
    serial
}

fn alternative_name(name: &str) -> Result<SanType, AuthorityError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let label =
        |label: &str| (1..=63).contains(&label.len()) && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let refused = || AuthorityError::Name(name.chars().take(80).collect());
    if name.len() > 253 || !name.split('.').all(label) {
        return Err(refused());
    }
    Ok(SanType::DnsName(name.try_into().map_err(|_| refused())?))
}

fn belongs(certificate: &CertificateDer<'_>, key: &KeyPair) -> bool {
    X509Certificate::from_der(certificate)
        .is_ok_and(|(_, parsed)| &*parsed.public_key().subject_public_key.data == key.der_bytes())
}

fn read(path: &Path) -> Result<String, AuthorityError> {
    std::fs::read_to_string(path).map_err(|source| AuthorityError::Io {
        path: path.into(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn an_authority_is_made_once_and_only_its_owner_can_read_the_key() {
        let directory = tempfile::tempdir().unwrap();
        let first = Authority::open(directory.path(), NOW).unwrap();
        let again = Authority::open(directory.path(), NOW + DAY_S).unwrap();
        assert_eq!(first.certificate_pem(), again.certificate_pem());
        let mode = std::fs::metadata(directory.path().join("ca.key"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_key_of_another_authority_is_refused_and_named() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Authority::open(one.path(), NOW).unwrap();
        Authority::open(other.path(), NOW).unwrap();
        std::fs::copy(other.path().join("ca.key"), one.path().join("ca.key")).unwrap();
        let refused = Authority::open(one.path(), NOW).err().unwrap().to_string();
        assert!(refused.contains("ca.key is not the key of ca.pem"), "{refused}");
        std::fs::remove_file(one.path().join("ca.key")).unwrap();
        assert!(matches!(
            Authority::open(one.path(), NOW),
            Err(AuthorityError::Io { .. })
        ));
    }

    #[test]
    fn a_board_without_the_time_makes_certificates_that_are_valid_once_it_has_it() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::open(directory.path(), 0).unwrap();
        let (certificate, _) = authority
            .issue_client(&ClientName::new("t", "d").unwrap(), 0, 3_600)
            .unwrap();
        assert_eq!(certificate.not_after_unix_s, EARLIEST_UNIX_S + 3_600);
    }

    #[test]
    fn a_server_name_that_is_none_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::open(directory.path(), NOW).unwrap();
        for bad in ["", "a b", "a..b", "mqtt://host", "ä.example"] {
            assert!(authority.issue_server(&[bad.into()], NOW).is_err(), "{bad:?}");
        }
        assert!(
            authority
                .issue_server(&["edge.local".into(), "::1".into(), "10.0.0.1".into()], NOW)
                .is_ok()
        );
    }
}
