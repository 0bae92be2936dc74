//! An edge renews its certificate, also one that has expired while it had no cloud.

use ring::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authenticate::Refusal;
use crate::certificate::CertificateIdentity;
use crate::enrol::Identity;
use crate::invitation::{Enrolled, EnrolmentOptions, requested_key};
use crate::registry::{RegistryError, SerialState};

/// What a signature of the old key begins with, so that it is worth nothing elsewhere.
const PURPOSE: &[u8] = b"selvedge renewal of an edge's certificate, version 1\n";

/// What the key of the old certificate signs: the request for the new one. Whoever replays it gets a certificate that
/// is worth nothing without the new key.
pub(crate) fn to_be_signed(request_pem: &str) -> Vec<u8> {
    [PURPOSE, request_pem.as_bytes()].concat()
}

impl Identity {
    /// Gives an edge a certificate in place of the one that it shows, for the key of its request (PKCS #10, in PEM),
    /// which the key of the old certificate has signed. Also after its end, for the time of grace; never one that was
    /// revoked.
    ///
    /// # Errors
    /// Why not.
    pub fn renew(
        &self,
        certificate_pem: &str,
        request_pem: &str,
        signature: &[u8],
        options: EnrolmentOptions,
        now_unix_s: i64,
    ) -> Result<Enrolled, Refusal> {
        let old = self.shown(certificate_pem, request_pem, signature)?;
        let key = requested_key(request_pem)?;
        self.check_edge(&old.name)?;
        match self.registry().serial_state(&old.name, &old.serial)? {
            SerialState::Revoked => return Err(Refusal::CertificateRevoked(old.serial)),
            SerialState::Unknown => return Err(Refusal::CertificateNotIssued(old.serial)),
            SerialState::Issued => {}
        }
        if !self.registry().is_renewable(&old.name, &old.serial)? {
            return Err(Refusal::NotRenewable(
                "it did not come of an invitation; its operator exchanges it",
            ));
        }
        if old.not_after_unix_s.saturating_add(options.renewal_grace_s.into()) < now_unix_s {
            return Err(Refusal::RenewalTooLate(old.not_after_unix_s));
        }
        let (new, certificate_pem) = self.certify(&old.name, &key, options, now_unix_s)?;
        match self.registry().renew_certificate(&old.name, &old.serial, &new) {
            Err(RegistryError::NoCredential { .. }) => return Err(Refusal::CertificateRevoked(old.serial)),
            done => done?,
        }
        Ok(Enrolled {
            name: old.name,
            certificate_pem,
            serial: new.serial,
            valid_s: options.certificate_valid_s,
        })
    }

    /// Who shows this certificate: it is of the own authority, and its key has signed the request.
    fn shown(
        &self,
        certificate_pem: &str,
        request_pem: &str,
        signature: &[u8],
    ) -> Result<CertificateIdentity, Refusal> {
        const UNREADABLE: Refusal = Refusal::NotRenewable("it cannot be read");
        let der = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).map_err(|_| UNREADABLE)?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| UNREADABLE)?;
        if !self.authority().has_signed(&certificate) {
            return Err(Refusal::NotRenewable("it is of another authority"));
        }
        let key = &certificate.public_key().subject_public_key.data;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key)
            .verify(&to_be_signed(request_pem), signature)
            .map_err(|_| Refusal::NotRenewable("whoever shows it does not have its key"))?;
        CertificateIdentity::from_der(&der).map_err(|_| UNREADABLE)
    }
}
