//! The embedded engine: one file, with a write-ahead log so that readers and the writer do not wait for each other.

mod engine;
mod reader;
mod retention;
mod schema;
mod transaction;

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use crate::error::{Error, Failure};

pub(crate) use engine::Sqlite;
pub(crate) use reader::SqliteReader;

/// What one connection's errors are called and classed by.
#[derive(Clone, Debug)]
struct Place(String);

impl Place {
    fn new(path: &Path) -> Self {
        Place(path.display().to_string())
    }

    fn unusable(&self, reason: String) -> Error {
        Error::Unusable {
            place: self.0.clone(),
            reason,
        }
    }

    fn class(&self, error: &rusqlite::Error) -> Failure {
        let (place, reason) = (self.0.clone(), error.to_string());
        let Some(code) = error.sqlite_error() else {
            return Error::Unusable { place, reason }.into();
        };
        match (code.code, code.extended_code) {
            // The index of the write-ahead log could not grow.
            (ErrorCode::DiskFull, _) | (_, rusqlite::ffi::SQLITE_IOERR_SHMSIZE) => Error::Full { place, reason }.into(),
            (ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationInterrupted, _)
            | (ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory | ErrorCode::FileLockingProtocolFailed, _) => {
                Error::Away { place, reason }.into()
            }
            (ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch, _) => {
                Failure::Poison(reason)
            }
            _ => Error::Unusable { place, reason }.into(),
        }
    }
}

/// Opens a connection, with the tables made.
fn open(path: &Path) -> Result<(Connection, Place), Error> {
    let place = Place::new(path);
    let connection = schema::open(path, &place).map_err(|failure| failure.into_error(&place.0))?;
    Ok((connection, place))
}
