//! Images on disk: an OCI image layout (`oci-layout`, `index.json`, `blobs`), and beside it each layer, unpacked once.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oci_spec::distribution::Reference;
use oci_spec::image::{
    Arch, Descriptor, Digest, ImageConfiguration, ImageIndex, ImageManifest, ImageManifestBuilder, MediaType, Os,
};
use ring::digest::{Context, SHA256};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;

use super::name;
use super::unpack::{self, Bounds};
use crate::tree::remove_tree;

/// Of a manifest, an index or a configuration.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 4 << 20;
/// Of a layer, unpacked.
pub(super) const LAYER: Bounds = Bounds {
    bytes: 16 << 30,
    entries: 1_000_000,
};
/// Of a layer, unpacked, for each byte that it had when it was brought, and however small it was then: more is a bomb.
const INFLATION_MAX: u64 = 100;
const INFLATED_LEAST: u64 = 256 << 20;
/// An image's name stands there, in `index.json`.
const NAME: &str = "org.opencontainers.image.ref.name";
/// What is not whole yet begins so.
const NEW: &str = ".new-";
/// Held while one file takes the place of another.
const TURN: &str = "index.lock";
const BUFFER_BYTES: usize = 64 << 10;

/// The images of one edge. Several programs may have them at once, and take turns by locks on files.
#[derive(Debug)]
pub struct Images {
    root: PathBuf,
}

