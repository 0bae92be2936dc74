//! One who watches: first what is in the database behind the place it has seen, then what comes in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cloud::{Cursor, Filter, Seen, StoredPoint, Watch};
use tokio::time::{Instant, sleep_until};

use super::LONGEST;
use crate::desk::Desk;
use crate::guard::Pass;
use crate::points::{LivePoint, live_point};
use crate::wrong::{Done, Wrong};

/// Time between two signs of life, at each of which is looked whether the caller still may.
const BEAT: Duration = Duration::from_secs(5);

/// Rows that are asked of the database at once.
const PAGE_ROWS: u64 = 1_000;

/// What a reader is told.
#[derive(Debug)]
pub(super) enum Event {
    /// A point, and what to show to go on behind it.
    Point(Option<String>, Box<LivePoint>),
    /// So many points are not told; `None`: that cannot be said.
    Lost(Option<u64>),
    /// The connection lives.
    Beat,
    /// Nothing more comes.
    End(String),
}

pub(super) struct Reader {
    desk: Arc<Desk>,
    filter: Filter,
    watch: Watch,
    /// By what it may; `None`: it came through the control socket.
    pass: Option<Pass>,
    /// Behind the last that was told.
    last: Option<Cursor>,
    /// What was found in the database.
    found: VecDeque<StoredPoint>,
    is_catching_up: bool,
    beats_at: Instant,
    ends_at: Instant,
    has_ended: bool,
}

impl Reader {
    pub(super) fn new(desk: Arc<Desk>, filter: Filter, after: Option<Cursor>, pass: Option<Pass>) -> Done<Self> {
        let feed = desk.feed.as_ref();
        let feed = feed.ok_or_else(|| Wrong::absent("nothing runs here that could be watched"))?;
        // Before the database is asked: what comes in meanwhile is not missed.
        let watch = feed.watch(filter.clone())?;
        let now = Instant::now();
        Ok(Self {
            is_catching_up: after.is_some(),
            last: after,
            watch,
            desk,
            filter,
            pass,
            found: VecDeque::new(),
            beats_at: now + BEAT,
            ends_at: now + LONGEST,
            has_ended: false,
        })
    }

    /// The next event; `None` behind the end. May be given up at any await.
    pub(super) async fn next(&mut self) -> Option<Event> {
        while !self.has_ended {
            if Instant::now() >= self.beats_at {
                return Some(self.beat().await);
            }
            if let Some(stored) = self.found.pop_front() {
                return Some(self.tell(&stored));
            }
            if self.is_catching_up {
                if let Err(error) = self.catch_up().await {
                    tracing::info!(
                        error = error.message(),
                        "a reader of live telemetry goes on without what was before"
                    );
                    self.is_catching_up = false;
                    return Some(Event::Lost(None));
                }
                continue;
            }
            let seen = tokio::select! {
                seen = self.watch.next() => seen,
                () = sleep_until(self.beats_at) => continue,
            };
            match seen {
                Seen::Lost(points) => return Some(Event::Lost(Some(points))),
                Seen::Point(stored) if self.has_told(&stored) => {}
                Seen::Point(stored) => return Some(self.tell(&stored)),
            }
        }
        None
    }

    async fn beat(&mut self) -> Event {
        if Instant::now() >= self.ends_at {
            return self.end("this has lasted as long as a token is valid; ask again, with a new one".to_owned());
        }
        let checked = match &self.pass {
            Some(pass) => pass.check(&self.desk).await,
            None => Ok(()),
        };
        self.beats_at = Instant::now() + BEAT;
        match checked {
            Ok(()) => Event::Beat,
            Err(wrong) => self.end(wrong.message().to_owned()),
        }
    }

    fn end(&mut self, reason: String) -> Event {
        self.has_ended = true;
        Event::End(reason)
    }

    /// Asks the database for what was stored behind the last that was told.
    async fn catch_up(&mut self) -> Done<()> {
        let (filter, after) = (self.filter.clone(), self.last.clone());
        let after = after.expect("a reader that has seen something");
        let asking = self
            .desk
            .ask_telemetry(move |queries| queries.stored_behind(&filter, &after, PAGE_ROWS));
        let found = asking.await?;
        self.is_catching_up = !found.is_empty();
        self.found = found.into();
        Ok(())
    }

    fn has_told(&self, stored: &StoredPoint) -> bool {
        stored.cursor.is_some() && stored.cursor <= self.last
    }

    fn tell(&mut self, stored: &StoredPoint) -> Event {
        if stored.cursor.is_some() {
            self.last.clone_from(&stored.cursor);
        }
        let id = stored.cursor.as_ref().map(Cursor::to_string);
        Event::Point(id, Box::new(live_point(stored)))
    }
}
