//! How many connections all doors of an edge hold at once, of which no tenant has so many that another finds no place.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;

use crate::held;

/// A connection takes two descriptors, so that half of those of the process are left to the rest of it.
const DESCRIPTORS_PER_PLACE: u64 = 4;
/// Each has buffers, too.
const PLACES_MAX: u64 = 8_192;

/// Places for connections.
#[derive(Debug)]
pub(crate) struct Room {
    places: usize,
    taken: Mutex<Taken>,
    is_freed: Notify,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of_tenants: HashMap<String, usize>,
}

/// A place, until this is dropped.
pub(crate) struct Seat {
    room: Arc<Room>,
    tenant: String,
}

impl Room {
    pub(crate) fn of_process() -> Arc<Self> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Room::with((descriptors / DESCRIPTORS_PER_PLACE).clamp(1, PLACES_MAX) as usize)
    }

    fn with(places: usize) -> Arc<Self> {
        Arc::new(Room {
            places,
            taken: Mutex::default(),
            is_freed: Notify::new(),
        })
    }

    /// Once there is one for the tenant: as long as more are free than it has, so alone it has half of them.
    pub(crate) async fn seat(self: &Arc<Self>, tenant: &str) -> Seat {
        loop {
            let mut freed = pin!(self.is_freed.notified());
            freed.as_mut().enable();
            if let Some(seat) = self.free_seat(tenant) {
                return seat;
            }
            freed.await;
        }
    }

    fn free_seat(self: &Arc<Self>, tenant: &str) -> Option<Seat> {
        let mut taken = held(&self.taken);
        let own = taken.of_tenants.get(tenant).copied().unwrap_or_default();
        if own >= self.places - taken.all {
            return None;
        }
        taken.all += 1;
        taken.of_tenants.insert(tenant.to_owned(), own + 1);
        Some(Seat {
            room: Arc::clone(self),
            tenant: tenant.to_owned(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = held(&self.room.taken);
        taken.all -= 1;
        if let Some(own) = taken.of_tenants.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.of_tenants.remove(&self.tenant);
            }
        }
        drop(taken);
        self.room.is_freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_that_takes_all_it_gets_leaves_places_to_others() {
        let room = Room::with(100);
        let all_of = |tenant: &str| std::iter::from_fn(|| room.free_seat(tenant)).collect::<Vec<Seat>>();
        let greedy = all_of("greedy");
        assert_eq!(greedy.len(), 50);
        let second = all_of("second");
        assert_eq!(second.len(), 25);
        assert!(room.free_seat("third").is_some());
        assert!(room.free_seat("greedy").is_none());
        drop((greedy, second));
        assert_eq!(held(&room.taken).of_tenants, HashMap::new());
        assert_eq!(all_of("greedy").len(), 50);
    }

    #[tokio::test]
    async fn who_waits_has_a_place_once_one_is_free() {
        let room = Room::with(2);
        let first = room.seat("one").await;
        let waiting = tokio::spawn({
            let room = Arc::clone(&room);
            async move { drop(room.seat("one").await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
    }
}
