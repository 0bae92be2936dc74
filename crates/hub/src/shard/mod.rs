//! A shard: one thread with one epoll loop that owns its tenants, their connections and one log.
//!
//! A turn: wait; one read per ready socket; each packet through the broker and the pipeline; append to the log; one
//! gathered write per connection, forwarded messages first, acknowledgements last. Nothing on the loop blocks.

mod admit;
mod behind;
mod clock;
pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod control;
pub(crate) mod inbox;
pub(crate) mod journal;
pub(crate) mod link;
mod pauses;
mod rate;
mod read;
mod recover;
pub(crate) mod socket;
pub(crate) mod tasks;
pub(crate) mod tenant;
pub(crate) mod turn;
mod wait;
pub(crate) mod websocket;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use broker::{ConnId, Now, OwnedMessage, Position};
use device::Author;
use mqtt::ReasonCode;
use rustix::event::epoll::{self, EventData, EventFlags};
use tokio::sync::{mpsc, oneshot};

use self::behind::Behind;
use self::clock::Clock;
use self::connection::{Admitted, Phase};
use self::connections::{Connections, INBOX, LOG};
use self::control::{Answer, Request};
use self::inbox::Orders;
use self::journal::Journal;
use self::tasks::{TASK, Tasks};
use self::tenant::Tenant;
use self::turn::{LINGER_MS, Turn};
use self::wait::{Timer, Until, Waiter};
use crate::arrivals::ArrivalFigures;
use crate::call_log::CallLog;
use crate::config::Limits;
use crate::counters::Counters;
use crate::edge_calls::EdgeCalls;
use crate::outbox::{Feedback, QueueFigures, Queues};
use crate::overheard::Ear;
use crate::routing::LabelSource;
use crate::twin_sync::TwinChange;
use crate::{announcements, calls, pipeline, sys};

/// What other threads ask of a shard.
pub(crate) enum Order {
    /// A door let a client in.
    Admit(Box<Admitted>),
    /// Something about one tenant.
    Request(Request),
    /// Say what was counted.
    Observe(oneshot::Sender<Observation>),
    /// Other limits, from now on.
    Limits(Arc<Limits>),
    /// Other quotas of tenants, from now on.
    Quotas,
    /// There is somewhere upstream, from now on.
    OpenUpstream,
    /// What became of messages that left.
    Outbox(Feedback),
    /// Something is to run on the loop.
    Start(tasks::Start),
    /// Tell every client that the hub stops, make everything durable, end.
    Stop,
}

/// Figures of a shard at one instant.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Open connections.
    pub connections: usize,
    /// Counts since the start.
    pub counters: Counters,
    /// Figures of its tenants.
    pub tenants: Vec<TenantFigures>,
    /// What became of what was to leave, by tenant and route.
    pub queues: Vec<QueueFigures>,
    /// Bytes that may wait to leave, of all tenants and routes here.
    pub upstream_limit_bytes: u64,
    /// What came from edges, by tenant, edge and route.
    pub arrivals: Vec<ArrivalFigures>,
    /// What the log's files hold.
    pub log: store::Usage,
    /// The log has stopped after a failed write: nothing further is made durable.
    pub log_has_stopped: bool,
}

/// Figures of a tenant at one instant.
#[derive(Clone, Debug)]
pub struct TenantFigures {
    /// Its name.
    pub name: Arc<str>,
    /// Of its sessions and messages.
    pub broker: broker::Statistics,
    /// Twins of devices.
    pub twins: usize,
    /// Bytes of memory that they count as.
    pub twin_bytes: u64,
    /// Connections that wait until the tenant may publish again.
    pub paused: usize,
    /// How often one had to, since the start.
    pub pauses: u64,
    /// Connections refused because as many were open as may be, since the start.
    pub refused_connections: u64,
}

/// How a shard behaves; the same for all of a hub.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) limits: Limits,
    /// Clients without credentials are let in.
    pub(crate) is_open: bool,
    /// Spin for a short adaptive time before sleeping.
    pub(crate) low_latency: bool,
    /// There is somewhere upstream.
    pub(crate) has_upstream: bool,
    /// Whose edits of twins those of this hub are.
    pub(crate) author: Author,
}

