//! Retained messages, section 3.3.1.3: the last one of each topic.

use std::borrow::Cow;
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
    /// It counts against the bounds on what clients retain.
    pub(crate) is_of_client: bool,
}

/// What counts against the bounds on what clients retain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfClients {
    pub(crate) messages: usize,
    pub(crate) bytes: u64,
}

/// All retained messages by topic, so that a subscriber can be given them step by step, in an order that is known.
#[derive(Debug, Default)]
pub(crate) struct RetainedMessages {
    by_topic: BTreeMap<Box<str>, Retained>,
    expiring: BTreeSet<(u64, Box<str>)>,
    bytes: u64,
    of_clients: OfClients,
}

impl RetainedMessages {
    pub(crate) fn len(&self) -> usize {
        self.by_topic.len()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn of_clients(&self) -> OfClients {
        self.of_clients
    }

    pub(crate) fn get(&self, topic: &str) -> Option<&Retained> {
        self.by_topic.get(topic)
    }

    /// Puts a message in place of the one before, which is returned.
    pub(crate) fn insert(&mut self, topic: &str, retained: Retained) -> Option<Retained> {
        let old = self.remove(topic);
        self.bytes += u64::from(retained.len);
        if retained.is_of_client {
            self.of_clients.messages += 1;
            self.of_clients.bytes += u64::from(retained.len);
        }
        if retained.expires_at_ms != crate::held::NEVER_MS {
            self.expiring.insert((retained.expires_at_ms, topic.into()));
        }
        self.by_topic.insert(topic.into(), retained);
        old
    }

    pub(crate) fn remove(&mut self, topic: &str) -> Option<Retained> {
        let (topic, old) = self.by_topic.remove_entry(topic)?;
        self.bytes -= u64::from(old.len);
        if old.is_of_client {
            self.of_clients.messages -= 1;
            self.of_clients.bytes -= u64::from(old.len);
        }
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

    /// Looks for the first topic that matches `filter`, of those not before `from`. Each topic that is looked at takes
    /// one of `visits`.
    pub(crate) fn next_match(&self, filter: &str, from: Option<&str>, visits: &mut usize) -> Search<'_> {
        let prefix = literal_prefix(filter);
        let mut from: Cow<'_, str> = from.unwrap_or(prefix).into();
        loop {
            let Some(left) = visits.checked_sub(1) else {
                return Search::Paused(from.into());
            };
            *visits = left;
            let next = self
                .by_topic
                .range::<str, _>((Bound::Included(&*from), Bound::Unbounded))
                .next();
            let Some((topic, retained)) = next.filter(|(topic, _)| !is_behind_all(filter, prefix, topic)) else {
                return Search::Over;
            };
            if mqtt::topic::matches(filter, topic) {
                return Search::Found(topic, *retained);
            }
            from = leap_over(filter, topic).unwrap_or_else(|| just_behind(topic)).into();
        }
    }
}

/// The least string that is no topic up to this one: none has a null character (MQTT-1.5.4-2).
pub(crate) fn just_behind(topic: &str) -> String {
    format!("{topic}\0")
}

/// What came of a search.
#[derive(Debug)]
pub(crate) enum Search<'a> {
    /// A topic that matches, and its message.
    Found(&'a str, Retained),
    /// No further topic matches.
    Over,
    /// The visits are used up; no topic before this string matches.
    Paused(Box<str>),
}

/// A string that lies between a topic that does not match and the next one that can, where levels tell.
fn leap_over(filter: &str, topic: &str) -> Option<String> {
    // MQTT-4.7.2-1
    if topic.starts_with('$') && !filter.starts_with('$') {
        return Some("%".into());
    }
    let mut start = 0;
    let mut wanted = filter.split('/');
    for level in topic.split('/') {
        match wanted.next() {
            Some(want) if want == "+" || want == level => start += level.len() + 1,
            Some(want) => return leap_to(&topic[..start], want, topic),
            None => return Some(behind_all_below(&topic[..start])),
        }
    }
    None
}

/// As [`leap_over`], where below `parent` the topic should have the level `want` and has another one.
fn leap_to(parent: &str, want: &str, topic: &str) -> Option<String> {
    let itself = format!("{parent}{want}");
    let below = format!("{itself}/");
    [itself, below]
        .into_iter()
        .find(|least| topic < least.as_str())
        .or_else(|| (!parent.is_empty()).then(|| behind_all_below(parent)))
}

/// What comes after all topics that start with `parent`, which ends with a slash: '0' is the character after it.
fn behind_all_below(parent: &str) -> String {
    format!("{}0", &parent[..parent.len() - 1])
}

/// Whether this topic and all behind it are none that start with `prefix`, the levels of `filter` before its first
/// wildcard.
fn is_behind_all(filter: &str, prefix: &str, topic: &str) -> bool {
    let is_exact = prefix.len() == filter.len();
    let next = topic.as_bytes().get(prefix.len());
    !topic.starts_with(prefix) || is_exact && next.is_some() || !prefix.is_empty() && next > Some(&b'/')
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
                    is_of_client: true,
                },
            );
        }
        store
    }

    #[test]
    fn a_walk_meets_every_match_once_and_in_order() {
        let topics = [
            "$SYS/a", "/", "/b", "a", "a ", "a /b", "a/", "a/ ", "a/b", "a/b ", "a/b /c", "a/b/c", "a/b/c/d", "a/b0",
            "a/c", "a0/b", "ab", "b/b", "b/b/c",
        ];
        let store = store(&topics);
        for filter in [
            "#", "+", "a/#", "a/+", "+/b", "+/b/#", "a/b", "/#", "/+", "$SYS/#", "a/b/c/d", "a/+/c", "+/b/c", "+/+",
            "+/+/c", "+/", "a/+/+/d", "a", "c", "a/+/c/#",
        ] {
            let mut met: Vec<&str> = Vec::new();
            let mut from: Option<Box<str>> = None;
            loop {
                // Each call may look at one topic alone, and goes on where the one before gave up.
                match store.next_match(filter, from.as_deref(), &mut 1) {
                    Search::Found(topic, _) => {
                        met.push(topic);
                        from = Some(just_behind(topic).into());
                    }
                    Search::Paused(topic) => from = Some(topic),
                    Search::Over => break,
                }
            }
            let expected: Vec<_> = topics
                .into_iter()
                .filter(|topic| mqtt::topic::matches(filter, topic))
                .collect();
            assert_eq!(met, expected, "{filter}");
        }
    }

    #[test]
    fn a_walk_leaps_over_what_cannot_match() {
        let below = |first: &str| {
            (0..100)
                .map(|number| format!("{first}/{number}/level/temp"))
                .collect::<Vec<_>>()
        };
        let topics = [below("a"), below("b"), below("$c"), below("ab")].concat();
        let store = store(&topics.iter().map(String::as_str).collect::<Vec<_>>());
        for filter in ["+/x", "+/x/+", "a/x/#", "+", "a/+x/y", "b/1000/+", "c/+", "a/+"] {
            let mut visits = 1_000;
            let search = store.next_match(filter, None, &mut visits);
            assert!(matches!(search, Search::Over), "{filter}: {search:?}");
            assert!(
                visits >= if filter == "a/+" { 890 } else { 990 },
                "{filter}: {visits} are left"
            );
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
        assert_eq!(store.of_clients(), OfClients::default());
    }
}
