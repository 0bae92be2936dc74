//! A connection for queries.

use std::error::Error as StdError;
use std::ops::ControlFlow;

use bytes::BytesMut;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::Server;
use super::connection::Connection;
use crate::error::{Error, Failure};
use crate::query::{Cell, Reader};

/// Rows that are asked for at once: an answer that ends early has not been sent whole.
const ROWS_AT_ONCE: i32 = 100;

/// The queries are few, and each has an index that gives its rows in order. Which plan is taken must not depend on
/// statistics: a new day's partition has none, and is then read whole for one page of it.
const BY_INDEX: &str = "-c enable_sort=off -c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off \
    -c enable_mergejoin=off";

pub(crate) struct PostgresReader {
    server: Server,
    connection: Option<Connection>,
}

impl PostgresReader {
    pub(crate) fn open(server: Server) -> Result<Self, Error> {
        let connection = Connection::open(&server, BY_INDEX).map_err(|failure| failure.into_error(&server.place))?;
        Ok(PostgresReader {
            server,
            connection: Some(connection),
        })
    }
}

impl Reader for PostgresReader {
    fn place(&self) -> &str {
        &self.server.place
    }

    fn query(
        &mut self,
        sql: &'static str,
        parameters: &[Cell],
        each: &mut dyn FnMut(Vec<Cell>) -> ControlFlow<()>,
    ) -> Result<(), Failure> {
        // Back in its place only if all went well.
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.server, BY_INDEX)?,
        };
        let statement = connection.prepared(sql)?;
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|cell| cell as _).collect();
        connection.run(|client| async move {
            let transaction = client.build_transaction().read_only(true).start().await?;
            let portal = transaction.bind(&statement, &parameters).await?;
            loop {
                let rows = transaction.query_portal(&portal, ROWS_AT_ONCE).await?;
                let is_last = rows.len() < ROWS_AT_ONCE as usize;
                let broke = rows.iter().any(|row| each(cells(row)).is_break());
                if is_last || broke {
                    return transaction.commit().await;
                }
            }
        })?;
        self.connection = Some(connection);
        Ok(())
    }
}

fn cells(row: &Row) -> Vec<Cell> {
    (0..row.len())
        .map(|column| cell(row, column).unwrap_or(Cell::Null))
        .collect()
}

fn cell(row: &Row, column: usize) -> Option<Cell> {
    Some(match *row.columns()[column].type_() {
        Type::INT2 => Cell::Integer(row.get::<_, Option<i16>>(column)?.into()),
        Type::INT4 => Cell::Integer(row.get::<_, Option<i32>>(column)?.into()),
        Type::INT8 => Cell::Integer(row.get::<_, Option<i64>>(column)?),
        Type::FLOAT8 => Cell::Real(row.get::<_, Option<f64>>(column)?),
        Type::BYTEA => Cell::Blob(row.get::<_, Option<Vec<u8>>>(column)?),
        _ => Cell::Text(row.get::<_, Option<String>>(column)?),
    })
}

impl ToSql for Cell {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self {
            Cell::Null => Ok(IsNull::Yes),
            Cell::Integer(number) => match *ty {
                Type::INT2 => i16::try_from(*number)?.to_sql(ty, out),
                Type::INT4 => i32::try_from(*number)?.to_sql(ty, out),
                _ => number.to_sql(ty, out),
            },
            Cell::Real(number) => number.to_sql(ty, out),
            Cell::Text(text) => text.to_sql(ty, out),
            Cell::Blob(bytes) => bytes.to_sql(ty, out),
        }
    }

    fn accepts(ty: &Type) -> bool {
        matches!(
            *ty,
            Type::INT2 | Type::INT4 | Type::INT8 | Type::FLOAT8 | Type::TEXT | Type::BYTEA
        )
    }

    to_sql_checked!();
}
