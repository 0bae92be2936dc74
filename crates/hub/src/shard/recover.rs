//! A shard comes back: its tenants from its log, at the start and as the log moves records.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use broker::{Broker, Position, Record, Recovery};
use device::Twin;
use rustix::event::epoll;
use store::{Durability, Event, Kind, Log, Options};

use super::clock::Clock;
use super::connections::Connections;
use super::inbox::Orders;
use super::journal::{Entry, Journal};
use super::tenant::StoredTwin;
use super::{Order, Settings, Shard, watch_wakers};
use crate::StartError;
use crate::counters::Counters;
use crate::routing::LabelSource;
use crate::twins;

/// A tenant while its records are read.
struct Returning {
    name: Arc<str>,
    position: Position,
    broker: Recovery,
    twins: BTreeMap<Box<str>, Position>,
}

impl Shard {
    /// Opens the log in `dir` and brings back what it holds.
    pub(crate) fn open(
        dir: &Path,
        durability: Durability,
        settings: Settings,
        orders: Orders<Order>,
        labels: LabelSource,
    ) -> Result<Self, StartError> {
        let options = Options {
            durability,
            ..Options::default()
        };
        let (log, recovery) = Log::open(dir, options)?;
        let mut returning: BTreeMap<u32, Returning> = BTreeMap::new();
        let report = recovery.replay(|record| restore(&mut returning, &settings, &record))?;
        for damage in &report.damage {
            tracing::error!(%damage, "damaged bytes in the log");
        }
        let journal = Journal::new(log);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(std::io::Error::from)?;
        watch_wakers(&epoll, &orders, &journal).map_err(std::io::Error::from)?;
        let mut shard = Self {
            settings,
            connections: Connections::new(epoll),
            tenants: Vec::new(),
            tenant_numbers: HashMap::new(),
            journal,
            orders,
            counters: Counters::default(),
            clock: Clock::start(),
            buffer: Vec::new(),
            wills: Vec::new(),
            log_events: Vec::new(),
            labels,
            answers: VecDeque::new(),
            next_due_ms: 0,
            stops_at_ms: None,
        };
        returning.into_values().for_each(|tenant| shard.bring_back(tenant));
        Ok(shard)
    }

    fn bring_back(&mut self, tenant: Returning) {
        let now = self.clock.now();
        let number = self.tenants.len() as u32;
        self.add_tenant(&tenant.name, Broker::new(self.settings.limits.broker.clone()));
        self.with_tenant(now, number, |returned, turn| {
            returned.broker = tenant.broker.finish(now, turn)
        });
        for (device, position) in tenant.twins {
            self.tenants[number as usize].twins.insert(
                device,
                StoredTwin {
                    twin: Twin::default(),
                    position,
                },
            );
            self.journal.load(number, position);
        }
    }

    /// Something the log has to say.
    pub(super) fn hear(&mut self, now: broker::Now, event: Event) {
        match event {
            Event::Loaded { position, body } => self.loaded(now, Position(position.0), Some(&body)),
            Event::Lost { position, damage } => {
                tracing::error!(%damage, "a record of the log is lost");
                self.loaded(now, Position(position.0), None);
            }
            Event::Relocate { position, meta, body } => self.relocate(now, Position(position.0), &meta, &body),
            Event::Room => tracing::info!("the log has room again"),
            Event::Stopped(stopped) => tracing::error!(%stopped, "nothing further is made durable"),
        }
    }

    fn loaded(&mut self, now: broker::Now, position: Position, body: Option<&[u8]>) {
        let Some(number) = self.journal.take_reader(position) else {
            return;
        };
        self.with_tenant(now, number, |tenant, turn| {
            let twin = tenant.twins.iter_mut().find(|(_, stored)| stored.position == position);
            let Some((device, stored)) = twin else {
                return tenant.broker.loaded(now, position, body, turn);
            };
            let Some(twin) = body.and_then(|body| Twin::decode(body).ok()) else {
                return;
            };
            stored.twin = twin;
            let (device, desired) = (device.clone(), stored.twin.desired_payload());
            twins::announce_desired(tenant, turn, &device, &desired);
        });
    }

    fn relocate(&mut self, now: broker::Now, position: Position, meta: &[u8], body: &[u8]) {
        let Some((number, entry)) = Entry::decode(meta) else {
            return;
        };
        self.journal.set_relocating(true);
        let moved = match entry {
            Entry::Tenant(_) => self.journal.append(number, Kind::Replacement, entry, &[]).map(drop),
            Entry::Broker(bytes) => match Record::decode(bytes, body) {
                Ok(record) => self.with_tenant(now, number, |tenant, turn| {
                    tenant.broker.relocate(now, position, &record, turn)
                }),
                Err(_) => Ok(()),
            },
            Entry::Twin(device) => self.relocate_twin(number, device, position, body),
            Entry::TwinGone(_) => Ok(()),
        };
        self.journal.set_relocating(false);
        if moved.is_err() {
            tracing::error!("the log has no place for a record that must move");
        }
    }

    fn relocate_twin(
        &mut self,
        number: u32,
        device: &str,
        position: Position,
        body: &[u8],
    ) -> Result<(), broker::Full> {
        let stored = self.tenants[number as usize].twins.get_mut(device);
        let Some(stored) = stored.filter(|stored| stored.position == position) else {
            return Ok(());
        };
        stored.position = self
            .journal
            .append(number, Kind::Replacement, Entry::Twin(device), body)?;
        self.journal.release(position);
        Ok(())
    }
}

/// Takes one record of the log.
fn restore(returning: &mut BTreeMap<u32, Returning>, settings: &Settings, record: &store::Recovered<'_>) {
    let position = Position(record.position.0);
    let Some((number, entry)) = Entry::decode(record.meta) else {
        return;
    };
    if let Entry::Tenant(name) = entry {
        let tenant = returning.entry(number).or_insert_with(|| Returning {
            name: name.into(),
            position,
            broker: Recovery::new(settings.limits.broker.clone()),
            twins: BTreeMap::new(),
        });
        tenant.position = position;
        return;
    }
    let Some(tenant) = returning.get_mut(&number) else {
        return;
    };
    match entry {
        Entry::Tenant(_) => {}
        Entry::Broker(bytes) => {
            if let Ok(record_of_broker) = Record::decode(bytes, &[]) {
                tenant.broker.restore(position, &record_of_broker, record.body_len);
            }
        }
        Entry::Twin(device) => drop(tenant.twins.insert(device.into(), position)),
        Entry::TwinGone(device) => drop(tenant.twins.remove(device)),
    }
}
