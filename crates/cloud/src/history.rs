//! What an edge keeps by itself of its devices' telemetry, so that it can be asked while the cloud is away; and what it
//! tells those who watch, whether it keeps anything or not.
//!
//! The hub's messages do not wait for this: copies are taken a few times a second, and what finds no room is lost here,
//! and counted, though the cloud gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hub::{Overheard, Overhearing};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use crate::background::Background;
use crate::clock::unix_now_ms;
use crate::decode::decode;
use crate::live::{Feed, Told};
use crate::query::{Point, StoredPoint};
use crate::{Database, Error, Mark, Origin, Reading};

/// Name of the edge that its own history is of; no edge can be called so.
const HERE: &str = "@edge";

/// Time between two looks at what came: while somebody watches, and else.
const LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// What came is written after so long, or so many bytes, or when somebody asks or watches: each write costs a memory
/// card some pages, however little is in it.
const WRITE_AFTER: Duration = Duration::from_secs(10);
const WRITE_BYTES: usize = 1 << 20;
/// Bytes that wait while the database cannot be written; beyond it the oldest are lost.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// What a reading takes beside its payload, about.
const READING_BYTES: usize = 256;
/// How long a question waits for what came before it to be written.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Questions that wait for it at once.
const SETTLES_MAX: usize = 64;

/// What became of the telemetry of an edge's history.
#[derive(Debug, Default)]
struct Counts {
    stored: AtomicU64,
    lost: AtomicU64,
}

/// The history as questions see it.
#[derive(Clone, Debug)]
pub struct History {
    settles: mpsc::Sender<oneshot::Sender<()>>,
    counts: Arc<Counts>,
}

/// What of it is to be run.
pub struct Keeper {
    settles: mpsc::Receiver<oneshot::Sender<()>>,
    counts: Arc<Counts>,
}

impl History {
    /// A history, and what keeps it once it is [run](Keeper::run).
    pub fn new() -> (History, Keeper) {
        let (sender, settles) = mpsc::channel(SETTLES_MAX);
        let counts = Arc::<Counts>::default();
        let history = History {
            settles: sender,
            counts: Arc::clone(&counts),
        };
        (history, Keeper { settles, counts })
    }

    /// Has what came before written, so that a question finds it; does not wait for long.
    pub async fn settle(&self) {
        let (done, settled) = oneshot::channel();
        if self.settles.try_send(done).is_ok() {
            // What cannot be written now is not found now.
            let _ = timeout(SETTLE_TIMEOUT, settled).await;
        }
    }

    /// Readings that were written, since the start.
    pub fn stored(&self) -> u64 {
        self.counts.stored.load(Ordering::Relaxed)
    }

    /// Readings that were lost to it, since the start.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }
}

/// Tells those who watch, where nothing is kept. Until it is dropped.
pub async fn tell(mut overhearing: Overhearing, feed: Feed) {
    loop {
        feed.watched().await;
        sleep(LOOKS.0).await;
        let copies = overhearing.take();
        feed.tell(|| copies.into_iter().flat_map(told).collect());
    }
}

/// The points of a message that is kept nowhere.
fn told(copy: Overheard) -> Vec<Told> {
    let Ok(origin) = Origin::new(HERE.into(), 0, 0) else {
        return Vec::new();
    };
    let reading = reading(copy, origin);
    let Ok(decoded) = decode(&reading) else {
        return Vec::new();
    };
    let points = decoded.streams.iter().map(|(stream, value)| Told {
        tenant: reading.tenant.clone(),
        stored: StoredPoint {
            device: reading.device.clone(),
            stream: stream.to_string(),
            point: Point {
                source_time_ms: decoded.source_time_ms,
                received_at_ms: reading.received_at_ms,
                value: value.to_static(),
                quality: decoded.quality.as_deref().map(str::to_owned),
                origin: reading.origin.clone(),
            },
            cursor: None,
        },
    });
    points.collect()
}

fn reading(copy: Overheard, origin: Origin) -> Reading {
    Reading {
        tenant: copy.tenant.to_string(),
        device: copy.device,
        subtopic: copy.subtopic,
        payload: copy.payload.into(),
        received_at_ms: i64::try_from(copy.received_ms).unwrap_or(i64::MAX),
        origin,
    }
}

/// Numbers the readings of one start.
struct Numbers {
    epoch: u64,
    next: u64,
}

impl Numbers {
    /// Greater than all of earlier starts, whatever the clock says.
    fn behind(marks: &[Mark], now_ms: i64) -> Self {
        let newest = marks.iter().map(|mark| mark.epoch).max().unwrap_or_default();
        // Two that differ in the lowest bit are lanes of one.
        let epoch = (now_ms.max(0) as u64 & !1).max((newest & !1) + 2);
        Self { epoch, next: 0 }
    }

    fn number(&mut self, copy: Overheard) -> Option<Reading> {
        let origin = Origin::new(HERE.into(), self.epoch, self.next).ok()?;
        self.next += 1;
        Some(reading(copy, origin))
    }
}

