//! The edge's link to its cloud, as the configuration asks for it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use hub::Hub;
use link::edge::{LinkStatus, Login, Options};

use super::config::Link;

/// Runs the link on a thread of its own: what it does never waits for a door.
pub(super) fn start(link: &Link, hub: &Arc<Hub>, status: Arc<LinkStatus>) -> anyhow::Result<()> {
    let options = options(link)?;
    let outbox = hub.take_outbox().expect("the hub has one where there is a link");
    let hub = Arc::clone(hub);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("starting tokio")?;
    let run = move || runtime.block_on(link::edge::run(options, hub, outbox, status));
    std::thread::Builder::new().name("link".to_owned()).spawn(run)?;
    Ok(())
}

fn options(link: &Link) -> anyhow::Result<Options> {
    let url = link.url.parse().with_context(|| format!("link.url {:?}", link.url))?;
    let password = match link.password_file.as_os_str().is_empty() {
        true => None,
        false => Some(read(&link.password_file)?),
    };
    let login = password.map(|password| Login {
        user_name: link.user_name.clone(),
        password: password.trim_ascii_end().to_vec(),
    });
    let tls = identity::client_config(&link.ca).map_err(|error| anyhow!("link.ca: {error}"))?;
    Ok(Options {
        url,
        edge: link.user_name.as_str().into(),
        login,
        tls,
    })
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}
