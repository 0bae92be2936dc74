//! Devices in short, so that two sides that have the same say little: one number for all of a tenant's, and where that
//! differs sixteen for the sixteen parts of them, until what differs is few enough to be listed.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Devices of a part that are listed one by one, at most; of more, the parts of that part are told.
const LISTED_MAX: usize = 16;
/// Digits of the longest name of a part: two devices in it have nearly the same hash.
const DIGITS_MAX: usize = 12;

/// The devices of a tenant whose hash begins with these hexadecimal digits, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parts {
    pub(super) tenant: String,
    pub(super) digits: String,
    /// One: what all of them are. Sixteen: what those are whose hash goes on with 0, with 1, …
    pub(super) digests: Vec<u64>,
}

/// What one device is in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub(super) struct Digests {
    /// Of its record.
    pub(super) record: u64,
    /// Of its twin; 0: it has none.
    pub(super) twin: u64,
}

impl From<(u64, u64)> for Digests {
    fn from((record, twin): (u64, u64)) -> Self {
        Self { record, twin }
    }
}

impl From<Digests> for (u64, u64) {
    fn from(Digests { record, twin }: Digests) -> Self {
        (record, twin)
    }
}

/// All devices of a part, one by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Listed {
    pub(super) tenant: String,
    pub(super) digits: String,
    pub(super) devices: BTreeMap<String, Digests>,
}

/// What is answered to a part that differs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The parts of it.
    Parts(Parts),
    /// The devices in it.
    Listed(Listed),
}

/// The devices of one tenant.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    tenant: String,
    /// By the hash of the id.
    devices: Vec<(u64, String, Digests)>,
}

impl Ranges {
    pub(super) fn new(tenant: &str, devices: impl IntoIterator<Item = (String, Digests)>) -> Self {
        let hashed = devices
            .into_iter()
            .map(|(id, digests)| (hash(id.as_bytes()), id, digests));
        let mut devices: Vec<_> = hashed.collect();
        devices.sort_unstable_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        Self {
            tenant: tenant.to_owned(),
            devices,
        }
    }

    /// All of them in short.
    pub(super) fn whole(&self) -> Parts {
        self.parts("", vec![self.digest(0..self.devices.len())])
    }