/// What leaves a shard for other hubs.
pub(crate) struct Departures {
    /// Messages; `None`: none does.
    pub(crate) queues: Option<Queues>,
    /// Who reaches devices behind edges; `None`: there are no edges.
    pub(crate) calls: Option<Arc<dyn EdgeCalls>>,
    /// Which twins were changed; `None`: nobody asks.
    pub(crate) twin_changes: Option<mpsc::Sender<TwinChange>>,
    /// Copies of telemetry; `None`: nobody looks on.
    pub(crate) ear: Option<Ear>,
}

pub(crate) struct Shard {
    settings: Settings,
    timer: Timer,
    connections: Connections,
    tenants: Vec<Tenant>,
    tenant_numbers: HashMap<Arc<str>, u32>,
    journal: Journal,
    /// What leaves the hub; `None`: nothing does.
    queues: Option<Queues>,
    ear: Option<Ear>,
    edge_calls: Option<Arc<dyn EdgeCalls>>,
    twin_changes: Option<mpsc::Sender<TwinChange>>,
    orders: Orders<Order>,
    tasks: Tasks,
    /// Clients that wait until the log has room for their sessions, and until when at the latest.
    held: VecDeque<(u64, Box<Admitted>)>,
    behind: Behind,
    counters: Counters,
    clock: Clock,
    /// Bytes of the socket that is being read; the same for all connections.
    buffer: Vec<u8>,
    /// Sockets that may have more to read.
    unread: Vec<ConnId>,
    wills: Vec<OwnedMessage>,
    log_events: Vec<store::Event>,
    log_has_stopped: bool,
    labels: LabelSource,
    call_log: CallLog,
    /// Answers to the program that wait for the log, in the order of positions.
    answers: VecDeque<(Position, Answer)>,
    /// When the last turn began; the next wait counts from there, so that it costs no second look at the clock.
    turn_began_ms: u64,
    /// The earliest instant at which any tenant has something due.
    next_due_ms: u64,
    /// When the shard ends at the latest, once it was told to stop.
    stops_at_ms: Option<u64>,
}

impl Shard {
    /// Runs until told to stop, then makes everything durable.
    pub(crate) fn run(mut self) {
        let mut waiter = Waiter::new(self.settings.low_latency);
        while !self.is_over() {
            self.turn(&mut waiter);
        }
        if let Some(queues) = &mut self.queues {
            queues.write_states(&mut self.journal);
        }
        self.call_log.finish();
        if let Err(error) = self.journal.into_log().close() {
            tracing::error!(%error, "the log could not be closed");
        }
    }

    fn is_over(&self) -> bool {
        self.stops_at_ms
            .is_some_and(|at| self.connections.len() == 0 || self.clock.now().monotonic_ms >= at)
    }

    fn turn(&mut self, waiter: &mut Waiter) {
        let until = self.until();
        let ready = self.wait(waiter, until);
        let now = self.clock.now();
        self.turn_began_ms = now.monotonic_ms;
        self.read_on(now);
        for index in 0..ready {
            match waiter.event(index) {
                (INBOX, _) => self.orders.bell().hush(),
                (LOG, _) => self.hear_log(now),
                (task, flags) if task & TASK != 0 => self.tasks.hear_socket(task, flags),
                (conn, flags) => self.serve(now, ConnId(conn), flags),
            }
        }
        self.take_orders(now);
        self.let_held_in(now);
        self.catch_up(now);
        self.do_what_is_due(now);
        self.send(now);
        if self.tasks.has_woken() {
            self.tasks.take_turns();
            // What they ask for is done at once; what they are answered waits for the turn that follows at once.
            self.take_orders(now);
            self.send(now);
        }
        self.journal.log().submit();
    }

    /// Waits for sockets and the bell, which rings while the loop sleeps and at no other time.
    fn wait(&mut self, waiter: &mut Waiter, mut until: Until) -> usize {
        self.orders.bell().fall_asleep();
        if !self.orders.is_empty() || self.tasks.has_woken() {
            until = Until::Now;
        }
        let ready = waiter.wait(self.connections.epoll(), &mut self.timer, until);
        self.orders.bell().wake_up();
        ready
    }

    /// Sends what there is, to connections and upstream.
    fn send(&mut self, now: Now) {
        self.pass_copies_on();
        self.free_replies();
        self.flush(now);
        if let Some(queues) = self.queues.as_mut().filter(|_| self.settings.has_upstream) {
            queues.end_turn(&mut self.journal, now);
        }
    }

