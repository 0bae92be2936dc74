//! Random readings with duplicates, reordering, gaps, several writers and cut connections, against a model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use cloud::{Gap, Origin, Reading, Value};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::common::{NOW_MS, TENANT, ingest_at_last, reading};
use crate::place::Place;

crate::on_both!(whatever_is_sent_the_rows_and_marks_are_the_models);

const SEEDS: [u64; 3] = [1, 2, 3];
const STEPS: usize = 80;
const SEQUENCES: u64 = 400;
const EPOCHS: [(&str, u64); 3] = [("edge-a", 1 << 32), ("edge-a", 2 << 32), ("edge-b", 1 << 32)];

/// What must be in: of each epoch the sequences that were stored, and those that were declared gaps before they came.
#[derive(Default)]
struct Model {
    stored: BTreeMap<(&'static str, u64), BTreeSet<u64>>,
    gaps: BTreeMap<(&'static str, u64), BTreeSet<u64>>,
}

impl Model {
    /// Whether it is new.
    fn store(&mut self, epoch: (&'static str, u64), sequence: u64) -> bool {
        let is_gap = self.gaps.get(&epoch).is_some_and(|gaps| gaps.contains(&sequence));
        !is_gap && self.stored.entry(epoch).or_default().insert(sequence)
    }

    fn fill(&mut self, epoch: (&'static str, u64), range: RangeInclusive<u64>) {
        let stored = self.stored.entry(epoch).or_default();
        let new: Vec<u64> = range.filter(|sequence| !stored.contains(sequence)).collect();
        self.gaps.entry(epoch).or_default().extend(new);
    }

    /// The ranges of an epoch's mark.
    fn mark(&self, epoch: (&'static str, u64)) -> Vec<RangeInclusive<u64>> {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        let of = |sets: &BTreeMap<_, BTreeSet<u64>>| sets.get(&epoch).cloned().unwrap_or_default();
        for sequence in of(&self.stored).union(&of(&self.gaps)) {
            match ranges.last_mut() {
                Some(last) if last.end() + 1 == *sequence => *last = *last.start()..=*sequence,
                _ => ranges.push(*sequence..=*sequence),
            }
        }
        ranges
    }
}

fn whatever_is_sent_the_rows_and_marks_are_the_models(place: &Place) {
    for seed in SEEDS {
        run(place, &format!("device-{seed}"), seed);
    }
}

fn run(place: &Place, device: &str, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut model, mut writers) = (Model::default(), [place.open(), place.open()]);
    for step in 0..STEPS {
        let writer = &mut writers[random.random_range(0..2)];
        match random.random_range(0..10) {
            0 => *writer = place.open(),
            1 | 2 => {
                let (epoch, first) = (pick(&mut random), random.random_range(0..SEQUENCES));
                let last = first + random.random_range(0..12);
                let first_origin = origin(device, epoch, first);
                let gap = [Gap::new(first_origin, last).unwrap()];
                writer
                    .fill(&gap, NOW_MS)
                    .or_else(|_| writer.fill(&gap, NOW_MS))
                    .unwrap();
                model.fill(epoch, first..=last);
            }
            3 => std::thread::scope(|scope| {
                let readings = batch(&mut random, device, &mut model).0;
                scope.spawn(|| place.cut());
                ingest_at_last(writer, &readings);
            }),
            _ => {
                let (readings, new) = batch(&mut random, device, &mut model);
                let expected = (new, readings.len() as u64 - new);
                // A connection that was cut in an earlier step is found out by the first try, which stores nothing.
                let done = writer
                    .ingest(&readings, NOW_MS)
                    .or_else(|_| writer.ingest(&readings, NOW_MS))
                    .unwrap();
                assert_eq!((done.stored, done.duplicates), expected, "seed {seed}, step {step}");
            }
        }
        if step % 10 == 9 {
            check(place, device, &model);
        }
    }
}

fn pick(random: &mut StdRng) -> (&'static str, u64) {
    EPOCHS[random.random_range(0..EPOCHS.len())]
}

fn origin(device: &str, epoch: (&str, u64), sequence: u64) -> Origin {
    // Seeds share a database: their edges differ.
    Origin::new(format!("{} of {device}", epoch.0).into(), epoch.1, sequence).unwrap()
}

/// Readings of all epochs, in runs and singly, some twice; and how many the model did not have.
fn batch(random: &mut StdRng, device: &str, model: &mut Model) -> (Vec<Reading>, u64) {
    let (mut readings, mut new) = (Vec::new(), 0);
    for _ in 0..random.random_range(1..8) {
        let (epoch, first) = (pick(random), random.random_range(0..SEQUENCES));
        let mut run: Vec<u64> = (first..first + random.random_range(1..20)).collect();
        if random.random_bool(0.3) {
            run.reverse();
        }
        for sequence in run {
            new += u64::from(model.store(epoch, sequence));
            let payload = format!("{{\"{} {:x}\": {sequence}}}", epoch.0, epoch.1);
            readings.push(Reading {
                device: device.to_owned(),
                origin: origin(device, epoch, sequence),
                ..reading(sequence, payload)
            });
        }
    }
    (readings, new)
}

fn check(place: &Place, device: &str, model: &Model) {
    let (mut database, mut queries) = (place.open(), place.queries());
    for epoch in EPOCHS {
        let edge = origin(device, epoch, 0).edge().clone();
        let marks = database.marks(&edge).unwrap();
        let mark = marks
            .into_iter()
            .find(|mark| mark.epoch == epoch.1)
            .map_or_else(Vec::new, |mark| mark.ranges);
        assert_eq!(mark, model.mark(epoch));

        let stream = format!("{} {:x}", epoch.0, epoch.1);
        let page = queries
            .range(TENANT, device, &stream, 0..i64::MAX, 10_000, None)
            .unwrap();
        let rows: Vec<u64> = page.items.iter().map(|point| point.origin.sequence()).collect();
        let stored: Vec<u64> = model.stored.get(&epoch).into_iter().flatten().copied().collect();
        assert_eq!(rows, stored);
        assert!(
            page.items
                .iter()
                .all(|point| point.value == Value::Number(point.origin.sequence() as f64))
        );
        let latest = queries.latest(TENANT, device, None, 10).unwrap();
        let latest = latest
            .into_iter()
            .find(|(name, _)| *name == stream)
            .map(|(_, point)| point.origin.sequence());
        assert_eq!(latest, stored.last().copied());
    }
}
