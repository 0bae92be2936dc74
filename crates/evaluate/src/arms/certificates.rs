//! One certificate authority and one server certificate a run, for all arms under TLS.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

const SERVER_NAME: &str = "localhost";

/// Files for a server, and what its clients trust.
pub(crate) struct Certificates {
    /// Certificate of the server, PEM.
    pub(crate) certificate: PathBuf,
    /// Its private key, PEM.
    pub(crate) key: PathBuf,
    client: Arc<ClientConfig>,
}

impl Certificates {
    /// Makes them and writes the server's into `directory`.
    ///
    /// # Errors
    /// In words: no key could be made, or the directory cannot be written to.
    pub(crate) fn create(directory: &Path) -> Result<Certificates, String> {
        let (certificate_pem, key_pem, authority) = issue().map_err(|error| format!("no certificate: {error}"))?;
        let (certificate, key) = (directory.join("server.pem"), directory.join("server.key"));
        for (path, text) in [(&certificate, certificate_pem), (&key, key_pem)] {
            std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Certificates {
            certificate,
            key,
            client: Arc::new(client_config([authority])?),
        })
    }

    /// What a client needs to trust the server.
    pub(crate) fn client_side(&self) -> (Arc<ClientConfig>, ServerName<'static>) {
        (
            self.client.clone(),
            ServerName::try_from(SERVER_NAME).expect("localhost is a DNS name"),
        )
    }
}

/// Certificate and key of the server in PEM, and the authority's certificate.
fn issue() -> Result<(String, String, CertificateDer<'static>), rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let server_key = KeyPair::generate()?;
    let server = CertificateParams::new(vec![SERVER_NAME.to_owned()])?.signed_by(&server_key, &issuer)?;
    Ok((
        server.pem(),
        server_key.serialize_pem(),
        authority_certificate.der().clone(),
    ))
}

/// What a client needs to trust the servers that the authorities in a PEM file vouch for.
///
/// # Errors
/// In words: the file cannot be read, or holds no certificate.
pub(super) fn trusting(authorities: &Path) -> Result<ClientConfig, String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", authorities.display());
    let certificates = CertificateDer::pem_file_iter(authorities).map_err(|error| named(&error))?;
    let certificates: Vec<_> = certificates.collect::<Result<_, _>>().map_err(|error| named(&error))?;
    if certificates.is_empty() {
        return Err(named(&"it holds no certificate"));
    }
    client_config(certificates)
}

fn client_config(authorities: impl IntoIterator<Item = CertificateDer<'static>>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
