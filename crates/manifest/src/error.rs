//! What a person reads who made a mistake in a manifest.

use std::fmt::{self, Display};

/// One mistake: where it is, what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The file, as the caller named it.
    pub file: String,
    /// Line, from 1 on; 0 where it concerns the file as a whole.
    pub line: usize,
    /// The field, such as `spec.to[1].method.name`; empty where it concerns a whole document.
    pub path: String,
    /// In words.
    pub message: String,
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Error {}

/// All mistakes of a file, in its order, up to a bound; one a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(pub Vec<Error>);

/// Mistakes reported of one file; who has more of them mends these first.
const MAX_ERRORS: usize = 20;

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        if self.0.len() < MAX_ERRORS {
            self.0.push(error);
        }
    }
}

impl Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
