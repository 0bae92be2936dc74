//! The connections of a shard, and what a turn of its loop has for them.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use broker::{ConnId, Position};
use mqtt::{Packet, Publish, ReasonCode};
use rustix::event::epoll::{self, EventData, EventFlags};

use super::connection::{Connection, Phase, Pool, READS, ROOM_BYTES};

/// Epoll's word for the shard's own wake-ups; no [`ConnId`] has this value.
pub(crate) const INBOX: u64 = u64::MAX;
/// Epoll's word for news of the log.
pub(crate) const LOG: u64 = u64::MAX - 1;

/// Owners of a slot that are told apart: the highest bit of epoll's words is [`TASK`](super::tasks::TASK).
const GENERATIONS: u32 = u32::MAX >> 1;

/// Bytes to a connection beyond which it is not read until its client has read some. Forwarded messages end at
/// [`ROOM_BYTES`]: what comes on top are answers to what the client goes on sending.
const UNSENT_MAX_BYTES: usize = 2 * ROOM_BYTES;

/// A slot is used again, its id never: the upper half of a [`ConnId`] counts the slot's owners.
struct Slot {
    generation: u32,
    connection: Option<Box<Connection>>,
}

pub(crate) struct Connections {
    epoll: Arc<OwnedFd>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Connections with forwarded messages to write at the end of the turn: they are written before all others, so
    /// that no message waits for an acknowledgement to somebody else.
    first: Vec<ConnId>,
    /// Connections with anything to write at the end of the turn.
    listed: Vec<ConnId>,
    /// Who waits for which position of the log, in the order of positions; some may no longer wait.
    waiting: VecDeque<(Position, ConnId)>,
    /// Connections that end, and when at the latest; deadlines grow.
    ending: VecDeque<(u64, ConnId)>,
    durable: Position,
    pool: Pool,
}

impl Connections {
    pub(crate) fn new(epoll: Arc<OwnedFd>) -> Self {
        Self {
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            first: Vec::new(),
            listed: Vec::new(),
            waiting: VecDeque::new(),
            ending: VecDeque::new(),
            durable: Position::default(),
            pool: Pool::default(),
        }
    }

    pub(crate) fn epoll(&self) -> &OwnedFd {
        &self.epoll
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnId> {
        let occupied = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.connection.is_some());
        occupied.map(|(index, slot)| conn_id(index as u32, slot.generation))
    }

