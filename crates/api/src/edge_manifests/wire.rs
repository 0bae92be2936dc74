//! What a cloud and its edge say to each other about manifests, as JSON; and what each keeps of that.
//!
//! The edge begins with a digest of what became of each manifest there. Where the cloud has it otherwise, it asks for
//! the list. Then it sends what it wants and the edge does not have, and the edge says what became of each.

use std::collections::BTreeMap;
use std::hash::Hasher;

use identity::{NameError, check_name};
use manifest::{Excerpt, Resource};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// Manifests of an edge that its cloud keeps, at most; removed ones count until the edge has removed them.
pub(super) const MANIFESTS_MAX: usize = 1_000;
/// Bytes of one, with its comments.
pub(super) const TEXT_BYTES_MAX: usize = 64 << 10;
/// Bytes of the texts of all those of an edge.
pub(super) const TEXTS_BYTES_MAX: usize = 4 << 20;
/// Bytes of what an edge says of a manifest that it refuses; of more, the beginning is told.
pub(super) const ERROR_BYTES_MAX: usize = 4 << 10;
/// Bytes of a part of the list, or one entry: four seconds of a line of 8 kbit/s.
const PART_BYTES_MAX: usize = 4 << 10;

/// Which manifest it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) tenant: String,
    pub(crate) kind: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn of(resource: &Resource) -> Self {
        Self {
            tenant: resource.tenant().to_owned(),
            kind: resource.kind().to_owned(),
            name: resource.name().to_owned(),
        }
    }

    /// Whether each part is one component of a path.
    pub(super) fn check(&self) -> Result<(), NameError> {
        check_name("tenant", &self.tenant)?;
        check_name("kind", &self.kind)?;
        check_name("name", &self.name)
    }

    /// As [`Resource::title`].
    pub(super) fn title(&self) -> String {
        let Key { tenant, kind, name } = self;
        match &**tenant {
            manifest::DEFAULT_TENANT => format!("{kind}/{name}"),
            _ => format!("{tenant}/{kind}/{name}"),
        }
    }
}

/// Which applying it was. Numbers are for people; a cloud that was restored from a backup gives one again, with another
/// tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Revision {
    pub(super) number: u64,
    pub(super) tag: u64,
}

/// A manifest as it was applied at the cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Applied {
    pub(super) revision: Revision,
    /// Name of the file, for errors.
    pub(super) file: String,
    /// The line that it begins in there.
    pub(super) line: usize,
    pub(super) text: String,
}

impl Applied {
    pub(super) fn excerpt(&self) -> Excerpt {
        Excerpt {
            file: self.file.clone(),
            line: self.line,
            text: self.text.clone(),
        }
    }
}

/// What the edge did with a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// It is in effect.
    Applied,
    /// It cannot be, as it is now; the edge tries it again.
    Refused,
    /// A manifest of the edge's own has its place.
    TakenOver,
}

/// What became of a manifest at the edge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct There {
    /// The revision that came last.
    pub(super) revision: Revision,
    pub(super) verdict: Verdict,
    /// Number of the revision that is in effect.
    pub(super) in_effect: Option<u64>,
    /// Why the last one is not.
    pub(super) error: Option<String>,
}

/// What became of all of them.
pub(super) type Entries = BTreeMap<Key, There>;

/// Of two sides that have the same, it is the same.
pub(super) fn digest(entries: &Entries) -> u64 {
    let mut hasher = SipHasher13::new();
    for entry in entries {
        hasher.write(&to_json(&entry));
        hasher.write_u8(0);
    }
    hasher.finish()
}

/// The part of the list behind `after`, and whether it is the last one.
pub(super) fn part(entries: Entries, after: Option<&Key>) -> (Vec<(Key, There)>, bool) {
    let mut rest = entries
        .into_iter()
        .skip_while(|(key, _)| after.is_some_and(|after| key <= after))
        .peekable();
    let (mut part, mut bytes) = (Vec::new(), 0);
    while let Some(entry) = rest.peek() {
        bytes += to_json(entry).len();
        if bytes > PART_BYTES_MAX && !part.is_empty() {
            return (part, false);
        }
        part.extend(rest.next());
    }
    (part, true)
}

