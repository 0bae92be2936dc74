//! The time by which a transaction is known to those who watch, and what they are told of it.

use crate::engine::Row;
use crate::live::{Feed, Told};
use crate::query::{Cursor, Point, StoredPoint};
use crate::reading::Reading;

/// A clock that was set back by less keeps counting from where it was.
const SET_BACK_MS: i64 = 60_000;

/// Who is told of what is stored, and when the last of it was.
#[derive(Default)]
pub(crate) struct Telling {
    feed: Feed,
    last_ms: i64,
}

impl Telling {
    pub(crate) fn to(feed: Feed) -> Self {
        Telling { feed, last_ms: 0 }
    }

    /// When the next transaction is stored: later than the one before, so that what comes behind a row in the order of
    /// their cursors is what was stored after it. Years that a clock was ahead are not kept.
    pub(crate) fn next_ms(&mut self, now_ms: i64) -> i64 {
        let is_behind = (0..SET_BACK_MS).contains(&self.last_ms.saturating_sub(now_ms));
        self.last_ms = if is_behind {
            self.last_ms.saturating_add(1)
        } else {
            now_ms
        };
        self.last_ms
    }

    /// Tells of rows with the readings and streams that they are of. They have been stored: who begins to watch from
    /// here on finds them in the database.
    pub(crate) fn tell<'a>(&self, stored: impl Iterator<Item = (&'a Reading, &'a str, Row<'a>)>) {
        self.feed.tell(|| {
            let mut rows: Vec<Told> = stored
                .map(|(reading, stream, row)| told(reading, stream, &row))
                .collect();
            rows.sort_by(|one, other| one.stored.cursor.cmp(&other.stored.cursor));
            rows
        });
    }
}

fn told(reading: &Reading, stream: &str, row: &Row<'_>) -> Told {
    Told {
        tenant: reading.tenant.clone(),
        stored: StoredPoint {
            device: reading.device.clone(),
            stream: stream.to_owned(),
            point: Point {
                source_time_ms: row.source_time_ms,
                received_at_ms: row.received_at_ms,
                value: row.value.to_static(),
                quality: row.quality.map(str::to_owned),
                origin: reading.origin.clone(),
            },
            cursor: Some(Cursor {
                time_ms: row.stored_at_ms,
                epoch: row.origin.epoch,
                sequence: row.sequence,
                edge: row.origin.edge.into(),
                part: row.part.into(),
            }),
        },
    }
}
