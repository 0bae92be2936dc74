//! The edge's link to its cloud, as the configuration asks for it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use hub::Hub;
use identity::ClientPair;
use link::edge::{LinkStatus, Login, Options, Proxies};

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
    let password = given(&link.password_file).map(read).transpose()?;
    let login = password.map(|password| Login {
        user_name: link.user_name.clone(),
        password: password.trim_ascii_end().to_vec(),
    });
    let proxies = match &*link.proxy {
        "" => Proxies::of_environment(),
        url => Proxies::always(url).context("link.proxy")?,
    };
    let pair = given(&link.certificate).map(|certificate| ClientPair {
        certificate,
        key: &link.key,
    });
    let tls = identity::client_config(given(&link.ca), pair);
    Ok(Options {
        target: link.url.parse().context("link.url")?,
        proxies,
        edge: link.user_name.as_str().into(),
        login,
        tls: tls.map_err(|error| anyhow!("TLS of the link: {error}"))?,
    })
}

/// Unless it is empty.
fn given(path: &Path) -> Option<&Path> {
    (!path.as_os_str().is_empty()).then_some(path)
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| path.display().to_string())
}
