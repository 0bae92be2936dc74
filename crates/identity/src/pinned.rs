//! Whether a server is the cloud that made a join token, where nothing else of it is known yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use crate::client_tls::add_those_of_system;
use crate::fingerprint::Fingerprint;
use crate::slow_clock::SlowClock;
use crate::tls::TlsError;

/// Believes a server by the authority that a token names, or else by what this system believes: a web server in front
/// of the cloud, or a certificate of its operator's, is known by that.
#[derive(Debug)]
pub struct Pin {
    authority: Fingerprint,
    provider: Arc<CryptoProvider>,
    is_by_system: AtomicBool,
}

/// What a server is that shows neither.
#[derive(Debug, thiserror::Error)]
#[error(
    "it is not the cloud that made this token: it shows no certificate of the authority {0}, nor one that this system \
     believes; is the URL right?"
)]
struct Stranger(Fingerprint);

/// TLS of a client that believes a server as [`Pin`] says, which tells afterwards how.
///
/// # Errors
/// TLS itself failed.
pub fn pinned_config(authority: Fingerprint) -> Result<(Arc<ClientConfig>, Arc<Pin>), TlsError> {
    let provider = Arc::new(ring::default_provider());
    let pin = Arc::new(Pin {
        authority,
        provider: Arc::clone(&provider),
        is_by_system: AtomicBool::new(false),
    });
    let verifier: Arc<dyn ServerCertVerifier> = Arc::clone(&pin) as _;
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok((Arc::new(config), pin))
}

impl Pin {
    /// Whether the server was believed by what this system believes.
    pub fn is_by_system(&self) -> bool {
        self.is_by_system.load(Ordering::Relaxed)
    }

    /// Those by whom a server with these certificates is checked: the authority that the token names, if it is shown.
    fn roots(&self, shown: &[CertificateDer<'_>]) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        let pinned = shown.iter().find(|der| Fingerprint::of(der) == self.authority);
        self.is_by_system.store(pinned.is_none(), Ordering::Relaxed);
        match pinned {
            Some(der) => roots.add(der.clone().into_owned())?,
            // A system without authorities believes nobody.
            None => add_those_of_system(&mut roots).map_err(|_| self.stranger())?,
        }
        Ok(roots)
    }

    fn stranger(&self) -> Error {
        CertificateError::Other(OtherError(Arc::new(Stranger(self.authority)))).into()
    }
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let roots = Arc::new(self.roots(intermediates)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&self.provider)).build();
        let verifier = SlowClock::new(verifier.map_err(|error| Error::General(error.to_string()))?);
        let verified = verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        verified.map_err(|error| match error {
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
                self.stranger()
            }
            other => other,
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
