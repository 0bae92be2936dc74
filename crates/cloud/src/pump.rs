//! What leaves the cloud's hub goes into the database, and is settled once it is there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hub::{Allowance, Fate, Outbox, Outgoing, Parcel, Settled};
use rangemap::RangeSet;
use tokio::time::sleep;

use crate::background::Background;
use crate::clock::unix_now_ms;
use crate::{Database, Error, Gap, Ingested, Origin, Reading};

/// Name of the edge that messages of the cloud's own clients come from; no edge can be called so.
const HERE: &str = "@cloud";
/// Messages after which a batch takes no more: with those that come together with the last it fits into one
/// transaction.
const BATCH_MESSAGES_MAX: usize = 9_000;
/// Fewer wait for others to come: a transaction costs as much as the rows of some twenty messages, and nobody is told
/// later for it that a message is kept.
const BATCH_MESSAGES_FEW: usize = 1_000;
/// How long they wait.
const GATHERING: Duration = Duration::from_millis(20);
/// Bytes of messages that are here, in memory, of all shards together.
const LOAD_BYTES: u64 = 16 << 20;
/// The first pause before the database is tried again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Messages on their way into the database.
#[derive(Default)]
struct Batch {
    readings: Vec<Reading>,
    /// By edge and epoch: the messages with what lies between each and the one of its lane before it, of which nothing
    /// will come.
    runs: BTreeMap<(Arc<str>, u64), RangeSet<u64>>,
    messages: Vec<Outgoing>,
    /// Messages that no row can be made of.
    refused: Vec<Outgoing>,
}

/// Opens a database, however long it is away. Until then nothing is taken out of the hub's log.
pub async fn open_at_last(open: impl Fn() -> Result<Database, Error> + Clone + Send + 'static) -> Database {
    let (mut pause, longest) = PAUSES;
    loop {
        match tokio::task::spawn_blocking(open.clone()).await {
            Ok(Ok(database)) => return database,
            Ok(Err(error)) => tracing::warn!(%error, "telemetry waits"),
            Err(error) => tracing::error!(%error, "telemetry waits"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

/// Carries messages into the database until the hub ends. While the database is away or full nothing is lost: the hub's
/// log holds what has come, and what finds no room there stays with who sent it.
pub async fn run(mut outbox: Outbox, mut database: Database) {
    let settler = outbox.settler();
    let allowance = Allowance {
        live_bytes: 0,
        backlog_bytes: LOAD_BYTES / settler.shards() as u64,
    };
    settler.allow(0, allowance).await;
    let mut background = Background::start("telemetry");
    // What was stored is settled while the next is.
    let mut stored = Vec::new();
    loop {
        let messages = match outbox.try_next() {
            Some(messages) => messages,
            None => {
                settler.settle(std::mem::take(&mut stored)).await;
                let Some(messages) = outbox.next().await else { return };
                messages
            }
        };
        let mut batch = Batch::default();
        batch.add_all(messages);
        batch.fill_from(&mut outbox);
        if batch.messages.len() < BATCH_MESSAGES_FEW {
            sleep(GATHERING).await;
            batch.fill_from(&mut outbox);
        }
        let settling = settler.settle(std::mem::take(&mut stored));
        ((database, stored), ()) = tokio::join!(store(database, batch, &mut background), settling);
    }
}

/// Stores a batch, however long it takes; what became of its messages.
async fn store(mut database: Database, mut batch: Batch, background: &mut Background) -> (Database, Vec<Settled>) {
    let (mut pause, longest) = PAUSES;
    loop {
        let writing = background.run(move || {
            let written = batch.write(&mut database);
            (database, batch, written)
        });
        let written;
        (database, batch, written) = writing.await;
        match written {
            Ok(deferred) => return (database, batch.settled(&deferred)),
            Err(error) => tracing::warn!(%error, "telemetry waits"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
}

impl Batch {
    /// With what is there.
    fn fill_from(&mut self, outbox: &mut Outbox) {
        while self.messages.len() < BATCH_MESSAGES_MAX
            && let Some(messages) = outbox.try_next()
        {
            self.add_all(messages);
        }
    }

    fn add_all(&mut self, messages: Vec<Outgoing>) {
        messages.into_iter().for_each(|message| self.add(message));
    }

    fn add(&mut self, message: Outgoing) {
        match reading(&message) {
            Some((reading, after)) => {
                let origin = &reading.origin;
                let key = (Arc::clone(origin.edge()), origin.epoch());
                let run = after.min(origin.sequence())..origin.sequence() + 1;
                self.runs.entry(key).or_default().insert(run);
                self.readings.push(reading);
                self.messages.push(message);
            }
            None => self.refused.push(message),
        }
    }

    /// Indexes of the readings that are not in yet.
    fn write(&mut self, database: &mut Database) -> Result<Vec<usize>, Error> {
        let now_ms = unix_now_ms();
        let Ingested { deferred, .. } = database.ingest(&self.readings, now_ms)?;
        if deferred.is_empty() {
            database.fill(&self.gaps(), now_ms)?;
        }
        Ok(deferred)
    }

    fn gaps(&self) -> Vec<Gap> {
        let runs = self
            .runs
            .iter()
            .flat_map(|(key, runs)| runs.iter().map(move |run| (key, run)));
        let gaps = runs.filter_map(|((edge, epoch), run)| {
            let first = Origin::new(Arc::clone(edge), *epoch, run.start).ok()?;
            Gap::new(first, run.end - 1)
        });
        gaps.collect()
    }

    fn settled(&self, deferred: &[usize]) -> Vec<Settled> {
        let stored = self.messages.iter().enumerate().map(|(at, message)| {
            let is_deferred = deferred.binary_search(&at).is_ok();
            message.settled(if is_deferred { Fate::Returned } else { Fate::Delivered })
        });
        let refused = self.refused.iter().map(|message| message.settled(Fate::Refused));
        stored.chain(refused).collect()
    }
}

/// The reading in a message of telemetry, and behind which one of its lane it comes; `None` if it is no telemetry.
fn reading(message: &Outgoing) -> Option<(Reading, u64)> {
    let parcel = Parcel::decode(&message.body).ok()?;
    let mut levels = parcel.publish.topic.splitn(4, '/');
    let (Some("devices"), Some(device), Some("telemetry")) = (levels.next(), levels.next(), levels.next()) else {
        return None;
    };
    let (edge, epoch, sequence, after) = match parcel.origin {
        Some(origin) => (origin.edge, origin.epoch, origin.sequence, origin.after),
        None => (HERE, message.ticket.epoch, message.ticket.sequence, message.after),
    };
    let reading = Reading {
        tenant: message.tenant.to_string(),
        device: device.to_owned(),
        subtopic: levels.next().unwrap_or_default().to_owned(),
        payload: parcel.publish.payload.to_vec().into(),
        received_at_ms: i64::try_from(parcel.received_ms).unwrap_or(i64::MAX),
        origin: Origin::new(edge.into(), epoch, sequence).ok()?,
    };
    Some((reading, after))
}
