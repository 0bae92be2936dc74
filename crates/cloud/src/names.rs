//! Names of streams and edges as numbers, which rows carry instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::engine::{Engine, SeriesName};
use crate::error::Failure;

/// Most streams of one device. A message that would make more is rejected whole: a device that makes up names could
/// otherwise fill the database with them.
pub const MAX_STREAMS_PER_DEVICE: u64 = 10_000;

/// Memory for names; when it is full, all are forgotten and looked up again. Some 300,000 streams of usual names.
const MAX_REMEMBERED_BYTES: usize = 32 << 20;
/// Beside the name itself.
const ENTRY_BYTES: usize = 48;

/// What was looked up before. Numbers never change and are never given up, so this is never wrong.
#[derive(Default)]
pub(crate) struct Names {
    /// By tenant, device and stream, each ended by NUL, which none contains.
    series: HashMap<String, i64>,
    edges: HashMap<String, i32>,
    remembered_bytes: usize,
    key: String,
}

impl Names {
    /// The number of a stream that was prepared; none: its device has too many.
    pub(crate) fn series(&mut self, tenant: &str, device: &str, stream: &str) -> Option<i64> {
        write_key(&mut self.key, tenant, device, stream);
        self.series.get(&self.key).copied()
    }

    /// The number of an edge that was prepared.
    pub(crate) fn edge(&self, name: &str) -> i32 {
        self.edges[name]
    }

    /// Looks these up, and makes those that are new.
    pub(crate) fn prepare<'a>(
        &mut self,
        engine: &mut dyn Engine,
        edges: impl Iterator<Item = &'a str>,
        series: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
    ) -> Result<(), Failure> {
        if self.remembered_bytes > MAX_REMEMBERED_BYTES {
            *self = Names::default();
        }
        self.prepare_edges(engine, edges)?;
        let mut missing = BTreeSet::new();
        for (tenant, device, stream) in series {
            if self.series(tenant, device, stream).is_none() {
                missing.insert(SeriesName {
                    tenant: tenant.to_owned(),
                    device: device.to_owned(),
                    stream: stream.to_owned(),
                });
            }
        }
        let missing: Vec<_> = missing.into_iter().collect();
        let new = self.find(engine, &missing)?;
        let new = within_bounds(engine, new)?;
        if !new.is_empty() {
            engine.make_series(&new)?;
            self.find(engine, &new)?;
        }
        Ok(())
    }

    fn prepare_edges<'a>(
        &mut self,
        engine: &mut dyn Engine,
        edges: impl Iterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        let missing: BTreeSet<&str> = edges.filter(|name| !self.edges.contains_key(*name)).collect();
        let missing: Vec<&str> = missing.into_iter().collect();
        if !missing.is_empty() {
            let numbers = engine.edges(&missing)?;
            self.remembered_bytes += missing.iter().map(|name| name.len() + ENTRY_BYTES).sum::<usize>();
            self.edges.extend(missing.into_iter().map(str::to_owned).zip(numbers));
        }
        Ok(())
    }

    /// Remembers those that there are, returns the others.
    fn find(&mut self, engine: &mut dyn Engine, names: &[SeriesName]) -> Result<Vec<SeriesName>, Failure> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let mut others = Vec::new();
        for (name, number) in names.iter().zip(engine.find_series(names)?) {
            let Some(number) = number else {
                others.push(name.clone());
                continue;
            };
            write_key(&mut self.key, &name.tenant, &name.device, &name.stream);
            self.series.insert(self.key.clone(), number);
            self.remembered_bytes += self.key.len() + ENTRY_BYTES;
        }
        Ok(others)
    }
}

fn write_key(key: &mut String, tenant: &str, device: &str, stream: &str) {
    key.clear();
    for part in [tenant, device, stream] {
        key.push_str(part);
        key.push('\0');
    }
}

/// As many of each device's new streams as it may still have.
fn within_bounds(engine: &mut dyn Engine, names: Vec<SeriesName>) -> Result<Vec<SeriesName>, Failure> {
    let mut devices: BTreeMap<(String, String), Vec<SeriesName>> = BTreeMap::new();
    for name in names {
        devices
            .entry((name.tenant.clone(), name.device.clone()))
            .or_default()
            .push(name);
    }
    let mut within = Vec::new();
    for ((tenant, device), mut names) in devices {
        let room = MAX_STREAMS_PER_DEVICE.saturating_sub(engine.count_series(&tenant, &device)?);
        names.truncate(usize::try_from(room).unwrap_or(usize::MAX));
        within.append(&mut names);
    }
    Ok(within)
}
