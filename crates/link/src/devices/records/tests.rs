//! Two sides, whatever is edited at either and whatever is lost between them.

use device::Side;
use proptest::prelude::*;

use super::*;

/// What a side has of one device, without its registry.
struct OneSide {
    author: Author,
    shared: Shared,
    /// What was backed up.
    backups: Vec<Shared>,
}

#[derive(Clone, Debug)]
enum Edit {
    Add(u8),
    Remove,
    Disable(bool),
    Label(u8, Option<u8>),
    Password(Option<u8>),
}

#[derive(Clone, Debug)]
enum Step {
    Edit(Side, Edit),
    /// That side tells the other, whose answer arrives or not.
    Tell(Side, bool),
    BackUp(Side),
    /// That side begins anew with one of its backups, or with what it has.
    Start(Side, prop::sample::Index),
}

impl OneSide {
    fn new(side: Side) -> Self {
        Self {
            author: side.into(),
            shared: Shared::default(),
            backups: Vec::new(),
        }
    }

    fn edit(&mut self, edit: &Edit) {
        let record = &mut self.shared.record;
        match (edit, record.as_mut()) {
            (Edit::Add(life), None) => *record = Some(device(&format!("{:?}-{life}", self.author.side))),
            (Edit::Remove, _) => *record = None,
            (Edit::Disable(disabled), Some(record)) => record.disabled = *disabled,
            (Edit::Label(name, Some(value)), Some(record)) => {
                drop(record.labels.insert(format!("l/{name}"), value.to_string()));
            }
            (Edit::Label(name, None), Some(record)) => drop(record.labels.remove(&format!("l/{name}"))),
            (Edit::Password(password), Some(record)) => record.password = password.map(|number| number.to_string()),
            _ => {}
        }
    }

    /// What it has, kept before it is told.
    fn told(&mut self) -> Vec<u8> {
        let document = stamped(&self.shared, self.author).document.encode();
        self.shared.document = Some(document.clone());
        document
    }

    fn start(&mut self, backup: prop::sample::Index, random: u32) {
        if let Some(backup) = self.backups.get(backup.index(self.backups.len() + 1)) {
            self.shared = backup.clone();
        }
        self.author = Author::starting(self.author.side, 0, random);
    }

    fn take(&mut self, theirs: &[u8]) -> (Option<Vec<u8>>, Vec<String>) {
        let (after, taken) = take_in(&self.shared, self.author, theirs).unwrap();
        self.shared = after;
        (taken.reply, taken.lost)
    }
}

fn device(life: &str) -> DeviceRecord {
    DeviceRecord {
        life: life.to_owned(),
        disabled: false,
        labels: Labels::new(),
        password: Some(format!("first of {life}")),
        token_epoch: None,
        trusts_subject: false,
        certificates: Default::default(),
    }
}

/// Tells until nobody has anything to say; how many messages that took.
fn settle(edge: &mut OneSide, cloud: &mut OneSide) -> usize {
    let (mut told, mut messages) = (edge.told(), 1);
    loop {
        for side in [&mut *cloud, &mut *edge] {
            match side.take(&told).0 {
                Some(reply) => (told, messages) = (reply, messages + 1),
                None => return messages,
            }
        }
    }
}

fn of(side: Side, [edge, cloud]: [&mut OneSide; 2]) -> &mut OneSide {
    match side {
        Side::Edge => edge,
        Side::Cloud => cloud,
    }
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Edge), Just(Side::Cloud)]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (0..2_u8).prop_map(Edit::Add),
        Just(Edit::Remove),
        any::<bool>().prop_map(Edit::Disable),
        (0..3_u8, proptest::option::of(0..3_u8)).prop_map(|(name, value)| Edit::Label(name, value)),
        proptest::option::of(0..3_u8).prop_map(Edit::Password),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (side(), edit()).prop_map(|(side, edit)| Step::Edit(side, edit)),
        1 => (side(), any::<bool>()).prop_map(|(side, arrives)| Step::Tell(side, arrives)),
        1 => side().prop_map(Step::BackUp),
        1 => (side(), any::<prop::sample::Index>()).prop_map(|(side, backup)| Step::Start(side, backup)),
    ]
}

