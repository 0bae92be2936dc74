//! A connection for queries.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};

use super::Place;
use crate::error::{Error, Failure};
use crate::query::{Cell, Reader};

/// A query that takes longer is ended.
const QUERY_TIMEOUT: Duration = Duration::from_secs(30);
/// Steps of SQLite's machine between looks at the clock, some 0.1 ms.
const STEPS: i32 = 10_000;

pub(crate) struct SqliteReader {
    connection: Connection,
    place: Place,
}

impl SqliteReader {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let (connection, place) = super::open(path)?;
        let read_only = connection.pragma_update(None, "query_only", true);
        read_only.map_err(|error| place.class(&error).into_error(&place.0))?;
        Ok(SqliteReader { connection, place })
    }
}

impl Reader for SqliteReader {
    fn place(&self) -> &str {
        &self.place.0
    }

    fn query(
        &mut self,
        sql: &'static str,
        parameters: &[Cell],
        each: &mut dyn FnMut(Vec<Cell>) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        let until = Instant::now() + QUERY_TIMEOUT;
        let class = |error| self.place.class(&error);
        self.connection
            .progress_handler(STEPS, Some(move || Instant::now() > until))
            .map_err(class)?;
        let mut query = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query(rusqlite::params_from_iter(parameters))?;
            while let Some(row) = rows.next()? {
                let cells: Result<_, _> = (0..columns).map(|column| row.get_ref(column).map(Cell::from)).collect();
                if each(cells?).is_break() {
                    break;
                }
            }
            Ok(())
        };
        query().map_err(class)
    }
}

impl From<ValueRef<'_>> for Cell {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(number) => Cell::Integer(number),
            ValueRef::Real(number) => Cell::Real(number),
            // Not ours if it is no UTF-8: then it is told as bytes, which no column of text is taken for.
            ValueRef::Text(text) => String::from_utf8(text.into()).map_or_else(|_| Cell::Blob(text.into()), Cell::Text),
            ValueRef::Blob(bytes) => Cell::Blob(bytes.into()),
        }
    }
}

impl ToSql for Cell {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Cell::Null => ValueRef::Null,
            Cell::Integer(number) => ValueRef::Integer(*number),
            Cell::Real(number) => ValueRef::Real(*number),
            Cell::Text(text) => ValueRef::Text(text.as_bytes()),
            Cell::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
