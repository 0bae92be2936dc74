//! Two sides of a document that edit it apart and meet again.

use device::{Conflict, Document, Limits, Patch, Side, merge};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn edit(document: &mut Document, side: Side, patch: &Value) {
    let patch = Patch::parse(patch.to_string().as_bytes(), &Limits::default()).unwrap();
    document.apply(patch, side, &Limits::default()).unwrap();
}

fn state(document: &Document) -> Value {
    let mut state: Value = serde_json::from_slice(&document.to_versioned_json()).unwrap();
    state.as_object_mut().unwrap().remove("$version");
    state
}

/// Both sides start from the first, each applies its patch (edge, cloud), they meet and have the last.
fn check(case: [Value; 4], conflicts: &[(&str, Value, Value)]) {
    let [start, edge_patch, cloud_patch, expected] = case;
    let mut edge = Document::default();
    edit(&mut edge, Side::Edge, &start);
    let mut cloud = edge.clone();
    edit(&mut edge, Side::Edge, &edge_patch);
    edit(&mut cloud, Side::Cloud, &cloud_patch);
    let merged = merge(&edge, &cloud);
    assert_eq!(
        state(&merged.document),
        expected,
        "{edge_patch} at the edge, {cloud_patch} in the cloud"
    );
    let removed_is_null = |value: &Option<Value>| value.clone().unwrap_or(Value::Null);
    let found: Vec<_> = merged
        .conflicts
        .iter()
        .map(
            |Conflict {
                 pointer, kept, lost, ..
             }| (pointer.as_str(), removed_is_null(kept), removed_is_null(lost)),
        )
        .collect();
    assert_eq!(found, conflicts, "{edge_patch} at the edge, {cloud_patch} in the cloud");
}

#[test]
fn edits_of_different_leaves_are_both_kept() {
    check(
        [
            json!({"a": 1, "o": {"x": 1, "y": 1}}),
            json!({"o": {"x": 2}}),
            json!({"a": null, "o": {"y": 2}, "n": 1}),
            json!({"o": {"x": 2, "y": 2}, "n": 1}),
        ],
        &[],
    );
}

#[test]
fn of_two_concurrent_edits_the_edges_stays_and_the_other_is_reported() {
    check(
        [json!({"a": 1}), json!({"a": 2}), json!({"a": 3}), json!({"a": 2})],
        &[("/a", json!(2), json!(3))],
    );
    check(
        [json!({}), json!({"a": 2}), json!({"a": 3}), json!({"a": 2})],
        &[("/a", json!(2), json!(3))],
    );
}

#[test]
fn a_removal_is_an_edit_like_any_other() {
    check(
        [json!({"a": 1}), json!({"a": null}), json!({"a": 3}), json!({})],
        &[("/a", json!(null), json!(3))],
    );
    check(
        [json!({"a": 1}), json!({"a": 2}), json!({"a": null}), json!({"a": 2})],
        &[("/a", json!(2), json!(null))],
    );
    check(
        [json!({"a": 1}), json!({"b": 1}), json!({"a": null}), json!({"b": 1})],
        &[],
    );
}

#[test]
fn equal_edits_are_no_conflict() {
    check(
        [json!({"a": 1}), json!({"a": 2}), json!({"a": 2}), json!({"a": 2})],
        &[],
    );
    check(
        [json!({"a": 1}), json!({"a": null}), json!({"a": null}), json!({})],
        &[],
    );
}

#[test]
fn a_value_against_an_object_is_a_conflict_that_the_edge_wins() {
    check(
        [json!({}), json!({"a": 5}), json!({"a": {"b": 1}}), json!({"a": 5})],
        &[("/a/b", json!(null), json!(1))],
    );
    check(
        [
            json!({}),
            json!({"a": {"b": 1}}),
            json!({"a": 5}),
            json!({"a": {"b": 1}}),
        ],
        &[("/a", json!(null), json!(5))],
    );
}

#[test]
fn an_emptied_object_gives_way_to_new_members_without_a_conflict() {
    check(
        [
            json!({"a": {"b": 1}}),
            json!({"a": {"b": null}}),
            json!({"a": {"c": 1}}),
            json!({"a": {"c": 1}}),
        ],
        &[],
    );
    check(
        [
            json!({"a": {"b": 1}}),
            json!({"a": {"c": 1}}),
            json!({"a": {"b": null}}),
            json!({"a": {"c": 1}}),
        ],
        &[],
    );
}

#[derive(Clone, Debug)]
enum Step {
    Edit(Side, Value),
    /// The side's document reaches the other.
    Send(Side),
}

