//! Two sides of a document of which one, or each, comes back from a backup, once or often, with any clock.

use std::collections::{BTreeMap, BTreeSet};

use device::{Author, Document, Limits, Patch, Side, merge};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

fn state(document: &Document) -> Value {
    serde_json::from_slice(&document.to_versioned_json()).unwrap()
}

/// A side as a backup has it.
#[derive(Clone, Default)]
struct Data {
    document: Document,
    /// The edits that ever were in it.
    known: BTreeSet<u64>,
}

struct OneSide {
    author: Author,
    data: Data,
    backups: Vec<Data>,
}

/// Both, and all that was acknowledged.
struct World {
    sides: [OneSide; 2],
    starts: u32,
    edits: u64,
    /// Which leaf an edit gave its number to.
    leaves: BTreeMap<u64, &'static str>,
    /// Edits that were made knowing another, which they replaced.
    replaced: BTreeMap<u64, BTreeSet<u64>>,
    reported: BTreeSet<u64>,
    /// Edits that neither side had any more when one came back from a backup.
    gone: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
enum Step {
    /// A leaf gets a number of its own, or is removed.
    Edit(Side, &'static str, bool),
    /// The side's document reaches the other, whose answer arrives or not.
    Tell(Side, bool),
    BackUp(Side),
    /// The side is killed and starts, with such a clock.
    Start(Side, u32),
    Restore(Side, Index, u32),
}

impl OneSide {
    fn new(side: Side) -> Self {
        Self {
            author: side.into(),
            data: Data::default(),
            backups: Vec::new(),
        }
    }

    /// Takes in what the other side has; what was given up.
    fn take(&mut self, theirs: &Data) -> Vec<u64> {
        let theirs = Data {
            document: Document::decode(&theirs.document.encode()).unwrap(),
            ..theirs.clone()
        };
        let merged = self.data.document.merged(self.author, &theirs.document);
        let before = self.data.document.version().max(theirs.document.version());
        assert!(merged.document.version() >= before, "the version went back");
        self.data.document = merged.document;
        self.data.known.extend(theirs.known);
        let lost = merged.conflicts.into_iter().filter_map(|conflict| conflict.lost);
        lost.filter_map(|lost| lost.as_u64()).collect()
    }
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            sides: [OneSide::new(Side::Edge), OneSide::new(Side::Cloud)],
            starts: 0,
            edits: 0,
            leaves: BTreeMap::new(),
            replaced: BTreeMap::new(),
            reported: BTreeSet::new(),
            gone: BTreeSet::new(),
        };
        world.start(Side::Edge, 1);
        world.start(Side::Cloud, 1);
        world
    }

    fn side(&mut self, side: Side) -> &mut OneSide {
        &mut self.sides[side as usize]
    }

    fn start(&mut self, side: Side, clock_s: u32) {
        self.starts += 1;
        self.side(side).author = Author::starting(side, clock_s, self.starts);
    }

    fn edit(&mut self, side: Side, leaf: &'static str, is_removal: bool) {
        self.edits += 1;
        let number = self.edits;
        let one = self.side(side);
        let before = state(&one.data.document)[leaf].as_u64();
        let patch = json!({leaf: if is_removal { Value::Null } else { number.into() }});
        let patch = Patch::parse(patch.to_string().as_bytes(), &Limits::default()).unwrap();
        if one
            .data
            .document
            .apply(patch, one.author, &Limits::default())
            .unwrap()
            .is_none()
        {
            return;
        }
        one.data.known.insert(number);
        if let Some(before) = before {
            self.replaced.entry(before).or_default().insert(number);
        }
        if !is_removal {
            self.leaves.insert(number, leaf);
        }
    }

    /// Whether it had nothing new.
    fn tell(&mut self, from: Side, arrives: bool) -> bool {
        let to = if from == Side::Edge { Side::Cloud } else { Side::Edge };
        let told = self.side(from).data.clone();
        let lost = self.side(to).take(&told);
        self.reported.extend(lost);
        let answer = self.side(to).data.clone();
        if answer.document == told.document {
            return true;
        }
        if arrives {
            let lost = self.side(from).take(&answer);
            self.reported.extend(lost);
        }
        false
    }

