//! Which images an edge keeps: those that its applications need, and the others for as long as they may stay.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::image::retention::{Need, Policy, Pruned, Terms};
use agent::image::store::Images;
use agent::local;
use anyhow::Context;
use api::Manifests;
use tokio::time::{MissedTickBehavior, interval};

use crate::node::unix_now_s;

/// Between two looks at what nobody needs.
const INTERVAL: Duration = Duration::from_secs(3_600);

/// Removes by `policy` what nobody needs, now and from time to time, as long as the edge of the data directory `data`
/// runs.
pub(crate) fn keep(data: &Path, policy: Policy) -> anyhow::Result<()> {
    let data = std::path::absolute(data).with_context(|| data.display().to_string())?;
    tokio::spawn(async move {
        let mut looks = interval(INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            let data = data.clone();
            let pruning = tokio::task::spawn_blocking(move || log(prune(&data, policy, false)));
            pruning.await.expect("removing images does not panic");
        }
    });
    Ok(())
}

fn log(pruned: anyhow::Result<Option<Pruned>>) {
    match pruned {
        Ok(Some(Pruned { names, bytes })) if !names.is_empty() || bytes > 0 => {
            tracing::info!(images = names.join(" "), bytes, "images that nobody needs were removed");
        }
        // What is being taken in keeps all until the next look.
        Ok(_) => {}
        Err(error) => tracing::warn!("images that nobody needs were not removed: {error:#}"),
    }
}

/// Removes images of the data directory `data` by `policy`, or says what would go; `None`: some are being taken in.
pub(crate) fn prune(data: &Path, policy: Policy, is_dry_run: bool) -> anyhow::Result<Option<Pruned>> {
    let terms = Terms {
        policy,
        now_s: unix_now_s(),
        is_dry_run,
    };
    let images = Images::open(&data.join("images"))?;
    Ok(local::prune_images(&images, &containers(data), &terms, || needs(data))?)
}

/// The images that the applications of an edge need, by their manifests and their last good versions.
pub(crate) fn needs(data: &Path) -> io::Result<Vec<Need>> {
    let mut needs = Manifests::new(data).needs()?;
    needs.extend(agent::supervise::needs(&data.join("containers.good"))?);
    Ok(needs)
}

/// Where the files of its containers are.
pub(crate) fn containers(data: &Path) -> PathBuf {
    data.join("containers")
}