/// Held while something is taken in or made use of that nothing refers to yet: nothing is cleared away meanwhile.
#[derive(Debug)]
pub struct Using(#[expect(dead_code, reason = "the lock goes with the file")] File);

/// A directory that goes when this is dropped.
pub(crate) struct Workplace(pub(crate) PathBuf);

impl Drop for Workplace {
    fn drop(&mut self) {
        // What cannot be removed goes with the next start.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An image that is there.
#[derive(Clone, Debug)]
pub struct Image {
    /// Of its manifest, by which it is the same wherever it is.
    pub digest: Digest,
    /// What is run of it, and how.
    pub configuration: ImageConfiguration,
    layers: Vec<Descriptor>,
}

/// Why an image cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none of this name.
    #[error("no image {0:?} is here")]
    Absent(String),
    /// It is for another kind of machine.
    #[error("{name:?} is for {os}/{arch}; this is linux/{here}")]
    OtherMachine {
        /// Its name.
        name: String,
        /// What it is for.
        os: Os,
        /// What it is for.
        arch: Arch,
        /// What this is.
        here: Arch,
    },
    /// What was brought is not what was asked for.
    #[error("{what} has the digest {found} where {wanted} was expected")]
    OtherDigest {
        /// What was brought.
        what: String,
        /// What it has.
        found: String,
        /// What it should have.
        wanted: String,
    },
    /// It is more than it may be.
    #[error("{what} has more than {bytes_max} bytes")]
    TooBig {
        /// What it is.
        what: String,
        /// What it may have.
        bytes_max: u64,
    },
    /// It cannot be understood.
    #[error("{what}: {message}")]
    Wrong {
        /// What it is.
        what: String,
        /// What is wrong with it.
        message: String,
    },
    /// A layer could not be unpacked.
    #[error("layer {layer}: {source}")]
    Layer {
        /// Its digest.
        layer: String,
        /// What was wrong with it.
        source: unpack::Error,
    },
    /// A file.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { path, source }
}

impl Images {
    /// Those in the directory `root`, which is made where it is not there. What an earlier program left half done goes,
    /// unless another is at work there.
    ///
    /// # Errors
    /// Of the directory.
    pub fn open(root: &Path) -> Result<Images, Error> {
        let images = Images { root: root.to_owned() };
        for directory in [images.blobs(), images.unpacked()] {
            fs::create_dir_all(&directory).map_err(at(&directory))?;
        }
        if let Some(_alone) = images.alone()? {
            for directory in [images.blobs(), images.unpacked(), root.to_owned()] {
                remove_unfinished(&directory).map_err(at(&directory))?;
            }
        }
        let layout = root.join("oci-layout");
        if !layout.exists() {
            let _turn = images.lock(TURN, FlockOperation::LockExclusive)?;
            replace(&layout, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
        }
        Ok(images)
    }

    /// Keeps what is there as it is until this is dropped.
    ///
    /// # Errors
    /// Of the lock's file.
    pub fn using(&self) -> Result<Using, Error> {
        let lock = self.lock("lock", FlockOperation::LockShared)?;
        Ok(Using(lock.expect("it was waited for")))
    }

    /// `None`: something is being taken in or made use of.
    pub(crate) fn alone(&self) -> Result<Option<File>, Error> {
        self.lock("lock", FlockOperation::NonBlockingLockExclusive)
    }

    fn lock(&self, name: &str, how: FlockOperation) -> Result<Option<File>, Error> {
        let path = self.root.join(name);
        let file = File::create(&path).map_err(at(&path))?;
        match flock(&file, how) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(at(&path)(errno.into())),
        }
    }

    /// A directory for what is to be taken in, which goes when it is dropped, or with the next start.
    pub(crate) fn workplace(&self) -> Result<Workplace, Error> {
        let path = self.root.join(format!("{NEW}{:016x}", rand::random::<u64>()));
        fs::create_dir(&path).map_err(at(&path))?;
        Ok(Workplace(path))
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.root.join("blobs").join("sha256")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where a layer of this content is, unpacked.
    pub(super) fn unpacked_layer(&self, content: &str) -> Option<PathBuf> {
        Some(self.unpacked().join(content.strip_prefix("sha256:")?))
    }

    fn unpacked(&self) -> PathBuf {
        self.root.join("layers")
    }

    /// Removes what no name and no container refers to; the bytes of files that were removed. `in_use` says which
    /// directories of layers containers have. `None`: something is being taken in, and all is left as it is.
    ///
    /// # Errors
    /// Of a file or directory that could not be removed, or of an image whose documents cannot be read: they say what
    /// it refers to.
    pub fn collect(&self, in_use: impl FnOnce() -> io::Result<HashSet<PathBuf>>) -> Result<Option<u64>, Error> {
        match self.alone()? {
            Some(alone) => self.collect_alone(&alone, in_use).map(Some),
            None => Ok(None),
        }
    }

    /// Nobody else takes anything in or makes use of it.
    pub(super) fn collect_alone(
        &self,
        _alone: &File,
        in_use: impl FnOnce() -> io::Result<HashSet<PathBuf>>,
    ) -> Result<u64, Error> {
        let (mut blobs, mut layers) = (HashSet::new(), HashSet::new());
        for digest in self.names()?.into_values() {
            let manifest: ImageManifest = self.document(&digest)?;
            let configuration: ImageConfiguration = self.document(manifest.config().digest())?;
            for blob in manifest.layers().iter().chain([manifest.config()]) {
                blobs.insert(self.blob_path(blob.digest())?);
            }
            blobs.insert(self.blob_path(&digest)?);
            for content in configuration.rootfs().diff_ids() {
                layers.extend(self.unpacked_layer(content));
            }
        }
        layers.extend(in_use().map_err(at(&self.root))?);
        Ok(remove_others(&self.blobs(), &blobs)? + remove_others(&self.unpacked(), &layers)?)
    }

    /// Bytes that the layers of an image have, as they are kept.
    #[must_use]
    pub fn bytes(&self, image: &Image) -> u64 {
        image.layers.iter().map(Descriptor::size).sum()
    }

    /// Names, in full, and digests of the images that are here.
    ///
    /// # Errors
    /// Of reading the list.
    pub fn names(&self) -> Result<HashMap<String, Digest>, Error> {
        let manifests = self.manifests()?.into_iter();
        Ok(manifests.map(|(name, digest, _)| (name, digest)).collect())
    }

    /// Names, in full, digests of manifests, and their bytes.
    pub(super) fn manifests(&self) -> Result<Vec<(String, Digest, u64)>, Error> {
        let index = self.read_index()?;
        let named = index.manifests().iter().filter_map(|manifest| {
            let name = name_of(manifest)?.to_owned();
            Some((name, manifest.digest().clone(), manifest.size()))
        });
        Ok(named.collect())
    }

    /// The image of this name, as far as it is in its documents.
    ///
    /// # Errors
    /// There is none, or it is not for this machine.
    pub fn find(&self, name: &str) -> Result<Image, Error> {
        let wanted = in_full(name)?;
        let mut names = self.names()?;
        let digest = match wanted.digest() {
            // One for several kinds of machines has another digest than what is here of it.
            Some(digest) => match names.remove(&wanted.whole()) {
                Some(named) => Some(named),
                None => names.into_values().find(|known| known.as_ref() == digest),
            },
            None => names.remove(&wanted.whole()),
        };
        let digest = digest.ok_or_else(|| Error::Absent(name.to_owned()))?;
        let manifest: ImageManifest = self.document(&digest)?;
        let configuration: ImageConfiguration = self.document(manifest.config().digest())?;
        let (os, arch, here) = (configuration.os(), configuration.architecture(), Arch::default());
        if !is_for_this_machine(os, arch) {
            return Err(Error::OtherMachine {
                name: name.to_owned(),
                os: os.clone(),
                arch: arch.clone(),
                here,
            });
        }
        let (layers, contents) = (manifest.layers().len(), configuration.rootfs().diff_ids().len());
        if layers != contents {
            return Err(Error::Wrong {
                what: name.to_owned(),
                message: format!("its manifest has {layers} layers, its configuration {contents}"),
            });
        }
        Ok(Image {
            digest,
            configuration,
            layers: manifest.layers().clone(),
        })
    }

    /// Gives an image, whose manifest is here, a name; one that had it has it no more.
    ///
    /// # Errors
    /// Of the list.
    pub fn name(&self, name: &str, manifest: &Digest, bytes: u64) -> Result<(), Error> {
        let name = in_full(name)?.whole();
        self.change_index(|manifests| {
            manifests.retain(|other| name_of(other) != Some(&name));
            let mut named = Descriptor::new(MediaType::ImageManifest, bytes, manifest.clone());
            named.set_annotations(Some(HashMap::from([(NAME.to_owned(), name.clone())])));
            manifests.push(named);
        })
    }

    /// Takes a name away from its image; whether there was one.
    ///
    /// # Errors
    /// Of the list.
    pub fn forget(&self, name: &str) -> Result<bool, Error> {
        let name = in_full(name)?.whole();
        let mut was_there = false;
        self.change_index(|manifests| {
            let before = manifests.len();
            manifests.retain(|other| name_of(other) != Some(&name));
            was_there = manifests.len() < before;
        })?;
        Ok(was_there)
    }

    pub(crate) fn change_index(&self, change: impl FnOnce(&mut Vec<Descriptor>)) -> Result<(), Error> {
        let _turn = self.lock(TURN, FlockOperation::LockExclusive)?;
        let mut index = self.read_index()?;
        let mut manifests = index.manifests().clone();
        change(&mut manifests);
        index.set_manifests(manifests);
        let text = serde_json::to_vec(&index).expect("an index is JSON");
        replace(&self.root.join("index.json"), &text)
    }

    pub(crate) fn read_index(&self) -> Result<ImageIndex, Error> {
        let path = self.root.join("index.json");
        match fs::read(&path) {
            Ok(text) => understand(&path.display().to_string(), &text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ImageIndex::default()),
            Err(error) => Err(at(&path)(error)),
        }
    }

    /// Keeps what is read, if it is what was expected; its digest and its length.
    ///
    /// # Errors
    /// It is something else, it is too much, or it cannot be read or kept: nothing of it is.
    pub fn put(
        &self,
        content: &mut impl Read,
        wanted: Option<&Digest>,
        bytes_max: u64,
    ) -> Result<(Digest, u64), Error> {
        let what = || wanted.map_or_else(|| "what was brought".to_owned(), Digest::to_string);
        let new = self.blobs().join(format!("{NEW}{:016x}", rand::random::<u64>()));
        let mut file = File::create_new(&new).map_err(at(&new))?;
        let kept = copy_hashed(content, &mut file, bytes_max).map_err(at(&new));
        let kept = kept.and_then(|(digest, bytes)| match wanted {
            _ if bytes > bytes_max => Err(Error::TooBig {
                what: what(),
                bytes_max,
            }),
            Some(wanted) if *wanted != digest => Err(Error::OtherDigest {
                what: "what was brought".to_owned(),
                found: digest.to_string(),
                wanted: wanted.to_string(),
            }),
            _ => {
                let path = self.blob_path(&digest)?;
                file.sync_all().map_err(at(&new))?;
                fs::rename(&new, &path).map_err(at(&path))?;
                sync_directory(&path)?;
                Ok((digest, bytes))
            }
        });
        if kept.is_err() {
            let _ = fs::remove_file(&new);
        }
        kept
    }

    /// Whether it is here.
    #[must_use]
    pub fn has(&self, blob: &Digest) -> bool {
        self.blob_path(blob).is_ok_and(|path| path.exists())
    }

    pub(crate) fn blob_path(&self, blob: &Digest) -> Result<PathBuf, Error> {
        Ok(self.blobs().join(sha256(blob)?))
    }

    /// A JSON document that is here.
    pub(crate) fn document<T: DeserializeOwned>(&self, blob: &Digest) -> Result<T, Error> {
        let path = self.blob_path(blob)?;
        let file = File::open(&path).map_err(at(&path))?;
        let mut text = Vec::new();
        file.take(DOCUMENT_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(at(&path))?;
        if text.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(Error::TooBig {
                what: blob.to_string(),
                bytes_max: DOCUMENT_BYTES_MAX,
            });
        }
        understand(blob.as_ref(), &text)
    }

    /// The directories of an image's layers, unpacked, the lowest first.
    ///
    /// # Errors
    /// One of them is not as it has to be, or there is no room.
    pub fn layers(&self, image: &Image) -> Result<Vec<PathBuf>, Error> {
        let contents = image.configuration.rootfs().diff_ids();
        let layers = image.layers.iter().zip(contents);
        layers.map(|(layer, content)| self.layer(layer, content)).collect()
    }

    fn layer(&self, layer: &Descriptor, content: &str) -> Result<PathBuf, Error> {
        let content = Digest::from_str(content).map_err(|error| Error::Wrong {
            what: content.to_owned(),
            message: error.to_string(),
        })?;
        let path = self.unpacked().join(sha256(&content)?);
        if path.exists() {
            return Ok(path);
        }
        let _turn = self.lock("layers.lock", FlockOperation::LockExclusive)?;
        // Somebody else may have had the turn before.
        if path.exists() {
            return Ok(path);
        }
        let new = self.unpacked().join(format!("{NEW}{:016x}", rand::random::<u64>()));
        fs::create_dir(&new).map_err(at(&new))?;
        let made = self
            .unpack(layer, &content, &new)
            .and_then(|()| fs::rename(&new, &path).map_err(at(&path)));
        if made.is_err() {
            let _ = fs::remove_dir_all(&new);
        }
        made.map(|()| path)
    }

    fn unpack(&self, layer: &Descriptor, content: &Digest, into: &Path) -> Result<(), Error> {
        let blob = self.blob_path(layer.digest())?;
        let wrong = |source: unpack::Error| Error::Layer {
            layer: layer.digest().to_string(),
            source,
        };
        let file = File::open(&blob).map_err(at(&blob))?;
        let brought = file.metadata().map_err(at(&blob))?.len();
        let bounds = Bounds {
            bytes: LAYER.bytes.min(INFLATED_LEAST + brought.saturating_mul(INFLATION_MAX)),
            ..LAYER
        };
        let mut hashed = Hashed {
            content: plain(file).map_err(at(&blob))?,
            context: Context::new(&SHA256),
        };
        unpack::unpack(&mut hashed, into, bounds).map_err(wrong)?;
        // An archive has an end of zeros, which need not be read to unpack it.
        let rest = io::copy(&mut (&mut hashed).take(bounds.bytes), &mut io::sink());
        rest.map_err(|error| wrong(error.into()))?;
        let found = digest(hashed.context);
        if found != *content {
            return Err(Error::OtherDigest {
                what: format!("the content of layer {}", layer.digest()),
                found: found.to_string(),
                wanted: content.to_string(),
            });
        }
        // All of it is on disk before it has its name.
        let directory = File::open(into).map_err(at(into))?;
        rustix::fs::syncfs(&directory).map_err(|errno| at(into)(errno.into()))
    }
}

pub(super) fn is_for_this_machine(os: &Os, arch: &Arch) -> bool {
    *os == Os::Linux && *arch == Arch::default()
}

/// Such as `docker.io/library/nginx:latest` for `nginx`.
pub(super) fn in_full(name: &str) -> Result<Reference, Error> {
    name::parse(name).map_err(|message| Error::Wrong {
        what: format!("image {name:?}"),
        message,
    })
}

fn name_of(manifest: &Descriptor) -> Option<&str> {
    manifest.annotations().as_ref()?.get(NAME).map(String::as_str)
}

/// A manifest of these, as it is kept.
pub(super) fn manifest(config: (Digest, u64), layers: Vec<Descriptor>) -> Vec<u8> {
    let (digest, bytes) = config;
    let manifest = ImageManifestBuilder::default()
        .schema_version(2_u32)
        .media_type(MediaType::ImageManifest)
        .config(Descriptor::new(MediaType::ImageConfig, bytes, digest))
        .layers(layers)
        .build();
    serde_json::to_vec(&manifest.expect("all of it is there")).expect("a manifest is JSON")
}

/// What a digest is as the name of a file; others than SHA-256 nobody needs.
pub(crate) fn sha256(digest: &Digest) -> Result<&str, Error> {
    match digest.algorithm().as_ref() {
        "sha256" => Ok(digest.digest()),
        other => Err(Error::Wrong {
            what: digest.to_string(),
            message: format!("digests are sha256 here, not {other}"),
        }),
    }
}

/// Without the compression that it may have, by its first bytes.
pub(super) fn plain(mut file: impl Read + Seek + 'static) -> io::Result<Box<dyn Read>> {
    let mut magic = [0; 4];
    let read = file.read(&mut magic)?;
    file.rewind()?;
    let file = io::BufReader::with_capacity(BUFFER_BYTES, file);
    Ok(match &magic[..read] {
        [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::Decoder::with_buffer(file)?),
        _ => Box::new(file),
    })
}

struct Hashed<R> {
    content: R,
    context: Context,
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.content.read(buffer)?;
        self.context.update(&buffer[..read]);
        Ok(read)
    }
}

/// Copies no more than one byte beyond `bytes_max`.
fn copy_hashed(content: &mut impl Read, file: &mut File, bytes_max: u64) -> io::Result<(Digest, u64)> {
    let mut hashed = Hashed {
        content: content.take(bytes_max.saturating_add(1)),
        context: Context::new(&SHA256),
    };
    let bytes = io::copy(&mut hashed, file)?;
    Ok((digest(hashed.context), bytes))
}

pub(crate) fn digest_of(content: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(content);
    digest(context)
}

fn digest(context: Context) -> Digest {
    let bytes = context.finish();
    let hex: String = bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Digest::from_str(&format!("sha256:{hex}")).expect("64 digits are a digest")
}

pub(crate) fn understand<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(text).map_err(|error| Error::Wrong {
        what: what.to_owned(),
        message: error.to_string(),
    })
}

fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(NEW.as_bytes()) {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Bytes of what is not there any more.
pub(crate) fn remove_others(directory: &Path, kept: &HashSet<PathBuf>) -> Result<u64, Error> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory).map_err(at(directory))? {
        let path = entry.map_err(at(directory))?.path();
        if !kept.contains(&path) {
            bytes += bytes_below(&path).map_err(at(&path))?;
            remove_whole(&path).map_err(at(&path))?;
        }
    }
    Ok(bytes)
}