    /// Takes a connection in and has epoll watch it.
    pub(crate) fn insert(&mut self, connection: Connection) -> rustix::io::Result<ConnId> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                connection: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        let id = conn_id(index, slot.generation);
        let watched = epoll::add(
            &self.epoll,
            connection.link.socket(),
            EventData::new_u64(id.0),
            connection.interest,
        );
        if let Err(error) = watched {
            self.free.push(index);
            return Err(error);
        }
        slot.connection = Some(Box::new(connection));
        Ok(id)
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&Connection> {
        let slot = self.slots.get(id.0 as u32 as usize)?;
        slot.connection
            .as_deref()
            .filter(|_| slot.generation == (id.0 >> 32) as u32)
    }

    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        lookup(&mut self.slots, id)
    }

    /// Forgets a connection; its socket closes.
    pub(crate) fn remove(&mut self, id: ConnId) {
        let index = id.0 as u32;
        let Some(slot) = self
            .slots
            .get_mut(index as usize)
            .filter(|slot| slot.generation == (id.0 >> 32) as u32)
        else {
            return;
        };
        if slot.connection.take().is_some() {
            slot.generation = slot.generation.wrapping_add(1) & GENERATIONS;
            self.free.push(index);
        }
    }

    pub(crate) fn publish(&mut self, id: ConnId, publish: &Publish<'_>) {
        let Some(connection) = lookup(&mut self.slots, id) else {
            return;
        };
        connection.publish(publish, &mut self.pool);
        if !connection.is_first {
            connection.is_first = true;
            self.first.push(id);
        }
    }

    pub(crate) fn reply(&mut self, id: ConnId, packet: &Packet<'_>, after: Position) {
        let Some(connection) = lookup(&mut self.slots, id) else {
            return;
        };
        let is_held = connection.reply(packet, after, self.durable, &mut self.pool);
        // One that is held back is listed too: it is to be read no more.
        if !is_held || connection.is_held_back() {
            list(&mut self.listed, connection, id);
        }
        if is_held && after > self.durable {
            self.wait_for(after, id);
        }
    }

    fn wait_for(&mut self, after: Position, id: ConnId) {
        let is_last = self.waiting.back().is_none_or(|(last, _)| *last <= after);
        let at = match is_last {
            true => self.waiting.len(),
            false => self.waiting.partition_point(|(other, _)| *other <= after),
        };
        self.waiting.insert(at, (after, id));
    }

    /// Ends a connection once what was written before has gone out, or at `deadline_ms` if its peer does not read.
    pub(crate) fn end(&mut self, id: ConnId, reason: ReasonCode, deadline_ms: u64) {
        let Some(connection) = lookup(&mut self.slots, id) else {
            return;
        };
        if reason.is_error() && reason != ReasonCode::ServerShuttingDown {
            let (principal, address) = (&connection.peer.principal, connection.peer.address);
            tracing::info!(tenant = %principal.tenant, id = %principal.id, ?address, ?reason, "client sent away");
        }
        if connection.phase != Phase::Refused {
            connection.say_goodbye(reason, self.durable, &mut self.pool);
        }
        connection.phase = Phase::Ending;
        self.ending.push_back((deadline_ms, id));
        list(&mut self.listed, connection, id);
    }

    /// An ending connection whose time is over.
    pub(crate) fn next_expired(&mut self, now_ms: u64) -> Option<ConnId> {
        let (_, id) = self.ending.pop_front_if(|(deadline_ms, _)| *deadline_ms <= now_ms)?;
        Some(id)
    }

    /// When [`Connections::next_expired`] has something to say.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.ending.front().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Has a connection written and its interest set anew at the end of the turn.
    pub(crate) fn list(&mut self, id: ConnId) {
        if let Some(connection) = lookup(&mut self.slots, id) {
            list(&mut self.listed, connection, id);
        }
    }

    /// Whether any reply may wait for the log.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether anything is left to be written at the end of the next turn.
    pub(crate) fn has_listed(&self) -> bool {
        !self.first.is_empty() || !self.listed.is_empty()
    }

    /// All up to `durable` is safe: frees the replies that waited for it.
    pub(crate) fn advance(&mut self, durable: Position) {
        self.durable = durable;
        while let Some((_, id)) = self.waiting.pop_front_if(|(after, _)| *after <= durable) {
            self.release(id);
        }
    }

    /// The record at `position` will not be written: frees the replies that waited for exactly it.
    pub(crate) fn cancel(&mut self, position: Position) {
        let first = self.waiting.partition_point(|(after, _)| *after < position);
        let mut freed = Vec::new();
        for (_, id) in self.waiting.range(first..).take_while(|(after, _)| *after == position) {
            if let Some(connection) = lookup(&mut self.slots, *id) {
                connection.cancel(position);
                freed.push(*id);
            }
        }
        freed.into_iter().for_each(|id| self.release(id));
    }

    /// Those with a reply that waits for the log.
    pub(crate) fn holding(&self) -> Vec<ConnId> {
        let is_holding = |id: &ConnId| self.get(*id).is_some_and(Connection::is_holding);
        self.ids().filter(is_holding).collect()
    }

    fn release(&mut self, id: ConnId) {
        if let Some(connection) = lookup(&mut self.slots, id) {
            connection.release(self.durable, &mut self.pool);
            list(&mut self.listed, connection, id);
        }
    }

    /// Writes to every listed connection, once each; `gone` gets those that ended or broke, `drained` those that have
    /// room again.
    pub(crate) fn flush(&mut self, gone: &mut Vec<(ConnId, Phase)>, drained: &mut Vec<ConnId>) {
        let mut first = std::mem::take(&mut self.first);
        let mut listed = std::mem::take(&mut self.listed);
        for id in first.drain(..).chain(listed.drain(..)) {
            let Some(connection) = lookup(&mut self.slots, id) else {
                continue;
            };
            if !connection.is_first && !connection.is_listed {
                continue;
            }
            (connection.is_first, connection.is_listed) = (false, false);
            let written = connection.flush(&mut self.pool);
            let is_over =
                connection.phase == Phase::Ending && !connection.link.is_blocked() && !connection.is_holding();
            if written.is_err() || is_over {
                connection.link.shut_down();
                gone.push((id, connection.phase));
                continue;
            }
            if connection.phase == Phase::Greeting && !connection.is_holding() {
                connection.phase = Phase::Open;
            }
            if connection.has_drained() {
                drained.push(id);
            }
            watch(&self.epoll, connection, id);
        }
        (self.first, self.listed) = (first, listed);
    }
}

/// Tells epoll what is awaited of the socket, where that changed.
fn watch(epoll: &OwnedFd, connection: &mut Connection, id: ConnId) {
    let reads = connection.is_read()
        && !connection.is_held_back()
        && !connection.is_paused
        && connection.link.unsent_bytes() < UNSENT_MAX_BYTES;
    let is_blocked = connection.link.is_blocked();
    let mut flags = EventFlags::empty();
    flags.set(READS, reads);
    flags.set(EventFlags::OUT, is_blocked);
    // Said once is cheaper, where each read says what it left; a write may leave some though the socket has room. That
    // the peer of a paused connection is gone is said whatever is asked for.
    flags.set(EventFlags::ET, !is_blocked && (reads || connection.is_paused));
    if connection.interest == flags {
        return;
    }
    connection.interest = flags;
    epoll::modify(epoll, connection.link.socket(), EventData::new_u64(id.0), flags)
        .expect("a watched socket can be watched otherwise");
}

fn lookup(slots: &mut [Slot], id: ConnId) -> Option<&mut Connection> {
    let slot = slots.get_mut(id.0 as u32 as usize)?;
    slot.connection
        .as_deref_mut()
        .filter(|_| slot.generation == (id.0 >> 32) as u32)
}

fn list(listed: &mut Vec<ConnId>, connection: &mut Connection, id: ConnId) {
    if !connection.is_listed {
        connection.is_listed = true;
        listed.push(id);
    }
}

fn conn_id(index: u32, generation: u32) -> ConnId {
    ConnId(u64::from(generation) << 32 | u64::from(index))
}
