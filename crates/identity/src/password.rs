//! Passwords: made, hashed with Argon2id (RFC 9106) and checked. The two costs and the reason for them are in
//! `docs/decisions/0004-password-hashing.md`.

use std::io;

use argon2::Params;
use argon2::password_hash::phc::PasswordHash;

use crate::hashing;
use crate::secret::{Secret, random_bytes};
use crate::token;

/// Longest password or token, in bytes: bounds what one attempt can make the edge hash.
pub const MAX_PASSWORD_BYTES: usize = 1_024;

/// Memory that checking one password takes while it lasts: 19 MiB.
pub const HASHING_MEMORY_BYTES: usize = CHOSEN.m_cost() as usize * 1024;

/// For passwords that people choose: OWASP's parameters, 19 MiB and two passes.
const CHOSEN: Params = params(19 * 1024, 2);

/// For passwords of [`generate`]: 64 KiB and one pass. Nobody guesses 135 random bits, however fast a guess is.
const GENERATED: Params = params(64, 1);

/// Hashes that no password has, checked where there is none, so that an unknown name takes as long as a known one.
const NOBODY_CHOSEN: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$c2VsdmVkZ2Utbm9ib2R5$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const NOBODY_GENERATED: &str =
    "$argon2id$v=19$m=64,t=1,p=1$c2VsdmVkZ2Utbm9ib2R5$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Without letters and digits that are taken for others.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const PREFIX: &str = "sv";
const GROUPS: usize = 3;
const GROUP_CHARS: usize = 9;

const fn params(m_cost_kib: u32, passes: u32) -> Params {
    match Params::new(m_cost_kib, passes, 1, None) {
        Ok(params) => params,
        Err(_) => panic!("parameters that Argon2 allows"),
    }
}

/// A password that cannot be set.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// Nothing.
    #[error("the password is empty; choose one, or let Selvedge generate one")]
    Empty,
    /// Over [`MAX_PASSWORD_BYTES`].
    #[error("the password has {0} bytes; at most {MAX_PASSWORD_BYTES} are allowed")]
    TooLong(usize),
    /// Would be taken for a generated one and be hashed too lightly.
    #[error("the password looks like one that Selvedge generated; choose another, or let Selvedge generate a new one")]
    LooksGenerated,
    /// Would be taken for a token.
    #[error("the password looks like a token; choose another")]
    LooksLikeToken,
    /// The system has no memory for hashing it.
    #[error("the password cannot be hashed: {0}")]
    Hashing(#[from] io::Error),
}

/// A random password of 27 characters in three groups, `sv-xxxxxxxxx-xxxxxxxxx-xxxxxxxxx`: 135 bits of entropy.
pub(crate) fn generate() -> Secret {
    let random = random_bytes::<{ GROUPS * GROUP_CHARS }>();
    let mut password = String::from(PREFIX);
    for group in random.chunks(GROUP_CHARS) {
        password.push('-');
        // 256 is a multiple of 32: every character is as likely as any other.
        password.extend(group.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])));
    }
    Secret::new(password)
}

/// Hashes a password that somebody chose, into a PHC string.
pub(crate) fn hash_chosen(password: &Secret) -> Result<String, PasswordError> {
    let bytes = password.expose().as_bytes();
    match bytes.len() {
        0 => Err(PasswordError::Empty),
        len if len > MAX_PASSWORD_BYTES => Err(PasswordError::TooLong(len)),
        _ if looks_generated(bytes) => Err(PasswordError::LooksGenerated),
        _ if token::looks_like_token(bytes) => Err(PasswordError::LooksLikeToken),
        _ => Ok(hash(bytes, &CHOSEN)?),
    }
}

/// Hashes a password of [`generate`], into a PHC string.
pub(crate) fn hash_generated(password: &Secret) -> io::Result<String> {
    hash(password.expose().as_bytes(), &GENERATED)
}

