//! Twins as their users see them: patches in, states and answers out.

use device::{Document, Limits, Patch, SetOutcome, Side, Twin, Undo};
use serde_json::{Value, json};

fn document(state: &Value) -> Document {
    let mut document = Document::default();
    edit(&mut document, state);
    document
}

fn edit(document: &mut Document, patch: &Value) -> Option<Undo> {
    let patch = Patch::parse(patch.to_string().as_bytes(), &Limits::default()).unwrap();
    document.apply(patch, Side::Edge, &Limits::default()).unwrap()
}

/// The state without its version.
fn state(document: &Document) -> Value {
    let mut state: Value = serde_json::from_slice(&document.to_versioned_json()).unwrap();
    let version = state.as_object_mut().unwrap().remove("$version");
    assert_eq!(version, Some(document.version().into()));
    state
}

fn patched(state: &Value, patch: &Value) -> Value {
    let mut document = document(state);
    edit(&mut document, patch);
    self::state(&document)
}

/// The examples of RFC 7396, appendix A, whose target and patch are objects, and the one of section 3.
#[test]
fn a_patch_does_what_rfc_7396_says() {
    let cases = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        ),
        (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
        (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        (
            json!({"title": "Goodbye!", "author": {"givenName": "John", "familyName": "Doe"}, "tags": ["x", "y"], "content": "c"}),
            json!({"title": "Hello!", "phoneNumber": "+01-123-456-7890", "author": {"familyName": null}, "tags": ["x"]}),
            json!({"title": "Hello!", "author": {"givenName": "John"}, "tags": ["x"], "content": "c", "phoneNumber": "+01-123-456-7890"}),
        ),
        (json!({"a": {"b": 1}}), json!({"a": {"b": null}}), json!({"a": {}})),
        (json!({"a": {"b": 1}}), json!({"a": 2}), json!({"a": 2})),
        (json!({"a": 2}), json!({"a": {"b": 1}}), json!({"a": {"b": 1}})),
        (
            json!({"a/b": {"~": 1, "": 2}}),
            json!({"a/b": {"~": 3}}),
            json!({"a/b": {"~": 3, "": 2}}),
        ),
        (json!({"a": {"b": 1}, "a-": 1}), json!({"a": null}), json!({"a-": 1})),
    ];
    for (state, patch, expected) in cases {
        assert_eq!(patched(&state, &patch), expected, "{state} patched with {patch}");
    }
}

