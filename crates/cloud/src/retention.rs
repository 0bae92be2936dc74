//! Which rows are old: those that were stored longer ago than their tenant's are kept.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use crate::error::Failure;

/// How long rows are kept from when they were stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Of tenants that have none of their own; `None`: however old they become.
    pub default: Option<Duration>,
    /// Of tenants that have their own.
    pub of_tenants: BTreeMap<String, Duration>,
}

impl Retention {
    /// Whether no row ever gets old.
    pub fn keeps_all(&self) -> bool {
        self.default.is_none() && self.of_tenants.is_empty()
    }

    /// What rows of some tenants are kept for, but not those of all: the longest leaves nothing to ask about a row.
    fn of_some(&self) -> BTreeSet<Duration> {
        let mut ages: BTreeSet<_> = self.of_tenants.values().copied().chain(self.default).collect();
        if self.default.is_some() {
            ages.pop_last();
        }
        ages
    }
}

/// A retention at one instant: times (ms since 1970 UTC) before which rows are old.
pub(crate) struct Cutoffs<'a> {
    pub(crate) default: Option<i64>,
    pub(crate) of_tenants: HashMap<&'a str, i64>,
}

impl<'a> Cutoffs<'a> {
    pub(crate) fn of(retention: &'a Retention, now_ms: i64) -> Self {
        let of_tenants = retention.of_tenants.iter();
        Cutoffs {
            default: retention.default.map(|age| before(now_ms, age)),
            of_tenants: of_tenants
                .map(|(name, age)| (name.as_str(), before(now_ms, *age)))
                .collect(),
        }
    }

    /// Before this, rows of all tenants are old; `None`: those of some never are.
    pub(crate) fn of_all(&self) -> Option<i64> {
        let default = self.default?;
        Some(self.of_tenants.values().copied().fold(default, i64::min))
    }

    /// Whether a tenant's row is old that was stored then. A name that is no text is of no tenant that has its own.
    pub(crate) fn is_old(&self, tenant: &[u8], stored_at_ms: i64) -> bool {
        let name = std::str::from_utf8(tenant);
        let own = name.ok().and_then(|name| self.of_tenants.get(name).copied());
        own.or(self.default).is_some_and(|cutoff| stored_at_ms < cutoff)
    }
}

/// The time that was `age` ago.
pub(crate) fn before(now_ms: i64, age: Duration) -> i64 {
    now_ms.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// How far a table was looked through for rows that only some tenants keep no longer: a place for each age, before
/// which nothing is left that is older. So each row is looked at once for each age that is shorter than its own,
/// however long it stays, and from the first row on where a retention changed.
#[derive(Debug, Default)]
pub(crate) struct Sweeps<P> {
    retention: Retention,
    places: BTreeMap<Duration, P>,
}

impl<P: Clone + Default> Sweeps<P> {
    /// Has each age looked on for from its place; `look` says where it got to, and whether there is more.
    pub(crate) fn go_on(
        &mut self,
        retention: &Retention,
        mut look: impl FnMut(Duration, P) -> Result<(P, bool), Failure>,
    ) -> Result<bool, Failure> {
        if self.retention != *retention {
            self.places = retention.of_some().into_iter().map(|age| (age, P::default())).collect();
            self.retention = retention.clone();
        }
        let mut has_more = false;
        for (age, place) in &mut self.places {
            let (there, more) = look(*age, place.clone())?;
            *place = there;
            has_more |= more;
        }
        Ok(has_more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn days(days: u64) -> Duration {
        Duration::from_secs(days * 86_400)
    }

    fn retention(default: Option<u64>, of_tenants: &[(&str, u64)]) -> Retention {
        Retention {
            default: default.map(days),
            of_tenants: of_tenants
                .iter()
                .map(|(name, age)| ((*name).to_owned(), days(*age)))
                .collect(),
        }
    }

    #[test]
    fn rows_of_all_are_old_when_who_keeps_them_longest_does_so_no_more() {
        let of_all = |retention: &Retention| Cutoffs::of(retention, 0).of_all();
        assert_eq!(of_all(&retention(None, &[("a", 1)])), None);
        assert_eq!(of_all(&retention(Some(3), &[("a", 1)])), Some(-3 * 86_400_000));
        assert_eq!(
            of_all(&retention(Some(3), &[("a", 1), ("b", 5)])),
            Some(-5 * 86_400_000)
        );
    }

    #[test]
    fn only_what_some_keep_longer_than_others_is_looked_through() {
        let ages =
            |default, of_tenants: &[_]| -> Vec<_> { retention(default, of_tenants).of_some().into_iter().collect() };
        assert!(ages(None, &[]).is_empty());
        assert!(ages(Some(3), &[("a", 3)]).is_empty());
        assert_eq!(ages(None, &[("a", 3)]), [days(3)]);
        assert_eq!(ages(Some(3), &[("a", 1), ("b", 1), ("c", 5)]), [days(1), days(3)]);
    }

    #[test]
    fn a_row_goes_by_its_own_tenant_and_any_other_by_the_default() {
        let retention = retention(Some(3), &[("a", 1), ("b", 5)]);
        let cutoffs = Cutoffs::of(&retention, 10 * 86_400_000);
        let is_old = |tenant: &[u8], day: i64| cutoffs.is_old(tenant, day * 86_400_000);
        assert!(is_old(b"a", 8) && !is_old(b"a", 9));
        assert!(is_old(b"b", 4) && !is_old(b"b", 5));
        assert!(is_old(b"c", 6) && !is_old(b"c", 7));
        assert!(is_old(b"\xff", 6) && !is_old(b"\xff", 7));
    }

    #[test]
    fn a_changed_retention_is_looked_for_from_the_first_row_on() {
        let mut sweeps: Sweeps<u32> = Sweeps::default();
        let mut places = |retention: &Retention| {
            let mut seen = Vec::new();
            let look = |_, place| {
                seen.push(place);
                Ok((place + 1, true))
            };
            assert!(sweeps.go_on(retention, look).is_ok_and(|more| more));
            seen
        };
        let two = retention(None, &[("a", 1), ("b", 2)]);
        assert_eq!(places(&two), [0, 0]);
        assert_eq!(places(&two), [1, 1]);
        assert_eq!(places(&retention(None, &[("a", 2), ("b", 2)])), [0]);
    }
}
