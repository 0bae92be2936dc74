//! Snapshots leave and come as OCI archives: an image layout as one file.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use oci_spec::image::{Descriptor, Digest, ImageIndex, ImageManifest, MediaType};
use seal::Passphrase;
use serde::de::DeserializeOwned;
use tar::{EntryType, Header};

use super::pieces::{KEPT_BYTES_MAX, PIECE_BYTES, PIECES_MAX};
use super::secrets::{self, SEALED_BYTES_MAX};
use super::{
    ARTIFACT, About, CONFIG, Error, ImageOf, Kept, MANIFESTS, MANIFESTS_BYTES_MAX, NAME, PIECE, SECRETS, Snapshots,
    annotation, annotations, is_a,
};
use crate::image::name;
use crate::image::store::{DOCUMENT_BYTES_MAX, Using, Workplace, at, digest_of, understand};
use crate::image::unpack::place::Place;
use crate::image::unpack::{Bounds, unpack_files};

/// Of an archive.
const ARCHIVE: Bounds = Bounds {
    bytes: 64 << 30,
    entries: 100_000,
};
/// Of a layer of an image.
const LAYER_BYTES_MAX: u64 = 16 << 30;

/// A file for a Docker Engine, which goes when this is dropped.
pub struct ImageArchive {
    place: Workplace,
    _using: Using,
}

impl ImageArchive {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.place.0.join("archive")
    }
}

impl Snapshots {
    /// Writes a snapshot as an archive that any tool for OCI image layouts reads.
    ///
    /// # Errors
    /// Of a file, or of who takes it.
    pub fn export(&self, kept: &Kept, into: &mut impl Write) -> Result<(), Error> {
        let _using = self.layout.using()?;
        let manifest = self.layout.blob_path(&kept.digest)?;
        let bytes = manifest.metadata().map_err(at(&manifest))?.len();
        let mut entry = Descriptor::new(MediaType::ImageManifest, bytes, kept.digest.clone());
        entry.set_artifact_type(Some(ARTIFACT.into()));
        entry.set_annotations(Some(annotations(&kept.name, &kept.tenant, &kept.about)));
        let mut index = ImageIndex::default();
        index.set_schema_version(2);
        index.set_media_type(Some(MediaType::ImageIndex));
        index.set_manifests(vec![entry]);
        let index = serde_json::to_vec(&index).expect("an index is JSON");
        let out = || at(Path::new("the archive"));
        let mut blobs: Vec<Digest> = kept.blobs().into_keys().collect();
        blobs.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
        append(
            into,
            "oci-layout",
            br#"{"imageLayoutVersion":"1.0.0"}"#.len() as u64,
            &mut &br#"{"imageLayoutVersion":"1.0.0"}"#[..],
        )
        .map_err(out())?;
        append(into, "index.json", index.len() as u64, &mut &index[..]).map_err(out())?;
        for blob in blobs {
            let path = self.layout.blob_path(&blob)?;
            let mut file = File::open(&path).map_err(at(&path))?;
            let bytes = file.metadata().map_err(at(&path))?.len();
            append(into, &format!("blobs/sha256/{}", blob.digest()), bytes, &mut file).map_err(at(&path))?;
        }
        into.write_all(&[0; 1024]).and_then(|()| into.flush()).map_err(out())?;
        Ok(())
    }

    /// An image that a snapshot carries, as an archive that `docker load` takes.
    ///
    /// # Errors
    /// It carries only its name; or of a file.
    pub fn image_archive(&self, image: &ImageOf) -> Result<ImageArchive, Error> {
        let using = self.layout.using()?;
        let wrong = |message: &str| Error::Refused(format!("image {}: {message}", image.name));
        let digest = image.manifest()?.ok_or_else(|| wrong("is not in the snapshot"))?;
        let manifest: ImageManifest = self.layout.document(&digest)?;
        let reference = name::parse(&image.name).map_err(|why| wrong(&why))?;
        let layer_at = |layer: &Descriptor| format!("{}.tar", layer.digest().digest());
        let config_at = format!("{}.json", manifest.config().digest().digest());
        let list = serde_json::json!([{
            "Config": config_at,
            "RepoTags": [reference.whole()],
            "Layers": manifest.layers().iter().map(layer_at).collect::<Vec<String>>(),
        }]);
        let list = list.to_string();
        let archive = ImageArchive {
            place: self.layout.workplace()?,
            _using: using,
        };
        let path = &archive.path();
        let mut into = BufWriter::new(File::create_new(path).map_err(at(path))?);
        append(&mut into, "manifest.json", list.len() as u64, &mut list.as_bytes()).map_err(at(path))?;
        let layers = manifest.layers().iter().map(|layer| (layer_at(layer), layer));
        for (name, blob) in layers.chain([(config_at.clone(), manifest.config())]) {
            let from = self.layout.blob_path(blob.digest())?;
            let mut file = File::open(&from).map_err(at(&from))?;
            let bytes = file.metadata().map_err(at(&from))?.len();
            append(&mut into, &name, bytes, &mut file).map_err(at(path))?;
        }
        into.write_all(&[0; 1024])
            .and_then(|()| into.flush())
            .map_err(at(path))?;
        Ok(archive)
    }

