//! Rows out of the database. The SQL is the same for every engine; each binds and reads [`Cell`]s.

mod answer;
mod cursor;
mod row;
mod sql;

use std::ops::{ControlFlow, Range};

use crate::decode::MAX_TIME_MS;
use crate::error::{Error, Failure};
use crate::live::Filter;
use crate::location::Location;
use crate::postgres::PostgresReader;
use crate::sqlite::SqliteReader;

pub use answer::{Bucket, Page, Point, Rejected, StoredPoint};
pub use cursor::{Cursor, NoCursor};
pub(crate) use row::Cell;
use row::RowCells;

/// Most rows of one answer.
const MAX_LIMIT: u64 = 10_000;
/// An answer ends with the row that reaches this many bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// A database that is read. Rows are handed to `each` until it breaks.
pub(crate) trait Reader: Send {
    fn place(&self) -> &str;

    fn query(
        &mut self,
        sql: &'static str,
        parameters: &[Cell],
        each: &mut dyn FnMut(Vec<Cell>) -> ControlFlow<()>,
    ) -> Result<(), Failure>;
}

/// A telemetry database, open for reading. Every question names its tenant, and is answered from that tenant's rows
/// alone. Answers end after 4 MiB, even if there is more: go on behind the last item until an answer is empty, or as
/// its [`Page`] says.
pub struct Queries {
    reader: Box<dyn Reader>,
}

impl Queries {
    /// Opens a database as [`Database::open`](crate::Database::open) does.
    ///
    /// # Errors
    /// [`Error::Location`], [`Error::Away`], [`Error::Full`], [`Error::Unusable`].
    pub fn open(url: &str) -> Result<Self, Error> {
        let reader: Box<dyn Reader> = match Location::parse(url)? {
            Location::Sqlite(path) => Box::new(SqliteReader::open(&path)?),
            Location::Postgres(server) => Box::new(PostgresReader::open(*server)?),
        };
        Ok(Queries { reader })
    }

