//! Snapshots: an application's manifests, images and volumes as one OCI artifact each, in an OCI image layout, where
//! what is the same in several is kept once. Each is whole without the others.

mod archive;
mod pieces;
mod read;
mod restore;
mod secrets;
mod take;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use oci_spec::image::{Descriptor, Digest, ImageManifest, MediaType};
use serde::{Deserialize, Serialize};

pub use self::restore::Target;
pub use self::secrets::Secrets;
pub use self::take::{Brought, Draft, ImageWanted, OfEngine, Request};
use crate::image::store::{self, Images, Using, at, remove_others};
use crate::image::unpack;

/// What kind of artifact it is.
const ARTIFACT: &str = "application/vnd.selvedge.snapshot.v1";
/// Of its configuration: [`About`].
const CONFIG: &str = "application/vnd.selvedge.snapshot.config.v1+json";
/// Of its manifests.
const MANIFESTS: &str = "application/vnd.selvedge.manifests.v1+yaml";
/// Of the manifests of its Secrets, in an envelope of [`seal`].
const SECRETS: &str = "application/vnd.selvedge.secrets.v1+sealed";
/// Of a piece of a volume's archive.
const PIECE: &str = "application/vnd.selvedge.volume.v1.tar+zstd";
const NAME: &str = "org.opencontainers.image.ref.name";
const CREATED: &str = "org.opencontainers.image.created";
const TENANT: &str = "dev.selvedge.tenant";
const APPLICATION: &str = "dev.selvedge.application";
/// What is known of volumes from the last time they were read, beside the layout.
const SEEN: &str = "seen";
/// Of a snapshot's manifests.
const MANIFESTS_BYTES_MAX: u64 = 4 << 20;

/// The snapshots of one edge.
#[derive(Debug)]
pub struct Snapshots {
    layout: Images,
}

/// What a snapshot says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Whose application it is of.
    pub tenant: String,
    /// The application.
    pub application: String,
    /// When it was taken, in s since 1970 UTC.
    pub created_s: i64,
    /// Whether by its schedule, and not by hand.
    pub is_scheduled: bool,
    /// A command that was run in the application before.
    pub hook: Option<String>,
    /// For how long the application stood still, in ms; `None`: none of it ran.
    pub paused_ms: Option<u64>,
    /// What its containers are made of.
    pub images: Vec<ImageOf>,
    /// Its volumes.
    pub volumes: Vec<VolumeOf>,
    /// Names of the Secrets that are sealed in it.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// What of the application is not in it, in words.
    pub left_out: Vec<String>,
}

/// What a container is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageOf {
    /// As the manifest names it.
    pub name: String,
    /// Of its manifest, which is in the snapshot with all that it refers to; `None`: only its name is.
    pub digest: Option<String>,
    /// What the Docker Engine called it that had it; `None`: the edge has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_id: Option<String>,
}

impl ImageOf {
    fn manifest(&self) -> Result<Option<Digest>, Error> {
        let wrong = |digest: &String| Error::Refused(format!("image {}: {digest:?} is no digest", self.name));
        let parse = |digest: &String| Digest::from_str(digest).map_err(|_| wrong(digest));
        self.digest.as_ref().map(parse).transpose()
    }
}

/// A volume in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeOf {
    /// Its claim.
    pub name: String,
    /// Of its archive.
    pub bytes: u64,
    /// Files, directories and links.
    pub entries: u64,
    /// So many of the snapshot's pieces, in the order of its volumes, are its archive.
    pub pieces: usize,
    /// Of its own directory.
    pub mode: u32,
    /// Of its own directory.
    pub uid: u32,
    /// Of its own directory.
    pub gid: u32,
}

/// A snapshot that is here.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its name, which no other of its tenant has.
    pub name: String,
    /// Whose it is.
    pub tenant: String,
    /// Of its manifest, by which it is the same wherever it is.
    pub digest: Digest,
    /// What it says of itself.
    pub about: About,
    /// Of all that it refers to.
    pub bytes: u64,
    /// Of what no other refers to.
    pub own_bytes: u64,
    manifest: ImageManifest,
}

