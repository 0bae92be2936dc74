//! Slows down whoever fails to log in, by address. Pure: `now` is an argument.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// How failures become waits.
///
/// Failures leak away one by one, so that only many in a short time count. Beyond `free` of them the address waits
/// `first_wait`, doubled by each further failure, up to `ceiling`. What comes during the wait is to be refused unseen:
/// no password is hashed, and no failure counted. Whoever goes on for long gets one try each `forgive_after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Failures that cost nothing.
    pub free: u32,
    /// After this long, one failure is forgiven.
    pub forgive_after: Duration,
    /// The wait after the first failure that costs something.
    pub first_wait: Duration,
    /// The longest wait.
    pub ceiling: Duration,
}

/// Failures of one user name at one address. A device with a stale password hits this and leaves the others that share
/// its address (behind a translating router, or on loopback) alone.
const NAME_POLICY: Policy = Policy {
    free: 5,
    forgive_after: Duration::from_secs(60),
    first_wait: Duration::from_secs(1),
    ceiling: Duration::from_secs(60),
};

/// Failures of all user names at one address: who tries many names.
const ADDRESS_POLICY: Policy = Policy {
    free: 50,
    forgive_after: Duration::from_secs(10),
    first_wait: Duration::from_secs(1),
    ceiling: Duration::from_secs(60),
};

/// Entries of one row of the table.
const WAYS: usize = 4;
const ROWS: usize = 4_096;

/// Failed logins by address (an IPv6 address counts with its whole /64, a mapped one as IPv4; loopback is no
/// exception), and by address and user name.
///
/// Bounded: 16,384 entries, about 0.8 MiB once all are taken. Where a row of the table is full, the entry closest to
/// being forgiven makes room; hashes are keyed, so nobody can choose whose.
#[derive(Debug)]
pub struct Throttle {
    rows: Vec<Vec<Entry>>,
    hasher: RandomState,
    name_policy: Policy,
    address_policy: Policy,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    /// Failures not forgiven at `since`.
    level: u32,
    since: Instant,
    until: Instant,
}

impl Default for Throttle {
    /// 5 failures of one name at an address are free, and one is forgiven a minute; of all names at an address 50, and
    /// one in 10 s. Waits go from 1 s to 60 s.
    fn default() -> Self {
        Self::new(NAME_POLICY, ADDRESS_POLICY)
    }
}

impl Throttle {
    /// One policy for a user name at an address, one for the address as a whole.
    pub fn new(name_policy: Policy, address_policy: Policy) -> Self {
        Throttle {
            rows: vec![Vec::new(); ROWS],
            hasher: RandomState::new(),
            name_policy,
            address_policy,
        }
    }

    /// How long this user name at this address has to wait before it may try; `None`: it may now.
    pub fn wait(&self, address: IpAddr, user_name: &str, now: Instant) -> Option<Duration> {
        let keys = [self.name_key(address, user_name), self.address_key(address)];
        let entries = keys
            .iter()
            .filter_map(|key| self.rows[row(*key)].iter().find(|entry| entry.key == *key));
        entries
            .map(|entry| entry.until.saturating_duration_since(now))
            .max()
            .filter(|wait| !wait.is_zero())
    }

    /// Counts a failure; says how long to wait from now, if at all.
    pub fn failed(&mut self, address: IpAddr, user_name: &str, now: Instant) -> Option<Duration> {
        let (name, address) = (self.name_key(address, user_name), self.address_key(address));
        let name_wait = count(&mut self.rows[row(name)], name, self.name_policy, now);
        let address_wait = count(&mut self.rows[row(address)], address, self.address_policy, now);
        Some(name_wait.max(address_wait)).filter(|wait| !wait.is_zero())
    }

    /// Forgives the failures of a user name that has now logged in from this address. Those of the address stay, or
    /// one valid account would pay for guessing others.
    pub fn succeeded(&mut self, address: IpAddr, user_name: &str) {
        let key = self.name_key(address, user_name);
        self.rows[row(key)].retain(|entry| entry.key != key);
    }

    fn name_key(&self, address: IpAddr, user_name: &str) -> u64 {
        self.hasher.hash_one((network(address), Some(user_name)))
    }

    fn address_key(&self, address: IpAddr) -> u64 {
        self.hasher.hash_one((network(address), None::<&str>))
    }
}

fn row(key: u64) -> usize {
    key as usize % ROWS
}

/// Counts one failure more of `key`, which belongs into `row`; the wait.
fn count(row: &mut Vec<Entry>, key: u64, policy: Policy, now: Instant) -> Duration {
    let known = row
        .iter()
        .position(|entry| entry.key == key)
        .map(|at| row.swap_remove(at));
    let (level, since) = known.map_or((0, now), |entry| entry.leaked(policy, now));
    let (level, wait) = policy.next(level);
    if row.len() == WAYS {
        let most_forgiven = row
            .iter()
            .enumerate()
            .min_by_key(|(_, entry)| (entry.leaked(policy, now).0, entry.until));
        row.swap_remove(most_forgiven.map_or(0, |(at, _)| at));
    }
    row.push(Entry {
        key,
        level,
        since,
        until: now + wait,
    });
    wait
}

impl Policy {
    /// One failure more: the new level and the wait.
    fn next(&self, level: u32) -> (u32, Duration) {
        // Enough doublings for any ceiling; a level without a bound would take as long to be forgiven.
        let level = (level + 1).min(self.free + 16);
        let doublings = level.saturating_sub(self.free);
        let wait = match doublings {
            0 => Duration::ZERO,
            n => self.first_wait.saturating_mul(1 << (n - 1)).min(self.ceiling),
        };
        (level, wait)
    }
}