    /// Names of a device's streams behind `after`, in the order of their bytes.
    ///
    /// # Errors
    /// [`Error::Bounds`] (`limit` is 1 to 10,000), [`Error::Away`], [`Error::Unusable`].
    pub fn streams(
        &mut self,
        tenant: &str,
        device: &str,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Vec<String>, Error> {
        let parameters = [text(tenant), text(device), after.map_or(Cell::Null, text), rows(limit)?];
        let names = self.collect(sql::STREAMS, &parameters, |mut row| row.text())?;
        Ok(names.0)
    }

    /// The latest reading of each of a device's streams behind `after`, in the order of the streams' names. The latest
    /// is the one with the greatest epoch and sequence, whatever its times say and whenever it arrived. Of several
    /// edges, between which there is no such order, it is the one that received its latest last.
    ///
    /// # Errors
    /// As [`Queries::streams`].
    pub fn latest(
        &mut self,
        tenant: &str,
        device: &str,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Vec<(String, Point)>, Error> {
        let parameters = [text(tenant), text(device), after.map_or(Cell::Null, text), rows(limit)?];
        let latest = self.collect(sql::LATEST, &parameters, |mut row| {
            let point = row.point()?;
            Some((row.text()?, point))
        })?;
        Ok(latest.0)
    }

    /// A stream's rows with a source time in `span_ms`, in the order of source time, then epoch, sequence and edge.
    ///
    /// # Errors
    /// As [`Queries::streams`].
    pub fn range(
        &mut self,
        tenant: &str,
        device: &str,
        stream: &str,
        span_ms: Range<i64>,
        limit: u64,
        after: Option<&Cursor>,
    ) -> Result<Page<Point>, Error> {
        let limit_cell = rows(limit)?;
        let Some(series) = self.series(tenant, device, stream)? else {
            return Ok(Page {
                items: Vec::new(),
                next: None,
            });
        };
        let span_ms = within_time(span_ms);
        let start = Cursor::before(span_ms.start);
        let after = after.map_or(&start, |after| after.max(&start));
        let mut parameters = vec![series];
        parameters.extend(after.cells());
        parameters.extend([Cell::Integer(span_ms.end), limit_cell]);
        let (rows, is_cut) = self.collect(sql::RANGE, &parameters, |mut row| {
            let point = row.point()?;
            Some((point, row.cursor()?))
        })?;
        let is_full = is_cut || rows.len() as u64 == limit;
        let next = rows.last().filter(|_| is_full).map(|(_, cursor)| cursor.clone());
        let items = rows.into_iter().map(|(point, _)| point).collect();
        Ok(Page { items, next })
    }

    /// Rows that were stored behind `after`, in the order in which they were, as [`Feed`](crate::Feed) tells them.
    ///
    /// # Errors
    /// As [`Queries::streams`].
    pub fn stored_behind(&mut self, filter: &Filter, after: &Cursor, limit: u64) -> Result<Vec<StoredPoint>, Error> {
        let optional = |name: &Option<String>| name.as_deref().map_or(Cell::Null, text);
        let mut parameters = after.cells().to_vec();
        parameters.extend([
            text(&filter.tenant),
            optional(&filter.device),
            optional(&filter.stream),
            rows(limit)?,
        ]);
        let stored = self.collect(sql::STORED, &parameters, |mut row| {
            Some(StoredPoint {
                point: row.point()?,
                cursor: Some(row.cursor()?),
                device: row.text()?,
                stream: row.text()?,
            })
        })?;
        Ok(stored.0)
    }

    /// A stream's numbers with a source time in `span_ms`, in buckets of `width_ms` that count from its beginning.
    ///
    /// # Errors
    /// [`Error::Bounds`]: the width is not positive, or the span has more than 10,000 buckets; [`Error::Away`],
    /// [`Error::Unusable`].
    pub fn buckets(
        &mut self,
        tenant: &str,
        device: &str,
        stream: &str,
        span_ms: Range<i64>,
        width_ms: i64,
    ) -> Result<Vec<Bucket>, Error> {
        let span_ms = within_time(span_ms);
        check_buckets(&span_ms, width_ms)?;
        let Some(series) = self.series(tenant, device, stream)? else {
            return Ok(Vec::new());
        };
        let parameters = [
            series,
            Cell::Integer(span_ms.start),
            Cell::Integer(width_ms),
            Cell::Integer(span_ms.end),
        ];
        let buckets = self.collect(sql::BUCKETS, &parameters, |mut row| {
            Some(Bucket {
                start_ms: span_ms.start + row.integer()? * width_ms,
                count: row.integer()? as u64,
                min: row.real()?,
                max: row.real()?,
                mean: row.real()?,
                first: row.real()?,
                last: row.real()?,
            })
        })?;
        Ok(buckets.0)
    }

    /// A tenant's rejected readings, in the order in which they were rejected, behind `after`; each with the number to
    /// go on from.
    ///
    /// # Errors
    /// As [`Queries::streams`].
    pub fn rejected(&mut self, tenant: &str, after: i64, limit: u64) -> Result<Vec<(i64, Rejected)>, Error> {
        let parameters = [Cell::Blob(tenant.into()), Cell::Integer(after), rows(limit)?];
        let rejected = self.collect(sql::REJECTED, &parameters, |mut row| {
            let id = row.integer()?;
            Some((id, row.rejected()?))
        })?;
        Ok(rejected.0)
    }

    fn series(&mut self, tenant: &str, device: &str, stream: &str) -> Result<Option<Cell>, Error> {
        let parameters = [text(tenant), text(device), text(stream)];
        let (mut found, _) = self.collect(sql::SERIES, &parameters, |mut row| row.integer())?;
        Ok(found.pop().map(Cell::Integer))
    }

    /// The rows of an answer, and whether it was cut at [`MAX_ANSWER_BYTES`].
    fn collect<T>(
        &mut self,
        sql: &'static str,
        parameters: &[Cell],
        shape: impl Fn(RowCells) -> Option<T>,
    ) -> Result<(Vec<T>, bool), Error> {
        let has_nul = parameters
            .iter()
            .any(|cell| matches!(cell, Cell::Text(text) if text.contains('\0')));
        if has_nul {
            // No name in the database has one, and PostgreSQL would take it for an error.
            return Ok((Vec::new(), false));
        }
        let (mut items, mut bytes, mut is_odd) = (Vec::new(), 0, false);
        let answer = self.reader.query(sql, parameters, &mut |row| {
            bytes += row.iter().map(Cell::bytes).sum::<usize>();
            match shape(RowCells::new(row)) {
                Some(item) => items.push(item),
                None => is_odd = true,
            }
            if bytes >= MAX_ANSWER_BYTES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        answer.map_err(|failure| failure.into_error(self.reader.place()))?;
        if is_odd {
            let (place, reason) = (
                self.reader.place().to_owned(),
                "a row that this program did not write".to_owned(),
            );
            return Err(Error::Unusable { place, reason });
        }
        Ok((items, bytes >= MAX_ANSWER_BYTES))
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn rows(limit: u64) -> Result<Cell, Error> {
    bounded("rows", limit).map(|limit| Cell::Integer(limit as i64))
}

fn bounded(what: &'static str, asked: u64) -> Result<u64, Error> {
    let most = MAX_LIMIT;
    if (1..=most).contains(&asked) {
        Ok(asked)
    } else {
        Err(Error::Bounds { what, asked, most })
    }
}

fn check_buckets(span_ms: &Range<i64>, width_ms: i64) -> Result<(), Error> {
    let width = u64::try_from(width_ms).unwrap_or(0);
    let span = if span_ms.is_empty() {
        1
    } else {
        span_ms.end.abs_diff(span_ms.start)
    };
    bounded("buckets", if width == 0 { 0 } else { span.div_ceil(width) }).map(drop)
}

/// No row lies outside, and what lies within can be subtracted.
fn within_time(span_ms: Range<i64>) -> Range<i64> {
    let clamp = |time_ms: i64| time_ms.clamp(-MAX_TIME_MS - 1, MAX_TIME_MS + 1);
    clamp(span_ms.start)..clamp(span_ms.end)
}
