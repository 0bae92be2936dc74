//! Room for what comes: who gives way where a bound is reached.

use std::sync::Arc;

use route::WhenFull;

use super::{Discarded, Queue, Queues};

impl Queues {
    /// Whether there is room for its route, for its tenant and in all, after the oldest messages have gone where their
    /// routes want that.
    pub(super) fn make_room(&mut self, number: u32, bytes: u64, tenant_limit_bytes: u64) -> bool {
        let queue = &self.queues[&number];
        let (tenant, limit_bytes) = (queue.tenant_number, queue.settings.limit_bytes);
        let route = Arc::clone(&queue.route);
        self.make_room_among(number, bytes, limit_bytes.unwrap_or(u64::MAX), |queue| {
            queue.tenant_number == tenant && queue.route == route
        }) && self.make_room_among(number, bytes, tenant_limit_bytes, |queue| queue.tenant_number == tenant)
            && self.make_room_among(number, bytes, self.options.bytes, |_| true)
    }

    /// Who has most gives way: a small queue loses nothing to a large one.
    fn make_room_among(
        &mut self,
        number: u32,
        bytes: u64,
        limit_bytes: u64,
        is_among: impl Fn(&Queue) -> bool,
    ) -> bool {
        if self.bytes + bytes <= limit_bytes {
            return true;
        }
        loop {
            let among = || self.queues.iter().filter(|(_, queue)| is_among(queue));
            let used_bytes: u64 = among().map(|(_, queue)| queue.bytes).sum();
            if used_bytes + bytes <= limit_bytes {
                return true;
            }
            let largest = among().filter(|(_, queue)| queue.waiting > 0);
            let largest = largest.max_by_key(|(_, queue)| queue.bytes).map(|(number, _)| *number);
            let Some(largest) = largest.filter(|largest| self.may_drop_for(*largest, number)) else {
                return false;
            };
            self.drop_oldest(largest);
        }
    }

    /// Whether messages of `victim` go to make room for one of `other`.
    fn may_drop_for(&self, victim: u32, other: u32) -> bool {
        let (victim_queue, other_queue) = (&self.queues[&victim], &self.queues[&other]);
        victim_queue.settings.full == WhenFull::DropOldest
            && (victim == other || victim_queue.bytes > other_queue.bytes)
    }

    fn drop_oldest(&mut self, number: u32) {
        let oldest = self.queues.get_mut(&number).and_then(Queue::oldest_waiting);
        let (place, _) = oldest.expect("one waits");
        self.change(number, |queue| queue.discard(place, Discarded::Full));
    }
}
