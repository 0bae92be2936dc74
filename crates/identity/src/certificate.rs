//! Who a client certificate says it is.

use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::AttributeTypeAndValue;

use crate::name::{ClientName, DEFAULT_TENANT, NameError};
use crate::secret::hex;

/// What the edge takes from a client's certificate, once the handshake has verified its chain and times: the subject's
/// common name is the id, its organisation the tenant (the default one if it names none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateIdentity {
    /// Who it was issued to.
    pub name: ClientName,
    /// Serial number in lower-case hexadecimal.
    pub serial: String,
    /// End of validity in seconds of Unix time; a resumed TLS session outlives it.
    pub not_after_unix_s: i64,
}

/// Why a certificate names no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// Not an X.509 certificate.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// Not one common name, or more than one organisation.
    #[error("the certificate's subject {0:?} must have one common name (CN) and at most one organisation (O)")]
    Subject(String),
    /// A name that no client can have.
    #[error("the certificate's subject: {0}")]
    Name(#[from] NameError),
}

impl CertificateIdentity {
    /// Reads a certificate in DER: the first of what a verified peer presented.
    ///
    /// # Errors
    /// It cannot be read, or its subject names no client.
    pub fn from_der(der: &[u8]) -> Result<Self, CertificateError> {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::Unreadable)?;
        let subject = certificate.subject();
        let ids = texts(subject.iter_common_name());
        let tenants = texts(subject.iter_organization());
        let (Some([Some(id)]), Some(tenant)) = (ids.get(..), tenant(&tenants)) else {
            return Err(CertificateError::Subject(
                subject.to_string().chars().take(80).collect(),
            ));
        };
        Ok(CertificateIdentity {
            name: ClientName::new(tenant, id)?,
            serial: hex(certificate.raw_serial()),
            not_after_unix_s: certificate.validity().not_after.timestamp(),
        })
    }
}

/// Values of one attribute; `None` for one that is not text.
fn texts<'a>(attributes: impl Iterator<Item = &'a AttributeTypeAndValue<'a>>) -> Vec<Option<&'a str>> {
    attributes.map(|attribute| attribute.as_str().ok()).collect()
}

fn tenant<'a>(organisations: &[Option<&'a str>]) -> Option<&'a str> {
    match organisations {
        [] => Some(DEFAULT_TENANT),
        [only] => *only,
        _ => None,
    }
}
