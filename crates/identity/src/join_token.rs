//! What an operator carries from a cloud to a machine, so that it becomes an edge of that cloud.

use base64ct::{Base64UrlUnpadded, Encoding};
use ring::digest::{SHA256, digest};

use crate::fingerprint::Fingerprint;
use crate::secret::{Secret, hex, random_bytes};

const VERSION: u8 = 1;
const NUMBER_BYTES: usize = 8;
/// Nobody guesses 128 random bits, however fast a guess is.
const SECRET_BYTES: usize = 16;
const CHECK_BYTES: usize = 4;
const FINGERPRINT_BYTES: usize = 32;
const BODY_BYTES: usize = 1 + FINGERPRINT_BYTES + NUMBER_BYTES + SECRET_BYTES;

/// A join token: by whose authority the cloud is known, which invitation it is, and a secret. As text it is base64url
/// of a version, these three, and the beginning of a SHA-256 over them, by which a part of a token is known for one.
#[derive(Clone)]
pub struct JoinToken {
    authority: Fingerprint,
    number: [u8; NUMBER_BYTES],
    secret: Secret,
}

/// A text that is no join token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinTokenError {
    /// It is something else, or not whole.
    #[error("it is not a whole join token; copy the line that \"selvedge edge invite\" printed, to its end")]
    Garbled,
    /// A newer Selvedge made it.
    #[error("a newer Selvedge made this join token (version {0}); install that one here")]
    Newer(u8),
}

impl JoinToken {
    pub(crate) fn new(authority: Fingerprint) -> Self {
        Self {
            authority,
            number: random_bytes(),
            secret: Secret::new(hex(&random_bytes::<SECRET_BYTES>())),
        }
    }

    /// Reads a token.
    ///
    /// # Errors
    /// See [`JoinTokenError`].
    pub fn parse(text: &str) -> Result<Self, JoinTokenError> {
        let bytes = Base64UrlUnpadded::decode_vec(text.trim()).map_err(|_| JoinTokenError::Garbled)?;
        let body = bytes.split_last_chunk::<CHECK_BYTES>();
        let (body, _) = body
            .filter(|(body, found)| check(body) == **found)
            .ok_or(JoinTokenError::Garbled)?;
        match body {
            [VERSION, fields @ ..] if body.len() == BODY_BYTES => Ok(Self::of(fields)),
            [version, ..] if *version > VERSION => Err(JoinTokenError::Newer(*version)),
            _ => Err(JoinTokenError::Garbled),
        }
    }

    /// # Panics
    /// If these are not as many bytes as the fields have.
    fn of(fields: &[u8]) -> Self {
        let (authority, rest) = fields.split_at(FINGERPRINT_BYTES);
        let (number, secret) = rest.split_at(NUMBER_BYTES);
        Self {
            authority: Fingerprint(authority.try_into().expect("split at its length")),
            number: number.try_into().expect("split at its length"),
            secret: Secret::new(hex(secret)),
        }
    }

    /// The text that is shown once.
    pub fn encode(&self) -> Secret {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.authority.0);
        bytes.extend_from_slice(&self.number);
        bytes.extend_from_slice(&unhex(self.secret.expose()));
        let check = check(&bytes);
        bytes.extend_from_slice(&check);
        Secret::new(Base64UrlUnpadded::encode_string(&bytes))
    }

    /// The certificate authority of the cloud that made it.
    pub fn authority(&self) -> Fingerprint {
        self.authority
    }

    /// Tells it from others; no secret.
    pub fn number(&self) -> String {
        hex(&self.number)
    }

    /// What is kept of its secret.
    pub(crate) fn secret_sha256(&self) -> Vec<u8> {
        digest(&SHA256, self.secret.expose().as_bytes()).as_ref().to_vec()
    }
}

fn check(body: &[u8]) -> [u8; CHECK_BYTES] {
    let digest = digest(&SHA256, body);
    *digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

/// The bytes of what [`hex`] wrote.
fn unhex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> JoinToken {
        JoinToken::new(Fingerprint::of(b"an authority"))
    }

    fn refusal(text: &str) -> Option<JoinTokenError> {
        JoinToken::parse(text).err()
    }

    #[test]
    fn a_token_is_read_as_it_was_written_and_no_flag_begins_like_one() {
        for _ in 0..100 {
            let token = token();
            let text = token.encode();
            let read = JoinToken::parse(&format!(" {}\n", text.expose())).unwrap();
            assert_eq!(
                (read.authority(), read.number(), read.secret_sha256()),
                (token.authority(), token.number(), token.secret_sha256())
            );
            assert!(text.expose().starts_with('A'));
        }
    }

    #[test]
    fn a_token_that_lacks_a_part_or_has_another_letter_is_none() {
        let text = token().encode();
        let text = text.expose();
        for end in 0..text.len() {
            assert_eq!(refusal(&text[..end]), Some(JoinTokenError::Garbled), "{end}");
            let other = if text.as_bytes()[end] == b'x' { "y" } else { "x" };
            let changed = format!("{}{other}{}", &text[..end], &text[end + 1..]);
            assert_eq!(refusal(&changed), Some(JoinTokenError::Garbled), "{end}");
        }
        for bad in ["", "hunter2", "ä", "AAAA", &"A".repeat(1_000_000)] {
            assert_eq!(refusal(bad), Some(JoinTokenError::Garbled));
        }
    }

    #[test]
    fn a_token_of_a_newer_version_is_said_to_be() {
        let mut bytes = vec![VERSION + 1, 1, 2, 3];
        let check = check(&bytes);
        bytes.extend(check);
        let text = Base64UrlUnpadded::encode_string(&bytes);
        assert_eq!(refusal(&text), Some(JoinTokenError::Newer(2)));
    }
}
