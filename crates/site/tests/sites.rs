//! Sites of many nodes, in simulated time: who learns what, when lines are cut, nodes die, clocks are set back, and members lie.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use identity::Bans;
use proptest::prelude::*;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use site::{
    FORGOTTEN_AFTER, Gossip, Keys, MAX_CONTENT_BYTES, MAX_NODES, Message, RANDOM_BITS, ROUND, Received, SILENT_AFTER,
    Unwanted,
};

/// Others that a node tells in a round.
const TOLD: usize = 3;

/// Signs with a name: whoever has another name cannot.
#[derive(Clone)]
struct Named(String);

impl Keys for Named {
    fn certificate(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        let sum = bytes
            .iter()
            .fold(17_u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)));
        [&sum.to_be_bytes(), self.0.as_bytes()].concat()
    }

    fn has_signed(&self, node: &str, certificate: &[u8], bytes: &[u8], signature: &[u8]) -> bool {
        certificate == node.as_bytes() && Named(node.to_owned()).sign(bytes) == signature
    }

    fn has_banned(&self, bans: &Bans) -> bool {
        *bans != forged_bans()
    }

    fn is_banned(&self, certificate: &[u8], bans: &Bans) -> bool {
        bans.nodes().any(|node| node.as_bytes() == certificate)
    }
}

/// Bans as an authority has signed them; the number counts those before.
fn bans(number: u64, nodes: &[usize]) -> Bans {
    let banned = nodes.iter().map(|node| {
        let node = name(*node);
        format!(r#"{{"node": "{node}", "first_until_unix_s": 0}}"#)
    });
    let banned: Vec<String> = banned.collect();
    let text = format!(
        r#"{{"number": {number}, "banned": [{}], "signature": []}}"#,
        banned.join(",")
    );
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("bans.json"), text).unwrap();
    Bans::read(directory.path()).unwrap()
}

/// Those that no authority has signed.
fn forged_bans() -> Bans {
    bans(99, &[0, 1])
}

struct Site {
    nodes: BTreeMap<usize, Gossip<Named>>,
    said: BTreeMap<usize, Vec<u8>>,
    /// Pairs that are connected, the lower first.
    lines: BTreeSet<(usize, usize)>,
    now: Instant,
    /// How many of a hundred messages are lost.
    lost_of_100: u32,
    chance: ChaCha8Rng,
}

fn name(node: usize) -> String {
    format!("node-{node:03}")
}

impl Site {
    /// Of so many, each connected with the next.
    fn in_a_row(nodes: usize) -> Self {
        let mut site = Site {
            nodes: BTreeMap::new(),
            said: BTreeMap::new(),
            lines: (1..nodes).map(|node| (node - 1, node)).collect(),
            now: Instant::now(),
            lost_of_100: 0,
            chance: ChaCha8Rng::seed_from_u64(7),
        };
        for node in 0..nodes {
            site.start(node, 1);
        }
        site
    }

    fn start(&mut self, node: usize, incarnation: u64) {
        let content = format!("{node} of {incarnation}").into_bytes();
        self.said.insert(node, content.clone());
        let incarnation = incarnation << RANDOM_BITS | self.chance.random_range(0..1 << RANDOM_BITS);
        let gossip = Gossip::new(&name(node), incarnation, content, Bans::default(), Named(name(node)));
        self.nodes.insert(node, gossip);
    }

    fn neighbours(&self, node: usize) -> Vec<usize> {
        let others = self.lines.iter().filter_map(|(one, other)| match node {
            _ if node == *one => Some(*other),
            _ if node == *other => Some(*one),
            _ => None,
        });
        others.filter(|other| self.nodes.contains_key(other)).collect()
    }

    fn say(&mut self, node: usize, content: &[u8]) {
        self.said.insert(node, content.to_vec());
        let message = self.nodes.get_mut(&node).unwrap().say(content.to_vec(), self.now);
        for other in self.neighbours(node) {
            self.carry(node, other, &message);
        }
    }

