//! A node of a site: what it proves itself by to the others, and how it knows them.

use std::sync::Arc;

use rcgen::{KeyPair, SigningKey};
use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::bans::Bans;
use crate::certificate::CertificateIdentity;
use crate::edge_key::EdgeKeyError;
use crate::enrol::{Identity, IdentityError};
use crate::fingerprint::Fingerprint;
use crate::invitation::EnrolmentOptions;
use crate::membership::Membership;
use crate::name::ClientName;
use crate::slow_clock::{SlowClock, SlowClockOfServer};
use crate::tls::TlsError;

/// What the certificate of a node names beside the node, and that of a device does not. It stands for every node: who is
/// meant is in the subject.
pub(crate) const ANY_NODE: &str = "node.site.selvedge.internal";

/// For how long the node at which a site began proves itself by one key: it has another at each start.
const FOUNDER_VALID_S: u32 = 10 * 365 * 86_400;

/// A node's certificate and key, and its site's authority.
pub struct NodeKeys {
    node: String,
    certificate: CertificateDer<'static>,
    key: KeyPair,
    authority: CertificateDer<'static>,
}

/// Why a node cannot prove itself.
#[derive(Debug, thiserror::Error)]
pub enum NodeKeysError {
    /// Its certificate or key cannot be read.
    #[error("site: {0}")]
    Tls(#[from] TlsError),
    /// Its key cannot be used.
    #[error("site: {0}")]
    Key(#[from] EdgeKeyError),
    /// Its own authority does not certify it.
    #[error("site: {0}")]
    Identity(#[from] IdentityError),
    /// Its certificate is not that of a node.
    #[error("site: its certificate is not that of a node of a site; join the site again: selvedge site join")]
    NoNode,
}

impl NodeKeys {
    /// Those of the node at which a site began, of the name that it gives itself.
    ///
    /// # Errors
    /// The system gives no key.
    pub fn of_founder(identity: &Identity, name: &ClientName, now_unix_s: i64) -> Result<Self, NodeKeysError> {
        let key = KeyPair::generate().map_err(EdgeKeyError::from)?;
        let options = EnrolmentOptions {
            certificate_valid_s: FOUNDER_VALID_S,
            renewal_grace_s: 0,
            are_nodes: true,
        };
        let made = identity.authority().certify(name, &key, now_unix_s, options);
        let (_, certificate_pem) = made.map_err(IdentityError::from)?;
        Ok(NodeKeys {
            node: (*name.id()).to_string(),
            certificate: CertificateDer::from_pem_slice(certificate_pem.as_bytes()).map_err(TlsError::from)?,
            key,
            authority: identity.authority().certificate().clone(),
        })
    }

    /// Those of a node that has joined.
    ///
    /// # Errors
    /// What it has of its site cannot be used.
    pub fn of_member(membership: &Membership) -> Result<Self, NodeKeysError> {
        let pem = |text: &str| CertificateDer::from_pem_slice(text.as_bytes()).map_err(TlsError::from);
        let authority = pem(&membership.authority_pem)?;
        let certificate = pem(&membership.certificate_pem)?;
        let key = KeyPair::from_pem(membership.key_pem.expose()).map_err(EdgeKeyError::from)?;
        Ok(NodeKeys {
            node: node_of(&certificate).ok_or(NodeKeysError::NoNode)?,
            certificate,
            key,
            authority,
        })
    }

    /// Its name.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its site, by the authority of it.
    #[must_use]
    pub fn site(&self) -> Fingerprint {
        Fingerprint::of(&self.authority)
    }

    /// Its certificate in DER.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// TLS 1.3 where another node connects: it has to show a certificate of this site.
    ///
    /// # Errors
    /// Certificate and key cannot be used.
    pub fn server_config(&self) -> Result<Arc<ServerConfig>, NodeKeysError> {
        let provider = Arc::new(default_provider());
        let strict = WebPkiClientVerifier::builder_with_provider(self.roots()?, Arc::clone(&provider)).build();
        let verifier = SlowClockOfServer::new(strict.map_err(TlsError::from)?);
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsError::from)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(vec![self.certificate.clone()], self.private_key());
        Ok(Arc::new(config.map_err(TlsError::from)?))
    }

    /// TLS 1.3 where it connects to another node. The other's name for this is [`Self::server_name`].
    ///
    /// # Errors
    /// Certificate and key cannot be used.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, NodeKeysError> {
        let provider = Arc::new(default_provider());
        let strict = WebPkiServerVerifier::builder_with_provider(self.roots()?, Arc::clone(&provider)).build();
        let strict = strict.map_err(TlsError::from)?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(TlsError::from)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(SlowClock::new(strict)))
            .with_client_auth_cert(vec![self.certificate.clone()], self.private_key());
        Ok(Arc::new(config.map_err(TlsError::from)?))
    }

