//! What a client proves itself by, taken away piece by piece.

use std::fmt;
use std::str::FromStr;

use rusqlite::Connection;

use super::{Registry, RegistryError, What, certificates, clients};
use crate::certificate::normal_serial;
use crate::name::ClientName;

/// A credential that a client has. Written and read as `password`, `token`, `trusted-certificate`, or a certificate's
/// serial number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldCredential {
    /// Its password.
    Password,
    /// All tokens that were issued to it.
    Tokens,
    /// Any certificate with its name, of an authority that the operator trusts.
    TrustedSubject,
    /// The certificate with this serial number, in lower-case hexadecimal without leading zeros.
    Certificate(String),
    /// What the edge gives the application of this name that it runs. It goes with that alone, and no text names it.
    Application,
}

/// A text that names no credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a credential is password, token, trusted-certificate, or the serial number of a certificate in hexadecimal")]
pub struct NoCredential;

impl FromStr for HeldCredential {
    type Err = NoCredential;

    fn from_str(text: &str) -> Result<Self, NoCredential> {
        match text {
            "password" => Ok(HeldCredential::Password),
            "token" => Ok(HeldCredential::Tokens),
            "trusted-certificate" => Ok(HeldCredential::TrustedSubject),
            serial => normal_serial(serial)
                .map(HeldCredential::Certificate)
                .ok_or(NoCredential),
        }
    }
}

impl fmt::Display for HeldCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeldCredential::Password => f.write_str("password"),
            HeldCredential::Tokens => f.write_str("token"),
            HeldCredential::TrustedSubject => f.write_str("trusted-certificate"),
            HeldCredential::Certificate(serial) => write!(f, "certificate {serial}"),
            HeldCredential::Application => f.write_str("login of an application"),
        }
    }
}

impl Registry {
    /// Makes one credential of a client worthless; what else it has stays valid. Of a client that is known by
    /// certificates of a trusted authority, any serial number can be refused.
    ///
    /// # Errors
    /// No such client, or it does not have this credential.
    pub fn revoke(&self, name: &ClientName, credential: &HeldCredential) -> Result<(), RegistryError> {
        let revoked = What::CredentialRevoked(Some(credential.clone()));
        self.change_client(name, revoked, |transaction| {
            clients::require(transaction, name)?;
            let was_there = match credential {
                HeldCredential::Password => update(transaction, name, "password = NULL", "password IS NOT NULL"),
                HeldCredential::Tokens => update(transaction, name, "token_epoch = NULL", "token_epoch IS NOT NULL"),
                HeldCredential::TrustedSubject => update(transaction, name, "trusts_subject = 0", "trusts_subject"),
                HeldCredential::Certificate(serial) => certificates::revoke(transaction, name, serial),
                HeldCredential::Application => Ok(false),
            };
            match was_there? {
                true => Ok(()),
                false => Err(RegistryError::NoCredential {
                    name: name.clone(),
                    credential: credential.clone(),
                }),
            }
        })
    }
}

/// Changes a client's row where `condition` holds; whether it did.
fn update(connection: &Connection, name: &ClientName, change: &str, condition: &str) -> rusqlite::Result<bool> {
    let sql = format!("UPDATE clients SET {change} WHERE tenant = ?1 AND id = ?2 AND {condition}");
    Ok(connection.execute(&sql, [name.tenant(), name.id()])? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_named_by_its_sort_or_its_serial_number() {
        use HeldCredential::{Certificate, Password, Tokens, TrustedSubject};
        let check = |text: &str, expected| assert_eq!(text.parse(), expected, "{text}");
        check("password", Ok(Password));
        check("token", Ok(Tokens));
        check("trusted-certificate", Ok(TrustedSubject));
        check("5f03", Ok(Certificate("5f03".into())));
        // As openssl shows them.
        check("00:C3:0A", Ok(Certificate("c30a".into())));
        check("05F", Ok(Certificate("5f".into())));
        check("0", Ok(Certificate("0".into())));
        for none in ["", "passwd", "5g", "' OR 1=1", ":", &"5".repeat(81)] {
            check(none, Err(NoCredential));
        }
    }
}
