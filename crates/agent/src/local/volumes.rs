//! What containers keep their files in.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use manifest::workload::HostPathType;

use super::{bundle, names_in, readable};
use crate::image::store::bytes_below;
use crate::instance::{Bind, Instance};
use crate::runtime::{Error, Launch, Mount, Pod, Volume, VolumeFile};
use crate::shim::boot_id;
use crate::tree::remove_tree;

/// What is there until it is removed by hand, below the directory of all.
const KEPT: &str = "kept";
/// What goes with its pod.
const SCRATCH: &str = "scratch";
/// Of a volume's own directory: any user of its containers may write.
const OPEN: u32 = 0o777;
/// What has not its name yet begins so.
pub(crate) const NEW: &str = ".new-";
/// Set-group-ID.
const OF_GROUP: u32 = 0o2000;
/// Of those that lead there: nobody of the host but who runs the agent.
const CLOSED: u32 = 0o700;

/// The volumes of one edge.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    root: PathBuf,
}

impl Volumes {
    pub(super) fn at(root: &Path) -> Self {
        Volumes { root: root.to_owned() }
    }

    /// What a container sees of the host's files. Its directory is there, and has the files that it is given.
    pub(crate) fn binds(&self, launch: &Launch, directory: &Path) -> Result<Vec<Bind>, Error> {
        let mut binds = Vec::new();
        for (number, mount) in launch.mounts.iter().enumerate() {
            let source = match &mount.volume {
                Volume::Memory { .. } => continue,
                Volume::Scratch(name) => made_open(self.scratch(&launch.pod).join(name), launch.volumes_gid),
                Volume::Kept(name) => made_open(self.kept(&launch.pod.tenant).join(name), launch.volumes_gid),
                Volume::Host { path, kind } => there(path, *kind).map(|()| path.clone()),
                Volume::Files(files) => {
                    let place = directory.join("files").join(number.to_string());
                    written(&place, files, launch.volumes_gid).map(|()| place)
                }
                Volume::Login(path) => Ok(path.clone()),
            };
            let source = source.map_err(|(path, error)| Error::Volume {
                path,
                message: error.to_string(),
            })?;
            let Mount {
                path,
                sub_path,
                is_read_only,
                ..
            } = mount;
            binds.push(Bind {
                source,
                sub_path: sub_path.clone(),
                target: path.clone(),
                is_read_only: *is_read_only,
                is_for_all: matches!(mount.volume, Volume::Login(_)),
            });
        }
        Ok(binds)
    }

    pub(super) fn clear(&self, tenant: &str, application: &str, kept: &BTreeSet<u32>) -> io::Result<()> {
        let scratch = self.scratch_of(tenant, application);
        let entries = match fs::read_dir(&scratch) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let replica = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            if replica.is_none_or(|replica| !kept.contains(&replica)) {
                remove_tree(&entry.path())?;
            }
        }
        match kept.is_empty() {
            true => fs::remove_dir(scratch),
            false => Ok(()),
        }
    }

    pub(super) fn scratch(&self, pod: &Pod) -> PathBuf {
        self.scratch_of(&pod.tenant, &pod.application)
            .join(pod.replica.to_string())
    }

    fn scratch_of(&self, tenant: &str, application: &str) -> PathBuf {
        self.root.join(SCRATCH).join(tenant).join(application)
    }

    pub(super) fn kept(&self, tenant: &str) -> PathBuf {
        self.root.join(KEPT).join(tenant)
    }
}

/// A volume that is kept until it is removed by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whose it is.
    pub tenant: String,
    /// Its name.
    pub name: String,
    /// Bytes of its files.
    pub bytes: u64,
    /// Whether a container has it.
    pub is_in_use: bool,
}

/// Those in the directory `volumes` that are kept, of all tenants, by their names; `containers` may have them.
///
/// # Errors
/// Of a file.
pub fn kept(volumes: &Path, containers: &Path) -> io::Result<Vec<Kept>> {
    let in_use = sources_in_use(containers)?;
    let mut all = Vec::new();
    for tenant in names_in(&volumes.join(KEPT))? {
        let directory = volumes.join(KEPT).join(&tenant);
        for name in names_in(&directory)?.into_iter().filter(|name| !name.starts_with(NEW)) {
            let path = directory.join(&name);
            all.push(Kept {
                tenant: tenant.clone(),
                bytes: bytes_below(&path)?,
                is_in_use: in_use.contains(&path),
                name,
            });
        }
    }
    Ok(all)
}

/// The directory of one that is kept, whether it is there or not.
pub(crate) fn kept_at(volumes: &Path, tenant: &str, name: &str) -> PathBuf {
    volumes.join(KEPT).join(tenant).join(name)
}

