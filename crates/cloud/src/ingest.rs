//! How readings go in: taken apart, looked up, and in one transaction checked against the marks, written, and marked.

use std::collections::BTreeMap;

use crate::database::Ingested;
use crate::decode::{Decoded, decode};
use crate::engine::{Engine, EpochKey, EpochRange, MarkChanges, Refusal, Row, Transaction};
use crate::error::{Error, Failure};
use crate::mark::{Mark, Taken, runs};
use crate::names::{MAX_STREAMS_PER_DEVICE, Names};
use crate::reading::Reading;
use crate::told::Telling;

/// Most readings of one transaction.
const MAX_READINGS: usize = 10_000;
/// Payload bytes after which a transaction takes no further reading: a thin line to the database can carry them within
/// the time limits, and the rows that can be made of them, some 300,000, fit into memory.
const MAX_BYTES: usize = 2 << 20;

/// A reading on its way in.
struct Item<'a> {
    /// Its place among those that the caller offered.
    index: usize,
    reading: &'a Reading,
    key: EpochKey,
    /// What it says, or why it cannot be stored.
    content: Result<Decoded<'a>, String>,
    /// Of each of its streams.
    series: Vec<i64>,
}

impl Item<'_> {
    fn sequence(&self) -> u64 {
        self.reading.origin.sequence()
    }
}

/// What is the same for all transactions of what was offered.
struct Run<'a> {
    telling: &'a mut Telling,
    now_ms: i64,
    done: Ingested,
}

/// Stores readings in as many transactions as their size asks for.
pub(crate) fn ingest(
    engine: &mut dyn Engine,
    names: &mut Names,
    telling: &mut Telling,
    readings: &[Reading],
    now_ms: i64,
) -> Result<Ingested, Error> {
    let mut run = Run {
        telling,
        now_ms,
        done: Ingested::default(),
    };
    let mut rest = readings;
    while !rest.is_empty() {
        let (batch, others) = rest.split_at(batch_length(rest));
        let start = readings.len() - rest.len();
        let place = engine.place().to_owned();
        let mut items = prepare(engine, names, start, batch).map_err(|failure| failure.into_error(&place))?;
        store(engine, &mut items, &mut run)?;
        rest = others;
    }
    run.done.deferred.sort_unstable();
    Ok(run.done)
}

fn batch_length(readings: &[Reading]) -> usize {
    let mut bytes = 0;
    let fits = readings.iter().take(MAX_READINGS).take_while(|reading| {
        let fits = bytes < MAX_BYTES;
        bytes += reading.payload.len();
        fits
    });
    fits.count()
}

/// Takes readings apart and looks up their names. In the order of their identity: sequences that are added in ascending
/// order need the fewest ranges.
fn prepare<'a>(
    engine: &mut dyn Engine,
    names: &mut Names,
    start: usize,
    readings: &'a [Reading],
) -> Result<Vec<Item<'a>>, Failure> {
    let decoded: Vec<_> = readings.iter().map(decode).collect();
    let streams = readings.iter().zip(&decoded).flat_map(|(reading, decoded)| {
        let streams = decoded.iter().flat_map(|decoded| &decoded.streams);
        streams.map(|(stream, _)| (reading.tenant.as_str(), reading.device.as_str(), stream.as_ref()))
    });
    let edges = readings.iter().map(|reading| &**reading.origin.edge());
    names.prepare(engine, edges, streams)?;
    let mut items: Vec<_> = readings
        .iter()
        .zip(decoded)
        .enumerate()
        .map(|(index, (reading, content))| item(names, start + index, reading, content))
        .collect();
    items.sort_by_key(|item| (item.key, item.sequence()));
    Ok(items)
}

fn item<'a>(
    names: &mut Names,
    index: usize,
    reading: &'a Reading,
    mut content: Result<Decoded<'a>, String>,
) -> Item<'a> {
    let streams = content.iter().flat_map(|decoded| &decoded.streams);
    let series: Option<Vec<i64>> = streams
        .map(|(stream, _)| names.series(&reading.tenant, &reading.device, stream))
        .collect();
    if series.is_none() {
        content = Err(format!(
            "the device has its {MAX_STREAMS_PER_DEVICE} streams, and this would make another"
        ));
    }
    Item {
        index,
        reading,
        key: EpochKey {
            edge: names.edge(reading.origin.edge()),
            epoch: reading.origin.epoch() as i64,
        },
        content,
        series: series.unwrap_or_default(),
    }
}

