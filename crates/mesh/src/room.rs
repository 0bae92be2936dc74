//! How many connections all doors of an edge hold at once, of which no door, and no tenant, has so many that another
//! finds no place.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    door: Arc<AtomicUsize>,
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

    /// Once there is one for a door of the tenant that has so many: as long as more are free than it and all doors of
    /// the tenant have, so one alone has a third.
    pub(crate) async fn seat(self: &Arc<Self>, tenant: &str, door: &Arc<AtomicUsize>) -> Seat {
        loop {
            let mut freed = pin!(self.is_freed.notified());
            freed.as_mut().enable();
            if let Some(seat) = self.free_seat(tenant, door) {
                return seat;
            }
            freed.await;
        }
    }

    fn free_seat(self: &Arc<Self>, tenant: &str, door: &Arc<AtomicUsize>) -> Option<Seat> {
        // Counts of doors change only while this is held.
        let mut taken = held(&self.taken);
        let own = taken.of_tenants.get(tenant).copied().unwrap_or_default();
        if own + door.load(Ordering::Relaxed) >= self.places - taken.all {
            return None;
        }
        taken.all += 1;
        taken.of_tenants.insert(tenant.to_owned(), own + 1);
        door.fetch_add(1, Ordering::Relaxed);
        Some(Seat {
            room: Arc::clone(self),
            tenant: tenant.to_owned(),
            door: Arc::clone(door),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = held(&self.room.taken);
        taken.all -= 1;
        self.door.fetch_sub(1, Ordering::Relaxed);
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
    fn who_takes_all_it_gets_leaves_places_to_other_doors_and_other_tenants() {
        let room = Room::with(120);
        let all_of = |tenant: &str| {
            let door = Arc::default();
            std::iter::from_fn(|| room.free_seat(tenant, &door)).collect::<Vec<Seat>>()
        };
        let first = all_of("greedy");
        let second = all_of("greedy");
        let of_other = all_of("other");
        assert_eq!((first.len(), second.len(), of_other.len()), (40, 14, 22));
        assert_eq!(all_of("third").len(), 15);
        drop((first, second, of_other));
        assert_eq!(held(&room.taken).of_tenants, HashMap::new());
        assert_eq!(all_of("greedy").len(), 40);
    }

    #[tokio::test]
    async fn who_waits_has_a_place_once_one_is_free() {
        let (room, door) = (Room::with(3), Arc::default());
        let first = room.seat("one", &door).await;
        let waiting = tokio::spawn({
            let (room, door) = (Arc::clone(&room), Arc::clone(&door));
            async move { drop(room.seat("one", &door).await) }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
    }
}
