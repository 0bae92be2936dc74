//! `kind: ConfigMap` and `kind: Secret`: values that applications are given.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Metadata, is_default};

/// Values that anybody may see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMap {
    /// Its name and its tenant.
    pub metadata: Metadata,
    /// Texts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// Bytes, in Base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub binary_data: BTreeMap<String, String>,
    /// It is not changed any more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub immutable: bool,
}

/// Values that nobody sees but who is given them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Its name and its tenant.
    pub metadata: Metadata,
    /// What is in it, such as `kubernetes.io/dockerconfigjson`.
    #[serde(default = "opaque", rename = "type")]
    pub kind: String,
    /// Bytes, in Base64.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub data: BTreeMap<String, String>,
    /// Texts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub string_data: BTreeMap<String, String>,
    /// It is not changed any more.
    #[serde(default, skip_serializing_if = "is_default")]
    pub immutable: bool,
}

fn opaque() -> String {
    "Opaque".to_owned()
}

/// Without its values.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("metadata", &self.metadata)
            .field("kind", &self.kind)
            .field(
                "keys",
                &self.data.keys().chain(self.string_data.keys()).collect::<Vec<_>>(),
            )
            .finish_non_exhaustive()
    }
}
