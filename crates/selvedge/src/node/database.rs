//! The cloud's database, as the configuration names it.

use anyhow::Context;
use cloud::Database;

use super::config::Config;

/// The file of the embedded database, in the data directory.
const FILE: &str = "telemetry.db";

/// Where the database is: the embedded one in the data directory, unless another is named.
pub(super) fn url(config: &Config) -> String {
    match config.database.url.as_str() {
        "" => format!("sqlite:{}", config.data.join(FILE).display()),
        url => url.to_owned(),
    }
}

/// Opens the database, which blocks, on a thread for that.
pub(super) async fn open(config: &Config) -> anyhow::Result<Database> {
    let url = url(config);
    let opening = tokio::task::spawn_blocking(move || Database::open(&url));
    opening.await.context("opening the database")?.context("database.url")
}
