//! What runs an edge's applications.

use std::fs::DirBuilder;
use std::net::SocketAddrV4;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use agent::engine;
use agent::image::store::Images;
use agent::local::Local;
use agent::network::Network;
use agent::runtimes::Runtimes;
use agent::supervise::{Salt, Supervisor};
use anyhow::Context;
use mesh::Mesh;

use crate::registries::registries;

/// This very program, though its file may have been replaced since it started.
const SHIM: &str = "/proc/self/exe";

/// What runs an edge's applications, and leads requests to them.
pub(super) struct Applications {
    pub(super) supervisor: Arc<Mutex<Supervisor>>,
    pub(super) mesh: Mesh,
}

/// Over the containers of the data directory `data`, whoever started them; they reach the edge's `doors`.
pub(super) async fn applications(data: &Path, doors: Vec<SocketAddrV4>) -> anyhow::Result<Applications> {
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
    let network = Network::new(&data.join("containers.network"), doors);
    if let Err(error) = network.resume() {
        tracing::error!(%error, "the network of containers is not as it was");
    }
    let local = Local::new(
        &containers,
        &data.join("volumes"),
        network.clone(),
        registries(images),
        Path::new(SHIM),
        &prefix,
    );
    let runtimes = Runtimes::new(local, &engine::socket());
    let supervisor = Supervisor::new(Arc::new(runtimes), salt, &data.join("containers.good")).await;
    let supervisor = Arc::new(Mutex::new(
        supervisor.with_context(|| containers.display().to_string())?,
    ));
    Ok(Applications {
        mesh: Mesh::new(Arc::clone(&supervisor), network),
        supervisor,
    })
}