    /// Frees the replies whose records were taken back before the replies came: no commit will tell of them.
    fn free_replies(&mut self) {
        if self.connections.is_waiting() {
            self.connections.advance(self.journal.durable());
        }
    }

    /// A socket is ready: reads it; what can be written is written at the end of the turn.
    fn serve(&mut self, now: Now, conn: ConnId, flags: EventFlags) {
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.hear_peer(now, conn, flags);
        }
        if flags.contains(EventFlags::OUT) {
            self.connections.list(conn);
        }
    }

    /// Before anybody is told that a message is here: whoever asks then finds it in the history.
    fn pass_copies_on(&mut self) {
        if let Some(ear) = &mut self.ear {
            ear.end_turn();
        }
    }

    fn take_orders(&mut self, now: Now) {
        // Asked first: taking from an empty queue costs each turn of the loop more.
        while !self.orders.is_empty()
            && let Some(order) = self.orders.next()
        {
            match order {
                Order::Admit(client) => self.let_in(now, client),
                Order::Request(request) => self.answer(now, request),
                // The asker may have given up meanwhile.
                Order::Observe(answer) => drop(answer.send(self.observe(now))),
                Order::Limits(limits) => self.set_limits(now, &limits),
                Order::Quotas => self.set_bounds(now),
                Order::OpenUpstream => self.settings.has_upstream = true,
                Order::Outbox(feedback) => {
                    if let Some(queues) = &mut self.queues {
                        queues.hear(now, feedback);
                    }
                }
                Order::Start(start) => self.tasks.start(start),
                Order::Stop => self.stop(now),
            }
        }
    }

    fn observe(&self, now: Now) -> Observation {
        let queues = self.queues.as_ref().filter(|_| self.settings.has_upstream);
        Observation {
            connections: self.connections.len(),
            counters: self.counters,
            tenants: self.tenants.iter().map(Tenant::figures).collect(),
            queues: queues.map(|queues| queues.figures(now)).unwrap_or_default(),
            upstream_limit_bytes: queues.map_or(0, Queues::limit_bytes),
            arrivals: self.arrivals(),
            log: self.journal.usage(),
            log_has_stopped: self.log_has_stopped,
        }
    }

    fn arrivals(&self) -> Vec<ArrivalFigures> {
        let tenants = self.tenants.iter();
        tenants
            .flat_map(|tenant| tenant.arrivals.figures(&tenant.name))
            .collect()
    }

    fn set_limits(&mut self, now: Now, limits: &Limits) {
        self.settings.limits = limits.clone();
        self.set_bounds(now);
    }

    /// Bounds every tenant by the limits and quotas of the moment.
    fn set_bounds(&mut self, now: Now) {
        let limits = self.settings.limits.broker.clone();
        for number in 0..self.tenants.len() as u32 {
            self.with_tenant(now, number, |tenant, turn| {
                tenant.set_bounds(&limits, &turn.labels.quotas(&tenant.name));
            });
        }
    }

    fn stop(&mut self, now: Now) {
        self.stops_at_ms = Some(now.monotonic_ms + LINGER_MS);
        let everyone: Vec<ConnId> = self.connections.ids().collect();
        for conn in everyone {
            let tenant = self.connections.get(conn).expect("listed just now").tenant;
            self.with_tenant(now, tenant, |tenant, turn| tenant.broker.closed(turn.now, conn, turn));
            self.connections
                .end(conn, ReasonCode::ServerShuttingDown, now.monotonic_ms + LINGER_MS);
        }
    }

    /// Lets `work` act on a tenant, then sends the wills that came of it and notes when the tenant is due. All that it
    /// logs outlasts a crash together or not at all.
    fn with_tenant<R>(&mut self, now: Now, number: u32, work: impl FnOnce(&mut Tenant, &mut Turn<'_>) -> R) -> R {
        let tenant = &mut self.tenants[number as usize];
        let mut turn = Turn {
            now,
            tenant: number,
            connections: &mut self.connections,
            journal: &mut self.journal,
            queues: self.queues.as_mut().filter(|_| self.settings.has_upstream),
            ear: self.ear.as_mut(),
            provenance: None,
            author: self.settings.author,
            twin_changes: self.twin_changes.as_ref().filter(|_| self.settings.has_upstream),
            edge_calls: self.edge_calls.as_ref(),
            counters: &mut self.counters,
            wills: &mut self.wills,
            labels: &self.labels,
            call_log: &mut self.call_log,
        };
        turn.journal.log().begin_group();
        let result = work(tenant, &mut turn);
        while !turn.wills.is_empty() {
            pipeline::send_wills(tenant, &mut turn);
        }
        turn.journal.log().end_group();
        self.next_due_ms = self.next_due_ms.min(tenant.next_deadline_ms());
        result
    }

    fn do_what_is_due(&mut self, now: Now) {
        while let Some(conn) = self.connections.next_expired(now.monotonic_ms) {
            self.lose(now, conn, Phase::Ending);
        }
        self.call_log.report(now.monotonic_ms);
        if now.monotonic_ms < self.next_due_ms {
            return;
        }
        self.next_due_ms = u64::MAX;
        for number in 0..self.tenants.len() as u32 {
            let due_ms = self.tenants[number as usize].next_deadline_ms();
            if due_ms > now.monotonic_ms {
                self.next_due_ms = self.next_due_ms.min(due_ms);
                continue;
            }
            self.resume(now, number);
            self.with_tenant(now, number, |tenant, turn| {
                tenant.broker.tick(turn.now, turn);
                calls::expire(tenant, turn);
                sys::report(tenant, turn);
            });
        }
    }

    fn until(&self) -> Until {
        let queues = self.queues.as_ref().filter(|_| self.settings.has_upstream);
        if self.connections.has_listed() || !self.unread.is_empty() || queues.is_some_and(Queues::has_more) {
            return Until::Now;
        }
        let due = [
            Some(self.next_due_ms),
            self.connections.next_deadline_ms(),
            self.call_log.due_ms(),
            self.held.front().map(|(until_ms, _)| *until_ms),
            self.behind.due_ms(),
            queues.and_then(Queues::due_ms),
            self.stops_at_ms,
        ];
        Until::Due {
            due_ms: due.into_iter().flatten().min().unwrap_or(u64::MAX),
            now_ms: self.turn_began_ms,
        }
    }

    /// Writes what the turn has for each connection. Connections that have room again may get more from the broker,
    /// which is written in a second pass; what that makes room for is written in the next turn, which follows at once.
    fn flush(&mut self, now: Now) {
        let (mut gone, mut drained) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            if !self.connections.has_listed() {
                break;
            }
            self.connections.flush(&mut gone, &mut drained);
            for (conn, phase) in gone.drain(..) {
                self.lose(now, conn, phase);
            }
            for conn in drained.drain(..) {
                let Some(connection) = self.connections.get(conn) else {
                    continue;
                };
                self.with_tenant(now, connection.tenant, |tenant, turn| {
                    tenant.broker.writable(turn.now, conn, turn);
                });
            }
        }
    }

    /// Forgets a connection; the broker hears of it unless it ended the connection itself.
    fn lose(&mut self, now: Now, conn: ConnId, phase: Phase) {
        let Some(connection) = self.connections.get(conn) else {
            return;
        };
        let tenant = connection.tenant;
        self.counters.disconnects += 1;
        self.connections.remove(conn);
        if matches!(phase, Phase::Greeting | Phase::Open) {
            self.with_tenant(now, tenant, |tenant, turn| tenant.broker.closed(turn.now, conn, turn));
        }
    }

    fn hear_log(&mut self, now: Now) {
        self.connections.advance(self.journal.durable());
        for number in self.journal.take_awaiting_commit() {
            self.with_tenant(now, number, |tenant, turn| {
                tenant.broker.committed(now, turn);
                announcements::go_on(tenant, turn);
            });
        }
        self.send_answers();
        let mut events = std::mem::take(&mut self.log_events);
        self.journal.log().poll(&mut events);
        for event in events.drain(..) {
            self.hear(now, event);
        }
        self.log_events = events;
        self.journal.ask();
    }
}

fn watch_wakers(epoll: &rustix::fd::OwnedFd, orders: &Orders<Order>, journal: &Journal) -> rustix::io::Result<()> {
    epoll::add(epoll, &**orders.bell(), EventData::new_u64(INBOX), EventFlags::IN)?;
    epoll::add(
        epoll,
        journal.event_fd(),
        EventData::new_u64(LOG),
        EventFlags::IN | EventFlags::ET,
    )
}
