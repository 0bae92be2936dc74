//! The way to registries of images: TLS by whom this system believes, through a proxy where the environment names one.

use std::sync::Arc;
use std::time::Duration;

use agent::image::registry::{Connection, Dialing, Registries};
use agent::image::store::Images;
use link::edge::{Proxies, Target, connect};

/// Those that images come from which are not here.
pub(crate) fn registries(images: Images) -> Arc<Registries> {
    let dial = |url: &str, patience| -> Dialing { Box::pin(dial(url.to_owned(), patience)) };
    Arc::new(Registries::new(Arc::new(images), Arc::new(dial)))
}

async fn dial(url: String, patience: Duration) -> Result<Box<dyn Connection>, String> {
    let target = Target::https(&url).map_err(|error| error.to_string())?;
    // What the system believes may change while this runs.
    let tls = tokio::task::spawn_blocking(|| identity::client_config(None, None)).await;
    let tls = tls.expect("reading certificates does not panic");
    let tls = tls.map_err(|error| error.to_string())?;
    let stream = connect(&target, &Proxies::of_environment(), &tls, patience).await?;
    Ok(Box::new(stream))
}
