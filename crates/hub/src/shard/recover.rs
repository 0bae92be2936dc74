//! A shard comes back: its tenants from its log, at the start and as the log moves records.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use broker::{Now, Position, Record, Recovery};
use rustix::event::epoll;
use store::{Event, Kind, Log};
use tokio::runtime::Handle;

use super::behind::Behind;
use super::clock::Clock;
use super::connections::Connections;
use super::inbox::Orders;
use super::journal::{Entry, Journal};
use super::tasks::Tasks;
use super::tenant::StoredTwin;
use super::wait::Timer;
use super::{Departures, Order, Settings, Shard, watch_wakers};
use crate::StartError;
use crate::arrivals::Arrivals;
use crate::call_log::CallLog;
use crate::counters::Counters;
use crate::outbox::Restored;
use crate::routing::LabelSource;
use crate::twins;

/// A tenant while its records are read.
struct Returning {
    /// From the tenant's own record.
    name: Option<Arc<str>>,
    position: Position,
    broker: Recovery,
    twins: BTreeMap<Box<str>, Position>,
    arrivals: Arrivals,
    /// Positions that something later stands for.
    unneeded: Vec<Position>,
}

impl Shard {
    /// Opens the log in `dir` and brings back what it holds.
    pub(crate) fn open(
        dir: &Path,
        options: store::Options,
        settings: Settings,
        orders: Orders<Order>,
        labels: LabelSource,
        call_log: CallLog,
        departures: Departures,
    ) -> Result<Self, StartError> {
        let (log, recovery) = Log::open(dir, options)?;
        let clock = Clock::start();
        let now = clock.now();
        let (mut returning, mut restored) = (Vec::new(), Restored::default());
        let report = recovery.replay(|record| restore(&mut returning, &mut restored, now, &settings, &record))?;
        for damage in &report.damage {
            tracing::error!(%damage, "damaged bytes in the log");
        }
        let journal = Journal::new(log);
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).map_err(std::io::Error::from)?);
        watch_wakers(&epoll, &orders, &journal).map_err(std::io::Error::from)?;
        let mut shard = Self {
            timer: Timer::new(&epoll).map_err(std::io::Error::from)?,
            tasks: Tasks::new(Handle::current(), Arc::clone(&epoll), Arc::clone(orders.bell())),
            settings,
            connections: Connections::new(epoll),
            tenants: Vec::new(),
            tenant_numbers: HashMap::new(),
            journal,
            queues: departures.queues,
            ear: departures.ear,
            edge_calls: departures.calls,
            twin_changes: departures.twin_changes,
            orders,
            held: VecDeque::new(),
            behind: Behind::default(),
            counters: Counters::default(),
            clock,
            buffer: Vec::new(),
            unread: Vec::new(),
            wills: Vec::new(),
            log_events: Vec::new(),
            log_has_stopped: false,
            labels,
            call_log,
            answers: VecDeque::new(),
            turn_began_ms: 0,
            next_due_ms: 0,
            stops_at_ms: None,
        };
        for (number, tenant) in (0..).zip(returning) {
            if let Some(tenant) = tenant {
                shard.bring_back(number, tenant);
            }
        }
        shard.bring_back_queues(restored);
        shard.set_bounds(shard.clock.now());
        shard.read_twins();
        Ok(shard)
    }

    fn bring_back(&mut self, number: u32, tenant: Returning) {
        let now = self.clock.now();
        while (self.tenants.len() as u32) < number {
            self.add_tenant(
                &lost_name(self.tenants.len() as u32),
                Position::default(),
                self.new_broker(),
            );
        }
        let name = tenant.name.unwrap_or_else(|| lost_name(number));
        self.add_tenant(&name, tenant.position, self.new_broker());
        self.with_tenant(now, number, |returned, turn| {
            returned.broker = tenant.broker.finish(now, turn);
            returned.arrivals = tenant.arrivals;
            tenant
                .unneeded
                .into_iter()
                .for_each(|position| turn.journal.release(position));
        });
        for (device, position) in tenant.twins {
            self.journal.load(number, position);
            // What it is comes with the answer.
            self.tenants[number as usize].put_twin(&device, StoredTwin::unread(position));
        }
    }

    /// Without an outbox the log keeps what was to leave, for a start that has one.
    fn bring_back_queues(&mut self, restored: Restored) {
        if let Some(queues) = &mut self.queues {
            let name = |number: u32| Arc::clone(&self.tenants[number as usize].name);
            queues.bring_back(restored, &mut self.journal, name);
        }
    }

    /// Waits until the twins are in memory: nobody may change one whose content is not known.
    fn read_twins(&mut self) {
        let devices = self.tenants.iter().flat_map(|tenant| tenant.twins.iter());
        let mut devices: HashMap<Position, Box<str>> = devices
            .map(|(device, stored)| (stored.position, device.clone()))
            .collect();
        let mut events = Vec::new();
        while !devices.is_empty() {
            self.journal.log().submit();
            self.journal.wait();
            self.journal.log().poll(&mut events);
            for event in events.drain(..) {
                match event {
                    Event::Loaded { position, ref body } if devices.contains_key(&Position(position.0)) => {
                        let device = devices.remove(&Position(position.0)).expect("is there");
                        self.put_twin(Position(position.0), &device, body);
                    }
                    Event::Lost { position, ref damage } if devices.contains_key(&Position(position.0)) => {
                        let device = devices.remove(&Position(position.0)).expect("is there");
                        tracing::error!(%device, %damage, "its twin is lost");
                    }
                    // The log empties its oldest file already. What moves is here, and its file may go before it is
                    // read.
                    Event::Relocate { position, ref body, .. } if devices.contains_key(&Position(position.0)) => {
                        let device = devices.remove(&Position(position.0)).expect("is there");
                        self.put_twin(Position(position.0), &device, body);
                        self.hear(self.clock.now(), event);
                    }
                    event => self.hear(self.clock.now(), event),
                }
            }
            self.journal.ask();
        }
    }

    fn put_twin(&mut self, position: Position, device: &str, body: &[u8]) {
        let Some(number) = self.journal.take_reader(position) else {
            return;
        };
        let decoded = StoredTwin::decode(body, position);
        let Ok(stored) = decoded.inspect_err(|error| tracing::error!(%device, %error, "its twin is lost")) else {
            return;
        };
        self.with_tenant(self.clock.now(), number, |tenant, turn| {
            let desired = stored.twin.desired_payload();
            if !tenant.twins.contains_key(device) {
                return;
            }
            tenant.put_twin(device, stored);
            twins::announce_desired(tenant, turn, device, Position::default(), &desired);
        });
    }

    /// Something the log has to say.
    pub(super) fn hear(&mut self, now: broker::Now, event: Event) {
        match event {
            Event::Loaded { position, body } => self.loaded(now, Position(position.0), Some(body)),
            Event::Lost { position, damage } => {
                tracing::error!(%damage, "a record of the log is lost");
                self.loaded(now, Position(position.0), None);
            }
            Event::Relocate { position, meta, body } => self.relocate(now, Position(position.0), &meta, &body),
            Event::Fault(fault) => tracing::error!(%fault, "the log goes on"),
            Event::Room => tracing::info!("the log has room again"),
            Event::Stopped(stopped) => {
                self.log_has_stopped = true;
                tracing::error!(%stopped, "nothing further is made durable");
                self.give_up_waiting(now);
            }
        }
    }

    /// Closes the connections with an acknowledgement that will never leave, so that their clients do not wait for it.
    fn give_up_waiting(&mut self, now: broker::Now) {
        for conn in self.connections.holding() {
            if let Some(phase) = self.connections.get(conn).map(|connection| connection.phase) {
                self.lose(now, conn, phase);
            }
        }
    }

    fn loaded(&mut self, now: broker::Now, position: Position, mut body: Option<Vec<u8>>) {
        if self
            .queues
            .as_mut()
            .is_some_and(|queues| queues.loaded(position, &mut body))
        {
            self.journal.take_reader(position);
            return;
        }
        if let Some(number) = self.journal.take_reader(position) {
            self.with_tenant(now, number, |tenant, turn| {
                tenant.broker.loaded(now, position, body.as_deref(), turn);
            });
        }
    }

    fn relocate(&mut self, now: broker::Now, position: Position, meta: &[u8], body: &[u8]) {
        let Some((number, entry)) = Entry::decode(meta) else {
            return;
        };
        self.journal.set_relocating(true);
        let moved = match entry {
            Entry::Tenant(_) => self.relocate_tenant(number, position),
            Entry::Broker(bytes) => match Record::decode(bytes, body) {
                Ok(record) => self.with_tenant(now, number, |tenant, turn| {
                    tenant.broker.relocate(now, position, &record, turn)
                }),
                Err(_) => Ok(()),
            },
            Entry::Twin(device) => self.relocate_twin(number, device, position, body),
            Entry::TwinGone(_) => Ok(()),
            Entry::Arrived(meta) => {
                let arrivals = &mut self.tenants[number as usize].arrivals;
                arrivals.relocate(&mut self.journal, number, meta, position)
            }
            Entry::OutboxState(_) | Entry::OutboxMessage(_) => self.relocate_of_outbox(number, entry, position, body),
        };
        self.journal.set_relocating(false);
        if moved.is_err() {
            tracing::error!("the log has no place for a record that must move");
        }
    }

    fn relocate_of_outbox(
        &mut self,
        number: u32,
        entry: Entry<'_>,
        from: Position,
        body: &[u8],
    ) -> Result<(), broker::Full> {
        let journal = &mut self.journal;
        match (&mut self.queues, entry) {
            (Some(queues), Entry::OutboxState(meta)) => queues.relocate_state(journal, meta, from),
            (Some(queues), Entry::OutboxMessage(meta)) => queues.relocate_message(journal, meta, body, from),
            _ => {
                journal.append(number, Kind::Replacement, entry, body)?;
                journal.release(from);
                Ok(())
            }
        }
    }

    fn relocate_tenant(&mut self, number: u32, position: Position) -> Result<(), broker::Full> {
        let tenant = &mut self.tenants[number as usize];
        if tenant.position == position {
            tenant.position = self
                .journal
                .append(number, Kind::Replacement, Entry::Tenant(&tenant.name), &[])?;
            self.journal.release(position);
        }
        Ok(())
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

/// Stands for a tenant whose own record is damaged, so that the numbers of the others stay.
fn lost_name(number: u32) -> Arc<str> {
    tracing::error!(number, "the name of a tenant is lost");
    format!("lost-{number}").into()
}

/// Takes one record of the log. A tenant's own record may come behind others of it: the log moves old records.
fn restore(
    returning: &mut Vec<Option<Returning>>,
    restored: &mut Restored,
    now: Now,
    settings: &Settings,
    record: &store::Recovered<'_>,
) {
    let position = Position(record.position.0);
    let Some((number, entry)) = Entry::decode(record.meta) else {
        return;
    };
    let number = number as usize;
    if number >= returning.len() {
        returning.resize_with(number + 1, || None);
    }
    let tenant = returning[number].get_or_insert_with(|| Returning {
        name: None,
        position,
        broker: Recovery::new(now, settings.limits.broker.clone()),
        twins: BTreeMap::new(),
        arrivals: Arrivals::default(),
        unneeded: Vec::new(),
    });
    match entry {
        Entry::Tenant(name) => (tenant.name, tenant.position) = (Some(name.into()), position),
        Entry::Broker(bytes) => {
            if let Err(damaged) = tenant.broker.restore(position, bytes, record.body_len) {
                tracing::error!(?position, %damaged, "a record of the log is passed over");
            }
        }
        Entry::Twin(device) => drop(tenant.twins.insert(device.into(), position)),
        Entry::TwinGone(device) => drop(tenant.twins.remove(device)),
        Entry::Arrived(meta) => tenant.unneeded.extend(tenant.arrivals.restore(meta, position)),
        Entry::OutboxState(meta) => restored.state(number as u32, meta, position),
        Entry::OutboxMessage(meta) => restored.message(number as u32, meta, record.body_len, position, now),
    }
}
