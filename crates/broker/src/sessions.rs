//! All sessions: by slot, by (owner, client identifier), by connection, and by their key in the log.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use crate::ids::{IdMap, Slot};
use crate::session::Session;
use crate::{ConnId, SessionId};

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
}

impl Sessions {
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn connected(&self) -> usize {
        self.by_conn.len()
    }

    /// By slot, so in an order that is known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().flatten().map(|session| &**session)
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
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            Slot::try_from(self.slots.len() - 1).expect("fewer than 2^32 sessions")
        });
        self.slots[slot as usize] = Some(Box::new(session));
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.insert_unique(hash, slot, |slot| {
            let session = slots[*slot as usize].as_ref().expect("a named session exists");
            hasher.hash_one((&*session.owner, &*session.client_id))
        });
        self.by_id.insert(id.0, slot);
        slot
    }

    /// Takes a session without connection out.
    pub(crate) fn remove(&mut self, slot: Slot) -> Session {
        let session = self.slots[slot as usize].take().expect("the slot is in use");
        let hash = self.hasher.hash_one((&*session.owner, &*session.client_id));
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        self.by_id.remove(&session.id.0);
        self.free.push(slot);
        *session
    }

    pub(crate) fn connect(&mut self, conn: ConnId, slot: Slot) {
        self.by_conn.insert(conn.0, slot);
    }

    pub(crate) fn disconnect(&mut self, conn: ConnId) {
        self.by_conn.remove(&conn.0);
    }

    pub(crate) fn get(&self, slot: Slot) -> &Session {
        self.slots[slot as usize].as_ref().expect("the slot is in use")
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> &mut Session {
        self.slots[slot as usize].as_mut().expect("the slot is in use")
    }

    /// The session, if the slot is still in use.
    pub(crate) fn try_get(&self, slot: Slot) -> Option<&Session> {
        self.slots.get(slot as usize)?.as_deref()
    }
}