/// Whether a container has one that is kept. `may_start`: an agent runs, which may start again what has ended.
///
/// # Errors
/// Of a file.
pub fn is_in_use(volumes: &Path, containers: &Path, tenant: &str, name: &str, may_start: bool) -> io::Result<bool> {
    let path = kept_at(volumes, tenant, name);
    for name in names_in(containers)? {
        let instance = Instance::at(&containers.join(name));
        let has = binds_of(&instance)?.iter().any(|bind| bind.source == path);
        if has && (may_start || !is_over(&instance)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a container of a shim has ended, or the host was off since it was started.
fn is_over(instance: &Instance) -> io::Result<bool> {
    let boot_id = boot_id()?;
    let is_of_before = readable(instance.started())?.is_some_and(|started| started.boot_id != boot_id);
    Ok(is_of_before || readable(instance.ended())?.is_some())
}

/// Removes what somebody was killed over who made a volume; nobody makes one meanwhile.
///
/// # Errors
/// Of a file.
pub fn remove_unfinished(volumes: &Path) -> io::Result<()> {
    for tenant in names_in(&volumes.join(KEPT))? {
        for name in names_in(&volumes.join(KEPT).join(&tenant))? {
            if name.starts_with(NEW) {
                remove_tree(&kept_at(volumes, &tenant, &name))?;
            }
        }
    }
    Ok(())
}

/// Removes one that is kept, with all that is in it; whether there was one.
///
/// # Errors
/// `ResourceBusy`: a container has it; or of a file.
pub fn remove(volumes: &Path, containers: &Path, tenant: &str, name: &str) -> io::Result<bool> {
    let path = volumes.join(KEPT).join(tenant).join(name);
    if sources_in_use(containers)?.contains(&path) {
        let message = "a container has it; delete its application first";
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
    }
    match remove_tree(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn sources_in_use(containers: &Path) -> io::Result<HashSet<PathBuf>> {
    let mut sources = HashSet::new();
    for name in names_in(containers)? {
        let binds = binds_of(&Instance::at(&containers.join(name)))?;
        sources.extend(binds.into_iter().map(|bind| bind.source));
    }
    Ok(sources)
}

/// Of a container of an image, whatever runs it.
fn binds_of(instance: &Instance) -> io::Result<Vec<Bind>> {
    let bundle = bundle(instance)?;
    let in_engine = readable(instance.in_engine())?;
    let of_engine = in_engine.into_iter().flat_map(|container| container.binds);
    Ok(bundle
        .into_iter()
        .flat_map(|bundle| bundle.binds)
        .chain(of_engine)
        .collect())
}

type Failed = (PathBuf, io::Error);

fn at(path: &Path) -> impl FnOnce(io::Error) -> Failed {
    let path = path.to_owned();
    move |error| (path, error)
}

/// The directory, which is made where it is not there; what is made in it is of its group.
fn made_open(path: PathBuf, gid: Option<u32>) -> Result<PathBuf, Failed> {
    if path.is_dir() {
        return Ok(path);
    }
    let parent = path.parent().expect("it is below the root");
    let made = DirBuilder::new().recursive(true).mode(CLOSED).create(parent);
    made.map_err(at(parent))?;
    // It has its name once it is as it has to be; another container of the pod may make it at the same time.
    let new = parent.join(format!("{NEW}{:016x}", rand::random::<u64>()));
    let made = fs::create_dir(&new).and_then(|()| {
        // Whatever the mask of the process is.
        let mode = if gid.is_some() { OPEN | OF_GROUP } else { OPEN };
        std::os::unix::fs::chown(&new, None, gid)?;
        fs::set_permissions(&new, Permissions::from_mode(mode))?;
        fs::rename(&new, &path)
    });
    match made {
        Err(error) if !path.is_dir() => {
            let _ = fs::remove_dir(&new);
            Err(at(&path)(error))
        }
        Err(_) => {
            let _ = fs::remove_dir(&new);
            Ok(path)
        }
        Ok(()) => Ok(path),
    }
}

/// Whether the host has there what is wanted; makes it where it may.
fn there(path: &Path, kind: HostPathType) -> Result<(), Failed> {
    let about = match path.metadata() {
        Ok(about) => Some(about.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(at(path)(error)),
    };
    let (is_right, what) = match (kind, about) {
        (HostPathType::Any, Some(_)) => return Ok(()),
        (HostPathType::Any, None) => (
            false,
            "nothing there; write type: DirectoryOrCreate to have a directory made",
        ),
        (HostPathType::DirectoryOrCreate, None) => return fs::create_dir_all(path).map_err(at(path)),
        (HostPathType::FileOrCreate, None) => {
            return File::create_new(path).map(drop).map_err(at(path));
        }
        (HostPathType::DirectoryOrCreate | HostPathType::Directory, kind) => {
            (kind.is_some_and(|kind| kind.is_dir()), "no directory")
        }
        (HostPathType::FileOrCreate | HostPathType::File, kind) => (kind.is_some_and(|kind| kind.is_file()), "no file"),
        (HostPathType::Socket, kind) => (kind.is_some_and(|kind| kind.is_socket()), "no socket"),
        (HostPathType::CharDevice, kind) => (kind.is_some_and(|kind| kind.is_char_device()), "no character device"),
        (HostPathType::BlockDevice, kind) => (kind.is_some_and(|kind| kind.is_block_device()), "no block device"),
    };
    match is_right {
        true => Ok(()),
        false => Err(at(path)(io::Error::other(format!("the host has {what}")))),
    }
}

/// Who is in the group reads them as their owner does, as in Kubernetes.
fn written(place: &Path, files: &[VolumeFile], gid: Option<u32>) -> Result<(), Failed> {
    let make = |directory: &Path| {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(directory);
        made.map_err(at(directory))
    };
    make(place)?;
    for VolumeFile { path, content, mode } in files {
        let path = place.join(path);
        make(path.parent().expect("it is below its volume"))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        file.and_then(|mut file| {
            file.write_all(content)?;
            let of_group = gid.map_or(0, |_| (mode & 0o400) >> 3);
            std::os::unix::fs::fchown(&file, None, gid)?;
            file.set_permissions(Permissions::from_mode(mode | of_group))
        })
        .map_err(at(&path))?;
    }
    Ok(())
}