/// Why something cannot be done with a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is none of this name.
    #[error("no snapshot {name:?} in tenant {tenant}; selvedge snapshot list")]
    Absent {
        /// Whose it would be.
        tenant: String,
        /// Its name.
        name: String,
    },
    /// There is one of this name.
    #[error("there is a snapshot {0:?} already, with something else in it; give this one another name")]
    Exists(String),
    /// A file of a volume is such that no snapshot has it.
    #[error("{path} {message}")]
    File {
        /// In its volume.
        path: String,
        /// What is so of it.
        message: String,
    },
    /// Something wrote to a volume that should have stood still.
    #[error("{0} was changed while it was read, though the application stood still: something else writes there")]
    Changed(String),
    /// It is more than it may be.
    #[error("{0}")]
    TooMuch(String),
    /// It cannot be restored so.
    #[error("{0}")]
    Refused(String),
    /// It cannot be restored without its passphrase.
    #[error(
        "snapshot {name} has Secrets sealed in it ({secrets}), and comes back only with the passphrase that it was taken with \
         (--passphrase-file FILE)"
    )]
    Sealed {
        /// Its name.
        name: String,
        /// Those of its Secrets.
        secrets: String,
    },
    /// Its Secrets cannot be opened.
    #[error("its Secrets: {0}")]
    Shut(seal::Broken),
    /// A volume could not be unpacked.
    #[error("volume {volume}: {source}")]
    Volume {
        /// Which.
        volume: String,
        /// What was wrong with it.
        source: unpack::Error,
    },
    /// Of the layout.
    #[error(transparent)]
    Store(#[from] store::Error),
}

impl Error {
    fn of(path: &Path, source: io::Error) -> Self {
        at(path)(source).into()
    }

    fn file(path: &str, message: &str) -> Self {
        Error::File {
            path: path.to_owned(),
            message: message.to_owned(),
        }
    }
}

impl Snapshots {
    /// Those of the data directory `data`. What an earlier program left half done goes, unless another is at work
    /// there.
    ///
    /// # Errors
    /// Of a file.
    pub fn open(data: &Path) -> Result<Self, Error> {
        let root = data.join("snapshots");
        // What applications keep is in there.
        let made = std::os::unix::fs::DirBuilderExt::mode(fs::DirBuilder::new().recursive(true), 0o700).create(&root);
        made.map_err(at(&root))?;
        Ok(Snapshots {
            layout: Images::open(&root)?,
        })
    }

    /// Keeps what is there as it is until this is dropped.
    ///
    /// # Errors
    /// Of the lock's file.
    pub fn using(&self) -> Result<Using, Error> {
        Ok(self.layout.using()?)
    }

    /// All of them, of all tenants, the oldest first.
    ///
    /// # Errors
    /// Of a file.
    pub fn list(&self) -> Result<Vec<Kept>, Error> {
        let index = self.layout.read_index()?;
        let mut all = Vec::new();
        for entry in index.manifests() {
            let Some((name, tenant)) = annotation(entry, NAME).zip(annotation(entry, TENANT)) else {
                continue;
            };
            let manifest: ImageManifest = self.layout.document(entry.digest())?;
            all.push(Kept {
                name,
                tenant,
                digest: entry.digest().clone(),
                about: self.layout.document(manifest.config().digest())?,
                bytes: 0,
                own_bytes: 0,
                manifest,
            });
        }
        let mut users: HashMap<Digest, usize> = HashMap::new();
        for blobs in all.iter().map(Kept::blobs) {
            blobs.into_keys().for_each(|blob| *users.entry(blob).or_default() += 1);
        }
        for kept in &mut all {
            for (blob, bytes) in kept.blobs() {
                kept.bytes += bytes;
                kept.own_bytes += if users[&blob] == 1 { bytes } else { 0 };
            }
        }
        // Of one second, as they came.
        all.sort_by_key(|kept| kept.about.created_s);
        Ok(all)
    }

