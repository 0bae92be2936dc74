//! What containers keep their files in.

use serde::{Deserialize, Serialize};

use super::{Bytes, is_default};

/// A volume of an application, from exactly one of the sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Unique in its application.
    pub name: String,
    /// Empty at first, and gone with the application.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_dir: Option<EmptyDir>,
    /// A part of the host's files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<HostPath>,
    /// Of the tenant; made when it is first asked for, and kept until it is removed by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<ClaimSource>,
    /// Values of a ConfigMap as files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map: Option<ConfigMapSource>,
    /// Values of a Secret as files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<SecretSource>,
}

/// A directory that is empty at first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EmptyDir {
    /// In memory instead of on disk.
    #[serde(default, skip_serializing_if = "is_default")]
    pub medium: Medium,
    /// What it may hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_limit: Option<Bytes>,
}

/// Where an empty directory lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Medium {
    /// On disk.
    #[default]
    #[serde(rename = "")]
    Disk,
    /// In memory; it counts as the container's.
    Memory,
}

/// A part of the host's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPath {
    /// Absolute.
    pub path: String,
    /// What has to be there, or is made.
    #[serde(default, rename = "type", skip_serializing_if = "is_default")]
    pub kind: HostPathType,
}

/// What has to be at a path of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostPathType {
    /// Anything, or nothing.
    #[default]
    #[serde(rename = "")]
    Any,
    /// A directory, made where it is not there.
    DirectoryOrCreate,
    /// A directory.
    Directory,
    /// A file, made where it is not there.
    FileOrCreate,
    /// A file.
    File,
    /// A Unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// A persistent volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimSource {
    /// Its name.
    pub claim_name: String,
    /// Nothing can be changed in it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
}

/// Values of a ConfigMap as files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapSource {
    /// Of the ConfigMap.
    pub name: String,
    /// Those of its values that become files; all by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<KeyToPath>,
    /// Rights of the files, such as 0644 (octal) or 420.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<u32>,
    /// It need not be there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// Values of a Secret as files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretSource {
    /// Of the Secret.
    pub secret_name: String,
    /// Those of its values that become files; all by default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<KeyToPath>,
    /// Rights of the files, such as 0400 (octal) or 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_mode: Option<u32>,
    /// It need not be there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub optional: bool,
}

/// A value and the file that it becomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyToPath {
    /// Of the value.
    pub key: String,
    /// Below where the volume is mounted.
    pub path: String,
    /// Rights of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
}