/// Nothing that has its name is ever a part of what it was: whoever is killed meanwhile leaves what goes with the next
/// start.
fn remove_whole(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return fs::remove_file(path);
    }
    let gone = path.with_file_name(format!("{NEW}{:016x}", rand::random::<u64>()));
    fs::rename(path, &gone)?;
    remove_tree(&gone)
}

/// Of all files, as long as they are. What goes meanwhile, or is too deep to be named, does not count.
pub(crate) fn bytes_below(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        match path.symlink_metadata() {
            Ok(about) if about.is_dir() => match fs::read_dir(&path) {
                Ok(entries) => left.extend(entries.filter_map(Result::ok).map(|entry| entry.path())),
                Err(error) if is_passable(&error) => {}
                Err(error) => return Err(error),
            },
            Ok(about) => bytes += about.len(),
            Err(error) if is_passable(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn is_passable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidFilename)
}

/// All of it or nothing, also across a power cut.
pub(crate) fn replace(path: &Path, text: &[u8]) -> Result<(), Error> {
    let new = path.with_extension("new");
    let mut file = File::create(&new).map_err(at(&new))?;
    file.write_all(text).and_then(|()| file.sync_all()).map_err(at(&new))?;
    fs::rename(&new, path).map_err(at(path))?;
    sync_directory(path)
}

pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    let directory = path.parent().expect("a file has a directory");
    File::open(directory)
        .and_then(|directory| directory.sync_all())
        .map_err(at(directory))
}

#[cfg(test)]
mod tests;
