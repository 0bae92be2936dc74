//! Who subscribed to what: a tree with one node for each level of a filter. Finding the subscribers of a topic visits
//! only nodes that match it, however many subscriptions there are.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use mqtt::SubscriptionOptions;
use mqtt::topic::split_level;
use siphasher::sip::SipHasher13;

use crate::ids::{GroupId, Slot};

/// What stands at a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A session's own subscription; `id` is zero for none.
    Session {
        slot: Slot,
        options: SubscriptionOptions,
        id: u32,
    },
    /// A shared subscription: one member of the group gets the message.
    Group(GroupId),
}

type NodeId = u32;
const ROOT: NodeId = 0;

#[derive(Debug, Default)]
struct Node {
    parent: NodeId,
    level: Box<str>,
    level_hash: u64,
    /// The child for `+`; the root is nobody's child and stands for none.
    plus: NodeId,
    /// Children, that for `+` included.
    children: u32,
    here: Vec<Target>,
    /// Those with a `#` behind this node: they match it too (section 4.7.1.2).
    beneath: Vec<Target>,
}

impl Node {
    fn is_unused(&self) -> bool {
        self.children == 0 && self.here.is_empty() && self.beneath.is_empty()
    }

    fn has_named_children(&self) -> bool {
        self.children > u32::from(self.plus != ROOT)
    }
}

/// The filters of all subscriptions, section 4.7.
#[derive(Debug)]
pub(crate) struct SubscriptionTree {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    /// Children by parent and level, in one table for all nodes. Levels are chosen by clients: keyed hash.
    edges: HashTable<NodeId>,
    hasher: SipHasher13,
}

/// Which of a node's two lists a filter ends in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Here,
    Beneath,
}

impl SubscriptionTree {
    pub(crate) fn new() -> Self {
        SubscriptionTree {
            nodes: vec![Node::default()],
            free: Vec::new(),
            edges: HashTable::new(),
            hasher: SipHasher13::new_with_keys(random(), random()),
        }
    }

    /// Puts `target` at a well-formed filter, in place of what the same session or group has there.
    pub(crate) fn insert(&mut self, filter: &str, target: Target) {
        let (node, end) = self.grow(filter);
        let targets = self.targets(node, end);
        match targets.iter_mut().find(|old| is_same(old, &target)) {
            Some(old) => *old = target,
            None => {
                crate::subscribe::reserve(targets);
                targets.push(target);
            }
        }
    }

    /// Takes away what the session or group of `target` has at `filter`.
    pub(crate) fn remove(&mut self, filter: &str, target: Target) {
        let Some((node, end)) = self.find(filter) else { return };
        let targets = self.targets(node, end);
        targets.retain(|old| !is_same(old, &target));
        if targets.is_empty() {
            *targets = Vec::new();
        }
        self.prune(node);
    }

    /// Calls `visit` for every target whose filter matches `topic`, in an order that depends on the filters and the
    /// order of their subscriptions alone.
    pub(crate) fn matches(&self, topic: &str, visit: &mut dyn FnMut(&Target)) {
        let wildcards_at_root = !topic.starts_with('$');
        self.visit(ROOT, Some(topic), wildcards_at_root, visit);
    }

    /// `rest` are the levels that are still to be matched below `node`; `$` topics are hidden from wildcards in the
    /// first level (MQTT-4.7.2-1).
    fn visit(&self, node: NodeId, rest: Option<&str>, wildcards: bool, visit: &mut dyn FnMut(&Target)) {
        #[cfg(test)]
        tests::VISITED.set(tests::VISITED.get() + 1);
        let at = &self.nodes[node as usize];
        if wildcards {
            at.beneath.iter().for_each(&mut *visit);
        }
        let Some(rest) = rest else {
            return at.here.iter().for_each(&mut *visit);
        };
        if at.children == 0 {
            return;
        }
        let (level, rest) = split_level(rest);
        if wildcards && at.plus != ROOT {
            self.visit(at.plus, rest, true, visit);
        }
        if at.has_named_children()
            && let Some(child) = self.child(node, level)
        {
            self.visit(child, rest, true, visit);
        }
    }

