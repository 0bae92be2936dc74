//! What is sealed by a passphrase: nobody reads or changes it without.

mod envelope;
mod passphrase;

pub use self::envelope::{Broken, Opened, Sealed};
pub use self::passphrase::{Passphrase, PassphraseError};

#[cfg(test)]
mod tests;
