//! Room for what comes: who gives way where a bound is reached.
//!
//! Half of a bound is set aside in equal parts, one for each tenant, and of that one for each of its queues (sharing
//! with a minimum allocation: Kamoun and Kleinrock, "Analysis of Shared Finite Storage in a Computer Network Node
//! Environment under General Traffic Conditions", IEEE Transactions on Communications 28(7), 1980). The other half is
//! for whoever needs it:
//!
//! - a queue that drops its oldest gives way, so it may have all that is free. The tenant that has most gives way
//!   first, and of its queues the one that has most, never to one that has more;
//! - a queue that keeps what it has (`drop-newest`, `refuse`) leaves to the others what is set aside for them;
//! - a queue within its part takes the place of any that gives way and is beyond its own.

use super::{Discarded, Queue, Queues, WhenFull};

/// Whose messages a bound is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// One route of a tenant: what clients of this hub sent by it, and each edge.
    Route,
    Tenant,
    All,
}

/// A bound for one that comes.
#[derive(Clone, Copy, Debug)]
struct Bound {
    scope: Scope,
    limit_bytes: u64,
    /// The queue that it comes to.
    number: u32,
    /// What it takes.
    bytes: u64,
}

impl Queues {
    /// Whether there is room for its route, for its tenant and in all, after the oldest messages have gone where their
    /// routes want that.
    pub(super) fn make_room(&mut self, number: u32, bytes: u64, tenant_limit_bytes: u64) -> bool {
        let route_limit_bytes = self.queues[&number].settings.limit_bytes.unwrap_or(u64::MAX);
        let bounds = [
            (Scope::Route, route_limit_bytes),
            (Scope::Tenant, tenant_limit_bytes),
            (Scope::All, self.options.bytes),
        ];
        let bounds = bounds.map(|(scope, limit_bytes)| Bound {
            scope,
            limit_bytes,
            number,
            bytes,
        });
        // All are looked at before one message goes.
        bounds.iter().all(|bound| self.is_open(bound)) && bounds.iter().all(|bound| self.make_room_within(bound))
    }

    fn make_room_within(&mut self, bound: &Bound) -> bool {
        while self.used_bytes(bound) + bound.bytes > bound.limit_bytes {
            let Some(victim) = self.victim(bound) else {
                return false;
            };
            self.drop_oldest(victim);
        }
        true
    }

    /// Whether a message may have room within the bound, be it free or that of others.
    fn is_open(&self, bound: &Bound) -> bool {
        let queue = &self.queues[&bound.number];
        let set_aside_bytes = bound.limit_bytes / 2;
        if bound.bytes > bound.limit_bytes {
            return false;
        }
        if gives_way(queue) || self.used_bytes(bound) + bound.bytes <= set_aside_bytes {
            return true;
        }
        let part_bytes = self.part_bytes(bound);
        let beyond_bytes = |queue: &Queue, bytes: u64| bytes.saturating_sub(part_bytes(queue));
        let keeping = self.among(bound).filter(|(_, queue)| !gives_way(queue));
        let others = keeping.filter(|(number, _)| *number != bound.number);
        let others_bytes: u64 = others.map(|(_, queue)| beyond_bytes(queue, queue.bytes)).sum();
        let own_bytes = beyond_bytes(queue, queue.bytes + bound.bytes);
        own_bytes == 0 || others_bytes + own_bytes <= bound.limit_bytes - set_aside_bytes
    }

    /// The queue whose oldest message makes room.
    fn victim(&self, bound: &Bound) -> Option<u32> {
        let part_bytes = self.part_bytes(bound);
        let own = &self.queues[&bound.number];
        // With the new message, so that who has as much as others gives way itself.
        let rank = |number: u32, queue: &Queue| {
            let is_of_tenant = queue.tenant_number == own.tenant_number;
            let of_tenant_bytes = self.tenant_bytes(queue) + u64::from(is_of_tenant) * bound.bytes;
            let own_bytes = queue.bytes + u64::from(number == bound.number) * bound.bytes;
            (of_tenant_bytes, own_bytes)
        };
        let own_rank = rank(bound.number, own);
        let is_within_its_part = own.bytes + bound.bytes <= part_bytes(own);
        let victims = self.among(bound).filter(|(number, queue)| {
            let is_beyond_its_part = is_within_its_part && queue.bytes > part_bytes(queue);
            gives_way(queue) && queue.waiting > 0 && (is_beyond_its_part || rank(*number, queue) >= own_rank)
        });
        victims
            .max_by_key(|(number, queue)| rank(*number, queue))
            .map(|(number, _)| number)
    }

    /// The queues that a bound holds for.
    fn among(&self, bound: &Bound) -> impl Iterator<Item = (u32, &Queue)> {
        let own = &self.queues[&bound.number];
        let is_among = move |queue: &Queue| match bound.scope {
            Scope::Route => queue.tenant_number == own.tenant_number && queue.route == own.route,
            Scope::Tenant => queue.tenant_number == own.tenant_number,
            Scope::All => true,
        };
        let all = self.queues.iter().map(|(number, queue)| (*number, queue));
        all.filter(move |(_, queue)| is_among(queue))
    }

    fn used_bytes(&self, bound: &Bound) -> u64 {
        let of_tenant_bytes = self.tenant_bytes(&self.queues[&bound.number]);
        match bound.scope {
            Scope::All => self.bytes,
            Scope::Route if of_tenant_bytes + bound.bytes > bound.limit_bytes => {
                self.among(bound).map(|(_, queue)| queue.bytes).sum()
            }
            Scope::Route | Scope::Tenant => of_tenant_bytes,
        }
    }

    /// What is set aside of the bound for a queue.
    fn part_bytes(&self, bound: &Bound) -> impl Fn(&Queue) -> u64 {
        let of_route = match bound.scope {
            Scope::Route => self.among(bound).count() as u64,
            Scope::Tenant | Scope::All => 0,
        };
        let set_aside_bytes = bound.limit_bytes / 2;
        move |queue| match bound.scope {
            Scope::Route => set_aside_bytes / of_route,
            Scope::Tenant => set_aside_bytes / self.tenants[&queue.tenant_number].queues,
            Scope::All => set_aside_bytes / self.tenants.len() as u64 / self.tenants[&queue.tenant_number].queues,
        }
    }

    fn tenant_bytes(&self, queue: &Queue) -> u64 {
        self.tenants[&queue.tenant_number].bytes
    }

    fn drop_oldest(&mut self, number: u32) {
        let oldest = self.queues.get_mut(&number).and_then(Queue::oldest_waiting);
        let (place, _) = oldest.expect("one waits");
        self.change(number, |queue| queue.discard(place, Discarded::Full));
    }
}

/// Whether what waits there goes to make room.
fn gives_way(queue: &Queue) -> bool {
    queue.settings.full == WhenFull::DropOldest
}