    fn child(&self, parent: NodeId, level: &str) -> Option<NodeId> {
        let level_hash = self.hash(level);
        self.edges
            .find(edge_hash(parent, level_hash), |child| {
                let child = &self.nodes[*child as usize];
                child.parent == parent && child.level_hash == level_hash && &*child.level == level
            })
            .copied()
    }

    fn hash(&self, level: &str) -> u64 {
        self.hasher.hash(level.as_bytes())
    }

    fn find(&self, filter: &str) -> Option<(NodeId, End)> {
        let mut node = ROOT;
        for level in filter.split('/') {
            node = match level {
                "#" => return Some((node, End::Beneath)),
                "+" => Some(self.nodes[node as usize].plus).filter(|plus| *plus != ROOT)?,
                _ => self.child(node, level)?,
            };
        }
        Some((node, End::Here))
    }

    fn grow(&mut self, filter: &str) -> (NodeId, End) {
        let mut node = ROOT;
        for level in filter.split('/') {
            node = match level {
                "#" => return (node, End::Beneath),
                "+" => self.plus_or_new(node),
                _ => self.child(node, level).unwrap_or_else(|| self.add_child(node, level)),
            };
        }
        (node, End::Here)
    }

    fn plus_or_new(&mut self, parent: NodeId) -> NodeId {
        if self.nodes[parent as usize].plus == ROOT {
            self.nodes[parent as usize].plus = self.add_node(Node {
                parent,
                level: "+".into(),
                ..Node::default()
            });
        }
        self.nodes[parent as usize].plus
    }

    fn add_child(&mut self, parent: NodeId, level: &str) -> NodeId {
        let level_hash = self.hash(level);
        let child = self.add_node(Node {
            parent,
            level: level.into(),
            level_hash,
            ..Node::default()
        });
        let nodes = &self.nodes;
        self.edges.insert_unique(edge_hash(parent, level_hash), child, |child| {
            let child = &nodes[*child as usize];
            edge_hash(child.parent, child.level_hash)
        });
        child
    }

    fn add_node(&mut self, node: Node) -> NodeId {
        self.nodes[node.parent as usize].children += 1;
        match self.free.pop() {
            Some(id) => {
                self.nodes[id as usize] = node;
                id
            }
            None => {
                self.nodes.push(node);
                NodeId::try_from(self.nodes.len() - 1).expect("fewer than 2^32 levels in all filters")
            }
        }
    }

    /// Takes unused nodes away, from `node` up.
    fn prune(&mut self, mut node: NodeId) {
        while node != ROOT && self.nodes[node as usize].is_unused() {
            let gone = std::mem::take(&mut self.nodes[node as usize]);
            let parent = &mut self.nodes[gone.parent as usize];
            parent.children -= 1;
            if parent.plus == node {
                parent.plus = ROOT;
            } else {
                self.unlink(node, &gone);
            }
            self.free.push(node);
            node = gone.parent;
        }
    }

    fn unlink(&mut self, node: NodeId, gone: &Node) {
        if let Ok(edge) = self
            .edges
            .find_entry(edge_hash(gone.parent, gone.level_hash), |child| *child == node)
        {
            edge.remove();
        }
    }

    fn targets(&mut self, node: NodeId, end: End) -> &mut Vec<Target> {
        let node = &mut self.nodes[node as usize];
        if end == End::Here {
            &mut node.here
        } else {
            &mut node.beneath
        }
    }
}

/// Chosen anew by the standard library for each of its tables.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

fn edge_hash(parent: NodeId, level_hash: u64) -> u64 {
    (level_hash ^ u64::from(parent))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(26)
}

