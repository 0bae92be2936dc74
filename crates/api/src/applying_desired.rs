//! The desired state that a manifest asks for, beside the one that the device has.

use device::{Document, Limits, Patch, Side};
use identity::ClientName;
use serde_json::{Map, Value};

use crate::desk::Desk;
use crate::wrong::{Done, Wrong};

/// The member that says which version a state is, or a patch is based on.
const VERSION: &str = "$version";

/// Why the device's desired state cannot be patched so, in words; `None`: it can, as it is now.
pub(crate) async fn check_desired(
    desk: &Desk,
    device: &ClientName,
    patch: &Map<String, Value>,
) -> Done<Option<String>> {
    let mut present = present(desk, device).await?;
    let version = present.remove(VERSION).and_then(|version| version.as_u64());
    Ok(refusal(&present, version.unwrap_or_default(), patch))
}

fn refusal(present: &Map<String, Value>, version: u64, patch: &Map<String, Value>) -> Option<String> {
    let limits = Limits::default();
    let patch = match parse(patch, &limits) {
        Ok(patch) => patch,
        Err(why) => return Some(why),
    };
    let mut state = Document::default();
    let present = parse(present, &limits).expect("a state that was accepted is a patch of nothing");
    let is_good = state.apply(present, Side::Edge, &limits);
    is_good.expect("a state that was accepted is within the limits");
    let based_on = patch.based_on();
    match (state.apply(patch, Side::Edge, &limits), based_on) {
        (Err(error), _) => Some(error.to_string()),
        (Ok(Some(_)), Some(based_on)) if based_on != version => Some(format!(
            "based on version {based_on}, but the desired state is at version {version}"
        )),
        (Ok(_), _) => None,
    }
}

fn parse(patch: &Map<String, Value>, limits: &Limits) -> Result<Patch, String> {
    let json = serde_json::to_vec(patch).expect("JSON values are JSON");
    Patch::parse(&json, limits).map_err(|error| error.to_string())
}

/// The patch that would leave the device's desired state as it is, of the names that `patch` speaks of.
pub(crate) async fn as_it_is(desk: &Desk, device: &ClientName, patch: &Map<String, Value>) -> Done<Map<String, Value>> {
    let present = present(desk, device).await?;
    let mut spoken_of = spoken_of(&present, patch);
    // A version is a condition of the change, no part of the state.
    match patch.get(VERSION) {
        Some(version) => drop(spoken_of.insert(VERSION.to_owned(), version.clone())),
        None => drop(spoken_of.remove(VERSION)),
    }
    Ok(spoken_of)
}

fn spoken_of(present: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let values = patch.iter().filter_map(|(name, wanted)| {
        let value = match (present.get(name), wanted) {
            (None, Value::Null) => Value::Null,
            (None, _) => return None,
            (Some(Value::Object(present)), Value::Object(wanted)) => Value::Object(spoken_of(present, wanted)),
            (Some(present), _) => present.clone(),
        };
        Some((name.clone(), value))
    });
    values.collect()
}

/// The whole desired state, with its version.
async fn present(desk: &Desk, device: &ClientName) -> Done<Map<String, Value>> {
    let twin = desk.hub().await?.twin(device.tenant(), device.id()).await;
    let twin: Value =
        serde_json::from_slice(&twin.ok_or_else(Wrong::no_answer)?).map_err(|error| Wrong::here(error.to_string()))?;
    Ok(twin["desired"].as_object().cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn only_what_the_patch_names_is_compared_and_what_is_gone_is_gone() {
        let present = map(&json!({"a": 1, "b": {"c": 2, "d": 3}, "e": 4}));
        let patch = map(&json!({"a": 9, "b": {"c": 2, "x": null, "y": 1}, "f": null, "g": 5}));
        let expected = map(&json!({"a": 1, "b": {"c": 2, "x": null}, "f": null}));
        assert_eq!(spoken_of(&present, &patch), expected);
    }

    #[test]
    fn a_patch_that_the_device_could_not_take_is_refused_with_its_reason() {
        let check = |present: &Value, patch: &Value, expected: Option<&str>| {
            let refusal = refusal(&map(present), 3, &map(patch));
            match (refusal, expected) {
                (Some(said), Some(expected)) => assert!(said.contains(expected), "{said}"),
                (said, expected) => assert_eq!(said.as_deref(), expected),
            }
        };
        check(&json!({"a": 1}), &json!({"a": 2}), None);
        check(&json!({}), &json!({"$meta": 2}), Some("cannot be set"));
        let half = || "x".repeat(Limits::default().bytes / 2);
        check(
            &json!({"a": half()}),
            &json!({"b": half()}),
            Some("the state would have"),
        );
        check(&json!({"a": half()}), &json!({"a": null, "b": half()}), None);
        check(&json!({"a": 1}), &json!({"$version": 2, "a": 2}), Some("at version 3"));
        check(&json!({"a": 1}), &json!({"$version": 2, "a": 1}), None);
    }
}