/// Whether `password` is the one that `stored` is the hash of; `None` is nobody's.
///
/// How long it takes follows from the password that was presented alone: its shape says which of the two costs is
/// paid, and a hash of the other cost is replaced by nobody's.
///
/// # Errors
/// The system has no memory for hashing.
pub(crate) fn verify(password: &[u8], stored: Option<&str>) -> io::Result<bool> {
    let (cost, nobody) = if looks_generated(password) {
        (GENERATED, NOBODY_GENERATED)
    } else {
        (CHOSEN, NOBODY_CHOSEN)
    };
    let parse = |phc| PasswordHash::new(phc).ok().filter(|hash| same_cost(hash, &cost));
    let hash = stored
        .and_then(parse)
        .or_else(|| parse(nobody))
        .expect("nobody's hash has the cost it is made for");
    hashing::matches(password, &hash, &cost)
}

fn hash(password: &[u8], cost: &Params) -> io::Result<String> {
    Ok(hashing::hash(password, &random_bytes::<16>(), cost)?.to_string())
}

fn same_cost(hash: &PasswordHash, cost: &Params) -> bool {
    hash.algorithm == argon2::ARGON2ID_IDENT
        && Params::try_from(hash).is_ok_and(|found| {
            found.m_cost() == cost.m_cost() && found.t_cost() == cost.t_cost() && found.p_cost() == 1
        })
}

fn looks_generated(password: &[u8]) -> bool {
    let mut parts = password.split(|byte| *byte == b'-');
    parts.next() == Some(PREFIX.as_bytes())
        && password.len() == PREFIX.len() + GROUPS * (1 + GROUP_CHARS)
        && parts.all(|group| group.len() == GROUP_CHARS && group.iter().all(|byte| ALPHABET.contains(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text.into())
    }

    fn is_right(password: &[u8], stored: Option<&str>) -> bool {
        verify(password, stored).unwrap()
    }

    #[test]
    fn a_chosen_password_is_hashed_with_the_parameters_of_owasp() {
        let hash = hash_chosen(&secret("correct horse")).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(is_right(b"correct horse", Some(&hash)));
        assert!(!is_right(b"correct horsf", Some(&hash)));
        assert_eq!(HASHING_MEMORY_BYTES, 19 << 20);
    }

    #[test]
    fn a_generated_password_has_at_least_128_bits_and_is_hashed_lightly() {
        let password = generate();
        assert!(looks_generated(password.expose().as_bytes()), "{}", password.expose());
        const { assert!(GROUPS * GROUP_CHARS * 5 >= 128) };
        let hash = hash_generated(&password).unwrap();
        assert!(hash.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{hash}");
        assert!(is_right(password.expose().as_bytes(), Some(&hash)));
        assert!(!is_right(generate().expose().as_bytes(), Some(&hash)));
    }

    #[test]
    fn the_same_password_hashes_to_two_strings() {
        let password = generate();
        assert_ne!(hash_generated(&password).unwrap(), hash_generated(&password).unwrap());
    }

    #[test]
    fn a_hash_of_the_other_cost_is_nobodys_so_that_the_time_does_not_tell_whether_a_name_exists() {
        let chosen_hashed_lightly = hash(b"short", &GENERATED).unwrap();
        assert!(!is_right(b"short", Some(&chosen_hashed_lightly)));
        let generated = generate();
        let generated_hashed_heavily = hash(generated.expose().as_bytes(), &CHOSEN).unwrap();
        assert!(!is_right(
            generated.expose().as_bytes(),
            Some(&generated_hashed_heavily)
        ));
    }

    #[test]
    fn nobody_and_a_damaged_hash_accept_no_password() {
        for stored in [None, Some(""), Some("$argon2id$v=19$m=19456,t=2,p=1$x"), Some("plain")] {
            assert!(!is_right(b"plain", stored));
            assert!(!is_right(generate().expose().as_bytes(), stored));
        }
    }

    #[test]
    fn a_password_that_would_be_mistaken_or_is_too_long_cannot_be_set() {
        let refused = |text: &str| hash_chosen(&secret(text)).unwrap_err();
        assert!(matches!(refused(""), PasswordError::Empty));
        assert!(matches!(refused(&"x".repeat(1_025)), PasswordError::TooLong(1_025)));
        assert!(matches!(
            refused("sv-aaaaaaaaa-aaaaaaaaa-aaaaaaaaa"),
            PasswordError::LooksGenerated
        ));
        assert!(matches!(
            refused("eyJhbGciOiJub25lIn0.e30."),
            PasswordError::LooksLikeToken
        ));
        assert!(hash_chosen(&secret("sv-not-generated")).is_ok());
    }
}