/// Stores items in one transaction. If the database refuses something in them, halves are tried, down to the one that
/// it refuses, which is then rejected.
fn store(engine: &mut dyn Engine, items: &mut [Item<'_>], run: &mut Run<'_>) -> Result<(), Error> {
    match (attempt(engine, items, run), items) {
        (Ok(stored), _) => {
            run.done.add(stored);
            Ok(())
        }
        (Err(Failure::Poison(reason)), [item]) if item.content.is_ok() => {
            item.content = Err(reason);
            store(engine, std::slice::from_mut(item), run)
        }
        (Err(Failure::Poison(_)), items) if items.len() > 1 => {
            let (lower, upper) = items.split_at_mut(items.len() / 2);
            store(engine, lower, run)?;
            store(engine, upper, run)
        }
        (Err(failure), _) => Err(failure.into_error(engine.place())),
    }
}

fn attempt(engine: &mut dyn Engine, items: &[Item<'_>], run: &mut Run<'_>) -> Result<Ingested, Failure> {
    let now_ms = run.telling.next_ms(run.now_ms);
    let mut transaction = engine.begin(now_ms)?;
    let mut marks = lock_marks(&mut *transaction, items)?;
    let mut done = Ingested::default();
    let mut rows = Vec::with_capacity(items.len());
    let (mut new, mut refusals) = (Vec::new(), Vec::new());
    for item in items {
        let mark = marks.entry(item.key).or_default();
        match (mark.take(item.sequence()), &item.content) {
            (Taken::Duplicate, _) => done.duplicates += 1,
            (Taken::Deferred, _) => done.deferred.push(item.index),
            (Taken::New, Ok(decoded)) => {
                rows.extend(rows_of(item, decoded, now_ms));
                new.push((item, decoded));
            }
            (Taken::New, Err(reason)) => refusals.push(Refusal {
                reading: item.reading,
                origin: item.key,
                reason: reason.clone(),
            }),
        }
    }
    done.rejected = refusals.len() as u64;
    done.rows = rows.len() as u64;
    done.stored = items.len() as u64 - done.duplicates - done.rejected - done.deferred.len() as u64;
    // Neighbours in the index are written together.
    rows.sort_by_key(|row| (row.series, row.source_time_ms, row.order()));
    transaction.insert(&rows)?;
    transaction.put_latest(&latest(&rows))?;
    transaction.refuse(&refusals)?;
    transaction.change_marks(&changes(&marks))?;
    transaction.commit()?;
    run.telling.tell(new.into_iter().flat_map(|(item, decoded)| {
        let streams = decoded.streams.iter().map(|(stream, _)| &**stream);
        let rows = streams.zip(rows_of(item, decoded, now_ms));
        rows.map(|(stream, row)| (item.reading, stream, row))
    }));
    Ok(done)
}

fn rows_of<'a>(item: &'a Item<'_>, decoded: &'a Decoded<'_>, now_ms: i64) -> impl Iterator<Item = Row<'a>> {
    let streams = decoded.streams.iter().zip(&item.series).enumerate();
    streams.map(move |(part, ((_, value), series))| Row {
        series: *series,
        source_time_ms: decoded.source_time_ms,
        received_at_ms: item.reading.received_at_ms,
        stored_at_ms: now_ms,
        origin: item.key,
        sequence: item.sequence() as i64,
        part: part as i16,
        quality: decoded.quality.as_deref(),
        value,
    })
}

/// The latest of each stream and edge.
fn latest<'a, 'b>(rows: &'a [Row<'b>]) -> Vec<&'a Row<'b>> {
    let mut latest: BTreeMap<(i64, i32), &Row<'_>> = BTreeMap::new();
    for row in rows {
        let present = latest.entry((row.series, row.origin.edge)).or_insert(row);
        if row.order() > present.order() {
            *present = row;
        }
    }
    latest.into_values().collect()
}

/// Locks the epochs of items, which are sorted, and reads what of their marks the items can change.
fn lock_marks(
    transaction: &mut (dyn Transaction + '_),
    items: &[Item<'_>],
) -> Result<BTreeMap<EpochKey, Mark>, Failure> {
    let mut sequences: BTreeMap<EpochKey, Vec<u64>> = BTreeMap::new();
    for item in items {
        sequences.entry(item.key).or_default().push(item.sequence());
    }
    let added: Vec<EpochRange> = sequences
        .into_iter()
        .flat_map(|(key, sequences)| runs(sequences).into_iter().map(move |run| (key, run)))
        .collect();
    read_marks(transaction, &added)
}

/// Locks the epochs of these ranges and reads the ranges near them.
pub(crate) fn read_marks(
    transaction: &mut (dyn Transaction + '_),
    added: &[EpochRange],
) -> Result<BTreeMap<EpochKey, Mark>, Failure> {
    let mut keys: Vec<EpochKey> = added.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    keys.dedup();
    let counts = transaction.lock(&keys)?;
    let mut near: BTreeMap<EpochKey, Vec<_>> = BTreeMap::new();
    for (key, range) in transaction.ranges_near(added)? {
        near.entry(key).or_default().push(range);
    }
    let marks = keys.into_iter().zip(counts);
    Ok(marks
        .map(|(key, count)| (key, Mark::new(near.remove(&key).unwrap_or_default(), count)))
        .collect())
}

/// What the marks' changes are, over all epochs.
pub(crate) fn changes(marks: &BTreeMap<EpochKey, Mark>) -> MarkChanges {
    let mut all = MarkChanges::default();
    for (key, mark) in marks {
        let changes = mark.changes();
        all.removed
            .extend(changes.removed.into_iter().map(|first| (*key, first)));
        all.written
            .extend(changes.written.into_iter().map(|range| (*key, range)));
        if let Some(count) = changes.count {
            all.counts.push((*key, count));
        }
    }
    all
}
