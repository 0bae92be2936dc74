//! What can go wrong, classed by what is to be done about it.

/// Why the database did not do as it was told. `place` is where it lies, without a password.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not answer now: down, connection lost, locked by another. Try again later.
    #[error("{place}: {reason}; the database is away, or took too long: it is to be tried again")]
    Away {
        /// Where the database is.
        place: String,
        /// What was said.
        reason: String,
    },
    /// The disk it lies on is full. Try again when there is room.
    #[error("{place}: {reason}; the database's disk is full: make room, or keep rows for a shorter time")]
    Full {
        /// Where the database is.
        place: String,
        /// What was said.
        reason: String,
    },
    /// Somebody has to mend something: no permission, no such database, a damaged file, a newer version's tables.
    #[error("{place}: {reason}")]
    Unusable {
        /// Where the database is.
        place: String,
        /// What was said, and what would be right.
        reason: String,
    },
    /// A URL that names no database.
    #[error("\"{shown}\" is no database ({rule}); give sqlite:PATH or postgres://USER@HOST/DATABASE")]
    Location {
        /// What was given, without a password.
        shown: String,
        /// What is wrong with it.
        rule: String,
    },
    /// More was asked for than one answer holds.
    #[error("{asked} {what} were asked for; one answer has 1 to {most}")]
    Bounds {
        /// Of what.
        what: &'static str,
        /// How many were asked for.
        asked: u64,
        /// Most.
        most: u64,
    },
}

impl Error {
    /// Whether the same may go well later, without anybody's doing or once there is room.
    pub fn may_pass(&self) -> bool {
        matches!(self, Error::Away { .. } | Error::Full { .. })
    }
}

/// What happens below: an error, or data that the database refuses whenever it is tried.
#[derive(Debug)]
pub(crate) enum Failure {
    Error(Error),
    Poison(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Error(error)
    }
}

impl Failure {
    /// Where no data is involved that could be at fault.
    pub(crate) fn into_error(self, place: &str) -> Error {
        match self {
            Failure::Error(error) => error,
            Failure::Poison(reason) => Error::Unusable {
                place: place.to_owned(),
                reason,
            },
        }
    }
}
