//! PostgreSQL, for what outgrows one machine: several ingest processes, partitions by day.

mod connection;
mod engine;
mod partitions;
mod reader;
mod retention;
mod schema;
mod server;
mod transaction;

use std::error::Error as StdError;
use std::io;

use tokio_postgres::error::SqlState;

use crate::error::{Error, Failure};

pub(crate) use engine::Postgres;
pub(crate) use reader::PostgresReader;
pub(crate) use server::Server;

/// An error with all that is behind it: the outer one alone says "db error".
fn said(error: &tokio_postgres::Error) -> String {
    let mut said = error.to_string();
    for cause in causes(error) {
        let text = cause.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
    }
    said
}

fn causes(error: &tokio_postgres::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(error.source(), |cause| StdError::source(*cause))
}

/// A certificate that is not accepted, and whatever else waiting does not mend.
fn is_of_tls(cause: &(dyn StdError + 'static)) -> bool {
    let inner = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    inner.is_some_and(|inner| inner.is::<rustls::Error>())
}

/// What is to be done about an error, by its SQLSTATE (PostgreSQL's appendix A).
fn class(place: &str, error: &tokio_postgres::Error) -> Failure {
    let (place, reason) = (place.to_owned(), said(error));
    let Some(state) = error.code() else {
        let is_distrusted = causes(error).any(is_of_tls);
        let error = if is_distrusted {
            Error::Unusable { place, reason }
        } else {
            Error::Away { place, reason }
        };
        return error.into();
    };
    if *state == SqlState::DISK_FULL {
        return Error::Full { place, reason }.into();
    }
    match &state.code()[..2] {
        // Data exception, constraint violated, program limit exceeded.
        "22" | "23" | "54" => Failure::Poison(reason),
        // Connection, transaction state (a standby is read-only), rollback, resources, not now, intervention, system.
        "08" | "25" | "40" | "53" | "55" | "57" | "58" => Error::Away { place, reason }.into(),
        _ if *state == SqlState::UNDEFINED_TABLE => Error::Away { place, reason }.into(),
        _ => Error::Unusable { place, reason }.into(),
    }
}
