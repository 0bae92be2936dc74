//! Where a database lies.

use std::path::PathBuf;

use crate::error::Error;
use crate::postgres::Server;

/// A parsed database URL.
pub(crate) enum Location {
    Sqlite(PathBuf),
    /// Boxed: a configuration is large.
    Postgres(Box<Server>),
}

impl Location {
    /// Reads `sqlite:PATH`, `postgres://…` or `postgresql://…`.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        if let Some(path) = url.strip_prefix("sqlite:").filter(|path| !path.is_empty()) {
            return Ok(Location::Sqlite(path.into()));
        }
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(refusal(url, "unknown kind of database".to_owned()));
        }
        let server = Server::parse(url).map_err(|rule| refusal(url, rule))?;
        Ok(Location::Postgres(Box::new(server)))
    }
}

fn refusal(url: &str, rule: String) -> Error {
    // A password stands between the first ':' behind "//" and the last '@', or behind `password=`.
    let shown = match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_owned(),
    };
    let shown = shown
        .split_once("password=")
        .map_or(shown.clone(), |(before, _)| format!("{before}password=…"));
    Error::Location { shown, rule }
}