    /// To `to`, and the answers between the two.
    fn carry(&mut self, mut from: usize, mut to: usize, message: &Message) {
        let mut next = Some(message.clone());
        while let Some(message) = next {
            if self.chance.random_range(0..100) < self.lost_of_100 {
                return;
            }
            let bytes = message.encode();
            let message = Message::decode(&bytes).unwrap();
            let received = self.nodes.get_mut(&to).unwrap().receive(&name(from), message, self.now);
            assert_eq!(received.refused, []);
            next = received.answer;
            std::mem::swap(&mut from, &mut to);
        }
    }

    fn rounds(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.now += ROUND;
            for node in self.nodes.keys().copied().collect::<Vec<_>>() {
                let message = self.nodes.get_mut(&node).unwrap().round(self.now);
                let neighbours = self.neighbours(node);
                let told: Vec<usize> = neighbours.choose_multiple(&mut self.chance, TOLD).copied().collect();
                for other in told {
                    self.carry(node, other, &message);
                }
            }
        }
    }

    fn alive_at(&self, node: usize) -> Vec<String> {
        let members = self.nodes[&node].members(self.now);
        members
            .filter(|member| member.is_alive)
            .map(|member| member.node.to_owned())
            .collect()
    }

    /// Whether every node that runs has what each of those that run said last, and holds them for alive.
    fn is_agreed(&self) -> bool {
        self.nodes.iter().all(|(here, gossip)| {
            let known: BTreeMap<&str, (&[u8], bool)> = gossip
                .members(self.now)
                .map(|member| (member.node, (member.content, member.is_alive)))
                .collect();
            let others = self.nodes.keys().filter(|node| *node != here);
            others
                .clone()
                .all(|node| known.get(&*name(*node)) == Some(&(&*self.said[node], true)))
        })
    }
}

fn at(site: &mut Site, node: usize, from: usize, message: Message) -> Received {
    site.nodes
        .get_mut(&node)
        .unwrap()
        .receive(&name(from), message, site.now)
}

#[test]
fn what_one_end_of_a_row_says_the_other_end_has_within_as_many_rounds_as_there_are_lines() {
    let mut site = Site::in_a_row(12);
    site.rounds(12);
    assert!(site.is_agreed());
    site.say(0, b"something else");
    site.rounds(11);
    assert!(site.is_agreed());
}

#[test]
fn those_who_are_connected_have_what_a_node_says_at_once() {
    let mut site = Site::in_a_row(3);
    site.rounds(3);
    site.say(1, b"at once");
    assert!(site.is_agreed());
}

#[test]
fn a_node_that_is_connected_with_one_alone_which_has_many_others_takes_nobody_for_silent() {
    const LEAVES: usize = 40;
    let mut site = Site::in_a_row(1);
    for leaf in 1..=LEAVES {
        site.start(leaf, 1);
        site.lines.insert((0, leaf));
    }
    site.rounds(20);
    for _ in 0..60 {
        site.rounds(1);
        for leaf in 1..=LEAVES {
            assert_eq!(site.alive_at(leaf).len(), LEAVES, "for {leaf}");
        }
    }
}

#[test]
fn both_sides_of_a_cut_go_on_with_what_they_have_and_agree_once_it_is_mended() {
    let mut site = Site::in_a_row(6);
    site.rounds(8);
    site.lines.remove(&(2, 3));
    site.rounds(8);
    assert_eq!(site.alive_at(0), [name(1), name(2)]);
    assert_eq!(site.alive_at(5), [name(3), name(4)]);
    site.say(0, b"said on one side");
    site.say(5, b"said on the other");
    site.rounds(4);
    site.lines.insert((2, 3));
    site.rounds(8);
    assert!(site.is_agreed());
}