    /// What a node's certificate is to be for: any node of the site.
    #[must_use]
    pub fn server_name() -> ServerName<'static> {
        ANY_NODE.try_into().expect("it is a name")
    }

    /// Signs by its key: ECDSA on P-256 with SHA-256, ASN.1.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>, EdgeKeyError> {
        Ok(self.key.sign(bytes)?)
    }

    /// Whether a certificate in DER is one of this site, of this node, and its key has signed the bytes. When it ended
    /// does not matter: what was signed was said before.
    #[must_use]
    pub fn has_signed(&self, node: &str, certificate: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return false;
        };
        let Ok((_, authority)) = X509Certificate::from_der(&self.authority) else {
            return false;
        };
        node_of(certificate).as_deref() == Some(node)
            && parsed.verify_signature(Some(authority.public_key())).is_ok()
            && UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &parsed.public_key().subject_public_key.data)
                .verify(bytes, signature)
                .is_ok()
    }

    /// Whether the site's authority has signed these, and they are within their bounds.
    #[must_use]
    pub fn has_banned(&self, bans: &Bans) -> bool {
        bans.is_signed_by(&self.authority)
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, NodeKeysError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).map_err(TlsError::from)?;
        Ok(Arc::new(roots))
    }

    fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.key.serialize_der()).into()
    }
}

/// Which node the certificate of a verified peer is of; `None`: that of a device, or of none.
#[must_use]
pub fn node_of(certificate: &[u8]) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let names = parsed.subject_alternative_name().ok()??;
    let is_node = names
        .value
        .general_names
        .iter()
        .any(|name| matches!(name, GeneralName::DNSName(ANY_NODE)));
    let identity = is_node.then(|| CertificateIdentity::from_der(certificate).ok())??;
    Some((*identity.name.id()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authority::Authority;
    use crate::enrol::IdentityOptions;

    const NOW: i64 = 1_800_000_000;

    fn founder(directory: &std::path::Path) -> (Identity, NodeKeys) {
        let identity = Identity::open(directory, IdentityOptions::default(), NOW).unwrap();
        let keys = NodeKeys::of_founder(&identity, &ClientName::new("default", "hall-1").unwrap(), NOW).unwrap();
        (identity, keys)
    }

    #[test]
    fn what_a_node_signs_is_its_own_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (identity, keys) = founder(directory.path());
        let other = NodeKeys::of_founder(&identity, &ClientName::new("default", "hall-2").unwrap(), NOW).unwrap();
        let signature = keys.sign(b"said").unwrap();
        let by = |node: &str, certificate: &[u8], bytes: &[u8]| other.has_signed(node, certificate, bytes, &signature);
        assert!(by("hall-1", keys.certificate(), b"said"));
        assert!(!by("hall-1", keys.certificate(), b"else"));
        assert!(!by("hall-2", keys.certificate(), b"said"));
        assert!(!by("hall-2", other.certificate(), b"said"));
        assert!(!by("hall-1", b"no certificate", b"said"));
        let elsewhere = tempfile::tempdir().unwrap();
        let (_, stranger) = founder(elsewhere.path());
        assert!(!stranger.has_signed("hall-1", keys.certificate(), b"said", &signature));
    }

    #[test]
    fn the_certificate_of_a_device_is_not_that_of_a_node() {
        let directory = tempfile::tempdir().unwrap();
        let (_, keys) = founder(directory.path());
        assert_eq!(node_of(keys.certificate()).as_deref(), Some("hall-1"));
        let authority = Authority::open(directory.path(), NOW).unwrap();
        let name = ClientName::new("default", "pump-1").unwrap();
        let (_, issued) = authority.issue_client(&name, NOW, 3_600).unwrap();
        let crate::Issued::Certificate { certificate_pem, .. } = issued else {
            unreachable!("a certificate was asked for")
        };
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).unwrap();
        assert_eq!(node_of(&der), None);
    }
}
