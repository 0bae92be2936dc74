//! PostgreSQL, for what outgrows one machine: several ingest processes, partitions by day.

mod connection;
mod engine;
mod partitions;
mod reader;
mod schema;
mod transaction;

use tokio_postgres::error::SqlState;

use crate::error::{Error, Failure};

pub(crate) use engine::Postgres;
pub(crate) use reader::PostgresReader;

/// An error with all that is behind it: the outer one alone says "db error".
pub(crate) fn said(error: &tokio_postgres::Error) -> String {
    let mut said = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let text = inner.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        source = inner.source();
    }
    said
}

/// What is to be done about an error, by its SQLSTATE (PostgreSQL's appendix A).
fn class(place: &str, error: &tokio_postgres::Error) -> Failure {
    let (place, reason) = (place.to_owned(), said(error));
    let Some(state) = error.code() else {
        return Error::Away { place, reason }.into();
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