fn is_same(one: &Target, other: &Target) -> bool {
    match (one, other) {
        (Target::Session { slot: one, .. }, Target::Session { slot: other, .. }) => one == other,
        (Target::Group(one), Target::Group(other)) => one == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Nodes that searches looked at.
        pub(super) static VISITED: Cell<usize> = const { Cell::new(0) };
    }

    fn tree(filters: &[&str]) -> SubscriptionTree {
        let mut tree = SubscriptionTree::new();
        for (slot, filter) in (0..).zip(filters) {
            tree.insert(filter, session(slot));
        }
        tree
    }

    fn session(slot: Slot) -> Target {
        Target::Session {
            slot,
            options: SubscriptionOptions::default(),
            id: 0,
        }
    }

    fn found(tree: &SubscriptionTree, topic: &str) -> Vec<Slot> {
        let mut slots = Vec::new();
        tree.matches(topic, &mut |target| {
            if let Target::Session { slot, .. } = target {
                slots.push(*slot);
            }
        });
        slots.sort_unstable();
        slots
    }

    const FILTERS: [&str; 14] = [
        "#", "+", "+/+", "/+", "a", "a/#", "a/+", "a/b", "a/+/c", "+/b/#", "$SYS/#", "$SYS/+", "a//c", "+/#",
    ];

    #[test]
    fn a_topic_finds_exactly_the_filters_that_match_it() {
        let tree = tree(&FILTERS);
        for topic in [
            "a", "a/b", "a/b/c", "/x", "a/", "a//c", "$SYS", "$SYS/x", "$SYS/x/y", "b", "x/b", "/", "a/b/c/d",
        ] {
            let expected: Vec<Slot> = (0..)
                .zip(FILTERS)
                .filter(|(_, filter)| mqtt::topic::matches(filter, topic))
                .map(|(slot, _)| slot)
                .collect();
            assert_eq!(found(&tree, topic), expected, "{topic}");
        }
    }

    #[test]
    fn a_search_among_100_000_filters_and_1_000_with_wildcards_visits_only_nodes_that_match() {
        let exact = (0..100_000).map(|number| format!("devices/{number}/telemetry"));
        let wild = (0..1_000).map(|number| match number % 4 {
            0 => format!("+/{number}/telemetry"),
            1 => format!("devices/{}/#", number - 1),
            2 => format!("devices/+/{number}"),
            _ => format!("+/+/{number}/#"),
        });
        let filters: Vec<String> = exact.chain(wild).collect();
        let tree = tree(&filters.iter().map(String::as_str).collect::<Vec<_>>());
        VISITED.set(0);
        assert_eq!(found(&tree, "devices/400/telemetry"), [400, 100_400, 100_401]);
        // At the root one, below it devices and +, below these 400 and + each, and the three ends there are.
        assert!(VISITED.get() <= 1 + 2 + 4 + 3, "{}", VISITED.get());
        VISITED.set(0);
        assert_eq!(found(&tree, "nobody/listens/here"), []);
        assert!(VISITED.get() <= 3, "{}", VISITED.get());
    }

    #[test]
    fn a_removed_filter_leaves_nothing_behind() {
        let mut tree = tree(&FILTERS);
        for (slot, filter) in (0..).zip(FILTERS) {
            tree.remove(filter, session(slot));
        }
        assert_eq!(tree.nodes.len() - tree.free.len(), 1, "only the root is left");
        assert!(tree.edges.is_empty());
    }

    #[test]
    fn the_same_session_at_the_same_filter_is_replaced() {
        let mut tree = tree(&["a/b"]);
        tree.insert(
            "a/b",
            Target::Session {
                slot: 0,
                options: SubscriptionOptions::default(),
                id: 7,
            },
        );
        let mut ids = Vec::new();
        tree.matches("a/b", &mut |target| {
            if let Target::Session { id, .. } = target {
                ids.push(*id);
            }
        });
        assert_eq!(ids, [7]);
    }
}