/// An edge says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromEdge {
    /// In short, what became of all of them.
    Digest(u64),
    /// In full, those of a part.
    Entries {
        /// As it was asked for.
        after: Option<Key>,
        entries: Vec<(Key, There)>,
        is_last: bool,
    },
    /// Of one; `None`: it is not there any more.
    Became(Key, Option<There>),
}

/// A cloud says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromCloud {
    /// Say in full what became of those behind this one, as many as fit into a part.
    List { after: Option<Key> },
    /// Apply this one.
    Apply(Key, Applied),
    /// Remove this one.
    Remove(Key),
}

pub(super) fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("names, numbers and texts are JSON")
}

/// So much of a text as may be told.
pub(super) fn bounded(mut error: String) -> String {
    let end = (0..=ERROR_BYTES_MAX.min(error.len())).rev();
    let end = end.into_iter().find(|at| error.is_char_boundary(*at));
    error.truncate(end.unwrap_or(0));
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key {
            tenant: "default".to_owned(),
            kind: "Route".to_owned(),
            name: name.to_owned(),
        }
    }

    fn there(number: u64, tag: u64) -> There {
        There {
            revision: Revision { number, tag },
            verdict: Verdict::Applied,
            in_effect: Some(number),
            error: None,
        }
    }

    #[test]
    fn a_digest_tells_revisions_tags_and_names_apart() {
        let of = |entries: &[(&str, u64, u64)]| {
            let entries = entries.iter();
            digest(
                &entries
                    .map(|(name, number, tag)| (key(name), there(*number, *tag)))
                    .collect(),
            )
        };
        let all = [
            of(&[]),
            of(&[("a", 1, 1)]),
            of(&[("a", 1, 2)]),
            of(&[("b", 1, 1)]),
            of(&[("a", 2, 1)]),
        ];
        for (number, one) in all.iter().enumerate() {
            assert!(!all[number + 1..].contains(one), "{all:?}");
        }
        // Both ends have to have it so, of whatever version they are.
        assert_eq!(of(&[]), 0xd1fb_a762_150c_532c);
    }

    #[test]
    fn a_long_list_is_said_in_parts_and_an_empty_one_in_one() {
        let mut entries: Entries = (0..200).map(|n| (key(&format!("r{n}")), there(n, 1))).collect();
        let long = Some("x".repeat(ERROR_BYTES_MAX));
        entries.entry(key("r100")).and_modify(|there| there.error = long);
        let (mut listed, mut after, mut parts) = (Entries::new(), None, 0);
        loop {
            let (part, is_last) = part(entries.clone(), after.as_ref());
            assert!(part.len() == 1 || to_json(&part).len() < PART_BYTES_MAX + 200);
            after = part.last().map(|(key, _)| key.clone());
            listed.extend(part);
            parts += 1;
            if is_last {
                break;
            }
        }
        assert!(parts > 5 && listed == entries, "{parts}");
        assert_eq!(part(Entries::new(), None), (vec![], true));
    }

    #[test]
    fn names_that_lead_out_of_a_directory_are_none() {
        for name in ["..", "a/b", "", "/etc/passwd", "a\0"] {
            assert!(key(name).check().is_err(), "{name:?}");
        }
        assert!(key("water-alarm").check().is_ok());
    }

    #[test]
    fn a_long_error_is_cut_between_letters() {
        assert_eq!(bounded("short".to_owned()), "short");
        let cut = bounded("é".repeat(ERROR_BYTES_MAX));
        assert_eq!(cut.len(), ERROR_BYTES_MAX);
        assert!(bounded(format!("x{cut}")).len() < ERROR_BYTES_MAX);
    }
}
