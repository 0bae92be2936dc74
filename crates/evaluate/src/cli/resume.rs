//! Going on with a run that was ended: what its raw file holds of the same options and of this very program.

use std::path::Path;

use super::Failure;
use crate::environment::Environment;
use crate::raw::Raw;

/// A run that can be gone on with.
pub(super) trait Resumable: Sized {
    /// What was asked for.
    type Options: PartialEq;

    /// The run of a raw file, where it is one of this experiment.
    fn of(raw: Raw) -> Option<Self>;

    /// What was asked for, with all worked in and without the seed.
    fn options(&self) -> Self::Options;

    /// What the program was.
    fn environment(&self) -> &Environment;
}

/// The run that a file holds, if it is one of the same options, whatever their seed, and of this very program.
pub(super) fn kept<R: Resumable>(path: &Path, options: &R::Options) -> Result<Option<R>, Failure> {
    if !path.exists() {
        return Ok(None);
    }
    let run = R::of(Raw::read(path)?);
    let is_of_now = |run: &R| run.options() == *options && run.environment().is_of_this_program();
    Ok(run.filter(is_of_now))
}
