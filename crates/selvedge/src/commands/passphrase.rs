//! A passphrase, which no argument says: all who see processes see those.

use std::path::Path;

use anyhow::Context;
use seal::Passphrase;

/// The one in a file.
pub(crate) fn read(file: &Path) -> anyhow::Result<Passphrase> {
    Passphrase::read(file).with_context(|| file.display().to_string())
}