/// What waits to be written.
#[derive(Default)]
struct Waiting {
    readings: Vec<Reading>,
    bytes: usize,
    since: Option<Instant>,
}

impl Waiting {
    fn add(&mut self, reading: Reading) {
        self.bytes += READING_BYTES + reading.payload.len();
        self.since.get_or_insert_with(Instant::now);
        self.readings.push(reading);
    }

    fn is_due(&self) -> bool {
        self.bytes >= WRITE_BYTES || self.since.is_some_and(|since| since.elapsed() >= WRITE_AFTER)
    }

    /// Makes the oldest give way; how many did.
    fn bound(&mut self) -> usize {
        let mut gone = 0;
        while self.bytes > WAITING_BYTES_MAX && gone < self.readings.len() {
            self.bytes -= READING_BYTES + self.readings[gone].payload.len();
            gone += 1;
        }
        self.readings.drain(..gone);
        gone
    }
}

impl Keeper {
    /// Writes what is overheard into the database, which tells the feed of it, until it is dropped.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn run(mut self, mut overhearing: Overhearing, mut database: Database, feed: Feed) -> Result<(), Error> {
        database.tell(feed.clone());
        let marks = tokio::task::spawn_blocking(move || {
            let marks = database.marks(HERE);
            (database, marks)
        });
        let (mut database, marks) = marks.await.expect("reading a database does not panic");
        let mut numbers = Numbers::behind(&marks?, unix_now_ms());
        let (mut waiting, mut unheard, mut background) = (Waiting::default(), 0, Background::start("history"));
        loop {
            let asked = self.next_look(&feed).await;
            let copies = overhearing.take().into_iter();
            copies
                .filter_map(|copy| numbers.number(copy))
                .for_each(|reading| waiting.add(reading));
            let lost = overhearing.lost() - std::mem::replace(&mut unheard, overhearing.lost());
            self.counts.lost.fetch_add(lost, Ordering::Relaxed);
            let is_due = asked.is_some() || feed.is_watched() || waiting.is_due();
            if is_due && !waiting.readings.is_empty() {
                (database, waiting) = self.write(&mut background, database, waiting).await;
            }
            // Who asks may have given up meanwhile.
            asked.map(|asked| asked.send(()));
        }
    }

    /// Waits until it is time to look at what came; who wants it to be written, if somebody does.
    async fn next_look(&mut self, feed: &Feed) -> Option<oneshot::Sender<()>> {
        let (soon, later) = LOOKS;
        let looks = async {
            let begun = async {
                feed.watched().await;
                sleep(soon).await;
            };
            tokio::select! {
                () = begun => {}
                () = sleep(later) => {}
            }
        };
        tokio::select! {
            Some(asked) = self.settles.recv() => Some(asked),
            () = looks => None,
        }
    }

    async fn write(
        &self,
        background: &mut Background,
        mut database: Database,
        mut waiting: Waiting,
    ) -> (Database, Waiting) {
        let writing = background.run(move || {
            let written = database.ingest(&waiting.readings, unix_now_ms());
            (database, waiting, written)
        });
        let written;
        (database, waiting, written) = writing.await;
        match written {
            Ok(ingested) => {
                self.counts.stored.fetch_add(ingested.stored, Ordering::Relaxed);
                waiting = Waiting::default();
            }
            Err(error) => {
                let lost = waiting.bound() as u64;
                self.counts.lost.fetch_add(lost, Ordering::Relaxed);
                waiting.since = Some(Instant::now());
                tracing::warn!(%error, lost, "the history of telemetry waits");
            }
        }
        (database, waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(epoch: u64) -> Mark {
        Mark {
            epoch,
            ranges: vec![0..=1],
        }
    }

    #[test]
    fn a_start_numbers_behind_all_before_it_though_the_clock_says_1970() {
        assert_eq!(Numbers::behind(&[], 0).epoch, 2);
        assert_eq!(Numbers::behind(&[], 1_001).epoch, 1_000);
        assert_eq!(Numbers::behind(&[mark(1_001), mark(4)], 12).epoch, 1_002);
    }

    #[test]
    fn what_cannot_be_written_is_bounded_and_the_oldest_give_way() {
        let mut waiting = Waiting::default();
        let mut numbers = Numbers { epoch: 2, next: 0 };
        for _ in 0..20 {
            let copy = Overheard {
                tenant: "acme".into(),
                device: "p7".to_owned(),
                subtopic: String::new(),
                payload: vec![0; 1 << 20],
                received_ms: 0,
            };
            waiting.add(numbers.number(copy).unwrap());
        }
        assert_eq!(waiting.bound(), 13);
        assert_eq!(waiting.readings[0].origin.sequence(), 13);
        assert!(waiting.bytes <= WAITING_BYTES_MAX);
        assert_eq!(waiting.bound(), 0);
    }
}
