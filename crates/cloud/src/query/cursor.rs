//! Where a page ended.

use std::fmt;
use std::str::FromStr;

use super::Cell;

/// A place between two rows, in the order of their times: of measurement within a stream, of storing where rows are
/// told as they are stored. It stays right while rows come and go. As text: five numbers with dots between.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub(crate) time_ms: i64,
    pub(crate) epoch: i64,
    pub(crate) sequence: i64,
    pub(crate) edge: i64,
    pub(crate) part: i64,
}

/// A text that no [`Cursor`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no cursor of an earlier page; leave it out to begin with the first")]
pub struct NoCursor;

impl Cursor {
    /// Before all rows with this time or a later one.
    pub(super) fn before(time_ms: i64) -> Self {
        Cursor {
            time_ms,
            epoch: -1,
            sequence: -1,
            edge: -1,
            part: -1,
        }
    }

    pub(super) fn cells(&self) -> [Cell; 5] {
        [self.time_ms, self.epoch, self.sequence, self.edge, self.part].map(Cell::Integer)
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor {
            time_ms,
            epoch,
            sequence,
            edge,
            part,
        } = self;
        write!(f, "{time_ms}.{epoch}.{sequence}.{edge}.{part}")
    }
}

impl FromStr for Cursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let numbers: Result<Vec<i64>, _> = text.splitn(6, '.').map(str::parse).collect();
        let [time_ms, epoch, sequence, edge, part] = numbers.map_err(|_| NoCursor)?[..] else {
            return Err(NoCursor);
        };
        let fits = i32::try_from(edge).is_ok() && i16::try_from(part).is_ok();
        fits.then_some(Cursor {
            time_ms,
            epoch,
            sequence,
            edge,
            part,
        })
        .ok_or(NoCursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_being_text_and_other_text_is_none() {
        let cursor = Cursor {
            time_ms: -1,
            epoch: i64::MAX,
            sequence: 7,
            edge: 1,
            part: 0,
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for text in [
            "",
            "1",
            "1.2.3.4",
            "1.2.3.4.5.6",
            "1.2.3.4.x",
            "1.2.3.4.99999",
            "1.2.3.9999999999.1",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(NoCursor), "{text}");
        }
    }
}