fn patch() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![Just(Value::Null), (0..4i32).prop_map(Value::from), Just(json!([1]))];
    let value = scalar.prop_recursive(3, 12, 3, |inner| members(inner).prop_map(Value::Object));
    members(value).prop_map(Value::Object)
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let name = prop_oneof![Just("a"), Just("b"), Just("a/b"), Just("a-")];
    prop::collection::vec((name, value), 0..4).prop_map(|members| {
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let side = prop_oneof![Just(Side::Edge), Just(Side::Cloud)];
    let step = prop_oneof![
        3 => (side.clone(), patch()).prop_map(|(side, patch)| Step::Edit(side, patch)),
        1 => side.prop_map(Step::Send),
    ];
    prop::collection::vec(step, 0..40)
}

/// The reference: RFC 7396, section 2, word for word.
fn rfc_7396(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let object = target.as_object_mut().unwrap();
    for (name, value) in members {
        if value.is_null() {
            object.remove(name);
        } else {
            rfc_7396(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn patches_agree_with_the_pseudocode_of_the_rfc(patches in prop::collection::vec(patch(), 0..12)) {
        let (mut document, mut reference) = (Document::default(), json!({}));
        for patch in &patches {
            edit(&mut document, Side::Edge, patch);
            rfc_7396(&mut reference, patch);
            prop_assert_eq!(&state(&document), &reference);
        }
    }

    #[test]
    fn an_edit_that_is_taken_back_leaves_no_trace(patches in prop::collection::vec(patch(), 1..12)) {
        let mut document = Document::default();
        for patch in &patches {
            let before = document.clone();
            let patch = Patch::parse(patch.to_string().as_bytes(), &Limits::default()).unwrap();
            match document.apply(patch.clone(), Side::Edge, &Limits::default()).unwrap() {
                Some(undo) => document.undo(undo),
                None => prop_assert_eq!(&document, &before),
            }
            prop_assert_eq!(&document, &before);
            document.apply(patch, Side::Edge, &Limits::default()).unwrap();
        }
    }

    #[test]
    fn a_state_may_have_as_many_bytes_of_json_as_its_limit_and_no_more(patches in prop::collection::vec(patch(), 1..12)) {
        let mut document = Document::default();
        for patch in &patches {
            let patch = Patch::parse(patch.to_string().as_bytes(), &Limits::default()).unwrap();
            let mut after = document.clone();
            if after.apply(patch.clone(), Side::Edge, &Limits::default()).unwrap().is_none() {
                continue;
            }
            let before = document.clone();
            let bytes = state(&after).to_string().len();
            let limits = |bytes| Limits { bytes, ..Limits::default() };
            prop_assert!(document.apply(patch.clone(), Side::Edge, &limits(bytes - 1)).is_err());
            prop_assert_eq!(&document, &before);
            document.apply(patch, Side::Edge, &limits(bytes)).unwrap();
            prop_assert_eq!(&document, &after);
        }
    }

    #[test]
    fn both_sides_end_up_equal_whatever_was_edited_and_sent_between(steps in steps()) {
        let (mut edge, mut cloud) = (Document::default(), Document::default());
        for step in &steps {
            match step {
                Step::Edit(Side::Edge, patch) => edit(&mut edge, Side::Edge, patch),
                Step::Edit(Side::Cloud, patch) => edit(&mut cloud, Side::Cloud, patch),
                Step::Send(Side::Edge) => cloud = merge(&edge, &cloud).document,
                Step::Send(Side::Cloud) => edge = merge(&edge, &cloud).document,
            }
        }
        let edge_after = merge(&edge, &cloud).document;
        let cloud_after = merge(&edge_after, &cloud).document;
        prop_assert_eq!(&edge_after, &cloud_after);
        prop_assert_eq!(edge_after.version(), edge_after.seen().count());
        prop_assert!(edge_after.version() >= edge.version().max(cloud.version()));
        prop_assert_eq!(&merge(&cloud_after, &edge_after).document, &edge_after, "a merge of equals changes nothing");
    }

    #[test]
    fn what_only_the_edge_edited_last_is_never_lost(start in patch(), edge_patch in patch(), cloud_patch in patch()) {
        let mut edge = Document::default();
        edit(&mut edge, Side::Edge, &start);
        let mut cloud = edge.clone();
        let before = edge.clone();
        edit(&mut edge, Side::Edge, &edge_patch);
        edit(&mut cloud, Side::Cloud, &cloud_patch);
        let merged = state(&merge(&edge, &cloud).document);
        for pointer in ["/a", "/b", "/a~1b", "/a-", "/a/a", "/a/b", "/b/a", "/b/b"] {
            let edited = state(&edge).pointer(pointer).filter(|value| !value.is_object()).cloned();
            if edited.is_some() && edited != state(&before).pointer(pointer).cloned() {
                prop_assert_eq!(merged.pointer(pointer).cloned(), edited, "{}", pointer);
            }
        }
    }

    #[test]
    fn a_stored_document_is_read_back_as_it_was(steps in steps()) {
        let mut document = Document::default();
        for step in &steps {
            if let Step::Edit(side, patch) = step {
                edit(&mut document, *side, patch);
            }
        }
        prop_assert_eq!(Document::decode(&document.encode()).unwrap(), document);
    }
}
