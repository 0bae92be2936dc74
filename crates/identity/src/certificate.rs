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
    /// Serial number in lower-case hexadecimal, without leading zeros.
    pub serial: String,
    /// End of validity in seconds of Unix time; a resumed TLS session outlives it.
    pub not_after_unix_s: i64,
    /// Name of the authority that issued it, in DER.
    pub issuer: Vec<u8>,
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
            serial: normal_serial(&hex(certificate.raw_serial())).ok_or(CertificateError::Unreadable)?,
            not_after_unix_s: certificate.validity().not_after.timestamp(),
            issuer: certificate.issuer().as_raw().to_vec(),
        })
    }
}

/// A serial number in the one form in which they are compared: lower-case hexadecimal without colons and leading zeros,
/// which programs show or leave out as they like. `None` if it is none, or longer than any (RFC 5280 allows 20 bytes).
pub(crate) fn normal_serial(text: &str) -> Option<String> {
    let digits: String = text.chars().filter(|digit| *digit != ':').collect();
    let is_serial = (1..=80).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let shortest = digits.trim_start_matches('0').to_ascii_lowercase();
    match is_serial {
        true if shortest.is_empty() => Some("0".to_owned()),
        true => Some(shortest),
        false => None,
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
