//! The database as the ingest writes to it.

use std::ops::RangeInclusive;
use std::path::Path;

use crate::engine::{Engine, EpochKey, EpochRange};
use crate::error::{Error, Failure};
use crate::ingest::{changes, ingest, read_marks};
use crate::live::Feed;
use crate::location::Location;
use crate::names::Names;
use crate::postgres::Postgres;
use crate::reading::{Origin, Reading};
use crate::retention::Retention;
use crate::sqlite::Sqlite;
use crate::told::Telling;

/// Most ranges that [`Database::marks`] tells of an edge.
const MAX_MARKS: u64 = 65_536;

/// A telemetry database, open for writing. Several may be open on one database, in one process or many.
pub struct Database {
    engine: Box<dyn Engine>,
    names: Names,
    telling: Telling,
}

/// What became of readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingested {
    /// Readings that are now in.
    pub stored: u64,
    /// Their rows.
    pub rows: u64,
    /// Readings that were in already.
    pub duplicates: u64,
    /// Readings that can never be stored as rows: they are in the table `rejected`, with the reason, and marked as in.
    pub rejected: u64,
    /// Indexes of readings that are **not** in, because the mark of their epoch has
    /// [`MAX_RANGES`](crate::MAX_RANGES): offer them again once readings before them are in.
    pub deferred: Vec<usize>,
}

impl Ingested {
    pub(crate) fn add(&mut self, other: Ingested) {
        self.stored += other.stored;
        self.rows += other.rows;
        self.duplicates += other.duplicates;
        self.rejected += other.rejected;
        self.deferred.extend(other.deferred);
    }
}

/// Sequences of which nothing will come: the edge dropped them, or they were no telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    first: Origin,
    last: u64,
}

impl Gap {
    /// From `first` up to and with sequence `last` of the same epoch. `None`: `last` lies before it, or is beyond
    /// [`MAX_NUMBER`](crate::MAX_NUMBER).
    pub fn new(first: Origin, last: u64) -> Option<Self> {
        (first.sequence() <= last && last <= crate::MAX_NUMBER).then_some(Gap { first, last })
    }
}

/// What of an epoch is in: stored, rejected, or declared a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The epoch.
    pub epoch: u64,
    /// Ascending; no two touch.
    pub ranges: Vec<RangeInclusive<u64>>,
}

impl Database {
    /// Opens `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, and makes or renews its tables.
    /// PostgreSQL's lie in a schema `selvedge`. Of libpq's parameters, `sslmode` is `disable` (the default) or
    /// `verify-full`, with `sslrootcert=FILE`.
    ///
    /// # Errors
    /// [`Error::Location`], [`Error::Away`], [`Error::Full`], [`Error::Unusable`].
    pub fn open(url: &str) -> Result<Self, Error> {
        let engine: Box<dyn Engine> = match Location::parse(url)? {
            Location::Sqlite(path) => Box::new(Sqlite::open(&path)?),
            Location::Postgres(server) => Box::new(Postgres::open(*server)?),
        };
        Ok(Database {
            engine,
            names: Names::default(),
            telling: Telling::default(),
        })
    }

    /// Has `feed` told of all that is stored from now on, once it is.
    pub fn tell(&mut self, feed: Feed) {
        self.telling = Telling::to(feed);
    }

