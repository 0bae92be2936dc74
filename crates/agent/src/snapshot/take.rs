//! A snapshot is taken in two passes: what can be read while the application runs is, and only what has changed since
//! while it stands still.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oci_spec::image::{Descriptor, Digest, ImageManifest, ImageManifestBuilder, MediaType};
use serde::{Deserialize, Serialize};

use super::pieces::{Known, PIECES_MAX, Piece, Pieces, Stage};
use super::read::{self, Files, Pass, Volume};
use super::{
    ARTIFACT, About, CONFIG, Error, ImageOf, MANIFESTS, MANIFESTS_BYTES_MAX, PIECE, SECRETS, Secrets, Snapshots,
    VolumeOf,
};
use crate::image::archive;
use crate::image::store::{DOCUMENT_BYTES_MAX, Images, Using, Workplace, at, replace, sync_directory, understand};
use crate::local::volumes::kept_at;

/// What is to be taken.
#[derive(Clone, Debug)]
pub struct Request {
    /// Its name.
    pub name: String,
    /// Whose application.
    pub tenant: String,
    /// The application.
    pub application: String,
    /// The time, in s since 1970 UTC.
    pub created_s: i64,
    /// Whether its schedule asks for it.
    pub is_scheduled: bool,
    /// What was run in the application before.
    pub hook: Option<String>,
    /// Its manifests, as YAML.
    pub manifests: String,
    /// Its Secrets; `None`: they are not in it.
    pub secrets: Option<Secrets>,
    /// By their names.
    pub images: Vec<(String, ImageWanted)>,
    /// Claims of its volumes.
    pub claims: Vec<String>,
    /// What is not in it, in words.
    pub left_out: Vec<String>,
}

/// Where an image is that a snapshot is to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImageWanted {
    /// In the edge's own store.
    OfEdge,
    /// A Docker Engine has it: brought from there, or in a snapshot already. `None`: only its name is taken.
    OfEngine(Option<OfEngine>),
}

/// An image of a Docker Engine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfEngine {
    /// What the engine calls it: the digest of its configuration, or of its manifest.
    pub id: String,
    /// Of its manifest here.
    pub digest: String,
}

/// Images that were brought from a Docker Engine to be in a snapshot. What of them is in none goes with this.
pub struct Brought {
    snapshots: Snapshots,
    images: Images,
    place: Workplace,
    /// What snapshots have of them stays.
    _using: Using,
}

impl Brought {
    /// Nothing yet.
    ///
    /// # Errors
    /// Of a file.
    pub fn new(snapshots: Snapshots) -> Result<Self, Error> {
        let using = snapshots.layout.using()?;
        let place = snapshots.layout.workplace()?;
        Ok(Brought {
            images: Images::open(&place.0.join("images"))?,
            snapshots,
            place,
            _using: using,
        })
    }

    /// The manifest of an image that a snapshot of the tenant has already, and an engine called `id`.
    ///
    /// # Errors
    /// Of a file.
    pub fn known(&self, tenant: &str, id: &str) -> Result<Option<String>, Error> {
        let own = self.snapshots.list()?.into_iter().filter(|kept| kept.tenant == tenant);
        let mut images = own.flat_map(|kept| kept.about.images);
        let is_whole = |image: &ImageOf| {
            let manifest = image.manifest().ok().flatten();
            manifest.is_some_and(|digest| self.snapshots.layout.has(&digest))
        };
        let found = images.find(|image| image.engine_id.as_deref() == Some(id) && is_whole(image));
        Ok(found.and_then(|image| image.digest))
    }

    /// Where an archive of `docker save` is to be written for [`Brought::take_in`].
    #[must_use]
    pub fn archive(&self) -> PathBuf {
        self.place.0.join("archive")
    }

    /// How many bytes such an archive may have: it is unpacked, and taken in, beside what the disk has.
    ///
    /// # Errors
    /// Of the disk.
    pub fn archive_bytes_max(&self) -> Result<u64, Error> {
        let disk = rustix::fs::statvfs(&self.place.0).map_err(|errno| Error::of(&self.place.0, errno.into()))?;
        Ok(disk.f_bavail * disk.f_frsize / 4)
    }

