//! Images go that nobody has needed for long, and those that nobody has needed the longest where all take too much.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oci_spec::distribution::Reference;
use oci_spec::image::{Digest, ImageConfiguration, ImageManifest};

use super::name;
use super::store::{Error, Images, at, bytes_below, replace, understand};

/// Since when nobody needs which images, beside them.
const UNUSED: &str = "unused.json";
/// Room is not made by what was brought so lately: whoever wants it may be about to say so.
const FRESH_S: i64 = 3_600;
/// Begin of 2020, before which no clock was right: an edge without a battery wakes up in 1970.
const CLOCKS_BEGIN_UNIX_S: i64 = 1_577_836_800;

/// When images go by themselves that nobody needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Once nobody has needed one for so long; `None`: however long.
    pub unused: Option<Duration>,
    /// The longest unneeded, where all together take more of the disk than so many bytes; `None`: however many.
    pub bytes: Option<u64>,
}

/// Who needs an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// As a manifest names it.
    pub image: String,
    /// Whose manifest that is, in words.
    pub by: String,
}

/// An image that is here.
#[derive(Clone, Debug)]
pub struct Kept {
    /// In full.
    pub name: String,
    /// Of its manifest.
    pub digest: Digest,
    /// Who needs it, each once.
    pub used_by: Vec<String>,
    /// Since when nobody does, in s since 1970 UTC.
    pub unused_since_s: Option<i64>,
    manifest_bytes: u64,
}

/// What was removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Images, by their names.
    pub names: Vec<String>,
    /// Of files that went.
    pub bytes: u64,
}

/// What a removal goes by.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Which images go.
    pub policy: Policy,
    /// The time, in s since 1970 UTC.
    pub now_s: i64,
    /// Nothing goes; it is only said what would.
    pub is_dry_run: bool,
}

impl Images {
    /// All images that have names, by their names, and who needs them.
    ///
    /// # Errors
    /// Of reading what is kept of them.
    pub fn inventory(&self, needs: &[Need], now_s: i64) -> Result<Vec<Kept>, Error> {
        let since = self.unused()?;
        let needs: Vec<(Reference, &str)> = needs
            .iter()
            .filter_map(|need| Some((name::parse(&need.image).ok()?, &*need.by)))
            .collect();
        let kept = self.manifests()?.into_iter().map(|(name, digest, manifest_bytes)| {
            let is_meant = |wanted: &Reference| wanted.whole() == name || wanted.digest() == Some(digest.as_ref());
            let users = needs.iter().filter(|(wanted, _)| is_meant(wanted));
            let mut used_by: Vec<String> = users.map(|(_, by)| (*by).to_owned()).collect();
            used_by.sort_unstable();
            used_by.dedup();
            let known = since.get(&name).copied().filter(|since| is_credible(*since, now_s));
            Kept {
                unused_since_s: used_by.is_empty().then(|| known.unwrap_or(now_s)),
                used_by,
                name,
                digest,
                manifest_bytes,
            }
        });
        let mut kept: Vec<Kept> = kept.collect();
        kept.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(kept)
    }

