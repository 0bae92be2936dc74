//! What runs an edge's applications.

use std::fs::DirBuilder;
use std::net::SocketAddrV4;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use agent::engine;
use agent::image::store::Images;
use agent::local::{Local, volumes};
use agent::logins::{Issuer, Logins};
use agent::network::{self, HostRules, Network};
use agent::runtimes::Runtimes;
use agent::snapshot::Snapshots;
use agent::sockets::Sockets;
use agent::supervise::{Salt, Supervisor};
use anyhow::Context;
use mesh::Mesh;

use crate::registries::registries;

/// This very program, though its file may have been replaced since it started.
const SHIM: &str = "/proc/self/exe";
/// Gone when the host is switched off.
const IN_MEMORY: &str = "/run/selvedge";

/// What runs an edge's applications, and leads requests to them.
pub(super) struct Applications {
    pub(super) supervisor: Arc<Mutex<Supervisor>>,
    pub(super) mesh: Mesh,
    pub(super) logins: Logins,
}

/// Over the containers of the data directory `data`, whoever started them; they reach the edge's `doors`, and log in by
/// what the `issuer` gives them.
pub(super) async fn applications(
    data: &Path,
    doors: Vec<SocketAddrV4>,
    issuer: Arc<dyn Issuer>,
) -> anyhow::Result<Applications> {
    // A shim is in no directory but the root.
    let data = std::path::absolute(data).with_context(|| data.display().to_string())?;
    let containers = data.join("containers");
    // What is secret in an environment is in the files of its container.
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&containers);
    made.with_context(|| containers.display().to_string())?;
    let kept = data.join("containers.salt");
    let salt = Salt::kept_at(&kept).with_context(|| kept.display().to_string())?;
    let images = Images::open(&data.join("images"))?;
    // What somebody who restored them was killed over.
    let volumes = data.join("volumes");
    volumes::remove_unfinished(&volumes).with_context(|| volumes.display().to_string())?;
    if data.join("snapshots").exists() {
        Snapshots::open(&data)?;
    }
    let prefix = format!("{}-", salt.tag());
    let network = Network::new(&data.join("containers.network"), doors);
    if let Err(error) = network.resume() {
        tracing::error!(%error, "the network of containers is not as it was");
    }
    let host = HostRules::new(&data.join("containers.host"));
    if let Err(error) = host.resume() {
        tracing::error!(%error, "calls of the host are not led to its programs as they were");
    }
    let sockets = Sockets::new(&data.join("sockets"), &containers);
    tokio::spawn(network::watch(network.clone(), host.clone()));
    let local = Local::new(
        &containers,
        &volumes,
        network.clone(),
        registries(images),
        sockets.clone(),
        Path::new(SHIM),
        &prefix,
    );
    let logins = logins(&data, &salt.tag(), issuer)?;
    logins.forget_others(&containers)?;
    let runtimes = Runtimes::new(local, &engine::socket(), logins.clone());
    let (histories, logs) = (data.join("containers.good"), data.join("containers.logs"));
    let supervisor = Supervisor::new(Arc::new(runtimes), salt, &histories, &logs).await;
    let supervisor = Arc::new(Mutex::new(
        supervisor.with_context(|| containers.display().to_string())?,
    ));
    Ok(Applications {
        mesh: Mesh::new(Arc::clone(&supervisor), network, host, sockets),
        supervisor,
        logins,
    })
}

/// In memory, where programs come to their own that run as another user than the edge; where that may not be written,
/// in the data directory.
fn logins(data: &Path, tag: &str, issuer: Arc<dyn Issuer>) -> anyhow::Result<Logins> {
    let in_memory = Path::new(IN_MEMORY).join(tag);
    Logins::at(&in_memory, Arc::clone(&issuer)).or_else(|_| {
        let kept = data.join("containers.logins");
        Logins::at(&kept, issuer).with_context(|| kept.display().to_string())
    })
}
