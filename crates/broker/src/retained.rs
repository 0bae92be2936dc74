//! Retained messages, section 3.3.1.3: the last one of each topic.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use mqtt::QoS;

use crate::ids::HeldId;

/// A retained message: the message itself is among the held ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retained {
    pub(crate) held: HeldId,
    pub(crate) qos: QoS,
    pub(crate) len: u32,
    pub(crate) expires_at_ms: u64,
}

/// All retained messages by topic, so that a subscriber can be given them step by step, in an order that is known.
#[derive(Debug, Default)]
pub(crate) struct RetainedMessages {
    by_topic: BTreeMap<Box<str>, Retained>,
    expiring: BTreeSet<(u64, Box<str>)>,
    bytes: u64,
}

impl RetainedMessages {
    pub(crate) fn len(&self) -> usize {
        self.by_topic.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, topic: &str) -> Option<&Retained> {
        self.by_topic.get(topic)
    }

    /// Puts a message in place of the one before, which is returned.
    pub(crate) fn insert(&mut self, topic: &str, retained: Retained) -> Option<Retained> {
        let old = self.remove(topic);
        self.bytes += u64::from(retained.len);
        if retained.expires_at_ms != crate::held::NEVER_MS {
            self.expiring.insert((retained.expires_at_ms, topic.into()));
        }
        self.by_topic.insert(topic.into(), retained);
        old
    }

    pub(crate) fn remove(&mut self, topic: &str) -> Option<Retained> {
        let (topic, old) = self.by_topic.remove_entry(topic)?;
        self.bytes -= u64::from(old.len);
        if old.expires_at_ms != crate::held::NEVER_MS {
            self.expiring.remove(&(old.expires_at_ms, topic));
        }
        Some(old)
    }

    /// When the next one expires, on the monotonic clock in milliseconds.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        self.expiring.first().map(|(at, _)| *at)
    }

    /// A topic whose message has expired.
    pub(crate) fn first_expired(&self, now_ms: u64) -> Option<Box<str>> {
        self.expiring
            .first()
            .filter(|(at, _)| *at <= now_ms)
            .map(|(_, topic)| topic.clone())
    }

    /// Any topic.
    pub(crate) fn any_topic(&self) -> Option<Box<str>> {
        self.by_topic.keys().next().cloned()
    }

    /// The first topic behind `after` that matches `filter`.
    pub(crate) fn next_match(&self, filter: &str, after: Option<&str>) -> Option<(&str, Retained)> {
        let prefix = literal_prefix(filter);
        if prefix.len() == filter.len() {
            let found = self.by_topic.get_key_value(filter).filter(|_| after.is_none());
            return found.map(|(topic, retained)| (&**topic, *retained));
        }
        let start = after.map_or(Bound::Included(prefix), Bound::Excluded);
        self.by_topic
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(topic, _)| topic.starts_with(prefix))
            .find(|(topic, _)| mqtt::topic::matches(filter, topic))
            .map(|(topic, retained)| (&**topic, *retained))
    }
}

/// What every topic that matches starts with: the levels before the first wildcard. (`a/#` matches `a` as well.)
fn literal_prefix(filter: &str) -> &str {
    match filter.find(['+', '#']) {
        None => filter,
        Some(wildcard) => filter[..wildcard].strip_suffix('/').unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(topics: &[&str]) -> RetainedMessages {
        let mut store = RetainedMessages::default();
        for topic in topics {
            let held = HeldId(std::num::NonZeroU32::MIN);
            store.insert(
                topic,
                Retained {
                    held,
                    qos: QoS::AtMostOnce,
                    len: 2,
                    expires_at_ms: 5,
                },
            );
        }
        store
    }

    #[test]
    fn a_walk_meets_every_match_once_and_in_order() {
        let topics = ["$SYS/a", "/", "a", "a/", "a/b", "a/b/c", "ab", "b/b", "b/b/c"];
        let store = store(&topics);
        for filter in [
            "#", "+", "a/#", "a/+", "+/b", "+/b/#", "a/b", "/#", "/+", "$SYS/#", "a/b/c/d",
        ] {
            let mut met: Vec<&str> = Vec::new();
            while let Some((topic, _)) = store.next_match(filter, met.last().copied()) {
                met.push(topic);
            }
            let expected: Vec<_> = topics
                .into_iter()
                .filter(|topic| mqtt::topic::matches(filter, topic))
                .collect();
            assert_eq!(met, expected, "{filter}");
        }
    }

    #[test]
    fn bytes_and_deadlines_go_with_the_message() {
        let mut store = store(&["a", "b"]);
        assert_eq!((store.len(), store.bytes(), store.next_expiry()), (2, 4, Some(5)));
        assert_eq!(store.first_expired(4), None);
        assert_eq!(store.first_expired(5).as_deref(), Some("a"));
        store.remove("a");
        store.remove("b");
        assert_eq!((store.len(), store.bytes(), store.next_expiry()), (0, 0, None));
    }
}