    /// Removes images that nobody needs, as far as the policy wants it, and then all that no name and no container
    /// refers to (see [`Images::collect`]). `None`: something is being taken in, and all is left as it is.
    ///
    /// # Errors
    /// It is not known who needs what, or of a file.
    pub fn prune(
        &self,
        terms: &Terms,
        needs: impl Fn() -> io::Result<Vec<Need>>,
        in_use: impl FnOnce() -> io::Result<HashSet<PathBuf>>,
    ) -> Result<Option<Pruned>, Error> {
        let Some(alone) = self.alone()? else {
            return Ok(None);
        };
        let known = || needs().map_err(at(self.root()));
        let kept = self.inventory(&known()?, terms.now_s)?;
        let mut going = Vec::new();
        let mut spared_bytes = 0;
        if kept.iter().any(|one| one.used_by.is_empty()) {
            let sizes = self.sizes(&kept)?;
            going = choose(&kept, &sizes, terms);
            let left = kept.iter().filter(|one| going.iter().all(|gone| gone.name != one.name));
            spared_bytes = sizes.together(kept.iter()) - sizes.together(left);
        }
        let names = |going: &[&Kept]| going.iter().map(|one| one.name.clone()).collect();
        if terms.is_dry_run {
            return Ok(Some(Pruned {
                names: names(&going),
                bytes: spared_bytes,
            }));
        }
        self.note_unused(&kept)?;
        for one in &going {
            self.forget(&one.name)?;
        }
        // Who has been applied meanwhile keeps what was found for it.
        let needed = known().and_then(|needs| self.needed_of(&needs, &going));
        let is_needed = |one: &Kept| needed.as_ref().map_or(true, |needed| needed.contains(&one.name));
        for one in going.extract_if(.., |one| is_needed(one)) {
            self.name(&one.name, &one.digest, one.manifest_bytes)?;
        }
        needed?;
        let bytes = self.collect_alone(&alone, in_use)?;
        Ok(Some(Pruned {
            names: names(&going),
            bytes,
        }))
    }

    /// Of these, which have lost their names, those that somebody needs.
    fn needed_of(&self, needs: &[Need], going: &[&Kept]) -> Result<HashSet<String>, Error> {
        let wanted: Vec<Reference> = needs.iter().filter_map(|need| name::parse(&need.image).ok()).collect();
        let is_needed = |one: &&&Kept| {
            wanted
                .iter()
                .any(|wanted| wanted.whole() == one.name || wanted.digest() == Some(one.digest.as_ref()))
        };
        Ok(going.iter().filter(is_needed).map(|one| one.name.clone()).collect())
    }

    fn unused(&self) -> Result<BTreeMap<String, i64>, Error> {
        let path = self.root().join(UNUSED);
        match fs::read(&path) {
            Ok(text) => understand(&path.display().to_string(), &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// Nothing is written where nothing has changed.
    fn note_unused(&self, kept: &[Kept]) -> Result<(), Error> {
        let unused = kept
            .iter()
            .filter_map(|one| Some((one.name.clone(), one.unused_since_s?)));
        let unused: BTreeMap<String, i64> = unused.collect();
        if unused == self.unused()? {
            return Ok(());
        }
        let text = serde_json::to_vec(&unused).expect("names and numbers are JSON");
        replace(&self.root().join(UNUSED), &text)
    }

    fn sizes(&self, kept: &[Kept]) -> Result<Sizes, Error> {
        let mut sizes = Sizes::default();
        for one in kept {
            let manifest: ImageManifest = self.document(&one.digest)?;
            let configuration: ImageConfiguration = self.document(manifest.config().digest())?;
            let blobs = manifest.layers().iter().chain([manifest.config()]);
            let mut parts = vec![self.blob_path(&one.digest)?];
            for blob in blobs {
                parts.push(self.blob_path(blob.digest())?);
            }
            let layers = configuration.rootfs().diff_ids().iter();
            parts.extend(layers.filter_map(|content| self.unpacked_layer(content)));
            for part in &parts {
                if !sizes.bytes.contains_key(part) {
                    sizes.bytes.insert(part.clone(), bytes_below(part).map_err(at(part))?);
                }
            }
            sizes.parts.insert(one.name.clone(), parts);
        }
        Ok(sizes)
    }
}

/// What images take of the disk; layers may be those of several.
#[derive(Default)]
struct Sizes {
    parts: HashMap<String, Vec<PathBuf>>,
    bytes: HashMap<PathBuf, u64>,
}

impl Sizes {
    fn together<'a>(&self, kept: impl Iterator<Item = &'a Kept>) -> u64 {
        let parts: HashSet<&Path> = kept
            .flat_map(|one| &self.parts[&one.name])
            .map(PathBuf::as_path)
            .collect();
        parts.into_iter().map(|part| self.bytes[part]).sum()
    }
}

/// A time that a clock may have said that was right, and not one of the future.
fn is_credible(since_s: i64, now_s: i64) -> bool {
    (CLOCKS_BEGIN_UNIX_S..=now_s).contains(&since_s)
}

/// Those that go.
fn choose<'a>(kept: &'a [Kept], sizes: &Sizes, terms: &Terms) -> Vec<&'a Kept> {
    let Terms { policy, now_s, .. } = *terms;
    let age_s = |one: &Kept| one.unused_since_s.map(|since| now_s - since);
    let is_old = |one: &Kept| {
        let longest = policy
            .unused
            .map(|unused| i64::try_from(unused.as_secs()).unwrap_or(i64::MAX));
        age_s(one).zip(longest).is_some_and(|(age, longest)| age >= longest)
    };
    let (mut going, mut staying): (Vec<&Kept>, Vec<&Kept>) = kept.iter().partition(|one| is_old(one));
    let mut unused: Vec<&Kept> = staying
        .iter()
        .copied()
        .filter(|one| age_s(one) >= Some(FRESH_S))
        .collect();
    unused.sort_by_key(|one| age_s(one));
    while let Some(bytes) = policy.bytes
        && sizes.together(staying.iter().copied()) > bytes
        && let Some(oldest) = unused.pop()
    {
        staying.retain(|one| one.name != oldest.name);
        going.push(oldest);
    }
    going
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;