#[test]
fn every_change_raises_the_version_by_one_and_no_change_leaves_it() {
    let mut twin = Twin::default();
    let patches = [
        (r#"{"interval_s": 10, "fan": {"on": true}}"#, true),
        (r#"{"fan": {"on": true}, "gone": null}"#, false),
        (r#"{"fan": null}"#, true),
    ];
    for (patch, changes) in patches {
        let undo = twin.report(patch.as_bytes(), Side::Edge, &Limits::default()).unwrap();
        assert_eq!(undo.is_some(), changes, "{patch}");
    }
    assert_eq!(twin.reported.version(), 2);
}

#[test]
fn a_get_answers_both_states_with_their_versions() {
    let mut twin = Twin::default();
    twin.report(br#"{"level": 0.5}"#, Side::Edge, &Limits::default())
        .unwrap();
    let answer = String::from_utf8(twin.get_payload()).unwrap();
    assert_eq!(
        answer,
        r#"{"desired":{"$version":0},"reported":{"$version":1,"level":0.5}}"#
    );
}

#[test]
fn a_set_is_answered_with_the_version_the_conflict_or_what_is_wrong() {
    let cases = [
        (r#"{"interval_s": 10}"#, r#"{"status":200,"version":1}"#),
        (r#"{"interval_s": 20, "$version": 1}"#, r#"{"status":200,"version":2}"#),
        (r#"{"interval_s": 20, "$version": 2}"#, r#"{"status":200,"version":2}"#),
        (
            r#"{"interval_s": 30, "$version": 1}"#,
            r#"{"desired":{"$version":2,"interval_s":20},"message":"based on version 1, but the desired state is at version 2","status":409}"#,
        ),
        (
            r#"{"interval_s": }"#,
            r#"{"message":"the patch is not JSON: expected value at line 1 column 16","status":400}"#,
        ),
        (
            "[1]",
            r#"{"message":"the patch is an array; a merge patch of a twin is a JSON object such as {\"interval_s\": 10}","status":400}"#,
        ),
    ];
    let mut twin = Twin::default();
    for (patch, expected) in cases {
        let (outcome, _) = twin.set_desired(patch.as_bytes(), Side::Edge, &Limits::default());
        assert_eq!(
            String::from_utf8(twin.set_payload(&outcome)).unwrap(),
            expected,
            "{patch}"
        );
    }
    assert_eq!(twin.desired_payload(), br#"{"$version":2,"interval_s":20}"#);
}

#[test]
fn what_passes_a_limit_is_refused_with_value_and_limit_and_changes_nothing() {
    let limits = Limits {
        bytes: 60,
        depth: 3,
        leaves: 4,
        name_bytes: 8,
    };
    let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(60));
    let cases = [
        (
            r#"{"$version": "1"}"#,
            r#""$version" is "1"; it is the number of the version that the patch is based on"#,
        ),
        (
            r#"{"$etag": 1}"#,
            r#""$etag" cannot be set: names that start with "$" are the hub's, and only "$version" has a meaning here"#,
        ),
        (
            r#"{"o": {"much-too-long": 1}}"#,
            r#"a name in "o" has 13 bytes; the limit is 8"#,
        ),
        (
            r#"{"a": {"b": {"c": {"d": 1}}}}"#,
            r#""c" is nested deeper than 3 levels"#,
        ),
        (r#"{"a": [[[1]]]}"#, r#""a" is nested deeper than 3 levels"#),
        (
            r#"{"b": 1, "c": 2, "d": 3, "e": 4}"#,
            "the state would have 5 values; the limit is 4",
        ),
        (&long, "the patch has 69 bytes of JSON; the limit is 60"),
        (
            r#"{"b": "0123456789012345678901234567890123456789"}"#,
            "the state would have 72 bytes of JSON; the limit is 60",
        ),
    ];
    for (patch, expected) in cases {
        let mut twin = Twin::default();
        twin.report(br#"{"a": "01234567890123456"}"#, Side::Edge, &limits)
            .unwrap();
        let before = twin.clone();
        let found = twin.report(patch.as_bytes(), Side::Edge, &limits).unwrap_err();
        assert_eq!(found.to_string(), expected, "{patch}");
        assert_eq!(twin, before, "{patch}");
    }
}

#[test]
fn a_state_at_its_limit_can_still_shrink() {
    let limits = Limits {
        leaves: 2,
        ..Limits::default()
    };
    let mut twin = Twin::default();
    twin.report(br#"{"a": 1, "b": 2}"#, Side::Edge, &limits).unwrap();
    assert!(twin.report(br#"{"a": null, "c": 3}"#, Side::Edge, &limits).is_ok());
    assert_eq!(state(&twin.reported), json!({"b": 2, "c": 3}));
}

#[test]
fn removals_are_remembered_within_a_bound_and_forgotten_when_both_know() {
    let mut document = Document::default();
    for i in 0..1000 {
        edit(&mut document, &json!({format!("k{i}"): 1}));
        edit(&mut document, &json!({format!("k{i}"): null}));
    }
    edit(&mut document, &json!({"last": 1}));
    let before = document.clone();
    let undo = edit(&mut document, &json!({"last": null})).unwrap();
    document.undo(undo);
    assert_eq!(document, before);
    assert!(document.encode().len() < 256 * 32, "{}", document.encode().len());
    let seen = document.seen().clone();
    document.forget_removed(&seen);
    assert_eq!(
        document.encode(),
        br#"{"leaves":{"/last":["e",2001,1]},"seen":[2001,0]}"#
    );
    assert_eq!(document.version(), 2001);
}

#[test]
fn bytes_that_are_no_document_are_refused_with_the_reason() {
    let cases = [
        (
            "",
            "not a stored twin document: EOF while parsing a value at line 1 column 0",
        ),
        (
            "{}",
            r#"not a stored twin document: "seen" is not what is seen of two sides"#,
        ),
        (
            r#"{"seen":[1,2]}"#,
            r#"not a stored twin document: "leaves" is not an object"#,
        ),
        (
            r#"{"seen":[1,2],"leaves":{"/a":["x",1,1]}}"#,
            r#"not a stored twin document: leaf "/a" is ["x",1,1]"#,
        ),
        (
            r#"{"seen":[1,2],"leaves":{"/a":["e",1,1],"/a/b":["e",1,1]}}"#,
            r#"not a stored twin document: leaf "/a" cannot stand where it does"#,
        ),
        (
            r#"{"seen":[1,2],"leaves":{"a":["e",1,1]}}"#,
            r#"not a stored twin document: leaf "a" cannot stand where it does"#,
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(
            Document::decode(bytes.as_bytes()).unwrap_err().to_string(),
            expected,
            "{bytes}"
        );
    }
}

#[test]
fn a_refused_patch_says_whether_it_is_wrong_or_too_large() {
    let limits = Limits {
        leaves: 1,
        ..Limits::default()
    };
    let mut twin = Twin::default();
    let status = |outcome| match outcome {
        (SetOutcome::Refused(error), None) => error.status(),
        other => panic!("{other:?}"),
    };
    assert_eq!(status(twin.set_desired(b"7", Side::Edge, &limits)), 400);
    assert_eq!(
        status(twin.set_desired(br#"{"a": 1, "b": 1}"#, Side::Edge, &limits)),
        413
    );
}

#[test]
fn a_device_may_report_back_what_was_desired_as_it_came() {
    let mut twin = Twin::default();
    twin.set_desired(br#"{"interval_s": 10}"#, Side::Edge, &Limits::default());
    let echo = twin.desired_payload();
    assert!(twin.report(&echo, Side::Edge, &Limits::default()).is_ok());
    assert_eq!(state(&twin.reported), state(&twin.desired));
}
