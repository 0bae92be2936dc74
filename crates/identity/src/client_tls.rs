//! TLS for the client's side: whom it believes, and what it shows.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::authority::ServerKey;
use crate::slow_clock::SlowClock;
use crate::tls::{TlsError, add_authorities, load};

/// What a client shows: the files of its certificate chain and its private key, both in PEM.
#[derive(Clone, Copy, Debug)]
pub struct ClientPair<'a> {
    /// The client's own first.
    pub certificate: &'a Path,
    /// Of the first certificate.
    pub key: &'a Path,
}

/// TLS 1.2 and 1.3 of a client that believes the authorities in the PEM file `ca`; `None`: those that this system
/// believes, so that the authority of a company, or of a proxy that looks into TLS, is believed where its operator has
/// installed it.
///
/// # Errors
/// A file cannot be read, or holds nothing of its kind; certificate and key do not go together; the system knows no
/// authority.
///
/// A certificate that is valid only later is believed: a clock may be behind.
pub fn client_config(ca: Option<&Path>, pair: Option<ClientPair<'_>>) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => add_authorities(&mut roots, path)?,
        None => add_those_of_system(&mut roots)?,
    }
    let config = match (believing(roots)?, pair) {
        (builder, Some(pair)) => shows(builder, pair)?,
        (builder, None) => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// The beginning of a client that believes these authorities, of which there is one at least.
fn believing(
    roots: RootCertStore,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let strict = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
    let strict = strict.expect("there are authorities, and no list of revoked certificates");
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(SlowClock::new(strict))))
}

/// Whom a client believes that has no files.
pub(crate) struct Trusted<'a> {
    pub(crate) authority_pem: &'a [u8],
    pub(crate) and_system: bool,
}

/// As [`client_config`], of what is in memory; `pair`: certificate and key in PEM.
pub(crate) fn config_of_pem(
    trusted: &Trusted<'_>,
    pair: Option<(&[u8], &[u8])>,
) -> Result<Arc<ClientConfig>, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.authority_pem)?)?;
    if trusted.and_system {
        add_those_of_system(&mut roots)?;
    }
    let builder = believing(roots)?;
    let config = match pair {
        Some((certificate, key)) => builder.with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate)?],
            PrivateKeyDer::from_pem_slice(key)?,
        )?,
        None => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

pub(crate) fn add_those_of_system(roots: &mut RootCertStore) -> Result<(), TlsError> {
    let found = rustls_native_certs::load_native_certs();
    // Some of a system's are too old for webpki; the others are enough.
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}"));
        return Err(TlsError::NoSystemRoots(why.unwrap_or_default()));
    }
    Ok(())
}

fn shows(
    builder: rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert>,
    pair: ClientPair<'_>,
) -> Result<ClientConfig, TlsError> {
    let ServerKey { chain, key } = load(pair.certificate, pair.key)?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|source| TlsError::Pair {
            certificate: pair.certificate.into(),
            key: pair.key.into(),
            source,
        })
}