    const NOW_S: i64 = 1_800_000_000;
    const DAY_S: i64 = 86_400;

    /// Of a name, the age in days since it is unused (`None`: it is used), and its layers.
    fn check(all: &[(&str, Option<i64>, &str)], policy: Policy, expected: &[&str]) {
        let kept: Vec<Kept> = all
            .iter()
            .map(|(name, days, _)| Kept {
                name: (*name).to_owned(),
                digest: Digest::from_str(&format!("sha256:{}", "0".repeat(64))).unwrap(),
                used_by: Vec::new(),
                unused_since_s: days.map(|days| NOW_S - days * DAY_S),
                manifest_bytes: 1,
            })
            .collect();
        let layers = |text: &str| text.chars().map(|layer| PathBuf::from(layer.to_string())).collect();
        let sizes = Sizes {
            parts: all
                .iter()
                .map(|(name, _, text)| ((*name).to_owned(), layers(text)))
                .collect(),
            bytes: "abcd"
                .chars()
                .map(|layer| (PathBuf::from(layer.to_string()), 100))
                .collect(),
        };
        let terms = Terms {
            policy,
            now_s: NOW_S,
            is_dry_run: false,
        };
        let going: Vec<&str> = choose(&kept, &sizes, &terms).iter().map(|one| &*one.name).collect();
        assert_eq!(going, expected, "{all:?} by {policy:?}");
    }

    fn days(days: u64) -> Option<Duration> {
        Some(Duration::from_secs(days * 86_400))
    }

    #[test]
    fn those_go_that_are_unused_for_long_and_for_room_the_longest_unused_first() {
        let all = [
            ("used", None, "ab"),
            ("old", Some(30), "bc"),
            ("new", Some(3), "d"),
            ("just", Some(0), "d"),
        ];
        let by = |unused, bytes| Policy { unused, bytes };
        check(&all, by(None, None), &[]);
        check(&all, by(days(31), None), &[]);
        check(&all, by(days(30), None), &["old"]);
        check(&all, by(days(0), None), &["old", "new", "just"]);
        check(&all, by(None, Some(400)), &[]);
        check(&all, by(None, Some(399)), &["old"]);
        // What they share stays with who stays: the new one gives no room back alone.
        check(&all, by(None, Some(299)), &["old", "new"]);
        check(&all, by(days(30), Some(300)), &["old"]);
        check(&all, by(None, Some(0)), &["old", "new"]);
    }

    #[test]
    fn a_clock_that_nobody_has_set_makes_nothing_old() {
        assert!(!is_credible(0, NOW_S) && !is_credible(NOW_S + 1, NOW_S));
        assert!(is_credible(NOW_S - DAY_S, NOW_S) && is_credible(NOW_S, NOW_S));
    }
}