    /// Takes in the image of this name in the archive; the digest of its manifest.
    ///
    /// # Errors
    /// It is no such archive, or of a file.
    pub fn take_in(&self, name: &str) -> Result<String, Error> {
        let path = self.archive();
        archive::import(&self.images, File::open(&path).map_err(at(&path))?, Some(name))?;
        Ok(self.images.find(name)?.digest.to_string())
    }
}

/// What is known of a volume from the last time that it was read.
#[derive(Default, Serialize, Deserialize)]
struct Seen {
    files: Files,
    pieces: Known,
}

/// A snapshot that is being taken. Dropped, it leaves nothing.
pub struct Draft {
    request: Request,
    volumes: PathBuf,
    snapshots: Snapshots,
    place: Workplace,
    known: BTreeMap<String, Known>,
    files: BTreeMap<String, Files>,
    taken: Vec<(String, Volume, Vec<Piece>, u64)>,
    images: Vec<ImageOf>,
    blobs: Vec<Descriptor>,
    new_bytes: u64,
    _using: Using,
}

impl Draft {
    /// Reads, of volumes in the directory `volumes`, what it can while the application runs; images are those of the
    /// edge and those that were brought.
    ///
    /// # Errors
    /// There is one of this name; or of a file.
    pub fn begin(
        snapshots: Snapshots,
        images: &Images,
        brought: &Brought,
        volumes: &Path,
        request: Request,
    ) -> Result<Self, Error> {
        let using = snapshots.layout.using()?;
        let kept = snapshots.list()?;
        if kept
            .iter()
            .any(|kept| kept.tenant == request.tenant && kept.name == request.name)
        {
            return Err(Error::Exists(request.name));
        }
        if request.manifests.len() as u64 > MANIFESTS_BYTES_MAX {
            return Err(Error::TooMuch(format!(
                "its manifests have {} bytes, and may have {MANIFESTS_BYTES_MAX}",
                request.manifests.len()
            )));
        }
        let mut draft = Draft {
            place: snapshots.layout.workplace()?,
            volumes: volumes.to_owned(),
            snapshots,
            known: BTreeMap::new(),
            files: BTreeMap::new(),
            taken: Vec::new(),
            images: Vec::new(),
            blobs: Vec::new(),
            new_bytes: 0,
            _using: using,
            request,
        };
        draft.take_images(images, &brought.images)?;
        for claim in draft.request.claims.clone() {
            let seen = draft.seen(&claim);
            draft.known.insert(claim.clone(), seen.pieces);
            draft.files.insert(claim, seen.files);
        }
        draft.read(Pass::First)?;
        Ok(draft)
    }

    /// Reads what has changed since it was begun, while all that writes stands still.
    ///
    /// # Errors
    /// A file is such that no snapshot has it, or it changes; or of a file.
    pub fn read_again(&mut self) -> Result<(), Error> {
        self.taken.clear();
        self.read(Pass::Last)
    }