proptest! {
    #[test]
    fn whatever_is_edited_and_lost_both_sides_end_equal_in_a_few_messages(steps in prop::collection::vec(step(), 0..40)) {
        let (mut edge, mut cloud) = (OneSide::new(Side::Edge), OneSide::new(Side::Cloud));
        for (number, step) in steps.into_iter().enumerate() {
            let sides = [&mut edge, &mut cloud];
            match step {
                Step::Edit(side, edit) => of(side, sides).edit(&edit),
                Step::BackUp(side) => {
                    let one = of(side, sides);
                    one.backups.push(one.shared.clone());
                }
                Step::Start(side, backup) => of(side, sides).start(backup, number as u32 + 1),
                Step::Tell(from, arrives) => {
                    let (from, to) = match from {
                        Side::Edge => (&mut edge, &mut cloud),
                        Side::Cloud => (&mut cloud, &mut edge),
                    };
                    let reply = to.take(&from.told()).0;
                    if let Some(reply) = reply.filter(|_| arrives) {
                        from.take(&reply);
                    }
                }
            }
        }
        let messages = settle(&mut edge, &mut cloud);
        prop_assert!(messages <= 3, "{messages} messages");
        prop_assert_eq!(&edge.shared.record, &cloud.shared.record);
        prop_assert_eq!(edge.told(), cloud.told());
        prop_assert_eq!(settle(&mut edge, &mut cloud), 1);
    }
}

/// A device that both sides know, and that is then edited at both before either tells.
fn after(of_edge: &[Edit], of_cloud: &[Edit]) -> (Option<DeviceRecord>, Vec<String>) {
    let (mut edge, mut cloud) = (OneSide::new(Side::Edge), OneSide::new(Side::Cloud));
    edge.edit(&Edit::Add(0));
    settle(&mut edge, &mut cloud);
    of_edge.iter().for_each(|edit| edge.edit(edit));
    of_cloud.iter().for_each(|edit| cloud.edit(edit));
    let (reply, lost) = cloud.take(&edge.told());
    edge.take(&reply.expect("the edge lacks what was edited in the cloud"));
    assert_eq!(edge.shared.record, cloud.shared.record);
    (edge.shared.record, lost)
}

#[test]
fn a_device_that_one_side_removes_is_gone_whatever_the_other_edits_of_it() {
    let edits = [Edit::Label(1, Some(1)), Edit::Password(Some(1)), Edit::Disable(true)];
    assert_eq!(after(&edits, &[Edit::Remove]).0, None);
    assert_eq!(after(&[Edit::Remove], &edits).0, None);
}

#[test]
fn of_two_edits_of_one_member_the_edges_stays_and_the_other_is_told_of() {
    let (record, lost) = after(
        &[Edit::Password(Some(1))],
        &[Edit::Password(Some(2)), Edit::Label(1, Some(1))],
    );
    let record = record.unwrap();
    assert_eq!((record.password.as_deref(), record.labels.len()), (Some("1"), 1));
    assert_eq!(lost, ["/password"]);
}

#[test]
fn a_credential_that_one_side_revokes_stays_revoked_whatever_else_the_other_edits() {
    let others = [Edit::Label(1, Some(1)), Edit::Disable(true)];
    assert_eq!(after(&others, &[Edit::Password(None)]).0.unwrap().password, None);
    assert_eq!(after(&[Edit::Password(None)], &others).0.unwrap().password, None);
}

#[test]
fn a_device_that_was_removed_and_added_again_is_another_one() {
    let again = [Edit::Remove, Edit::Add(1)];
    let (record, _) = after(&[], &again);
    assert_eq!(record.unwrap().life, "Cloud-1");
    let (record, _) = after(&again, &[Edit::Label(1, Some(1))]);
    assert_eq!(record.unwrap().life, "Edge-1");
}

#[test]
fn a_number_of_edits_that_the_other_side_made_up_stops_nobody() {
    let mut cloud = OneSide::new(Side::Cloud);
    let told =
        br#"{"leaves":{"/life":["e",18446744073709551615,"x"]},"seen":[18446744073709551615,18446744073709551615]}"#;
    cloud.take(told);
    cloud.edit(&Edit::Label(1, Some(1)));
    assert!(!cloud.told().is_empty());
}
