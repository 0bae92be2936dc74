//! What runs an edge's applications.

use std::fs::DirBuilder;
use std::net::SocketAddrV4;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use agent::image::store::Images;
use agent::local::Local;
use agent::network::Network;
use agent::supervise::{Salt, Supervisor};
use anyhow::Context;

use crate::registries::registries;

/// This very program, though its file may have been replaced since it started.
const SHIM: &str = "/proc/self/exe";

/// Over the containers of the data directory `data`, whoever started them; they reach the edge's `doors`.
pub(super) async fn supervisor(data: &Path, doors: Vec<SocketAddrV4>) -> anyhow::Result<Supervisor> {
    // A shim is in no directory but the root.
    let data = std::path::absolute(data).with_context(|| data.display().to_string())?;
    let containers = data.join("containers");
    // What is secret in an environment is in the files of its container.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&containers);
    made.with_context(|| containers.display().to_string())?;
    let kept = data.join("containers.salt");
    let salt = Salt::kept_at(&kept).with_context(|| kept.display().to_string())?;
    let images = Images::open(&data.join("images"))?;
    let prefix = format!("{}-", salt.tag());
    let local = Local::new(
        &containers,
        &data.join("volumes"),
        Network::new(&data.join("containers.network"), doors),
        registries(images),
        Path::new(SHIM),
        &prefix,
    );
    let supervisor = Supervisor::new(Arc::new(local), salt).await;
    supervisor.with_context(|| containers.display().to_string())
}