    fn restore(&mut self, side: Side, backup: &Index, clock_s: u32) {
        let one = self.side(side);
        one.data = match one.backups.is_empty() {
            true => Data::default(),
            false => one.backups[backup.index(one.backups.len())].clone(),
        };
        self.start(side, clock_s);
        let [edge, cloud] = &self.sides;
        let all = 1..=self.edits;
        self.gone
            .extend(all.filter(|edit| !edge.data.known.contains(edit) && !cloud.data.known.contains(edit)));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Edit(side, leaf, is_removal) => self.edit(*side, leaf, *is_removal),
            Step::Tell(side, arrives) => drop(self.tell(*side, *arrives)),
            Step::BackUp(side) => {
                let one = self.side(*side);
                one.backups.push(one.data.clone());
            }
            Step::Start(side, clock_s) => self.start(*side, *clock_s),
            Step::Restore(side, backup, clock_s) => self.restore(*side, backup, *clock_s),
        }
    }

    /// Both tell until neither has anything to say.
    fn settle(&mut self) {
        for _ in 0..4 {
            if self.tell(Side::Edge, true) && self.tell(Side::Cloud, true) {
                return;
            }
        }
        panic!("they do not become equal");
    }

    /// No edit is gone without a word that one of them had.
    fn check(&self) {
        let state = state(&self.sides[0].data.document);
        for (edit, leaf) in &self.leaves {
            let replaced = self.replaced.get(edit);
            let is_known = |edit: &u64| self.sides.iter().any(|one| one.data.known.contains(edit));
            let is_replaced =
                replaced.is_some_and(|by| by.iter().any(|edit| is_known(edit) || !self.gone.contains(edit)));
            let is_there = state[*leaf].as_u64() == Some(*edit);
            assert!(
                is_there || is_replaced || self.reported.contains(edit) || self.gone.contains(edit),
                "{leaf} = {edit} is gone: {state}"
            );
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let side = || prop_oneof![Just(Side::Edge), Just(Side::Cloud)];
    let leaf = prop_oneof![Just("a"), Just("b")];
    prop_oneof![
        8 => (side(), leaf, prop::bool::weighted(0.2)).prop_map(|(side, leaf, removal)| Step::Edit(side, leaf, removal)),
        3 => (side(), any::<bool>()).prop_map(|(side, arrives)| Step::Tell(side, arrives)),
        2 => side().prop_map(Step::BackUp),
        1 => (side(), 0..4_u32).prop_map(|(side, clock_s)| Step::Start(side, clock_s)),
        1 => (side(), any::<Index>(), 0..4_u32).prop_map(|(side, backup, clock_s)| Step::Restore(side, backup, clock_s)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn whatever_is_edited_cut_killed_and_restored_both_sides_end_equal_and_nothing_either_had_is_gone_without_a_word(
        steps in prop::collection::vec(step(), 0..60)
    ) {
        let mut world = World::new();
        // More starts than a document tells apart are of another test.
        let mut starts = 0;
        for step in &steps {
            starts += usize::from(matches!(step, Step::Start(..) | Step::Restore(..)));
            if starts <= 7 || !matches!(step, Step::Start(..) | Step::Restore(..)) {
                world.step(step);
            }
        }
        world.settle();
        world.check();
    }

    #[test]
    fn however_often_the_sides_start_and_are_restored_they_end_equal(
        steps in prop::collection::vec(prop_oneof![step(), (0..4_u32).prop_map(|clock_s| Step::Start(Side::Cloud, clock_s))], 0..120)
    ) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        world.settle();
    }
}

fn set(document: &mut Document, author: Author, patch: &Value) {
    let patch = Patch::parse(patch.to_string().as_bytes(), &Limits::default()).unwrap();
    document.apply(patch, author, &Limits::default()).unwrap();
}

#[test]
fn a_board_from_an_old_image_whose_clock_is_behind_loses_nothing_that_it_reports() {
    let mut edge = Document::default();
    set(&mut edge, Author::starting(Side::Edge, 1, 1), &json!({"boots": 0}));
    let image = edge.clone();
    for boot in 2..40 {
        set(
            &mut edge,
            Author::starting(Side::Edge, boot, boot),
            &json!({"boots": boot}),
        );
    }
    let (cloud, author) = (edge, Author::starting(Side::Edge, 0, 99));
    let mut edge = image;
    set(&mut edge, author, &json!({"image": "old"}));
    // The cloud merges first: it takes what the edge reports for something old.
    let told = merge(&edge, &cloud).document;
    let edge = edge.merged(author, &told).document;
    let cloud = merge(&edge, &told).document;
    assert_eq!(state(&edge), state(&cloud));
    assert_eq!(
        (&state(&cloud)["image"], &state(&cloud)["boots"]),
        (&json!("old"), &json!(39))
    );
}

#[test]
fn a_document_of_a_version_that_did_not_tell_starts_apart_is_read_and_goes_on() {
    let stored = br#"{"leaves":{"/a":["e",2,1],"/b":["c",7]},"seen":[3,7]}"#;
    let mut document = Document::decode(stored).unwrap();
    assert_eq!((&*document.encode(), document.version()), (&stored[..], 10));
    let other = document.clone();
    let author = Author::starting(Side::Cloud, 5, 1);
    set(&mut document, author, &json!({"a": 2, "b": 3}));
    assert_eq!(document.version(), 11);
    let text = String::from_utf8(document.encode()).unwrap();
    assert_eq!(
        text,
        r#"{"leaves":{"/a":["c1",8,2],"/b":["c1",8,3]},"seen":[3,[0,0,[0,0,7],[1,7,8]]],"starts":[21474836481]}"#
    );
    assert_eq!(Document::decode(text.as_bytes()).unwrap(), document);
    let merged = other.merged(Side::Edge.into(), &document);
    assert_eq!((merged.document, merged.conflicts), (document, vec![]));
}

#[test]
fn starts_that_are_none_are_no_document() {
    for (seen, starts) in [
        ("[[0,0,[1,0,1]],0]", "[]"),
        ("[[0,0,[1,0,1],[1,1,2]],0]", "[7]"),
        ("[[0,0,[2,0,1],[1,1,2]],0]", "[7,8]"),
        ("[[0,0,[1,2,2]],0]", "[7]"),
        ("[[9,0,[1,0,1]],0]", "[7]"),
        ("[[0],0]", "[7]"),
        ("[[0,0,[1,0]],0]", "[7]"),
        ("[[0,0,[1,0,1]],0]", "[-7]"),
        ("[[0,0,[1,0,1]],0]", "7"),
    ] {
        let document = format!(r#"{{"leaves":{{}},"seen":{seen},"starts":{starts}}}"#);
        assert!(Document::decode(document.as_bytes()).is_err(), "{document}");
    }
    let most = "18446744073709551615";
    let document = format!(r#"{{"leaves":{{}},"seen":[[{most},{most},[1,0,{most}]],{most}],"starts":[{most}]}}"#);
    let theirs = Document::decode(document.as_bytes()).unwrap();
    let author = Author::starting(Side::Edge, 5, 1);
    let mut ours = theirs.clone();
    set(&mut ours, author, &json!({"a": 1}));
    // What the other side made up harms what it shares alone, and stops nobody.
    assert!(Document::decode(&ours.merged(author, &theirs).document.encode()).is_ok());
}

#[test]
fn of_two_edits_of_one_side_that_stays_which_it_has_itself_and_the_other_is_reported() {
    let [before, lost, made, object] = [
        json!({"a": 1}),
        json!({"a": 2}),
        json!({"a": 3}),
        json!({"a": {"b": 4}}),
    ];
    for side in [Side::Edge, Side::Cloud] {
        for (lost, made, forgotten) in [(&lost, &made, 2), (&object, &made, 4), (&lost, &object, 2)] {
            let mut one = Document::default();
            set(&mut one, Author::starting(side, 9, 1), &before);
            let backup = one.clone();
            set(&mut one, Author::starting(side, 9, 1), lost);
            let (other, mut one) = (one, backup);
            let author = Author::starting(side, 3, 2);
            set(&mut one, author, made);
            let merged = one.merged(author, &other);
            assert_eq!(state(&merged.document)["a"], made["a"], "{side:?}");
            let lost: Vec<_> = merged.conflicts.into_iter().map(|conflict| conflict.lost).collect();
            assert_eq!(lost, [Some(json!(forgotten))], "{side:?}");
        }
    }
}
