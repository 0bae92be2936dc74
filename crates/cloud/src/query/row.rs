//! A row as the engine gives it, and as the answer has it.

use std::sync::Arc;

use super::{Cursor, Point, Rejected};
use crate::reading::Origin;
use crate::value::Value;

/// A parameter or a column of a query.
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
}

impl Cell {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Cell::Text(text) => text.len(),
            Cell::Blob(bytes) => bytes.len(),
            _ => 8,
        }
    }
}

/// Takes a row's columns one after another; none where a column is not what it should be.
pub(super) struct RowCells(std::vec::IntoIter<Cell>);

impl RowCells {
    pub(super) fn new(row: Vec<Cell>) -> Self {
        RowCells(row.into_iter())
    }

    pub(super) fn integer(&mut self) -> Option<i64> {
        match self.0.next()? {
            Cell::Integer(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn real(&mut self) -> Option<f64> {
        match self.0.next()? {
            Cell::Real(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn text(&mut self) -> Option<String> {
        match self.0.next()? {
            Cell::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn blob(&mut self) -> Option<Vec<u8>> {
        match self.0.next()? {
            Cell::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn lossy(&mut self) -> Option<String> {
        self.blob().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn origin(&mut self) -> Option<Origin> {
        let edge: Arc<str> = self.text()?.into();
        let (epoch, sequence) = (self.integer()?, self.integer()?);
        Origin::new(edge, epoch.try_into().ok()?, sequence.try_into().ok()?).ok()
    }

    /// The columns of `sql::point!`.
    pub(super) fn point(&mut self) -> Option<Point> {
        let origin = self.origin()?;
        let (source_time_ms, received_at_ms, kind) = (self.integer()?, self.integer()?, self.integer()?);
        let number = match self.0.next()? {
            Cell::Real(number) => Some(number),
            _ => None,
        };
        let quality = match self.0.next()? {
            Cell::Text(quality) => Some(quality),
            _ => None,
        };
        let body = match self.0.next()? {
            Cell::Blob(body) => Some(body),
            _ => None,
        };
        Some(Point {
            source_time_ms,
            received_at_ms,
            value: Value::from_columns(kind, number, body)?,
            quality,
            origin,
        })
    }

    /// A time, epoch, sequence, edge and part, as [`Cursor::cells`] gives them.
    pub(super) fn cursor(&mut self) -> Option<Cursor> {
        Some(Cursor {
            time_ms: self.integer()?,
            epoch: self.integer()?,
            sequence: self.integer()?,
            edge: self.integer()?,
            part: self.integer()?,
        })
    }

    pub(super) fn rejected(&mut self) -> Option<Rejected> {
        Some(Rejected {
            origin: self.origin()?,
            received_at_ms: self.integer()?,
            reason: self.text()?,
            device: self.lossy()?,
            subtopic: self.lossy()?,
            payload: self.blob()?,
        })
    }
}