#[test]
fn a_dead_node_is_silent_within_seconds_for_all_and_forgotten_after_a_day() {
    let mut site = Site::in_a_row(8);
    site.lines.extend([(0, 7), (1, 5), (2, 6)]);
    site.rounds(10);
    site.nodes.remove(&3);
    let until = site.now + SILENT_AFTER + 6 * ROUND;
    while site.now < until {
        site.rounds(1);
    }
    for node in [0, 1, 2, 4, 5, 6, 7] {
        assert!(!site.alive_at(node).contains(&name(3)), "for {node}");
        assert_eq!(site.alive_at(node).len(), 6, "for {node}");
    }
    site.now += FORGOTTEN_AFTER;
    site.rounds(10);
    assert!(
        site.nodes
            .values()
            .all(|gossip| gossip.members(site.now).all(|member| member.node != name(3)))
    );
    assert!(site.is_agreed());
}

#[test]
fn a_dead_node_is_forgotten_by_those_too_who_came_to_know_of_it_after_its_death() {
    let mut site = Site::in_a_row(4);
    site.rounds(8);
    site.nodes.remove(&3);
    let is_known = |site: &Site| {
        let known = |gossip: &Gossip<Named>| gossip.members(site.now).any(|member| member.node == name(3));
        site.nodes.values().filter(|gossip| known(gossip)).count()
    };
    for hour in 2..=26 {
        site.now += Duration::from_secs(3_600);
        // It forgets all that it had, and is told.
        site.start(hour % 3, hour as u64);
        site.rounds(12);
        if hour < 24 {
            assert_eq!(is_known(&site), 3, "in hour {hour}");
        }
    }
    assert_eq!(is_known(&site), 0);
}

#[test]
fn who_comes_to_know_of_a_dead_node_does_not_hold_it_for_alive() {
    let mut site = Site::in_a_row(3);
    site.rounds(5);
    site.nodes.remove(&2);
    site.rounds(20);
    site.start(4, 1);
    site.lines.insert((0, 4));
    for _ in 0..20 {
        site.rounds(1);
        assert!(!site.alive_at(4).contains(&name(2)));
    }
    assert_eq!(site.alive_at(4), [name(0), name(1)]);
}

#[test]
fn a_node_whose_clock_was_set_back_between_two_starts_is_heard_again() {
    let mut site = Site::in_a_row(4);
    site.start(1, 10_000);
    site.rounds(6);
    site.say(1, b"before the clock was set back");
    site.rounds(6);
    site.start(1, 3);
    site.rounds(6);
    assert!(site.is_agreed());
    site.say(1, b"and then");
    site.rounds(6);
    assert!(site.is_agreed());
}

#[test]
fn what_a_member_says_in_the_name_of_another_is_refused_and_said() {
    let mut site = Site::in_a_row(3);
    site.rounds(4);
    // A member that signs with its own key, in the name of another.
    for liar in [Named(name(0)), Named("stranger".to_owned())] {
        let forged = Gossip::new(
            &name(2),
            99 << RANDOM_BITS,
            b"all requests to me".to_vec(),
            Bans::default(),
            liar,
        )
        .say(b"all of them".to_vec(), site.now);
        let received = at(&mut site, 1, 0, forged);
        assert_eq!(received.refused.len(), 1);
        assert_eq!(received.refused[0].why, Unwanted::Signature);
        assert_eq!(received.refused[0].node, name(2));
        assert!(!received.is_new);
    }
    // In the name of who gets it.
    let forged = Gossip::new(
        &name(1),
        99 << RANDOM_BITS,
        b"you".to_vec(),
        Bans::default(),
        Named(name(0)),
    )
    .say(b"said otherwise".to_vec(), site.now);
    assert_eq!(at(&mut site, 1, 0, forged).refused[0].why, Unwanted::Signature);
    site.rounds(4);
    assert!(site.is_agreed());
}

#[test]
fn a_record_that_was_true_once_takes_no_place_of_a_later_one() {
    let mut site = Site::in_a_row(2);
    let now = site.now;
    let earlier = site.nodes.get_mut(&0).unwrap().say(b"earlier".to_vec(), now);
    site.say(0, b"later");
    assert!(!at(&mut site, 1, 0, earlier).is_new);
    site.rounds(3);
    assert!(site.is_agreed());
}