    /// The one of this name of a tenant.
    ///
    /// # Errors
    /// There is none, or of a file.
    pub fn find(&self, tenant: &str, name: &str) -> Result<Kept, Error> {
        let found = self
            .list()?
            .into_iter()
            .find(|kept| kept.tenant == tenant && kept.name == name);
        found.ok_or_else(|| Error::Absent {
            tenant: tenant.to_owned(),
            name: name.to_owned(),
        })
    }

    /// A name that no snapshot of a tenant has: this one, or with a number behind it.
    ///
    /// # Errors
    /// Of a file.
    pub fn free_name(&self, tenant: &str, name: &str) -> Result<String, Error> {
        let all = self.list()?;
        let is_free = |name: &String| all.iter().all(|kept| kept.tenant != tenant || kept.name != *name);
        let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
        let free = [name.to_owned()].into_iter().chain(numbered).find(is_free);
        Ok(free.expect("there are more numbers than snapshots"))
    }

    /// Its manifests, as YAML.
    ///
    /// # Errors
    /// They are not there, or not what they were.
    pub fn manifests(&self, kept: &Kept) -> Result<String, Error> {
        let described = kept.manifest.layers().iter().find(|layer| is_a(layer, MANIFESTS));
        let described =
            described.ok_or_else(|| Error::Refused(format!("{}: there is no manifest in it", kept.name)))?;
        let path = self.layout.blob_path(described.digest())?;
        let mut text = String::new();
        let file = fs::File::open(&path).map_err(at(&path))?;
        let read = file.take(MANIFESTS_BYTES_MAX + 1).read_to_string(&mut text);
        match read.map_err(at(&path))? as u64 > MANIFESTS_BYTES_MAX {
            true => Err(Error::TooMuch(format!(
                "{}: its manifests have more than {MANIFESTS_BYTES_MAX} bytes",
                kept.name
            ))),
            false => Ok(text),
        }
    }

    /// Removes one; what no other refers to goes with it, unless something is being taken in or given out: then with
    /// the next that is removed.
    ///
    /// # Errors
    /// There is none, or of a file.
    pub fn remove(&self, tenant: &str, name: &str) -> Result<(), Error> {
        self.find(tenant, name)?;
        self.layout.change_index(|manifests| {
            let is_meant = |entry: &Descriptor| {
                annotation(entry, NAME).as_deref() == Some(name) && annotation(entry, TENANT).as_deref() == Some(tenant)
            };
            manifests.retain(|entry| !is_meant(entry));
        })?;
        self.collect()
    }

    fn collect(&self) -> Result<(), Error> {
        if let Some(_alone) = self.layout.alone()? {
            let mut kept = HashSet::new();
            for snapshot in self.list()? {
                for blob in snapshot.blobs().into_keys() {
                    kept.insert(self.layout.blob_path(&blob)?);
                }
            }
            remove_others(&self.layout.blobs(), &kept)?;
        }
        Ok(())
    }

    /// Of all that is kept of a tenant, in bytes. What it has in common with others counts for each.
    ///
    /// # Errors
    /// Of a file.
    pub fn bytes_of(&self, tenant: &str) -> Result<u64, Error> {
        let all = self.list()?;
        Ok(bytes_of(all.iter().filter(|kept| kept.tenant == tenant)))
    }

