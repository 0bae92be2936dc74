//! TLS for the server's side: which certificate it shows, and whose it accepts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::server::{NoServerSessionStorage, ServerConfig, VerifierBuilderError, WebPkiClientVerifier};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authority::{AuthorityError, ServerKey};
use crate::enrol::Identity;

/// Where the server's certificate comes from.
#[derive(Clone, Copy, Debug)]
pub enum ServerCertificate<'a> {
    /// The edge's own authority makes one for these host names and IP addresses.
    Issued {
        /// What clients connect to.
        names: &'a [String],
    },
    /// The operator has one.
    Files {
        /// Certificate chain in PEM, the server's own first.
        certificate: &'a Path,
        /// Its private key in PEM.
        key: &'a Path,
    },
}

/// What a listener needs.
#[derive(Clone, Debug)]
pub struct Tls {
    /// For every new connection; those made with the one before go on.
    pub config: Arc<ServerConfig>,
    /// End of validity of the server's certificate in seconds of Unix time. Build another well before.
    pub not_after_unix_s: i64,
}

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A PEM file cannot be read, or does not hold what it should.
    #[error("{path}: {what} expected in PEM: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What should be in it.
        what: &'static str,
        /// What is wrong.
        source: pem::Error,
    },
    /// A certificate that cannot be used.
    #[error("{path}: {message}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The certificate and the key do not go together, or TLS knows no such key.
    #[error("{certificate} and {key} cannot be used together: {source}")]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// Why not.
        source: rustls::Error,
    },
    /// What should be PEM is not.
    #[error("no certificate or key in PEM: {0}")]
    Pem(#[from] pem::Error),
    /// This system says of no authority that it is to be believed.
    #[error("this system knows no certificate authorities (package ca-certificates?){0}")]
    NoSystemRoots(String),
    /// TLS itself failed.
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// No verifier of client certificates.
    #[error("client certificates: {0}")]
    Verifier(#[from] VerifierBuilderError),
    /// The edge's own authority failed.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
}

/// Builds the server's side of TLS 1.2 and 1.3. Clients may show a certificate of the own authority, of the cloud's
/// that is believed, or of those in the file `client_ca`; a wrong, expired or not yet valid one fails the handshake. To
/// reload, build another.
///
/// Sessions are resumed by tickets that the client keeps (encrypted under keys of this configuration that change every
/// six hours): they take no memory here. Early data is not accepted, since it could be replayed.
///
/// # Errors
/// A file cannot be read, or a certificate and its key do not go together; files are named.
pub fn server_config(
    identity: &Identity,
    certificate: ServerCertificate<'_>,
    client_ca: Option<&Path>,
    now_unix_s: i64,
) -> Result<Tls, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let ServerKey { chain, key } = match certificate {
        ServerCertificate::Issued { names } => identity.authority().issue_server(names, now_unix_s)?,
        ServerCertificate::Files { certificate, key } => load(certificate, key)?,
    };
    let not_after_unix_s = not_after_unix_s(&chain[0])?;
    let roots = client_roots(identity, client_ca)?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()?;
    let config = builder(provider)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|source| unusable_pair(certificate, source))?;
    Ok(Tls {
        config: Arc::new(resumable(config)?),
        not_after_unix_s,
    })
}

fn builder(
    provider: Arc<CryptoProvider>,
) -> Result<rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>, rustls::Error> {
    ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

fn unusable_pair(from: ServerCertificate<'_>, source: rustls::Error) -> TlsError {
    match from {
        ServerCertificate::Issued { .. } => source.into(),
        ServerCertificate::Files { certificate, key } => TlsError::Pair {
            certificate: certificate.into(),
            key: key.into(),
            source,
        },
    }
}

fn resumable(mut config: ServerConfig) -> Result<ServerConfig, rustls::Error> {
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = ring::Ticketer::new()?;
    config.send_tls13_tickets = 1;
    Ok(config)
}

pub(crate) fn load(certificate: &Path, key: &Path) -> Result<ServerKey, TlsError> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|source| TlsError::File {
        path: key.into(),
        what: "a private key",
        source,
    })?;
    Ok(ServerKey { chain, key })
}

fn client_roots(identity: &Identity, client_ca: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add(identity.authority().certificate().clone())?;
    if let Some(cloud) = identity.cloud_authority() {
        roots.add(cloud)?;
    }
    if let Some(path) = client_ca {
        add_authorities(&mut roots, path)?;
    }
    Ok(roots)
}

pub(crate) fn add_authorities(roots: &mut RootCertStore, path: &Path) -> Result<(), TlsError> {
    for certificate in certificates(path)? {
        let unusable = |error: rustls::Error| TlsError::Certificate {
            path: path.into(),
            message: format!("not a certificate authority: {error}"),
        };
        roots.add(certificate).map_err(unusable)?;
    }
    Ok(())
}

/// At least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::File {
        path: path.into(),
        what: "a certificate",
        source,
    };
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    if found.is_empty() {
        Err(failed(pem::Error::NoItemsFound))
    } else {
        Ok(found)
    }
}

fn not_after_unix_s(certificate: &CertificateDer<'_>) -> Result<i64, rustls::Error> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|_| rustls::Error::InvalidCertificate(rustls::CertificateError::BadEncoding))?;
    Ok(parsed.validity().not_after.timestamp())
}
