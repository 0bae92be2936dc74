//! Rows of a CSV file as JSON readings, one at a time.

use std::io::{BufRead, BufReader, Read};

use csv::{Reader, ReaderBuilder, StringRecord};
use serde_json::{Map, Number, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::columns::Columns;
use super::timestamp;

/// Delimiters that are told apart by the header.
const DELIMITERS: [u8; 3] = [b',', b';', b'\t'];
/// Bytes in which the header must end.
const HEADER_BYTES: usize = 64 * 1024;

/// A row that is a reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Its time, nanoseconds since 1970.
    pub time_ns: i64,
    /// A JSON object: `ts` and a member a column, numbers as numbers.
    pub json: String,
}

/// A row that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Its line in the file, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub reason: String,
}

/// The rows of a file; holds one of them at a time.
pub struct Rows<R> {
    reader: Reader<BufReader<R>>,
    columns: Columns,
    /// The first row, read for its columns.
    first: Option<StringRecord>,
    /// Whether reading the file has failed.
    failed: bool,
}

impl<R: Read> Rows<R> {
    /// Reads the header: comma, semicolon or tab, whichever it has most of.
    ///
    /// # Errors
    /// What is missing: a header, a row, a column of times.
    pub fn new(from: R) -> Result<Rows<R>, String> {
        let mut buffered = BufReader::with_capacity(HEADER_BYTES, from);
        let start = buffered.fill_buf().map_err(|error| error.to_string())?;
        let delimiter = delimiter(start).ok_or("empty: a header and rows are needed")?;
        let mut reader = ReaderBuilder::new()
            .delimiter(delimiter)
            .flexible(true)
            .from_reader(buffered);
        let header = reader.headers().map_err(|error| format!("header: {error}"))?.clone();
        let mut first = StringRecord::new();
        match reader.read_record(&mut first) {
            Ok(true) => {}
            Ok(false) => return Err("a header and no row".to_owned()),
            Err(error) => return Err(format!("first row: {error}")),
        }
        Ok(Rows {
            columns: Columns::new(&header, &first)?,
            reader,
            first: Some(first),
            failed: false,
        })
    }

    fn next_record(&mut self) -> Option<Result<StringRecord, BadRow>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        if self.failed {
            return None;
        }
        let mut record = StringRecord::new();
        match self.reader.read_record(&mut record) {
            Ok(true) => Some(Ok(record)),
            Ok(false) => None,
            Err(error) => {
                // A file that cannot be read on would fail so for ever; a row that is no text ends with its line.
                self.failed = error.is_io_error();
                let line = error.position().map_or(0, csv::Position::line);
                Some(Err(BadRow {
                    line,
                    reason: error.to_string(),
                }))
            }
        }
    }

    fn row(&self, record: &StringRecord) -> Result<Row, BadRow> {
        let line = record.position().map_or(0, csv::Position::line);
        let bad = |reason: String| BadRow { line, reason };
        let (found, wanted) = (record.len(), self.columns.len());
        if found != wanted {
            return Err(bad(format!("{found} fields where {wanted} are named")));
        }
        let text = &record[self.columns.time];
        let time_ns = timestamp::parse(text).ok_or_else(|| bad(format!("`{}` is no time", shown(text))))?;
        let mut object = Map::new();
        object.insert("ts".to_owned(), Value::String(rfc3339(time_ns)));
        object.extend(
            self.columns
                .members(record)
                .map(|(name, field)| (name.to_owned(), value(field))),
        );
        if object.len() == 1 {
            return Err(bad("a time and no value".to_owned()));
        }
        Ok(Row {
            line,
            time_ns,
            json: Value::Object(object).to_string(),
        })
    }
}

impl<R: Read> Iterator for Rows<R> {
    type Item = Result<Row, BadRow>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_record()?.and_then(|record| self.row(&record)))
    }
}

/// The delimiter that the first line has most of outside quotes; a comma where it has none. `None` without a line.
fn delimiter(start: &[u8]) -> Option<u8> {
    let header = start
        .split(|byte| *byte == b'\n')
        .next()
        .filter(|line| !line.is_empty())?;
    let mut quoted = false;
    let mut counts = [0usize; DELIMITERS.len()];
    for byte in header {
        match DELIMITERS.iter().position(|delimiter| delimiter == byte) {
            Some(place) if !quoted => counts[place] += 1,
            _ => quoted ^= *byte == b'"',
        }
    }
    // Of equal counts the last wins: the comma stands last.
    let most = counts.iter().enumerate().rev().max_by_key(|(_, count)| **count);
    most.map(|(place, _)| DELIMITERS[place])
}

/// A number where the field is a finite one, else its text.
fn value(field: &str) -> Value {
    let number = field.parse::<i64>().ok().map(Number::from);
    let number = number.or_else(|| field.parse::<f64>().ok().and_then(Number::from_f64));
    number.map_or_else(|| Value::String(field.to_owned()), Value::Number)
}

fn rfc3339(time_ns: i64) -> String {
    let instant = OffsetDateTime::from_unix_timestamp_nanos(i128::from(time_ns));
    instant
        .ok()
        .and_then(|instant| instant.format(&Rfc3339).ok())
        .unwrap_or_default()
}

/// The start of a field, for a message.
fn shown(text: &str) -> String {
    if text.chars().count() <= 40 {
        text.to_owned()
    } else {
        text.chars().take(40).chain(['…']).collect()
    }
}
