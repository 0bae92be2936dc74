//! All sessions: by slot, by (owner, client identifier), by connection, and by their key in the log.

use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::ids::{IdMap, Slot};
use crate::session::{DEPARTED, Session};
use crate::{ConnId, SessionId};

/// What one session has, or all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) subscriptions: usize,
    /// Messages that wait.
    pub(crate) queued_messages: usize,
    pub(crate) queued_bytes: u64,
    /// Messages sent and not acknowledged.
    pub(crate) in_flight: usize,
    /// Bytes of memory that it counts as, by [`session_bytes`](crate::cost::session_bytes).
    pub(crate) bytes: u64,
}

impl Totals {
    fn replace(&mut self, old: Totals, new: Totals) {
        self.subscriptions = self.subscriptions - old.subscriptions + new.subscriptions;
        self.queued_messages = self.queued_messages - old.queued_messages + new.queued_messages;
        self.queued_bytes = self.queued_bytes - old.queued_bytes + new.queued_bytes;
        self.in_flight = self.in_flight - old.in_flight + new.in_flight;
        self.bytes = self.bytes - old.bytes + new.bytes;
    }
}

/// The table of sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    free: Vec<Slot>,
    /// By owner and client identifier, which clients choose: keyed hash.
    by_name: HashTable<Slot>,
    hasher: RandomState,
    by_id: IdMap<u64, Slot>,
    by_conn: IdMap<u64, Slot>,
    /// How many connections each owner has, by its keyed hash.
    by_owner: IdMap<u64, u32>,
    totals: Totals,
    departed: usize,
}

impl Sessions {
    /// Those that have not departed.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len() - self.departed
    }

    pub(crate) fn connected(&self) -> usize {
        self.by_conn.len()
    }

    /// What all sessions have together.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Lets `change` change what [`Totals`] counts.
    pub(crate) fn change<R>(&mut self, slot: Slot, change: impl FnOnce(&mut Session) -> R) -> R {
        let session = self.slots[slot as usize].as_mut().expect("the slot is in use");
        let before = session.totals();
        let result = change(session);
        self.totals.replace(before, session.totals());
        result
    }

    /// Those that have not departed, by slot, so in an order that is known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        let sessions = self.slots.iter().flatten().map(|session| &**session);
        sessions.filter(|session| !session.is_departed())
    }

    pub(crate) fn find(&self, owner: &str, client_id: &str) -> Option<Slot> {
        let hash = self.hasher.hash_one((owner, client_id));
        self.by_name
            .find(hash, |slot| {
                let session = self.get(*slot);
                &*session.owner == owner && &*session.client_id == client_id
            })
            .copied()
    }

    pub(crate) fn of_owner(&self, owner: &str) -> Vec<Slot> {
        let slots = (0..).zip(&self.slots);
        slots
            .filter(|(_, session)| session.as_ref().is_some_and(|session| &*session.owner == owner))
            .map(|(slot, _)| slot)
            .collect()
    }

    pub(crate) fn by_conn(&self, conn: ConnId) -> Option<Slot> {
        self.by_conn.get(&conn.0).copied()
    }

    pub(crate) fn by_id(&self, id: SessionId) -> Option<Slot> {
        self.by_id.get(&id.0).copied()
    }

    pub(crate) fn insert(&mut self, session: Session) -> Slot {
        let hash = self.hasher.hash_one((&*session.owner, &*session.client_id));
        let id = session.id;
        self.totals.replace(Totals::default(), session.totals());
        self.departed += usize::from(session.is_departed());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Slot::try_from(self.slots.len() - 1).expect("fewer than 2^32 sessions")
        });
        self.slots[slot as usize] = Some(Box::new(session));
        self.insert_name(hash, slot);
        self.by_id.insert(id.0, slot);
        slot
    }

    fn insert_name(&mut self, hash: u64, slot: Slot) {
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.insert_unique(hash, slot, |slot| {
            let session = slots[*slot as usize].as_ref().expect("a named session exists");
            hasher.hash_one((&*session.owner, &*session.client_id))
        });
    }

    fn remove_name(&mut self, owner: &str, client_id: &str, slot: Slot) {
        let hash = self.hasher.hash_one((owner, client_id));
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
    }

    /// Gives a session without connection a name that no client can have: for clients it has ended.
    pub(crate) fn depart(&mut self, slot: Slot) {
        let session = self.get_mut(slot);
        if session.is_departed() {
            return;
        }
        let name = format!("{DEPARTED}{}", session.id.0);
        let (owner, client_id) = self.change(slot, |session| {
            let owner = std::mem::take(&mut session.owner);
            (owner, std::mem::replace(&mut session.client_id, name.into()))
        });
        self.remove_name(&owner, &client_id, slot);
        let hash = self.hasher.hash_one(("", &*self.get(slot).client_id));
        self.insert_name(hash, slot);
        self.departed += 1;
    }

    /// Takes a session without connection out.
    pub(crate) fn remove(&mut self, slot: Slot) -> Session {
        let session = self.slots[slot as usize].take().expect("the slot is in use");
        self.departed -= usize::from(session.is_departed());
        self.remove_name(&session.owner, &session.client_id, slot);
        self.by_id.remove(&session.id.0);
        self.totals.replace(session.totals(), Totals::default());
        self.free.push(slot);
        *session
    }

    pub(crate) fn connect(&mut self, conn: ConnId, slot: Slot) {
        self.by_conn.insert(conn.0, slot);
        let owner = self.hasher.hash_one(&*self.get(slot).owner);
        *self.by_owner.entry(owner).or_default() += 1;
    }

    pub(crate) fn disconnect(&mut self, conn: ConnId) {
        let Some(slot) = self.by_conn.remove(&conn.0) else {
            return;
        };
        let owner = self.hasher.hash_one(&*self.get(slot).owner);
        if let Entry::Occupied(mut connections) = self.by_owner.entry(owner) {
            *connections.get_mut() -= 1;
            if *connections.get() == 0 {
                connections.remove();
            }
        }
    }

    /// Whether a session of this owner has a connection.
    pub(crate) fn is_owner_connected(&self, owner: &str) -> bool {
        self.by_owner.contains_key(&self.hasher.hash_one(owner))
    }

    pub(crate) fn get(&self, slot: Slot) -> &Session {
        self.slots[slot as usize].as_ref().expect("the slot is in use")
    }

    /// For changes of all but what [`Totals`] counts.
    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Session {
        self.slots[slot as usize].as_mut().expect("the slot is in use")
    }

    /// The session, if the slot is still in use.
    pub(crate) fn try_get(&self, slot: Slot) -> Option<&Session> {
        self.slots.get(slot as usize)?.as_deref()
    }
}