impl Entry {
    /// What is left of the level, and since when that is so.
    fn leaked(&self, policy: Policy, now: Instant) -> (u32, Instant) {
        let elapsed = now.saturating_duration_since(self.since);
        let forgiven = elapsed.as_nanos() / policy.forgive_after.as_nanos().max(1);
        match u32::try_from(forgiven) {
            Ok(forgiven) if forgiven < self.level => {
                (self.level - forgiven, self.since + policy.forgive_after * forgiven)
            }
            _ => (0, now),
        }
    }
}

/// What counts as one address: an IPv6 address with its whole /64, which one host may have all of, and a mapped one as
/// IPv4.
#[must_use]
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Fails as soon as it may, `times` times; the waits in seconds.
    fn persist(throttle: &mut Throttle, address: IpAddr, user_name: &str, now: &mut Instant, times: u32) -> Vec<u64> {
        let mut waits = vec![];
        for _ in 0..times {
            assert_eq!(throttle.wait(address, user_name, *now), None);
            let wait = throttle.failed(address, user_name, *now).unwrap_or_default();
            waits.push(wait.as_secs());
            *now += wait;
        }
        waits
    }

    fn fail(throttle: &mut Throttle, address: IpAddr, now: Instant, times: u32) {
        for _ in 0..times {
            throttle.failed(address, "pump", now);
        }
    }

    #[test]
    fn after_five_failures_the_wait_doubles_up_to_a_minute() {
        let mut now = Instant::now();
        let mut throttle = Throttle::default();
        let waits = persist(&mut throttle, address("127.0.0.1"), "pump", &mut now, 14);
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 32, 60, 60]);
    }

    #[test]
    fn a_wrong_device_does_not_keep_others_at_its_address_out() {
        let mut now = Instant::now();
        let mut throttle = Throttle::default();
        let gateway = address("10.0.0.1");
        persist(&mut throttle, gateway, "stale", &mut now, 100);
        throttle.failed(gateway, "stale", now);
        assert!(throttle.wait(gateway, "stale", now).is_some());
        assert_eq!(throttle.wait(gateway, "pump", now), None);
    }

    #[test]
    fn trying_many_names_makes_the_whole_address_wait() {
        let mut now = Instant::now();
        let mut throttle = Throttle::default();
        let attacker = address("203.0.113.9");
        let start = now;
        for guess in 0..200 {
            let name = format!("user{guess}");
            now += throttle.wait(attacker, &name, now).unwrap_or_default();
            throttle.failed(attacker, &name, now);
        }
        assert!(throttle.wait(attacker, "never seen", now).is_some());
        assert!(now - start > 1_300 * S, "200 guesses took {:?}", now - start);
        assert_eq!(throttle.wait(address("203.0.113.10"), "user1", now), None);
    }

    #[test]
    fn failures_are_forgiven_with_time() {
        let mut now = Instant::now();
        let mut throttle = Throttle::default();
        let host = address("192.0.2.1");
        for _ in 0..200 {
            assert_eq!(throttle.failed(host, "pump", now), None);
            now += 61 * S;
        }
    }

    #[test]
    fn success_forgives_the_name_but_not_the_address() {
        let now = Instant::now();
        let mut throttle = Throttle::default();
        let host = address("192.0.2.1");
        fail(&mut throttle, host, now, 6);
        assert!(throttle.wait(host, "pump", now).is_some());
        throttle.succeeded(host, "pump");
        assert_eq!(throttle.wait(host, "pump", now), None);
        for guess in 0..60 {
            throttle.failed(host, &format!("user{guess}"), now);
            throttle.succeeded(host, "pump");
        }
        assert!(throttle.wait(host, "pump", now).is_some());
    }

    #[test]
    fn an_ipv6_address_counts_with_its_64_and_a_mapped_one_as_ipv4() {
        let now = Instant::now();
        let mut throttle = Throttle::default();
        for i in 0..6 {
            throttle.failed(address(&format!("2001:db8:0:1::{i}")), "pump", now);
            throttle.failed(address("192.0.2.7"), "pump", now);
        }
        assert!(throttle.wait(address("2001:db8:0:1:ffff::1"), "pump", now).is_some());
        assert_eq!(throttle.wait(address("2001:db8:0:2::1"), "pump", now), None);
        assert!(throttle.wait(address("::ffff:192.0.2.7"), "pump", now).is_some());
    }

    #[test]
    fn a_flood_from_many_addresses_takes_no_more_room() {
        let now = Instant::now();
        let mut throttle = Throttle::default();
        for i in 0..100_000_u32 {
            throttle.failed(IpAddr::V4(i.into()), "x", now);
        }
        assert!(throttle.rows.len() == ROWS && throttle.rows.iter().all(|row| row.len() <= WAYS));
        let host = address("192.0.2.1");
        fail(&mut throttle, host, now, 60);
        assert!(throttle.wait(host, "pump", now).is_some());
    }

    #[test]
    fn a_clock_that_stands_or_goes_back_does_no_harm() {
        let now = Instant::now() + 3_600 * S;
        let mut throttle = Throttle::default();
        let host = address("192.0.2.1");
        fail(&mut throttle, host, now, 50);
        throttle.failed(host, "pump", now - 1_800 * S);
        assert!(throttle.wait(host, "pump", now - 1_800 * S).unwrap() <= 3_600 * S);
    }
}
