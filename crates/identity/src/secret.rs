//! Values that must not reach a log.

use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

/// A password, token or private key in PEM: redacted when printed for debugging, wiped from memory when dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over; the caller keeps no copy.
    pub fn new(text: String) -> Self {
        Secret(Zeroizing::new(text))
    }

    /// The text itself, for the one place that shows, sends or hashes it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(redacted)")
    }
}

/// `N` bytes from the operating system's generator.
///
/// # Panics
/// If the system has no randomness to give: nothing that is secret may be made then.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system gives random bytes");
    bytes
}

/// Lower-case hexadecimal, two digits a byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_redacted_when_printed_for_debugging() {
        let printed = format!("{:?}", Some(Secret::new("hunter2".into())));
        assert_eq!(printed, "Some(Secret(redacted))");
    }
}
