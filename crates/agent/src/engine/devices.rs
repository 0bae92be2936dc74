//! Devices of the host for containers of an engine.

use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;

use crate::local::bundle::device_of_host;
use crate::runtime::Error;

/// Of an instance: nodes that only the engine looks at.
const NODES: &str = "devices";

/// A device that a container is given.
pub(super) struct Device {
    /// Where the engine finds out what it is and who may use it.
    pub(super) node: PathBuf,
    /// In the container, as on the host.
    pub(super) path: PathBuf,
}

/// Those of these names, for any user of the container: it has the rights of a node, so each has a node of its own in
/// the `directory` of its instance. An agent that is not root can make none, and the host's rights are the container's.
pub(super) fn of(names: &[String], directory: &Path) -> Result<Vec<Device>, Error> {
    let nodes = directory.join(NODES);
    if !names.is_empty() {
        fs::DirBuilder::new().mode(0o700).create(&nodes)?;
    }
    let device = |name: &String| {
        let (path, about) = device_of_host(name).map_err(Error::Engine)?;
        let kind = match about.file_type().is_block_device() {
            true => FileType::BlockDevice,
            false => FileType::CharacterDevice,
        };
        let node = nodes.join(name);
        let node = match mknodat(CWD, &node, kind, Mode::empty(), about.rdev()) {
            Ok(()) => {
                fs::set_permissions(&node, Permissions::from_mode(0o666))?;
                node
            }
            Err(Errno::PERM) => path.clone(),
            Err(errno) => return Err(Error::Io(errno.into())),
        };
        Ok(Device { node, path })
    };
    names.iter().map(device).collect()
}