#[test]
fn a_node_that_is_banned_is_known_to_nobody_who_hears_of_the_ban_and_is_not_told_of_again() {
    let mut site = Site::in_a_row(5);
    site.lines.insert((1, 4));
    site.rounds(6);
    let now = site.now;
    let banning = site.nodes.get_mut(&0).unwrap().ban(bans(1, &[3]), now).unwrap();
    site.carry(0, 1, &banning);
    // As nodes do that hear of it.
    site.lines.retain(|(one, other)| *one != 3 && *other != 3);
    site.rounds(3);
    for node in [0, 1, 2, 4] {
        assert_eq!(site.nodes[&node].bans(), &bans(1, &[3]), "at {node}");
        assert!(!site.alive_at(node).contains(&name(3)), "at {node}");
        assert_eq!(site.alive_at(node).len(), 3, "at {node}");
    }
    // One that has not heard of it is told, and forgets what it had of the banned one.
    let now = site.now;
    let mut late = Gossip::new(
        "late",
        1 << RANDOM_BITS,
        Vec::new(),
        Bans::default(),
        Named("late".to_owned()),
    );
    let of_banned = site.nodes.get_mut(&3).unwrap().say(b"still here".to_vec(), now);
    late.receive(&name(3), of_banned, now);
    let answer = at(&mut site, 0, 1, late.round(now)).answer.unwrap();
    assert!(late.receive(&name(0), answer, now).bans_are_new);
    assert!(late.members(now).all(|member| member.node != name(3)));
    let again = site.nodes.get_mut(&3).unwrap().say(b"and again".to_vec(), now);
    assert!(!late.receive(&name(3), again, now).is_new);
    assert!(late.members(now).all(|member| member.node != name(3)));
    // The later ones of the authority count, whoever tells of which.
    let lifted = late.ban(bans(2, &[]), now).unwrap();
    assert!(at(&mut site, 0, 1, lifted).bans_are_new);
    let earlier = site.nodes.get_mut(&1).unwrap().ban(bans(1, &[3]), now).unwrap();
    assert!(!at(&mut site, 0, 1, earlier).bans_are_new);
    assert_eq!(site.nodes[&0].bans(), &bans(2, &[]));
}

#[test]
fn bans_that_the_authority_has_not_signed_are_refused_and_said_whoever_tells_of_them() {
    let mut site = Site::in_a_row(3);
    site.rounds(3);
    let now = site.now;
    assert_eq!(
        site.nodes.get_mut(&0).unwrap().ban(forged_bans(), now),
        Err(Unwanted::Bans)
    );
    // As a member would that believes itself.
    let genuine = site.nodes.get_mut(&1).unwrap().ban(bans(1, &[]), now).unwrap().encode();
    let plain = site.nodes.get_mut(&1).unwrap().round(now).encode();
    let forged = postcard::to_allocvec(&forged_bans()).unwrap();
    let told = [&plain[..plain.len() - 1], &[1], &forged].concat();
    assert!(genuine.len() < told.len());
    let received = at(&mut site, 0, 1, Message::decode(&told).unwrap());
    assert_eq!(received.refused[0].why, Unwanted::Bans);
    assert_eq!(received.refused[0].node, name(1));
    assert!(!received.bans_are_new && received.answer.is_none());
    // Nor are they believed of a file.
    let own = Gossip::new("own", 1, Vec::new(), forged_bans(), Named("own".to_owned()));
    assert_eq!(own.bans(), &Bans::default());
    site.rounds(3);
    assert!(site.is_agreed());
}