    /// Takes in the snapshots of an archive for a tenant, `name` in place of the name of the only one; their names. One
    /// that is here already stays. With a passphrase only those whose Secrets it opens.
    ///
    /// # Errors
    /// It is no such archive, or something in it is not what it is said to be: none of it has been taken in.
    pub fn import(
        &self,
        mut archive: File,
        tenant: &str,
        name: Option<&str>,
        passphrase: Option<&Passphrase>,
    ) -> Result<Vec<String>, Error> {
        let _using = self.layout.using()?;
        let Workplace(place) = &self.layout.workplace()?;
        // One that is compressed would not be bounded by the bytes that it has.
        unpack_files(&mut archive, place, ARCHIVE).map_err(|source| wrong(&source.to_string()))?;
        let opened = Opened(Place::open(place).map_err(at(place))?);
        let index: ImageIndex = opened.document("index.json", None)?;
        let mut found = Vec::new();
        for entry in index.manifests() {
            let (entry, manifest, about) = opened.check(entry)?;
            let sealed = manifest.layers().iter().find(|layer| is_a(layer, SECRETS));
            if let Some((passphrase, sealed)) = passphrase.zip(sealed) {
                secrets::open(opened.file(sealed.digest())?, passphrase)?;
            }
            found.push((entry, manifest, about));
        }
        match (&found[..], name) {
            ([], _) => return Err(wrong("there is no snapshot in it")),
            ([_, _, ..], Some(_)) => {
                return Err(wrong(
                    "there are several snapshots in it, which have names of their own",
                ));
            }
            _ => {}
        }
        let here = self.list()?;
        let mut names = Vec::new();
        for (entry, manifest, about) in &found {
            let own = annotation(entry, NAME);
            let name = name
                .map(str::to_owned)
                .or(own)
                .ok_or_else(|| wrong("it has no name; give one with --name"))?;
            check_name(&name)?;
            let same = here.iter().find(|kept| kept.tenant == tenant && kept.name == name);
            match same {
                Some(kept) if kept.digest == *entry.digest() => {}
                Some(_) => return Err(Error::Exists(name)),
                None => {
                    let blobs = manifest.layers().iter().chain([manifest.config(), entry]);
                    for blob in blobs.filter(|blob| !self.layout.has(blob.digest())) {
                        let mut file = opened.file(blob.digest())?;
                        self.layout.put(&mut file, Some(blob.digest()), blob.size())?;
                    }
                    self.enter(&name, tenant, about, (entry.digest().clone(), entry.size()))?;
                }
            }
            names.push(name);
        }
        Ok(names)
    }
}

/// An archive that was unpacked.
struct Opened(Place);