    /// Keeps it, once all of it is on disk. `paused_ms`: for so long the application stood still. Bytes that it took.
    ///
    /// # Errors
    /// Of a file.
    pub fn finish(mut self, paused_ms: Option<u64>) -> Result<u64, Error> {
        let about = self.about(paused_ms);
        let config = self.put(&serde_json::to_vec(&about).expect("a configuration is JSON"))?;
        let text = self.request.manifests.clone();
        let mut layers = vec![described(MANIFESTS, &self.put(text.as_bytes())?)?];
        if let Some(secrets) = self.request.secrets.take() {
            layers.push(described(SECRETS, &self.put(&secrets.sealed)?)?);
        }
        layers.append(&mut self.blobs);
        for piece in self.taken.iter().flat_map(|(_, _, pieces, _)| pieces) {
            layers.push(described(PIECE, piece)?);
        }
        let manifest = ImageManifestBuilder::default()
            .schema_version(2_u32)
            .media_type(MediaType::ImageManifest)
            .artifact_type(ARTIFACT)
            .config(described(CONFIG, &config)?)
            .layers(layers)
            .build();
        let text = serde_json::to_vec(&manifest.expect("all of it is there")).expect("a manifest is JSON");
        if text.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(Error::TooMuch(format!(
                "its manifest has more than {DOCUMENT_BYTES_MAX} bytes: its volumes come to more than {PIECES_MAX} pieces"
            )));
        }
        let manifest = self.put(&text)?;
        self.move_in()?;
        let Request { name, tenant, .. } = &self.request;
        let digest = described(CONFIG, &manifest)?.digest().clone();
        self.snapshots.enter(name, tenant, &about, (digest, manifest.bytes))?;
        self.remember();
        Ok(self.new_bytes)
    }

    fn about(&self, paused_ms: Option<u64>) -> About {
        let request = &self.request;
        let mut left_out = request.left_out.clone();
        let volume = |(name, volume, pieces, bytes): &(String, Volume, Vec<Piece>, u64)| VolumeOf {
            name: name.clone(),
            bytes: *bytes,
            entries: volume.entries,
            pieces: pieces.len(),
            mode: volume.mode,
            uid: volume.uid,
            gid: volume.gid,
        };
        for (name, volume, ..) in &self.taken {
            let sockets = volume.sockets.iter();
            left_out.extend(sockets.map(|path| format!("socket {path} in volume {name}")));
        }
        About {
            tenant: request.tenant.clone(),
            application: request.application.clone(),
            created_s: request.created_s,
            is_scheduled: request.is_scheduled,
            hook: request.hook.clone(),
            paused_ms,
            images: self.images.clone(),
            volumes: self.taken.iter().map(volume).collect(),
            secrets: request
                .secrets
                .iter()
                .flat_map(|secrets| secrets.names.clone())
                .collect(),
            left_out,
        }
    }

    fn put(&mut self, content: &[u8]) -> Result<Piece, Error> {
        self.staged(Known::new(), |stage| stage.put(content))
            .map(|(piece, _)| piece)
    }

    fn staged<T>(
        &mut self,
        known: Known,
        work: impl FnOnce(&mut Stage) -> Result<T, Error>,
    ) -> Result<(T, Known), Error> {
        let mut stage = Stage {
            layout: &self.snapshots.layout,
            place: &self.place.0,
            known,
            new_bytes: 0,
        };
        let done = work(&mut stage)?;
        self.new_bytes += stage.new_bytes;
        Ok((done, stage.known))
    }

    fn read(&mut self, pass: Pass) -> Result<(), Error> {
        for claim in self.request.claims.clone() {
            let directory = kept_at(&self.volumes, &self.request.tenant, &claim);
            if !directory.is_dir() {
                let why = format!("volume {claim}: nothing has been kept in it yet");
                if pass == Pass::Last {
                    self.request.left_out.push(why);
                }
                continue;
            }
            let (known, before) = (
                self.known.remove(&claim).unwrap_or_default(),
                self.files.remove(&claim).unwrap_or_default(),
            );
            let (read, known) = self.staged(known, |stage| {
                let mut pieces = Pieces::new(stage);
                let volume = read::read(&directory, &mut pieces, &before, pass)?;
                Ok((volume, pieces.done, pieces.bytes))
            })?;
            let (volume, pieces, bytes) = read;
            self.known.insert(claim.clone(), known);
            self.files.insert(claim.clone(), volume.files.clone());
            self.taken.push((claim, volume, pieces, bytes));
        }
        Ok(())
    }

    /// What of them is elsewhere is taken in without being copied, where it can be.
    fn take_images(&mut self, of_edge: &Images, brought: &Images) -> Result<(), Error> {
        let _using = of_edge.using()?;
        for (name, wanted) in self.request.images.clone() {
            let (digest, engine_id) = match &wanted {
                ImageWanted::OfEdge => (Some(of_edge.find(&name)?.digest), None),
                ImageWanted::OfEngine(None) => (None, None),
                ImageWanted::OfEngine(Some(image)) => (Digest::from_str(&image.digest).ok(), Some(image.id.clone())),
            };
            self.images.push(ImageOf {
                name,
                digest: digest.as_ref().map(Digest::to_string),
                engine_id,
            });
            let Some(digest) = digest else { continue };
            let images = match wanted {
                ImageWanted::OfEdge => of_edge,
                ImageWanted::OfEngine(_) if brought.has(&digest) => brought,
                ImageWanted::OfEngine(_) => &Images::open(self.snapshots.layout.root())?,
            };
            let manifest: ImageManifest = images.document(&digest)?;
            let path = images.blob_path(&digest)?;
            let bytes = path.metadata().map_err(at(&path))?.len();
            let own = Descriptor::new(MediaType::ImageManifest, bytes, digest);
            for blob in [&own, manifest.config()].into_iter().chain(manifest.layers()) {
                self.take_blob(images, blob.digest())?;
                self.blobs.push(blob.clone());
            }
        }
        Ok(())
    }

    fn take_blob(&mut self, images: &Images, blob: &Digest) -> Result<(), Error> {
        let (from, to) = (images.blob_path(blob)?, self.place.0.join(blob.digest()));
        if self.snapshots.layout.has(blob) || to.exists() {
            return Ok(());
        }
        if fs::hard_link(&from, &to).is_err() {
            self.new_bytes += fs::copy(&from, &to).map_err(at(&to))?;
        }
        Ok(())
    }

    /// All is on disk before it has its name.
    fn move_in(&self) -> Result<(), Error> {
        let Workplace(place) = &self.place;
        let directory = File::open(place).map_err(at(place))?;
        rustix::fs::syncfs(&directory).map_err(|errno| Error::of(place, errno.into()))?;
        let blobs = self.snapshots.layout.blobs();
        for entry in fs::read_dir(place).map_err(at(place))? {
            let entry = entry.map_err(at(place))?;
            let path = blobs.join(entry.file_name());
            fs::rename(entry.path(), &path).map_err(at(&path))?;
        }
        Ok(sync_directory(&blobs.join("any"))?)
    }

    fn seen(&self, claim: &str) -> Seen {
        let path = self.snapshots.seen_at(&self.request.tenant, claim);
        let read = fs::read(&path).ok();
        let seen = read.and_then(|text| understand::<Seen>(&path.display().to_string(), &text).ok());
        let mut seen = seen.unwrap_or_default();
        // What was removed meanwhile is not there.
        let is_here = |piece: &Piece| {
            let digest = piece.digest.parse().ok();
            digest.is_some_and(|digest| self.snapshots.layout.has(&digest))
        };
        seen.pieces.retain(|_, piece| is_here(piece));
        seen.files.retain(|_, file| file.pieces.iter().all(is_here));
        seen
    }

    /// Without it the next one reads more; that is no reason to fail.
    fn remember(&mut self) {
        for (claim, _, pieces, _) in &self.taken {
            let path = self.snapshots.seen_at(&self.request.tenant, claim);
            let mut known = self.known.remove(claim).unwrap_or_default();
            let used: std::collections::HashSet<&str> = pieces.iter().map(|piece| &*piece.digest).collect();
            known.retain(|_, piece| used.contains(&*piece.digest));
            let seen = Seen {
                files: self.files.remove(claim).unwrap_or_default(),
                pieces: known,
            };
            let text = serde_json::to_vec(&seen).expect("what was seen is JSON");
            let made = path.parent().map_or(Ok(()), fs::create_dir_all);
            if let Err(error) = made.map_err(at(&path)).and_then(|()| replace(&path, &text)) {
                tracing::warn!(%error, "the next snapshot reads all of the volume again");
            }
        }
    }
}

fn described(media_type: &str, piece: &Piece) -> Result<Descriptor, Error> {
    let digest: Digest = piece
        .digest
        .parse()
        .map_err(|_| Error::Refused(format!("{} is no digest", piece.digest)))?;
    Ok(Descriptor::new(media_type.into(), piece.bytes, digest))
}