#[test]
fn a_site_that_is_full_takes_nobody_until_one_is_silent() {
    let mut site = Site::in_a_row(1);
    let now = site.now;
    let one = |node: usize| {
        Gossip::new(
            &name(node),
            1,
            vec![0; MAX_CONTENT_BYTES],
            Bans::default(),
            Named(name(node)),
        )
        .say(vec![1; MAX_CONTENT_BYTES], now)
    };
    for node in 1..MAX_NODES {
        assert_eq!(at(&mut site, 0, node, one(node)).refused, [], "{node}");
    }
    assert_eq!(
        at(&mut site, 0, MAX_NODES, one(MAX_NODES)).refused[0].why,
        Unwanted::Full
    );
    // What is told of so many still fits.
    let empty = Gossip::new("new", 1, Vec::new(), Bans::default(), Named("new".to_owned())).round(now);
    let answer = at(&mut site, 0, MAX_NODES, empty).answer.unwrap().encode();
    assert!(Message::decode(&answer).is_ok(), "{} bytes", answer.len());
    site.now += SILENT_AFTER;
    assert_eq!(at(&mut site, 0, MAX_NODES, one(MAX_NODES)).refused, []);
    assert_eq!(site.nodes[&0].members(site.now).count(), MAX_NODES - 1);
}

#[test]
fn one_that_was_last_heard_of_a_while_ago_is_said_to_be() {
    let mut site = Site::in_a_row(2);
    site.rounds(3);
    let heard_at = site.now;
    site.nodes.remove(&1);
    site.now += Duration::from_secs(60);
    let member = site.nodes[&0].members(site.now).next().unwrap();
    assert!(!member.is_alive);
    assert_eq!(member.heard_at, Some(heard_at));
}

#[derive(Clone, Debug)]
enum Step {
    Say(usize, Vec<u8>),
    Cut(usize, usize),
    Connect(usize, usize),
    Restart(usize, u64),
    Rounds(usize),
}

const NODES: usize = 6;

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 0..NODES;
    let step = prop_oneof![
        (node(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(node, content)| Step::Say(node, content)),
        (node(), node()).prop_map(|(one, other)| Step::Cut(one, other)),
        (node(), node()).prop_map(|(one, other)| Step::Connect(one, other)),
        (node(), 0..9_u64).prop_map(|(node, incarnation)| Step::Restart(node, incarnation)),
        (1..9_usize).prop_map(Step::Rounds),
    ];
    prop::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_has_happened_all_agree_once_they_are_connected(steps in steps(), lost_of_100 in 0..60_u32) {
        let mut site = Site::in_a_row(NODES);
        site.lost_of_100 = lost_of_100;
        for step in steps {
            match step {
                Step::Say(node, content) => site.say(node, &content),
                Step::Cut(one, other) => drop(site.lines.remove(&(one.min(other), one.max(other)))),
                Step::Connect(one, other) if one != other => drop(site.lines.insert((one.min(other), one.max(other)))),
                Step::Connect(..) => {}
                Step::Restart(node, incarnation) => site.start(node, incarnation),
                Step::Rounds(rounds) => site.rounds(rounds),
            }
        }
        site.lost_of_100 = 0;
        site.lines.extend((1..NODES).map(|node| (node - 1, node)));
        site.rounds(4 * NODES);
        prop_assert!(site.is_agreed());
    }

    #[test]
    fn bytes_at_random_are_no_message_or_change_nothing(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut site = Site::in_a_row(2);
        site.rounds(2);
        if let Ok(message) = Message::decode(&bytes) {
            at(&mut site, 0, 1, message);
        }
        prop_assert!(site.is_agreed());
    }

    #[test]
    fn a_message_in_which_a_byte_was_changed_changes_nothing_that_somebody_says(
        place in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let mut site = Site::in_a_row(2);
        site.rounds(2);
        let now = site.now;
        let said = site.nodes.get_mut(&1).unwrap().say(b"1 of 1, and more".to_vec(), now);
        let mut bytes = said.encode();
        let place = place.index(bytes.len());
        let is_same = bytes[place] == byte;
        bytes[place] = byte;
        if let Ok(message) = Message::decode(&bytes) {
            at(&mut site, 0, 1, message);
        }
        let member = site.nodes[&0].members(site.now).next().unwrap();
        let contents: [&[u8]; 2] = [b"1 of 1", b"1 of 1, and more"];
        prop_assert!(contents.contains(&member.content));
        prop_assert_eq!(site.nodes[&0].members(site.now).count(), 1);
        prop_assert!(!is_same || member.content == contents[1]);
    }
}
