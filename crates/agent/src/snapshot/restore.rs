//! Volumes and images of a snapshot come back.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use oci_spec::image::ImageManifest;
use rustix::fs::{CWD, RenameFlags, renameat_with, statvfs};

use super::pieces::{Joined, Piece};
use super::{Error, Kept, PIECE, Snapshots, VolumeOf, is_a};
use crate::image::store::{Images, at, sync_directory};
use crate::image::unpack::{Bounds, unpack_files};
use crate::local::volumes::{NEW, is_in_use, kept_at};
use crate::tree::remove_tree;

/// Of the disk, left to others.
const SPARE_BYTES: u64 = 64 << 20;

/// Where a volume comes back.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The directory of volumes.
    pub volumes: &'a Path,
    /// The directory of containers, which may have it.
    pub containers: &'a Path,
    /// Whose it is.
    pub tenant: &'a str,
    /// Its claim.
    pub name: &'a str,
    /// It may have something in it, which goes.
    pub is_forced: bool,
    /// An agent runs, which may start again a container that has ended.
    pub may_start: bool,
}

impl Target<'_> {
    fn path(&self) -> PathBuf {
        kept_at(self.volumes, self.tenant, self.name)
    }

    /// Refuses one that something is in.
    ///
    /// # Errors
    /// Why it is refused; or of a file.
    pub fn check_content(&self) -> Result<(), Error> {
        let path = self.path();
        if !self.is_forced && path.is_dir() && fs::read_dir(&path).map_err(at(&path))?.next().is_some() {
            return Err(Error::Refused(format!(
                "volume {} has something in it, which would go: --force replaces it, and --as OTHER restores beside it",
                self.name
            )));
        }
        Ok(())
    }

    /// Whether a container has it.
    ///
    /// # Errors
    /// Of a file.
    pub fn is_in_use(&self) -> Result<bool, Error> {
        let Target {
            volumes,
            containers,
            tenant,
            name,
            may_start,
            ..
        } = *self;
        Ok(is_in_use(volumes, containers, tenant, name, may_start).map_err(at(containers))?)
    }

    /// Refuses one that something is in, or that a container has.
    fn check(&self) -> Result<(), Error> {
        self.check_content()?;
        match self.is_in_use()? {
            true => Err(Error::Refused(format!(
                "a container has volume {}; delete its application first",
                self.name
            ))),
            false => Ok(()),
        }
    }
}

impl Snapshots {
    /// Puts a volume of a snapshot in its place: all of it or nothing, also where this is killed.
    ///
    /// # Errors
    /// It is refused, not whole, or there is no room.
    pub fn restore_volume(&self, kept: &Kept, volume: &VolumeOf, target: &Target) -> Result<(), Error> {
        target.check()?;
        let path = target.path();
        let parent = path.parent().expect("a volume is below the tenant's directory");
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(parent);
        made.map_err(at(parent))?;
        let room = statvfs(parent).map_err(|errno| Error::of(parent, errno.into()))?;
        let free_bytes = room.f_bavail * room.f_frsize;
        if volume.bytes.saturating_add(SPARE_BYTES) > free_bytes
            && self.stored_bytes(kept, volume) + SPARE_BYTES > free_bytes
        {
            return Err(Error::Refused(format!(
                "volume {} takes up to {:.1} MB, and {:.1} MB of the disk are free",
                volume.name,
                volume.bytes as f64 / 1e6,
                free_bytes as f64 / 1e6
            )));
        }
        let new = parent.join(format!("{NEW}{:016x}", rand::random::<u64>()));
        fs::create_dir(&new).map_err(at(&new))?;
        let done = self.unpack(kept, volume, &new).and_then(|()| exchange(&new, &path));
        // What was there before, or what was half done.
        if new.exists() {
            let _ = remove_tree(&new);
        }
        done
    }

    fn pieces<'a>(&self, kept: &'a Kept, volume: &VolumeOf) -> impl Iterator<Item = Piece> + use<'a> {
        let before = kept.about.volumes.iter().take_while(|other| other.name != volume.name);
        let skipped: usize = before.map(|other| other.pieces).sum();
        let pieces = kept.manifest.layers().iter().filter(|layer| is_a(layer, PIECE));
        pieces.skip(skipped).take(volume.pieces).map(|layer| Piece {
            digest: layer.digest().to_string(),
            bytes: layer.size(),
        })
    }

    /// At least so many bytes it has: what is compressed well is mostly holes.
    fn stored_bytes(&self, kept: &Kept, volume: &VolumeOf) -> u64 {
        self.pieces(kept, volume).map(|piece| piece.bytes).sum()
    }

    fn unpack(&self, kept: &Kept, volume: &VolumeOf, into: &Path) -> Result<(), Error> {
        let archive = Joined::new(&self.layout, self.pieces(kept, volume));
        let bounds = Bounds {
            bytes: volume.bytes,
            entries: volume.entries.saturating_mul(2),
        };
        unpack_files(archive, into, bounds).map_err(|source| Error::Volume {
            volume: volume.name.clone(),
            source,
        })?;
        chown(into, Some(volume.uid), Some(volume.gid)).map_err(at(into))?;
        fs::set_permissions(into, Permissions::from_mode(volume.mode & 0o7777)).map_err(at(into))?;
        let directory = File::open(into).map_err(at(into))?;
        rustix::fs::syncfs(&directory).map_err(|errno| Error::of(into, errno.into()))
    }

    /// Has the images here that a snapshot carries, under the names that its manifests give them.
    ///
    /// # Errors
    /// One is not whole, or of a file.
    pub fn restore_images(&self, kept: &Kept, images: &Images) -> Result<(), Error> {
        let _using = images.using()?;
        for image in kept.about.images.iter().filter(|image| image.engine_id.is_none()) {
            let Some(digest) = image.manifest()? else { continue };
            let manifest: ImageManifest = self.layout.document(&digest)?;
            let mut bytes = 0;
            let blobs = manifest
                .layers()
                .iter()
                .chain([manifest.config()])
                .map(|blob| blob.digest());
            for blob in blobs.chain([&digest]) {
                let path = self.layout.blob_path(blob)?;
                let mut file = File::open(&path).map_err(at(&path))?;
                bytes = file.metadata().map_err(at(&path))?.len();
                if !images.has(blob) {
                    images.put(&mut file, Some(blob), bytes)?;
                }
            }
            images.name(&image.name, &digest, bytes)?;
        }
        Ok(())
    }
}

/// What is at `path` is at `new` afterwards, if anything was.
fn exchange(new: &Path, path: &Path) -> Result<(), Error> {
    let flags = match path.exists() {
        true => RenameFlags::EXCHANGE,
        false => RenameFlags::NOREPLACE,
    };
    renameat_with(CWD, new, CWD, path, flags).map_err(|errno| Error::of(path, errno.into()))?;
    Ok(sync_directory(path)?)
}
