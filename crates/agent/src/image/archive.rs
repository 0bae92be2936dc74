//! Takes in images from archives: those of `docker save` and `podman save`, and OCI image layouts as one file.

use std::collections::HashMap;
use std::io::{Read, Seek};
use std::str::FromStr;

use oci_spec::image::{Descriptor, Digest, ImageConfiguration, ImageIndex, ImageManifest, MediaType};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::store::{DOCUMENT_BYTES_MAX, Error, Images, LAYER, Workplace, at, is_for_this_machine, manifest, plain};
use super::unpack::place::Place;
use super::unpack::{self, Bounds};

/// Of an archive, unpacked.
const ARCHIVE: Bounds = Bounds {
    bytes: 64 << 30,
    entries: 100_000,
};
/// Lists within lists.
const DEPTH_MAX: usize = 4;
/// Where programs that write archives put an image's name, the fuller one first.
const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

/// An image in an archive of Docker's (`manifest.json`).
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Keeps the images of an archive that are for this machine; their names. `name`: of one that has none there.
///
/// # Errors
/// It is no such archive, or something in it is not what it is said to be: none of it has a name.
pub fn import(images: &Images, archive: impl Read + Seek + 'static, name: Option<&str>) -> Result<Vec<String>, Error> {
    let _using = images.using()?;
    let Workplace(path) = &images.workplace()?;
    let archive = plain(archive).map_err(at(path))?;
    unpack::unpack(archive, path, ARCHIVE).map_err(|source| Error::Layer {
        layer: "the archive".to_owned(),
        source,
    })?;
    let opened = Opened {
        images,
        place: Place::open(path).map_err(at(path))?,
        name,
    };
    let found = match opened.list::<Vec<Saved>>("manifest.json")? {
        Some(saved) => opened.saved(&saved)?,
        None => opened.layout()?,
    };
    if found.is_empty() {
        return Err(wrong(
            "there is no image for this machine in it, or none has a name; give one",
        ));
    }
    let mut names = Vec::new();
    for (name, manifest, bytes) in found {
        images.name(&name, &manifest, bytes)?;
        names.push(name);
    }
    Ok(names)
}

/// Name, manifest and its length.
type Named = (String, Digest, u64);

/// An archive that was unpacked.
struct Opened<'a> {
    images: &'a Images,
    place: Place,
    name: Option<&'a str>,
}

impl Opened<'_> {
    fn saved(&self, all: &[Saved]) -> Result<Vec<Named>, Error> {
        let mut named = Vec::new();
        for saved in all {
            let config = self.keep(&saved.config, None, DOCUMENT_BYTES_MAX)?;
            let configuration: ImageConfiguration = self.images.document(&config.0)?;
            if !is_for_this_machine(configuration.os(), configuration.architecture()) {
                continue;
            }
            let mut layers = Vec::new();
            for layer in &saved.layers {
                let (digest, bytes) = self.keep(layer, None, LAYER.bytes)?;
                layers.push(Descriptor::new(MediaType::ImageLayer, bytes, digest));
            }
            let (digest, bytes) = self
                .images
                .put(&mut &*manifest(config, layers), None, DOCUMENT_BYTES_MAX)?;
            let own = saved.repo_tags.iter().flatten().cloned();
            for name in own.chain(self.name.map(str::to_owned)) {
                named.push((name, digest.clone(), bytes));
            }
        }
        Ok(named)
    }

    fn layout(&self) -> Result<Vec<Named>, Error> {
        let index = self.list::<ImageIndex>("index.json")?;
        let index = index.ok_or_else(|| wrong("it is neither of `docker save` nor an OCI image layout"))?;
        let mut named = Vec::new();
        self.of_index(&index, self.name, 0, &mut named)?;
        Ok(named)
    }

    fn of_index(
        &self,
        index: &ImageIndex,
        name: Option<&str>,
        depth: usize,
        named: &mut Vec<Named>,
    ) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(wrong("there are lists of lists of lists in it"));
        }
        for entry in index.manifests() {
            if let Some(platform) = entry.platform()
                && !is_for_this_machine(platform.os(), platform.architecture())
            {
                continue;
            }
            let name = own_name(entry.annotations().as_ref()).or(name);
            let (digest, bytes) = self.keep_described(entry, DOCUMENT_BYTES_MAX)?;
            if *entry.media_type() == MediaType::ImageIndex {
                let index: ImageIndex = self.images.document(&digest)?;
                self.of_index(&index, name, depth + 1, named)?;
                continue;
            }
            let manifest: ImageManifest = self.images.document(&digest)?;
            self.keep_described(manifest.config(), DOCUMENT_BYTES_MAX)?;
            for layer in manifest.layers() {
                self.keep_described(layer, LAYER.bytes)?;
            }
            named.extend(name.map(|name| (name.to_owned(), digest, bytes)));
        }
        Ok(())
    }

    fn keep_described(&self, described: &Descriptor, bytes_max: u64) -> Result<(Digest, u64), Error> {
        let digest = described.digest();
        let path = format!("blobs/{}/{}", digest.algorithm(), digest.digest());
        self.keep(&path, Some(digest), bytes_max)
    }

    fn keep(&self, path: &str, wanted: Option<&Digest>, bytes_max: u64) -> Result<(Digest, u64), Error> {
        let file = self.place.file(path);
        let mut file =
            file.map_err(|error| wrong(&format!("{path:?}, which it refers to, cannot be read: {error}")))?;
        // A name that is a digest is one that it has to have.
        let by_name = path.strip_prefix("blobs/sha256/");
        let by_name = by_name.and_then(|hex| Digest::from_str(&format!("sha256:{hex}")).ok());
        self.images.put(&mut file, wanted.or(by_name.as_ref()), bytes_max)
    }

    /// A JSON document of the archive; none where it has none.
    fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, Error> {
        let Ok(file) = self.place.file(path) else {
            return Ok(None);
        };
        let mut text = Vec::new();
        let read = file.take(DOCUMENT_BYTES_MAX).read_to_end(&mut text);
        read.map_err(|error| wrong(&format!("{path}: {error}")))?;
        let list = serde_json::from_slice(&text);
        list.map(Some).map_err(|error| wrong(&format!("{path}: {error}")))
    }
}

fn own_name(annotations: Option<&HashMap<String, String>>) -> Option<&str> {
    let annotations = annotations?;
    NAMES.iter().find_map(|name| annotations.get(*name)).map(String::as_str)
}

fn wrong(message: &str) -> Error {
    Error::Wrong {
        what: "the archive".to_owned(),
        message: message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