    /// What the other side is told that has these parts: nothing where they are the same here.
    pub(super) fn answers(&self, theirs: &Parts) -> Vec<Answer> {
        let digits = &*theirs.digits;
        match &*theirs.digests {
            [all] => self.answer(digits, *all).into_iter().collect(),
            sixteen if sixteen.len() == 16 => {
                let each = sixteen.iter().enumerate();
                each.filter_map(|(digit, digest)| self.answer(&format!("{digits}{digit:x}"), *digest))
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    fn answer(&self, digits: &str, theirs: u64) -> Option<Answer> {
        let ours = self.at(digits)?;
        if self.digest(ours.clone()) == theirs {
            return None;
        }
        if ours.len() <= LISTED_MAX || digits.len() >= DIGITS_MAX {
            return Some(Answer::Listed(self.listed(digits)));
        }
        let below = (0..16).map(|digit| self.at(&format!("{digits}{digit:x}")).unwrap_or_default());
        Some(Answer::Parts(
            self.parts(digits, below.map(|range| self.digest(range)).collect()),
        ))
    }

    /// The devices of a part.
    pub(super) fn listed(&self, digits: &str) -> Listed {
        let range = self.at(digits).unwrap_or_default();
        let devices = self.devices[range].iter();
        Listed {
            tenant: self.tenant.clone(),
            digits: digits.to_owned(),
            devices: devices.map(|(_, id, digests)| (id.clone(), *digests)).collect(),
        }
    }

    fn parts(&self, digits: &str, digests: Vec<u64>) -> Parts {
        Parts {
            tenant: self.tenant.clone(),
            digits: digits.to_owned(),
            digests,
        }
    }

    /// Where the devices of a part stand; `None`: it is none.
    fn at(&self, digits: &str) -> Option<Range<usize>> {
        if digits.is_empty() {
            return Some(0..self.devices.len());
        }
        let are_digits = digits.len() <= DIGITS_MAX && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let first = u64::from_str_radix(digits, 16).ok().filter(|_| are_digits)?;
        let shift = 64 - 4 * digits.len();
        let (from, last) = (first << shift, (first << shift) | ((1 << shift) - 1));
        let begin = self.devices.partition_point(|(hash, ..)| *hash < from);
        let end = self.devices.partition_point(|(hash, ..)| *hash <= last);
        Some(begin..end)
    }

    /// The same on every machine, whatever the order; 0: there are none.
    fn digest(&self, range: Range<usize>) -> u64 {
        let each = self.devices[range].iter();
        let each = each.map(|(hash, _, digests)| mixed(mixed(hash ^ digests.record) ^ digests.twin));
        each.fold(0, u64::wrapping_add)
    }
}

/// FNV-1a, and its bits mixed so that the first of them depend on all.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    mixed(bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    }))
}

/// The end of MurmurHash3.
fn mixed(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(count: u64, changed: Option<u64>) -> Ranges {
        let devices = (0..count).map(|number| {
            let record = if changed == Some(number) { 9 } else { 1 };
            (format!("pump-{number}"), Digests { record, twin: number })
        });
        Ranges::new("default", devices)
    }

    /// Compares until nothing differs any more; the lists that came of it, and the numbers that were told.
    fn compare(one: &Ranges, other: &Ranges) -> (Vec<Listed>, usize) {
        let mut sides = [one, other].into_iter().cycle();
        let (mut lists, mut told) = (Vec::new(), 1);
        let mut parts = vec![sides.next().unwrap().whole()];
        while !parts.is_empty() {
            let side = sides.next().unwrap();
            let answers: Vec<Answer> = parts.iter().flat_map(|parts| side.answers(parts)).collect();
            parts.clear();
            for answer in answers {
                match answer {
                    Answer::Parts(below) => parts.push(below),
                    Answer::Listed(listed) => lists.push(listed),
                }
            }
            told += parts.iter().map(|parts| parts.digests.len()).sum::<usize>();
        }
        (lists, told)
    }

    #[test]
    fn two_sides_that_have_the_same_tell_one_number() {
        assert_eq!(compare(&ranges(10_000, None), &ranges(10_000, None)), (vec![], 1));
        assert_eq!(compare(&ranges(0, None), &ranges(0, None)), (vec![], 1));
    }

    #[test]
    fn one_device_that_differs_among_ten_thousand_is_found_in_a_few_dozen_numbers() {
        let (lists, told) = compare(&ranges(10_000, None), &ranges(10_000, Some(4_711)));
        assert_eq!((lists.len(), told), (1, 1 + 16 + 16 + 16));
        assert!(lists[0].devices.contains_key("pump-4711") && lists[0].devices.len() <= LISTED_MAX);
    }

    #[test]
    fn a_side_that_has_none_is_told_of_all() {
        for (one, other) in [(0, 1_000), (1_000, 0)] {
            let (one, other) = (ranges(one, None), ranges(other, None));
            let (lists, _) = compare(&one, &other);
            let all: usize = lists
                .iter()
                .map(|list| ranges(1_000, None).listed(&list.digits).devices.len())
                .sum();
            assert_eq!(all, 1_000);
        }
    }

    #[test]
    fn what_is_no_part_is_not_answered() {
        let ranges = ranges(100, None);
        for digits in ["g", "-1", "+1", "0123456789abcdef0", "é"] {
            for digests in [vec![1], vec![1; 16], vec![], vec![1; 17]] {
                let parts = ranges.parts(digits, digests);
                assert_eq!(ranges.answers(&parts), [], "{parts:?}");
            }
        }
    }
}