impl Opened {
    /// A snapshot of which all is there, is what its digests say, and no more than it may be.
    fn check(&self, entry: &Descriptor) -> Result<(Descriptor, ImageManifest, About), Error> {
        let manifest: ImageManifest = self.document(&path_of(entry.digest())?, Some(entry))?;
        if manifest.artifact_type().as_ref().map(ToString::to_string).as_deref() != Some(ARTIFACT) {
            return Err(wrong(&format!("{} is no snapshot of an application", entry.digest())));
        }
        if !is_a(manifest.config(), CONFIG) {
            return Err(wrong(&format!("{} does not say what it is of", entry.digest())));
        }
        let about: About = self.document(&path_of(manifest.config().digest())?, Some(manifest.config()))?;
        let mut checked = HashMap::new();
        for layer in manifest.layers() {
            let bytes_max = match layer {
                layer if is_a(layer, PIECE) => KEPT_BYTES_MAX,
                layer if is_a(layer, MANIFESTS) => MANIFESTS_BYTES_MAX,
                layer if is_a(layer, SECRETS) => SEALED_BYTES_MAX,
                _ => LAYER_BYTES_MAX,
            };
            if layer.size() > bytes_max {
                return Err(wrong(&format!("{} has more than {bytes_max} bytes", layer.digest())));
            }
            if checked.insert(layer.digest(), layer.size()) != Some(layer.size()) {
                self.verify(layer)?;
            }
        }
        let count_of = |kind: &str| manifest.layers().iter().filter(|layer| is_a(layer, kind)).count();
        if count_of(SECRETS) != usize::from(!about.secrets.is_empty()) {
            return Err(wrong(&format!(
                "it says that {} Secrets are in it, sealed in one piece, and has {} of that",
                about.secrets.len(),
                count_of(SECRETS)
            )));
        }
        let pieces = count_of(PIECE);
        let mut said = 0_usize;
        for volume in &about.volumes {
            check_name(&volume.name)?;
            said = said.saturating_add(volume.pieces);
            if volume.bytes > volume.pieces as u64 * PIECE_BYTES as u64 {
                return Err(wrong(&format!(
                    "volume {} cannot have {} bytes",
                    volume.name, volume.bytes
                )));
            }
        }
        if said != pieces || pieces > PIECES_MAX {
            return Err(wrong(&format!(
                "its volumes have {said} pieces, and there are {pieces}"
            )));
        }
        Ok((entry.clone(), manifest, about))
    }

    fn file(&self, digest: &Digest) -> Result<File, Error> {
        let path = path_of(digest)?;
        let file = self.0.file(&path);
        file.map_err(|error| wrong(&format!("{path}, which it refers to, cannot be read: {error}")))
    }

    fn verify(&self, described: &Descriptor) -> Result<(), Error> {
        let mut file = self.file(described.digest())?;
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        let mut buffer = vec![0; 1 << 16];
        let mut bytes = 0;
        loop {
            let read = file.read(&mut buffer).map_err(|error| wrong(&error.to_string()))?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            context.update(&buffer[..read]);
        }
        let found: String = context
            .finish()
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        match found == described.digest().digest() && bytes == described.size() {
            true => Ok(()),
            false => Err(wrong(&format!(
                "{} is something else, of {bytes} bytes",
                described.digest()
            ))),
        }
    }

    fn document<T: DeserializeOwned>(&self, path: &str, described: Option<&Descriptor>) -> Result<T, Error> {
        let file = self.0.file(path).map_err(|error| wrong(&format!("{path}: {error}")))?;
        let mut text = Vec::new();
        let read = file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut text);
        read.map_err(|error| wrong(&format!("{path}: {error}")))?;
        if text.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(wrong(&format!("{path} has more than {DOCUMENT_BYTES_MAX} bytes")));
        }
        if let Some(described) = described
            && (digest_of(&text) != *described.digest() || text.len() as u64 != described.size())
        {
            return Err(wrong(&format!(
                "{} is something else, of {} bytes",
                described.digest(),
                text.len()
            )));
        }
        Ok(understand(path, &text)?)
    }
}

fn path_of(digest: &Digest) -> Result<String, Error> {
    match digest.algorithm().as_ref() {
        "sha256" => Ok(format!("blobs/sha256/{}", digest.digest())),
        other => Err(wrong(&format!("digests are sha256 here, not {other}"))),
    }
}

/// Names become parts of paths, and words of commands.
fn check_name(name: &str) -> Result<(), Error> {
    let is_good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    match !name.is_empty() && name.len() <= 128 && name.bytes().all(is_good) && !name.starts_with('.') {
        true => Ok(()),
        false => Err(wrong(&format!(
            "{name:?} is no name; one has letters a to z, digits, - and . alone"
        ))),
    }
}

fn append(into: &mut impl Write, path: &str, bytes: u64, content: &mut impl Read) -> std::io::Result<()> {
    let mut header = Header::new_ustar();
    header.as_mut_bytes()[..path.len()].copy_from_slice(path.as_bytes());
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_size(bytes);
    header.set_cksum();
    into.write_all(header.as_bytes())?;
    let copied = std::io::copy(&mut content.take(bytes), into)?;
    if copied < bytes {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    into.write_all(&vec![0; (bytes.next_multiple_of(512) - bytes) as usize])
}

fn wrong(message: &str) -> Error {
    Error::Refused(format!("the archive: {message}"))
}