    /// Opens the file of an edge's history, made if there is none. What is stored survives a crash of the program; a
    /// power cut may take back the last of it, in whole transactions: nobody was promised it.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_history(path: &Path) -> Result<Self, Error> {
        Ok(Database {
            engine: Box::new(Sqlite::open_unsynced(path)?),
            names: Names::default(),
            telling: Telling::default(),
        })
    }

    /// Stores each reading that is not in yet, with its mark, in transactions of up to 10,000 readings; when this
    /// returns, they are on disk. `now_ms`: ms since 1970 UTC by the cloud's clock; what [`Database::retain`] goes by.
    /// Each transaction has a later time than the one before, unless the clock was set back by more than a minute.
    ///
    /// # Errors
    /// [`Error::Away`], [`Error::Full`] or [`Error::Unusable`]: some transactions may have gone in. Offer all again.
    pub fn ingest(&mut self, readings: &[Reading], now_ms: i64) -> Result<Ingested, Error> {
        ingest(&mut *self.engine, &mut self.names, &mut self.telling, readings, now_ms)
    }

    /// Marks sequences as in of which nothing will come, in one transaction. Indexes of the gaps that are **not**
    /// marked, because the mark of their epoch has [`MAX_RANGES`](crate::MAX_RANGES): declare them again later.
    ///
    /// # Errors
    /// As [`Database::ingest`]; then none is marked, or all.
    pub fn fill(&mut self, gaps: &[Gap], now_ms: i64) -> Result<Vec<usize>, Error> {
        let place = self.engine.place().to_owned();
        self.try_fill(gaps, now_ms)
            .map_err(|failure| failure.into_error(&place))
    }

    fn try_fill(&mut self, gaps: &[Gap], now_ms: i64) -> Result<Vec<usize>, Failure> {
        let edges = gaps.iter().map(|gap| &**gap.first.edge());
        self.names.prepare(&mut *self.engine, edges, std::iter::empty())?;
        let ranges: Vec<_> = gaps.iter().map(|gap| self.range(gap)).collect();
        let mut transaction = self.engine.begin(now_ms)?;
        let mut marks = read_marks(&mut *transaction, &ranges)?;
        let mut deferred = Vec::new();
        for (index, (key, range)) in ranges.into_iter().enumerate() {
            if !marks.entry(key).or_default().fill(range) {
                deferred.push(index);
            }
        }
        transaction.change_marks(&changes(&marks))?;
        transaction.commit()?;
        Ok(deferred)
    }

    /// A gap of an edge that was prepared.
    fn range(&self, gap: &Gap) -> EpochRange {
        let key = EpochKey {
            edge: self.names.edge(gap.first.edge()),
            epoch: gap.first.epoch() as i64,
        };
        (key, gap.first.sequence()..=gap.last)
    }

    /// The marks of an edge, newest epoch first: what need not be sent again. At most 65,536 ranges; one that is not
    /// told is sent again and skipped.
    ///
    /// # Errors
    /// [`Error::Away`], [`Error::Unusable`].
    pub fn marks(&mut self, edge: &str) -> Result<Vec<Mark>, Error> {
        let ranges = self.engine.marks(edge, MAX_MARKS);
        let ranges = ranges.map_err(|failure| failure.into_error(self.engine.place()))?;
        let mut marks: Vec<Mark> = Vec::new();
        for (epoch, range) in ranges {
            let epoch = epoch as u64;
            match marks.last_mut().filter(|mark| mark.epoch == epoch) {
                Some(mark) => mark.ranges.push(range),
                None => marks.push(Mark {
                    epoch,
                    ranges: vec![range],
                }),
            }
        }
        Ok(marks)
    }

    /// Removes some of the rows and rejected readings that are old at `now_ms` (ms since 1970 UTC by the cloud's
    /// clock); says whether there may be more: then call it again. In SQLite it looks at up to 10,000 rows for each
    /// age. In PostgreSQL rows go by whole days: a partition is dropped where nobody keeps it, and otherwise loses up
    /// to 10,000 rows. Marks, and the latest reading of each stream, stay.
    ///
    /// Where tenants keep rows for different times, this remembers how far it has looked: rows that are stored with a
    /// time of before, by a clock that is behind by more than the shortest of them, go when the database is opened
    /// anew, or with what is kept longest.
    ///
    /// # Errors
    /// [`Error::Away`], [`Error::Full`], [`Error::Unusable`].
    pub fn retain(&mut self, retention: &Retention, now_ms: i64) -> Result<bool, Error> {
        let more = self.engine.retain(retention, now_ms);
        more.map_err(|failure| failure.into_error(self.engine.place()))
    }

    /// Removes up to 10,000 of the rows that were stored first, where those of an embedded database take more than
    /// `bytes`; whether they may still do. The file does not get smaller: what was taken is used again.
    ///
    /// # Errors
    /// As [`Database::retain`].
    pub fn shrink(&mut self, bytes: u64) -> Result<bool, Error> {
        let more = self.engine.shrink(bytes);
        more.map_err(|failure| failure.into_error(self.engine.place()))
    }
}