    /// Removes those that were scheduled beyond the last `keep` of their application, or, where all of a tenant take more
    /// than `bytes_max`, the oldest of them, but for the last one of each application; their names.
    ///
    /// # Errors
    /// Of a file.
    pub fn prune(&self, keep: impl Fn(&About) -> Option<usize>, bytes_max: Option<u64>) -> Result<Vec<String>, Error> {
        let all = self.list()?;
        let mut going: Vec<&Kept> = Vec::new();
        let mut newer: HashMap<(&str, &str), usize> = HashMap::new();
        let mut spare: Vec<&Kept> = Vec::new();
        for kept in all.iter().rev().filter(|kept| kept.about.is_scheduled) {
            let newer = newer.entry((&kept.tenant, &kept.about.application)).or_default();
            match keep(&kept.about) {
                Some(keep) if *newer >= keep.max(1) => going.push(kept),
                _ if *newer > 0 => spare.push(kept),
                _ => {}
            }
            *newer += 1;
        }
        let mut gone = Vec::new();
        let mut left: Vec<&Kept> = all.iter().collect();
        let mut remove = |kept: &Kept, left: &mut Vec<&Kept>| {
            left.retain(|other| (&other.tenant, &other.name) != (&kept.tenant, &kept.name));
            gone.push(kept.name.clone());
            self.remove(&kept.tenant, &kept.name)
        };
        for kept in going {
            remove(kept, &mut left)?;
        }
        for oldest in spare.into_iter().rev() {
            let own = left.iter().filter(|kept| kept.tenant == oldest.tenant);
            if bytes_max.is_some_and(|most| bytes_of(own.copied()) > most) {
                remove(oldest, &mut left)?;
            }
        }
        Ok(gone)
    }

    fn seen_at(&self, tenant: &str, volume: &str) -> PathBuf {
        self.layout.root().join(SEEN).join(format!("{tenant}+{volume}.json"))
    }

    /// Gives a snapshot its name, once all that it refers to is on disk.
    fn enter(&self, name: &str, tenant: &str, about: &About, manifest: (Digest, u64)) -> Result<(), Error> {
        let mut exists = false;
        self.layout.change_index(|manifests| {
            exists = manifests.iter().any(|other| {
                annotation(other, NAME).as_deref() == Some(name) && annotation(other, TENANT).as_deref() == Some(tenant)
            });
            if exists {
                return;
            }
            let (digest, bytes) = manifest;
            let mut entry = Descriptor::new(MediaType::ImageManifest, bytes, digest);
            entry.set_artifact_type(Some(ARTIFACT.into()));
            entry.set_annotations(Some(annotations(name, tenant, about)));
            manifests.push(entry);
        })?;
        match exists {
            true => Err(Error::Exists(name.to_owned())),
            false => Ok(()),
        }
    }
}

impl Kept {
    /// All that it is made of, each once, with its bytes.
    fn blobs(&self) -> HashMap<Digest, u64> {
        let described = self.manifest.layers().iter().chain([self.manifest.config()]);
        let described = described.map(|layer| (layer.digest().clone(), layer.size()));
        // What its manifest has is counted as nothing: it is no more than its list.
        described.chain([(self.digest.clone(), 0)]).collect()
    }
}

/// Of all that these refer to.
fn bytes_of<'a>(snapshots: impl Iterator<Item = &'a Kept>) -> u64 {
    let blobs: HashMap<Digest, u64> = snapshots.flat_map(Kept::blobs).collect();
    blobs.values().sum()
}

fn annotations(name: &str, tenant: &str, about: &About) -> HashMap<String, String> {
    let created =
        time::OffsetDateTime::from_unix_timestamp(about.created_s).unwrap_or(time::OffsetDateTime::UNIX_EPOCH);
    let created = created
        .format(&time::format_description::well_known::Rfc3339)
        .unwrap_or_default();
    let all = [
        (NAME, name),
        (CREATED, &*created),
        (TENANT, tenant),
        (APPLICATION, &about.application),
    ];
    all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

fn annotation(entry: &Descriptor, key: &str) -> Option<String> {
    entry.annotations().as_ref()?.get(key).cloned()
}

fn is_a(layer: &Descriptor, media_type: &str) -> bool {
    layer.media_type().to_string() == media_type
}

#[cfg(test)]
mod tests;
