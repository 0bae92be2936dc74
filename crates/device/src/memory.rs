//! What twins take of memory, for the bound on all of them.

use serde_json::Value;

use crate::document::Document;
use crate::twin::Twin;

/// Bytes of a twin without leaves, with its place among the others.
const TWIN_BYTES: u64 = 640;

/// Bytes of the node that the first leaf of a document needs; it has room for eleven.
const NODE_BYTES: u64 = 1_024;

/// Bytes for the place of a start of a hub among those of a side, of which there is room for four, or eight.
const START_BYTES: u64 = 32;

/// Bytes for the place of a leaf or member in nodes that are half full.
const PLACE_BYTES: u64 = 192;

/// Bytes for the place of an element of an array.
const ELEMENT_BYTES: u64 = 48;

impl Twin {
    /// Bytes of memory that it counts as: at least what it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        TWIN_BYTES + self.desired.memory_bytes() + self.reported.memory_bytes()
    }
}

impl Document {
    fn memory_bytes(&self) -> u64 {
        let leaves = self.leaves.iter();
        let leaves = leaves.map(|(pointer, leaf)| member_bytes(pointer) + leaf.value.as_ref().map_or(0, value_bytes));
        let starts = [&self.seen.edge, &self.seen.cloud].map(|edits| starts_bytes(edits.starts.len()));
        NODE_BYTES * u64::from(!self.leaves.is_empty()) + starts.iter().sum::<u64>() + leaves.sum::<u64>()
    }
}

fn starts_bytes(count: usize) -> u64 {
    match count {
        0 => 0,
        _ => START_BYTES * count.next_power_of_two().max(4) as u64,
    }
}

fn member_bytes(name: &str) -> u64 {
    PLACE_BYTES + name.len() as u64
}

fn value_bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() as u64,
        Value::Array(elements) => elements.iter().map(|one| ELEMENT_BYTES + value_bytes(one)).sum(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, one)| member_bytes(name) + value_bytes(one));
            NODE_BYTES + members.sum::<u64>()
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::limits::Limits;
    use crate::seen::Side;
    use crate::twin::Twin;

    #[test]
    fn a_twin_counts_as_more_than_its_json() {
        let values = ["1", r#""text""#, "[1,2,[3,{}]]", r#"{"b":{"c":null,"d":{}}}"#];
        let mut twin = Twin::default();
        for (number, value) in values.iter().enumerate() {
            let before = twin.memory_bytes();
            let patch = format!(r#"{{"name-{number}":{value}}}"#);
            twin.report(patch.as_bytes(), Side::Edge, &Limits::default()).unwrap();
            assert!(twin.memory_bytes() - before >= patch.len() as u64, "{patch}");
        }
    }
}
