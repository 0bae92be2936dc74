//! Shared subscriptions, section 4.8.2: each message goes to one member of the group.

use std::collections::HashMap;
use std::num::NonZeroU64;

use mqtt::SubscriptionOptions;

use crate::ids::{GroupId, IdMap, Slot};

/// One session in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) slot: Slot,
    pub(crate) options: SubscriptionOptions,
    /// Subscription Identifier; zero for none.
    pub(crate) id: u32,
}

/// How well a member could take a message now; the best gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Readiness {
    /// It must not get it.
    Never,
    /// Its session has no connection.
    Away,
    /// It would have to wait: the connection has no room or its window is full.
    Busy,
    /// It would leave at once.
    Ready,
}

#[derive(Debug)]
struct Group {
    filter: Box<str>,
    members: Vec<Member>,
    /// Whose turn it is.
    next: usize,
}

/// All groups, by their whole filter `$share/{group}/{filter}`.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    groups: IdMap<NonZeroU64, Group>,
    by_filter: HashMap<Box<str>, GroupId>,
    last: u64,
}

impl Groups {
    /// Adds a member, or changes its options; tells the group.
    pub(crate) fn join(&mut self, filter: &str, member: Member) -> GroupId {
        let id = self.number(filter);
        self.restore(filter, id);
        let members = &mut self
            .groups
            .get_mut(&id.0)
            .expect("a group that is named exists")
            .members;
        match members.iter_mut().find(|old| old.slot == member.slot) {
            Some(old) => *old = member,
            None => members.push(member),
        }
        id
    }

    /// The number that the group has, or would get now.
    pub(crate) fn number(&self, filter: &str) -> GroupId {
        let next = || GroupId(NonZeroU64::MIN.saturating_add(self.last));
        self.by_filter.get(filter).copied().unwrap_or_else(next)
    }

    /// Founds a group under this number, which it may have had before a restart; nothing if there is one already.
    pub(crate) fn restore(&mut self, filter: &str, id: GroupId) {
        self.skip(id);
        if self.by_filter.contains_key(filter) {
            return;
        }
        let group = Group {
            filter: filter.into(),
            members: Vec::new(),
            next: 0,
        };
        self.groups.insert(id.0, group);
        self.by_filter.insert(filter.into(), id);
    }

    /// A group of this number was there before a restart: none may have it again.
    pub(crate) fn skip(&mut self, id: GroupId) {
        self.last = self.last.max(id.0.get());
    }

    /// Takes a member away. True if it was the last one: the group is gone.
    pub(crate) fn leave(&mut self, id: GroupId, slot: Slot) -> bool {
        let Some(group) = self.groups.get_mut(&id.0) else {
            return false;
        };
        group.members.retain(|member| member.slot != slot);
        if !group.members.is_empty() {
            return false;
        }
        let group = self.groups.remove(&id.0).expect("found above");
        self.by_filter.remove(&group.filter);
        true
    }

    /// The member that gets the next message: round robin among those that can take it best.
    pub(crate) fn choose(&mut self, id: GroupId, readiness: impl Fn(&Member) -> Readiness) -> Option<Member> {
        let group = self.groups.get_mut(&id.0)?;
        let count = group.members.len();
        let mut best = (Readiness::Never, 0);
        for turn in 0..count {
            let at = (group.next + turn) % count;
            let found = readiness(&group.members[at]);
            if found > best.0 {
                best = (found, at);
            }
            if found == Readiness::Ready {
                break;
            }
        }
        if best.0 == Readiness::Never {
            return None;
        }
        group.next = best.1 + 1;
        Some(group.members[best.1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group_of(slots: &[Slot]) -> (Groups, GroupId) {
        let mut groups = Groups::default();
        for slot in slots {
            groups.join(
                "$share/g/a",
                Member {
                    slot: *slot,
                    options: SubscriptionOptions::default(),
                    id: 0,
                },
            );
        }
        let id = groups.by_filter["$share/g/a"];
        (groups, id)
    }

    fn chosen(groups: &mut Groups, id: GroupId, ready: &[Slot]) -> Option<Slot> {
        let readiness = |member: &Member| {
            if ready.contains(&member.slot) {
                Readiness::Ready
            } else {
                Readiness::Away
            }
        };
        groups.choose(id, readiness).map(|member| member.slot)
    }

    #[test]
    fn members_take_turns() {
        let (mut groups, id) = group_of(&[1, 2, 3]);
        let turns: Vec<_> = (0..5).filter_map(|_| chosen(&mut groups, id, &[1, 2, 3])).collect();
        assert_eq!(turns, [1, 2, 3, 1, 2]);
    }

    #[test]
    fn a_member_that_is_away_is_passed_over_while_another_is_there() {
        let (mut groups, id) = group_of(&[1, 2, 3]);
        let turns: Vec<_> = (0..4).filter_map(|_| chosen(&mut groups, id, &[1, 3])).collect();
        assert_eq!(turns, [1, 3, 1, 3]);
        assert!(chosen(&mut groups, id, &[]).is_some(), "else one that is away keeps it");
    }

    #[test]
    fn there_are_numbers_for_more_groups_than_can_come_and_go() {
        let (mut groups, first) = group_of(&[1]);
        groups.skip(GroupId(NonZeroU64::new(u32::MAX.into()).expect("not zero")));
        let next = groups.number("$share/h/a");
        assert_eq!(next.0.get(), 1 << 32);
        groups.restore("$share/h/a", next);
        assert_eq!(groups.number("$share/h/a"), next);
        assert_eq!(groups.number("$share/g/a"), first);
    }

    #[test]
    fn a_group_ends_with_its_last_member() {
        let (mut groups, id) = group_of(&[1, 2]);
        assert!(!groups.leave(id, 1));
        assert!(groups.leave(id, 2));
        assert!(groups.by_filter.is_empty());
        assert_eq!(chosen(&mut groups, id, &[1]), None);
    }
}
