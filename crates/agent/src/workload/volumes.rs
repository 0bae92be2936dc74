//! What a container sees of volumes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64ct::{Base64, Encoding};
use manifest::workload::{Container, KeyToPath, Medium, PodSpec, Volume as Described, VolumeMount};

use super::{Configuration, Finding};
use crate::runtime::{Mount, Volume, VolumeFile};

/// Rights of files that are given, where it is not said.
const MODE: u32 = 0o644;

/// Of a container; what is wrong goes to `wrong`.
pub(super) fn of(pod: &PodSpec, container: &Container, given: &Configuration, wrong: &mut Vec<Finding>) -> Vec<Mount> {
    let mut mounts = Vec::new();
    for mount in &container.volume_mounts {
        let found = pod
            .volumes
            .iter()
            .enumerate()
            .find(|(_, volume)| volume.name == mount.name);
        // One that is not there was refused when it was read.
        let Some((index, described)) = found else { continue };
        match volume(described, given) {
            Ok(volume) => mounts.push(seen(mount, volume, described)),
            Err(message) => {
                let path = format!("spec.template.spec.volumes[{index}]");
                // It may be of several containers, and is said once.
                if wrong.iter().all(|finding| finding.path != path) {
                    wrong.push(Finding::at(path, message));
                }
            }
        }
    }
    mounts
}

fn seen(mount: &VolumeMount, volume: Volume, described: &Described) -> Mount {
    let is_claim_read_only = described
        .persistent_volume_claim
        .as_ref()
        .is_some_and(|claim| claim.read_only);
    Mount {
        // Files that are given are made anew at each start: what is changed in them would be lost.
        is_read_only: mount.read_only || is_claim_read_only || matches!(volume, Volume::Files(_)),
        volume,
        path: PathBuf::from(&mount.mount_path),
        sub_path: mount.sub_path.clone(),
    }
}

fn volume(described: &Described, given: &Configuration) -> Result<Volume, String> {
    if let Some(host) = &described.host_path {
        return Ok(Volume::Host {
            path: PathBuf::from(&host.path),
            kind: host.kind,
        });
    }
    if let Some(claim) = &described.persistent_volume_claim {
        return Ok(Volume::Kept(claim.claim_name.clone()));
    }
    if let Some(source) = &described.config_map {
        let values = given.config_maps.get(&source.name).map(|map| {
            let texts = map.data.iter().map(|(key, text)| (key, text.clone().into_bytes()));
            all(texts, &map.binary_data)
        });
        let files = files(&source.items, source.default_mode);
        return files.of("ConfigMap", &source.name, source.optional, values.transpose()?);
    }
    if let Some(source) = &described.secret {
        let values = given.secrets.get(&source.secret_name).map(|secret| {
            let texts = secret
                .string_data
                .iter()
                .map(|(key, text)| (key, text.clone().into_bytes()));
            all(texts, &secret.data)
        });
        let files = files(&source.items, source.default_mode);
        return files.of("Secret", &source.secret_name, source.optional, values.transpose()?);
    }
    let empty = described.empty_dir.clone().unwrap_or_default();
    Ok(match empty.medium {
        Medium::Disk => Volume::Scratch(described.name.clone()),
        Medium::Memory => Volume::Memory {
            bytes_max: empty.size_limit.map(|bytes| bytes.0),
        },
    })
}

/// Values by their keys; of one that is given twice the text counts.
fn all<'a>(
    texts: impl Iterator<Item = (&'a String, Vec<u8>)>,
    encoded: &'a BTreeMap<String, String>,
) -> Result<BTreeMap<&'a str, Vec<u8>>, String> {
    let mut values = BTreeMap::new();
    for (key, value) in encoded {
        let bytes = Base64::decode_vec(value).map_err(|_| format!("the value {key:?} is no Base64"))?;
        values.insert(key.as_str(), bytes);
    }
    values.extend(texts.map(|(key, bytes)| (key.as_str(), bytes)));
    Ok(values)
}

/// Which values become which files.
struct Files<'a> {
    items: &'a [KeyToPath],
    mode: u32,
}

fn files(items: &[KeyToPath], mode: Option<u32>) -> Files<'_> {
    Files {
        items,
        mode: mode.unwrap_or(MODE),
    }
}

impl Files<'_> {
    fn of(
        &self,
        kind: &str,
        name: &str,
        is_optional: bool,
        values: Option<BTreeMap<&str, Vec<u8>>>,
    ) -> Result<Volume, String> {
        let mut values = match values {
            Some(values) => values,
            None if is_optional => BTreeMap::new(),
            None => return Err(format!("there is no {kind} {name}; apply one")),
        };
        if self.items.is_empty() {
            let files = values.into_iter().map(|(key, content)| self.file(key, content, None));
            return Ok(Volume::Files(files.collect()));
        }
        let mut files = Vec::new();
        for item in self.items {
            match values.remove(item.key.as_str()) {
                Some(content) => files.push(self.file(&item.path, content, item.mode)),
                None if is_optional => {}
                None => return Err(format!("the {kind} {name} has no {:?}", item.key)),
            }
        }
        Ok(Volume::Files(files))
    }

    fn file(&self, path: &str, content: Vec<u8>, mode: Option<u32>) -> VolumeFile {
        VolumeFile {
            path: PathBuf::from(path),
            content,
            mode: mode.unwrap_or(self.mode),
        }
    }
}
