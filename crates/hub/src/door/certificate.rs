//! A client certificate that the TLS handshake refused.

use std::io;

use rustls::CertificateError as Wrong;

/// Why, in words, if it is a certificate that ended a handshake.
pub(crate) fn refusal(handshake: &io::Error) -> Option<String> {
    match handshake.get_ref()?.downcast_ref()? {
        rustls::Error::InvalidCertificate(wrong) => Some(format!("certificate: {}", in_words(wrong))),
        _ => None,
    }
}

fn in_words(wrong: &Wrong) -> String {
    let words = match wrong {
        Wrong::UnknownIssuer => "of an authority that is not trusted",
        Wrong::BadSignature => "not signed by the authority that it names",
        Wrong::Expired | Wrong::ExpiredContext { .. } => "expired",
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => "not valid yet",
        other => return other.to_string(),
    };
    words.to_owned()
}
